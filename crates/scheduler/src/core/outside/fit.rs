//! The fit of a planned detour to the real behaviour of commands.
//!
//! The planner counts time at the head. Commands have additional times: a command that is sent after another's completion
//! cannot begin earlier, however near its sectors are. Here a detour's commands are predicted as the drive will serve them; a
//! command that would be too late for its first sectors leaves those out.

use super::Outside;
use super::forecast::Forecast;
use super::transfer::Transfer;
use crate::planner::{Detour, STOPS_MAX, Stop};
use model::layout::Location;
use model::{DriveModel, Window};
use units::{Duration, FULL_REVOLUTION, Instant, LbnRange, Sectors};

/// The maximum of rounds of fitting; each round shortens a command or leaves one out.
const FIT_ROUNDS_MAX: usize = 2 * STOPS_MAX;

/// Returns the LBNs of a stop whose sectors have consecutive LBNs.
pub(super) fn range_of(drive: &DriveModel, stop: &Stop) -> Option<LbnRange> {
    let layout = drive.layout();
    let sectors = layout.track(stop.track).sectors;
    let at = |sector: u32| layout.lbn_at(Location { track: stop.track, sector: sector % sectors });
    let (first, last) = (at(stop.first)?, at(stop.first + stop.count.checked_sub(1)?)?);
    (last >= first).then(|| LbnRange::new(first, last.since(first) + Sectors::new(1)))
}

/// Removes from a detour's last stop the sectors whose data take the time `late` on the bus; removes the whole stop if it has
/// no more sectors.
fn shorten_by(drive: &DriveModel, detour: &mut Detour, late: Duration, bus_sector: Duration) {
    let Some(last) = detour.stops.iter().flatten().count().checked_sub(1) else { return };
    let Some(stop) = &mut detour.stops[last] else { return };
    // A merged stop loses its first sectors.
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

/// Removes one of a detour's stops.
fn leave_out(detour: &mut Detour, at: usize) {
    detour.merged &= at + 1 < detour.stops.iter().flatten().count();
    detour.stops.copy_within(at + 1.., at);
    detour.stops[STOPS_MAX - 1] = None;
}

/// The rounding error of an instant that was converted to sectors and back.
pub(super) const ROUNDING_ERROR_MAX: Duration = Duration::from_micros(1);

/// The maximal delay of a request that is served in order, as a part of a revolution: 1 in this number.
const LATE_REVOLUTION_DIVISOR: u64 = 8;

impl Outside {
    /// Returns whether a request may wait for its first sector although the drive would transfer a tail of duration `rear` first.
    pub(super) fn in_order(&self, drive: &DriveModel, rear: Duration) -> bool {
        self.config.in_order && rear * LATE_REVOLUTION_DIVISOR <= crate::core::under_way::revolution(drive)
    }

    /// Returns the platter time from which on the head is certainly ready for a detour's command.
    pub(super) fn sure_of(&self, predicted: &Forecast) -> Instant {
        if predicted.moves {
            predicted.arrive + self.margin(predicted.distance)
        } else {
            predicted.arrive.max(predicted.able + self.margins.staying())
        }
    }

    /// Returns the part of the detour with which the foreground's `first` command is done in the same revolution and completes at
    /// the same time as without the detour, or later by the time `spent` on purpose and by the time that serving its sectors in
    /// order takes; `None` if no part is left.
    pub(super) fn fit(
        &self,
        drive: &DriveModel,
        mut detour: Detour,
        first: Transfer,
        spent: Duration,
        any_wanted: impl Fn(&Stop, bool) -> bool,
    ) -> Option<Detour> {
        let Transfer { op, range: asked } = first;
        let revolution = crate::core::under_way::revolution(drive);
        let bus_sector = self.config.overheads.bus_sector;
        let mut plain = (Instant::ZERO, Instant::ZERO);
        self.walk(drive, &[first], |predicted| {
            let in_order = self.in_order(drive, predicted.rear);
            let later = spent + if in_order { predicted.rear } else { Duration::ZERO };
            plain = (predicted.end + later, predicted.heard + later);
        });
        let mut shortened = false;
        for _ in 0..FIT_ROUNDS_MAX {
            let stops = detour.stops.iter().flatten().count();
            if stops == 0 {
                return None;
            }
            // A stop that was cut and contains no wanted block any more is left out, and the other stops are timed anew.
            let none = |at: &usize| {
                detour.stops[*at].is_some_and(|stop| !any_wanted(&stop, detour.merged && at + 1 == stops))
            };
            if let Some(at) = (0..stops).find(none) {
                leave_out(&mut detour, at);
                continue;
            }
            let mut commands = [first; STOPS_MAX + 1];
            for (command, stop) in commands.iter_mut().zip(detour.stops.iter().flatten()) {
                *command = Transfer::new(stop.op, range_of(drive, stop)?);
            }
            let mut sent = stops + 1;
            if detour.merged {
                let begin = commands[stops - 1].range.start();
                if begin >= asked.start() {
                    return None;
                }
                commands[stops - 1] = Transfer::new(op, LbnRange::new(begin, asked.end().since(begin)));
                sent = stops;
            }
            // The first command that is too late for its first sectors.
            let mut late = None;
            let (mut at, mut end, mut heard) = (0, Instant::ZERO, Instant::ZERO);
            self.walk(drive, &commands[..sent], |predicted| {
                let on_time = !predicted.in_two_parts && predicted.slack() <= revolution / 2;
                let sure = self.sure_of(predicted);
                if late.is_none()
                    && !(on_time && (at == stops || predicted.start + ROUNDING_ERROR_MAX >= sure))
                {
                    let missed =
                        if on_time { Duration::ZERO } else { revolution.saturating_sub(predicted.slack()) };
                    late = Some((at, sure, missed));
                }
                (at, end, heard) = (at + 1, predicted.end, predicted.heard);
            });
            if end <= plain.0 + revolution / 4 && late.is_none_or(|(at, ..)| at == stops) {
                // The foreground's data may have to wait for the detour's on the bus.
                let late = heard.saturating_since(plain.1 + bus_sector);
                if late == Duration::ZERO {
                    return Some(detour);
                }
                shorten_by(drive, &mut detour, late, bus_sector);
                shortened = false;
                continue;
            }
            // If the late command is the foreground's own, the command before it takes too long.
            let last = stops - 1;
            let (at, arrive, by) = late.unwrap_or((last, Instant::ZERO, revolution));
            let Some(stop) = &mut detour.stops[at.min(last)] else { return None };
            let track = drive.layout().track(stop.track);
            let Window { first: next, .. } = track.passing(drive.rpm(), arrive, arrive + revolution);
            let gone = (next + track.sectors - stop.first) % track.sectors;
            let passed = drive.rpm().arc_in(by).parts() * u64::from(track.sectors) / FULL_REVOLUTION + 2;
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
    use units::{Lbn, Op, TrackIndex};

    const MOVE_MARGIN: Duration = Duration::from_micros(300);

    fn outside(drive: &DriveModel) -> Outside {
        let overheads = Overheads {
            command: [Duration::from_micros(200); 2],
            bus_sector: Duration::from_micros(6),
            overlap: true,
            ..Overheads::default()
        };
        let config = OutsideConfig {
            conservatism: Conservatism::Constant(MOVE_MARGIN),
            ..OutsideConfig::beyond(overheads)
        };
        Outside::new(drive, config)
    }

    fn request(lbn: u64) -> Transfer {
        Transfer::new(Op::Read, LbnRange::new(Lbn::new(lbn), Sectors::new(8)))
    }

    /// Returns requests with long gaps, and for each a track between the head and the request.
    fn gaps(drive: &DriveModel, outside: &Outside) -> Vec<(Transfer, TrackIndex)> {
        let mut gaps = Vec::new();
        for lbn in (2_000_000..9_000_000).step_by(70_008) {
            let mut slack = Duration::ZERO;
            outside.walk(drive, &[request(lbn)], |predicted| slack = predicted.slack());
            let on_the_way = drive.layout().locate(Lbn::new(lbn - 100_000)).map(|at| at.track);
            gaps.extend(on_the_way.filter(|_| slack > Duration::from_millis(4)).map(|on| (request(lbn), on)));
        }
        gaps
    }

    /// Returns a stop that begins with the sector under the head on arrival.
    fn at_once(drive: &DriveModel, outside: &Outside, track: TrackIndex) -> Option<Stop> {
        let of = drive.layout().track(track);
        let all = Stop { track, op: Op::Read, first: 0, count: 1 };
        let mut arrive = Instant::ZERO;
        outside.walk(drive, &[Transfer::new(Op::Read, range_of(drive, &all)?)], |predicted| {
            arrive = predicted.arrive
        });
        let Window { first, .. } = of.passing(drive.rpm(), arrive, arrive + Duration::from_millis(1));
        Some(Stop { first, count: 30, ..all })
            .filter(|stop| first + 30 < of.sectors && range_of(drive, stop).is_some())
    }

    fn detour(stops: [Option<Stop>; 2]) -> Detour {
        Detour { score: 1, stops: [stops[0], stops[1], None, None], merged: false }
    }

    #[test]
    fn sectors_that_pass_too_early_are_left_out_with_a_margin() {
        let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
        let outside = outside(&drive);
        let mut seen = 0;
        for (asked, track) in gaps(&drive, &outside) {
            let Some(stop) = at_once(&drive, &outside, track) else { continue };
            let Some(fitted) =
                outside.fit(&drive, detour([Some(stop), None]), asked, Duration::ZERO, |_, _| true)
            else {
                continue;
            };
            let left = fitted.stops[0].unwrap();
            let mut slack = Vec::new();
            let commands = [Transfer::new(Op::Read, range_of(&drive, &left).unwrap()), asked];
            outside.walk(&drive, &commands, |predicted| slack.push(predicted.slack()));
            assert!(left.first > stop.first && left.count < stop.count);
            assert!(slack[0] + ROUNDING_ERROR_MAX >= MOVE_MARGIN && slack[0] < MOVE_MARGIN * 2, "{slack:?}");
            seen += 1;
        }
        assert!(seen > 5, "{seen}");
    }

    #[test]
    fn a_stop_without_wanted_blocks_is_left_out() {
        let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
        let outside = outside(&drive);
        let mut seen = 0;
        for (asked, track) in gaps(&drive, &outside) {
            let Some(stop) = at_once(&drive, &outside, track) else { continue };
            let behind = Stop { first: stop.first + 20, count: 10, ..stop };
            let two = detour([Some(Stop { count: 20, ..stop }), Some(behind)]);
            let first_only = |at: &Stop, _: bool| at.first < behind.first;
            if let Some(fitted) = outside.fit(&drive, two, asked, Duration::ZERO, first_only) {
                assert_eq!(fitted.stops.iter().flatten().count(), 1);
                assert!(first_only(&fitted.stops[0].unwrap(), false));
                seen += 1;
            }
            assert_eq!(
                outside.fit(&drive, two, asked, Duration::ZERO, |_, _| false).map(|left| left.stops),
                None
            );
        }
        assert!(seen > 5, "{seen}");
    }
}
