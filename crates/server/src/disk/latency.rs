//! Distributions of response times and delays.

use hdrhistogram::Histogram;
use serde::Serialize;
use units::Duration;

/// The bounds of [`Latency::buckets`], in microseconds: about three per decade, from a hit in the host's cache to a
/// drive that recalibrates.
pub const BOUNDS_US: [u64; 16] = [
    50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 50_000, 100_000, 200_000,
    500_000, 2_000_000,
];

/// A distribution of times.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// The number of recorded times.
    pub count: u64,
    /// The sum of all times, in microseconds.
    pub sum_us: f64,
    /// The median in microseconds, to three digits as the other percentiles.
    pub p50_us: f64,
    /// The 90th percentile, in microseconds.
    pub p90_us: f64,
    /// The 99th percentile, in microseconds.
    pub p99_us: f64,
    /// The 99.9th percentile, in microseconds.
    pub p999_us: f64,
    /// The longest time, in microseconds.
    pub max_us: f64,
    /// For each of [`BOUNDS_US`], the number of recorded times that are not longer.
    pub buckets: Vec<u64>,
}

impl Latency {
    pub(super) fn of(meter: &Meter) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        let at = |quantile| us(meter.times.value_at_quantile(quantile));
        let mut sum = 0;
        let cumulated = meter.buckets.iter().map(|n| {
            sum += n;
            sum
        });
        Self {
            count: meter.times.len(),
            buckets: cumulated.collect(),
            sum_us: meter.sum_ns as f64 / 1e3,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: us(meter.times.max()),
        }
    }
}

impl Latency {
    /// Makes a distribution from pairs of a time in microseconds and its count.
    pub(super) fn of_counts(counts: impl Iterator<Item = (u64, u64)>) -> Self {
        let mut counts: Vec<(u64, u64)> = counts.collect();
        counts.sort_unstable();
        let upto = |us: u64| counts.iter().filter(|(at, _)| *at <= us).map(|(_, n)| n).sum::<u64>();
        let count = counts.iter().map(|(_, n)| n).sum::<u64>();
        let at = |quantile: f64| {
            let wanted = (count as f64 * quantile).ceil() as u64;
            let mut seen = 0;
            let place = counts.iter().find(|(_, n)| {
                seen += n;
                seen >= wanted
            });
            place.map_or(0.0, |(us, _)| *us as f64)
        };
        Self {
            count,
            sum_us: counts.iter().map(|(us, n)| us * n).sum::<u64>() as f64,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: counts.last().map_or(0.0, |(us, _)| *us as f64),
            buckets: BOUNDS_US.iter().map(|us| upto(*us)).collect(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Meter {
    times: Histogram<u64>,
    sum_ns: u128,
    buckets: [u64; BOUNDS_US.len()],
}

impl Meter {
    pub fn new() -> Self {
        // Three digits are a valid precision.
        let times = Histogram::new(3).unwrap_or_else(|e| unreachable!("{e}"));
        Self { times, sum_ns: 0, buckets: [0; BOUNDS_US.len()] }
    }

    pub fn note(&mut self, time: Duration) {
        let ns = time.as_nanos();
        // The histogram grows as needed, so an error can only mean a value that no histogram can hold.
        let _ = self.times.record(ns);
        self.sum_ns += u128::from(ns);
        if let Some(bucket) = BOUNDS_US.iter().position(|us| ns <= us * 1_000) {
            self.buckets[bucket] += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_counts_are_those_of_the_values() {
        let latency = Latency::of_counts([(30, 1), (10, 90), (20, 8), (5_000, 1)].into_iter());
        assert_eq!((latency.count, latency.sum_us), (100, 6_090.0));
        assert_eq!(
            (latency.p50_us, latency.p90_us, latency.p99_us, latency.max_us),
            (10.0, 10.0, 30.0, 5_000.0)
        );
        assert_eq!((latency.buckets[0], latency.buckets[6], latency.buckets.last()), (99, 100, Some(&100)));
        assert_eq!(Latency::of_counts([].into_iter()).p99_us, 0.0);
    }

    /// `saturating_record` caps values at the histogram's range, which is empty before it has grown.
    #[test]
    fn the_histogram_keeps_recorded_times() {
        let mut meter = Meter::new();
        for ms in 1..=100 {
            meter.note(Duration::from_millis(ms));
        }
        let latency = Latency::of(&meter);
        assert!((latency.p50_us - 50_000.0).abs() < 100.0, "{latency:?}");
        assert!((latency.max_us - 100_000.0).abs() < 200.0, "{latency:?}");
        assert_eq!(latency.buckets.last(), Some(&100));
    }
}
