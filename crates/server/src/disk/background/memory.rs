//! Blocks that are read before clients ask for them: declared ranges, and windows ahead of sequential readers.
//!
//! Each block is given out once and then dropped. A write to the disk drops the sectors that it covers, so a block here
//! equals the medium at any time.

use super::MemoryStatus;
use super::streams::Streams;
use scheduler::{Parameter, Priority, Sessions};
use std::collections::BTreeMap;
use units::{Bytes, Lbn, LbnRange, Sectors, SessionId};

/// A block in memory, or one that is registered and has not arrived.
#[derive(Debug)]
struct Block {
    range: LbnRange,
    /// The client that has declared it, or reads toward it.
    client: u64,
    /// Its place in the order of declaration.
    seq: u64,
    /// The content, when it has arrived.
    bytes: Option<Vec<u8>>,
    /// The parts that were not given out yet and are what the medium holds, in order.
    left: Vec<LbnRange>,
    /// The reads that wait for it.
    readers: Vec<u64>,
}

/// The blocks that were read ahead, and those that will be.
#[derive(Debug)]
pub(super) struct ReadAheadMemory {
    sector: Bytes,
    block: Sectors,
    capacity: Sectors,
    most: Bytes,
    priority: Priority,
    session: Option<SessionId>,
    /// Blocks by their first sector. No two overlap.
    blocks: BTreeMap<Lbn, Block>,
    /// The first sectors of blocks, least recently declared first.
    order: BTreeMap<u64, Lbn>,
    next: u64,
    held: Bytes,
    pub streams: Streams,
    /// Bytes that were given out from here.
    given: Bytes,
    /// Bytes of blocks that were dropped before they were given out.
    unread: Bytes,
}

/// A block that has arrived.
pub(super) struct Arrived {
    pub range: LbnRange,
    /// The reads that wait for it.
    pub readers: Vec<u64>,
}

/// Removes a range from ordered ranges that do not overlap.
fn cut(ranges: &mut Vec<LbnRange>, gone: LbnRange) {
    let rest = |range: &LbnRange| {
        let part = |from: Lbn, to: Lbn| (from < to).then(|| LbnRange::new(from, to.since(from)));
        let before = part(range.start(), range.end().min(gone.start()));
        let after = part(range.start().max(gone.end()), range.end());
        before.into_iter().chain(after).collect::<Vec<_>>()
    };
    if ranges.iter().any(|range| range.overlaps(gone)) {
        *ranges = ranges.iter().flat_map(rest).collect();
    }
}

impl ReadAheadMemory {
    pub fn new(sector: Bytes, block: Sectors, capacity: Sectors, most: Bytes, priority: Priority) -> Self {
        Self {
            sector,
            block,
            capacity,
            most,
            priority,
            session: None,
            blocks: BTreeMap::new(),
            order: BTreeMap::new(),
            next: 0,
            held: Bytes::ZERO,
            streams: Streams::new(sector, Bytes::new(most.get() / 2)),
            given: Bytes::ZERO,
            unread: Bytes::ZERO,
        }
    }

    pub fn status(&self) -> MemoryStatus {
        MemoryStatus {
            held_bytes: self.held.get(),
            most_bytes: self.most.get(),
            given_bytes: self.given.get(),
            unread_bytes: self.unread.get(),
        }
    }

    pub fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Returns the blocks that overlap a range.
    fn over(&self, range: LbnRange) -> impl Iterator<Item = &Block> {
        let from = Lbn::new(range.start().get().saturating_sub(self.block.get()));
        self.blocks.range(from..range.end()).map(|(_, block)| block).filter(move |b| b.range.overlaps(range))
    }

    /// Returns the parts of a range that no block covers.
    fn uncovered(&self, range: LbnRange) -> Vec<LbnRange> {
        let mut parts = vec![range];
        self.over(range).for_each(|block| cut(&mut parts, block.range));
        parts
    }

    /// Registers the parts of a range that are not here, and drops the least recently declared blocks to make
    /// room for them. A range that is larger than the memory is cut.
    pub fn declare(&mut self, sessions: &mut dyn Sessions, client: u64, range: LbnRange) {
        let most = self.most.get() / self.sector.get().max(1) / self.block.get().max(1) * self.block.get();
        let end = range.start().get().saturating_add(range.len().get().min(most)).min(self.capacity.get());
        if end <= range.start().get() {
            return;
        }
        let range = LbnRange::new(range.start(), Sectors::new(end - range.start().get()));
        self.renew(range);
        let parts = self.uncovered(range);
        let wanted: u64 = parts.iter().map(|part| part.len().bytes(self.sector).get()).sum();
        self.make_room(sessions, wanted, range);
        let session = match self.session {
            Some(session) => session,
            None => match sessions.open(self.priority) {
                Ok(session) => *self.session.insert(session),
                // Without a session nothing is read ahead, and reads are served all the same.
                Err(_) => return,
            },
        };
        for part in parts {
            let Some(part) = self.fitting(part) else { return };
            if sessions.read(session, part, self.block, Parameter::default()).is_err() {
                return;
            }
            self.add(part, client);
        }
    }

    /// Cuts a range down to the room that there is.
    fn fitting(&self, part: LbnRange) -> Option<LbnRange> {
        let room = self.most.get().saturating_sub(self.held.get()) / self.sector.get().max(1);
        let len = part.len().get().min(room);
        (len > 0).then(|| LbnRange::new(part.start(), Sectors::new(len)))
    }

    fn add(&mut self, part: LbnRange, client: u64) {
        let mut start = part.start();
        while start < part.end() {
            let len = self.block.get().min(part.end().since(start).get());
            let range = LbnRange::new(start, Sectors::new(len));
            let seq = self.next;
            self.next += 1;
            let (left, readers) = (vec![range], Vec::new());
            self.blocks.insert(start, Block { range, client, seq, bytes: None, left, readers });
            self.order.insert(seq, start);
            self.held = Bytes::new(self.held.get() + range.len().bytes(self.sector).get());
            start = range.end();
        }
    }

    /// Makes the blocks of a range the most recently declared ones.
    fn renew(&mut self, range: LbnRange) {
        let starts: Vec<Lbn> = self.over(range).map(|block| block.range.start()).collect();
        for start in starts {
            let Some(block) = self.blocks.get_mut(&start) else { continue };
            self.order.remove(&block.seq);
            block.seq = self.next;
            self.order.insert(self.next, start);
            self.next += 1;
        }
    }

    /// Drops the least recently declared blocks until there is room, except those of `but` and those that reads wait
    /// for.
    fn make_room(&mut self, sessions: &mut dyn Sessions, wanted: u64, but: LbnRange) {
        let mut over = self.held.get().saturating_add(wanted).saturating_sub(self.most.get());
        let mut gone = Vec::new();
        for start in self.order.values() {
            if over == 0 {
                break;
            }
            let Some(block) = self.blocks.get(start) else { continue };
            if block.readers.is_empty() && !block.range.overlaps(but) {
                over = over.saturating_sub(block.range.len().bytes(self.sector).get());
                gone.push(*start);
            }
        }
        for start in gone {
            self.streams.dropped_unread(start);
            self.forget(sessions, start);
        }
    }

    /// Drops a block that has not been given out whole, and withdraws it if it has not arrived.
    fn forget(&mut self, sessions: &mut dyn Sessions, start: Lbn) {
        let Some(block) = self.remove(start) else { return };
        let unread: u64 = block.left.iter().map(|part| part.len().bytes(self.sector).get()).sum();
        self.unread = Bytes::new(self.unread.get() + unread);
        if let (None, Some(session)) = (&block.bytes, self.session) {
            // No other block of this session touches the range.
            let _ = sessions.abort_range(session, block.range);
        }
    }

    fn remove(&mut self, start: Lbn) -> Option<Block> {
        let block = self.blocks.remove(&start)?;
        self.order.remove(&block.seq);
        self.held = Bytes::new(self.held.get().saturating_sub(block.range.len().bytes(self.sector).get()));
        Some(block)
    }

    /// Gives out the parts of a read that are here, and has the read wait for blocks that are registered. Returns the
    /// parts that are neither.
    ///
    /// `give` gets each part with its bytes.
    pub fn take(&mut self, id: u64, range: LbnRange, mut give: impl FnMut(LbnRange, &[u8])) -> Vec<LbnRange> {
        let starts: Vec<Lbn> = self.over(range).map(|block| block.range.start()).collect();
        let mut missing = vec![range];
        for start in starts {
            let Some(block) = self.blocks.get_mut(&start) else { continue };
            match &block.bytes {
                None => {
                    block.readers.push(id);
                    cut(&mut missing, block.range);
                }
                Some(bytes) => {
                    let parts: Vec<LbnRange> =
                        block.left.iter().filter_map(|left| left.intersection(range)).collect();
                    for part in parts {
                        let place = crate::disk::blocks::within(block.range, part, self.sector);
                        let Some(part_bytes) = place.and_then(|place| bytes.get(place)) else { continue };
                        give(part, part_bytes);
                        self.given = Bytes::new(self.given.get() + part_bytes.len() as u64);
                        cut(&mut missing, part);
                    }
                    cut(&mut block.left, range);
                    if block.left.is_empty() {
                        self.remove(start);
                    }
                }
            }
        }
        missing
    }

    /// Returns the block of this range that has arrived, with the readers that waited for it; `None` if no
    /// such block is here.
    pub fn arrived(&mut self, range: LbnRange) -> Option<Arrived> {
        let block = self.blocks.get_mut(&range.start()).filter(|block| block.range == range)?;
        Some(Arrived { range, readers: std::mem::take(&mut block.readers) })
    }

    /// Keeps the bytes of a block that has arrived, except the parts that were given out to the reads that waited for
    /// it.
    pub fn keep(&mut self, range: LbnRange, bytes: &[u8], given: impl Iterator<Item = LbnRange>) {
        let Some(block) = self.blocks.get_mut(&range.start()) else { return };
        for part in given {
            if let Some(part) = part.intersection(range) {
                cut(&mut block.left, part);
                self.given = Bytes::new(self.given.get() + part.len().bytes(self.sector).get());
            }
        }
        if block.left.is_empty() {
            self.remove(range.start());
        } else {
            block.bytes = Some(bytes.to_vec());
        }
    }

    /// Drops a block that cannot be read.
    pub fn failed(&mut self, range: LbnRange) {
        self.remove(range.start());
    }

    /// Drops the sectors that a write has covered. A block that has not arrived is read after the write.
    pub fn overwritten(&mut self, range: LbnRange) {
        let starts: Vec<Lbn> =
            self.over(range).filter(|block| block.bytes.is_some()).map(|block| block.range.start()).collect();
        for start in starts {
            let Some(block) = self.blocks.get_mut(&start) else { continue };
            cut(&mut block.left, range);
            if block.left.is_empty() {
                self.remove(start);
            }
        }
    }

    /// Drops the blocks of a client that have not arrived and that no other read waits for.
    pub fn leave(&mut self, sessions: &mut dyn Sessions, client: u64, its: &[u64]) {
        for block in self.blocks.values_mut() {
            block.readers.retain(|reader| !its.contains(reader));
        }
        let gone =
            |block: &&Block| block.client == client && block.bytes.is_none() && block.readers.is_empty();
        let starts: Vec<Lbn> = self.blocks.values().filter(gone).map(|block| block.range.start()).collect();
        starts.into_iter().for_each(|start| self.forget(sessions, start));
    }

    /// Returns the parts of a range that are in memory, in order.
    pub fn parts(&self, range: LbnRange) -> Vec<LbnRange> {
        let here = self.over(range).filter(|block| block.bytes.is_some());
        here.flat_map(|block| &block.left).filter_map(|part| part.intersection(range)).collect()
    }
}
