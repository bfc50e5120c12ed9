//! The time of the arm from track to track: the shortest time after which the head still catches a sector.
//!
//! After a read that ends at a known instant on one track, the probe reads a sector on another that will pass a chosen
//! time later. If the arm arrives in time, the read ends with that sector; if not, one revolution later. A binary
//! search over the chosen time finds the time of the move to some microseconds, whatever the platter's angle is.

use crate::error::ProbeError;
use crate::meter::Meter;
use crate::revolutions::{frac, median, wrap};
use std::ops::Range;
use units::{Duration, Instant, Op};

/// A track on which a sector near a given angle can be requested.
pub(crate) trait Target {
    /// Returns an LBN whose sector ends at `angle` or soon after, and its exact angle.
    fn at_angle(&self, angle: f64) -> Option<(u64, f64)>;

    /// Returns the length of the target's sectors, in revolutions.
    fn sector(&self) -> f64;

    /// Returns the operation of the command that the move leads to.
    fn op(&self) -> Op {
        Op::Read
    }

    /// Finds out by further commands whether the head caught the sector that passed at `end`, if the response of the
    /// command does not show that, as for buffered writes. Returns `None` if the response shows it, and `Ok(None)` if
    /// nothing does.
    ///
    /// # Errors
    /// Those of any command.
    fn reported_later(&self, _: &mut Meter<'_>, _end: Instant) -> Option<Result<Option<bool>, ProbeError>> {
        None
    }
}

/// The range at which a binary search stops, ns: if times are exact, and if single steps follow because times vary.
pub(crate) const SEARCH_RANGE_NS: f64 = 6_000.0;
const NOISY_SEARCH_RANGE_NS: f64 = 20_000.0;

/// The most attempts at one trial.
const ATTEMPTS: u32 = 6;

/// Returns the best accuracy of a search, ns.
pub(crate) fn resolution(meter: &Meter<'_>) -> f64 {
    if meter.is_noisy() { NOISY_SEARCH_RANGE_NS } else { SEARCH_RANGE_NS }
}

/// Returns the shortest time within `range` from a submission to the start of a sector that is caught, ns. `leg` brings
/// the arm to its source and returns the target. Returns `None` if no time is long enough, or a trial fails.
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
        // Even the shortest time of the range was long enough.
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

/// Two searches whose results differ by less than this need no third, ns.
const EQUAL_SEARCHES_NS_MAX: f64 = 25_000.0;

/// The time of a move from several searches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SearchedTime {
    pub(crate) ns: f64,
    /// The mean distance of the searches' results from `ns`, ns.
    pub(crate) apart_ns: f64,
}

/// Returns the median of at most `times` searches; two that agree are enough.
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

/// Returns the time at which a move catches half of the sectors, if moves vary. A coarse binary search is followed by
/// steps towards that time (Robbins and Monro 1951), which are smaller after each reversal (Kesten 1958), so that
/// single late moves do not matter. If nearly all steps went one way, the search had gone wrong, and is repeated.
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

/// The number of steps after a search.
const STEPS: u32 = 10;
/// The length of the first step, ns: the most accurate for moves that vary by some 20 us.
const FIRST_STEP_NS: f64 = 25_000.0;

/// The fewest steps in each direction after a good search: a single one may be a late move, which one in fifty is.
const STEPS_PER_DIRECTION_MIN: u32 = 2;

/// Returns whether the head catches a sector that begins `ns` after the submission; `None` if no response shows it.
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
        // The rest of the time until the sector passes is spent before the submission.
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
