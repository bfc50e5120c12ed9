//! The confidence in a finding, from its measurements.

use crate::revolutions::median;
use std::f64::consts::FRAC_2_PI;

/// The largest difference of equal times, ms: the tolerance of a prediction.
pub(crate) const EQUAL_TIMES_MS_MAX: f64 = 0.05;

/// A finding, and the probability that it is right.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Measured<T> {
    pub(crate) value: T,
    pub(crate) sure: f64,
}

impl Measured<bool> {
    /// Returns an answer with its probability; `log_odds` is the logarithm of the odds of "yes" that the measurements
    /// give.
    pub(crate) fn answer(value: bool, log_odds: f64) -> Self {
        Self { value, sure: 1.0 / (1.0 + (if value { -log_odds } else { log_odds }).exp()) }
    }
}

/// Returns the probability that the median of `values` is within `near` of the true value, if a single value has the
/// accuracy `fine`.
///
/// The function uses Student's distribution (Biometrika 1908) with the median of the differences, so that a single
/// wrong value does not matter. `fine` is added to the deviation, so that two values that agree by chance are not
/// certain.
pub(crate) fn within(values: &[f64], fine: f64, near: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let n = values.len() as f64;
    let mut sorted = values.to_vec();
    let middle = median(&mut sorted);
    sorted.iter_mut().for_each(|value| *value = (*value - middle).abs());
    // The median of normal errors is two thirds of their deviation, and a median varies by a quarter more than a mean.
    let deviation = (median(&mut sorted) / 0.6745).hypot(fine / n.sqrt());
    student(near * n.sqrt() / (1.2533 * deviation), (values.len() as u32 - 1).max(1))
}

/// Returns the probability that at least `share` of a population has a property, after `not` of `of` samples did not
/// have it: Bayes (1763), with a uniform prior.
pub(crate) fn at_least(share: f64, not: u64, of: u64) -> f64 {
    // The integral of a beta distribution is a sum over a binomial distribution.
    let n = of + 1;
    let mut term = n as f64 * share.ln();
    let mut below = 0.0;
    for k in 0..=not {
        below += term.exp();
        term += ((n - k) as f64 / (k + 1) as f64).ln() + ((1.0 - share) / share).ln();
    }
    (1.0 - below).clamp(0.0, 1.0)
}

/// Returns the probability that the next sample agrees after `agree` of `of` did: Laplace's rule of succession (1774),
/// which assumes a uniform prior.
pub(crate) fn next(agree: u64, of: u64) -> f64 {
    (agree.min(of) + 1) as f64 / (of + 2) as f64
}

/// Returns the probability that more than half of the findings are right, given the probability of each.
pub(crate) fn most_of(probabilities: &[f64]) -> f64 {
    let mut counts = vec![1.0];
    for &p in probabilities {
        let mut next = vec![0.0; counts.len() + 1];
        for (k, weight) in counts.iter().enumerate() {
            if let Some([without, with]) = next.get_mut(k..k + 2) {
                *without += weight * (1.0 - p);
                *with += weight * p;
            }
        }
        counts = next;
    }
    counts.iter().skip(probabilities.len() / 2 + 1).sum()
}

/// Returns the share of Student's distribution with `freedom` degrees of freedom between `-t` and `t` (Abramowitz and
/// Stegun, 26.7.3 and 26.7.4).
fn student(t: f64, freedom: u32) -> f64 {
    let angle = (t / f64::from(freedom).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let (mut term, mut sum, first) = if is_odd { (cosine, 0.0, 1) } else { (1.0, 0.0, 0) };
    for k in (first..freedom.saturating_sub(1)).step_by(2) {
        sum += term;
        term *= cosine * cosine * f64::from(k + 1) / f64::from(k + 2);
    }
    let share = if is_odd { FRAC_2_PI * (angle + sine * sum) } else { sine * sum };
    share.clamp(0.0, 1.0)
}

/// Returns the probability that a number is within `near` of its true value, if the true value is larger by up to
/// `more`, uniformly distributed.
pub(crate) fn of_bounds(more: f64, near: f64) -> f64 {
    if more > near { near / more } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Student's distribution by its table: two-sided 95% and 90%.
    #[test]
    fn the_shares_are_students() {
        for (freedom, t, share) in [
            (1, 12.706, 0.95),
            (2, 4.3027, 0.95),
            (3, 3.1824, 0.95),
            (4, 2.7764, 0.95),
            (5, 2.5706, 0.95),
            (10, 1.8125, 0.90),
            (11, 1.7959, 0.90),
        ] {
            let found = student(t, freedom);
            assert!((found - share).abs() < 1e-4, "{freedom}: {found}");
        }
    }

    #[test]
    fn values_that_agree_are_surer_and_several_are_surer_than_one() {
        let near = 0.05;
        let agree = within(&[0.1, 0.101, 0.099, 0.1], 0.01, near);
        let apart = within(&[0.1, 0.2, 0.0, 0.15], 0.01, near);
        let alone = within(&[0.1], 0.01, near);
        assert!(agree > 0.99 && alone < agree && apart < alone, "{agree} {alone} {apart}");
        // A single wrong value hardly matters.
        let wrong = within(&[0.1, 0.101, 0.099, 0.5], 0.01, near);
        assert!(wrong > 0.95, "{wrong}");
        // The sun rose on each of 1,826,213 days (Laplace, Essai philosophique sur les probabilités).
        assert!((next(1_826_213, 1_826_213) - 1_826_214.0 / 1_826_215.0).abs() < 1e-12);
        assert_eq!((next(0, 0), next(0, 8), next(8, 8)), (0.5, 0.1, 0.9));
        // If nine of nine reads were right, at least half of all are with a probability of 1 - 0.5^10.
        assert!((at_least(0.5, 0, 9) - (1.0 - 0.5_f64.powi(10))).abs() < 1e-12);
        assert!((at_least(0.97, 15, 500) - 0.5).abs() < 0.1 && at_least(0.97, 40, 500) < 1e-3);
        assert!((most_of(&[0.5, 0.5, 0.5]) - 0.5).abs() < 1e-12 && most_of(&[1.0, 1.0, 0.0]) > 0.999);
        assert_eq!(most_of(&[]), 0.0);
        assert_eq!(within(&[], 0.01, near), 0.0);
        assert_eq!((of_bounds(0.0, near), of_bounds(0.5, near)), (1.0, 0.1));
    }
}
