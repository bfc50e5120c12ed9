//! Blocks that are read ahead of clients' requests: ranges that clients have declared they will read, and windows ahead
//! of sequential readers.
//!
//! Each block is given out once and then dropped. A write to the disk drops the sectors that it covers, so a block in
//! memory equals the medium at any time.

use super::MemoryStatus;
use super::budget::ReadAheadBudget;
use super::streams::Streams;
use scheduler::{Parameter, Priority, Sessions};
use std::collections::{BTreeMap, VecDeque};
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors, SessionId};

/// The most blocks that a step registers or renews, about a tenth of a millisecond of work: foreground requests wait
/// for the end of a step.
const STEP_BLOCKS_MAX: u64 = 64;

/// The time between two steps. With blocks of 16 KiB the steps of a second register 1 GB.
const STEP_EVERY: Duration = Duration::from_millis(1);

/// The time between two checks of the share of the budget. A new reader of another disk may wait this long for memory.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The most declarations that wait to be registered as blocks. At one more the oldest is dropped.
const DECLARATIONS_MAX: usize = 1_024;

/// A declared range, or the rest of one, of which no block is registered yet.
#[derive(Clone, Copy, Debug)]
struct Declared {
    client: u64,
    range: LbnRange,
}

/// A block that is in memory, or is registered with the core and has not arrived.
#[derive(Debug)]
struct Block {
    range: LbnRange,
    /// The client that has declared the block, or whose sequential reads approach it.
    client: u64,
    /// The block's position in the order of declaration.
    seq: u64,
    /// The content; `None` until the block has arrived.
    bytes: Option<Vec<u8>>,
    /// The parts of the block that no client has received and no write has covered since it arrived, by ascending LBN;
    /// all of it until it arrives.
    left: Vec<LbnRange>,
    /// The reads that wait for this block.
    readers: Vec<u64>,
}

/// The blocks that were read ahead, and those that will be.
#[derive(Debug)]
pub(super) struct ReadAheadMemory {
    sector: Bytes,
    block: Sectors,
    capacity: Sectors,
    budget: ReadAheadBudget,
    /// Whether this memory is one of those that share the budget: while it has blocks or declarations.
    counts: bool,
    priority: Priority,
    session: Option<SessionId>,
    /// The blocks by their first sector. No two overlap.
    blocks: BTreeMap<Lbn, Block>,
    /// The first sectors of the blocks, least recently declared first.
    order: BTreeMap<u64, Lbn>,
    next: u64,
    /// The declarations that are still to be registered, the oldest first. Together they are no larger than the memory.
    declared: VecDeque<Declared>,
    /// The earliest instant of the next step.
    step_at: Instant,
    /// When to check next whether other disks have made this memory's share of the budget smaller.
    look_at: Instant,
    held: Bytes,
    pub streams: Streams,
    /// Bytes that reads got from this memory.
    given: Bytes,
    /// Bytes of blocks that were dropped before they were given out.
    unread: Bytes,
    #[cfg(test)]
    touched: u64,
}

/// A block that has arrived.
pub(super) struct Arrived {
    pub range: LbnRange,
    /// The reads that wait for this block.
    pub readers: Vec<u64>,
}

/// Removes a range from ordered ranges that do not overlap.
pub(super) fn cut(ranges: &mut Vec<LbnRange>, gone: LbnRange) {
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
    pub fn new(
        sector: Bytes,
        block: Sectors,
        capacity: Sectors,
        budget: ReadAheadBudget,
        priority: Priority,
    ) -> Self {
        Self {
            sector,
            block,
            capacity,
            streams: Streams::new(sector, Bytes::new(budget.most().get() / 2)),
            budget,
            counts: false,
            priority,
            session: None,
            blocks: BTreeMap::new(),
            order: BTreeMap::new(),
            next: 0,
            declared: VecDeque::new(),
            step_at: Instant::ZERO,
            look_at: Instant::ZERO,
            held: Bytes::ZERO,
            given: Bytes::ZERO,
            unread: Bytes::ZERO,
            #[cfg(test)]
            touched: 0,
        }
    }

    /// Counts an operation on a block, for the tests' bound on the work of declarations.
    fn touch(&mut self) {
        #[cfg(test)]
        {
            self.touched += 1;
        }
    }

    pub fn status(&self) -> MemoryStatus {
        MemoryStatus {
            held_bytes: self.held.get(),
            most_bytes: self.budget.share(),
            all_disks: self.budget.of_daemon(),
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

    /// Takes a declaration, which [steps](Self::step) register block by block. A range that is larger than the memory
    /// is cut, and the oldest declarations are dropped if all together are larger than the memory.
    pub fn declare(&mut self, client: u64, range: LbnRange) {
        let most =
            self.budget.share() / self.sector.get().max(1) / self.block.get().max(1) * self.block.get();
        let end = range.start().get().saturating_add(range.len().get().min(most)).min(self.capacity.get());
        if end <= range.start().get() {
            return;
        }
        let range = LbnRange::new(range.start(), Sectors::new(end - range.start().get()));
        self.declared.push_back(Declared { client, range });
        let mut sectors: u64 = self.declared.iter().map(|one| one.range.len().get()).sum();
        while sectors > most || self.declared.len() > DECLARATIONS_MAX {
            let Some(oldest) = self.declared.pop_front() else { return };
            sectors -= oldest.range.len().get();
        }
    }

    /// Returns when the next step is due.
    pub fn due(&self) -> Option<Instant> {
        (!self.declared.is_empty()).then_some(self.step_at).or(self.trim_due())
    }

    /// Returns when to drop blocks beyond this memory's share of the budget, or to check the share: readers of another
    /// disk that begin to read ahead make the share smaller, which causes no event on this disk.
    pub fn trim_due(&self) -> Option<Instant> {
        let others = self.budget.of_daemon().is_some() && self.held > Bytes::ZERO;
        let look = others.then_some(self.look_at);
        (self.held.get() > self.budget.share()).then_some(self.step_at).or(look)
    }

    /// Drops blocks beyond this memory's share of the budget, if that is due.
    pub fn trim(&mut self, sessions: &mut dyn Sessions, now: Instant) {
        if self.trim_due().is_some_and(|at| at <= now) {
            self.step_at = now + STEP_EVERY;
            self.look_at = now + LOOK_EVERY;
            self.make_room(sessions, 0, LbnRange::new(Lbn::ZERO, Sectors::ZERO));
        }
    }

    /// If a step is due, registers at most [`STEP_BLOCKS_MAX`] blocks of the declared ranges.
    pub fn step(&mut self, sessions: &mut dyn Sessions, now: Instant) {
        if self.due().is_none_or(|at| at > now) {
            return;
        }
        self.trim(sessions, now);
        self.step_at = now + STEP_EVERY;
        let mut left = STEP_BLOCKS_MAX;
        while left > 0
            && let Some(Declared { client, range }) = self.declared.pop_front()
        {
            let len = range.len().get().min(left * self.block.get());
            let part = LbnRange::new(range.start(), Sectors::new(len));
            if part.end() < range.end() {
                let range = LbnRange::new(part.end(), range.end().since(part.end()));
                self.declared.push_front(Declared { client, range });
            }
            left -= len.div_ceil(self.block.get()).min(left);
            self.make(sessions, client, part);
        }
    }

    /// Removes a range from the declarations, because a read asks for the range now.
    pub fn is_asked(&mut self, range: LbnRange) {
        if !self.declared.iter().any(|one| one.range.overlaps(range)) {
            return;
        }
        let rest = |Declared { client, range: declared }: Declared| {
            let mut parts = vec![declared];
            cut(&mut parts, range);
            parts.into_iter().map(move |range| Declared { client, range })
        };
        self.declared = std::mem::take(&mut self.declared).into_iter().flat_map(rest).collect();
    }

    /// Registers the parts of a range that no block covers, and drops the least recently declared blocks to make room.
    fn make(&mut self, sessions: &mut dyn Sessions, client: u64, range: LbnRange) {
        self.set_counts(true);
        self.renew(range);
        let parts = self.uncovered(range);
        let wanted: u64 = parts.iter().map(|part| part.len().bytes(self.sector).get()).sum();
        self.make_room(sessions, wanted, range);
        let session = match self.session {
            Some(session) => session,
            None => match sessions.open(self.priority) {
                Ok(session) => *self.session.insert(session),
                // Without a session nothing is read ahead; reads are still served from the disk.
                Err(_) => return self.declared.clear(),
            },
        };
        for part in parts {
            let Some(part) = self.fitting(part) else { return };
            let bytes = part.len().bytes(self.sector).get();
            if !self.budget.hold(bytes) {
                return;
            }
            if sessions.read(session, part, self.block, Parameter::default()).is_err() {
                return self.budget.release(bytes);
            }
            self.add(part, client);
        }
    }

    /// Cuts a range down to the room that is left.
    fn fitting(&self, part: LbnRange) -> Option<LbnRange> {
        let lacking = self.budget.lacks(self.held, part.len().bytes(self.sector).get());
        let len = part.len().get().saturating_sub(lacking.div_ceil(self.sector.get().max(1)));
        (len > 0).then(|| LbnRange::new(part.start(), Sectors::new(len)))
    }

    fn add(&mut self, part: LbnRange, client: u64) {
        let mut start = part.start();
        while start < part.end() {
            self.touch();
            let len = self.block.get().min(part.end().since(start).get());
            let range = LbnRange::new(start, Sectors::new(len));
            let seq = self.next;
            self.next += 1;
            let (left, readers) = (vec![range], Vec::new());
            self.blocks.insert(start, Block { range, client, seq, bytes: None, left, readers });
            self.order.insert(seq, start);
            let bytes = range.len().bytes(self.sector).get();
            self.held = Bytes::new(self.held.get() + bytes);
            start = range.end();
        }
    }

    /// Moves the blocks of a range to the end of the order in which blocks are dropped.
    fn renew(&mut self, range: LbnRange) {
        let starts: Vec<Lbn> = self.over(range).map(|block| block.range.start()).collect();
        starts.into_iter().for_each(|start| self.renew_one(start));
    }

    fn renew_one(&mut self, start: Lbn) {
        self.touch();
        let Some(block) = self.blocks.get_mut(&start) else { return };
        self.order.remove(&block.seq);
        block.seq = self.next;
        self.order.insert(self.next, start);
        self.next += 1;
    }

    /// Drops the least recently declared blocks until there is room for `wanted` bytes, except the blocks of `but`,
    /// which are the most recent ones. A block that reads wait for is renewed instead of dropped. The number of blocks
    /// dropped or renewed is bounded.
    fn make_room(&mut self, sessions: &mut dyn Sessions, wanted: u64, but: LbnRange) {
        let step = STEP_BLOCKS_MAX * self.block.bytes(self.sector).get();
        let mut over = self.budget.lacks(self.held, wanted).min(step);
        let mut passed = 0;
        while over > 0 && passed <= STEP_BLOCKS_MAX {
            let Some((_, &start)) = self.order.first_key_value() else { return };
            let Some(block) = self.blocks.get(&start).filter(|block| !block.range.overlaps(but)) else {
                return;
            };
            if block.readers.is_empty() {
                over = over.saturating_sub(block.range.len().bytes(self.sector).get());
                self.streams.dropped_unread(start);
                self.forget(sessions, start);
            } else {
                passed += 1;
                self.renew_one(start);
            }
        }
    }

    /// Drops a block of which a part was not given out, and withdraws the block from the core if it has not arrived.
    fn forget(&mut self, sessions: &mut dyn Sessions, start: Lbn) {
        self.touch();
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
        let bytes = block.range.len().bytes(self.sector).get();
        self.held = Bytes::new(self.held.get().saturating_sub(bytes));
        self.budget.release(bytes);
        self.set_counts(!self.blocks.is_empty() || !self.declared.is_empty());
        Some(block)
    }

    fn set_counts(&mut self, counts: bool) {
        if std::mem::replace(&mut self.counts, counts) != counts {
            self.budget.count(counts);
        }
    }

    /// Passes the parts of a read that are in memory to `give`, and lets the read wait for blocks that are registered.
    /// Returns the other parts, which are neither in memory nor registered.
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
                        let place = block.range.place_of(part, self.sector);
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

    /// Takes the reads that wait for the block of this range, which has arrived. `None` if there is no such block.
    pub fn arrived(&mut self, range: LbnRange) -> Option<Arrived> {
        let block = self.blocks.get_mut(&range.start()).filter(|block| block.range == range)?;
        Some(Arrived { range, readers: std::mem::take(&mut block.readers) })
    }

    /// Keeps the bytes of a block that has arrived, except the parts in `given`, which waiting reads got.
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

    /// Drops the sectors that a write has covered. A block that has not arrived needs no change, because it is read
    /// after the write.
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

    /// Drops the declarations of a client, its reads `its`, and its blocks that have not arrived and that no other
    /// client's read waits for.
    pub fn leave(&mut self, sessions: &mut dyn Sessions, client: u64, its: &[u64]) {
        self.declared.retain(|one| one.client != client);
        for block in self.blocks.values_mut() {
            block.readers.retain(|reader| !its.contains(reader));
        }
        let gone =
            |block: &&Block| block.client == client && block.bytes.is_none() && block.readers.is_empty();
        let starts: Vec<Lbn> = self.blocks.values().filter(gone).map(|block| block.range.start()).collect();
        starts.into_iter().for_each(|start| self.forget(sessions, start));
        self.set_counts(!self.blocks.is_empty() || !self.declared.is_empty());
    }

    /// Returns the parts of a range that are in memory, in order.
    pub fn parts(&self, range: LbnRange) -> Vec<LbnRange> {
        let here = self.over(range).filter(|block| block.bytes.is_some());
        here.flat_map(|block| &block.left).filter_map(|part| part.intersection(range)).collect()
    }
}

impl Drop for ReadAheadMemory {
    fn drop(&mut self) {
        self.budget.release(self.held.get());
        self.set_counts(false);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use scheduler::{SessionCall, SessionError};

    /// Counts calls, and records the registered ranges.
    #[derive(Default)]
    pub(in super::super) struct Counting {
        calls: u64,
        registered: Vec<LbnRange>,
    }

    impl Sessions for Counting {
        fn call(&mut self, call: SessionCall) -> Result<u64, SessionError> {
            self.calls += 1;
            if let SessionCall::Register { range, .. } = call {
                self.registered.push(range);
            }
            Ok(self.calls)
        }

        fn to_come(&self, _: SessionId) -> Result<u64, SessionError> {
            Ok(0)
        }
    }

    const BLOCK: u64 = 32;

    /// Returns a memory of 256 MiB on a large disk.
    fn memory() -> ReadAheadMemory {
        sharing(&ReadAheadBudget::of(Bytes::new(256 << 20)))
    }

    fn sharing(budget: &ReadAheadBudget) -> ReadAheadMemory {
        let (sector, block) = (Bytes::new(512), Sectors::new(BLOCK));
        ReadAheadMemory::new(sector, block, Sectors::new(1 << 33), budget.clone(), Priority::default())
    }

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    /// Returns a range of 4 GiB, the most that one request can declare.
    fn declared(start: u64) -> LbnRange {
        LbnRange::new(Lbn::new(start), Sectors::new((1 << 23) - 8))
    }

    #[test]
    fn the_work_for_declarations_is_bounded_whatever_is_declared_and_how_often() {
        let (mut memory, mut sessions) = (memory(), Counting::default());
        let bound = |memory: &ReadAheadMemory, sessions: &Counting, steps: u64| {
            // Each block is registered or renewed, and drops at most one other block.
            assert!(memory.touched <= 2 * steps * STEP_BLOCKS_MAX, "{} blocks", memory.touched);
            assert!(sessions.calls <= 1 + 2 * steps * STEP_BLOCKS_MAX, "{} calls", sessions.calls);
        };
        for nth in 0..1_000 {
            // First one range is declared again and again, then two ranges alternate.
            let start = if nth < 500 { 0 } else { nth % 2 * (1 << 24) };
            memory.declare(1, declared(start));
            memory.step(&mut sessions, at(0));
        }
        bound(&memory, &sessions, 1);
        let blocks = (256 << 20) / 512 / BLOCK;
        let mut steps = 1;
        while let Some(due) = memory.due() {
            memory.step(&mut sessions, due);
            steps += 1;
            bound(&memory, &sessions, steps);
        }
        assert!(steps <= 2 + blocks / STEP_BLOCKS_MAX, "{steps} steps");
        assert_eq!(memory.held, memory.budget.most());
        // Now the memory is full: declare another range, and then the first one again.
        for start in [1 << 24, 0] {
            (memory.touched, sessions.calls) = (0, 0);
            memory.declare(1, declared(start));
            memory.step(&mut sessions, memory.step_at);
            bound(&memory, &sessions, 1);
        }
    }

    #[test]
    fn declarations_that_wait_are_no_larger_than_the_memory_and_not_too_many() {
        let mut memory = memory();
        (0..10).for_each(|nth| memory.declare(1, declared(nth << 24)));
        let starts: Vec<u64> = memory.declared.iter().map(|one| one.range.start().get()).collect();
        assert_eq!(starts, [9 << 24], "the last one fills the memory");
        (0..5_000).for_each(|nth| {
            memory.declare(1, LbnRange::new(Lbn::new(nth * 100), Sectors::new(8)));
        });
        assert_eq!(memory.declared.len(), DECLARATIONS_MAX);
    }

    #[test]
    fn blocks_that_reads_wait_for_stay_and_the_others_make_room() {
        let (mut memory, mut sessions) = (memory(), Counting::default());
        memory.declare(1, declared(0));
        while let Some(due) = memory.due() {
            memory.step(&mut sessions, due);
        }
        let read = LbnRange::new(Lbn::ZERO, Sectors::new(3 * BLOCK));
        assert_eq!(memory.take(7, read, |_, _| {}), []);
        memory.declare(1, LbnRange::new(Lbn::new(1 << 24), Sectors::new(5 * BLOCK)));
        memory.step(&mut sessions, memory.step_at);
        assert_eq!(memory.held, memory.budget.most());
        let there = |start: u64| memory.blocks.contains_key(&Lbn::new(start));
        assert!(there(0) && there(2 * BLOCK) && there(1 << 24));
        assert!(!there(3 * BLOCK) && !there(7 * BLOCK) && there(8 * BLOCK));
    }

    #[test]
    fn those_that_share_a_budget_never_hold_more_together_and_come_to_equal_shares() {
        let budget = ReadAheadBudget::of(Bytes::new(256 << 20));
        let mut all: Vec<ReadAheadMemory> = (0..3).map(|_| sharing(&budget)).collect();
        let mut sessions = Counting::default();
        for (nth, share) in [(0, 256 << 20), (1, 128 << 20), (2, (256 << 20) / 3)] {
            all[nth].declare(1, declared(0));
            let mut rounds = 0;
            // Each memory does the steps that are due, and declares the range again when blocks were dropped.
            while let Some(due) = all.iter().filter_map(ReadAheadMemory::due).min() {
                rounds += 1;
                assert!(rounds < 10_000, "the shares are never equal");
                for memory in &mut all {
                    let before = memory.touched;
                    memory.step(&mut sessions, due);
                    assert!(memory.touched <= before + 3 * STEP_BLOCKS_MAX);
                }
                let held: u64 = all.iter().map(|memory| memory.held.get()).sum();
                assert!(held <= 256 << 20, "{held} bytes");
                if all[nth].due().is_none() && all[nth].held.get() + (BLOCK * 512) < share {
                    all[nth].declare(1, declared(0));
                }
            }
            for memory in &all[..=nth] {
                assert!(memory.held.get().abs_diff(share) <= BLOCK * 512, "{:?} of {share}", memory.held);
            }
        }
        // A memory that is dropped, and one whose client leaves, no longer count as readers.
        all.pop();
        all[1].leave(&mut sessions, 1, &[]);
        assert_eq!((all[1].held, budget.share()), (Bytes::ZERO, 256 << 20));
    }
}
