//! Seeded chance.

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): the numbers depend on the seed alone.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

/// Between two draws.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// Skips a number of draws.
    pub fn skip(&mut self, draws: u64) {
        self.0 = self.0.wrapping_add(draws.wrapping_mul(STEP));
    }

    /// Returns a number in `0..n`; zero for zero. The bias of a modulus does not matter here.
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

    /// Returns the place of a weight, chosen by weight.
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

/// Returns the finaliser of SplitMix64: every bit of the input changes half of the output's.
pub(crate) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
