//! How long the moves take by which shapes are told: from a zone's first track to those a few further.

use crate::buffer::Buffer;
use crate::error::ProbeError;
use crate::geometry::{MOST_HEADS, OnTrack};
use crate::meter::Meter;
use crate::misfit::Moves;
use crate::moves::{FINE, shortest_of};
use crate::sure;
use crate::turns::median;
use crate::zone::Zone;
use std::f64::consts::SQRT_2;

/// When looking for the shape ends, of the time that a probe may take.
const LONGEST: f64 = 0.72;

/// Moves to look at, in tracks, where skews recur after `unit` of them.
pub(crate) fn of(zone: &Zone, unit: Option<u64>) -> Vec<u64> {
    let mut steps: Vec<u64> = match unit {
        Some(r) if r <= MOST_HEADS => {
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

/// Times the moves from tracks that begin a repetition to those `steps` further; and how far each search ended from where it stopped
/// at first, ns.
pub(crate) fn measure(
    meter: &mut Meter<'_>,
    zone: &Zone,
    steps: &[u64],
    buffer: &Buffer,
) -> Result<(Moves, Vec<f64>), ProbeError> {
    let (mut times, mut apart) = (Vec::new(), Vec::new());
    let searches = if meter.is_noisy() { 3 } else { 1 };
    let mut guess = (0.0, 0.35 * meter.revolution());
    for (i, &step) in steps.iter().enumerate() {
        if !meter.is_within(LONGEST) {
            break;
        }
        meter.stage("heads and cylinders", 0.65 + 0.1 * i as f64 / steps.len() as f64);
        if let Some((ns, off)) = timed(meter, zone, step, (searches, guess), buffer)? {
            times.push((step, ns));
            apart.push(off);
            guess = around(ns);
        }
    }
    let variance = if meter.is_noisy() { NOISY } else { FLOOR };
    Ok((Moves { times, variance, noisy: meter.is_noisy() }, apart))
}

/// Where a search begins for a move that takes about so long, ns.
fn around(ns: f64) -> (f64, f64) {
    ((ns - 250_000.0).max(0.0), ns + 250_000.0)
}

/// The move from the zone's first track, by so many searches between these times, and how far apart they are, ns.
fn timed(
    meter: &mut Meter<'_>,
    zone: &Zone,
    step: u64,
    (searches, guess): (usize, (f64, f64)),
    buffer: &Buffer,
) -> Result<Option<(f64, f64)>, ProbeError> {
    // Only the zone's first tracks are surely the first of a cylinder or band of any size.
    let from = 0;
    let mut leg = |meter: &mut Meter<'_>| -> Result<Option<OnTrack<'_>>, ProbeError> {
        // Another sector each time, so that the buffer does not have it.
        let n = zone.sectors;
        let sector = meter.draw.below(n - n / 8);
        let source = zone.lbn_near(from, sector);
        let mut reading = meter.read(source, 1)?;
        if meter.is_hit(&reading) {
            // The arm stayed where it was.
            meter.leave(source)?;
            reading = meter.read(source, 1)?;
        }
        if meter.is_hit(&reading) {
            return Ok(None);
        }
        Ok(Some(OnTrack { zone, track: from + step }))
    };
    shortest_of(searches, meter, guess, buffer.bus_sector_ns, &mut leg)
}

/// The variance of a search, us squared, by some moves that are timed once more: by the median, so that one that went wrong does
/// not matter.
pub(crate) fn repeated(
    meter: &mut Meter<'_>,
    zone: &Zone,
    times: &[(u64, f64)],
    buffer: &Buffer,
) -> Result<f64, ProbeError> {
    // What is read afterwards is what would be read without, too.
    let dice = meter.draw.clone();
    let mut apart = Vec::new();
    for &(step, ns) in times.iter().step_by((times.len() / REPEATS).max(1)) {
        if !meter.is_within(LONGEST) {
            break;
        }
        let again = timed(meter, zone, step, (1, around(ns)), buffer)?;
        apart.extend(again.map(|(again, _)| (again - ns).abs() / 1e3));
    }
    meter.draw = dice;
    Ok(variance_of(&mut apart))
}

/// The variance of a search, by how far apart pairs of them are: of normal differences the median is two thirds of their deviation,
/// which is that of two searches.
fn variance_of(apart: &mut [f64]) -> f64 {
    (median(apart) / 0.6745).powi(2) / 2.0
}

/// How likely no search went so far astray that a shape is told by it; where too many may have, each move is timed again first, and so
/// is known better. `apart` is how far each search ended from where it stopped at first, ns.
pub(crate) fn again_where_astray(
    meter: &mut Meter<'_>,
    zone: &Zone,
    moves: &mut Moves,
    apart: &[f64],
    buffer: &Buffer,
) -> Result<f64, ProbeError> {
    let far = apart.iter().filter(|&&ns| moves.is_far(ns)).count();
    let sure = seldom(far, apart.len());
    if sure >= SELDOM {
        return Ok(sure);
    }
    let seconds = seconds(meter, zone, &moves.times, buffer)?;
    if seconds.is_empty() {
        return Ok(sure);
    }
    let mut apart: Vec<f64> = moves.times.iter().zip(&seconds).map(|(t, s)| (t.1 - s).abs() / 1e3).collect();
    // Of two searches the mean counts, which varies half as much as one.
    moves.variance = moves.variance.max(variance_of(&mut apart) / 2.0);
    let of_one = Moves { variance: 2.0 * moves.variance, ..moves.clone() };
    let mut differ = 0;
    for (i, (time, second)) in moves.times.iter_mut().zip(&seconds).enumerate() {
        let mut three = [time.1, *second, f64::midpoint(time.1, *second)];
        if of_one.is_far((time.1 - second).abs() / SQRT_2) {
            differ += 1;
            let guess = aside(meter, &of_one.times, i);
            if let Some((third, _)) = timed(meter, zone, time.0, (3, guess), buffer)? {
                three[2] = third;
            }
        }
        time.1 = median(&mut three);
    }
    Ok(none_astray(differ, seconds.len(), moves.times.len() - seconds.len()))
}

/// Each move timed once more, in their order, as far as there is time.
fn seconds(
    meter: &mut Meter<'_>,
    zone: &Zone,
    times: &[(u64, f64)],
    buffer: &Buffer,
) -> Result<Vec<f64>, ProbeError> {
    let mut seconds = Vec::with_capacity(times.len());
    for (i, &(step, first)) in times.iter().enumerate() {
        if !meter.is_within(LONGEST) {
            break;
        }
        // What is not found again is as it was.
        let guess = aside(meter, times, i);
        let again = timed(meter, zone, step, (3, guess), buffer)?;
        seconds.push(again.map_or(first, |again| again.0));
    }
    Ok(seconds)
}

/// Where a search for a move begins that was timed before: about its neighbours, and not twice at the same place, for a search is led
/// astray by a move that comes late to where it looks, and one that looks there again would agree with it.
fn aside(meter: &mut Meter<'_>, times: &[(u64, f64)], i: usize) -> (f64, f64) {
    let beside = times.get(i.saturating_sub(BESIDE)..(i + BESIDE + 1).min(times.len())).unwrap_or_default();
    let mut beside: Vec<f64> = beside.iter().map(|t| t.1).collect();
    around(median(&mut beside) + ASIDE * (2.0 * meter.draw.unit() - 1.0))
}

/// Moves on either side by which one is thought to be known, and how far from that a search begins at most, ns.
const BESIDE: usize = 2;
const ASIDE: f64 = 150_000.0;

/// How likely none of some moves was told wrong, of which `of` were timed twice, and `differ` of these a third time, because both searches
/// disagreed, and `once` only once.
///
/// If each search goes astray with p, by whatever it may, two disagree with 2p(1 - p), and of three the middle one is wrong where two or more are. That for
/// every p, as likely as so many disagree with it.
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

/// Values of p from nothing to a half.
const STEPS_OF_P: u32 = 500;

/// How likely searches go far off seldom enough for shapes to be told by them, after so many of them did.
fn seldom(far: usize, of: usize) -> f64 {
    sure::at_least(1.0 - TOO_OFTEN, far as u64, of as u64)
}

/// Searches of moves that end far from where they stopped at first: of the default noise one in sixty. Where one head in ten lands late by
/// up to a millisecond it is one in thirteen, and the moves that came late are taken for those of other cylinders.
const TOO_OFTEN: f64 = 1.0 / 12.0;

/// Where that is less likely each move is timed again: two searches of eighty are enough.
const SELDOM: f64 = 0.98;

/// Moves that are timed once more.
const REPEATS: usize = 12;

/// The variance of a search where seeks do not vary: it stops when what is left is `FINE` wide, and the time is as likely to be
/// anywhere in that. That of one among seeks that vary. us squared.
pub(crate) const FLOOR: f64 = FINE * FINE / 12e6;
pub(crate) const NOISY: f64 = 250.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_searches_go_far_off_the_likelier_moves_are_timed_again() {
        let few = [seldom(0, 80), seldom(1, 80), seldom(4, 220)];
        assert!(few.iter().all(|&sure| sure > SELDOM), "{few:?}");
        let many = [seldom(7, 80), seldom(16, 220), seldom(12, 80)];
        assert!(many.iter().all(|&sure| sure < 0.75), "{many:?}");
    }

    #[test]
    fn the_more_searches_disagree_the_less_sure_are_moves() {
        let of_pairs: Vec<f64> = (0..=40).map(|differ| none_astray(differ, 80, 0)).collect();
        assert!(of_pairs.windows(2).all(|w| w[1] < w[0]) && of_pairs[0] > 0.98, "{of_pairs:?}");
        // One search of twenty goes astray, and 7 of 1,000 middle ones of three: 80 such are right with 0.993^80, and less, for it may be more.
        let one_in_twenty = none_astray(8, 80, 0);
        assert!((one_in_twenty - 0.993_f64.powi(80)).abs() < 0.15, "{one_in_twenty}");
        // A move that was timed once is known worse.
        assert!(none_astray(4, 70, 10) < none_astray(4, 80, 0));
        assert!(none_astray(0, 0, 80) < 0.05);
    }
}
