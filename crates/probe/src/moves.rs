//! How long the arm takes from track to track: the shortest time after which a sector is still caught.
//!
//! A read from one track that ends at a known instant is followed by one of a sector that will pass a chosen time
//! later. If the arm is there, the read ends when the sector does; if not, a turn later. Halving the chosen time's
//! range finds the move to some microseconds, whatever the platter's angle is.

use crate::error::ProbeError;
use crate::meter::Meter;
use crate::turns::{frac, median, wrap};
use units::{Duration, Instant, Op};

/// A track on which a sector at about a given angle can be asked for.
pub(crate) trait Target {
    /// An LBN whose sector ends at `angle` or soon after, and its exact angle.
    fn at_angle(&self, angle: f64) -> Option<(u64, f64)>;

    /// The part of a turn that its sectors take.
    fn sector(&self) -> f64;

    /// What is done there.
    fn op(&self) -> Op {
        Op::Read
    }

    /// Whether a command whose own time does not tell it was done when its sector passed, at `end`; `None` where its own time
    /// does.
    ///
    /// # Errors
    /// As any command.
    fn told_later(&self, _: &mut Meter<'_>, _end: Instant) -> Option<Result<Option<bool>, ProbeError>> {
        None
    }
}

/// Where a search stops, ns: in exact times, and where the last steps are taken otherwise.
pub(crate) const FINE: f64 = 6_000.0;
const FINE_NOISY: f64 = 20_000.0;

/// Attempts at one trial.
const ATTEMPTS: u32 = 6;

/// How exact a search is at best, ns.
pub(crate) fn resolution(meter: &Meter<'_>) -> f64 {
    if meter.is_noisy() { FINE_NOISY } else { FINE }
}

/// Finds the shortest time from a submission to the start of a sector that is caught, ns, between `low` and `high`;
/// `leg` brings the arm to its source and names the target. `None` when even `high` is too short, or nothing is seen.
pub(crate) fn shortest<T: Target>(
    meter: &mut Meter<'_>,
    range: (f64, f64),
    bus_ns: f64,
    leg: &mut dyn FnMut(&mut Meter<'_>) -> Result<Option<T>, ProbeError>,
) -> Result<Option<f64>, ProbeError> {
    let (mut low, mut high) = range;
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

/// Searches that agree this well need no third, ns.
const AGREE: f64 = 25_000.0;

/// The median of several searches, and how far apart they are; two that agree are enough.
pub(crate) fn shortest_of<T: Target>(
    times: usize,
    meter: &mut Meter<'_>,
    range: (f64, f64),
    bus_ns: f64,
    leg: &mut dyn FnMut(&mut Meter<'_>) -> Result<Option<T>, ProbeError>,
) -> Result<Option<(f64, f64)>, ProbeError> {
    let mut found = Vec::new();
    let mut range = range;
    if meter.is_noisy() {
        return nearest(times, meter, range, bus_ns, leg);
    }
    for _ in 0..times {
        if let Some(ns) = shortest(meter, range, bus_ns, leg)? {
            found.push(ns);
            range = ((ns - 150_000.0).max(0.0), ns + 150_000.0);
        }
        if let [a, b] = found.as_slice()
            && (a - b).abs() < AGREE
        {
            break;
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    let middle = median(&mut found);
    let apart = found.iter().map(|ns| (ns - middle).abs()).sum::<f64>() / found.len() as f64;
    Ok(Some((middle, apart)))
}

/// The same where moves vary: after a search that stops early, what is caught half of the time is approached in steps
/// (Robbins and Monro 1951), smaller after each that turned back (Kesten 1958), whatever single moves came late. Where nearly all steps went one way the search had gone wrong.
fn nearest<T: Target>(
    times: usize,
    meter: &mut Meter<'_>,
    range: (f64, f64),
    bus_ns: f64,
    leg: &mut dyn FnMut(&mut Meter<'_>) -> Result<Option<T>, ProbeError>,
) -> Result<Option<(f64, f64)>, ProbeError> {
    let mut range = range;
    let mut found = None;
    for _ in 0..times {
        let Some(begin) = shortest(meter, range, bus_ns, leg)? else { continue };
        let (mut ns, mut caught, mut steps, mut turns, mut last) = (begin, 0, 0, 1, None);
        for _ in 0..STEPS {
            let Some(is_caught) = trial(meter, ns, bus_ns, leg)? else { continue };
            caught += u32::from(is_caught);
            steps += 1;
            turns += u32::from(last.is_some_and(|last| last != is_caught));
            last = Some(is_caught);
            ns += FIRST_STEP / f64::from(turns) * if is_caught { -1.0 } else { 1.0 };
            ns = ns.max(0.0);
        }
        found = Some((ns, (ns - begin).abs()));
        if caught >= FEWEST && steps - caught >= FEWEST {
            break;
        }
        range = ((ns - 150_000.0).max(0.0), ns + 150_000.0);
    }
    Ok(found)
}

/// Steps, and the first of them, ns: for moves that vary by some 20 us these are the ones that come nearest.
const STEPS: u32 = 10;
const FIRST_STEP: f64 = 25_000.0;

/// Steps each way, at least: one move of fifty comes late wherever the search stopped.
const FEWEST: u32 = 2;

/// Whether a sector that begins `ns` after the submission is caught; `None` when the answer makes no sense.
pub(crate) fn trial<T: Target>(
    meter: &mut Meter<'_>,
    ns: f64,
    bus_ns: f64,
    leg: &mut dyn FnMut(&mut Meter<'_>) -> Result<Option<T>, ProbeError>,
) -> Result<Option<bool>, ProbeError> {
    for _ in 0..ATTEMPTS {
        meter.keep_phase()?;
        let Some(target) = leg(meter)? else { return Ok(None) };
        let turn = meter.revolution();
        let response = ns + target.sector() * turn + bus_ns;
        let then = meter.turns_at(meter.now() + Duration::from_nanos(response as u64));
        let Some((lbn, angle)) = target.at_angle(then) else { continue };
        // The little that the sector comes later is waited before the submission.
        let wait = frac(angle - then);
        if wait > 0.2 {
            continue;
        }
        let at = meter.now() + Duration::from_nanos((wait * turn) as u64);
        let reading = meter.execute(at, target.op(), lbn, 1)?;
        if reading.failed {
            continue;
        }
        let end = reading.submitted + Duration::from_nanos((response - bus_ns).max(0.0) as u64);
        if let Some(told) = target.told_later(meter, end) {
            match told? {
                Some(caught) => return Ok(Some(caught)),
                None => continue,
            }
        }
        if meter.is_hit(&reading) {
            continue;
        }
        let extra = (reading.response_ns() - response) / turn;
        if wrap(extra).abs() > 0.05 {
            continue;
        }
        return Ok(Some(extra < 0.5));
    }
    Ok(None)
}
