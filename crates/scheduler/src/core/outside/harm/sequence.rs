//! A confidence sequence for the mean difference between the two windows of a pair.
//!
//! # The theorem
//! Let the two windows of pair `t` have the outcomes `a` and `b`, and let a fair coin decide which of them is treated. If the
//! treatment adds the same amount `tau` to either window, then the measured difference, treated less untreated, is
//! `tau + (a - b)` or `tau - (a - b)` with equal probability, where `a` and `b` are the outcomes without treatment. So the
//! deviation from `tau` is symmetric about zero, whatever produced `a` and `b`: heavy tails, autocorrelation between
//! windows and drift of the load are all allowed, and no moment has to exist.
//!
//! For increments `x` that are conditionally symmetric, `exp(l S - l^2 V / 2)` with `S = sum x` and `V = sum x^2` is a
//! nonnegative supermartingale for each real `l` (de la Pena, "A general class of exponential inequalities for martingales
//! and ratios", Annals of Probability 27(1), 1999, Lemma 6.1; Howard, Ramdas, McAuliffe, Sekhon, "Time-uniform Chernoff
//! bounds via nonnegative supermartingales", Probability Surveys 17, 2020, table 3). Mixed over a normal `l` of mean zero and
//! precision `rho` it is `sqrt(rho / (rho + V)) exp(S^2 / (2 (rho + V)))` (the two-sided normal mixture of Howard, Ramdas,
//! McAuliffe, Sekhon, "Time-uniform, nonparametric, nonasymptotic confidence sequences", Annals of Statistics 49(2), 2021,
//! proposition 5). By Ville's inequality the probability that this supermartingale ever reaches `1 / alpha` is at most `alpha`.
//! The values of `tau` for which it has not reached that level therefore form a confidence sequence: the set contains the true
//! value at all times with probability `1 - alpha`, so it may be read, and acted on, at any time.
//!
//! # The conditions
//! 1. The coin is fair and independent of everything before the pair. The seeded draw gives this.
//! 2. The first window does not change the outcome of the second beyond the requests that are left out. The audit
//!    checks this by comparing the halves of windows.
//! 3. The weight of a pair does not depend on which window is treated: it is symmetric in the windows' numbers of requests.
//! 4. The effect is the same in each pair. If the effect varies, the sequence is for the weighted mean effect so far, and `V`
//!    is taken about that mean: `V` is larger in expectation by the variance of the effect, so the sequence becomes wider, but
//!    the guarantee is then asymptotic and not exact.
//!
//! `rho` must be chosen before the scale of the outcomes is known. So the supermartingale is the mean of several, with
//! `rho` in steps that cover all scales between a thousandth of a revolution and hundreds of revolutions.

#[cfg(not(feature = "std"))]
use units::Float as _;

/// The values of `rho`, in squared revolutions: powers of 64.
const PRECISION_LOG64: core::ops::RangeInclusive<i32> = -4..=3;

/// The number of distances from the mean that are tried on each side, each smaller than the one before by a factor of
/// `2^(1/4)`. The smallest is about a millionth of a millionth of the largest.
const POINTS_PER_SIDE: u32 = 160;

/// The number of halvings between one tried distance and the next: far finer than any displayed digit.
const HALVINGS_PER_POINT: u32 = 20;

/// An interval estimate of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Interval {
    /// The estimate.
    pub mean: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Interval {
    /// Returns whether a number lies between both ends.
    pub fn holds(&self, number: f64) -> bool {
        (self.low..=self.high).contains(&number)
    }

    /// Returns the interval in another unit.
    pub(super) fn times(self, factor: f64) -> Self {
        Self { mean: self.mean * factor, low: self.low * factor, high: self.high * factor }
    }
}

/// The sums over all pairs that the sequence needs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sequence {
    pairs: u64,
    /// The sums of the weights and of their squares.
    weight: f64,
    squared: f64,
    /// The sum of weighted differences.
    sum: f64,
    /// The sums of `weight^2 difference` and `weight^2 difference^2`.
    cross: f64,
    square: f64,
}

impl Sequence {
    /// Adds the difference between the windows of one pair, in revolutions.
    pub fn add(&mut self, difference: f64, weight: f64) {
        let squared = weight * weight;
        self.pairs += 1;
        self.weight += weight;
        self.squared += squared;
        self.sum += weight * difference;
        self.cross += squared * difference;
        self.square += squared * difference * difference;
    }

    /// Reduces the weight of all pairs so far to the part `left`.
    pub fn fade(&mut self, left: f64) {
        for sum in [&mut self.weight, &mut self.squared, &mut self.sum, &mut self.cross, &mut self.square] {
            *sum *= left;
        }
    }

    /// Returns the sum of all weights.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Returns the number of pairs so far.
    pub fn pairs(&self) -> u64 {
        self.pairs
    }

    /// Returns the weighted mean difference.
    pub fn mean(&self) -> f64 {
        if self.weight > 0.0 { self.sum / self.weight } else { 0.0 }
    }

    /// Returns the standard error of the mean.
    pub fn error(&self) -> f64 {
        if self.weight > 0.0 { self.variation(self.mean()).sqrt() / self.weight } else { f64::INFINITY }
    }

    /// Returns the weighted sum of squared deviations from `tau`.
    fn variation(&self, tau: f64) -> f64 {
        (self.square - 2.0 * tau * self.cross + tau * tau * self.squared).max(0.0)
    }

    /// Returns the logarithm of the mixed supermartingale if the true difference were `tau`.
    fn log_evidence(&self, tau: f64) -> f64 {
        let (sum, variation) = (self.sum - tau * self.weight, self.variation(tau));
        let logs = PRECISION_LOG64.map(|power| {
            let rho = 64f64.powi(power);
            (sum * sum / (rho + variation) - (1.0 + variation / rho).ln()) / 2.0
        });
        let most = logs.clone().fold(f64::NEG_INFINITY, f64::max);
        let count = f64::from(PRECISION_LOG64.end() - PRECISION_LOG64.start() + 1);
        most + (logs.map(|log| (log - most).exp()).sum::<f64>() / count).ln()
    }

    /// Returns whether a true difference of `tau` is not refuted at level `alpha` by the pairs so far.
    pub fn admits(&self, tau: f64, alpha: f64) -> bool {
        self.log_evidence(tau) < -alpha.ln()
    }

    /// Returns the smallest interval around all differences that are not refuted at level `alpha`; `None` if an end is farther
    /// than `reach` revolutions from the mean.
    pub fn interval(&self, alpha: f64, reach: f64) -> Option<Interval> {
        let mean = self.mean();
        Some(Interval {
            mean,
            low: mean - self.extent(alpha, -reach)?.abs(),
            high: mean + self.extent(alpha, reach)?,
        })
    }

    /// Returns the distance from the mean to the end of the confidence interval at level `alpha`: the upper end if `reach` is
    /// positive, the lower one if it is negative. `None` if that end is farther away than `reach`.
    fn extent(&self, alpha: f64, reach: f64) -> Option<f64> {
        let mean = self.mean();
        let admits = |by: f64| self.admits(mean + by, alpha);
        if self.pairs == 0 || admits(reach) {
            return None;
        }
        let mut refuted = reach;
        for point in 1..=POINTS_PER_SIDE {
            let mut admitted = reach * 2f64.powf(-f64::from(point) / 4.0);
            if !admits(admitted) {
                refuted = admitted;
                continue;
            }
            for _ in 0..HALVINGS_PER_POINT {
                let between = f64::midpoint(admitted, refuted);
                *if admits(between) { &mut admitted } else { &mut refuted } = between;
            }
            break;
        }
        Some(refuted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lottery::Lottery;

    const MISS_PROBABILITY: f64 = 0.05;
    const REACH_REVOLUTIONS: f64 = 8.0;

    fn uniform(lottery: &mut Lottery) -> f64 {
        (lottery.below(1 << 53) as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Returns a nearly normal number: the sum of twelve uniform numbers less six.
    fn normal(lottery: &mut Lottery) -> f64 {
        (0..12).map(|_| uniform(lottery)).sum::<f64>() - 6.0
    }

    /// The distribution of the means of windows without treatment, and the effect of the treatment.
    #[derive(Clone, Copy, Debug)]
    struct WindowLoad {
        name: &'static str,
        /// The standard deviation of a window's mean, in revolutions.
        noise: f64,
        /// The share of a window's deviation that the next one inherits.
        inherited: f64,
        /// The probability of a lost revolution in a window.
        lost: f64,
        /// The exponent of a Pareto tail; below 2 the variance is infinite.
        tail: Option<f64>,
        /// The change of the mean from window to window.
        drift: f64,
        /// The effect of the treatment, and its change from pair to pair.
        effect: f64,
        effect_drift: f64,
    }

    const QUIET: WindowLoad = WindowLoad {
        name: "independent",
        noise: 0.01,
        inherited: 0.0,
        lost: 0.0,
        tail: None,
        drift: 0.0,
        effect: 0.01,
        effect_drift: 0.0,
    };

    const LOADS: [WindowLoad; 12] = [
        QUIET,
        WindowLoad { name: "no effect", effect: 0.0, ..QUIET },
        WindowLoad { name: "noise of a closed loop", noise: 0.000_5, ..QUIET },
        WindowLoad { name: "noise of responses", noise: 3.0, effect: 0.2, ..QUIET },
        WindowLoad { name: "autocorrelated", inherited: 0.9, ..QUIET },
        WindowLoad { name: "nearly a random walk", inherited: 0.999, ..QUIET },
        WindowLoad { name: "rare lost revolutions", noise: 0.001, lost: 0.02, ..QUIET },
        WindowLoad { name: "no variance", tail: Some(1.5), ..QUIET },
        WindowLoad { name: "no mean", tail: Some(0.9), ..QUIET },
        WindowLoad { name: "the load grows", drift: 0.002, ..QUIET },
        WindowLoad {
            name: "the load grows and remembers",
            drift: 0.002,
            inherited: 0.95,
            lost: 0.02,
            ..QUIET
        },
        WindowLoad { name: "the effect grows", inherited: 0.5, effect_drift: 0.000_2, ..QUIET },
    ];

    /// Returns whether the sequence contains the true effect after each of `pairs` pairs, its interval at the end, and the
    /// true effect.
    fn held(load: WindowLoad, pairs: u32, seed: u64) -> (bool, Option<Interval>, f64) {
        let mut lottery = Lottery::new(seed);
        let (mut sequence, mut state, mut trend, mut truth) = (Sequence::default(), 0.0, 0.0, 0.0);
        let mut holds = true;
        let mut window = |lottery: &mut Lottery| {
            trend += load.drift;
            state = load.inherited * state + normal(lottery) * load.noise;
            let lost = if uniform(lottery) < load.lost { uniform(lottery) } else { 0.0 };
            let tail = load.tail.map_or(0.0, |power| load.noise * uniform(lottery).powf(-1.0 / power));
            trend + state + lost + tail
        };
        for pair in 0..pairs {
            let windows = [window(&mut lottery), window(&mut lottery)];
            let treated = lottery.below(2) as usize;
            let effect = load.effect + load.effect_drift * f64::from(pair);
            // The weight belongs to the pair and is known before the draw.
            let weight = 0.5 + uniform(&mut lottery);
            truth += weight * effect;
            sequence.add(windows[treated] + effect - windows[1 - treated], weight);
            holds &= sequence.admits(truth / sequence.weight, MISS_PROBABILITY);
        }
        (holds, sequence.interval(MISS_PROBABILITY, REACH_REVOLUTIONS), truth / sequence.weight)
    }

    #[test]
    fn on_twelve_loads_the_sequence_holds_the_truth_at_all_times_in_95_of_100_runs() {
        for load in LOADS {
            let held = (0..200).filter(|&seed| held(load, 150, seed).0).count();
            assert!(held >= 190, "{}: {held} of 200", load.name);
        }
    }

    #[test]
    fn holding_at_all_times_makes_the_interval_at_most_two_and_a_half_times_as_wide() {
        for seed in 0..10 {
            let (_, interval, truth) = held(QUIET, 400, seed);
            let interval = interval.unwrap();
            assert!(interval.holds(truth));
            // The difference of two windows deviates by sqrt(2) times one window's deviation. An interval that is read
            // only once is 1.96 standard errors to each side.
            let one_look = 1.96 * 0.01 * 2f64.sqrt() / 400f64.sqrt();
            let half = (interval.high - interval.low) / 2.0;
            assert!((one_look..2.5 * one_look).contains(&half), "{half} against {one_look}");
        }
    }

    #[test]
    fn few_pairs_have_no_interval() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.interval(MISS_PROBABILITY, REACH_REVOLUTIONS), None);
        (0..6).for_each(|_| sequence.add(0.01, 1.0));
        assert_eq!(sequence.interval(MISS_PROBABILITY, REACH_REVOLUTIONS), None);
    }

    #[test]
    fn the_ends_of_the_interval_are_where_differences_are_refuted() {
        let mut lottery = Lottery::new(3);
        let mut sequence = Sequence::default();
        (0..100).for_each(|_| sequence.add(0.1 + 0.05 * normal(&mut lottery), 1.0));
        let Interval { mean, low, high } = sequence.interval(MISS_PROBABILITY, REACH_REVOLUTIONS).unwrap();
        assert!(low < mean && mean < high);
        for (inside, outside) in [(low + 1e-6, low - 1e-6), (high - 1e-6, high + 1e-6)] {
            assert!(sequence.admits(inside, MISS_PROBABILITY) && !sequence.admits(outside, MISS_PROBABILITY));
        }
    }
}
