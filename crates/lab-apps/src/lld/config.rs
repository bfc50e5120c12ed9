//! The layout of a log, and the number of segments that it keeps free.

use super::ids::{LogicalBlock, SegmentIndex};
use thiserror::Error;
use units::{Lbn, LbnRange, Sectors};

/// The configuration of a log. The same values are needed to open it again, see [`recover`](super::recover).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// Distinguishes this log from all others that were ever on the medium; draw it at random when a log is made.
    pub identity: u64,
    /// The first LBN of segment 0.
    pub start: Lbn,
    /// The number of segments, which are contiguous.
    pub segments: u32,
    /// Blocks in a segment, one of which is the summary.
    pub blocks_per_segment: u32,
    /// Sectors in a block.
    pub sectors_per_block: u32,
    /// Bytes in a sector; the medium writes a sector whole or not at all.
    pub sector_bytes: u32,
    /// The number of logical blocks, numbered from 0.
    pub logical_blocks: u32,
    /// The number of free segments below which the foreground cleaner runs. LLD's default is two.
    pub minimum_free: u32,
    /// The most complete segments that wait in memory to be written.
    pub most_waiting: u32,
}

impl Default for LogConfig {
    /// Returns the values of OSDI'00, section 5.2: 400 MB in segments of 128 blocks of 4 KB, one of them the summary;
    /// cleaning below two free segments.
    fn default() -> Self {
        Self {
            identity: 0,
            start: Lbn::ZERO,
            segments: 800,
            blocks_per_segment: 128,
            sectors_per_block: 8,
            sector_bytes: 512,
            logical_blocks: 800 * 127,
            minimum_free: 2,
            most_waiting: 2,
        }
    }
}

/// Bytes of a summary before its first entry.
pub(super) const HEADER_BYTES: usize = 64;
/// Bytes of an entry in a summary.
pub(super) const ENTRY_BYTES: usize = 16;
/// Bytes of a tombstone in a summary.
pub(super) const TOMBSTONE_BYTES: usize = 4;

/// The longest segment in bytes: it is kept in memory until it is written.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// The most slots of all segments together; their entries are kept in memory.
pub const SLOTS_MAX: u64 = 1 << 31;

/// An invalid field of a [`LogConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LogConfigError {
    /// A size of zero.
    #[error("{field} is 0; give at least 1")]
    Zero {
        /// The field.
        field: &'static str,
    },
    /// A segment would have no room for data beside the summary.
    #[error("blocks_per_segment is {0}; give at least 2: one is the summary")]
    NoSlots(u32),
    /// A segment would be too long.
    #[error("a segment would have {bytes} bytes; the most is {SEGMENT_BYTES_MAX}: lower blocks_per_segment")]
    SegmentTooLong {
        /// Bytes of a segment.
        bytes: u64,
    },
    /// The summary would not fit into a block.
    #[error(
        "a summary of {slots} slots needs {needed} bytes and a block has {block}; raise sectors_per_block or lower \
         blocks_per_segment"
    )]
    SummaryTooLong {
        /// Data blocks in a segment.
        slots: u32,
        /// Bytes needed.
        needed: u64,
        /// Bytes of a block.
        block: u64,
    },
    /// `minimum_free` is below 2: the cleaner copies into one free segment, so at least one more must be free.
    #[error("minimum_free is {0}; give at least 2: the cleaner copies into one")]
    TooFewFree(u32),
    /// Nothing would be left for data.
    #[error("{segments} segments leave nothing for data beside {reserved} that are kept free; give more")]
    TooFewSegments {
        /// Segments.
        segments: u32,
        /// Segments that are never full of live data.
        reserved: u64,
    },
    /// The state in memory would be too large.
    #[error("{slots} slots; the most is {SLOTS_MAX}: lower segments or blocks_per_segment")]
    TooManySlots {
        /// Slots.
        slots: u64,
    },
    /// The log would end past the largest LBN.
    #[error("the log would end past the largest LBN; lower start ({0})")]
    PastEnd(Lbn),
}

/// A valid layout, which computes the LBNs of segments, summaries and slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    config: LogConfig,
    tombstones: u32,
}

impl LogConfig {
    /// Checks the layout.
    ///
    /// # Errors
    /// The invalid field, and its valid values.
    pub fn check(self) -> Result<Geometry, LogConfigError> {
        for (field, value) in [
            ("sectors_per_block", self.sectors_per_block),
            ("sector_bytes", self.sector_bytes),
            ("logical_blocks", self.logical_blocks),
            ("most_waiting", self.most_waiting),
        ] {
            if value == 0 {
                return Err(LogConfigError::Zero { field });
            }
        }
        if self.blocks_per_segment < 2 {
            return Err(LogConfigError::NoSlots(self.blocks_per_segment));
        }
        if self.minimum_free < 2 {
            return Err(LogConfigError::TooFewFree(self.minimum_free));
        }
        let reserved = u64::from(self.minimum_free) + 1;
        if u64::from(self.segments) <= reserved {
            return Err(LogConfigError::TooFewSegments { segments: self.segments, reserved });
        }
        let block = u64::from(self.sectors_per_block) * u64::from(self.sector_bytes);
        let bytes = block.saturating_mul(u64::from(self.blocks_per_segment));
        if bytes > SEGMENT_BYTES_MAX {
            return Err(LogConfigError::SegmentTooLong { bytes });
        }
        let slots = self.blocks_per_segment - 1;
        let all_slots = u64::from(slots) * u64::from(self.segments);
        if all_slots > SLOTS_MAX {
            return Err(LogConfigError::TooManySlots { slots: all_slots });
        }
        let entries = HEADER_BYTES as u64 + u64::from(slots) * ENTRY_BYTES as u64;
        // There are never more tombstones than slots, so a log whose summaries have room for that number never runs
        // out of room for them.
        let needed = entries + u64::from(slots) * TOMBSTONE_BYTES as u64;
        if needed > block {
            return Err(LogConfigError::SummaryTooLong { slots, needed, block });
        }
        let sectors =
            u64::from(self.segments) * u64::from(self.blocks_per_segment) * u64::from(self.sectors_per_block);
        if LbnRange::new(self.start, Sectors::new(sectors)).checked_end().is_none() {
            return Err(LogConfigError::PastEnd(self.start));
        }
        let tombstones = ((block - entries) / TOMBSTONE_BYTES as u64) as u32;
        Ok(Geometry { config: self, tombstones })
    }
}

impl Geometry {
    /// Returns the configuration.
    pub const fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Returns the data blocks in a segment.
    pub const fn slots(&self) -> u32 {
        self.config.blocks_per_segment - 1
    }

    /// Returns the number of tombstones for which a summary has room.
    pub const fn tombstones(&self) -> u32 {
        self.tombstones
    }

    /// Returns the bytes in a block.
    pub const fn block_bytes(&self) -> usize {
        self.config.sectors_per_block as usize * self.config.sector_bytes as usize
    }

    /// Returns the sectors in a block.
    pub const fn block_sectors(&self) -> Sectors {
        Sectors::new(self.config.sectors_per_block as u64)
    }

    /// Returns the most logical blocks that may be mapped at once: the slots of all segments except those that the
    /// cleaner needs and the one that is being filled.
    pub const fn capacity(&self) -> u32 {
        (self.config.segments - self.config.minimum_free - 1) * self.slots()
    }

    /// Iterates over all segments.
    pub fn segments(&self) -> impl Iterator<Item = SegmentIndex> + use<> {
        (0..self.config.segments).map(SegmentIndex::new)
    }

    /// Returns the LBNs of the whole log.
    pub fn range(&self) -> LbnRange {
        let first = self.blocks(SegmentIndex::new(0), 0, 1).start();
        LbnRange::new(
            first,
            Sectors::new(
                u64::from(self.config.segments) * self.segment_blocks() * self.block_sectors().get(),
            ),
        )
    }

    /// Returns the LBNs of a segment's summary.
    pub fn summary_range(&self, segment: SegmentIndex) -> LbnRange {
        self.blocks(segment, 0, 1)
    }

    /// Returns the LBNs of `count` slots from `slot` on.
    pub fn slot_range(&self, segment: SegmentIndex, slot: u32, count: u32) -> LbnRange {
        self.blocks(segment, slot + 1, count)
    }

    /// Returns the LBNs of the summary and the first `slots` slots, which are written in one piece.
    pub fn prefix_range(&self, segment: SegmentIndex, slots: u32) -> LbnRange {
        self.blocks(segment, 0, slots + 1)
    }

    /// Returns the slot that begins at an LBN, if any.
    pub fn slot_at(&self, lbn: Lbn) -> Option<(SegmentIndex, u32)> {
        let offset = lbn.get().checked_sub(self.config.start.get())?;
        let (block, rest) = (offset / self.block_sectors().get(), offset % self.block_sectors().get());
        let (segment, block) = (block / self.segment_blocks(), block % self.segment_blocks());
        let inside = rest == 0 && block > 0 && segment < u64::from(self.config.segments);
        inside.then(|| (SegmentIndex::new(segment as u32), block as u32 - 1))
    }

    pub(super) fn holds(&self, block: LogicalBlock) -> bool {
        block.get() < self.config.logical_blocks
    }

    fn segment_blocks(&self) -> u64 {
        u64::from(self.config.blocks_per_segment)
    }

    fn blocks(&self, segment: SegmentIndex, block: u32, count: u32) -> LbnRange {
        let first = u64::from(segment.get()) * self.segment_blocks() + u64::from(block);
        LbnRange::new(
            self.config.start + Sectors::new(first * self.block_sectors().get()),
            Sectors::new(u64::from(count) * self.block_sectors().get()),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_llds_400_mb() {
        let geometry = LogConfig::default().check().unwrap();
        assert_eq!(geometry.range().len().get() * 512, 800 * 128 * 4096);
        assert_eq!(geometry.slots(), 127);
        assert!(f64::from(geometry.capacity()) > 0.95 * 800.0 * 127.0);
    }

    #[test]
    fn every_slot_is_found_by_its_lbn() {
        let config =
            LogConfig { segments: 5, blocks_per_segment: 4, start: Lbn::new(100), ..LogConfig::default() };
        let geometry = config.check().unwrap();
        for segment in geometry.segments() {
            assert_eq!(geometry.slot_at(geometry.summary_range(segment).start()), None);
            for slot in 0..geometry.slots() {
                let range = geometry.slot_range(segment, slot, 1);
                assert_eq!(geometry.slot_at(range.start()), Some((segment, slot)));
                assert_eq!(geometry.slot_at(Lbn::new(range.start().get() + 1)), None);
            }
        }
        assert_eq!(geometry.slot_at(geometry.range().end() + Sectors::new(8)), None);
    }

    #[test]
    fn nonsense_is_refused_by_field() {
        let base = LogConfig::default();
        let refused = [
            (LogConfig { sectors_per_block: 0, ..base }, "sectors_per_block"),
            (LogConfig { most_waiting: 0, ..base }, "most_waiting"),
            (LogConfig { blocks_per_segment: 1, ..base }, "blocks_per_segment"),
            (LogConfig { minimum_free: 1, ..base }, "minimum_free"),
            (LogConfig { segments: 3, ..base }, "segments"),
            (LogConfig { sectors_per_block: 1, ..base }, "summary"),
            (LogConfig { blocks_per_segment: u32::MAX, ..base }, "blocks_per_segment"),
            (LogConfig { segments: u32::MAX, ..base }, "slots"),
            (LogConfig { start: Lbn::new(u64::MAX), ..base }, "start"),
        ];
        for (config, word) in refused {
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
