//! Counts of the log's writes, by origin.

use super::open::UnwrittenSegment;

/// Counts since the log was opened. From [`SegmentWrite::fresh`](super::SegmentWrite) and `copies` a host can charge
/// the time of each segment write to the client and to cleaning. Together with the cleaners' own counts of reads that
/// gives the three strategies of OSDI'00, figure 7: ORIGINAL pays for all, FREEBLOCK for the writes, IDEAL for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogTally {
    /// Segments that are durable.
    pub segments: u64,
    /// Blocks in durable segments that the client wrote.
    pub fresh: u64,
    /// Blocks in durable segments that a cleaner copied.
    pub copies: u64,
    /// Vacant slots in durable segments.
    pub vacant: u64,
    /// Blocks that cleaners moved into memory, durable or not.
    pub copied: u64,
    /// Writes that replaced data still in memory.
    pub rewritten_in_memory: u64,
    /// Tombstones in durable segments.
    pub tombstones: u64,
    /// Tombstones that cleaners moved.
    pub carried_tombstones: u64,
}

impl LogTally {
    pub(super) fn written(&mut self, waiting: &UnwrittenSegment, slots: u32) {
        self.segments += 1;
        self.fresh += u64::from(waiting.fresh);
        self.copies += u64::from(waiting.copies);
        self.vacant += u64::from(slots - waiting.fresh - waiting.copies);
        self.tombstones += waiting.summary.tombstones.len() as u64;
    }

    /// Returns the number of blocks written for each block that the client wrote.
    pub fn write_cost(&self) -> f64 {
        (self.fresh + self.copies) as f64 / self.fresh.max(1) as f64
    }
}
