//! Sets of cells with fast search for neighbours.

/// A set of small numbers that finds the next member in either direction by reading a few words. Each level has a
/// bit for each word of the level below; the bit is set if that word is not zero.
#[derive(Clone, Debug)]
pub(super) struct Bits {
    /// The words of each level, the lowest level first.
    levels: Vec<Vec<u64>>,
}

impl Bits {
    /// Creates an empty set for numbers below `len`.
    pub fn new(len: usize) -> Self {
        let mut levels = Vec::with_capacity(Self::LEVELS_MAX);
        let mut words = len.div_ceil(64).max(1);
        loop {
            levels.push(vec![0u64; words]);
            if words == 1 {
                return Self { levels };
            }
            words = words.div_ceil(64);
        }
    }

    #[inline]
    pub fn has(&self, i: usize) -> bool {
        self.levels[0].get(i / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
    }

    pub fn insert(&mut self, mut i: usize) {
        for level in &mut self.levels {
            let Some(word) = level.get_mut(i / 64) else { return };
            *word |= 1 << (i % 64);
            i /= 64;
        }
    }

    pub fn remove(&mut self, mut i: usize) {
        for level in &mut self.levels {
            let Some(word) = level.get_mut(i / 64) else { return };
            *word &= !(1 << (i % 64));
            if *word != 0 {
                return;
            }
            i /= 64;
        }
    }

    pub fn clear(&mut self) {
        self.levels.iter_mut().for_each(|level| level.fill(0));
    }

    /// Returns the least member above `i`.
    #[inline]
    pub fn above(&self, i: usize) -> Option<usize> {
        let mut from = i + 1;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get(from / 64).map_or(0, |word| word >> (from % 64) << (from % 64));
            if word != 0 {
                let mut found = from / 64 * 64 + word.trailing_zeros() as usize;
                for below in self.levels[..height].iter().rev() {
                    found = found * 64 + below[found].trailing_zeros() as usize;
                }
                return Some(found);
            }
            from = from / 64 + 1;
        }
        None
    }

    /// Returns the greatest member below `i`.
    #[inline]
    pub fn below(&self, i: usize) -> Option<usize> {
        let mut end = i;
        for (height, level) in self.levels.iter().enumerate() {
            // The members of this word that are below `end`.
            let word = level.get(end / 64).map_or(0, |word| word & ((1 << (end % 64)) - 1));
            if word != 0 {
                let mut found = end / 64 * 64 + (63 - word.leading_zeros() as usize);
                for below in self.levels[..height].iter().rev() {
                    found = found * 64 + (63 - below[found].leading_zeros() as usize);
                }
                return Some(found);
            }
            end /= 64;
        }
        None
    }

    /// Iterates over all members.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let first = if self.has(0) { Some(0) } else { self.above(0) };
        std::iter::successors(first, |i| self.above(*i))
    }

    /// The most levels: each level removes six bits of a number of 64 bits.
    const LEVELS_MAX: usize = 11;

    /// Returns the memory of this set, in bytes.
    pub fn held_memory(&self) -> usize {
        self.levels.capacity() * size_of::<Vec<u64>>()
            + self.levels.iter().map(|level| level.capacity() * 8).sum::<usize>()
    }

    /// Returns the memory of a set for numbers below `len`, in bytes.
    pub fn memory(len: usize) -> usize {
        let (mut words, mut bytes) = (len.div_ceil(64).max(1), Self::LEVELS_MAX * size_of::<Vec<u64>>());
        while words > 1 {
            bytes += words * 8;
            words = words.div_ceil(64);
        }
        bytes + 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn bits_find_what_an_ordered_set_finds(
            len in 1..20_000usize,
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..60),
            asked in prop::collection::vec(any::<prop::sample::Index>(), 1..20),
        ) {
            let (mut bits, mut set) = (Bits::new(len), BTreeSet::new());
            for (at, insert) in &changes {
                let i = at.index(len);
                if *insert {
                    bits.insert(i);
                    set.insert(i);
                } else {
                    bits.remove(i);
                    set.remove(&i);
                }
            }
            // Errors are likely near changed members.
            for at in asked.iter().chain(changes.iter().map(|(at, _)| at)) {
                let i = at.index(len);
                prop_assert_eq!(bits.has(i), set.contains(&i));
                prop_assert_eq!(bits.above(i), set.range(i + 1..).next().copied());
                prop_assert_eq!(bits.below(i), set.range(..i).next_back().copied());
            }
            prop_assert!(bits.iter().eq(set.iter().copied()));
            bits.clear();
            prop_assert_eq!(bits.iter().next(), None);
        }
    }
}
