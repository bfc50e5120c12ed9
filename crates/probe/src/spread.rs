//! The variation of moves, found by how the share of caught sectors depends on the time left for a move.
//!
//! If all moves took the same time, the head would catch every sector that passes later and none that passes earlier.
//! If moves vary, the share of caught sectors rises with the time left, like the distribution function of the times. A
//! normal distribution is fitted, with a small share of moves that are late however much time is left.

use crate::error::ProbeError;
use crate::meter::Meter;
use std::sync::LazyLock;

/// The trials of one distance: the first number around the known move time, then the second around the result, twice.
/// Once is enough if the caught and missed times do not overlap.
const FIRST_TRIALS: u32 = 32;
const LATER_TRIALS: u32 = 48;

/// The first trials leave up to this much more or less time than the known move time, ns.
const FIRST_RANGE_NS: f64 = 160_000.0;
/// The later trials leave at least up to this much more or less time than the mean, ns.
const LATER_RANGE_NS: f64 = 60_000.0;
/// The later trials leave up to this many standard deviations more or less time than the mean.
const LATER_RANGE_DEVIATIONS: f64 = 2.5;

/// The share of moves that are late for another reason (a head that settles late, a missed track), and that of moves
/// that catch a sector they should miss.
const LATE_SHARE: f64 = 0.025;
const EARLY_SHARE: f64 = 0.002;

/// The smallest standard deviation that is tried, ns: a smaller one cannot be measured.
pub(crate) const DEVIATION_NS_MIN: f64 = 3_000.0;
/// The largest standard deviation that is tried, ns.
const DEVIATION_NS_MAX: f64 = 200_000.0;
/// The ratio of two consecutive standard deviations that are tried.
const DEVIATION_STEP_FACTOR: f64 = 1.06;

/// The mean and the standard deviation of a move's time, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
    /// The probability that the true deviation is within a quarter, or [`EQUAL_DEVIATIONS_NS_MAX`], of this one.
    pub(crate) sure: f64,
}

/// Standard deviations are equal up to this difference, ns, or up to a quarter.
const EQUAL_DEVIATIONS_NS_MAX: f64 = 5_000.0;

/// Makes a move with the given time left, ns; returns whether its sector was caught, `None` if that is not known.
pub(crate) type Moved<'t> = dyn FnMut(&mut Meter<'_>, f64) -> Result<Option<bool>, ProbeError> + 't;

/// One trial: the time left, ns, and whether it was enough.
type Trial = (f64, bool);

/// Finds the variation of a move that takes about `about` ns; `trial` makes the move with a given time left.
pub(crate) fn find(
    meter: &mut Meter<'_>,
    about: f64,
    trial: &mut Moved<'_>,
) -> Result<Option<Spread>, ProbeError> {
    let mut trials: Vec<Trial> = Vec::new();
    let mut take = |meter: &mut Meter<'_>, middle: f64, around: f64, count: u32| -> Result<_, ProbeError> {
        let mut of: Vec<u32> = (0..count).collect();
        // The order is random, so that slow changes of the drive do not look like an effect of the time left.
        meter.draw.shuffle(&mut of);
        for i in of {
            let left = middle + around * (2.0 * (f64::from(i) + 0.5) / f64::from(count) - 1.0);
            if left > 0.0
                && let Some(caught) = trial(meter, left)?
            {
                trials.push((left, caught));
            }
        }
        let missed = trials.iter().filter(|t| !t.1).map(|t| t.0).fold(f64::MIN, f64::max);
        let caught = trials.iter().filter(|t| t.1).map(|t| t.0).fold(f64::MAX, f64::min);
        Ok((fitted(&trials), missed < caught))
    };
    let (mut found, _) = take(meter, about, FIRST_RANGE_NS, FIRST_TRIALS)?;
    for _ in 0..2 {
        let Some(Spread { mean, deviation, .. }) = found else { break };
        let (more, apart) =
            take(meter, mean, (LATER_RANGE_DEVIATIONS * deviation).max(LATER_RANGE_NS), LATER_TRIALS)?;
        found = more;
        if apart {
            break;
        }
    }
    Ok(found)
}

/// Returns the likeliest normal distribution of the times; `None` if too few trials caught their sector, or too few
/// missed it.
fn fitted(trials: &[Trial]) -> Option<Spread> {
    let caught = trials.iter().filter(|t| t.1).count();
    if caught < 4 || trials.len() - caught < 4 {
        return None;
    }
    let (low, high) =
        trials.iter().fold((f64::MAX, f64::MIN), |(low, high), t| (low.min(t.0), high.max(t.0)));
    let mut best = (f64::MIN, Spread { mean: low, deviation: DEVIATION_NS_MIN, sure: 0.0 });
    // The likelihood of each deviation with its likeliest mean.
    let mut likelihoods: Vec<(f64, f64)> = Vec::new();
    let mut deviation = DEVIATION_NS_MIN;
    while deviation < DEVIATION_NS_MAX {
        // Means closer to each other than a quarter of a deviation cannot be distinguished.
        let steps = ((high - low) / (0.25 * deviation)).ceil().max(1.0);
        let mut likeliest = f64::MIN;
        let mut k = 0.0;
        while k <= steps {
            let spread = Spread { mean: low + (high - low) * k / steps, deviation, sure: 0.0 };
            let likelihood = spread.log_likelihood(trials);
            likeliest = likeliest.max(likelihood);
            if likelihood > best.0 {
                best = (likelihood, spread);
            }
            k += 1.0;
        }
        likelihoods.push((deviation, likeliest));
        deviation *= DEVIATION_STEP_FACTOR;
    }
    let (most, found) = best;
    // If the likeliest deviation is the largest tried, the true one may be any larger one.
    if found.deviation * DEVIATION_STEP_FACTOR < DEVIATION_NS_MAX {
        let near = |deviation: f64| {
            (deviation - found.deviation).abs() <= f64::max(found.deviation / 4.0, EQUAL_DEVIATIONS_NS_MAX)
        };
        let all: f64 = likelihoods.iter().map(|l| (l.1 - most).exp()).sum();
        let those: f64 = likelihoods.iter().filter(|l| near(l.0)).map(|l| (l.1 - most).exp()).sum();
        return Some(Spread { sure: those / all, ..found });
    }
    Some(found)
}

impl Spread {
    /// Returns the logarithm of the likelihood of all trials. Logarithms would take most of the time, so likelihoods
    /// are multiplied in groups first.
    fn log_likelihood(self, trials: &[Trial]) -> f64 {
        let products =
            trials.chunks(FACTORS).map(|some| some.iter().map(|&t| self.likelihood(t)).product::<f64>());
        products.map(f64::ln).sum()
    }

    fn likelihood(self, (left, caught): Trial) -> f64 {
        let enough =
            EARLY_SHARE + (1.0 - LATE_SHARE - EARLY_SHARE) * normal((left - self.mean) / self.deviation);
        if caught { enough } else { 1.0 - enough }
    }
}

/// The most likelihoods that are multiplied before a logarithm is taken. Each is at least [`EARLY_SHARE`] or
/// [`LATE_SHARE`], so the product does not underflow.
const FACTORS: usize = 64;
const _: () = assert!(EARLY_SHARE > 1e-4 && LATE_SHARE > 1e-4 && FACTORS * 4 < 300);

/// The number of deviations beyond which the normal distribution function is 0 or 1 to a double's precision.
const CERTAIN_DEVIATIONS: f64 = 8.5;

/// The steps of [`NORMAL_PROBABILITIES`] in a deviation: a line between two of them is exact to half a millionth.
const STEPS_PER_DEVIATION: f64 = 256.0;

/// The normal distribution function from `-CERTAIN_DEVIATIONS` on, in steps. The fit uses the function a million times,
/// and computing its exponential would take nearly all of the time.
static NORMAL_PROBABILITIES: LazyLock<Vec<f64>> = LazyLock::new(|| {
    (0..=(2.0 * CERTAIN_DEVIATIONS * STEPS_PER_DEVIATION) as u32 + 1)
        .map(|k| computed(f64::from(k) / STEPS_PER_DEVIATION - CERTAIN_DEVIATIONS))
        .collect()
});

/// The normal distribution function, to a millionth.
fn normal(z: f64) -> f64 {
    let at = (z + CERTAIN_DEVIATIONS) * STEPS_PER_DEVIATION;
    // A negative number becomes index 0, and a very large number the largest index.
    match NORMAL_PROBABILITIES.get(at as usize..) {
        Some([below, above, ..]) if at >= 0.0 => below + (above - below) * at.fract(),
        _ => f64::from(u8::from(z > 0.0)),
    }
}

/// The normal distribution function, to some 1e-7 (Abramowitz and Stegun, 7.1.26).
fn computed(z: f64) -> f64 {
    let x = z.abs() / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let beyond = 0.5 * t * series.iter().fold(0.0, |sum, a| sum * t + a) * (-x * x).exp();
    if z > 0.0 { 1.0 - beyond } else { beyond }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;

    #[test]
    fn the_distribution_of_moves_is_found_from_caught_sectors() {
        let mut draw = Draw::new(7);
        let mut part = || (draw.below(1 << 30) as f64 + 0.5) / (1_u64 << 30) as f64;
        for truth in [5_000.0, 20_000.0, 60_000.0] {
            let around = 2.5 * truth;
            let trials: Vec<Trial> = (0..400)
                .map(|i| {
                    let left = 1e6 + around * (f64::from(i) / 200.0 - 1.0);
                    // Two moves in a hundred settle late.
                    let late = if part() < 0.02 { 500_000.0 * part() } else { 0.0 };
                    let sum: f64 = (0..12).map(|_| part()).sum();
                    (left, 1e6 + truth * (sum - 6.0) + late <= left)
                })
                .collect();
            let found = fitted(&trials).unwrap();
            assert!((found.deviation / truth - 1.0).abs() < 0.25, "{truth}: {found:?}");
            assert!((found.mean - 1e6).abs() < truth / 4.0, "{truth}: {found:?}");
        }
    }

    #[test]
    fn moves_of_constant_time_do_not_vary() {
        let trials: Vec<Trial> = (0..100).map(|i| (f64::from(i) * 1e3, i >= 40)).collect();
        let found = fitted(&trials).unwrap();
        assert!(found.deviation <= DEVIATION_NS_MIN && (found.mean - 39.5e3).abs() < 1e3, "{found:?}");
        assert_eq!(fitted(&[(1.0, true), (2.0, true)]), None);
    }

    #[test]
    fn the_normal_distribution_is_known() {
        for (z, share) in [
            (0.0, 0.5),
            (1.0, 0.841_344_7),
            (-1.959_964, 0.025),
            (3.0, 0.998_650_1),
            (-8.6, 0.0),
            (-1e300, 0.0),
            (8.5, 1.0),
            (1e300, 1.0),
        ] {
            assert!((normal(z) - share).abs() < 1e-6, "{z}: {}", normal(z));
        }
    }
}
