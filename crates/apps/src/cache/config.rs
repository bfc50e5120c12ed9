//! What a cache is told once.

use super::mask::MOST_BLOCK_SECTORS;
use scheduler::{Priority, SessionError};
use thiserror::Error;
use units::{Bytes, Duration, LbnRange, Sectors};

/// The most buffers: 16 GB in 4 KB blocks.
pub const MOST_BUFFERS: usize = 1 << 22;

/// Which buffer makes room, and which the buffer daemon cleans first (FAST'04, section 6.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently used one, clean or dirty.
    #[default]
    Lru,
    /// The same while that one is clean; where it is dirty, the dirty one that the head can write soonest.
    SptfEvict,
    /// The least recently used of those that are clean because they were written for free; where there is none, LRU.
    FreeClean,
}

/// Numbers of dirty buffers. When there are `high`, the buffer daemon cleans until there are `low`.
/// With `high` above the number of buffers it never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// Where it stops.
    pub low: usize,
    /// Where it begins.
    pub high: usize,
}

/// The promise that no buffer stays dirty for long: its write-back has begun when it has been dirty for `age`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syncer {
    /// How long a buffer may stay dirty.
    pub age: Duration,
    /// How often the syncer looks. As long as `age`, it writes everything each time, in large bursts.
    pub every: Duration,
}

impl Default for Syncer {
    /// 30 s, as in the paper; looks every second.
    fn default() -> Self {
        Self { age: Duration::from_secs(30), every: Duration::from_secs(1) }
    }
}

/// How a write-back that cannot wait becomes foreground work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Force {
    /// The background task is promoted, as in the paper.
    #[default]
    Promote,
    /// The background task is aborted and a foreground request is submitted.
    Submit,
}

/// What a cache is told once. [`Config::new`] has the defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The LBNs it caches. Blocks are aligned to the first.
    pub volume: LbnRange,
    /// The size of a buffer, at most [`MOST_BLOCK_SECTORS`].
    pub block: Sectors,
    /// Bytes of a sector. With zero the cache has no contents: what is simulated then is its timing only.
    pub sector: Bytes,
    /// How many buffers, at most [`MOST_BUFFERS`].
    pub buffers: usize,
    /// Who makes room.
    pub replacement: Replacement,
    /// When the buffer daemon cleans.
    pub watermarks: Watermarks,
    /// `None` where the cache survives a crash (NVRAM).
    pub syncer: Option<Syncer>,
    /// The priority of the session that writes back for free; with `None` everything is written in the foreground.
    pub cleaner: Option<Priority>,
    /// How write-backs are forced.
    pub force: Force,
    /// The most write-backs that are forced at a time before the buffer daemon forces more. The paper's come in bursts:
    /// no limit.
    pub daemon_outstanding: usize,
    /// How many dirty blocks around the head SPTF-Evict looks at.
    pub nearest_of: usize,
    /// When a write-back that failed is tried again.
    pub retry: Duration,
    /// The most calls that may be under way.
    pub most_calls: usize,
}

impl Config {
    /// LRU, watermarks at a half and a quarter of the buffers, the 30 s syncer, free cleaning at the default priority.
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

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let Watermarks { low, high } = self.watermarks;
        if self.volume.is_empty() || self.volume.checked_end().is_none() {
            return Err(ConfigError::Volume(self.volume));
        }
        if !(1..=MOST_BLOCK_SECTORS).contains(&self.block.get()) {
            return Err(ConfigError::Block(self.block));
        }
        if self.sector.get() > MOST_SECTOR_BYTES {
            return Err(ConfigError::Sector(self.sector));
        }
        if !(1..=MOST_BUFFERS).contains(&self.buffers) {
            return Err(ConfigError::Buffers(self.buffers));
        }
        if low >= high {
            return Err(ConfigError::Watermarks { low, high });
        }
        if self.syncer.is_some_and(|s| s.every == Duration::ZERO) {
            return Err(ConfigError::Syncer);
        }
        if self.daemon_outstanding == 0 {
            return Err(ConfigError::DaemonOutstanding);
        }
        if self.nearest_of == 0 {
            return Err(ConfigError::NearestOf);
        }
        Ok(())
    }
}

/// The most bytes in a sector.
const MOST_SECTOR_BYTES: u64 = 1 << 16;

/// Why there is no cache of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Nothing to cache.
    #[error("volume {0} is empty or ends past the largest LBN; give the LBNs to cache")]
    Volume(LbnRange),
    /// A block is no set of bits.
    #[error("a block of {0} sectors; give 1 to {MOST_BLOCK_SECTORS}")]
    Block(Sectors),
    /// No disk has such sectors.
    #[error("sectors of {0} bytes; give at most {MOST_SECTOR_BYTES}")]
    Sector(Bytes),
    /// Too few or too many.
    #[error("{0} buffers; give 1 to {MOST_BUFFERS}")]
    Buffers(usize),
    /// Watermarks that do not lie above each other.
    #[error("watermarks {low} and {high}; give low < high")]
    Watermarks {
        /// Where cleaning stops.
        low: usize,
        /// Where it begins.
        high: usize,
    },
    /// The syncer would never stop looking.
    #[error("a syncer that looks every 0 ns; give syncer.every a time")]
    Syncer,
    /// The buffer daemon could clean nothing.
    #[error("daemon_outstanding is 0; give at least 1")]
    DaemonOutstanding,
    /// SPTF-Evict would find no buffer.
    #[error("nearest_of is 0; give at least 1")]
    NearestOf,
}

/// Why a cache did not start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StartError {
    /// It cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The scheduler refused the session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// What survived the crash does not lie in the volume, or has another length than its range.
    #[error("{bytes} bytes were kept for LBNs {range}, which does not fit this volume; recover with its own")]
    Foreign {
        /// The range.
        range: LbnRange,
        /// The bytes with it.
        bytes: usize,
    },
    /// More survived than there are buffers.
    #[error("what was kept needs more than {buffers} buffers; recover with as many as before")]
    TooSmall {
        /// How many there are.
        buffers: usize,
    },
}
