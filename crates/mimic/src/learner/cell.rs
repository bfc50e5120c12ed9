//! The mean of the times observed in one cell, in eight bytes.

/// The number of bits of a mean in nanoseconds, as in a table: longer times count as 4.29 s.
const MEAN_BITS: u32 = 32;

/// The number of bits for the number of samples, up to the window.
const COUNT_BITS: u32 = 8;

/// A running mean with its number of samples. Once the samples fill the window, each new one has the weight 1 /
/// `window`, and the weight of old samples decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell(u64);

impl Cell {
    pub const EMPTY: Self = Self(0);

    pub fn new(mean: u64, count: u8) -> Self {
        Self(mean.min((1 << MEAN_BITS) - 1) | u64::from(count) << MEAN_BITS)
    }

    pub fn from_bits(bits: u64) -> Self {
        Self(bits & ((1 << (MEAN_BITS + COUNT_BITS)) - 1))
    }

    pub fn bits(self) -> u64 {
        self.0
    }

    /// Returns the mean in nanoseconds.
    #[inline]
    pub fn mean(self) -> u64 {
        self.0 & ((1 << MEAN_BITS) - 1)
    }

    #[inline]
    pub fn count(self) -> u8 {
        (self.0 >> MEAN_BITS) as u8
    }

    /// Returns the cell with the samples of both cells.
    pub fn joined(self, other: Self, window: u8) -> Self {
        let (n, m) = (u64::from(self.count()), u64::from(other.count()));
        let mean = (self.mean() * n + other.mean() * m + (n + m) / 2) / (n + m).max(1);
        Self::new(mean, (n + m).min(u64::from(window)) as u8)
    }

    /// Returns the cell with one sample more.
    pub fn with(self, ns: u64, window: u8) -> Self {
        let count = self.count().saturating_add(1).min(window.max(1));
        let (mean, n) = (self.mean() as i64, i64::from(count));
        let off = ns.min((1 << MEAN_BITS) - 1) as i64 - mean;
        // The step is rounded to the nearest integer, ties away from zero, because a truncated mean would drift.
        let step = (2 * off + off.signum() * n) / (2 * n);
        Self::new((mean + step).max(0) as u64, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_mean_of_few_is_exact_but_for_rounding(samples in prop::collection::vec(0..1u64 << 31, 1..255)) {
            let cell = samples.iter().fold(Cell::EMPTY, |cell, ns| cell.with(*ns, 255));
            let mean = samples.iter().sum::<u64>() / samples.len() as u64;
            prop_assert_eq!(cell.count() as usize, samples.len());
            // Each sample adds an error of half a nanosecond.
            prop_assert!(cell.mean().abs_diff(mean) <= 1 + samples.len() as u64 / 2);
            prop_assert_eq!(Cell::from_bits(cell.bits()), cell);
        }

        #[test]
        fn old_samples_fade(old in 0..1u64 << 31, new in 0..1u64 << 31, window in 1..64u8) {
            let mut cell = (0..200).fold(Cell::EMPTY, |cell, _| cell.with(old, window));
            for _ in 0..u32::from(window) * 8 {
                cell = cell.with(new, window);
            }
            // The error is e^-8 of the difference of old and new times, and the half nanosecond below which a
            // step rounds to zero.
            prop_assert!(cell.mean().abs_diff(new) <= old.abs_diff(new) / 2_000 + u64::from(window));
            prop_assert!(cell.count() <= window);
        }
    }

    #[test]
    fn endless_times_are_kept_as_the_longest_time() {
        let cell = Cell::EMPTY.with(u64::MAX, 8);
        assert_eq!((cell.mean(), cell.count()), ((1 << 32) - 1, 1));
        assert_eq!(Cell::from_bits(u64::MAX).bits() >> 40, 0);
    }
}
