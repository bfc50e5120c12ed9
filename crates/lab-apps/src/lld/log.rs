//! The log: the address of every logical block, and the next write to the medium.

use super::config::{Geometry, LogConfig, LogConfigError};
use super::ids::{LogicalBlock, SegmentIndex, Sequence};
use super::open::{Open, UnwrittenSegment};
use super::segment::{Segment, SegmentInfo, State};
use super::summary::SlotEntry;
use super::tally::LogTally;
use std::collections::VecDeque;
use thiserror::Error;
use units::{Instant, LbnRange};

/// The place of a logical block's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// Never written, or trimmed.
    Nothing,
    /// In memory.
    Memory(&'a [u8]),
    /// On the medium.
    Medium {
        /// The LBNs.
        range: LbnRange,
        /// The CRC-32 of the data, to check what the medium returns.
        checksum: u32,
    },
}

/// The next write to the medium. A write must be complete before the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentWrite<'a> {
    /// The segment; pass it to [`Log::written`].
    pub segment: SegmentIndex,
    /// The LBNs.
    pub range: LbnRange,
    /// The bytes.
    pub bytes: &'a [u8],
    /// Blocks of the segment that the client wrote.
    pub fresh: u32,
    /// Blocks of the segment that a cleaner copied.
    pub copies: u32,
}

/// The reason for which a block was not taken. The client's data have not changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// There is no such logical block.
    #[error("{block} is past the end; the log has {logical_blocks}, from 0 on")]
    NoSuchBlock {
        /// The block named in the call.
        block: LogicalBlock,
        /// The number of logical blocks.
        logical_blocks: u32,
    },
    /// The data are not one block.
    #[error("{found} bytes were given; a block has {expected}")]
    WrongLength {
        /// The length of the data given.
        found: usize,
        /// Bytes of a block.
        expected: usize,
    },
    /// As many blocks are mapped as the log has room for.
    #[error("the log is full: {capacity} blocks are mapped; trim some first")]
    Full {
        /// The most that may be mapped.
        capacity: u32,
    },
    /// Complete segments must be written first.
    #[error("segments wait in memory; carry out pending_write and report it with written first")]
    WriteOut,
    /// The free segments are too few to go on.
    #[error("{free} segments are free; run the foreground cleaner first")]
    NeedsCleaning {
        /// Free segments.
        free: u32,
    },
}

/// The reason for which a copy was not made. The block stays where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CopyError {
    /// There is no room for the copy for now.
    #[error(transparent)]
    NoRoom(#[from] WriteError),
    /// The data read do not have the checksum that the log recorded for them.
    #[error("{block} came back from LBN {range} with checksum {found:#010x} instead of {expected:#010x}")]
    Corrupt {
        /// The logical block.
        block: LogicalBlock,
        /// The LBNs of the block.
        range: LbnRange,
        /// The checksum of the data read.
        found: u32,
        /// The checksum of the data written.
        expected: u32,
    },
}

/// A write was reported that was not requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} is not what pending_write asked for; report writes in that order, each once")]
pub struct NotPending(pub SegmentIndex);

/// The party for which room is made in the open segment. The foreground cleaner may use segments that are reserved
/// from the other parties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Who {
    /// The client, which leaves the last free segment to the foreground cleaner, and waits while that works.
    Client,
    /// The cleaner in gaps, whose blocks arrive at any time, also while the foreground cleaner works. It leaves the last free
    /// segment as well, and all room in that segment once the foreground cleaner fills it.
    FreeCleaner,
    /// The foreground cleaner: it may take the last free segment, since every segment that it fills frees one.
    Cleaner,
}

/// The place of a logical block's latest version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Nothing,
    Slot(SegmentIndex, u32),
    /// The block is trimmed, and its tombstone is in this segment.
    Tombstone(SegmentIndex),
}

/// The kind of space that is needed in the open segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Room {
    Slot,
    Tombstone,
}

/// The state of a log-structured logical disk; [the module](super) shows the host's loop around it.
#[derive(Clone, Debug)]
pub struct Log {
    pub(super) geometry: Geometry,
    pub(super) places: Vec<Place>,
    /// For each logical block, the number of summaries on the medium, or on their way there, with an entry for it.
    /// Unless this is 0, a trimmed block needs its tombstone: otherwise replaying the log would restore the block.
    pub(super) mentions: Vec<u32>,
    pub(super) segments: Vec<Segment>,
    open: Option<Open>,
    waiting: VecDeque<UnwrittenSegment>,
    /// The torn segment whose summary must be wiped, and the zeros for it.
    pub(super) wipe: Option<(SegmentIndex, Vec<u8>)>,
    pub(super) next_sequence: Sequence,
    pub(super) durable: Sequence,
    /// The index of the segment at which the next search for a free one begins.
    pub(super) after: u32,
    pub(super) mapped: u32,
    tally: LogTally,
}

impl Log {
    /// Creates an empty log; the content of the medium is ignored.
    ///
    /// # Errors
    /// The layout is invalid.
    pub fn new(config: LogConfig) -> Result<Self, LogConfigError> {
        Ok(Self::blank(config.check()?))
    }

    pub(super) fn blank(geometry: Geometry) -> Self {
        let blocks = geometry.config().logical_blocks as usize;
        Self {
            geometry,
            places: vec![Place::Nothing; blocks],
            mentions: vec![0; blocks],
            segments: vec![Segment::blank(); geometry.config().segments as usize],
            open: None,
            waiting: VecDeque::new(),
            wipe: None,
            next_sequence: Sequence::new(1),
            durable: Sequence::new(0),
            after: 0,
            mapped: 0,
            tally: LogTally::default(),
        }
    }

    /// Returns the layout.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Takes new data of a block. They are durable once [`durable`](Self::durable) has reached the returned sequence.
    ///
    /// # Errors
    /// See [`WriteError`]; the block is as it was.
    pub fn write(&mut self, block: LogicalBlock, data: &[u8], now: Instant) -> Result<Sequence, WriteError> {
        let place = self.place(block)?;
        if data.len() != self.geometry.block_bytes() {
            return Err(WriteError::WrongLength { found: data.len(), expected: self.geometry.block_bytes() });
        }
        let capacity = self.geometry.capacity();
        if !matches!(place, Place::Slot(..)) && self.mapped >= capacity {
            return Err(WriteError::Full { capacity });
        }
        let entry = SlotEntry { block, checksum: crc32fast::hash(data), modified: now };
        if let (Place::Slot(segment, slot), Some(open)) = (place, &mut self.open)
            && open.segment == segment
        {
            open.set(slot, entry, data, false);
            self.tally.rewritten_in_memory += 1;
            return Ok(open.sequence);
        }
        let sequence = self.make_room(Room::Slot, Who::Client)?;
        self.place_in_open(entry, data, false);
        Ok(sequence)
    }

    /// Trims a block. The trim becomes durable as a write does.
    ///
    /// # Errors
    /// See [`WriteError`]; the block is as it was.
    pub fn trim(&mut self, block: LogicalBlock) -> Result<Sequence, WriteError> {
        match self.place(block)? {
            Place::Nothing => return Ok(self.durable),
            Place::Tombstone(segment) => return Ok(self.sequence_of(segment)),
            Place::Slot(..) => {}
        }
        if self.mentions[block.index()] == 0 {
            // All versions of the block are in the open segment, so it needs no tombstone.
            self.supersede(block, self.durable);
            self.places[block.index()] = Place::Nothing;
            return Ok(self.durable);
        }
        let sequence = self.make_room(Room::Tombstone, Who::Client)?;
        self.bury_in_open(block);
        Ok(sequence)
    }

    /// Returns the place of a block's data.
    ///
    /// # Errors
    /// No such block.
    pub fn read(&self, block: LogicalBlock) -> Result<Data<'_>, WriteError> {
        let Place::Slot(segment, slot) = self.place(block)? else { return Ok(Data::Nothing) };
        if let Some(open) = self.open.as_ref().filter(|open| open.segment == segment) {
            return Ok(Data::Memory(open.slot(slot)));
        }
        if let Some(waiting) = self.waiting.iter().find(|waiting| waiting.segment == segment) {
            return Ok(Data::Memory(waiting.slot(slot)));
        }
        let range = self.geometry.slot_range(segment, slot, 1);
        Ok(match self.entry_on_medium(segment, slot) {
            Some(entry) => Data::Medium { range, checksum: entry.checksum },
            None => Data::Nothing,
        })
    }

    /// Completes the open segment as it is, so that it can become durable; returns false if the segment was empty.
    ///
    /// # Errors
    /// [`WriteError::WriteOut`] if the most possible segments wait already.
    pub fn seal(&mut self) -> Result<bool, WriteError> {
        if self.open.as_ref().is_none_or(Open::is_empty) {
            return Ok(false);
        }
        if self.waiting.len() >= self.geometry.config().most_waiting as usize {
            return Err(WriteError::WriteOut);
        }
        let Some(open) = self.open.take() else { return Ok(false) };
        let waiting = open.seal(&self.geometry);
        for entry in waiting.summary.entries.iter().flatten() {
            self.mentions[entry.block.index()] += 1;
        }
        let row = &mut self.segments[waiting.segment.index()];
        row.state = State::Waiting;
        row.modified = waiting.summary.modified();
        self.waiting.push_back(waiting);
        Ok(true)
    }

    /// Returns the next write for the host, if any. Writes go in this order, one at a time: at most one can be torn.
    pub fn pending_write(&self) -> Option<SegmentWrite<'_>> {
        if let Some((segment, zeros)) = &self.wipe {
            let range = self.geometry.summary_range(*segment);
            return Some(SegmentWrite { segment: *segment, range, bytes: zeros, fresh: 0, copies: 0 });
        }
        self.waiting.front().map(|waiting| SegmentWrite {
            segment: waiting.segment,
            range: waiting.range,
            bytes: &waiting.bytes,
            fresh: waiting.fresh,
            copies: waiting.copies,
        })
    }

    /// Records that the pending write is durable.
    ///
    /// # Errors
    /// The segment is not that of the pending write.
    pub fn written(&mut self, segment: SegmentIndex) -> Result<(), NotPending> {
        if let Some((torn, _)) = &self.wipe {
            if *torn != segment {
                return Err(NotPending(segment));
            }
            self.wipe = None;
            self.segments[segment.index()].state = State::Free;
            return Ok(());
        }
        if self.waiting.front().is_none_or(|waiting| waiting.segment != segment) {
            return Err(NotPending(segment));
        }
        let Some(waiting) = self.waiting.pop_front() else { return Err(NotPending(segment)) };
        self.tally.written(&waiting, self.geometry.slots());
        self.durable = waiting.summary.sequence;
        let row = &mut self.segments[segment.index()];
        row.state = State::Written;
        let overwritten = row.medium.replace(waiting.summary);
        for entry in overwritten.iter().flat_map(|summary| summary.entries.iter().flatten()) {
            self.forget_mention(entry.block);
        }
        for row in &mut self.segments {
            row.settle(self.durable);
        }
        Ok(())
    }

    /// Returns the sequence up to which all segments survive a crash.
    pub fn durable(&self) -> Sequence {
        self.durable
    }

    /// Returns the sequence of the segment that takes the next write.
    pub fn filling(&self) -> Sequence {
        self.open.as_ref().map_or(self.next_sequence, |open| open.sequence)
    }

    /// Returns the number of segments that may be overwritten now.
    pub fn free_segments(&self) -> u32 {
        self.segments.iter().filter(|row| row.state == State::Free).count() as u32
    }

    /// Returns the number of segments that are free, or will be once the data in memory are durable: the effect of
    /// cleaning.
    pub fn soon_free_segments(&self) -> u32 {
        let soon = |row: &&Segment| matches!(row.state, State::Free | State::Emptied { .. } | State::Torn);
        self.segments.iter().filter(soon).count() as u32
    }

    /// Returns whether the foreground cleaner must run.
    pub fn needs_cleaning(&self) -> bool {
        self.soon_free_segments() < self.geometry.config().minimum_free
    }

    /// Returns the number of logical blocks with data.
    pub fn mapped(&self) -> u32 {
        self.mapped
    }

    /// Returns the logical blocks with data as a share of all slots.
    pub fn utilisation(&self) -> f64 {
        let slots = u64::from(self.geometry.config().segments) * u64::from(self.geometry.slots());
        f64::from(self.mapped) / slots as f64
    }

    /// Returns a segment, if there is one of this number.
    pub fn segment(&self, segment: SegmentIndex) -> Option<SegmentInfo> {
        let row = self.segments.get(segment.index())?;
        let Segment { state, live, tombstones, modified, .. } = *row;
        Some(SegmentInfo { segment, state, live, tombstones, modified })
    }

    /// Returns the live slots of a written segment, ascending.
    pub fn live_slots(&self, segment: SegmentIndex) -> Vec<(u32, LogicalBlock)> {
        let Some(Segment { state: State::Written, medium: Some(summary), .. }) =
            self.segments.get(segment.index())
        else {
            return Vec::new();
        };
        let entries = (0u32..).zip(&summary.entries);
        entries
            .filter_map(|(slot, entry)| Some((slot, entry.as_ref()?.block)))
            .filter(|&(slot, block)| self.places[block.index()] == Place::Slot(segment, slot))
            .collect()
    }

    /// Returns the place of a block, in memory or on the medium, for checks.
    pub fn slot_of(&self, block: LogicalBlock) -> Option<(SegmentIndex, u32)> {
        match self.places.get(block.index()) {
            Some(&Place::Slot(segment, slot)) => Some((segment, slot)),
            _ => None,
        }
    }

    /// Returns the sequence of a written segment. If it is not the one with which a cleaner began, the segment was
    /// freed meanwhile.
    pub(super) fn writing_of(&self, segment: SegmentIndex) -> Option<Sequence> {
        let row = self.segments.get(segment.index())?;
        let written = matches!(row.state, State::Written | State::Emptied { .. });
        row.medium.as_ref().filter(|_| written).map(|summary| summary.sequence)
    }

    /// Returns the counts of blocks written and copied.
    pub fn tally(&self) -> LogTally {
        self.tally
    }

    /// Returns whether a slot of a written segment is live.
    pub(super) fn is_live(&self, segment: SegmentIndex, slot: u32) -> bool {
        self.live_entry(segment, slot).is_some()
    }

    /// Copies the data read from a slot into the open segment if the slot is still live; returns whether it is.
    pub(super) fn copy(
        &mut self,
        from: (SegmentIndex, u32),
        data: &[u8],
        who: Who,
    ) -> Result<bool, CopyError> {
        let (segment, slot) = from;
        let Some(entry) = self.live_entry(segment, slot) else { return Ok(false) };
        let found = crc32fast::hash(data);
        if found != entry.checksum || data.len() != self.geometry.block_bytes() {
            let range = self.geometry.slot_range(segment, slot, 1);
            return Err(CopyError::Corrupt { block: entry.block, range, found, expected: entry.checksum });
        }
        self.make_room(Room::Slot, who)?;
        self.place_in_open(entry, data, true);
        self.tally.copied += 1;
        Ok(true)
    }

    /// Moves the live tombstones of a segment into the open segment. If the room runs out half-way, call this again
    /// later.
    pub(super) fn carry_tombstones(&mut self, segment: SegmentIndex, who: Who) -> Result<(), WriteError> {
        while self.segments[segment.index()].tombstones > 0 {
            let counts = |block: &&LogicalBlock| self.places[block.index()] == Place::Tombstone(segment);
            let summary = self.segments[segment.index()].medium.as_ref();
            let Some(&block) = summary.and_then(|s| s.tombstones.iter().find(counts)) else { return Ok(()) };
            self.make_room(Room::Tombstone, who)?;
            self.bury_in_open(block);
            self.tally.carried_tombstones += 1;
        }
        Ok(())
    }

    fn live_entry(&self, segment: SegmentIndex, slot: u32) -> Option<SlotEntry> {
        if self.segments.get(segment.index())?.state != State::Written {
            return None;
        }
        self.entry_on_medium(segment, slot)
            .filter(|entry| self.places[entry.block.index()] == Place::Slot(segment, slot))
    }

    fn entry_on_medium(&self, segment: SegmentIndex, slot: u32) -> Option<SlotEntry> {
        *self.segments.get(segment.index())?.medium.as_ref()?.entries.get(slot as usize)?
    }

    fn place(&self, block: LogicalBlock) -> Result<Place, WriteError> {
        let logical_blocks = self.geometry.config().logical_blocks;
        self.places.get(block.index()).copied().ok_or(WriteError::NoSuchBlock { block, logical_blocks })
    }

    fn sequence_of(&self, segment: SegmentIndex) -> Sequence {
        match self.open.as_ref().filter(|open| open.segment == segment) {
            Some(open) => open.sequence,
            None => match self.waiting.iter().find(|waiting| waiting.segment == segment) {
                Some(waiting) => waiting.summary.sequence,
                None => self.durable,
            },
        }
    }

    /// Makes room in the open segment; returns its sequence.
    fn make_room(&mut self, room: Room, who: Who) -> Result<Sequence, WriteError> {
        let fits = |open: &Open| match room {
            Room::Slot => open.has_slot(),
            Room::Tombstone => open.has_tombstone_room(),
        };
        // The foreground cleaner fills the last free segment with the live blocks of one segment, which then becomes
        // free. If blocks from other segments took that room, no segment would become free.
        if who == Who::FreeCleaner && self.soon_free_segments() == 0 {
            return Err(WriteError::NeedsCleaning { free: 0 });
        }
        match &self.open {
            Some(open) if fits(open) => return Ok(open.sequence),
            Some(_) => {
                self.seal()?;
            }
            None => {}
        }
        let free = self.free_segments();
        let keep = match who {
            Who::Client | Who::FreeCleaner => 1,
            Who::Cleaner => 0,
        };
        if free <= keep {
            // Writing the pending segment out may free segments.
            return Err(match self.pending_write() {
                Some(_) => WriteError::WriteOut,
                None => WriteError::NeedsCleaning { free },
            });
        }
        let segments = self.geometry.config().segments;
        let from_last = (0..segments).map(|i| SegmentIndex::new((self.after + i) % segments));
        let mut free_ones = from_last.filter(|s| self.segments[s.index()].state == State::Free);
        let Some(segment) = free_ones.next() else { return Err(WriteError::NeedsCleaning { free }) };
        self.after = (segment.get() + 1) % segments;
        let sequence = self.next_sequence;
        self.next_sequence = sequence.next();
        self.segments[segment.index()].state = State::Open;
        self.open = Some(Open::new(&self.geometry, segment, sequence));
        Ok(sequence)
    }

    /// Puts data into the open segment, which has room, and seals it when it is full.
    fn place_in_open(&mut self, entry: SlotEntry, data: &[u8], copied: bool) {
        let Some(sequence) = self.open.as_ref().map(|open| open.sequence) else { return };
        self.supersede(entry.block, sequence);
        let Some(open) = &mut self.open else { return };
        let slot = open.put(entry, data, copied);
        let full = !open.has_slot();
        self.places[entry.block.index()] = Place::Slot(open.segment, slot);
        self.segments[open.segment.index()].live += 1;
        self.mapped += 1;
        if full {
            // If the most permitted segments wait already, the open one is sealed later, when room is needed.
            let _ = self.seal();
        }
    }

    /// Puts a tombstone into the open segment, which has room.
    fn bury_in_open(&mut self, block: LogicalBlock) {
        let Some(sequence) = self.open.as_ref().map(|open| open.sequence) else { return };
        self.supersede(block, sequence);
        let Some(open) = &mut self.open else { return };
        open.bury(block);
        self.places[block.index()] = Place::Tombstone(open.segment);
        self.segments[open.segment.index()].tombstones += 1;
    }

    /// Marks the current version of a block as dead once `sequence` is durable. The caller sets the new version.
    fn supersede(&mut self, block: LogicalBlock, sequence: Sequence) {
        let open = |segment: SegmentIndex| move |open: &&mut Open| open.segment == segment;
        let segment = match self.places[block.index()] {
            Place::Nothing => return,
            Place::Slot(segment, slot) => {
                self.segments[segment.index()].live -= 1;
                self.mapped -= 1;
                if let Some(open) = self.open.as_mut().filter(open(segment)) {
                    open.vacate(slot);
                }
                segment
            }
            Place::Tombstone(segment) => {
                self.segments[segment.index()].tombstones -= 1;
                if let Some(open) = self.open.as_mut().filter(open(segment)) {
                    open.unbury(block);
                }
                segment
            }
        };
        let row = &mut self.segments[segment.index()];
        row.superseded_in = row.superseded_in.max(sequence);
        row.settle(self.durable);
    }

    /// Records that a summary on the medium with an entry for the block is overwritten.
    fn forget_mention(&mut self, block: LogicalBlock) {
        let mentions = &mut self.mentions[block.index()];
        *mentions -= 1;
        if *mentions == 0 && matches!(self.places[block.index()], Place::Tombstone(_)) {
            // No summary on the medium can restore a version of the block any more.
            self.supersede(block, self.durable);
            self.places[block.index()] = Place::Nothing;
        }
    }
}
