//! Background requests of clients. A read becomes a read of a session of the core, which does it in gaps of the
//! foreground and in idle time, block by block in the cheapest order. A read is answered when all its blocks have
//! arrived.
//!
//! The core promises that the bytes of a block that it delivers equal the medium at one instant before the delivery.
//! This gives a client what it expects of a disk: each block of a read is taken from the medium after the read has
//! arrived, so it holds every write that was acknowledged before.
//!
//! Writes are background work in the same way. If a foreground request has to wait for a part of a background write,
//! that part becomes foreground work, and the request can begin as soon as the part is written.

mod budget;
mod floor;
mod memory;
mod status;
mod streams;

pub use budget::ReadAheadBudget;
pub use floor::Floor;
use floor::{BackgroundId, Debt, PromoteOrder};
use memory::{Arrived, ReadAheadMemory, cut};
pub use status::{AllDisks, BackgroundStatus, MemoryStatus, PromotedStatus, SnapshotRequests, WaitStatus};

use super::latency::Meter;
use super::requests::{Awaited, Request, RequestSeq};
use device::{Answer, Failure};
use freeblock::copy_shared;
use scheduler::{Application, Parameter, Priority, Record, SessionError, Sessions, Wanted};
use std::collections::{BTreeMap, VecDeque};
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors, SessionId, TaskId};

/// The bytes in a block of a background read: the default block size of tasks, because a block has to fit into a gap
/// whole.
const BLOCK_BYTES: u64 = 16 << 10;

/// The configuration of a disk's background requests.
#[derive(Clone, Debug)]
pub struct BackgroundTerms {
    /// The least service that requests get while the foreground leaves no time. With `None` requests may wait for ever.
    pub floor: Option<Floor>,
    /// The memory for blocks that are read ahead, which the background export and the snapshots of a disk share.
    pub memory: ReadAheadBudget,
    /// Whether clients may write. If they may, a flush is sent to the device even before the first write, because an
    /// earlier daemon that was killed may have acknowledged writes that no flush has covered.
    pub write: bool,
}

/// No floor, 256 MiB, and no writes.
impl Default for BackgroundTerms {
    fn default() -> Self {
        Self { floor: None, memory: ReadAheadBudget::of(Bytes::new(256 << 20)), write: false }
    }
}

/// A read that is not answered yet.
#[derive(Debug)]
struct PendingRead {
    client: u64,
    range: LbnRange,
    arrived: Instant,
    /// The core's tasks for the parts that were not in memory.
    tasks: Vec<TaskId>,
    bytes: Vec<u8>,
    /// The sectors that have not arrived.
    left: Sectors,
    /// When the core is next asked to make the missing blocks foreground work, if it is to be.
    promote_at: Option<Instant>,
    /// Whether the floor has made the read foreground work, so that all its bytes already count as service.
    served: bool,
}

/// A write that is not done yet.
#[derive(Debug)]
pub(in crate::disk) struct Write {
    pub seq: RequestSeq,
    pub range: LbnRange,
    pub arrived: Instant,
    pub bytes: Vec<u8>,
    /// The parts that are not written.
    pub left: Vec<LbnRange>,
    /// The first sector that could not be written.
    pub bad: Option<Lbn>,
    /// The parts of `left` that were made foreground work.
    pub promoted: Vec<LbnRange>,
    /// When the core is next asked to make the parts in `promoted` foreground work, if there are any.
    pub promote_at: Option<Instant>,
    /// Whether the floor has made the write foreground work, so that all its bytes already count as service.
    pub served: bool,
}

impl Write {
    pub fn new(seq: RequestSeq, range: LbnRange, arrived: Instant, bytes: Vec<u8>) -> Self {
        let (left, promoted) = (vec![range], Vec::new());
        Self { seq, range, arrived, bytes, left, bad: None, promoted, promote_at: None, served: false }
    }

    fn sectors_left(&self) -> Sectors {
        Sectors::new(self.left.iter().map(|part| part.len().get()).sum())
    }
}

/// A part of a write that is done.
#[derive(Clone, Copy, Debug)]
pub(in crate::disk) struct Written {
    pub seq: RequestSeq,
    pub part: LbnRange,
    /// Whether the whole write is done.
    pub over: bool,
    /// The first sector that could not be written.
    pub bad: Option<Lbn>,
}

/// A request that is held until blocks are copied as background work: a write until the snapshots have the blocks under
/// it, or a read of a snapshot until the blocks with writes in flight at the snapshot's instant are copied.
#[derive(Clone, Copy, Debug)]
struct Held {
    arrived: Instant,
    sectors: Sectors,
    /// Whether a foreground request or a task waits for this request, so that the copying is foreground work.
    hurried: bool,
    /// Whether the floor has made the request foreground work, so that all its bytes already count as service.
    served: bool,
}

/// A read as it arrived.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub client: u64,
    pub range: LbnRange,
    pub arrived: Instant,
}

/// The background requests of a disk, or of the readers of a snapshot. They use the core as an application does.
#[derive(Debug)]
pub(crate) struct Background {
    sector: Bytes,
    block: Sectors,
    floor: Option<Floor>,
    debt: Debt,
    order: PromoteOrder,
    memory: ReadAheadMemory,
    priority: Priority,
    session: Option<SessionId>,
    suspended: bool,
    /// The core's session for writes, and the writes by the core's tasks for them.
    writer: Option<SessionId>,
    writes: BTreeMap<TaskId, Write>,
    /// The requests that wait for copies: a disk's writes by [`RequestSeq`], or a snapshot's reads by the caller's
    /// number.
    held: BTreeMap<u64, Held>,
    written: VecDeque<Written>,
    /// Whether a request has changed the disk, or an earlier daemon's may have.
    changed: bool,
    write_times: Meter,
    written_bytes: u64,
    /// The reads by the caller's number, which grows: the first is the oldest.
    reads: BTreeMap<u64, PendingRead>,
    tasks: BTreeMap<TaskId, u64>,
    /// Reads that wait until an application opens the fence around their blocks.
    fenced: BTreeMap<u64, Asked>,
    answers: VecDeque<Answer>,
    times: Meter,
    read_bytes: u64,
    failed: u64,
    promoted: PromotedStatus,
    promoted_time: Duration,
}

impl Background {
    /// Returns an empty set of background requests of a disk with `capacity` sectors of `sector` bytes.
    pub fn new(terms: BackgroundTerms, priority: Priority, sector: Bytes, capacity: Sectors) -> Self {
        let block = Sectors::new((BLOCK_BYTES / sector.get().max(1)).max(1));
        Self {
            memory: ReadAheadMemory::new(sector, block, capacity, terms.memory, priority),
            priority,
            sector,
            block,
            floor: terms.floor,
            debt: Debt::default(),
            order: PromoteOrder::default(),
            session: None,
            suspended: false,
            writer: None,
            writes: BTreeMap::new(),
            held: BTreeMap::new(),
            written: VecDeque::new(),
            changed: terms.write,
            write_times: Meter::new(),
            written_bytes: 0,
            reads: BTreeMap::new(),
            tasks: BTreeMap::new(),
            fenced: BTreeMap::new(),
            answers: VecDeque::new(),
            times: Meter::new(),
            read_bytes: 0,
            failed: 0,
            promoted: PromotedStatus::default(),
            promoted_time: Duration::ZERO,
        }
    }

    /// Registers a read.
    pub fn read(&mut self, sessions: &mut dyn Sessions, id: u64, asked: Asked, now: Instant) {
        let Asked { client, range, arrived } = asked;
        self.begin_debt(now);
        let sector = self.sector;
        let mut bytes = vec![0; usize::try_from(range.len().bytes(sector).get()).unwrap_or(0)];
        let mut left = range.len();
        self.memory.is_asked(range);
        let missing = self.memory.take(id, range, |part, from| {
            copy_shared((range, &mut bytes), (part, from), sector);
            left = Sectors::new(left.get().saturating_sub(part.len().get()));
        });
        let tasks = Vec::new();
        self.pay(Sectors::new(range.len().get().saturating_sub(left.get())), now);
        let (promote_at, served) = (None, false);
        self.order.add(arrived, BackgroundId::Read(id));
        self.reads.insert(id, PendingRead { client, range, arrived, tasks, bytes, left, promote_at, served });
        for part in missing {
            self.fetch(sessions, id, part, now);
        }
        self.finish(id, now);
        if let Some(ahead) = self.memory.streams.read(range) {
            self.declare(sessions, client, ahead, now);
        }
    }

    /// Registers a write, whose blocks are each written once. The caller begins no other request for the range until
    /// the write is done.
    pub(in crate::disk) fn write(
        &mut self,
        sessions: &mut dyn Sessions,
        mut write: Write,
        now: Instant,
    ) -> Result<(), SessionError> {
        self.begin_debt(now);
        self.set_changed();
        let held = self.remove_held(write.seq);
        let writer = match self.writer {
            Some(writer) => writer,
            None => {
                let writer = sessions.open(self.priority)?;
                // A write of a task or other session to the same block does not replace a client's write.
                sessions.serve_writes_by_writes(writer, false)?;
                *self.writer.insert(writer)
            }
        };
        let task = sessions.write(writer, write.range, self.block, Parameter::default())?;
        if held.is_some_and(|held| held.served) {
            (write.served, write.promoted, write.promote_at) = (true, write.left.clone(), Some(now));
            self.order.promote_at(now, BackgroundId::Write(task));
        } else {
            self.order.add(write.arrived, BackgroundId::Write(task));
        }
        self.writes.insert(task, write);
        self.promote_again(sessions, now);
        Ok(())
    }

    /// Records that a request is held until blocks are copied.
    pub fn hold(&mut self, id: u64, arrived: Instant, sectors: Sectors, now: Instant) {
        if !self.held.contains_key(&id) {
            self.begin_debt(now);
            self.order.add(arrived, BackgroundId::Held(id));
            self.held.insert(id, Held { arrived, sectors, hurried: false, served: false });
        }
    }

    /// Records that a request is not held any more.
    pub fn release(&mut self, id: u64) {
        self.remove_held(id);
    }

    fn remove_held(&mut self, id: u64) -> Option<Held> {
        let held = self.held.remove(&id)?;
        self.order.remove(held.arrived, BackgroundId::Held(id));
        Some(held)
    }

    /// Returns whether the blocks that a held request waits for are copied as foreground work.
    pub fn is_hurried(&self, id: u64) -> bool {
        self.held.get(&id).is_some_and(|held| held.hurried || held.served)
    }

    /// Registers a read that was held.
    pub fn read_held(&mut self, sessions: &mut dyn Sessions, id: u64, asked: Asked, now: Instant) {
        self.read(sessions, id, asked, now);
        let served = self.remove_held(id).is_some_and(|held| held.served);
        if let Some(read) = self.reads.get_mut(&id).filter(|_| served) {
            (read.served, read.promote_at) = (true, Some(now));
            self.order.remove(read.arrived, BackgroundId::Read(id));
            self.order.promote_at(now, BackgroundId::Read(id));
            self.promote_again(sessions, now);
        }
    }

    /// Handles a block that the core has written.
    fn block_written(&mut self, done: &Record, now: Instant) {
        let Some(write) = self.writes.get_mut(&done.task) else { return };
        cut(&mut write.left, done.range);
        // The part is done, so it is not made foreground work again.
        cut(&mut write.promoted, done.range);
        write.promote_at = write.promote_at.filter(|_| !write.promoted.is_empty());
        write.bad = write.bad.into_iter().chain(done.bad).min();
        let (seq, bad, over, served) = (write.seq, write.bad, write.left.is_empty(), write.served);
        let arrived = write.arrived;
        if !served {
            self.pay(done.range.len(), now);
        }
        if over {
            self.order.remove(arrived, BackgroundId::Write(done.task));
            self.writes.remove(&done.task);
            self.request_ended(now);
        }
        self.written.push_back(Written { seq, part: done.range, over, bad });
    }

    /// Returns the next part of a write that is done.
    pub(in crate::disk) fn next_written(&mut self) -> Option<Written> {
        self.written.pop_front()
    }

    /// Counts a write that has been answered.
    pub(in crate::disk) fn wrote(&mut self, request: &Request, now: Instant) {
        if request.failure.is_some() {
            self.failed += 1;
        } else {
            self.write_times.note(now.saturating_since(request.arrived));
            self.written_bytes += request.range.len().bytes(self.sector).get();
        }
    }

    /// Returns whether a session belongs to the background requests.
    pub fn owns(&self, session: SessionId) -> bool {
        [self.session, self.writer, self.memory.session()].contains(&Some(session))
    }

    /// Returns whether a background request has changed the disk, or one of an earlier daemon may have.
    pub fn has_changed(&self) -> bool {
        self.changed
    }

    /// Records that a background request changes the disk.
    pub fn set_changed(&mut self) {
        self.changed = true;
    }

    /// Makes the awaited parts of writes foreground work, and for held writes the copying of the blocks under them.
    /// Returns whether there are such held writes, which the caller then has to try again.
    pub(in crate::disk) fn hurry_writes(
        &mut self,
        sessions: &mut dyn Sessions,
        awaited: &[Awaited],
        now: Instant,
    ) -> bool {
        let mut copies = false;
        let mut parts: BTreeMap<RequestSeq, Vec<LbnRange>> = BTreeMap::new();
        for &Awaited { seq, part } in awaited {
            if let Some(held) = self.held.get_mut(&seq) {
                copies |= !std::mem::replace(&mut held.hurried, true);
            }
            parts.entry(seq).or_default().push(part);
        }
        for (task, write) in &mut self.writes {
            for part in parts.remove(&write.seq).unwrap_or_default() {
                let mut new = vec![part];
                write.promoted.iter().for_each(|there| cut(&mut new, *there));
                if !new.is_empty() {
                    write.promoted.extend(new);
                    write.promote_at = Some(now);
                    self.order.promote_at(now, BackgroundId::Write(*task));
                }
            }
        }
        self.promote_again(sessions, now);
        copies
    }

    /// Registers a part of a read with the core. If the core refuses, the read fails.
    fn fetch(&mut self, sessions: &mut dyn Sessions, id: u64, part: LbnRange, now: Instant) {
        if !self.reads.contains_key(&id) {
            return;
        }
        match self.register(sessions, part) {
            Ok(task) => {
                self.tasks.insert(task, id);
                if let Some(read) = self.reads.get_mut(&id) {
                    read.tasks.push(task);
                }
            }
            Err(error) => {
                self.abort(sessions, id);
                self.refuse(id, Failure::Busy(error.to_string()), now);
            }
        }
    }

    fn register(&mut self, sessions: &mut dyn Sessions, range: LbnRange) -> Result<TaskId, SessionError> {
        let session = match self.session {
            Some(session) => session,
            None => self.open(sessions)?,
        };
        sessions.read(session, range, self.block, Parameter::default())
    }

    fn open(&mut self, sessions: &mut dyn Sessions) -> Result<SessionId, SessionError> {
        let session = sessions.open(self.priority)?;
        if self.suspended {
            sessions.suspend(session)?;
        }
        Ok(*self.session.insert(session))
    }

    /// Stops all reading, or resumes it.
    pub fn suspend(&mut self, sessions: &mut dyn Sessions, suspended: bool) {
        self.suspended = suspended;
        for session in [self.session, self.memory.session()].into_iter().flatten() {
            // Cannot fail, because the session is open.
            let _ = if suspended { sessions.suspend(session) } else { sessions.resume(session) };
        }
    }

    /// Answers all requests with an error, and closes the sessions.
    pub fn close(&mut self, sessions: &mut dyn Sessions, failure: impl Fn() -> Failure, now: Instant) {
        for (id, read) in &self.reads {
            self.order.remove(read.arrived, BackgroundId::Read(*id));
        }
        let reads = std::mem::take(&mut self.reads).into_keys();
        let fenced = std::mem::take(&mut self.fenced).into_keys();
        reads.chain(fenced).for_each(|id| self.refuse(id, failure(), now));
        self.tasks.clear();
        for session in [self.session.take(), self.memory.session()].into_iter().flatten() {
            let _ = sessions.close(session);
        }
    }

    pub fn flushed(&mut self, id: u64, now: Instant) {
        self.answers.push_back(Answer { id, at: now, result: Ok(Vec::new()) });
    }

    /// Answers a read if all of it has arrived.
    fn finish(&mut self, id: u64, now: Instant) {
        if self.reads.get(&id).is_some_and(|read| read.left == Sectors::ZERO)
            && let Some(read) = self.remove(id)
        {
            self.request_ended(now);
            self.times.note(now.saturating_since(read.arrived));
            self.read_bytes += read.bytes.len() as u64;
            self.answers.push_back(Answer { id, at: now, result: Ok(read.bytes) });
        }
    }

    /// Adds the bytes of a block to a read.
    fn give(&mut self, id: u64, part: LbnRange, bytes: &[u8], now: Instant) {
        let sector = self.sector;
        let Some(read) = self.reads.get_mut(&id) else { return };
        let sectors = copy_shared((read.range, &mut read.bytes), (part, bytes), sector);
        read.left = Sectors::new(read.left.get().saturating_sub(sectors.get()));
        if !read.served {
            self.pay(sectors, now);
        }
        self.finish(id, now);
    }

    /// Records that a client will soon read a range, which is then read ahead.
    pub fn declare(&mut self, sessions: &mut dyn Sessions, client: u64, range: LbnRange, now: Instant) {
        self.memory.declare(client, range);
        if !self.suspended {
            self.memory.step(sessions, now);
        }
    }

    /// Returns the parts of a range that are in memory, in order.
    pub fn in_memory(&self, range: LbnRange) -> Vec<LbnRange> {
        self.memory.parts(range)
    }

    /// Records that a write has changed these sectors, or may have, so that their bytes in memory are old.
    pub fn overwritten(&mut self, range: LbnRange) {
        self.memory.overwritten(range);
    }

    /// Takes a block that was read ahead.
    fn arrived(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant) {
        let Some(Arrived { range, readers }) = self.memory.arrived(done.range) else { return };
        let part = |of: LbnRange| of.intersection(range);
        let parts = readers.iter().filter_map(|id| Some((*id, part(self.reads.get(id)?.range)?)));
        let parts: Vec<(u64, LbnRange)> = parts.collect();
        if done.bad.is_some() || bytes.is_empty() {
            self.memory.failed(range);
            // The bad sector may lie outside the parts that the readers asked for: read only these parts again.
            return parts.into_iter().for_each(|(id, part)| self.fetch(sessions, id, part, now));
        }
        self.memory.keep(range, bytes, parts.iter().map(|(_, part)| *part));
        for (id, _) in parts {
            self.give(id, range, bytes, now);
        }
    }

    pub fn refuse(&mut self, id: u64, failure: Failure, now: Instant) {
        self.failed += 1;
        self.answers.push_back(Answer { id, at: now, result: Err(failure) });
    }

    /// Keeps a read that a fence makes wait.
    pub fn wait(&mut self, id: u64, asked: Asked) {
        self.fenced.insert(id, asked);
    }

    /// Removes and returns the reads that wait at fences, to be tried again.
    pub fn take_fenced(&mut self) -> BTreeMap<u64, Asked> {
        std::mem::take(&mut self.fenced)
    }

    /// Drops the reads and declarations of a client that has disconnected. Returns the numbers of its reads.
    pub fn leave(&mut self, sessions: &mut dyn Sessions, client: u64) -> Vec<u64> {
        let of = |asked: &u64| *asked == client;
        let mut left: Vec<u64> =
            self.fenced.iter().filter(|(_, asked)| of(&asked.client)).map(|(id, _)| *id).collect();
        self.fenced.retain(|_, asked| !of(&asked.client));
        let reads: Vec<u64> =
            self.reads.iter().filter(|(_, read)| of(&read.client)).map(|(id, _)| *id).collect();
        reads.iter().for_each(|id| self.abort(sessions, *id));
        left.extend(reads);
        self.memory.leave(sessions, client, &left);
        left
    }

    /// Ends a read without an answer, and withdraws its blocks from the core.
    fn abort(&mut self, sessions: &mut dyn Sessions, id: u64) {
        if let Some(read) = self.remove(id) {
            for task in read.tasks {
                // An error means that the task's last block is being delivered.
                let _ = sessions.abort(task);
            }
        }
    }

    fn remove(&mut self, id: u64) -> Option<PendingRead> {
        let read = self.reads.remove(&id)?;
        self.order.remove(read.arrived, BackgroundId::Read(id));
        for task in &read.tasks {
            self.tasks.remove(task);
        }
        Some(read)
    }

    pub fn poll(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    /// Returns the ranges of the reads that are registered.
    pub fn begun(&self) -> impl Iterator<Item = LbnRange> {
        self.reads.values().map(|read| read.range)
    }

    /// Makes all reads foreground work whose range is `in_the_way` of an application that waits for their end.
    pub fn hurry(
        &mut self,
        sessions: &mut dyn Sessions,
        in_the_way: impl Fn(LbnRange) -> bool,
        now: Instant,
    ) {
        for (id, read) in self.reads.iter_mut().filter(|(_, read)| in_the_way(read.range)) {
            self.order.promote_at(*read.promote_at.get_or_insert(now), BackgroundId::Read(*id));
        }
        self.promote_again(sessions, now);
    }

    /// Records that a foreground command that took `took` has read or written `part` for promoted requests. Only
    /// requests that the floor promoted count as a cost of the floor.
    pub fn promoted(&mut self, session: SessionId, part: LbnRange, took: Duration) {
        let reads = self.reads.values().map(|read| (read.served, read.range));
        let writes = self.writes.values().map(|write| (write.served, write.range));
        let is_write = self.writer == Some(session);
        let its = reads.filter(|_| !is_write).chain(writes.filter(|_| is_write));
        if self.owns(session) && its.into_iter().any(|(served, range)| served && range.overlaps(part)) {
            self.promoted.bytes += part.len().bytes(self.sector).get();
            self.promoted_time += took;
        }
    }
}

impl Application for Background {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant) {
        if self.memory.session() == Some(done.session) {
            return self.arrived(sessions, done, bytes, now);
        }
        if self.writer == Some(done.session) {
            return self.block_written(done, now);
        }
        let Some(&id) = self.tasks.get(&done.task) else { return };
        match done.bad {
            Some(bad) => {
                self.abort(sessions, id);
                self.refuse(id, Failure::Medium(bad), now);
            }
            None if bytes.is_empty() => self.fetch(sessions, id, done.range, now),
            None => self.give(id, done.range, bytes, now),
        }
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let Some(write) = self.writes.get(&wanted.task) else { return false };
        let from = write.range.place_of(wanted.range, self.sector).and_then(|place| write.bytes.get(place));
        match from.filter(|from| from.len() == into.len()) {
            Some(from) => {
                into.copy_from_slice(from);
                true
            }
            None => false,
        }
    }
}
