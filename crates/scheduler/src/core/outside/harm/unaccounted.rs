//! The increase of response times that the audit finds and the harm estimate does not contain. It is subtracted from the bound
//! on harm.
//!
//! The [audit](super::audit) compares pairs of time windows, with and without background work (or scheduling). The intervals that
//! it reports weigh all pairs since its comparisons began. This increase changes the scheduling, and loads change, so old pairs
//! are forgotten here. Each new pair fades them even if it has no requests, until only the prior of [`Increase::off`] is left.

use super::sequence::Sequence;

#[cfg(not(feature = "std"))]
use units::Float as _;

/// One, in ppm.
pub(super) const WHOLE_PPM: u64 = 1_000_000;

/// The number of pairs after which the weight of a pair has fallen to 1/e: three days if windows have their longest duration,
/// and some hours at fifty requests a second.
const PAIRS_REMEMBERED: u32 = 256;

/// The difference of response times between windows of two kinds, over the last pairs of windows, less the harm that the estimate
/// charges.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Uncharged {
    differences: Sequence,
    /// The weighted sum of the mean response times in untreated windows.
    untreated: f64,
}

impl Uncharged {
    /// Reduces the weight of all pairs, because another pair is done.
    pub fn fade(&mut self) {
        let left = 1.0 - 1.0 / f64::from(PAIRS_REMEMBERED);
        self.differences.fade(left);
        self.untreated *= left;
    }

    /// Adds a pair, in revolutions and with its weight: the `difference` of its windows' response times, less the harm that the
    /// estimate charges, and the mean response time of the `untreated` window.
    pub fn add(&mut self, difference: f64, untreated: f64, weight: f64) {
        self.differences.add(difference, weight);
        self.untreated += untreated * weight;
    }

    /// Returns the increase of response times; `None` before the first pair.
    pub fn increase(&self) -> Option<Increase> {
        let base = self.untreated / self.differences.weight();
        let relative = |of: f64| of / base;
        (base > 0.0).then(|| Increase {
            mean: relative(self.differences.mean()),
            error: relative(self.differences.error()),
        })
    }
}

/// An increase of response times as a part of the mean, with its standard error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Increase {
    pub mean: f64,
    pub error: f64,
}

impl Increase {
    /// Returns the sum of two independent increases.
    pub fn and(self, other: Self) -> Self {
        let error = (self.error * self.error + other.error * other.error).sqrt();
        Self { mean: self.mean + other.mean, error }
    }

    /// Returns the rest of a bound on harm after this increase, in ppm.
    ///
    /// The prior is that the harm estimate contains all harm, with the bound as its standard deviation. The mean of the posterior
    /// is subtracted from the bound. A negative increase, from an estimate that is too high, adds nothing: the estimate may be
    /// right for the next load.
    pub fn off(self, bound_ppm: u32) -> u32 {
        let bound = f64::from(bound_ppm) / WHOLE_PPM as f64;
        let prior = bound * bound;
        let believed = self.mean.max(0.0) * prior / (prior + self.error * self.error);
        // A bound of zero would divide zero by zero.
        if bound_ppm == 0 { 0 } else { ((bound - believed) * WHOLE_PPM as f64).max(0.0) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the rest of a bound of 1%, in ppm, after an increase in percent with its error.
    fn left(mean: f64, error: f64) -> u32 {
        Increase { mean: mean / 100.0, error: error / 100.0 }.off(10_000)
    }

    #[test]
    fn harm_outside_the_account_is_taken_off_the_bound_as_far_as_it_is_known() {
        assert_eq!(left(0.4, 0.0), 6_000);
        assert_eq!(left(0.4, 1.0), 8_000);
        assert!(left(0.4, 30.0) > 9_990);
        assert_eq!(left(3.0, 0.1), 0);
    }

    #[test]
    fn an_account_that_overestimates_gets_no_more_than_the_bound() {
        assert_eq!(left(-0.4, 0.1), 10_000);
    }

    #[test]
    fn pairs_that_bring_nothing_lead_back_to_the_bound() {
        let mut uncharged = Uncharged::default();
        assert!(uncharged.increase().is_none());
        for pair in 0..400 {
            uncharged.fade();
            // An increase of 3% with a deviation of 3%.
            uncharged.add(if pair % 2 == 0 { 0.06 } else { 0.0 }, 1.0, 1.0);
        }
        let left = |uncharged: &Uncharged| uncharged.increase().unwrap().off(10_000);
        assert_eq!(left(&uncharged), 0);
        for _ in 0..8 * PAIRS_REMEMBERED {
            uncharged.fade();
        }
        assert!(left(&uncharged) > 9_000, "{}", left(&uncharged));
    }
}
