//! The Zipf distribution, sampled exactly and without a table.

use super::float::{exp_m1_over, exp_neg, ln, ln_1p_over};
use super::{Stream, THETA_ONE_PPM};
use std::num::NonZeroU64;

/// A sampler of ranks from 1 to n, in which rank k has a probability proportional to 1 / k^theta.
///
/// The method is rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates from
/// monotone discrete distributions", ACM TOMACS 6(3), 1996). It needs no table, so 5 billion ranks take the memory of
/// ten, and rejects few draws: a sample takes under 1.3 on average. The result is exact up to the rounding of a
/// 53-bit float.
///
/// ```
/// use freeblock_workload::random::{Stream, Zipf};
/// use std::num::NonZeroU64;
/// let zipf = Zipf::new(NonZeroU64::new(5_000_000_000).unwrap(), 900_000);
/// let mut stream = Stream::new(42, "popularity");
/// assert!((1..=5_000_000_000).contains(&zipf.sample(&mut stream)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zipf {
    ranks: NonZeroU64,
    theta: f64,
    /// 1 - theta.
    rest: f64,
    /// The integral of the hat (x^-theta) up to the first rank's end, less the first rank's own weight.
    low: f64,
    /// The integral of the hat up to the last rank's end.
    high: f64,
    /// The distance below a rank within which a draw is accepted without a further comparison.
    squeeze: f64,
}

impl Zipf {
    /// Returns a sampler of `ranks` ranks with the exponent `theta_ppm` / 1,000,000. With 0 all ranks are equally likely.
    pub fn new(ranks: NonZeroU64, theta_ppm: u32) -> Self {
        let theta = f64::from(theta_ppm) / THETA_ONE_PPM;
        let mut zipf = Self { ranks, theta, rest: 1.0 - theta, low: 0.0, high: 0.0, squeeze: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(ranks.get() as f64 + 0.5);
        zipf.squeeze = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// Draws a rank, from 1 on.
    pub fn sample(&self, stream: &mut Stream) -> u64 {
        loop {
            let area = self.high + stream.unit() * (self.low - self.high);
            let x = self.inverse(area);
            // A cast of a float to an integer saturates, and the clamp takes care of rounding at both ends.
            let rank = ((x + 0.5) as u64).clamp(1, self.ranks.get());
            let k = rank as f64;
            if k - x <= self.squeeze || area >= self.integral(k + 0.5) - self.density(k) {
                return rank;
            }
        }
    }

    /// Returns x^-theta, the hat of the distribution.
    fn density(&self, x: f64) -> f64 {
        exp_neg(self.theta * ln(x))
    }

    /// Returns the integral of the hat from 1 to `x`: (x^(1-theta) - 1) / (1-theta), or ln x for theta = 1.
    fn integral(&self, x: f64) -> f64 {
        let log = ln(x);
        exp_m1_over(self.rest * log) * log
    }

    /// Returns the `x` at which the integral has the value `area`.
    fn inverse(&self, area: f64) -> f64 {
        // Only rounding can bring this to -1 or below: the integral of a falling hat stays below 1 / (theta - 1).
        let t = (self.rest * area).max(-1.0 + f64::EPSILON);
        let log = ln_1p_over(t) * area;
        if log < 0.0 { exp_neg(-log) } else { 1.0 / exp_neg(log) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the sum of 1 / k^theta from `first` to `last`: term by term up to 10,000, and beyond by the formula of Euler and
    /// Maclaurin, whose next term is below 1e-16 there.
    fn sum(theta: f64, first: u64, last: u64) -> f64 {
        const TERMS: u64 = 10_000;
        let term = |k: u64| (k as f64).powf(-theta);
        let direct: f64 = (first..=last.min(TERMS)).map(term).sum();
        let from = first.max(TERMS + 1);
        if last < from {
            return direct;
        }
        let (a, b) = (from as f64, last as f64);
        let integral = if theta == 1.0 {
            (b / a).ln()
        } else {
            (b.powf(1.0 - theta) - a.powf(1.0 - theta)) / (1.0 - theta)
        };
        let slope = |x: f64| -theta * x.powf(-theta - 1.0);
        direct + integral + (term(from) + term(last)) / 2.0 + (slope(b) - slope(a)) / 12.0
    }

    /// Returns the bins of the chi-square test as first and last ranks: small ranks alone, then ever wider ones.
    fn bins(ranks: u64) -> Vec<(u64, u64)> {
        let mut bins = Vec::new();
        let mut first = 1u64;
        while first <= ranks {
            let last = if first <= 16 { first } else { first.saturating_mul(2) - 1 };
            bins.push((first, last.min(ranks)));
            first = last.saturating_add(1);
        }
        bins
    }

    /// Compares draws with the stated probabilities by chi-square. The bound is 5 standard deviations above the mean, by
    /// the approximation of Wilson and Hilferty; chance exceeds it once in some million tests.
    #[track_caller]
    fn check(ranks: u64, theta_ppm: u32) {
        const DRAWS: u64 = 50_000;
        let theta = f64::from(theta_ppm) / 1e6;
        let zipf = Zipf::new(NonZeroU64::new(ranks).unwrap(), theta_ppm);
        let mut stream = Stream::new(u64::from(theta_ppm) ^ ranks, "zipf");
        let bins = bins(ranks);
        let mut counts = vec![0u64; bins.len()];
        for _ in 0..DRAWS {
            let rank = zipf.sample(&mut stream);
            counts[bins.partition_point(|(_, last)| *last < rank)] += 1;
        }
        let whole = sum(theta, 1, ranks);
        // Bins with less than 10 expected draws are joined to the next.
        let (mut chi, mut cells, mut expected, mut seen) = (0.0, 0u32, 0.0, 0.0);
        for ((first, last), count) in bins.iter().zip(&counts) {
            expected += sum(theta, *first, *last) / whole * DRAWS as f64;
            seen += *count as f64;
            if expected >= 10.0 {
                chi += (seen - expected).powi(2) / expected;
                cells += 1;
                (expected, seen) = (0.0, 0.0);
            }
        }
        if cells < 2 {
            return;
        }
        let freedom = f64::from(cells - 1);
        let spread = 2.0 / (9.0 * freedom);
        let bound = freedom * (1.0 - spread + 5.0 * spread.sqrt()).powi(3);
        assert!(
            chi < bound,
            "{ranks} ranks, theta {theta}: chi-square {chi} of {cells} cells, bound {bound}"
        );
    }

    #[test]
    fn draws_have_the_stated_probabilities_up_to_5e9_ranks() {
        for theta_ppm in [0, 200_000, 500_000, 900_000, 990_000, 1_000_000, 1_000_001, 1_200_000, 2_500_000] {
            for ranks in [2, 10, 1_000, 2_242_373, 5_000_000_000] {
                check(ranks, theta_ppm);
            }
        }
    }

    #[test]
    fn extreme_exponents_and_numbers_of_ranks_stay_within_the_ranks() {
        for theta_ppm in [0, 1, 999_999, 1_000_000, 1_000_001, 10_000_000] {
            for ranks in [1, 2, 3, u64::MAX / 2, u64::MAX] {
                let zipf = Zipf::new(NonZeroU64::new(ranks).unwrap(), theta_ppm);
                let mut stream = Stream::new(ranks, "extremes");
                for _ in 0..200 {
                    let rank = zipf.sample(&mut stream);
                    assert!((1..=ranks).contains(&rank), "{rank} of {ranks}, {theta_ppm}");
                }
            }
        }
    }

    #[test]
    fn ranks_are_pinned() {
        let zipf = Zipf::new(NonZeroU64::new(5_000_000_000).unwrap(), 900_000);
        let mut stream = Stream::new(42, "zipf");
        let ranks: Vec<u64> = (0..6).map(|_| zipf.sample(&mut stream)).collect();
        assert_eq!(ranks, [1972, 4, 115, 17257, 35384, 3792296220]);
    }
}
