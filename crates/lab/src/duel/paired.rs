//! Two runs of the same arrivals, compared request by request, with an upper confidence bound of the difference.

use std::num::NonZeroU64;
use workload::random::Stream;

/// Response times in ms, in the order of arrival.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Responses(pub Vec<f64>);

/// The number of blocks of consecutive requests into which a run is cut. The waiting times of neighbouring requests
/// depend on each other; those of whole blocks of some hundred requests do not.
const BLOCKS: usize = 24;

/// The number of resamples of the bootstrap.
const RESAMPLES: usize = 400;

/// The share of resamples that are at or below the upper end of the confidence interval: one-sided, 95%.
const CONFIDENCE: f64 = 0.95;

/// The excess of one contestant's response times over another's, in percent; negative if they are shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Slower {
    /// The estimate from all requests.
    pub percent: f64,
    /// The upper end of the one-sided confidence interval of 95% of that estimate.
    pub at_most: f64,
}

impl Responses {
    /// Returns the mean, in ms.
    pub fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// Returns the 99th percentile, in ms.
    pub fn p99(&self) -> f64 {
        p99(&mut self.0.clone())
    }
}

fn p99(values: &mut [f64]) -> f64 {
    let at = (values.len() * 99).div_ceil(100).saturating_sub(1);
    if values.is_empty() { f64::NAN } else { *values.select_nth_unstable_by(at, f64::total_cmp).1 }
}

/// The requests of all seeds, in blocks; each block with both contestants' responses.
struct Blocks<'r>(Vec<(&'r [f64], &'r [f64])>);

impl<'r> Blocks<'r> {
    fn new(with: &'r [Responses], without: &'r [Responses]) -> Self {
        let mut blocks = Vec::new();
        for (with, without) in with.iter().zip(without) {
            let len = with.0.len().min(without.0.len());
            let each = len.div_ceil(BLOCKS).max(1);
            blocks.extend(with.0[..len].chunks(each).zip(without.0[..len].chunks(each)));
        }
        Self(blocks)
    }

    /// Returns by how many percent the statistic `of` is larger for the first contestant than for the second, over
    /// the chosen blocks; a block may be chosen several times.
    fn slower(&self, chosen: &[usize], of: fn(&mut [f64]) -> f64) -> f64 {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for &at in chosen {
            with.extend_from_slice(self.0[at].0);
            without.extend_from_slice(self.0[at].1);
        }
        (of(&mut with) / of(&mut without) - 1.0) * 100.0
    }

    /// Returns by how many percent the statistic `of` is larger for the first contestant than for the second, over
    /// all blocks, with the upper end from a paired block bootstrap.
    fn compare(&self, of: fn(&mut [f64]) -> f64) -> Slower {
        let count = self.0.len();
        let Some(bound) = NonZeroU64::new(count as u64) else {
            return Slower { percent: f64::NAN, at_most: f64::NAN };
        };
        let mut draw = Stream::new(0, "paired block bootstrap");
        let mut ends: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let chosen: Vec<usize> = (0..count).map(|_| draw.below(bound) as usize).collect();
                self.slower(&chosen, of)
            })
            .collect();
        let all: Vec<usize> = (0..count).collect();
        ends.sort_unstable_by(f64::total_cmp);
        let at = ((RESAMPLES as f64 * CONFIDENCE).ceil() as usize).saturating_sub(1);
        Slower { percent: self.slower(&all, of), at_most: ends[at.min(RESAMPLES - 1)] }
    }
}

/// Returns by how much the mean response is longer in `with` than in `without`. The runs are paired by seed and have
/// the same arrivals.
pub fn mean_slower(with: &[Responses], without: &[Responses]) -> Slower {
    Blocks::new(with, without).compare(|values| values.iter().sum::<f64>() / values.len() as f64)
}

/// Returns by how much the 99th percentile of responses is longer in `with` than in `without`. The runs are paired by
/// seed and have the same arrivals.
pub fn p99_slower(with: &[Responses], without: &[Responses]) -> Slower {
    Blocks::new(with, without).compare(p99)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(seed: u64, plus: f64) -> Responses {
        let mut draw = Stream::new(seed, "test");
        Responses((0..2_400).map(|_| 10.0 + draw.exponential() + plus * draw.unit()).collect())
    }

    #[test]
    fn equal_runs_differ_by_nothing() {
        let runs = [made(1, 0.0), made(2, 0.0)];
        assert_eq!(mean_slower(&runs, &runs), Slower { percent: 0.0, at_most: 0.0 });
        assert_eq!(p99_slower(&runs, &runs), Slower { percent: 0.0, at_most: 0.0 });
    }

    #[test]
    fn the_upper_end_lies_above_the_truth_in_nineteen_of_twenty() {
        // Both runs have noise of their own, and the responses of one are 0.2 ms longer than the other's mean of 11
        // ms.
        let truth = 100.0 * 0.2 / 11.0;
        let covered = (0..200)
            .filter(|&at| {
                let without = [made(2 * at, 0.0)];
                let with = [Responses(made(2 * at + 1, 0.0).0.iter().map(|ms| ms + 0.2).collect())];
                mean_slower(&with, &without).at_most >= truth
            })
            .count();
        assert!((180..200).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn the_percentile_is_one_of_the_values() {
        assert_eq!(p99(&mut (1..=100).map(f64::from).collect::<Vec<_>>()), 99.0);
        assert_eq!(p99(&mut (1..=200).map(f64::from).collect::<Vec<_>>()), 198.0);
        assert_eq!(p99(&mut [5.0]), 5.0);
    }
}
