//! The segment that is being filled in memory, and those that are complete and wait to be written.

use super::config::Geometry;
use super::ids::{LogicalBlock, SegmentIndex, Sequence};
use super::summary::{SegmentSummary, SlotEntry};
use std::collections::BTreeSet;
use units::LbnRange;

/// A segment that is being filled.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub segment: SegmentIndex,
    pub sequence: Sequence,
    /// Summary and slots, as they will be on the medium.
    bytes: Vec<u8>,
    entries: Vec<Option<SlotEntry>>,
    copied: Vec<bool>,
    /// Slots that were filled and are vacant again; the lowest is filled next.
    vacated: BTreeSet<u32>,
    tombstones: BTreeSet<LogicalBlock>,
    block_bytes: usize,
    slots: u32,
    most_tombstones: u32,
}

/// A complete segment that is not on the medium yet.
#[derive(Clone, Debug)]
pub(super) struct UnwrittenSegment {
    pub segment: SegmentIndex,
    pub range: LbnRange,
    pub bytes: Vec<u8>,
    pub summary: SegmentSummary,
    pub fresh: u32,
    pub copies: u32,
    block_bytes: usize,
}

impl Open {
    pub fn new(geometry: &Geometry, segment: SegmentIndex, sequence: Sequence) -> Self {
        let block_bytes = geometry.block_bytes();
        Self {
            segment,
            sequence,
            bytes: vec![0; block_bytes * (geometry.slots() as usize + 1)],
            entries: Vec::new(),
            copied: Vec::new(),
            vacated: BTreeSet::new(),
            tombstones: BTreeSet::new(),
            block_bytes,
            slots: geometry.slots(),
            most_tombstones: geometry.tombstones(),
        }
    }

    pub fn has_slot(&self) -> bool {
        (self.entries.len() as u32) < self.slots || !self.vacated.is_empty()
    }

    pub fn has_tombstone_room(&self) -> bool {
        (self.tombstones.len() as u32) < self.most_tombstones
    }

    pub fn is_empty(&self) -> bool {
        self.vacated.len() == self.entries.len() && self.tombstones.is_empty()
    }

    pub fn slot(&self, slot: u32) -> &[u8] {
        let at = (slot as usize + 1) * self.block_bytes;
        &self.bytes[at..at + self.block_bytes]
    }

    /// Fills a vacant slot, of which there must be one; returns its number.
    pub fn put(&mut self, entry: SlotEntry, data: &[u8], copied: bool) -> u32 {
        debug_assert!(self.has_slot());
        let slot = self.vacated.pop_first().unwrap_or_else(|| {
            self.entries.push(None);
            self.copied.push(false);
            self.entries.len() as u32 - 1
        });
        self.set(slot, entry, data, copied);
        slot
    }

    /// Fills a slot, whether it is vacant or not.
    pub fn set(&mut self, slot: u32, entry: SlotEntry, data: &[u8], copied: bool) {
        let at = (slot as usize + 1) * self.block_bytes;
        self.bytes[at..at + self.block_bytes].copy_from_slice(data);
        self.entries[slot as usize] = Some(entry);
        self.copied[slot as usize] = copied;
    }

    pub fn vacate(&mut self, slot: u32) {
        self.entries[slot as usize] = None;
        self.copied[slot as usize] = false;
        self.vacated.insert(slot);
    }

    pub fn bury(&mut self, block: LogicalBlock) {
        self.tombstones.insert(block);
    }

    pub fn unbury(&mut self, block: LogicalBlock) {
        self.tombstones.remove(&block);
    }

    /// Completes the segment, which does not change any more.
    pub fn seal(mut self, geometry: &Geometry) -> UnwrittenSegment {
        while let Some(None) = self.entries.last() {
            self.entries.pop();
        }
        self.copied.truncate(self.entries.len());
        let summary = SegmentSummary {
            sequence: self.sequence,
            entries: self.entries,
            tombstones: self.tombstones.into_iter().collect(),
        };
        let used = summary.entries.len();
        self.bytes.truncate((used + 1) * self.block_bytes);
        summary.encode(geometry, self.segment, &mut self.bytes[..self.block_bytes]);
        let filled = summary.entries.iter().flatten().count() as u32;
        let copies = self.copied.iter().filter(|&&copied| copied).count() as u32;
        UnwrittenSegment {
            segment: self.segment,
            range: geometry.prefix_range(self.segment, used as u32),
            bytes: self.bytes,
            summary,
            fresh: filled - copies,
            copies,
            block_bytes: self.block_bytes,
        }
    }
}

impl UnwrittenSegment {
    pub fn slot(&self, slot: u32) -> &[u8] {
        let at = (slot as usize + 1) * self.block_bytes;
        &self.bytes[at..at + self.block_bytes]
    }
}
