//! Files in memory, and random numbers.

pub use crate::simulated::MemoryFiles;
use workload::random::Stream;

/// Returns a number below `n`, which is not zero.
pub fn below(chance: &mut Stream, n: u64) -> u64 {
    chance.below(std::num::NonZeroU64::new(n).unwrap())
}
