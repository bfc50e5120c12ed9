//! A seeded permutation of many numbers without a table.

use super::Stream;
use std::num::NonZeroU64;

/// A permutation of the numbers below a bound, in the memory of a few words.
///
/// A Feistel network of four rounds permutes the numbers of an even number of bits, at most four times the bound; a
/// result past the bound is permuted again until it is below ("cycle walking": J. Black and P. Rogaway, "Ciphers with
/// arbitrary finite domains", CT-RSA 2002). The permutation scatters popular blocks over a drive. It is no cipher.
///
/// ```
/// use freeblock_workload::random::{Scatter, Stream};
/// use std::num::NonZeroU64;
/// let scatter = Scatter::new(NonZeroU64::new(10).unwrap(), &mut Stream::new(1, "places"));
/// let mut places: Vec<u64> = (0..10).map(|n| scatter.place(n)).collect();
/// places.sort();
/// assert_eq!(places, (0..10).collect::<Vec<_>>());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scatter {
    below: NonZeroU64,
    /// The bits of each half.
    half: u32,
    keys: [u64; 4],
}

impl Scatter {
    /// Returns a permutation of the numbers below `below`, drawn from `stream`.
    pub fn new(below: NonZeroU64, stream: &mut Stream) -> Self {
        let bits = u64::BITS - (below.get() - 1).leading_zeros();
        Self { below, half: bits.div_ceil(2).max(1), keys: std::array::from_fn(|_| stream.next_u64()) }
    }

    /// Returns the place of `number`; a number past the bound stays where it is.
    pub fn place(&self, number: u64) -> u64 {
        if number >= self.below.get() {
            return number;
        }
        let mut place = self.permute(number);
        // The cycle of the permutation returns below the bound, at the latest at the number itself.
        while place >= self.below.get() {
            place = self.permute(place);
        }
        place
    }

    fn permute(&self, number: u64) -> u64 {
        let mask = u64::MAX >> (u64::BITS - self.half);
        let (mut left, mut right) = (number >> self.half & mask, number & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (mix(right ^ key) & mask));
        }
        left << self.half | right
    }
}

/// Mixes the bits of `x`: the finalizer of SplitMix64 (G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom
/// number generators", OOPSLA 2014).
const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_number_has_one_place(below in 1u64..3_000, seed: u64) {
            let scatter = Scatter::new(NonZeroU64::new(below).unwrap(), &mut Stream::new(seed, "p"));
            let mut taken = vec![false; below as usize];
            for number in 0..below {
                let place = scatter.place(number) as usize;
                prop_assert!(place < taken.len() && !std::mem::replace(&mut taken[place], true));
            }
        }

        #[test]
        fn places_lie_below_the_bound(below in 1u64.., part: u64, seed: u64) {
            let scatter = Scatter::new(NonZeroU64::new(below).unwrap(), &mut Stream::new(seed, "p"));
            prop_assert!(scatter.place(part % below) < below);
        }
    }

    #[test]
    fn the_first_thousand_of_many_are_spread_evenly() {
        const PLACES: u64 = 5_000_000_000;
        let scatter = Scatter::new(NonZeroU64::new(PLACES).unwrap(), &mut Stream::new(3, "p"));
        let mut tenths = [0u32; 10];
        for number in 0..1_000 {
            tenths[(scatter.place(number) * 10 / PLACES) as usize] += 1;
        }
        // Chi-square with 9 degrees of freedom: 42.6 is exceeded by chance once in some 400,000.
        let chi: f64 = tenths.iter().map(|&n| (f64::from(n) - 100.0).powi(2) / 100.0).sum();
        assert!(chi < 42.6, "{tenths:?}");
    }
}
