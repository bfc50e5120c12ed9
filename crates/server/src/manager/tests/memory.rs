//! Files in memory, and random numbers.

pub use crate::simulated::MemoryFiles;
use workload::random::Stream;

/// Returns a random number below `n`, which must not be zero.
pub fn below(chance: &mut Stream, n: u64) -> u64 {
    chance.below(std::num::NonZeroU64::new(n).unwrap())
}
