//! The rule of every test of a bound on a mean: it fails if the upper end of the confidence interval is over the bound.

#![allow(clippy::expect_used, reason = "this is how a test fails")]

use std::f64::consts::FRAC_2_PI;

/// The confidence of the interval.
const CONFIDENCE: f64 = 0.95;

/// Returns the mean of the values, one for each seed.
#[must_use]
pub fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// Returns the standard error of the mean, estimated from the differences between seeds.
#[must_use]
pub fn error(of: &[f64]) -> f64 {
    let (n, mean) = (of.len() as f64, mean(of));
    let squares: f64 = of.iter().map(|one| (one - mean).powi(2)).sum();
    (squares / (n - 1.0) / n).sqrt()
}

/// Returns the upper end of the one-sided 95% interval of the mean, by Student's distribution.
///
/// # Panics
/// With fewer than two seeds.
#[must_use]
pub fn upper_end(of: &[f64]) -> f64 {
    let freedom = u32::try_from(of.len()).ok().and_then(|n| n.checked_sub(1)).filter(|freedom| *freedom > 0);
    mean(of) + quantile(freedom.expect("two seeds or more")) * error(of)
}

/// Returns the 95% quantile of Student's distribution with this number of degrees of freedom, found by bisection.
fn quantile(freedom: u32) -> f64 {
    let (mut below, mut above) = (0.0, 10.0);
    for _ in 0..f64::MANTISSA_DIGITS {
        let middle = f64::midpoint(below, above);
        *(if up_to(middle, freedom) < CONFIDENCE { &mut below } else { &mut above }) = middle;
    }
    above
}

/// Returns the probability that a value of Student's distribution is at most `t`, which is not negative (Abramowitz and Stegun,
/// 26.7.3 and 26.7.4).
fn up_to(t: f64, freedom: u32) -> f64 {
    let angle = (t / f64::from(freedom).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let is_odd = freedom % 2 == 1;
    let (mut term, first) = if is_odd { (cosine, 1) } else { (1.0, 0) };
    let mut sum = 0.0;
    for k in (first..freedom - 1).step_by(2) {
        sum += term;
        term *= cosine * cosine * f64::from(k + 1) / f64::from(k + 2);
    }
    let within = if is_odd { FRAC_2_PI * (angle + sine * sum) } else { sine * sum };
    f64::midpoint(1.0, within)
}

#[cfg(test)]
mod tests {
    use super::{quantile, upper_end};

    #[test]
    fn the_quantiles_are_those_of_the_table() {
        let table = [
            (1, 6.314),
            (2, 2.920),
            (3, 2.353),
            (7, 1.895),
            (11, 1.796),
            (30, 1.697),
            (39, 1.685),
            (199, 1.653),
        ];
        for (freedom, t) in table {
            let found = quantile(freedom);
            assert!((found - t).abs() < 5e-4, "{found} with {freedom} degrees of freedom, {t} in the table");
        }
    }

    #[test]
    fn the_upper_end_is_above_the_mean_by_the_quantile_of_its_errors() {
        // The mean is 2, its standard error 1.
        let found = upper_end(&[1.0, 3.0]);
        assert!((found - 8.314).abs() < 5e-4, "{found}");
    }
}
