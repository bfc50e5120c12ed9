//! Makes a detour fit what commands really do.
//!
//! The planner counts time at the head. Commands take time of their own: one that is sent only when the host has heard of
//! another cannot begin sooner, however near its sectors are. Here a detour's commands are foreseen as the drive will
//! serve them; one that would come too late for its first sectors leaves those out.

use super::Outside;
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

/// A request may be later by this part of a turn for being served in order.
const LATER_IN_ORDER: u64 = 8;

impl Outside {
    /// Whether a request that the drive would begin with a rear part of this length may be served in order.
    pub(super) fn in_order(&self, drive: &DriveModel, rear: Duration) -> bool {
        self.config.in_order && rear * LATER_IN_ORDER <= crate::core::under_way::turn(drive)
    }

    /// The detour as far as the foreground's `asked` is done in the same turn with it as without, and heard of at the same time, or
    /// later by what it takes in order; `None` if nothing is left of it.
    pub(super) fn fit(
        &self,
        drive: &DriveModel,
        mut detour: Detour,
        (op, asked): (Op, LbnRange),
    ) -> Option<Detour> {
        let turn = crate::core::under_way::turn(drive);
        let bus_sector = self.config.overheads.bus_sector;
        let mut plain = (Instant::ZERO, Instant::ZERO);
        self.walk(drive, &[(op, asked)], |foreseen| {
            let later = if self.in_order(drive, foreseen.rear) { foreseen.rear } else { Duration::ZERO };
            plain = (foreseen.end + later, foreseen.heard + later);
        });
        let mut shortened = false;
        for _ in 0..ROUNDS {
            let stops = detour.stops.iter().flatten().count();
            if stops == 0 {
                return None;
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
                if late.is_none() && (foreseen.in_two_parts || foreseen.slack() > turn / 2) {
                    late = Some((at, foreseen.arrive, turn.saturating_sub(foreseen.slack())));
                }
                (at, end, heard) = (at + 1, foreseen.end, foreseen.heard);
            });
            if end <= plain.0 + turn / 4 {
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
                let at = at.min(last);
                detour.merged &= at < last;
                detour.stops.copy_within(at + 1.., at);
                detour.stops[MOST_STOPS - 1] = None;
                shortened = false;
            }
        }
        None
    }
}
