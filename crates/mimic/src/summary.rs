//! The samples at one distance, and the summaries of them.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use units::Duration;

/// The number of equal parts into which a stored distribution is divided by its quantiles 0, 1/16 .. 16/16. A random
/// time lies on the straight line between two of them.
pub(crate) const PARTS: usize = 16;

/// The summary that makes one prediction of the times observed at one distance (ATC'03, section 5.1). The paper
/// found the mean best, then the median, the maximum, the probabilistic one and the minimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Metric {
    /// The mean of the samples, which is the default.
    #[default]
    Mean,
    /// The median; of an even number of samples, the mean of the middle two.
    Median,
    /// The longest sample.
    Maximum,
    /// The shortest sample.
    Minimum,
    /// A random sample for each prediction.
    Probabilistic,
}

impl Metric {
    /// All metrics, in the paper's order.
    pub const ALL: [Self; 5] = [Self::Mean, Self::Median, Self::Maximum, Self::Minimum, Self::Probabilistic];

    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Mean => 0,
            Self::Median => 1,
            Self::Maximum => 2,
            Self::Minimum => 3,
            Self::Probabilistic => 4,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|m| m.code() == code)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mean => "mean",
            Self::Median => "median",
            Self::Maximum => "maximum",
            Self::Minimum => "minimum",
            Self::Probabilistic => "probabilistic",
        })
    }
}

/// The error for a name that is no metric's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown summary {name:?}; take mean, median, maximum, minimum or probabilistic")]
pub struct UnknownMetric {
    name: String,
}

impl FromStr for Metric {
    type Err = UnknownMetric;

    fn from_str(name: &str) -> Result<Self, UnknownMetric> {
        Self::ALL.into_iter().find(|m| m.to_string() == name).ok_or_else(|| UnknownMetric {
            name: name.chars().take(40).collect::<String>().escape_debug().to_string(),
        })
    }
}

/// The times observed at one distance.
///
/// ```
/// use mimic::{Metric, Samples};
/// use units::Duration;
/// let mut samples = Samples::default();
/// for us in [1_800, 6_800, 6_800, 7_000] {
///     samples.push(Duration::from_micros(us));
/// }
/// assert_eq!(samples.summary(Metric::Mean, 0), Some(Duration::from_micros(5_600)));
/// assert_eq!(samples.summary(Metric::Minimum, 0), Some(Duration::from_micros(1_800)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// The samples in nanoseconds, ascending.
    sorted: Vec<u64>,
}

impl Samples {
    /// Creates an empty set with room for `samples` samples.
    pub(crate) fn with_capacity(samples: usize) -> Self {
        Self { sorted: Vec::with_capacity(samples) }
    }

    /// Returns the memory of the samples, in bytes.
    pub(crate) fn memory(&self) -> usize {
        self.sorted.capacity() * size_of::<u64>()
    }

    /// Adds a sample.
    pub fn push(&mut self, time: Duration) {
        let ns = time.as_nanos();
        let at = self.sorted.partition_point(|s| *s <= ns);
        self.sorted.insert(at, ns);
    }

    /// Returns the number of samples.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// Returns whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Removes all samples, but does not free their memory.
    pub fn clear(&mut self) {
        self.sorted.clear();
    }

    /// Iterates over the samples in ascending order.
    pub fn sorted(&self) -> impl ExactSizeIterator<Item = Duration> + '_ {
        self.sorted.iter().map(|ns| Duration::from_nanos(*ns))
    }

    /// Returns the summary, to the nanosecond; `None` without samples. The probabilistic summary is the sample with
    /// index `lot` x count / 2^64, so that with a uniform `lot` all samples are equally likely.
    pub fn summary(&self, metric: Metric, lot: u64) -> Option<Duration> {
        let (first, last) = (*self.sorted.first()?, *self.sorted.last()?);
        let n = self.sorted.len();
        let ns = match metric {
            Metric::Mean => {
                let sum: u128 = self.sorted.iter().map(|ns| u128::from(*ns)).sum();
                ((sum + n as u128 / 2) / n as u128) as u64
            }
            Metric::Median => {
                let (low, high) = (self.sorted[(n - 1) / 2], self.sorted[n / 2]);
                low + (high - low) / 2
            }
            Metric::Maximum => last,
            Metric::Minimum => first,
            Metric::Probabilistic => self.sorted[((u128::from(lot) * n as u128) >> 64) as usize],
        };
        Some(Duration::from_nanos(ns))
    }

    /// Returns quantile `k` / [`PARTS`], in nanoseconds, interpolated between samples; 0 without samples.
    pub(crate) fn quantile(&self, k: usize) -> u64 {
        let steps = self.sorted.len().saturating_sub(1) * k.min(PARTS);
        let (at, rest) = (steps / PARTS, (steps % PARTS) as u64);
        let low = self.sorted.get(at).copied().unwrap_or(0);
        let high = self.sorted.get(at + 1).copied().unwrap_or(low);
        low + ((u128::from(high - low) * u128::from(rest)) / PARTS as u128) as u64
    }
}

impl FromIterator<Duration> for Samples {
    fn from_iter<I: IntoIterator<Item = Duration>>(times: I) -> Self {
        let mut sorted: Vec<u64> = times.into_iter().map(Duration::as_nanos).collect();
        sorted.sort_unstable();
        Self { sorted }
    }
}
