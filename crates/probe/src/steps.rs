//! The times of the moves that distinguish shapes: from a zone's first track to tracks up to some thousand further.

use crate::buffer::Buffer;
use crate::error::ProbeError;
use crate::meter::Meter;
use crate::misfit::{Moves, StepTime};
use crate::moves::{SEARCH_RANGE_NS, SearchedTime, Target, shortest_of};
use crate::revolutions::{frac, median};
use crate::shape::HEADS_MAX;
use crate::sure;
use crate::zone::Zone;
use std::f64::consts::SQRT_2;
use std::ops::Range;

/// The share of the probe's time limit at which this measurement ends.
const TIME_SHARE_MAX: f64 = 0.72;

/// Returns the distances of the moves to measure, in tracks, if skews recur after `unit` tracks.
pub(crate) fn of(zone: &Zone, unit: Option<u64>) -> Vec<u64> {
    let mut steps: Vec<u64> = match unit {
        Some(r) if r <= HEADS_MAX => {
            let mut list = vec![1, 2, r - 1, r, r + 1];
            for m in 2..=26 {
                list.extend([m * r - 1, m * r, m * r + 1]);
            }
            list
        }
        wide => {
            let fine = (1..=40).chain((44..=120).step_by(4)).chain((128..=1_400).step_by(8));
            let coarse = wide.map_or(0..0, |r| 1..14 * r).step_by(wide.map_or(1, |r| r as usize / 4));
            fine.chain(coarse).collect()
        }
    };
    steps.sort_unstable();
    steps.dedup();
    let tracks = zone.tracks();
    steps.retain(|&k| k > 0 && k < tracks);
    steps
}

/// Times the moves from a zone's first track to the tracks `steps` further. Also returns the distance of each result
/// from that of its first search, ns.
pub(crate) fn measure(
    meter: &mut Meter<'_>,
    zone: &Zone,
    steps: &[u64],
    buffer: &Buffer,
) -> Result<(Moves, Vec<f64>), ProbeError> {
    let (mut times, mut apart) = (Vec::new(), Vec::new());
    let searches = if meter.is_noisy() { 3 } else { 1 };
    let mut guess = 0.0..0.35 * meter.revolution();
    for (i, &step) in steps.iter().enumerate() {
        if !meter.is_within(TIME_SHARE_MAX) {
            break;
        }
        meter.stage("heads and cylinders", 0.65 + 0.1 * i as f64 / steps.len() as f64);
        if let Some(found) = timed_from_first(meter, zone, step, (searches, guess.clone()), buffer)? {
            times.push(StepTime { step, ns: found.ns });
            apart.push(found.apart_ns);
            guess = around(found.ns);
        }
    }
    let variance = if meter.is_noisy() { NOISY_SEARCH_VARIANCE_US2 } else { SEARCH_VARIANCE_US2 };
    Ok((Moves { times, variance, noisy: meter.is_noisy() }, apart))
}

/// Returns the range of times in which a search for a move of about `ns` ns begins.
pub(crate) fn around(ns: f64) -> Range<f64> {
    (ns - 250_000.0).max(0.0)..ns + 250_000.0
}

/// A track of the map as the target of a move.
#[derive(Clone, Copy)]
pub(crate) struct OnTrack<'a> {
    pub(crate) zone: &'a Zone,
    pub(crate) track: u64,
}

impl Target for OnTrack<'_> {
    fn at_angle(&self, angle: f64) -> Option<(u64, f64)> {
        let n = self.zone.sectors_on(self.track);
        let past = frac(angle - self.zone.track_angle(self.track)) * n as f64;
        (0..n.min(24)).find_map(|more| {
            let sector = (past.ceil() as u64 + more) % n;
            let lbn = self.zone.lbn_near(self.track, sector);
            (self.zone.locate(lbn) == (self.track, sector)).then(|| (lbn, self.zone.predict(lbn)))
        })
    }

    fn sector(&self) -> f64 {
        1.0 / self.zone.sectors_on(self.track) as f64
    }
}

/// Times a move from a zone's first track to the track `step` further.
fn timed_from_first(
    meter: &mut Meter<'_>,
    zone: &Zone,
    step: u64,
    how: (usize, Range<f64>),
    buffer: &Buffer,
) -> Result<Option<SearchedTime>, ProbeError> {
    // Only the zone's first track is certain to be the first of a cylinder or band of any size.
    timed(meter, OnTrack { zone, track: 0 }, OnTrack { zone, track: step }, how, buffer)
}

/// Times a move between two tracks by at most `searches` searches that begin with the range `guess`.
pub(crate) fn timed(
    meter: &mut Meter<'_>,
    from: OnTrack<'_>,
    to: OnTrack<'_>,
    (searches, guess): (usize, Range<f64>),
    buffer: &Buffer,
) -> Result<Option<SearchedTime>, ProbeError> {
    let mut leg = |meter: &mut Meter<'_>| -> Result<Option<OnTrack<'_>>, ProbeError> {
        // The sector differs each time, so that it is not in the buffer.
        let sector = meter.fresh_sector(from.zone.sectors);
        let source = from.zone.lbn_near(from.track, sector);
        let mut reading = meter.read(source, 1)?;
        if meter.is_hit(&reading) {
            // A cache hit did not move the arm, so `source` is evicted and read again.
            meter.leave(source)?;
            reading = meter.read(source, 1)?;
        }
        if meter.is_hit(&reading) {
            return Ok(None);
        }
        Ok(Some(to))
    };
    shortest_of(searches, meter, guess, buffer.bus_sector_ns, &mut leg)
}

/// Returns the variance of a search, us squared, from some moves that are timed once more. It follows from the median
/// of the differences, so a single wrong search does not matter.
pub(crate) fn repeated(
    meter: &mut Meter<'_>,
    zone: &Zone,
    times: &[StepTime],
    buffer: &Buffer,
) -> Result<f64, ProbeError> {
    // Later reads draw the same random numbers as without this measurement.
    let dice = meter.draw.clone();
    let mut apart = Vec::new();
    for &StepTime { step, ns } in times.iter().step_by((times.len() / REPEATED_MOVES).max(1)) {
        if !meter.is_within(TIME_SHARE_MAX) {
            break;
        }
        let again = timed_from_first(meter, zone, step, (1, around(ns)), buffer)?;
        apart.extend(again.map(|again| (again.ns - ns).abs() / 1e3));
    }
    meter.draw = dice;
    Ok(variance_of(&mut apart))
}

/// Returns the variance of a search from the differences between two searches for each of several moves. The median of
/// normal differences is two thirds of their standard deviation, and their variance is that of two searches.
fn variance_of(apart: &mut [f64]) -> f64 {
    (median(apart) / 0.6745).powi(2) / 2.0
}

/// Returns the probability that no search was so wrong that the choice of a shape depends on it. If too many searches
/// may be wrong, each move is first timed again, which makes its time more accurate. `apart` has the distance of each
/// result from that of its first search, ns.
pub(crate) fn again_where_astray(
    meter: &mut Meter<'_>,
    zone: &Zone,
    moves: &mut Moves,
    apart: &[f64],
    buffer: &Buffer,
) -> Result<f64, ProbeError> {
    let far = apart.iter().filter(|&&ns| moves.is_far(ns)).count();
    let sure = seldom(far, apart.len());
    if sure >= RETIMING_PROBABILITY {
        return Ok(sure);
    }
    let seconds = seconds(meter, zone, &moves.times, buffer)?;
    if seconds.is_empty() {
        return Ok(sure);
    }
    let mut apart: Vec<f64> = moves.times.iter().zip(&seconds).map(|(t, s)| (t.ns - s).abs() / 1e3).collect();
    // The mean of two searches has half the variance of a single one.
    moves.variance = moves.variance.max(variance_of(&mut apart) / 2.0);
    let of_one = Moves { variance: 2.0 * moves.variance, ..moves.clone() };
    let mut differ = 0;
    for (i, (time, second)) in moves.times.iter_mut().zip(&seconds).enumerate() {
        let mut three = [time.ns, *second, f64::midpoint(time.ns, *second)];
        if of_one.is_far((time.ns - second).abs() / SQRT_2) {
            differ += 1;
            let guess = aside(meter, &of_one.times, i);
            if let Some(third) = timed_from_first(meter, zone, time.step, (3, guess), buffer)? {
                three[2] = third.ns;
            }
        }
        time.ns = median(&mut three);
    }
    Ok(none_astray(differ, seconds.len(), moves.times.len() - seconds.len()))
}

/// Times each move once more, in order, while time is left.
fn seconds(
    meter: &mut Meter<'_>,
    zone: &Zone,
    times: &[StepTime],
    buffer: &Buffer,
) -> Result<Vec<f64>, ProbeError> {
    let mut seconds = Vec::with_capacity(times.len());
    for (i, &StepTime { step, ns: first }) in times.iter().enumerate() {
        if !meter.is_within(TIME_SHARE_MAX) {
            break;
        }
        // A move for which the second search finds nothing keeps its time.
        let guess = aside(meter, times, i);
        let again = timed_from_first(meter, zone, step, (3, guess), buffer)?;
        seconds.push(again.map_or(first, |again| again.ns));
    }
    Ok(seconds)
}

/// Returns the range of a second search for a move: around the times of its neighbours, with a random offset. A late
/// move misleads a search that begins near its time, so a second search that began there would make the same error.
fn aside(meter: &mut Meter<'_>, times: &[StepTime], i: usize) -> Range<f64> {
    let beside = times
        .get(i.saturating_sub(NEIGHBOURS_PER_SIDE)..(i + NEIGHBOURS_PER_SIDE + 1).min(times.len()))
        .unwrap_or_default();
    let mut beside: Vec<f64> = beside.iter().map(|t| t.ns).collect();
    around(median(&mut beside) + SEARCH_DISTANCE_NS_MAX * (2.0 * meter.draw.unit() - 1.0))
}

/// The number of neighbours on either side that predict a move's time, and the largest offset from that prediction at
/// which a search begins, ns.
const NEIGHBOURS_PER_SIDE: usize = 2;
const SEARCH_DISTANCE_NS_MAX: f64 = 150_000.0;

/// Returns the probability that no move has a wrong time. `of` moves were timed twice, `differ` of them a third time
/// because the searches disagreed, and `once` moves only once.
///
/// If each search is wrong with probability p, two searches disagree with probability 2p(1 - p), and the median of
/// three is wrong if two or three of them are. The result is the mean over all p, weighted by the likelihood of the
/// disagreements.
fn none_astray(differ: usize, of: usize, once: usize) -> f64 {
    let (mut sum, mut right) = (0.0, 0.0);
    for k in 0..STEPS_OF_P {
        let p = (f64::from(k) + 0.5) / f64::from(2 * STEPS_OF_P);
        let disagree = 2.0 * p * (1.0 - p);
        let likely = (differ as f64 * disagree.ln() + (of - differ) as f64 * (1.0 - disagree).ln()).exp();
        let wrong = p * p * (3.0 - 2.0 * p);
        sum += likely;
        right += likely * (1.0 - wrong).powf(of as f64) * (1.0 - p).powf(once as f64);
    }
    if sum > 0.0 { right / sum } else { 0.0 }
}

/// The number of values of p between zero and a half.
const STEPS_OF_P: u32 = 500;

/// Returns the probability that searches are far off seldom enough to distinguish shapes, after `far` of `of` searches
/// were.
fn seldom(far: usize, of: usize) -> f64 {
    sure::at_least(1.0 - FAR_SEARCH_SHARE_MAX, far as u64, of as u64)
}

/// The share of searches far from their first result above which shapes cannot be distinguished. In the default noise
/// the share is one in sixty. If one move in ten ends late by up to a millisecond, it is one in thirteen, and late
/// moves look like moves to other cylinders.
const FAR_SEARCH_SHARE_MAX: f64 = 1.0 / 12.0;

/// Each move is timed again if the probability of [`seldom`] is below this: from two far searches of eighty on.
const RETIMING_PROBABILITY: f64 = 0.98;

/// The number of moves that are timed once more to measure the variance of a search.
const REPEATED_MOVES: usize = 12;

/// The variances of a search, us squared. If seeks are exact, a search stops with a range of `SEARCH_RANGE_NS`, in
/// which the time is uniformly distributed; the second constant is for seeks that vary.
pub(crate) const SEARCH_VARIANCE_US2: f64 = SEARCH_RANGE_NS * SEARCH_RANGE_NS / 12e6;
pub(crate) const NOISY_SEARCH_VARIANCE_US2: f64 = 250.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_searches_go_far_off_the_likelier_moves_are_timed_again() {
        let few = [seldom(0, 80), seldom(1, 80), seldom(4, 220)];
        assert!(few.iter().all(|&sure| sure > RETIMING_PROBABILITY), "{few:?}");
        let many = [seldom(7, 80), seldom(16, 220), seldom(12, 80)];
        assert!(many.iter().all(|&sure| sure < 0.75), "{many:?}");
    }

    #[test]
    fn the_more_searches_disagree_the_less_sure_are_moves() {
        let of_pairs: Vec<f64> = (0..=40).map(|differ| none_astray(differ, 80, 0)).collect();
        assert!(of_pairs.windows(2).all(|w| w[1] < w[0]) && of_pairs[0] > 0.98, "{of_pairs:?}");
        // One search in twenty goes wrong, and 7 in 1,000 medians of three: 80 such medians are right with 0.993^80,
        // or less, because the share may be higher.
        let one_in_twenty = none_astray(8, 80, 0);
        assert!((one_in_twenty - 0.993_f64.powi(80)).abs() < 0.15, "{one_in_twenty}");
        // A move that was timed once is less certain.
        assert!(none_astray(4, 70, 10) < none_astray(4, 80, 0));
        assert!(none_astray(0, 0, 80) < 0.05);
    }
}
