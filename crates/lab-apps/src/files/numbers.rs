//! A set of free numbers, such as those of blocks or inodes.

/// Numbers below a bound, each free or in use. The lowest free one is given out first.
#[derive(Clone, Debug)]
pub(super) struct Numbers {
    /// The free numbers, as set bits.
    words: Vec<u64>,
    free: u32,
    /// No word before this one has a free number.
    first: usize,
}

impl Numbers {
    /// Returns all of `0..bound` as in use.
    pub fn in_use(bound: u32) -> Self {
        Self { words: vec![0; (bound as usize).div_ceil(64)], free: 0, first: 0 }
    }

    pub const fn free(&self) -> u32 {
        self.free
    }

    /// Returns the lowest free number.
    pub fn lowest(&mut self) -> Option<u32> {
        let rest = self.words.get(self.first..)?;
        self.first += rest.iter().take_while(|&&word| word == 0).count();
        let word = self.words.get(self.first)?;
        Some(self.first as u32 * 64 + word.trailing_zeros())
    }

    /// Takes the lowest free number.
    pub fn take(&mut self) -> Option<u32> {
        let lowest = self.lowest()?;
        self.take_this(lowest).then_some(lowest)
    }

    /// Takes this number; returns `false` if it is in use or past the bound.
    pub fn take_this(&mut self, n: u32) -> bool {
        let bit = 1 << (n % 64);
        match self.words.get_mut(n as usize / 64) {
            Some(word) if *word & bit != 0 => {
                *word &= !bit;
                self.free -= 1;
                true
            }
            _ => false,
        }
    }

    /// Frees a number that is in use.
    pub fn release(&mut self, n: u32) {
        let (place, bit) = (n as usize / 64, 1 << (n % 64));
        if let Some(word) = self.words.get_mut(place) {
            debug_assert!(*word & bit == 0, "{n} is free already");
            *word |= bit;
            self.free += 1;
            self.first = self.first.min(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn the_lowest_free_number_is_taken(
            bound in 1u32..300,
            calls in prop::collection::vec((0u8..3, 0u32..320), 0..400),
        ) {
            let mut numbers = Numbers::in_use(bound);
            let mut naive = BTreeSet::new();
            for (call, n) in calls {
                match call {
                    0 => {
                        prop_assert_eq!(numbers.lowest(), naive.first().copied());
                        prop_assert_eq!(numbers.take(), naive.pop_first());
                    }
                    1 => prop_assert_eq!(numbers.take_this(n), naive.remove(&n)),
                    _ => {
                        if n < bound && naive.insert(n) {
                            numbers.release(n);
                        }
                    }
                }
                prop_assert_eq!(numbers.free() as usize, naive.len());
            }
        }
    }
}
