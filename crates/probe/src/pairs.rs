//! Two commands at the drive: the time of a move without any command overhead.
//!
//! A drive that accepts a second command while it executes the first moves its arm as soon as the first one's sector
//! has passed. The time between the two completions is then the time between the two sectors, plus whole revolutions: a
//! sector that passes a chosen time after the first is caught, or is one revolution late. Neither the clock nor the
//! spindle's error matters. One command at a time shows only the sum of overhead and seek, and hides any time below the
//! shortest seek.

use crate::error::ProbeError;
use crate::meter::Meter;
use crate::moves::Target;
use crate::revolutions::{frac, median, wrap};
use crate::seeks::{InLayout, SeekPoint, Seeks};
use crate::sure;
use model::{Layout, Location};
use units::{Cylinder, Head, Lbn, LbnRange, Op, Sectors, TrackIndex};

/// The distances at which the overhead is measured, as divisors of the drive's cylinders: short distances, for which an
/// error in the cylinders matters least.
const DISTANCE_DIVISORS: [u32; 5] = [40, 28, 20, 14, 10];

/// The most searches for each move; two whose results differ by less than `EQUAL_SEARCHES_NS_MAX`, ns, suffice.
const SEARCHES: usize = 5;
const EQUAL_SEARCHES_NS_MAX: f64 = 25_000.0;

/// If searches for a head switch differ by more than `DOUBTFUL_SEARCHES_NS_MIN`, in ns, up to `MORE_SEARCHES` are made,
/// because no other measurement confirms the result.
const DOUBTFUL_SEARCHES_NS_MIN: f64 = 50_000.0;
const MORE_SEARCHES: usize = 9;

/// After this number of caught moves in a row behind a miss, a move that is shorter by `SHORTER_MOVE_NS` (some sectors)
/// is tried: the miss may have been chance.
const CAUGHT_MOVES_MIN: u32 = 3;
const SHORTER_MOVE_NS: f64 = 50_000.0;

/// The range at which a search stops, ns; and the most trials of a search, because a trial's time is rounded up to a
/// sector and may repeat.
const SEARCH_RANGE_NS: f64 = 8_000.0;
const TRIALS: u32 = 40;

/// The share of the probe's time limit at which this measurement ends.
const TIME_SHARE_MAX: f64 = 0.88;

/// The most attempts at one trial.
const ATTEMPTS: u32 = 8;

/// The largest distance of a sector from its predicted angle, in revolutions; beyond, the trial is repeated.
const SECTOR_ERROR_REVOLUTIONS_MAX: f64 = 0.006;

/// A kind of move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    /// The distance in cylinders.
    pub(crate) distance: u32,
    /// Whether the move is to another head.
    pub(crate) other_head: bool,
    /// The operation at the move's end; the move starts from a read.
    pub(crate) op: Op,
    /// The range in which that operation is allowed.
    pub(crate) within: LbnRange,
}

/// Separates the overhead of reads from their seeks, and finds the head switch even if seeks hide it. Does nothing if
/// the handle takes one command at a time.
pub(crate) fn part(meter: &mut Meter<'_>, layout: &Layout, seeks: &mut Seeks) -> Result<(), ProbeError> {
    if !meter.takes_two() {
        return Ok(());
    }
    meter.stage("two commands at a time", 0.93);
    // The random numbers of later reads do not depend on this measurement.
    let dice = meter.draw.clone();
    parted(meter, layout, seeks)?;
    meter.draw = dice;
    Ok(())
}

fn parted(meter: &mut Meter<'_>, layout: &Layout, seeks: &mut Seeks) -> Result<(), ProbeError> {
    let within = LbnRange::new(Lbn::ZERO, Sectors::new(meter.capacity()));
    let mut overheads = Vec::new();
    for part in DISTANCE_DIVISORS {
        if !meter.is_within_before_check(TIME_SHARE_MAX) {
            return Ok(());
        }
        let wanted = layout.cylinders() / part;
        let Some(&SeekPoint { distance, time, .. }) =
            seeks.curve.iter().min_by_key(|p| p.distance.abs_diff(wanted))
        else {
            break;
        };
        let sum = (time + seeks.overhead_ms) * 1e6;
        let moved = Move { distance, other_head: false, op: Op::Read, within };
        overheads.extend(shortest(meter, layout, moved, sum)?.map(|ns| sum - ns));
    }
    // If a drive starts the second command only after it has reported the first, moves measured this way are longer,
    // not shorter.
    if overheads.is_empty() || median(&mut overheads) < -EQUAL_SEARCHES_NS_MAX {
        return Ok(());
    }
    let overhead = (median(&mut overheads).max(0.0) / 1e3).round() / 1e3;
    let bound = seeks.head_switch_ms + seeks.overhead_ms - overhead;
    seeks.part_at(overhead);
    seeks.parted = true;
    seeks.overhead_sure =
        Some(sure::within(&overheads, 2.0 * SEARCH_RANGE_NS, sure::EQUAL_TIMES_MS_MAX * 1e6));
    if layout.heads() > 1 {
        let switch = Move { distance: 0, other_head: true, op: Op::Read, within };
        let mut found = searches(meter, layout, switch, bound * 1e6)?;
        // Two searches that were both disturbed may agree; a third then differs.
        let apart = |found: &[f64]| {
            found.last().zip(found.first()).is_some_and(|(b, a)| b - a > DOUBTFUL_SEARCHES_NS_MIN)
        };
        while apart(&found) && found.len() < MORE_SEARCHES {
            let Some(ns) = search(meter, layout, switch, bound * 1e6)? else { break };
            found.push(ns);
            found.sort_unstable_by(f64::total_cmp);
        }
        if !found.is_empty() {
            seeks.head_switch_ms = (median(&mut found) / 1e3).round() / 1e3;
            seeks.head_switch_shows = true;
            seeks.head_switch_sure =
                Some(sure::within(&found, SEARCH_RANGE_NS, sure::EQUAL_TIMES_MS_MAX * 1e6));
        }
    }
    Ok(())
}

/// Returns the shortest time of a move of this kind, ns, as the median of several searches; `most` is a rough upper
/// bound.
pub(crate) fn shortest(
    meter: &mut Meter<'_>,
    layout: &Layout,
    moved: Move,
    most: f64,
) -> Result<Option<f64>, ProbeError> {
    let mut found = searches(meter, layout, moved, most)?;
    Ok((!found.is_empty()).then(|| median(&mut found)))
}

/// Returns the results of several searches for the shortest time of a move of this kind, ns, in ascending order.
fn searches(meter: &mut Meter<'_>, layout: &Layout, moved: Move, most: f64) -> Result<Vec<f64>, ProbeError> {
    let mut found: Vec<f64> = Vec::new();
    for _ in 0..SEARCHES {
        found.extend(search(meter, layout, moved, most)?);
        found.sort_unstable_by(f64::total_cmp);
        if found.windows(2).any(|two| matches!(two, [a, b] if b - a < EQUAL_SEARCHES_NS_MAX))
            && found.len() != 2
        {
            break;
        }
    }
    Ok(found)
}

/// Makes one binary search between zero and `most`; returns the shortest time of the move, ns.
fn search(meter: &mut Meter<'_>, layout: &Layout, moved: Move, most: f64) -> Result<Option<f64>, ProbeError> {
    let (mut low, mut high) = (0.0, most + 4.0 * EQUAL_SEARCHES_NS_MAX);
    let (mut trials, mut ever) = (0, false);
    // The lower limit before the last miss raised it, and the number of caught moves since that miss.
    let (mut before, mut since) = (0.0, 0);
    while high - low > SEARCH_RANGE_NS && trials < TRIALS {
        trials += 1;
        if since == CAUGHT_MOVES_MIN {
            // All longer moves were caught: if a shorter one is caught as well, the missed move was late by chance.
            since += 1;
            if let Some((left, true)) = trial(meter, layout, moved, (low - SHORTER_MOVE_NS).max(0.0))?
                && left < low
            {
                (low, high) = (before, left);
            }
            continue;
        }
        let Some((left, caught)) = trial(meter, layout, moved, f64::midpoint(low, high))? else {
            return Ok(None);
        };
        if caught {
            (high, ever) = (f64::min(high, left), true);
            since += 1;
        } else {
            if left > low {
                (before, low) = (low, left);
            }
            since = 0;
        }
    }
    Ok(ever.then_some(f64::midpoint(low, high)))
}

/// Tries a sector that begins to pass `ns` after another's end, or a little later; returns that time, ns, and whether
/// the sector was caught.
fn trial(
    meter: &mut Meter<'_>,
    layout: &Layout,
    moved: Move,
    ns: f64,
) -> Result<Option<(f64, bool)>, ProbeError> {
    for _ in 0..ATTEMPTS {
        let revolution = meter.revolution();
        let Some((from, index)) = tracks(meter, layout, moved) else { continue };
        let to = layout.track(index);
        let track = layout.track(from);
        let sector = meter.draw.below(u64::from(track.sectors)) as u32;
        let Some(first) = layout.lbn_at(Location { track: from, sector }) else { continue };
        let passed = track.sector_angle(sector).as_revolutions() + 1.0 / f64::from(track.sectors);
        let takes = 1.0 / f64::from(to.sectors);
        let target = InLayout { layout, index, end_revolutions: takes, within: moved.within, op: moved.op };
        let Some((second, ends)) = target.at_angle(frac(passed + ns / revolution + takes)) else { continue };
        let left = ns + frac(ends - takes - passed - ns / revolution) * revolution;
        if first.get() >= meter.capacity() || left > ns + 0.2 * revolution {
            continue;
        }
        let [one, two] = meter.execute_two([(Op::Read, first.get()), (moved.op, second)])?;
        // One of the two commands was a cache hit, or the drive executed them in reverse order.
        if meter.is_hit(&one) || two.response_ns() < 0.5 * takes * revolution {
            continue;
        }
        let extra = (two.response_ns() - left) / revolution - takes;
        // A remapped sector, or one that was late for another reason, is no evidence.
        if wrap(extra).abs() > f64::max(SECTOR_ERROR_REVOLUTIONS_MAX, 4.0 * meter.spread) {
            continue;
        }
        return Ok(Some((left, extra < 0.5)));
    }
    Ok(None)
}

/// Returns the tracks at which a move begins and ends.
fn tracks(meter: &mut Meter<'_>, layout: &Layout, moved: Move) -> Option<(TrackIndex, TrackIndex)> {
    let lbn = moved.within.start().get() + meter.draw.below(moved.within.len().get());
    let index = layout.locate(Lbn::new(lbn))?.track;
    let to = layout.track(index);
    let heads = layout.heads();
    let head = if moved.other_head {
        let step = 1 + meter.draw.below(u64::from(heads.saturating_sub(1).max(1))) as u16;
        Head::new((to.head.get() + step) % heads)
    } else {
        to.head
    };
    let cylinder = to.cylinder.get();
    let inward = cylinder.checked_add(moved.distance).filter(|&c| c < layout.cylinders());
    let cylinder = inward.or(cylinder.checked_sub(moved.distance))?;
    let from = layout.track_at(Cylinder::new(cylinder), head)?;
    Some((from, index))
}
