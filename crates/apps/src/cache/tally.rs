//! Counts of what a cache did: the rows of FAST'04's figures 7 and 8.

/// Why a write-back could not wait for free bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// It had been dirty for too long.
    Syncer,
    /// Too many buffers were dirty.
    Watermark,
    /// Its buffer was needed.
    Eviction,
    /// A flush waited for it.
    Flush,
}

/// Counts of what a cache did. Hits and misses are counted by block, not by call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Blocks read that were there.
    pub read_hits: u64,
    /// Blocks read that were not, or not whole.
    pub read_misses: u64,
    /// Blocks written that were there.
    pub write_hits: u64,
    /// Blocks written that were not.
    pub write_misses: u64,
    /// Write-backs done in free bandwidth.
    pub free: u64,
    /// Write-backs forced by the syncer.
    pub syncer: u64,
    /// Write-backs forced by the buffer daemon.
    pub watermark: u64,
    /// Write-backs forced because the buffer was needed.
    pub eviction: u64,
    /// Write-backs forced by a flush.
    pub flush: u64,
    /// Of all these, those after which the buffer was still dirty: it was written to meanwhile, or only a part of it was
    /// contiguous.
    pub still_dirty: u64,
    /// Write-backs that the medium refused.
    pub failed: u64,
    /// Buffers that were dirty when their contents died.
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
    /// Times that a buffer was asked for and locked.
    pub not_now: u64,
    /// Buffers that were to make room and had to be written first: somebody waited for a write-back.
    pub waits: u64,
    /// The most buffers dirty at a time.
    pub dirty_max: usize,
}

impl Tally {
    /// Write-backs of all kinds.
    pub fn written(&self) -> u64 {
        self.free + self.syncer + self.watermark + self.eviction + self.flush
    }

    /// The share of write-backs that were free; `None` when there were none.
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
