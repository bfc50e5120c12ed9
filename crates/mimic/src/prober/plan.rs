//! What is probed, and how thoroughly.

use super::READS;
use crate::check_points::CheckPoints;
use crate::distance::Pair;
use crate::search::FURTHEST;
use crate::summary::Metric;
use std::ops::RangeInclusive;
use thiserror::Error;
use units::{Bytes, Sectors};

/// The most samples of one distance.
const MOST_SAMPLES: u32 = 1 << 16;

/// The most sectors of a drive: 2^44, of 512 bytes nine petabytes.
const MOST_SECTORS: u64 = FURTHEST.unsigned_abs();

/// The least memory: room for the distances that begin it all.
const LEAST_MEMORY: Bytes = Bytes::new(64 << 10);

/// What is probed, and how thoroughly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// Sectors of the drive.
    pub capacity: Sectors,
    /// The size of every request, and the grain: distances 1 + k x unit are probed, those between requests that lie side
    /// by side in units.
    pub unit: Sectors,
    /// Samples of each distance (S); gains stop at about 10 (ATC'03, section 5.2).
    pub samples: u32,
    /// How they become one time.
    pub metric: Metric,
    /// Which pairs of request types are probed; the first answers for those that are not. Writing destroys what the drive
    /// holds.
    pub pairs: Vec<Pair>,
    /// When a range is interpolated.
    pub check_points: CheckPoints,
    /// The longest range that is interpolated; a longer one is halved without a look at its check points. `None` for ranges of
    /// any length. The paper interpolates "to only relatively short distances" (ATC'03, section 5.3) and gives no number.
    pub longest_line: Option<Sectors>,
    /// The furthest distance either way; `None` for all of the drive.
    pub reach: Option<Sectors>,
    /// The most memory to use, while probing and after.
    pub memory: Bytes,
    /// How many requests it may take, random moves among them; the range that is looked at is finished, and
    /// the ends are always probed.
    pub most_accesses: u64,
    /// Seeds places and check points.
    pub seed: u64,
}

impl ProbePlan {
    /// Reads of `unit`, ten samples, the mean, the paper's Table 2, 64 MB, as many requests as it takes.
    pub fn new(capacity: Sectors, unit: Sectors) -> Self {
        Self {
            capacity,
            unit,
            samples: 10,
            metric: Metric::Mean,
            pairs: vec![READS],
            check_points: CheckPoints::TABLE_2,
            longest_line: None,
            reach: None,
            memory: Bytes::new(64 << 20),
            most_accesses: u64::MAX,
            seed: 1,
        }
    }

    /// Blocks of the drive, and the steps to probe.
    pub(super) fn check(&self) -> Result<(i64, RangeInclusive<i64>), ProbeError> {
        let unit = self.unit.get();
        if unit == 0 {
            return Err(ProbeError::Unit);
        }
        if self.samples == 0 || self.samples > MOST_SAMPLES {
            return Err(ProbeError::Samples { samples: self.samples });
        }
        let mut pairs = self.pairs.clone();
        pairs.sort_unstable();
        pairs.dedup();
        if pairs.is_empty() || pairs.len() != self.pairs.len() {
            return Err(ProbeError::Pairs);
        }
        if self.memory < LEAST_MEMORY {
            return Err(ProbeError::Memory { bytes: self.memory });
        }
        let capacity = self.capacity.get();
        if capacity > MOST_SECTORS || capacity / unit < 4 {
            return Err(ProbeError::Capacity { capacity: self.capacity, unit: self.unit });
        }
        let blocks = (capacity / unit) as i64;
        let reach = self.reach.map_or(blocks, |reach| (reach.get() / unit).clamp(1, blocks as u64) as i64);
        Ok((blocks, (-reach).max(-blocks)..=reach.min(blocks - 2)))
    }
}

/// Why a plan cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProbeError {
    /// No size.
    #[error("unit is 0 sectors; give the size of the workload's smallest requests")]
    Unit,
    /// Too few or too many samples.
    #[error("{samples} samples of a distance; give 1 to {MOST_SAMPLES}, 10 are enough")]
    Samples {
        /// How many.
        samples: u32,
    },
    /// No pair, or one twice.
    #[error("pairs names no pair of request types, or one twice; name each that is to be probed once")]
    Pairs,
    /// Not enough memory.
    #[error(
        "{} bytes of memory are too few for so many samples and pairs, and a table; give at least {}, or fewer samples",
        bytes.get(),
        (bytes.get().max(LEAST_MEMORY.get() / 2)) * 2
    )]
    Memory {
        /// How many bytes.
        bytes: Bytes,
    },
    /// More memory than the machine gives.
    #[error("this machine does not give {} bytes of memory; give less", bytes.get())]
    NotThere {
        /// How many bytes.
        bytes: Bytes,
    },
    /// A drive without distances.
    #[error(
        "a drive of {capacity} sectors has no distances for requests of {unit}; it needs 4 units at least and 2^44 sectors at most"
    )]
    Capacity {
        /// Its sectors.
        capacity: Sectors,
        /// The unit.
        unit: Sectors,
    },
    /// Too many requests failed because of sectors that cannot be read.
    #[error(
        "{failures} requests met sectors that cannot be read, the last {in_a_row} in a row; save what is on the drive before it is probed"
    )]
    Unreadable {
        /// How many failed.
        failures: u64,
        /// How many of them one after another.
        in_a_row: u64,
    },
}
