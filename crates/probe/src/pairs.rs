//! Two commands at the drive: what a move takes when no command's overhead is in it.
//!
//! A drive that takes the second command in while it works on the first one turns its arm to it when the first one's sector
//! has passed. So the time between both completions is that between both sectors, in whole turns or not: a sector that
//! passes a chosen time after the first one is caught or a turn late, whatever clock and spindle do meanwhile. One command at
//! a time shows the sum of its overhead and its seek only, and hides what is shorter than the shortest seek.

use crate::error::ProbeError;
use crate::meter::Meter;
use crate::moves::Target;
use crate::seeks::{InLayout, Seeks};
use crate::sure;
use crate::turns::{frac, median, wrap};
use model::{Layout, Location};
use units::{Cylinder, Head, Lbn, LbnRange, Op, Sectors, TrackIndex};

/// Distances at which the overhead is looked for, as parts of the drive's cylinders: short ones, over which cylinders that
/// were miscounted matter least.
const DISTANCES: [u32; 5] = [40, 28, 20, 14, 10];

/// Searches of each move, at most; those that agree so well, ns, need no third.
const SEARCHES: usize = 5;
const AGREE: f64 = 25_000.0;

/// Of a head switch, of which nothing else tells: where they are further apart than what counts as predicted there are so many, ns.
const APART: f64 = 50_000.0;
const MORE_SEARCHES: usize = 9;

/// Moves in a row that were caught after one that was not, and by how much a shorter one is tried then, ns: some sectors.
const DOUBTS: u32 = 3;
const SHORTER: f64 = 50_000.0;

/// Where a search stops, ns; and trials of one, since sectors come in steps.
const FINE: f64 = 8_000.0;
const TRIALS: u32 = 40;

/// When this ends, of the time that a probe may take.
const LONGEST: f64 = 0.88;

/// Attempts at one trial.
const ATTEMPTS: u32 = 8;

/// Sectors that are so near to where they should be are where they should be, turns.
const NEAR: f64 = 0.006;

/// What is moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Move {
    /// Over so many cylinders.
    pub(crate) distance: u32,
    /// To another head.
    pub(crate) other_head: bool,
    /// What is done there; it comes from a read.
    pub(crate) op: Op,
    /// Where that may be done.
    pub(crate) within: LbnRange,
}

/// Parts the overhead of reads from their seeks, and finds the head switch, hidden or not; nothing on a handle that takes
/// one command at a time.
pub(crate) fn part(meter: &mut Meter<'_>, layout: &Layout, seeks: &mut Seeks) -> Result<(), ProbeError> {
    if !meter.takes_two() {
        return Ok(());
    }
    meter.stage("two commands at a time", 0.93);
    // What is read afterwards is what would be read without, too.
    let dice = meter.draw.clone();
    parted(meter, layout, seeks)?;
    meter.draw = dice;
    Ok(())
}

fn parted(meter: &mut Meter<'_>, layout: &Layout, seeks: &mut Seeks) -> Result<(), ProbeError> {
    let within = LbnRange::new(Lbn::ZERO, Sectors::new(meter.capacity()));
    let mut overheads = Vec::new();
    for part in DISTANCES {
        if !meter.is_within_before_check(LONGEST) {
            return Ok(());
        }
        let wanted = layout.cylinders() / part;
        let Some(&(distance, ms, _)) = seeks.curve.iter().min_by_key(|p| p.0.abs_diff(wanted)) else { break };
        let sum = (ms + seeks.overhead_ms) * 1e6;
        let moved = Move { distance, other_head: false, op: Op::Read, within };
        overheads.extend(shortest(meter, layout, moved, sum)?.map(|ns| sum - ns));
    }
    // A drive that turns to a command only when the one before is reported shows longer moves so, not shorter ones.
    if overheads.is_empty() || median(&mut overheads) < -AGREE {
        return Ok(());
    }
    let overhead = (median(&mut overheads).max(0.0) / 1e3).round() / 1e3;
    let bound = seeks.head_switch_ms + seeks.overhead_ms - overhead;
    seeks.part_at(overhead);
    seeks.parted = true;
    seeks.overhead_sure = Some(sure::within(&overheads, 2.0 * FINE, sure::NEAR_MS * 1e6));
    if layout.heads() > 1 {
        let switch = Move { distance: 0, other_head: true, op: Op::Read, within };
        let mut found = searches(meter, layout, switch, bound * 1e6)?;
        // Two that a late move led astray may agree, and a third is then the odd one.
        let apart = |found: &[f64]| found.last().zip(found.first()).is_some_and(|(b, a)| b - a > APART);
        while apart(&found) && found.len() < MORE_SEARCHES {
            let Some(ns) = search(meter, layout, switch, bound * 1e6)? else { break };
            found.push(ns);
            found.sort_unstable_by(f64::total_cmp);
        }
        if !found.is_empty() {
            seeks.head_switch_ms = (median(&mut found) / 1e3).round() / 1e3;
            seeks.head_switch_shows = true;
            seeks.head_switch_sure = Some(sure::within(&found, FINE, sure::NEAR_MS * 1e6));
        }
    }
    Ok(())
}

/// The shortest such move, ns, the median of some searches; no more than about `most`.
pub(crate) fn shortest(
    meter: &mut Meter<'_>,
    layout: &Layout,
    moved: Move,
    most: f64,
) -> Result<Option<f64>, ProbeError> {
    let mut found = searches(meter, layout, moved, most)?;
    Ok((!found.is_empty()).then(|| median(&mut found)))
}

/// What some searches find the shortest such move to be, ns.
fn searches(meter: &mut Meter<'_>, layout: &Layout, moved: Move, most: f64) -> Result<Vec<f64>, ProbeError> {
    let mut found: Vec<f64> = Vec::new();
    for _ in 0..SEARCHES {
        found.extend(search(meter, layout, moved, most)?);
        found.sort_unstable_by(f64::total_cmp);
        if found.windows(2).any(|two| matches!(two, [a, b] if b - a < AGREE)) && found.len() != 2 {
            break;
        }
    }
    Ok(found)
}

/// One search: halving between what is too short and what is enough.
fn search(meter: &mut Meter<'_>, layout: &Layout, moved: Move, most: f64) -> Result<Option<f64>, ProbeError> {
    let (mut low, mut high) = (0.0, most + 4.0 * AGREE);
    let (mut trials, mut ever) = (0, false);
    // What the longest move that was missed was before, and how many were caught since then.
    let (mut before, mut since) = (0.0, 0);
    while high - low > FINE && trials < TRIALS {
        trials += 1;
        if since == DOUBTS {
            // All that were longer were caught: one that came late by chance is told by a shorter one that is caught.
            since += 1;
            if let Some((left, true)) = trial(meter, layout, moved, (low - SHORTER).max(0.0))?
                && left < low
            {
                (low, high) = (before, left);
            }
            continue;
        }
        // Where the last sectors tried lie nearer than one another, chance moves the next ones.
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

/// Whether a sector that begins to pass `ns` after another's end, or a little later, is caught; and how long after that is.
fn trial(
    meter: &mut Meter<'_>,
    layout: &Layout,
    moved: Move,
    ns: f64,
) -> Result<Option<(f64, bool)>, ProbeError> {
    for _ in 0..ATTEMPTS {
        let turn = meter.revolution();
        let Some((from, index)) = tracks(meter, layout, moved) else { continue };
        let to = layout.track(index);
        let track = layout.track(from);
        let sector = meter.draw.below(u64::from(track.sectors)) as u32;
        let Some(first) = layout.lbn_at(Location { track: from, sector }) else { continue };
        let passed = track.sector_angle(sector).as_turns() + 1.0 / f64::from(track.sectors);
        let takes = 1.0 / f64::from(to.sectors);
        let target = InLayout { layout, index, end_turns: takes, within: moved.within, op: moved.op };
        let Some((second, ends)) = target.at_angle(frac(passed + ns / turn + takes)) else { continue };
        let left = ns + frac(ends - takes - passed - ns / turn) * turn;
        if first.get() >= meter.capacity() || left > ns + 0.2 * turn {
            continue;
        }
        let [one, two] = meter.execute_two([(Op::Read, first.get()), (moved.op, second)])?;
        // Either came from the buffer, or the drive took them the other way round.
        if meter.is_hit(&one) || two.response_ns() < 0.5 * takes * turn {
            continue;
        }
        let extra = (two.response_ns() - left) / turn - takes;
        // What stands elsewhere than the layout has it, or came late for another reason, tells nothing.
        if wrap(extra).abs() > f64::max(NEAR, 4.0 * meter.spread) {
            continue;
        }
        return Ok(Some((left, extra < 0.5)));
    }
    Ok(None)
}

/// Where a move begins and ends.
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
