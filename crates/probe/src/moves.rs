//! The time of the arm from track to track: the shortest time after which a sector is still caught.
//!
//! A read from one track that ends at a known instant is followed by one of a sector that will pass a chosen time later. If
//! the arm is there, the read ends with the sector; if not, one revolution later. A binary search over the chosen time finds
//! the move to some microseconds, whatever the platter's angle is.

use crate::error::ProbeError;
use crate::meter::Meter;
use crate::revolutions::{frac, median, wrap};
use std::ops::Range;
use units::{Duration, Instant, Op};

/// A track on which a sector near a given angle can be requested.
pub(crate) trait Target {
    /// Returns an LBN whose sector ends at `angle` or soon after, and its exact angle.
    fn at_angle(&self, angle: f64) -> Option<(u64, f64)>;

    /// Returns the length of its sectors as a part of a revolution.
    fn sector(&self) -> f64;

    /// Returns the operation of the command.
    fn op(&self) -> Op {
        Op::Read
    }

    /// Returns whether a command whose own time does not show it was done when its sector passed, at `end`; `None` if its
    /// own time shows it.
    ///
    /// # Errors
    /// Those of any command.
    fn reported_later(&self, _: &mut Meter<'_>, _end: Instant) -> Option<Result<Option<bool>, ProbeError>> {
        None
    }
}

/// The range at which a search stops, ns: with exact times, and with last steps of another kind.
pub(crate) const SEARCH_RANGE_NS: f64 = 6_000.0;
const NOISY_SEARCH_RANGE_NS: f64 = 20_000.0;

/// The attempts at one trial.
const ATTEMPTS: u32 = 6;

/// Returns the best accuracy of a search, ns.
pub(crate) fn resolution(meter: &Meter<'_>) -> f64 {
    if meter.is_noisy() { NOISY_SEARCH_RANGE_NS } else { SEARCH_RANGE_NS }
}

/// Returns the shortest time from a submission to the start of a sector that is caught, ns, between `low` and `high`. `leg`
/// brings the arm to its source and names the target. Returns `None` if even `high` is too short, or no trial succeeds.
pub(crate) fn shortest<T: Target>(
    meter: &mut Meter<'_>,
    range: Range<f64>,
    bus_ns: f64,
    leg: &mut dyn FnMut(&mut Meter<'_>) -> Result<Option<T>, ProbeError>,
) -> Result<Option<f64>, ProbeError> {
    let Range { start: mut low, end: mut high } = range;
    let mut widened = 0;
    loop {
        match trial(meter, high, bus_ns, leg)? {
            Some(true) => break,
            Some(false) if widened < 8 => {
                widened += 1;
                low = high;
                high += 0.4 * meter.revolution();
            }
            _ => return Ok(None),
        }
    }
    if widened == 0 && low > 0.0 && trial(meter, low, bus_ns, leg)? == Some(true) {
        // The guess was too high.
        high = low;
        low = 0.0;
    }
    let fine = resolution(meter);
    while high - low > fine {
        let middle = low + (high - low) / 2.0;
        match trial(meter, middle, bus_ns, leg)? {
            Some(true) => high = middle,
            Some(false) => low = middle,
            None => return Ok(None),
        }
    }
    Ok(Some(low + (high - low) / 2.0))
}

/// Two searches that differ by less than this need no third, ns.
const EQUAL_SEARCHES_NS_MAX: f64 = 25_000.0;

/// The time of a move by several searches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchedTime {
    pub(crate) ns: f64,
    /// The mean distance of the searches from it.
    pub(crate) apart_ns: f64,
}

/// Returns the median of several searches; two that agree are enough.
pub(crate) fn shortest_of<T: Target>(
    times: usize,
    meter: &mut Meter<'_>,
    range: Range<f64>,
    bus_ns: f64,
    leg: &mut dyn FnMut(&mut Meter<'_>) -> Result<Option<T>, ProbeError>,
) -> Result<Option<SearchedTime>, ProbeError> {
    let mut found = Vec::new();
    let mut range = range;
    if meter.is_noisy() {
        return nearest(times, meter, range, bus_ns, leg);
    }
    for _ in 0..times {
        if let Some(ns) = shortest(meter, range.clone(), bus_ns, leg)? {
            found.push(ns);
            range = (ns - 150_000.0).max(0.0)..ns + 150_000.0;
        }
        if let [a, b] = found.as_slice()
            && (a - b).abs() < EQUAL_SEARCHES_NS_MAX
        {
            break;
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    let middle = median(&mut found);
    let apart_ns = found.iter().map(|ns| (ns - middle).abs()).sum::<f64>() / found.len() as f64;
    Ok(Some(SearchedTime { ns: middle, apart_ns }))
}

/// Returns the time with which a move catches half of the sectors, if moves vary. After a search that stops early, this time is
/// approached in steps (Robbins and Monro 1951), smaller after each reversal (Kesten 1958), so single late moves do not matter.
/// If nearly all steps went one way, the search had gone wrong.
fn nearest<T: Target>(
    times: usize,
    meter: &mut Meter<'_>,
    range: Range<f64>,
    bus_ns: f64,
    leg: &mut dyn FnMut(&mut Meter<'_>) -> Result<Option<T>, ProbeError>,
) -> Result<Option<SearchedTime>, ProbeError> {
    let mut range = range;
    let mut found = None;
    for _ in 0..times {
        let Some(begin) = shortest(meter, range.clone(), bus_ns, leg)? else { continue };
        let (mut ns, mut caught, mut steps, mut revolutions, mut last) = (begin, 0, 0, 1, None);
        for _ in 0..STEPS {
            let Some(is_caught) = trial(meter, ns, bus_ns, leg)? else { continue };
            caught += u32::from(is_caught);
            steps += 1;
            revolutions += u32::from(last.is_some_and(|last| last != is_caught));
            last = Some(is_caught);
            ns += FIRST_STEP_NS / f64::from(revolutions) * if is_caught { -1.0 } else { 1.0 };
            ns = ns.max(0.0);
        }
        found = Some(SearchedTime { ns, apart_ns: (ns - begin).abs() });
        if caught >= STEPS_PER_DIRECTION_MIN && steps - caught >= STEPS_PER_DIRECTION_MIN {
            break;
        }
        range = (ns - 150_000.0).max(0.0)..ns + 150_000.0;
    }
    Ok(found)
}

/// The number of steps.
const STEPS: u32 = 10;
/// The first step, ns: the most accurate for moves that vary by some 20 us.
const FIRST_STEP_NS: f64 = 25_000.0;

/// The fewest steps in each direction: one move in fifty is late wherever the search stopped.
const STEPS_PER_DIRECTION_MIN: u32 = 2;

/// Returns whether a sector that begins `ns` after the submission is caught; `None` if the response fits neither.
pub(crate) fn trial<T: Target>(
    meter: &mut Meter<'_>,
    ns: f64,
    bus_ns: f64,
    leg: &mut dyn FnMut(&mut Meter<'_>) -> Result<Option<T>, ProbeError>,
) -> Result<Option<bool>, ProbeError> {
    for _ in 0..ATTEMPTS {
        meter.keep_phase()?;
        let Some(target) = leg(meter)? else { return Ok(None) };
        let revolution = meter.revolution();
        let response = ns + target.sector() * revolution + bus_ns;
        let then = meter.revolutions_at(meter.now() + Duration::from_nanos(response as u64));
        let Some((lbn, angle)) = target.at_angle(then) else { continue };
        // The small remaining wait is spent before the submission.
        let wait = frac(angle - then);
        if wait > 0.2 {
            continue;
        }
        let at = meter.now() + Duration::from_nanos((wait * revolution) as u64);
        let reading = meter.execute(at, target.op(), lbn, 1)?;
        if reading.failed {
            continue;
        }
        let end = reading.submitted + Duration::from_nanos((response - bus_ns).max(0.0) as u64);
        if let Some(reported) = target.reported_later(meter, end) {
            match reported? {
                Some(caught) => return Ok(Some(caught)),
                None => continue,
            }
        }
        if meter.is_hit(&reading) {
            continue;
        }
        let extra = (reading.response_ns() - response) / revolution;
        if wrap(extra).abs() > 0.05 {
            continue;
        }
        return Ok(Some(extra < 0.5));
    }
    Ok(None)
}
