//! Two commands at the drive: the time of a move without any command overhead.
//!
//! A drive that accepts the second command while it executes the first moves its arm as soon as the first one's sector has
//! passed. The time between both completions is then that between both sectors, plus whole revolutions: a sector that passes
//! a chosen time after the first one is caught or one revolution late, and neither clock nor spindle matter. One command at
//! a time shows only the sum of overhead and seek, and hides any time below the shortest seek.

use crate::error::ProbeError;
use crate::meter::Meter;
use crate::moves::Target;
use crate::revolutions::{frac, median, wrap};
use crate::seeks::{InLayout, SeekPoint, Seeks};
use crate::sure;
use model::{Layout, Location};
use units::{Cylinder, Head, Lbn, LbnRange, Op, Sectors, TrackIndex};

/// The distances at which the overhead is measured, as parts of the drive's cylinders: short ones, for which miscounted
/// cylinders matter least.
const DISTANCE_DIVISORS: [u32; 5] = [40, 28, 20, 14, 10];

/// The most searches of each move; two that differ by less than EQUAL_SEARCHES_NS_MAX, in ns, need no third.
const SEARCHES: usize = 5;
const EQUAL_SEARCHES_NS_MAX: f64 = 25_000.0;

/// The number of searches for a head switch if they differ by more than DOUBTFUL_SEARCHES_NS_MIN, in ns: no other
/// measurement confirms it.
const DOUBTFUL_SEARCHES_NS_MIN: f64 = 50_000.0;
const MORE_SEARCHES: usize = 9;

/// The number of caught moves in a row after a miss, and by how much a shorter one is tried then, ns: some sectors.
const CAUGHT_MOVES_MIN: u32 = 3;
const SHORTER_MOVE_NS: f64 = 50_000.0;

/// The range at which a search stops, ns; and the most trials of one, because sectors come in steps.
const SEARCH_RANGE_NS: f64 = 8_000.0;
const TRIALS: u32 = 40;

/// The end of this measurement, as a share of the probe's time limit.
const TIME_SHARE_MAX: f64 = 0.88;

/// The attempts at one trial.
const ATTEMPTS: u32 = 8;

/// The largest distance of a sector from its predicted angle, in revolutions.
const SECTOR_ERROR_REVOLUTIONS_MAX: f64 = 0.006;

/// A kind of move.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    /// The distance in cylinders.
    pub(crate) distance: u32,
    /// Whether it is to another head.
    pub(crate) other_head: bool,
    /// The operation at its end; it starts from a read.
    pub(crate) op: Op,
    /// The range in which that is allowed.
    pub(crate) within: LbnRange,
}

/// Separates the overhead of reads from their seeks, and finds the head switch, hidden or not; does nothing on a handle that
/// takes one command at a time.
pub(crate) fn part(meter: &mut Meter<'_>, layout: &Layout, seeks: &mut Seeks) -> Result<(), ProbeError> {
    if !meter.takes_two() {
        return Ok(());
    }
    meter.stage("two commands at a time", 0.93);
    // Later reads are the same as without this measurement.
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
    // A drive that starts the next command only after it reported the one before shows longer moves this way, not shorter
    // ones.
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
        // Two searches spoilt by late moves may agree, and a third then differs.
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

/// Returns the shortest such move, ns, as the median of some searches; at most about `most`.
pub(crate) fn shortest(
    meter: &mut Meter<'_>,
    layout: &Layout,
    moved: Move,
    most: f64,
) -> Result<Option<f64>, ProbeError> {
    let mut found = searches(meter, layout, moved, most)?;
    Ok((!found.is_empty()).then(|| median(&mut found)))
}

/// Returns the results of some searches for the shortest such move, ns.
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

/// Makes one binary search between a time that is too short and one that suffices.
fn search(meter: &mut Meter<'_>, layout: &Layout, moved: Move, most: f64) -> Result<Option<f64>, ProbeError> {
    let (mut low, mut high) = (0.0, most + 4.0 * EQUAL_SEARCHES_NS_MAX);
    let (mut trials, mut ever) = (0, false);
    // The lower limit before the longest missed move, and the number of caught moves since.
    let (mut before, mut since) = (0.0, 0);
    while high - low > SEARCH_RANGE_NS && trials < TRIALS {
        trials += 1;
        if since == CAUGHT_MOVES_MIN {
            // All longer moves were caught: if a shorter one is caught as well, the missed one was late by chance.
            since += 1;
            if let Some((left, true)) = trial(meter, layout, moved, (low - SHORTER_MOVE_NS).max(0.0))?
                && left < low
            {
                (low, high) = (before, left);
            }
            continue;
        }
        // If the last sectors tried are closer than that, chance decides about the next ones.
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

/// Returns whether a sector that begins to pass `ns` after another's end, or a little later, is caught; and the actual time.
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
        // One of them was a cache hit, or the drive executed them in reverse order.
        if meter.is_hit(&one) || two.response_ns() < 0.5 * takes * revolution {
            continue;
        }
        let extra = (two.response_ns() - left) / revolution - takes;
        // A remapped sector, or one that was late for another reason, shows nothing.
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
