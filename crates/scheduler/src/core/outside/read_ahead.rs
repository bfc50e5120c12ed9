//! The forecast of reads that the drive's read-ahead serves.

use super::clock::moved;
use super::forecast::{Behind, Forecast, HeldBack, Predicted, Source, Standing};
use crate::core::config::Overheads;
use crate::core::under_way::{Approach, Departure};
use model::{DriveModel, Piece};
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

impl Behind {
    /// Returns the rest of the track behind the read.
    fn rest(&self, drive: &DriveModel) -> Option<Rest> {
        let layout = drive.layout();
        let last = Lbn::new(self.lbn.get().checked_sub(1)?);
        let at = layout.locate(last)?;
        let sectors = layout.track(at.track).sectors;
        let rest = LbnRange::new(last, Sectors::new(u64::from(sectors - at.sector)));
        let on_it = layout.pieces(rest).take_while(|piece| piece.track == at.track);
        let end = on_it.map(|piece| piece.lbn + Sectors::new(u64::from(piece.len))).last()?;
        Some(Rest { behind: *self, sector: at.sector + 1, end })
    }

    /// Returns whether a read of `range` continues this read on its track.
    pub fn follows(&self, drive: &DriveModel, range: LbnRange) -> bool {
        let Some(last) = self.lbn.get().checked_sub(1).map(Lbn::new) else { return false };
        let track = |lbn| drive.layout().locate(lbn).map(|at| at.track);
        is_near(drive, self.lbn, range) && track(last) == track(range.start())
    }
}

/// The rest of a track behind a read.
struct Rest {
    behind: Behind,
    /// The first sector.
    sector: u32,
    /// The LBN after the last sector.
    end: Lbn,
}

impl Rest {
    /// Returns when all sectors before `lbn` have passed.
    fn passed(&self, drive: &DriveModel, lbn: Lbn) -> Instant {
        let layout = drive.layout();
        let last = Lbn::new(lbn.get().saturating_sub(1));
        let Some(at) = layout.locate(last).filter(|at| at.sector >= self.sector) else {
            return self.behind.at;
        };
        let arc = layout.track(at.track).arc(self.sector, at.sector + 1 - self.sector);
        self.behind.at + drive.rpm().time_within(arc)
    }
}

impl Standing {
    /// Returns the state in which the arm is free only at the end of the track, if the drive reads ahead behind a sequence.
    pub fn reading_on(mut self, drive: &DriveModel) -> Self {
        let sequence = self.behind.filter(|behind| behind.sequence && self.reads_on.sequence);
        if let Some(rest) = sequence.and_then(|behind| behind.rest(drive)) {
            self.free = self.free.max(rest.passed(drive, rest.end));
            self.ready = self.ready.max(self.free);
        }
        self
    }

    /// Returns the state in which the arm is free as soon as the requested sectors have passed.
    pub fn not_reading_on(mut self) -> Self {
        if let Some(behind) = self.behind.filter(|behind| behind.sequence && self.reads_on.sequence) {
            let [ready, free] = [self.ready, self.free];
            self.free = behind.at;
            self.ready = if ready == free { behind.at } else { ready };
        }
        self
    }

    /// Returns the state with the end of the arm's work and the read-ahead shifted by `by` ns.
    pub fn shifted(mut self, by: i64) -> Self {
        self.free = moved(self.free, by);
        self.behind = self.behind.map(|behind| Behind { at: moved(behind.at, by), ..behind });
        self
    }
}

/// Returns the forecast of a read whose sectors are in the buffer or pass under a head that reads ahead; `None` for any other
/// read.
pub(super) fn streamed(
    drive: &DriveModel,
    overheads: &Overheads,
    from: &Standing,
    sent: Instant,
    held_back: HeldBack,
    range: LbnRange,
) -> Option<Predicted> {
    let behind = from.behind?;
    let sure = behind.sequence && from.reads_on.sequence;
    // A request that arrived before the head was free has ended the read-ahead.
    let idle = from.reads_on.idle && sent > behind.at;
    if !(sure || idle) || !is_near(drive, behind.lbn, range) {
        return None;
    }
    let rest = behind.rest(drive)?;
    let follows = range.start() < rest.end;
    if range.start() > rest.end || !follows && !sure {
        return None;
    }
    let turned_to = sent.max(behind.at);
    if !sure && range.start() > behind.lbn && rest.passed(drive, range.start()) > turned_to {
        return None;
    }
    let crosses = range.end() > rest.end;
    let mut at = Standing { free: rest.passed(drive, range.end().min(rest.end)), reported: None, ..*from };
    if crosses {
        let left = range.start().max(rest.end);
        for piece in drive.layout().pieces(LbnRange::new(left, range.end().since(left))) {
            let approach = in_order(drive, &at, &piece);
            at.free = approach.end(drive, &piece);
            at.position = approach.track.into();
            at.track = Some(piece.track);
        }
    }
    let landed = at.free;
    let begun = if overheads.overlap { sent } else { from.ready.max(sent) };
    let taken_in = begun + overheads.command(Op::Read);
    let taken_in = if overheads.overlap { taken_in.max(from.bus) } else { taken_in };
    let bus = overheads.bus_sector * range.len().get();
    let crossed = (taken_in + bus).max(landed + overheads.bus_sector);
    let latest = crossed + held_back.of(bus);
    let tail = overheads.after_bus();
    let from_buffer = taken_in + bus > landed + overheads.bus_sector;
    let seen = Forecast {
        service: turned_to,
        able: taken_in,
        arrive: turned_to,
        start: landed,
        end: landed,
        heard: crossed + tail,
        heard_at_latest: latest + tail,
        distance: 0,
        moves: crosses,
        in_two_parts: false,
        wait: Duration::ZERO,
        rear: Duration::ZERO,
        set_out: None,
        source: if from_buffer { Source::Buffer } else { Source::Passing },
    };
    // A read that the buffer serves completely does not make the drive read ahead.
    let goes_on = follows && (sure || landed > turned_to);
    at.behind = Some(Behind { lbn: range.end(), at: landed, sequence: goes_on });
    at.bus = latest;
    // A head that reads ahead may be farther already.
    at.free = if crosses { landed } else { from.free.max(landed) };
    at.ready = if overheads.overlap { at.free } else { seen.heard };
    Some(Predicted { forecast: seen, after: at.reading_on(drive) })
}

/// Returns the approach of the next piece for a head that reads ahead, which takes all sectors in order.
fn in_order(drive: &DriveModel, from: &Standing, piece: &Piece) -> Approach {
    let head = Departure { from: from.position, at: from.free };
    let mut approach = Approach::arriving_after(drive, head, from.free, Op::Read, piece);
    approach.missed = None;
    approach
}

/// Returns whether `range` begins less than a track after `end`.
pub(super) fn is_near(drive: &DriveModel, end: Lbn, range: LbnRange) -> bool {
    end <= range.start() && range.start().since(end).get() < track_len(drive, range.start())
}

/// Returns the number of sectors on the track of `lbn`.
pub(super) fn track_len(drive: &DriveModel, lbn: Lbn) -> u64 {
    let layout = drive.layout();
    layout.locate(lbn).map_or(0, |at| u64::from(layout.track(at.track).sectors))
}

#[cfg(test)]
mod tests {
    use super::super::clock::difference;
    use super::super::forecast::ReadsOn;
    use super::super::predict::forecast;
    use super::super::transfer::Transfer;
    use super::*;
    use model::{Position, builtin};

    fn overheads() -> Overheads {
        Overheads {
            command: [Duration::from_micros(300); 2],
            completion: [Duration::from_micros(10); 2],
            bus_sector: Duration::from_micros(6),
            shortest_access: Duration::ZERO,
            overlap: true,
            write_back: false,
            if_through: None,
        }
    }

    fn lbns(start: u64, len: u64) -> LbnRange {
        LbnRange::new(Lbn::new(start), Sectors::new(len))
    }

    /// Forecasts reads that are sent at once to a resting drive with this read-ahead.
    fn predicted(reads_on: ReadsOn, ranges: &[LbnRange]) -> (Vec<Forecast>, Standing) {
        let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
        let rest = Standing { reads_on, ..Standing::at_rest(Position::default(), None) };
        let mut at = rest;
        let each = |range: &LbnRange| {
            let (sent, held_back) = (Instant::ZERO, HeldBack::default());
            let what = Transfer::new(Op::Read, *range);
            let predicted = forecast(&drive, &overheads(), &at, sent, held_back, what);
            at = predicted.after;
            predicted.forecast
        };
        let all = ranges.iter().map(each).collect();
        (all, at)
    }

    const ALL: ReadsOn = ReadsOn { idle: true, sequence: true };

    #[test]
    fn behind_a_sequence_the_head_is_free_at_the_end_of_the_track() {
        let [one, two] = [lbns(0, 8), lbns(8, 8)];
        let (seen, reading) = predicted(ALL, &[one, two]);
        let (_, plain) = predicted(ReadsOn::default(), &[one, two]);
        assert_eq!(plain.free, seen[1].end);
        // The first track has 334 sectors.
        let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
        let track = drive.layout().track(drive.layout().locate(Lbn::ZERO).unwrap().track);
        let rest = drive.rpm().time_within(track.arc(16, track.sectors - 16));
        assert_eq!(reading.free, seen[1].end + rest);
        assert_eq!(reading.not_reading_on().free, plain.free);
        // A single read is no sequence.
        let (seen, reading) = predicted(ALL, &[one]);
        assert_eq!(reading.free, seen[0].end);
    }

    #[test]
    fn a_consecutive_read_is_done_as_its_sectors_pass_and_others_wait() {
        let (seen, _) = predicted(ALL, &[lbns(0, 8), lbns(8, 8), lbns(16, 8), lbns(324, 20)]);
        assert_eq!(seen[1].source, Source::Medium);
        assert!(seen[2..].iter().all(|seen| seen.source == Source::Passing), "{seen:?}");
        assert!(!seen[2].moves && seen[3].moves, "only the last goes on to the next track");
        let (plain, _) = predicted(ReadsOn::default(), &[lbns(0, 8), lbns(8, 8), lbns(16, 8)]);
        assert!(
            difference(seen[2].end, plain[2].end).abs() < 10,
            "it has been behind the other all the time"
        );
        let elsewhere = lbns(9_000_000, 8);
        let (seen, _) = predicted(ALL, &[lbns(0, 8), lbns(8, 8), elsewhere]);
        let (plain, _) = predicted(ReadsOn::default(), &[lbns(0, 8), lbns(8, 8), elsewhere]);
        assert!(seen[2].arrive > plain[2].arrive + Duration::from_millis(5));
        assert_eq!(seen[2].source, Source::Medium);
    }
}
