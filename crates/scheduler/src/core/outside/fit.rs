//! Makes a detour fit what commands really do.
//!
//! The planner counts time at the head. Commands take time of their own: one that is sent only when the host has heard of
//! another cannot begin sooner, however near its sectors are. Here a detour's commands are foreseen as the drive will
//! serve them; one that would come too late for its first sectors leaves those out.

use super::Outside;
use super::forecast::Forecast;
use super::record::Way;
use crate::planner::{Detour, MOST_STOPS, Stop};
use model::DriveModel;
use model::layout::Location;
use units::{Duration, FULL_TURN, Instant, LbnRange, Op, Sectors};

/// Rounds of mending; each makes a command shorter or leaves one out.
const ROUNDS: usize = 2 * MOST_STOPS;

/// The LBNs of a stop whose sectors follow each other in LBNs.
pub(super) fn range_of(drive: &DriveModel, stop: &Stop) -> Option<LbnRange> {
    let layout = drive.layout();
    let sectors = layout.track(stop.track).sectors;
    let at = |sector: u32| layout.lbn_at(Location { track: stop.track, sector: sector % sectors });
    let (first, last) = (at(stop.first)?, at(stop.first + stop.count.checked_sub(1)?)?);
    (last >= first).then(|| LbnRange::new(first, last.since(first) + Sectors::new(1)))
}

/// Leaves out of a detour's last stop what takes `late` on the bus; all of it, if that is not enough.
fn shorten_by(drive: &DriveModel, detour: &mut Detour, late: Duration, bus_sector: Duration) {
    let Some(last) = detour.stops.iter().flatten().count().checked_sub(1) else { return };
    let Some(stop) = &mut detour.stops[last] else { return };
    // What is merged begins later by what is left out, and by as much less.
    let sector = if detour.merged {
        bus_sector
            .saturating_sub(drive.rpm().time_within(drive.layout().track(stop.track).arc(stop.first, 1)))
    } else {
        bus_sector
    };
    let sectors = late.as_nanos() / sector.as_nanos().max(1) + 1;
    match stop.count.checked_sub(u32::try_from(sectors).unwrap_or(u32::MAX)).filter(|left| *left > 0) {
        Some(left) => {
            if detour.merged {
                stop.first += stop.count - left;
            }
            stop.count = left;
        }
        None => {
            detour.stops[last] = None;
            detour.merged = false;
        }
    }
}

/// Without one of its stops.
fn leave_out(detour: &mut Detour, at: usize) {
    detour.merged &= at + 1 < detour.stops.iter().flatten().count();
    detour.stops.copy_within(at + 1.., at);
    detour.stops[MOST_STOPS - 1] = None;
}

/// By how much an instant may be off for being rounded to sectors and back.
const ROUNDING: Duration = Duration::from_micros(1);

/// A request may be later by this part of a turn for being served in order.
const LATER_IN_ORDER: u64 = 8;

impl Outside {
    /// Whether a request that the drive would begin with a rear part of this length may be served in order.
    pub(super) fn in_order(&self, drive: &DriveModel, rear: Duration) -> bool {
        self.config.in_order && rear * LATER_IN_ORDER <= crate::core::under_way::turn(drive)
    }

    /// From when on the head can be relied on to be ready for a command of a detour.
    fn sure_of(&self, foreseen: &Forecast) -> Instant {
        match foreseen.approach() {
            (Way::Moved(distance), _) => foreseen.arrive + self.margin(distance),
            (Way::Stayed, _) => foreseen.arrive.max(foreseen.able + self.margins.staying()),
        }
    }

    /// The detour as far as the foreground's `asked` is done in the same turn with it as without, and heard of at the same time, or
    /// later by what was `bought` and what it takes in order; `None` if nothing is left of it.
    pub(super) fn fit(
        &self,
        drive: &DriveModel,
        mut detour: Detour,
        ((op, asked), bought): ((Op, LbnRange), Duration),
        any_wanted: impl Fn(&Stop, bool) -> bool,
    ) -> Option<Detour> {
        let turn = crate::core::under_way::turn(drive);
        let bus_sector = self.config.overheads.bus_sector;
        let mut plain = (Instant::ZERO, Instant::ZERO);
        self.walk(drive, &[(op, asked)], |foreseen| {
            let in_order = self.in_order(drive, foreseen.rear);
            let later = bought + if in_order { foreseen.rear } else { Duration::ZERO };
            plain = (foreseen.end + later, foreseen.heard + later);
        });
        let mut shortened = false;
        for _ in 0..ROUNDS {
            let stops = detour.stops.iter().flatten().count();
            if stops == 0 {
                return None;
            }
            // What is left of a stop may be nothing that is wanted. Without it the rest takes another time.
            let none = |at: &usize| {
                detour.stops[*at].is_some_and(|stop| !any_wanted(&stop, detour.merged && at + 1 == stops))
            };
            if let Some(at) = (0..stops).find(none) {
                leave_out(&mut detour, at);
                continue;
            }
            let mut commands = [(op, asked); MOST_STOPS + 1];
            for (command, stop) in commands.iter_mut().zip(detour.stops.iter().flatten()) {
                *command = (stop.op, range_of(drive, stop)?);
            }
            let mut sent = stops + 1;
            if detour.merged {
                let begin = commands[stops - 1].1.start();
                if begin >= asked.start() {
                    return None;
                }
                commands[stops - 1] = (op, LbnRange::new(begin, asked.end().since(begin)));
                sent = stops;
            }
            // The first command for whose first sectors the head comes too late.
            let mut late = None;
            let (mut at, mut end, mut heard) = (0, Instant::ZERO, Instant::ZERO);
            self.walk(drive, &commands[..sent], |foreseen| {
                let in_turn = !foreseen.in_two_parts && foreseen.slack() <= turn / 2;
                let sure = self.sure_of(foreseen);
                if late.is_none() && !(in_turn && (at == stops || foreseen.start + ROUNDING >= sure)) {
                    let missed = if in_turn { Duration::ZERO } else { turn.saturating_sub(foreseen.slack()) };
                    late = Some((at, sure, missed));
                }
                (at, end, heard) = (at + 1, foreseen.end, foreseen.heard);
            });
            if end <= plain.0 + turn / 4 && late.is_none_or(|(at, ..)| at == stops) {
                // Its data may come behind too many others on the bus.
                let late = heard.saturating_since(plain.1 + bus_sector);
                if late == Duration::ZERO {
                    return Some(detour);
                }
                shorten_by(drive, &mut detour, late, bus_sector);
                shortened = false;
                continue;
            }
            // If it is the foreground's own, the last one before it takes too long.
            let last = stops - 1;
            let (at, arrive, by) = late.unwrap_or((last, Instant::ZERO, turn));
            let Some(stop) = &mut detour.stops[at.min(last)] else { return None };
            let track = drive.layout().track(stop.track);
            let (next, _) = track.passing(drive.rpm(), arrive, arrive + turn);
            let gone = (next + track.sectors - stop.first) % track.sectors;
            let passed = drive.rpm().arc_in(by).parts() * u64::from(track.sectors) / FULL_TURN + 2;
            let passed = u32::try_from(passed).unwrap_or(u32::MAX);
            if at <= last && (1..stop.count).contains(&gone) {
                (stop.first, stop.count) = (next, stop.count - gone);
            } else if at > last && !shortened && passed < stop.count {
                stop.count -= passed;
                shortened = true;
            } else {
                leave_out(&mut detour, at.min(last));
                shortened = false;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::outside::{Conservatism, OutsideConfig, Overheads};
    use model::builtin;
    use units::{Lbn, TrackIndex};

    const MARGIN: Duration = Duration::from_micros(300);

    fn outside(drive: &DriveModel) -> Outside {
        let overheads = Overheads {
            command: [Duration::from_micros(200); 2],
            bus_sector: Duration::from_micros(6),
            overlap: true,
            ..Overheads::default()
        };
        let config = OutsideConfig {
            conservatism: Conservatism::Constant(MARGIN),
            ..OutsideConfig::beyond(overheads)
        };
        Outside::new(drive, config)
    }

    fn request(lbn: u64) -> (Op, LbnRange) {
        (Op::Read, LbnRange::new(Lbn::new(lbn), Sectors::new(8)))
    }

    /// Requests that have much to wait for, and a track on the way of each.
    fn gaps(drive: &DriveModel, outside: &Outside) -> Vec<((Op, LbnRange), TrackIndex)> {
        let mut gaps = Vec::new();
        for lbn in (2_000_000..9_000_000).step_by(70_008) {
            let mut slack = Duration::ZERO;
            outside.walk(drive, &[request(lbn)], |foreseen| slack = foreseen.slack());
            let on_the_way = drive.layout().locate(Lbn::new(lbn - 100_000)).map(|at| at.track);
            gaps.extend(on_the_way.filter(|_| slack > Duration::from_millis(4)).map(|on| (request(lbn), on)));
        }
        gaps
    }

    /// A stop that begins with the sector under the head when that comes.
    fn at_once(drive: &DriveModel, outside: &Outside, track: TrackIndex) -> Option<Stop> {
        let of = drive.layout().track(track);
        let all = Stop { track, op: Op::Read, first: 0, count: 1 };
        let mut arrive = Instant::ZERO;
        outside.walk(drive, &[(Op::Read, range_of(drive, &all)?)], |foreseen| arrive = foreseen.arrive);
        let (first, _) = of.passing(drive.rpm(), arrive, arrive + Duration::from_millis(1));
        Some(Stop { first, count: 30, ..all })
            .filter(|stop| first + 30 < of.sectors && range_of(drive, stop).is_some())
    }

    fn detour(stops: [Option<Stop>; 2]) -> Detour {
        Detour { score: 1, stops: [stops[0], stops[1], None, None], merged: false }
    }

    #[test]
    fn what_comes_too_late_is_left_out_with_a_margin() {
        let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
        let outside = outside(&drive);
        let mut seen = 0;
        for (asked, track) in gaps(&drive, &outside) {
            let Some(stop) = at_once(&drive, &outside, track) else { continue };
            let Some(fitted) =
                outside.fit(&drive, detour([Some(stop), None]), (asked, Duration::ZERO), |_, _| true)
            else {
                continue;
            };
            let left = fitted.stops[0].unwrap();
            let mut slack = Vec::new();
            let commands = [(Op::Read, range_of(&drive, &left).unwrap()), asked];
            outside.walk(&drive, &commands, |foreseen| slack.push(foreseen.slack()));
            assert!(left.first > stop.first && left.count < stop.count);
            assert!(slack[0] + ROUNDING >= MARGIN && slack[0] < MARGIN * 2, "{slack:?}");
            seen += 1;
        }
        assert!(seen > 5, "{seen}");
    }

    #[test]
    fn a_stop_of_nothing_is_left_out() {
        let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
        let outside = outside(&drive);
        let mut seen = 0;
        for (asked, track) in gaps(&drive, &outside) {
            let Some(stop) = at_once(&drive, &outside, track) else { continue };
            let behind = Stop { first: stop.first + 20, count: 10, ..stop };
            let two = detour([Some(Stop { count: 20, ..stop }), Some(behind)]);
            let first_only = |at: &Stop, _: bool| at.first < behind.first;
            if let Some(fitted) = outside.fit(&drive, two, (asked, Duration::ZERO), first_only) {
                assert_eq!(fitted.stops.iter().flatten().count(), 1);
                assert!(first_only(&fitted.stops[0].unwrap(), false));
                seen += 1;
            }
            assert_eq!(
                outside.fit(&drive, two, (asked, Duration::ZERO), |_, _| false).map(|left| left.stops),
                None
            );
        }
        assert!(seen > 5, "{seen}");
    }
}
