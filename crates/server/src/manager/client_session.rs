//! Sessions of client programs.
//!
//! The blocks that a session has read are buffered by `apps::records`, which suspends the session while the buffer is
//! full, so that a client that fetches slowly delays only itself. The bytes to write are requested from the client
//! block by block.

use super::application::FENCED;
use super::owner::Owner;
use super::{ManagerError, TaskManager, spec};
use crate::disk::Fence;
use apps::records::{Got, Limits, Records, RecordsError, Timeout, blocks_over};
use client::wire::{Call, Event, Range};
use scheduler::{Application, BlockSet, Parameter, Priority, Record, SessionError, Sessions, Wanted};
use std::collections::{BTreeMap, VecDeque};
use thiserror::Error;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, Sectors, SessionId, TaskId};

/// The most bytes in a block, because a block has to fit into a frame of the protocol.
const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// The most blocks of a session whose bytes are requested from the client or wait in memory for their writes.
const ASKED_BLOCKS_MAX: usize = 64;
/// The most bytes of the blocks that [`ASKED_BLOCKS_MAX`] counts, which bounds the memory of a session.
pub(crate) const ASKED_BYTES_MAX: u64 = 2 * BLOCK_BYTES_MAX;
/// The most unfinished tasks of a session, because the core needs about 1 KiB for each.
const OPEN_TASKS_MAX: usize = 4_096;
/// The most records of writes that wait to be fetched by the client. At this number the session's writes are suspended.
const WRITTEN_RECORDS_MAX: usize = 1_000;
/// The time after which an unanswered request for a block's bytes counts as answered with "not now".
const BUFFER_TIMEOUT: Duration = Duration::from_secs(30);

/// The reason why a call of a client session was refused.
#[derive(Debug, Error)]
pub(crate) enum ClientSessionError {
    /// The core's session refused the call.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The buffer for the blocks read refused the call.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// A block does not fit into a frame.
    #[error("a block size of {0} sectors; give blocks of at most 1 MiB")]
    Block(u64),
    /// [`OPEN_TASKS_MAX`] tasks of the session are not over.
    #[error(
        "{OPEN_TASKS_MAX} tasks of this session are not over; wait for the records of some, or abort some"
    )]
    Tasks,
    /// The end of a range exceeds 64 bits.
    #[error("LBN {0} plus {1} sectors exceeds 64 bits; give sectors of the disk")]
    Range(u64, u64),
}

/// The unfinished part of a write task.
struct OpenPart {
    range: LbnRange,
    block: u64,
    parameter: u64,
    /// Blocks that are neither written nor withdrawn.
    left: BlockSet,
    /// The bytes that the client has sent, and the times at which bytes were requested, by the first LBN of the block.
    given: BTreeMap<u64, Vec<u8>>,
    asked: BTreeMap<u64, Instant>,
}

impl OpenPart {
    /// Returns the block of the task that contains a sector.
    fn block_of(&self, lbn: Lbn) -> LbnRange {
        block_of(self.range, self.block, lbn)
    }

    /// Returns the blocks whose bytes are requested from the client or have been sent by it.
    fn asked_or_given(&self) -> impl Iterator<Item = LbnRange> {
        self.asked.keys().chain(self.given.keys()).map(|start| self.block_of(Lbn::new(*start)))
    }
}

/// Returns the block of a task's range that contains a sector.
fn block_of(range: LbnRange, block: u64, lbn: Lbn) -> LbnRange {
    let offset = lbn.get().saturating_sub(range.start().get()) / block * block;
    let start = range.start().get().saturating_add(offset);
    let len = block.min(range.len().get().saturating_sub(offset));
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

/// A session of a client program.
pub(crate) struct ClientSession {
    records: Records,
    writer: SessionId,
    writing: BTreeMap<TaskId, OpenPart>,
    out: VecDeque<Event>,
    /// Whether the client suspended the session, and whether too many events wait to be fetched.
    suspended: bool,
    full: bool,
    sector: u64,
    now: Instant,
    wake: Box<dyn Fn() + Send>,
}

impl ClientSession {
    /// Opens a session. Calls `wake` when there are events to [`fetch`](Self::fetch).
    pub fn open(
        sessions: &mut dyn Sessions,
        priority: Priority,
        sector: Bytes,
        now: Instant,
        wake: Box<dyn Fn() + Send>,
    ) -> Result<Self, ClientSessionError> {
        let records = Records::open(sessions, priority, sector, Limits::default())?;
        let writer = match sessions.open(priority) {
            Ok(writer) => writer,
            Err(error) => {
                let _ = records.close(sessions);
                return Err(error.into());
            }
        };
        let (writing, out) = (BTreeMap::new(), VecDeque::new());
        let sector = sector.get();
        Ok(Self { records, writer, writing, out, suspended: false, full: false, sector, now, wake })
    }

    /// Makes a call of the client and returns the answer.
    pub fn call(&mut self, sessions: &mut dyn Sessions, call: Call) -> Option<Event> {
        let (number, result) = match call {
            Call::Read { call, range, block, parameter } => {
                let result = self.checked(range, block).and_then(|range| {
                    let block = Sectors::new(block);
                    Ok(self.records.read(sessions, range, block, Parameter(parameter))?.get())
                });
                (call, result)
            }
            Call::Write { call, range, block, parameter } => {
                (call, self.checked(range, block).and_then(|r| self.write(sessions, r, block, parameter)))
            }
            Call::Abort { call, task } => (call, self.abort(sessions, TaskId::new(task))),
            Call::AbortRange { call, range } => {
                let result = place(range).and_then(|range| {
                    let reads = self.records.abort_range(sessions, range)?;
                    Ok(reads.saturating_add(sessions.abort_range(self.writer, range)?))
                });
                if let (Ok(range), Ok(_)) = (place(range), &result) {
                    self.tidy(range);
                }
                (call, result)
            }
            Call::Promote { call, range } => {
                let result = place(range).and_then(|range| {
                    let reads = self.records.promote(sessions, range)?;
                    Ok(reads.saturating_add(sessions.promote(self.writer, range)?))
                });
                (call, result)
            }
            Call::Suspend { call } => (call, self.suspend(sessions, true).map(|()| 0)),
            Call::Resume { call } => (call, self.suspend(sessions, false).map(|()| 0)),
            Call::Close { call } => (call, self.to_come(sessions)),
            Call::Buffer { task, start, bytes } => {
                self.give(TaskId::new(task), start, Some(bytes));
                return None;
            }
            Call::NotNow { task, start } => {
                self.give(TaskId::new(task), start, None);
                return None;
            }
        };
        Some(match result {
            Ok(value) => Event::Answer { call: number, value },
            Err(error) => Event::Refused { call: number, text: error.to_string() },
        })
    }

    fn checked(&self, range: Range, block: u64) -> Result<LbnRange, ClientSessionError> {
        if block.saturating_mul(self.sector) > BLOCK_BYTES_MAX {
            return Err(ClientSessionError::Block(block));
        }
        if self.records.tasks() + self.writing.len() >= OPEN_TASKS_MAX {
            return Err(ClientSessionError::Tasks);
        }
        place(range)
    }

    fn write(
        &mut self,
        sessions: &mut dyn Sessions,
        range: LbnRange,
        block: u64,
        parameter: u64,
    ) -> Result<u64, ClientSessionError> {
        let task = sessions.write(self.writer, range, Sectors::new(block), Parameter(parameter))?;
        let left = BlockSet::full(range.len().get().div_ceil(block.max(1)));
        let (given, asked) = (BTreeMap::new(), BTreeMap::new());
        self.writing.insert(task, OpenPart { range, block: block.max(1), parameter, left, given, asked });
        Ok(task.get())
    }

    fn abort(&mut self, sessions: &mut dyn Sessions, task: TaskId) -> Result<u64, ClientSessionError> {
        if self.writing.remove(&task).is_some() {
            let before = self.out.len();
            self.out.retain(|event| !matches!(event, Event::Wanted { task: t, .. } | Event::Record { task: t, .. } if *t == task.get()));
            let taken = (before - self.out.len()) as u64;
            return match sessions.abort(task) {
                Ok(left) => Ok(left),
                Err(_) if taken > 0 => Ok(taken),
                Err(error) => Err(error.into()),
            };
        }
        Ok(self.records.abort(sessions, task)?)
    }

    /// Drops the bytes of blocks in a withdrawn range, and the tasks that have no block left.
    fn tidy(&mut self, withdrawn: LbnRange) {
        self.writing.retain(|_, writing| {
            if !writing.range.overlaps(withdrawn) {
                return true;
            }
            let (range, block) = (writing.range, writing.block);
            let stays = |start: &u64| !block_of(range, block, Lbn::new(*start)).overlaps(withdrawn);
            writing.asked.retain(|start, _| stays(start));
            writing.given.retain(|start, _| stays(start));
            let blocks = blocks_over(range, block, withdrawn);
            writing.left.remove_range(blocks.start, blocks.end);
            !writing.left.is_empty()
        });
        let is_over = |task: &u64| !self.writing.contains_key(&TaskId::new(*task));
        self.out.retain(|event| !matches!(event, Event::Wanted { task, .. } if is_over(task)));
    }

    fn suspend(&mut self, sessions: &mut dyn Sessions, on: bool) -> Result<(), ClientSessionError> {
        if on {
            self.records.suspend(sessions)?;
        } else {
            self.records.resume(sessions)?;
        }
        self.suspended = on;
        self.flow(sessions);
        Ok(())
    }

    fn flow(&self, sessions: &mut dyn Sessions) {
        // Cannot fail: the session is open, and suspending or resuming it twice is permitted.
        let _ = match self.suspended || self.full {
            true => sessions.suspend(self.writer),
            false => sessions.resume(self.writer),
        };
    }

    fn to_come(&self, sessions: &dyn Sessions) -> Result<u64, ClientSessionError> {
        Ok(self.records.to_come().saturating_add(sessions.to_come(self.writer)?))
    }

    fn give(&mut self, task: TaskId, start: u64, bytes: Option<Vec<u8>>) {
        let Some(writing) = self.writing.get_mut(&task) else { return };
        // Drop bytes that were not requested: the limits on requests are what bounds the memory.
        if writing.asked.remove(&start).is_some()
            && let Some(bytes) = bytes
            && bytes.len() as u64 == writing.block_of(Lbn::new(start)).len().get().saturating_mul(self.sector)
        {
            writing.given.insert(start, bytes);
        }
    }

    /// Returns the events to send, of about `most` bytes.
    pub fn fetch(&mut self, sessions: &mut dyn Sessions, most: usize) -> Vec<Event> {
        let (mut events, mut bytes) = (Vec::new(), 0);
        while bytes < most {
            if let Some(event) = self.out.pop_front() {
                bytes += 64;
                events.push(event);
                continue;
            }
            let Ok(Got::Record(fetched)) = self.records.get(sessions, Timeout::Poll, self.now) else { break };
            bytes += 64 + fetched.bytes.len();
            events.push(record_event(&fetched.done, fetched.bytes));
        }
        if self.full && self.out.len() <= WRITTEN_RECORDS_MAX / 2 {
            self.full = false;
            self.flow(sessions);
        }
        let over = self.out.is_empty() && self.to_come(sessions).is_ok_and(|left| left == 0);
        if let Some(Event::Record { last, .. }) = events.last_mut() {
            *last = over;
        }
        events
    }

    pub fn done(&mut self, sessions: &mut dyn Sessions, record: &Record, bytes: &[u8]) {
        if record.session == self.writer {
            if let Some(writing) = self.writing.get_mut(&record.task) {
                writing.left.remove(blocks_over(writing.range, writing.block, record.range).start);
                writing.given.remove(&record.range.start().get());
                writing.asked.remove(&record.range.start().get());
                if writing.left.is_empty() {
                    self.writing.remove(&record.task);
                }
            }
            self.out.push_back(record_event(record, Vec::new()));
            if self.out.len() >= WRITTEN_RECORDS_MAX && !self.full {
                self.full = true;
                self.flow(sessions);
            }
        } else {
            // Report a block that came without bytes as bad: the client reads it again.
            let bad = record.bad.or(bytes.is_empty().then(|| record.range.start()));
            self.records.done(sessions, &Record { bad, ..*record }, bytes, self.now);
        }
        (self.wake)();
    }

    pub fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let open = self.writing.values().flat_map(OpenPart::asked_or_given);
        let (asked, sectors) =
            open.fold((0, 0), |(n, sum): (usize, u64), block| (n + 1, sum + block.len().get()));
        let Some(writing) = self.writing.get_mut(&wanted.task) else { return false };
        let block = writing.block_of(wanted.range.start());
        let start = block.start().get();
        if let Some(bytes) = writing.given.get(&start) {
            let from = wanted.range.start().get().saturating_sub(start).saturating_mul(self.sector);
            let part = usize::try_from(from).ok().and_then(|at| bytes.get(at..at.checked_add(into.len())?));
            if let Some(part) = part {
                into.copy_from_slice(part);
            }
            return part.is_some();
        }
        let bytes = sectors.saturating_add(block.len().get()).saturating_mul(self.sector);
        if asked < ASKED_BLOCKS_MAX
            && bytes <= ASKED_BYTES_MAX
            && self.out.len() < WRITTEN_RECORDS_MAX
            && !writing.asked.contains_key(&start)
        {
            writing.asked.insert(start, self.now);
            let range = Range { start, sectors: block.len().get() };
            let parameter = writing.parameter;
            self.out.push_back(Event::Wanted { task: wanted.task.get(), range, parameter });
            (self.wake)();
        }
        false
    }

    /// Forgets the requests for bytes that the client has not answered for [`BUFFER_TIMEOUT`].
    pub fn tick(&mut self, now: Instant) {
        self.now = now;
        for writing in self.writing.values_mut() {
            writing.asked.retain(|_, at| now.saturating_since(*at) < BUFFER_TIMEOUT);
        }
    }

    pub fn close(self, sessions: &mut dyn Sessions) {
        let _ = sessions.close(self.writer);
        let _ = self.records.close(sessions);
    }
}

fn record_event(done: &Record, bytes: Vec<u8>) -> Event {
    Event::Record {
        task: done.task.get(),
        range: Range { start: done.range.start().get(), sectors: done.range.len().get() },
        parameter: done.parameter.0,
        write: done.op == Op::Write,
        bad: done.bad.map(Lbn::get),
        last: false,
        bytes,
    }
}

fn place(range: Range) -> Result<LbnRange, ClientSessionError> {
    let found = LbnRange::new(Lbn::new(range.start), Sectors::new(range.sectors));
    match found.checked_end() {
        Some(_) => Ok(found),
        None => Err(ClientSessionError::Range(range.start, range.sectors)),
    }
}

impl TaskManager {
    /// Opens a session for a client program. `wake` is called on this thread when there are events to
    /// [fetch](Self::client_fetch).
    ///
    /// # Errors
    /// The priority is out of bounds, or the core has no room for another session.
    pub fn open_client_session(
        &mut self,
        sessions: &mut dyn Sessions,
        priority: u8,
        wake: Box<dyn Fn() + Send>,
    ) -> Result<u64, ManagerError> {
        let priority = spec::check_priority(priority)?;
        let id = self.next_client_session;
        let mut calls = self.owners.calls_of(Owner::Client(id), sessions);
        let client = ClientSession::open(&mut calls, priority, self.config.disk.sector_bytes, self.now, wake)
            .map_err(|error| ManagerError::Busy(error.to_string()))?;
        self.next_client_session += 1;
        self.client_sessions.insert(id, client);
        Ok(id)
    }

    /// Executes a call of a client program, and returns the answer. A call that answers a request for bytes has none.
    pub fn client_call(&mut self, sessions: &mut dyn Sessions, id: u64, call: Call) -> Option<Event> {
        if let (Call::Write { call, .. }, Some(text)) = (&call, self.is_taken()) {
            return Some(Event::Refused { call: *call, text });
        }
        if let Call::Read { call, range, .. } | Call::Write { call, range, .. } = &call
            && place(*range).is_ok_and(|range| self.fenced(range) != Fence::Open)
        {
            return Some(Event::Refused { call: *call, text: FENCED.into() });
        }
        let client = self.client_sessions.get_mut(&id)?;
        let mut calls = self.owners.calls_of(Owner::Client(id), sessions);
        client.call(&mut calls, call)
    }

    /// Returns the events to send to a client program, of about `most` bytes.
    pub fn client_fetch(&mut self, sessions: &mut dyn Sessions, id: u64, most: usize) -> Vec<Event> {
        let mut calls = self.owners.calls_of(Owner::Client(id), sessions);
        self.client_sessions.get_mut(&id).map_or_else(Vec::new, |client| client.fetch(&mut calls, most))
    }

    /// Changes the priority of a client program's sessions.
    pub(crate) fn set_client_priority(&mut self, sessions: &mut dyn Sessions, id: u64, priority: Priority) {
        for session in self.owners.sessions_of(Owner::Client(id)) {
            // An error means that the session was closed in the meantime.
            let _ = sessions.set_priority(session, priority);
        }
    }

    /// Closes the sessions of a client program that has disconnected.
    pub fn close_client_session(&mut self, sessions: &mut dyn Sessions, id: u64) {
        if let Some(client) = self.client_sessions.remove(&id) {
            let mut calls = self.owners.calls_of(Owner::Client(id), sessions);
            client.close(&mut calls);
            self.gone(Owner::Client(id));
        }
    }

    /// Returns the number of sessions of client programs.
    pub fn client_sessions(&self) -> usize {
        self.client_sessions.len()
    }
}
