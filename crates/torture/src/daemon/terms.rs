//! The settings of the daemon, drawn from the seed of a history.

use crate::dice::{Dice, mix};
use server::{BackgroundTerms, Floor, ReadAheadBudget, TIMEOUT};
use std::num::NonZeroU64;
use units::{Bytes, Duration};

/// The settings of the daemon in a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// The least service of background requests.
    pub floor: Option<Floor>,
    /// The memory for blocks that are read ahead.
    pub memory: Bytes,
    /// The most bytes of old contents that snapshots keep in files.
    pub keep_bytes_max: u64,
    /// The number of sectors in a block of a snapshot.
    pub block_sectors: u64,
    /// The time after which the daemon gives up on a command.
    pub timeout: Duration,
}

impl Terms {
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::new(mix(seed ^ 0x0074_6572_6d73));
        let floor = match dice.below(4) {
            0 => Some(Floor::Within(Duration::from_millis(dice.range(20, 5_000)))),
            1 => NonZeroU64::new(dice.range(10_000, 1_000_000)).map(Floor::BytesPerSecond),
            _ => None,
        };
        Self {
            floor,
            memory: Bytes::new([0, 20_000, 64 << 10, 300_000, 64 << 20][dice.below(5) as usize]),
            keep_bytes_max: if dice.one_in(5) { dice.range(10_000, 200_000) } else { 1 << 30 },
            block_sectors: [1, 2, 3, 8, 8, 13, 32][dice.below(7) as usize],
            timeout: if dice.one_in(2) { TIMEOUT } else { Duration::from_secs(2) },
        }
    }

    /// Returns the settings of background requests.
    pub fn background(&self) -> BackgroundTerms {
        BackgroundTerms { floor: self.floor, memory: ReadAheadBudget::of(self.memory), write: true }
    }
}
