//! Detects that the drive has been replaced by another one.

use crate::distance::Distance;
use crate::frame::{Broken, Reader, Writer};

/// The number of predictions of a class after which its mean error counts as normal.
const WARM_UP_PREDICTIONS: u32 = 32;

/// The normal error is the mean over about this number of predictions of a class.
const NORMAL_ERROR_PREDICTIONS: u32 = 1_024;

/// A class's guess is the mean of about this number of its latest times: few, so that the guess follows the load.
const GUESS_TIMES: u32 = 32;

/// The mean error of the guess is over about this number of predictions of a class.
const GUESS_ERROR_PREDICTIONS: u32 = 64;

/// The most that one error counts, in errors of the guess, because one retry does not mean another drive.
const ERROR_GUESSES_MAX: u64 = 4;

/// Errors up to this percentage of the normal one count as normal.
const NORMAL_ERROR_PERCENT_MAX: u64 = 130;

/// Errors up to this percentage of the guess's error also count as normal.
const GUESS_ERROR_PERCENT_MAX: u64 = 100;

/// The fixed-point value, in the sum of errors, of one mean error of the guess.
const GUESS_ERROR_UNIT: u64 = 1 << 10;

/// The sum of errors beyond the normal ones at which the drive counts as another one.
const ERROR_SUM_MAX: u64 = 100 * GUESS_ERROR_UNIT;

/// The number of ranges of distances that are distinguished: each is twice as wide as the previous one.
const DOUBLINGS: usize = 64;

/// The origin of a prediction, on which its normal error depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PredictionSource {
    /// The time of the table.
    Table,
    /// The line between two known distances.
    Line,
    /// The mean of the distance's own cell, with this number of samples.
    Own(u8),
}

impl PredictionSource {
    fn index(self) -> usize {
        match self {
            Self::Table => 0,
            Self::Line => 1,
            Self::Own(0 | 1) => 2,
            Self::Own(2 | 3) => 3,
            Self::Own(_) => 4,
        }
    }

    /// Returns whether the errors of this source count. A distance with a single sample that was short by chance is
    /// chosen by SMTF the more often the more requests wait: the error of such predictions depends more on the load
    /// than on the drive.
    fn tells(self) -> bool {
        !matches!(self, Self::Own(0 | 1))
    }
}

/// The number of sources that are distinguished.
const SOURCES: usize = 5;

/// Page's CUSUM test on the errors of predictions. A class has the predictions of one source at distances within one
/// doubling. Each error is compared with two values of its class: the normal error, and the error of a guess, which
/// is the mean of the latest times without knowledge of the distance. The part of an error beyond both is added to a
/// sum, in errors of the guess; the sum never falls below zero, and at 100 the drive counts as another one.
///
/// Both comparisons are needed. Under another load on the same drive, predictions may become harder, but learnt
/// times stay better than a guess. If learnt times never were better, as between distances so large that each occurs
/// once, bad predictions are normal. On another drive learnt times become worse than a guess, but if both drives
/// rotate equally fast, less than twice as bad as before: half a revolution is the largest possible error
/// (`freeblock lab run atc03-real`).
///
/// The alternatives are a comparison of a window of errors with an older one, and ageing of samples. The test needs
/// less memory than the first, and detects a large change soon and a small one later. Ageing alone is not enough,
/// because a distance that wrongly counts as slow is not chosen again, so it would not age (ATC'03, section 6.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    classes: Vec<Class>,
    /// The sum of the errors beyond the normal ones, in [`GUESS_ERROR_UNIT`]s.
    sum: u64,
    /// The mean error over all classes, for the statistics.
    all: Mean,
}

/// A mean over the latest values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Mean {
    seen: u32,
    sum: u64,
}

impl Mean {
    fn get(&self) -> u64 {
        self.sum / u64::from(self.seen.max(1))
    }

    /// Adds a value, for a mean over about `most` of them.
    fn add(&mut self, value: u64, most: u32) {
        if self.seen < most {
            self.seen += 1;
        } else {
            self.sum -= self.sum / u64::from(most);
        }
        self.sum += value;
    }
}

/// A class of similar predictions; all values in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Class {
    /// The errors of the predictions.
    errors: Mean,
    /// The latest times.
    times: Mean,
    /// The errors of the guess, which is the mean of the latest times.
    guessed: Mean,
}

impl Default for Change {
    fn default() -> Self {
        Self { classes: vec![Class::default(); SOURCES * DOUBLINGS], sum: 0, all: Mean::default() }
    }
}

impl Change {
    /// The memory of the test, in bytes.
    pub const MEMORY_BYTES: usize = SOURCES * DOUBLINGS * size_of::<Class>();

    /// Writes the sum (u64), the mean error over all classes, the number of classes with predictions (u64), and for
    /// each of them its index (u32) and three means. A mean is its number of values (u32) and their sum (u64).
    pub fn put(&self, out: &mut Writer) {
        let mean = |mean: &Mean, out: &mut Writer| {
            out.u32(mean.seen);
            out.u64(mean.sum);
        };
        out.u64(self.sum);
        mean(&self.all, out);
        let seen = || self.classes.iter().enumerate().filter(|(_, class)| **class != Class::default());
        out.u64(seen().count() as u64);
        for (i, class) in seen() {
            out.u32(i as u32);
            [&class.errors, &class.times, &class.guessed].into_iter().for_each(|of| mean(of, out));
        }
    }

    /// Reads the state that [`put`](Self::put) wrote.
    pub fn read(read: &mut Reader<'_>) -> Result<Self, Broken> {
        let mean = |read: &mut Reader<'_>, most: u32| {
            let mean = Mean { seen: read.u32()?, sum: read.u64()? };
            // An error counts for at most 2^40 ns, about 18 minutes.
            let fits = mean.seen <= most && mean.sum >> 40 <= u64::from(mean.seen);
            if fits { Ok(mean) } else { Err(read.wrong("errors that no learner has had")) }
        };
        let mut these = Self { sum: read.u64()?, ..Self::default() };
        if these.sum > ERROR_SUM_MAX {
            return Err(read.wrong("an alarm that was not handled"));
        }
        these.all = mean(read, NORMAL_ERROR_PREDICTIONS)?;
        for _ in 0..read.count(0, 40, "more kinds of predictions than there are bytes")? {
            let i = read.u32()? as usize;
            let class = Class {
                errors: mean(read, NORMAL_ERROR_PREDICTIONS)?,
                times: mean(read, GUESS_TIMES)?,
                guessed: mean(read, GUESS_ERROR_PREDICTIONS)?,
            };
            *these.classes.get_mut(i).ok_or_else(|| read.wrong("a kind of predictions that is none"))? =
                class;
        }
        Ok(these)
    }

    /// Returns the mean error of the latest predictions, in nanoseconds.
    pub fn mean(&self) -> u64 {
        self.all.get()
    }

    /// Records that a request with a prediction of `expected` ns took `time` ns; returns whether this shows another
    /// drive. If it does, all counts start anew.
    pub fn seen(&mut self, source: PredictionSource, distance: Distance, expected: u64, time: u64) -> bool {
        let (expected, time) = (expected.min(1 << 40), time.min(1 << 40));
        let doubling = distance.sectors().unsigned_abs().max(1).ilog2() as usize;
        let class = &mut self.classes[source.index() * DOUBLINGS + doubling];
        let (mut error, mut guess) = (expected.abs_diff(time), class.times.get().abs_diff(time));
        let known = class.errors.seen >= WARM_UP_PREDICTIONS;
        if known {
            let most = class.guessed.get().max(1) * ERROR_GUESSES_MAX;
            (error, guess) = (error.min(most), guess.min(most));
            if source.tells() {
                let guessed = class.guessed.get().max(1);
                let normal = (class.errors.get() * NORMAL_ERROR_PERCENT_MAX / 100)
                    .max(guessed * GUESS_ERROR_PERCENT_MAX / 100);
                self.sum = (self.sum + error * GUESS_ERROR_UNIT / guessed)
                    .saturating_sub(normal * GUESS_ERROR_UNIT / guessed);
            }
        }
        if class.times.seen > 0 {
            class.guessed.add(guess, GUESS_ERROR_PREDICTIONS);
        }
        class.times.add(time, GUESS_TIMES);
        class.errors.add(error, NORMAL_ERROR_PREDICTIONS);
        self.all.add(error, NORMAL_ERROR_PREDICTIONS);
        let alarm = self.sum > ERROR_SUM_MAX;
        if alarm {
            *self = Self::default();
        }
        alarm
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use workload::random::Stream;

    const NEAR: Distance = Distance::new(500);

    /// Returns a prediction and the actual time, ns, on a drive with a revolution of 6 ms: most predictions are
    /// slightly off, some by up to a revolution.
    fn times(random: &mut Stream, scale: f64) -> (u64, u64) {
        let expected = 1_000_000.0 + 6_000_000.0 * random.unit();
        let late = if random.unit() < 0.08 { 6_000_000.0 * random.unit() } else { 0.0 };
        let noise = scale * (random.unit() + random.unit() - 1.0);
        (expected as u64, (expected + noise + late).max(0.0) as u64)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// The noise may be so large that no prediction is useful.
        #[test]
        fn the_same_drive_raises_no_alarm(seed: u64, scale in 10_000.0..20_000_000.0) {
            let (mut change, mut random) = (Change::default(), Stream::new(seed, "errors"));
            for _ in 0..100_000 {
                let (expected, time) = times(&mut random, scale);
                prop_assert!(!change.seen(PredictionSource::Table, NEAR, expected, time));
            }
        }

        /// The load changes from near distances with small errors to far ones with large errors, then to all sources
        /// of predictions, and then to errors that are twice as large.
        #[test]
        fn another_load_raises_no_alarm(seed: u64) {
            let (mut change, mut random) = (Change::default(), Stream::new(seed, "errors"));
            let sources = [PredictionSource::Own(9), PredictionSource::Own(2), PredictionSource::Own(1), PredictionSource::Line, PredictionSource::Table];
            for i in 0..80_000usize {
                let (doubling, scale) = if i < 20_000 { (4, 100_000.0) } else { (24, 1_000_000.0) };
                let distance = Distance::new(1i64 << (doubling + i % 3));
                let source = if i < 40_000 { sources[0] } else { sources[i % 5] };
                let scale = scale * if i < 60_000 { 1.0 } else { 2.0 };
                let (expected, time) = times(&mut random, scale);
                prop_assert!(!change.seen(source, distance, expected, time), "after {}", i);
            }
        }

        /// The other drive has the same rotational speed.
        #[test]
        fn times_that_have_nothing_to_do_with_the_predictions_are_noticed(seed: u64, scale in 50_000.0..1_500_000.0) {
            let (mut change, mut random) = (Change::default(), Stream::new(seed, "errors"));
            for _ in 0..2_000 {
                let (expected, time) = times(&mut random, scale);
                prop_assert!(!change.seen(PredictionSource::Own(3), NEAR, expected, time));
            }
            let noticed = (0..1_000).any(|_| {
                let ((expected, _), (_, time)) = (times(&mut random, scale), times(&mut random, scale));
                change.seen(PredictionSource::Own(3), NEAR, expected, time)
            });
            prop_assert!(noticed);
            prop_assert_eq!(change, Change::default(), "and all begins anew");
        }
    }

    #[test]
    fn retries_are_not_another_drive() {
        let mut change = Change::default();
        for i in 0..50_000u64 {
            let expected = 1_000_000 + i % 11 * 500_000;
            let late = if i % 50 == 49 { 500_000_000 } else { 300_000 + i % 7 * 50_000 };
            assert!(!change.seen(PredictionSource::Own(9), NEAR, expected, expected + late), "after {i}");
        }
    }

    #[test]
    fn the_furthest_distances_have_a_class() {
        let mut change = Change::default();
        for distance in [i64::MIN, i64::MAX, 0, -1] {
            assert!(!change.seen(PredictionSource::Own(255), Distance::new(distance), u64::MAX, 0));
        }
    }
}
