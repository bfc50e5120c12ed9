//! Noticing that the drive is another.

/// Errors before the detector trusts its measure of them.
const WARM_UP: u32 = 512;

/// The measure of errors is their mean over about so many.
const SLOW: u64 = 1_024;

/// An error counts for at most so many times the mean: one retry is not another drive.
const MOST: u64 = 8;

/// Errors up to so many times the mean are taken for normal.
const ALLOWED: u64 = 2;

/// How far errors beyond that must add up, in mean errors.
const ALARM: u64 = 64;

/// Page's CUSUM test on the errors of predictions: the sum of what each is beyond twice the mean error, never below
/// zero, must reach 64 mean errors. Predictions of a drive's own table are off by a mean error now and then by many; only
/// another drive has them off for a long time together. Chosen over a window that is compared with an older one since it
/// keeps two numbers and notices a large change soon and a small one later, and over ageing alone since a distance
/// that is wrongly taken for slow is not chosen again, so that it would not age (ATC'03, section 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    seen: u32,
    /// Sum of the last errors, about [`SLOW`] of them; in ns.
    errors: u64,
    /// In mean errors' [`SLOW`]ths: sums of ns x `SLOW`.
    sum: u64,
}

impl Change {
    /// The mean error, in nanoseconds.
    pub fn mean(&self) -> u64 {
        self.errors / u64::from(self.seen.max(1)).min(SLOW)
    }

    /// A prediction was off by `error` ns; whether this shows another drive. Then all begins anew.
    pub fn off_by(&mut self, error: u64) -> bool {
        let error = error.min(1 << 40);
        if self.seen < WARM_UP {
            self.seen += 1;
            self.errors += error;
            return false;
        }
        let mean = self.mean().max(1);
        let capped = error.min(mean * MOST);
        self.sum = (self.sum + capped).saturating_sub(mean * ALLOWED);
        if self.sum > mean * ALARM {
            *self = Self::default();
            return true;
        }
        if u64::from(self.seen) < SLOW {
            self.seen += 1;
        } else {
            self.errors -= self.errors / SLOW;
        }
        self.errors += capped;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use workload::random::Stream;

    /// Errors like those of a table: most of them small, some as long as a revolution.
    fn error(random: &mut Stream, scale: f64) -> u64 {
        let long = random.unit() < 0.08;
        (if long { 6_000_000.0 * random.unit() } else { scale * random.exponential() }) as u64
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn the_same_drive_raises_no_alarm(seed: u64, scale in 50_000.0..1_500_000.0) {
            let (mut change, mut random) = (Change::default(), Stream::new(seed, "errors"));
            for _ in 0..100_000 {
                prop_assert!(!change.off_by(error(&mut random, scale)));
            }
        }

        #[test]
        fn errors_four_times_as_long_are_noticed_within_a_hundred(seed: u64, scale in 50_000.0..500_000.0) {
            let (mut change, mut random) = (Change::default(), Stream::new(seed, "errors"));
            for _ in 0..2_000 {
                change.off_by(error(&mut random, scale));
            }
            let mean = change.mean() as f64;
            let noticed = (0..100).any(|_| change.off_by((mean * 8.0 * random.unit()) as u64));
            prop_assert!(noticed);
            prop_assert_eq!(change, Change::default());
        }
    }

    #[test]
    fn retries_are_not_another_drive() {
        let mut change = Change::default();
        for i in 0..50_000u64 {
            let error = if i % 50 == 0 { 500_000_000 } else { 300_000 + i % 7 * 50_000 };
            assert!(!change.off_by(error), "after {i}");
        }
    }
}
