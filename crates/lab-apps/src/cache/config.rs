//! The configuration of a cache.

use super::mask::BLOCK_SECTORS_MAX;
use scheduler::{Priority, SessionError};
use thiserror::Error;
use units::{Bytes, Duration, LbnRange, Sectors};

/// The most buffers: 16 GB in 4 KB blocks.
pub const BUFFERS_MAX: usize = 1 << 22;

/// The rule that chooses which buffer makes room, and which one the buffer daemon cleans (FAST'04, section 6.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacement {
    /// LRU: the least recently used buffer, clean or dirty.
    #[default]
    Lru,
    /// SPTF-Evict: the least recently used buffer if it is clean; otherwise the dirty one that the head can write
    /// soonest.
    SptfEvict,
    /// FREE-CLEAN: the least recently used of the buffers that are clean because of a free write; if there is none,
    /// LRU.
    FreeClean,
}

/// Numbers of dirty buffers. At `high` of them, the buffer daemon cleans until `low` are left. With `high` above the
/// number of buffers it never cleans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// The number at which cleaning stops.
    pub low: usize,
    /// The number at which cleaning begins.
    pub high: usize,
}

/// A bound on the time for which buffers are dirty: a write-back begins at latest `age` after the first write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syncer {
    /// The longest time for which a buffer stays dirty.
    pub age: Duration,
    /// The interval at which the syncer looks for old buffers. If this equals `age`, each look finds every dirty
    /// buffer, and writes come in large bursts.
    pub every: Duration,
}

impl Default for Syncer {
    /// Returns an age of 30 s, as in the paper, and an interval of 1 s.
    fn default() -> Self {
        Self { age: Duration::from_secs(30), every: Duration::from_secs(1) }
    }
}

/// The way in which a write-back that cannot wait for free bandwidth becomes foreground work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Force {
    /// The background task is made foreground work, as in the paper.
    #[default]
    Promote,
    /// The background task is aborted and a foreground request is submitted.
    Submit,
}

/// The configuration of a cache. [`Config::new`] has the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The LBNs that are cached. Blocks are aligned to the first.
    pub volume: LbnRange,
    /// The size of a buffer, at most [`BLOCK_SECTORS_MAX`].
    pub block: Sectors,
    /// Bytes in a sector. With zero the cache has no contents, and only its timing is simulated.
    pub sector: Bytes,
    /// The number of buffers, at most [`BUFFERS_MAX`].
    pub buffers: usize,
    /// The rule by which buffers make room.
    pub replacement: Replacement,
    /// The numbers of dirty buffers between which the buffer daemon cleans.
    pub watermarks: Watermarks,
    /// The syncer; `None` if the cache survives a crash (NVRAM).
    pub syncer: Option<Syncer>,
    /// The priority of the session that writes back in free bandwidth; with `None` all is written in the foreground.
    pub cleaner: Option<Priority>,
    /// The way of forcing write-backs.
    pub force: Force,
    /// The number of write-backs under way at which the buffer daemon forces no more. The default is no limit, because the
    /// paper's write-backs come in bursts.
    pub daemon_outstanding: usize,
    /// The number of dirty blocks around the head that SPTF-Evict compares.
    pub nearest_of: usize,
    /// The time after which a failed write-back is tried again.
    pub retry: Duration,
    /// The most calls under way.
    pub most_calls: usize,
}

impl Config {
    /// Returns LRU, watermarks at a half and a quarter of the buffers, the 30 s syncer, and free cleaning at the
    /// default priority.
    pub fn new(volume: LbnRange, block: Sectors, sector: Bytes, buffers: usize) -> Self {
        let high = (buffers / 2).max(1);
        Self {
            volume,
            block,
            sector,
            buffers,
            replacement: Replacement::default(),
            watermarks: Watermarks { low: high / 2, high },
            syncer: Some(Syncer::default()),
            cleaner: Some(Priority::default()),
            force: Force::default(),
            daemon_outstanding: usize::MAX,
            nearest_of: 64,
            retry: Duration::from_secs(30),
            most_calls: 1 << 16,
        }
    }

    pub(super) fn check(&self) -> Result<(), CacheConfigError> {
        let Watermarks { low, high } = self.watermarks;
        if self.volume.is_empty() || self.volume.checked_end().is_none() {
            return Err(CacheConfigError::Volume(self.volume));
        }
        if !(1..=BLOCK_SECTORS_MAX).contains(&self.block.get()) {
            return Err(CacheConfigError::Block(self.block));
        }
        if self.sector.get() > SECTOR_BYTES_MAX {
            return Err(CacheConfigError::Sector(self.sector));
        }
        if !(1..=BUFFERS_MAX).contains(&self.buffers) {
            return Err(CacheConfigError::Buffers(self.buffers));
        }
        if low >= high {
            return Err(CacheConfigError::Watermarks { low, high });
        }
        if self.syncer.is_some_and(|s| s.every == Duration::ZERO) {
            return Err(CacheConfigError::Syncer);
        }
        if self.daemon_outstanding == 0 {
            return Err(CacheConfigError::DaemonOutstanding);
        }
        if self.nearest_of == 0 {
            return Err(CacheConfigError::NearestOf);
        }
        Ok(())
    }
}

/// The most bytes in a sector: no disk has more than a sixteenth of it.
const SECTOR_BYTES_MAX: u64 = 1 << 16;

/// An invalid field of a [`Config`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CacheConfigError {
    /// The volume is empty, or ends past the largest LBN.
    #[error("volume {0} is empty or ends past the largest LBN; give the LBNs to cache")]
    Volume(LbnRange),
    /// A block is empty, or has more sectors than a set of bits holds.
    #[error("a block of {0} sectors; give 1 to {BLOCK_SECTORS_MAX}")]
    Block(Sectors),
    /// The sectors are larger than those of any disk.
    #[error("sectors of {0} bytes; give at most {SECTOR_BYTES_MAX}")]
    Sector(Bytes),
    /// The number of buffers is out of range.
    #[error("{0} buffers; give 1 to {BUFFERS_MAX}")]
    Buffers(usize),
    /// The low watermark is not below the high one.
    #[error("watermarks {low} and {high}; give low < high")]
    Watermarks {
        /// The number at which cleaning stops.
        low: usize,
        /// The number at which cleaning begins.
        high: usize,
    },
    /// The syncer's interval is 0.
    #[error("a syncer that looks every 0 ns; give syncer.every a time")]
    Syncer,
    /// The buffer daemon could clean nothing.
    #[error("daemon_outstanding is 0; give at least 1")]
    DaemonOutstanding,
    /// SPTF-Evict could choose no buffer.
    #[error("nearest_of is 0; give at least 1")]
    NearestOf,
}

/// The reason for which a cache did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StartError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] CacheConfigError),
    /// The scheduler refused the session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Contents that survived a crash lie outside the volume, or their length does not match their range.
    #[error("{bytes} bytes were kept for LBNs {range}, which does not fit this volume; recover with its own")]
    Foreign {
        /// The range of the contents.
        range: LbnRange,
        /// The number of bytes given for the range.
        bytes: usize,
    },
    /// The contents that survived a crash need more buffers.
    #[error(
        "the contents that survived need more than {buffers} buffers; recover with the number from before the crash"
    )]
    TooSmall {
        /// The number of buffers.
        buffers: usize,
    },
}
