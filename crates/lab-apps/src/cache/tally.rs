//! Counts of a cache's work: the rows of FAST'04's figures 7 and 8.

/// The reason for which a write-back could not wait for free bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The buffer had been dirty for too long.
    Syncer,
    /// Too many buffers were dirty.
    Watermark,
    /// The buffer was needed for another block.
    Eviction,
    /// A flush waited for the buffer.
    Flush,
}

/// Counts of a cache's work. Hits and misses are counted by block, not by call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheTally {
    /// Blocks read that were in the cache.
    pub read_hits: u64,
    /// Blocks read that were not in the cache, or only in part.
    pub read_misses: u64,
    /// Blocks written that were in the cache.
    pub write_hits: u64,
    /// Blocks written that were not in the cache.
    pub write_misses: u64,
    /// Write-backs done in free bandwidth.
    pub free: u64,
    /// Write-backs forced by the syncer.
    pub syncer: u64,
    /// Write-backs forced by the buffer daemon.
    pub watermark: u64,
    /// Write-backs forced because the buffer was needed for another block.
    pub eviction: u64,
    /// Write-backs forced by a flush.
    pub flush: u64,
    /// Write-backs, free or forced, after which the buffer was still dirty: it was written to meanwhile, or the
    /// write-back covered only a part of its dirty sectors.
    pub still_dirty: u64,
    /// Write-backs that the medium refused.
    pub failed: u64,
    /// Buffers that were dirty when their contents were trimmed.
    pub died: u64,
    /// Clean buffers given to another block.
    pub evicted: u64,
    /// Foreground reads submitted.
    pub reads: u64,
    /// Foreground writes submitted.
    pub writes: u64,
    /// Background tasks registered.
    pub registered: u64,
    /// Background tasks promoted.
    pub promoted: u64,
    /// Background tasks aborted.
    pub aborted: u64,
    /// Registrations that the scheduler refused.
    pub refused: u64,
    /// Background writes that found their buffer locked.
    pub not_now: u64,
    /// Buffers that had to be written before they could make room: a call waited for the write-back.
    pub waits: u64,
    /// The most dirty buffers at a time.
    pub dirty_max: usize,
}

impl CacheTally {
    /// Returns the number of write-backs of all kinds.
    pub fn written(&self) -> u64 {
        self.free + self.syncer + self.watermark + self.eviction + self.flush
    }

    /// Returns the share of write-backs that were free; `None` if there were none.
    pub fn free_share(&self) -> Option<f64> {
        let written = self.written();
        (written > 0).then(|| self.free as f64 / written as f64)
    }

    pub(super) fn written_back(&mut self, cause: Option<Cause>) {
        match cause {
            None => self.free += 1,
            Some(Cause::Syncer) => self.syncer += 1,
            Some(Cause::Watermark) => self.watermark += 1,
            Some(Cause::Eviction) => self.eviction += 1,
            Some(Cause::Flush) => self.flush += 1,
        }
    }
}
