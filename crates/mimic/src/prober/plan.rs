//! The plan of a probe: its distances, samples and limits.

use super::READS;
use crate::check_points::CheckPoints;
use crate::distance::Pair;
use crate::search::DISTANCE_SECTORS_MAX;
use crate::summary::Metric;
use std::ops::RangeInclusive;
use thiserror::Error;
use units::{Bytes, Sectors};

/// The most samples of one distance: ten are enough, and each takes two requests of the drive.
const SAMPLES_MAX: u32 = 1 << 16;

/// The most sectors of a drive: 2^44, nine petabytes in sectors of 512 bytes.
const DRIVE_SECTORS_MAX: u64 = DISTANCE_SECTORS_MAX.unsigned_abs();

/// The least memory: as much as the first distances need.
const MEMORY_MIN: Bytes = Bytes::new(64 << 10);

/// The plan of a probe: what to measure, and within which limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbePlan {
    /// The number of sectors of the drive.
    pub capacity: Sectors,
    /// The size of every request, and the grain of distances: the probe measures distances of 1 + k x unit, which are
    /// those between requests aligned to the unit.
    pub unit: Sectors,
    /// The number of samples of each distance (S in ATC'03, section 5.2); more than about 10 gain nothing.
    pub samples: u32,
    /// The summary that makes one time of the samples.
    pub metric: Metric,
    /// The pairs of request types that are probed; the first one answers for the others. Writes destroy the drive's
    /// contents.
    pub pairs: Vec<Pair>,
    /// The rule by which a range is interpolated.
    pub check_points: CheckPoints,
    /// The longest range that is interpolated; a longer one is halved without check points. `None` for ranges of any
    /// length. The paper interpolates "to only relatively short distances" (ATC'03, section 5.3) and gives no number.
    pub longest_line: Option<Sectors>,
    /// The largest distance in either direction; `None` for all of the drive.
    pub reach: Option<Sectors>,
    /// The most memory to use, during the probe and after it.
    pub memory: Bytes,
    /// The most requests, including random moves. The first distances are always probed, and a range that is being
    /// examined is finished beyond this limit.
    pub most_accesses: u64,
    /// The seed for the choice of places and check points.
    pub seed: u64,
}

impl ProbePlan {
    /// Returns a plan of reads of `unit`: ten samples, the mean, the paper's Table 2, 64 MB, no limit of requests.
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

    /// Returns the number of blocks of the drive, and the steps to probe.
    pub(super) fn check(&self) -> Result<(i64, RangeInclusive<i64>), ProbeError> {
        let unit = self.unit.get();
        if unit == 0 {
            return Err(ProbeError::Unit);
        }
        if self.samples == 0 || self.samples > SAMPLES_MAX {
            return Err(ProbeError::Samples { samples: self.samples });
        }
        let mut pairs = self.pairs.clone();
        pairs.sort_unstable();
        pairs.dedup();
        if pairs.is_empty() || pairs.len() != self.pairs.len() {
            return Err(ProbeError::Pairs);
        }
        if self.memory < MEMORY_MIN {
            return Err(ProbeError::Memory { bytes: self.memory });
        }
        let capacity = self.capacity.get();
        if capacity > DRIVE_SECTORS_MAX || capacity / unit < 4 {
            return Err(ProbeError::Capacity { capacity: self.capacity, unit: self.unit });
        }
        let blocks = (capacity / unit) as i64;
        let reach = self.reach.map_or(blocks, |reach| (reach.get() / unit).clamp(1, blocks as u64) as i64);
        Ok((blocks, (-reach).max(-blocks)..=reach.min(blocks - 2)))
    }
}

/// The reason why a plan cannot be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProbeError {
    /// The unit is 0.
    #[error("unit is 0 sectors; give the size of the workload's smallest requests")]
    Unit,
    /// The number of samples is out of range.
    #[error("{samples} samples of a distance; give 1 to {SAMPLES_MAX}, 10 are enough")]
    Samples {
        /// The number of samples.
        samples: u32,
    },
    /// The plan has no pair of request types, or one of them twice.
    #[error("pairs names no pair of request types, or one twice; name each that is to be probed once")]
    Pairs,
    /// There is not enough memory.
    #[error(
        "{} bytes of memory are too few for the samples of all pairs and a table; give at least {}, or fewer samples",
        bytes.get(),
        (bytes.get().max(MEMORY_MIN.get() / 2)) * 2
    )]
    Memory {
        /// The memory in bytes.
        bytes: Bytes,
    },
    /// The machine does not provide this memory.
    #[error("the machine does not give {} bytes of memory; set less", bytes.get())]
    NotThere {
        /// The memory in bytes.
        bytes: Bytes,
    },
    /// The drive is too small to have distances, or larger than any drive.
    #[error(
        "a drive of {capacity} sectors has no distances for requests of {unit}; it needs 4 units at least and 2^44 sectors at most"
    )]
    Capacity {
        /// The number of sectors of the drive.
        capacity: Sectors,
        /// The unit.
        unit: Sectors,
    },
    /// Too many requests failed because of unreadable sectors.
    #[error(
        "{failures} requests met sectors that cannot be read, the last {in_a_row} in a row; save what is on the drive before it is probed"
    )]
    Unreadable {
        /// The number of failed requests.
        failures: u64,
        /// The number of requests that failed one after another at the end.
        in_a_row: u64,
    },
}
