//! Random numbers from a seed.

/// A SplitMix64 generator (Steele, Lea, Flood, OOPSLA 2014): its numbers depend only on the seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

/// The increment of the generator's state for each number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Skips this number of draws.
    pub fn skip(&mut self, draws: u64) {
        self.0 = self.0.wrapping_add(draws.wrapping_mul(STEP));
    }

    /// Returns a number in `0..n`, or zero if `n` is zero. The modulus makes some numbers slightly likelier, which does not
    /// matter here.
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n.max(1)
    }

    /// Returns a number in `low..=high`.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// Returns the index of one of the weights, with a probability proportional to the weight.
    pub fn weighted(&mut self, weights: &[u64]) -> usize {
        let mut ticket = self.below(weights.iter().sum());
        for (place, &weight) in weights.iter().enumerate() {
            if ticket < weight {
                return place;
            }
            ticket -= weight;
        }
        0
    }
}

/// Returns a hash of a number: the output function of SplitMix64.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
