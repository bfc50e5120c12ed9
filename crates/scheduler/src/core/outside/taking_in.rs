//! Consecutive writes on a drive that reports them from its buffer.
//!
//! Some drives receive the data of a write while the write that it continues goes to the medium: they write both together,
//! without a revolution between. Others start it when the head is free, and the sector that passes then has no data yet: it
//! is written one revolution later. Only the time of a write's report shows the difference, because the head's work is
//! invisible. Until then a drive is assumed to be of the second kind.

use super::clock::difference;
use super::forecast::Standing;
use super::{NOISE, Order, Outside};
use model::DriveModel;
use units::{Instant, LbnRange};

/// The lead of consistent reports that decides, and the maximum that is remembered.
const ENOUGH: i8 = 4;
const MOST: i8 = 8;

/// The evidence from reports.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TakingIn {
    score: i8,
    believed: bool,
}

impl TakingIn {
    fn believe(&mut self, takes_in: bool) {
        self.score = (self.score + if takes_in { 1 } else { -1 }).clamp(-MOST, MOST);
        self.believed = if self.believed { self.score > -ENOUGH } else { self.score >= ENOUGH };
    }
}

impl Standing {
    /// Returns whether a write continues the cached write in progress.
    pub fn follows_reported(&self, range: LbnRange) -> bool {
        self.reported == Some(range.start())
    }
}

impl Outside {
    /// Records from a write's report whether its data were received beside the write in progress. The report decides about
    /// this write, whatever is assumed of others.
    pub(super) fn learn_taking_in(&mut self, drive: &DriveModel, heard: Instant, order: &Order) {
        if !self.known || !self.base.follows_reported(order.command.range) {
            return;
        }
        let [with, without] = [true, false]
            .map(|takes_in| self.follow(drive, &Standing { takes_in, ..self.base }, order).0.heard);
        let noise = self.clock.turn() / NOISE;
        let off = |foreseen| difference(heard, foreseen).abs();
        if difference(with, without).abs() > 2 * noise && off(with).min(off(without)) < noise {
            self.base.takes_in = off(with) < off(without);
            self.taking_in.believe(self.base.takes_in);
        }
    }

    /// Applies new evidence to the forecasts of writes.
    pub(super) fn believe_taking_in(&mut self) {
        self.base.takes_in = self.taking_in.believed;
    }
}

#[cfg(test)]
mod tests {
    use super::super::Overheads;
    use super::super::forecast::{Forecast, HeldBack, forecast};
    use super::*;
    use model::{Position, builtin};
    use units::{Duration, Lbn, Op, Sectors};

    fn atlas() -> DriveModel {
        DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap()
    }

    /// Forecasts two writes, the second sent when the first is reported.
    fn two_writes(overlap: bool, takes_in: bool, starts: [u64; 2]) -> [Forecast; 2] {
        let drive = atlas();
        let overheads = Overheads {
            command: [Duration::from_micros(300); 2],
            completion: [Duration::from_micros(10); 2],
            bus_sector: Duration::from_micros(6),
            shortest_access: Duration::ZERO,
            overlap,
            write_back: true,
            if_through: None,
        };
        let mut at = Standing { takes_in, ..Standing::at_rest(Position::default(), None) };
        let mut sent = Instant::ZERO;
        starts.map(|start| {
            let range = LbnRange::new(Lbn::new(start), Sectors::new(8));
            let sends = (sent, HeldBack::default());
            let (seen, next) = forecast(&drive, &overheads, &at, sends, (Op::Write, range));
            at = Standing { ready: if overlap { next.free } else { seen.heard }, ..next };
            sent = seen.heard;
            seen
        })
    }

    #[test]
    fn a_write_that_continues_the_one_in_progress_is_a_revolution_late() {
        let turn = crate::core::under_way::turn(&atlas());
        for overlap in [false, true] {
            let [first, second] = two_writes(overlap, false, [100_000, 100_008]);
            assert!(first.end > first.heard + Duration::from_millis(1), "the head has still to come there");
            assert!(second.heard > first.end, "its data wait until the first is on the medium");
            assert!(second.end > first.end + turn && second.end < first.end + turn * 2);
        }
    }

    #[test]
    fn a_write_received_beside_another_is_written_with_it() {
        let drive = atlas();
        let track = drive.layout().track(drive.layout().locate(Lbn::new(100_000)).unwrap().track);
        let eight = drive.rpm().time_within(track.arc(0, 8));
        for overlap in [false, true] {
            let [first, second] = two_writes(overlap, true, [100_000, 100_008]);
            assert!(second.heard < first.end);
            let behind = difference(second.end, first.end + eight);
            assert!(behind.abs() < 10, "{behind} ns behind the first's last sector");
            // A write elsewhere waits in any case.
            let [first, second] = two_writes(overlap, true, [100_000, 100_016]);
            assert!(second.heard > first.end);
        }
    }

    #[test]
    fn the_assumption_follows_the_majority_of_reports() {
        let mut taking_in = TakingIn::default();
        let mut told = |times: u32, takes_in: bool| {
            (0..times).for_each(|_| taking_in.believe(takes_in));
            taking_in.believed
        };
        assert!(!told(3, true) && told(1, true));
        assert!(told(7, false) && !told(1, false));
    }
}
