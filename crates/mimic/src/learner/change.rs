//! Noticing that the drive is another.

use crate::distance::Distance;

/// Errors of a class before it says what is normal.
const WARM_UP: u32 = 32;

/// What is normal is the mean over about so many errors of a class.
const SLOW: u32 = 1_024;

/// One part of the mean error of a class.
const ONE: u64 = 1 << 10;

/// An error counts for at most so much: one retry is not another drive.
const MOST: u64 = 8 * ONE;

/// Errors up to so much are taken for normal.
const ALLOWED: u64 = 2 * ONE;

/// How far errors beyond that must add up.
const ALARM: u64 = 64 * ONE;

/// Doublings of a distance.
const DOUBLINGS: usize = 64;

/// Whence a prediction came: that says how good it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// A table.
    Table,
    /// The line between two known distances.
    Line,
    /// So many samples of its own.
    Own(u8),
}

impl Source {
    fn index(self) -> usize {
        match self {
            Self::Table => 0,
            Self::Line => 1,
            Self::Own(0 | 1) => 2,
            Self::Own(2 | 3) => 3,
            Self::Own(_) => 4,
        }
    }
}

/// Sources that are told apart.
const SOURCES: usize = 5;

/// Page's CUSUM test on the errors of predictions, each in parts of what is normal for predictions like it: of the same
/// source and of distances within the same doubling. The sum of what each is beyond twice the normal, never below zero,
/// must reach 64 of them. Another load on the same drive asks for other distances, which are harder or easier to predict:
/// each is held against its like. Another drive has all of them off for a long time together.
///
/// Chosen over a window that is compared with an older one since it keeps little and notices a large change soon and a
/// small one later; and over ageing alone since a distance that is wrongly taken for slow is not chosen again, so that it
/// would not age (ATC'03, section 6.2).
#[derive(Clone, Debug)]
pub(super) struct Change {
    classes: Vec<Class>,
    /// In parts of a normal error's [`ONE`].
    sum: u64,
    /// Over all classes, for those who ask.
    all: Class,
}

/// The errors of predictions that are alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Class {
    seen: u32,
    /// The sum of about the last [`SLOW`]; in ns.
    errors: u64,
}

impl Class {
    fn mean(&self) -> u64 {
        self.errors / u64::from(self.seen.max(1))
    }

    fn add(&mut self, error: u64) {
        if self.seen < SLOW {
            self.seen += 1;
        } else {
            self.errors -= self.errors / u64::from(SLOW);
        }
        self.errors += error;
    }
}

impl Default for Change {
    fn default() -> Self {
        Self { classes: vec![Class::default(); SOURCES * DOUBLINGS], sum: 0, all: Class::default() }
    }
}

impl Change {
    /// Memory, in bytes.
    pub const MEMORY: usize = SOURCES * DOUBLINGS * size_of::<Class>();

    /// The mean error, in nanoseconds.
    pub fn mean(&self) -> u64 {
        self.all.mean()
    }

    /// A prediction was off by `error` ns; whether this shows another drive. Then all begins anew.
    pub fn off_by(&mut self, source: Source, distance: Distance, error: u64) -> bool {
        let error = error.min(1 << 40);
        let doubling = distance.sectors().unsigned_abs().max(1).ilog2() as usize;
        let class = &mut self.classes[source.index() * DOUBLINGS + doubling];
        if class.seen < WARM_UP {
            class.add(error);
            self.all.add(error);
            return false;
        }
        let mean = class.mean().max(1);
        let capped = error.min(mean * MOST / ONE);
        self.sum = (self.sum + capped * ONE / mean).saturating_sub(ALLOWED);
        class.add(capped);
        self.all.add(capped);
        let alarm = self.sum > ALARM;
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

    /// Errors like those of a table: most of them small, some as long as a revolution.
    fn error(random: &mut Stream, scale: f64) -> u64 {
        let long = random.unit() < 0.08;
        (if long { 6_000_000.0 * random.unit() } else { scale * random.exponential() }) as u64
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn the_same_drive_raises_no_alarm(seed: u64, scale in 100_000.0..1_500_000.0) {
            let (mut change, mut random) = (Change::default(), Stream::new(seed, "errors"));
            for _ in 0..100_000 {
                prop_assert!(!change.off_by(Source::Table, NEAR, error(&mut random, scale)));
            }
        }

        /// First near distances with small errors, then far ones with errors twenty times as large, then all sources.
        #[test]
        fn another_load_raises_no_alarm(seed: u64) {
            let (mut change, mut random) = (Change::default(), Stream::new(seed, "errors"));
            let sources = [Source::Own(9), Source::Own(2), Source::Own(1), Source::Line, Source::Table];
            for i in 0..60_000usize {
                let (doubling, scale) = if i < 20_000 { (4, 100_000.0) } else { (24, 2_000_000.0) };
                let distance = Distance::new(1i64 << (doubling + i % 3));
                let source = if i < 40_000 { sources[0] } else { sources[i % 5] };
                let scale = scale * if i < 40_000 { 1.0 } else { 1.0 + (i % 5) as f64 };
                let error = (scale * random.exponential()) as u64;
                prop_assert!(!change.off_by(source, distance, error));
            }
        }

        #[test]
        fn errors_four_times_as_long_are_noticed_within_a_hundred(seed: u64, scale in 50_000.0..500_000.0) {
            let (mut change, mut random) = (Change::default(), Stream::new(seed, "errors"));
            for _ in 0..2_000 {
                change.off_by(Source::Own(3), NEAR, error(&mut random, scale));
            }
            let mean = change.mean() as f64;
            let longer = |random: &mut Stream| (mean * 8.0 * random.unit()) as u64;
            let noticed = (0..100).any(|_| change.off_by(Source::Own(3), NEAR, longer(&mut random)));
            prop_assert!(noticed);
            prop_assert_eq!(change.mean(), 0, "and all begins anew");
        }
    }

    #[test]
    fn retries_are_not_another_drive() {
        let mut change = Change::default();
        for i in 0..50_000u64 {
            let error = if i % 50 == 49 { 500_000_000 } else { 300_000 + i % 7 * 50_000 };
            assert!(!change.off_by(Source::Own(9), NEAR, error), "after {i}");
        }
    }

    #[test]
    fn the_furthest_distances_have_a_class() {
        let mut change = Change::default();
        for distance in [i64::MIN, i64::MAX, 0, -1] {
            assert!(!change.off_by(Source::Own(255), Distance::new(distance), u64::MAX));
        }
    }
}
