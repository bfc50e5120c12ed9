//! The record form of a session (FAST'04, section 3.2): a bounded buffer keeps completion records with their data,
//! and the client fetches them with a timeout of 0, -1 or t. If no record can come any more, the answer is
//! [`Got::Done`] at once.
//!
//! [`Records`] is the translator of the paper's section 5.1, sans-IO: the scheduler's side puts records in (it is an
//! [`Application`]), and the client's side takes them out with [`Records::get`]. If the client has to wait, the
//! answer has the deadline. The host parks the client, and asks again when a record has come or at the deadline; it
//! may use a thread's condition variable, a socket, or a loop over virtual time.
//!
//! Flow control: a full buffer suspends the session, and a half empty one resumes it. A record is never dropped.
//! Blocks under way at the time of the suspension are still delivered, so the buffer may exceed the [`Limits`], but
//! by no more than the blocks of one plan of the core (the sectors of one foreground request and of the tracks that
//! its gaps visit). A block to be written that a write of the foreground or of another session overtakes is completed
//! even while the session is suspended. Such records have no data, and are no more than the blocks that the client
//! registered.

use crate::sessions::{Application, Parameter, Priority, Record, SessionError, Sessions, Wanted};
use scheduler::BlockSet;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use thiserror::Error;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors, SessionId, TaskId};

/// The time for which a client waits for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// No time: the paper's 0.
    Poll,
    /// Until a record comes: the paper's -1.
    Forever,
    /// Waits at most this time.
    For(Duration),
}

impl Timeout {
    /// Returns the deadline for a call at `now`.
    pub fn deadline(self, now: Instant) -> Deadline {
        match self {
            Self::Poll => Deadline::At(now),
            Self::Forever => Deadline::Never,
            Self::For(time) => {
                Deadline::At(Instant::from_nanos(now.as_nanos().saturating_add(time.as_nanos())))
            }
        }
    }
}

/// The time at which a client ceases to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// This instant.
    At(Instant),
    /// No deadline: the client waits until a record comes.
    Never,
}

/// The answer to a request for a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// A record.
    Record(Fetched),
    /// No record has come within the timeout.
    Nothing,
    /// No record can come: all that was registered has been fetched or aborted. This is returned at once, whatever
    /// the timeout.
    Done,
    /// No record has come yet. Ask again, with [`Records::get_by`] and this deadline, when a record has come, at the
    /// deadline, or after an abort.
    WaitUntil(Deadline),
}

/// A completion record with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// The record. [`last`](Record::last) is set at the fetch: no record can follow, and the buffer is empty.
    pub done: Record,
    /// The bytes read; empty after a write or an error.
    pub bytes: Vec<u8>,
}

/// The size of a buffer at which its session is suspended. Either limit suffices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The number of records.
    pub records: usize,
    /// The bytes of their data.
    pub bytes: Bytes,
}

impl Default for Limits {
    /// Returns a thousand records and 4 MiB.
    fn default() -> Self {
        Self { records: 1_000, bytes: Bytes::new(4 << 20) }
    }
}

/// The reason for which a call was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordsError {
    /// The scheduler refused the call of the session.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The buffer has no room at all.
    #[error("a buffer of {records} records and {bytes} bytes; give at least one record and one byte")]
    Limits {
        /// Records.
        records: usize,
        /// Bytes.
        bytes: u64,
    },
    /// The bytes to be written do not match the range.
    #[error("LBNs {range} are {expected} bytes, but {found} were given; give the bytes of the whole range")]
    Bytes {
        /// The range to be written.
        range: LbnRange,
        /// The number of bytes in it.
        expected: u64,
        /// The number of bytes given.
        found: u64,
    },
}

/// The undelivered part of a task.
#[derive(Clone, Debug)]
struct Task {
    range: LbnRange,
    block: u64,
    /// Blocks that have not been put into the buffer.
    left: BlockSet,
    /// The bytes to be written.
    bytes: Vec<u8>,
}

/// Returns the blocks of a task that share a sector with `range`, which must overlap the task. A block has `block`
/// sectors; blocks are numbered from 0 at the task's start.
///
/// ```
/// use freeblock_apps::records::blocks_over;
/// use units::{Lbn, LbnRange, Sectors};
/// let range = |first, sectors| LbnRange::new(Lbn::new(first), Sectors::new(sectors));
/// assert_eq!(blocks_over(range(100, 50), 8, range(107, 2)), 0..2);
/// assert_eq!(blocks_over(range(100, 50), 8, range(148, 1_000)), 6..7);
/// ```
#[must_use]
pub fn blocks_over(task: LbnRange, block: u64, range: LbnRange) -> Range<u64> {
    let offset = |lbn: Lbn| lbn.get().saturating_sub(task.start().get());
    let end = offset(range.end().min(task.end()));
    offset(range.start()) / block..end.div_ceil(block)
}

/// A session whose records the client fetches.
///
/// ```
/// use freeblock_apps::records::{Got, Limits, Records, Timeout};
/// use freeblock_apps::sessions::{Application, Parameter, Priority, Record, Sessions};
/// # use model::{DriveModel, builtin};
/// # use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, Sectors};
/// # let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
/// # let mut core = scheduler::InDrive::new(std::sync::Arc::new(drive), scheduler::Config::default());
/// let limits = Limits { records: 2, ..Limits::default() };
/// let mut records = Records::open(&mut core, Priority::default(), Bytes::new(512), limits)?;
/// let range = LbnRange::new(Lbn::new(64), Sectors::new(16));
/// let task = records.read(&mut core, range, Sectors::new(8), Parameter(7))?;
///
/// let now = Instant::ZERO;
/// assert_eq!(records.get(&mut core, Timeout::Poll, now)?, Got::Nothing);
/// let Got::WaitUntil(deadline) = records.get(&mut core, Timeout::For(Duration::from_millis(5)), now)? else {
///     unreachable!("nothing has come")
/// };
/// // The host does other things, until the scheduler has a block.
/// # let block = LbnRange::new(Lbn::new(64), Sectors::new(8));
/// # let session = records.session();
/// # let done = Record { session, task, range: block, op: Op::Read, parameter: Parameter(7), bad: None, last: false };
/// records.done(&mut core, &done, &[1; 4096], now);
/// let Got::Record(fetched) = records.get_by(&mut core, deadline, now)? else { unreachable!("one has come") };
/// assert_eq!((fetched.done.range.start(), fetched.bytes.len()), (Lbn::new(64), 4096));
/// assert_eq!(records.get_by(&mut core, deadline, now + Duration::from_millis(5))?, Got::Nothing);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Records {
    session: SessionId,
    sector: Bytes,
    limits: Limits,
    buffer: VecDeque<Fetched>,
    buffered: u64,
    tasks: BTreeMap<TaskId, Task>,
    /// The number of blocks, over all tasks, that have not been put into the buffer.
    left: u64,
    /// Whether the client asked for a suspension.
    suspended: bool,
    /// Whether the buffer became full and has not been half empty since.
    full: bool,
}

impl Records {
    /// Opens a session. `sector` is the size of the drive's sectors.
    ///
    /// # Errors
    /// A limit is 0, or the session cannot be opened.
    pub fn open(
        sessions: &mut dyn Sessions,
        priority: Priority,
        sector: Bytes,
        limits: Limits,
    ) -> Result<Self, RecordsError> {
        if limits.records == 0 || limits.bytes.get() == 0 {
            return Err(RecordsError::Limits { records: limits.records, bytes: limits.bytes.get() });
        }
        Ok(Self {
            session: sessions.open(priority)?,
            sector,
            limits,
            buffer: VecDeque::new(),
            buffered: 0,
            tasks: BTreeMap::new(),
            left: 0,
            suspended: false,
            full: false,
        })
    }

    /// Returns the session.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Returns the number of records in the buffer.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the number of blocks registered and not yet fetched, those in the buffer included.
    pub fn to_come(&self) -> u64 {
        self.left + self.buffer.len() as u64
    }

    /// Returns the number of tasks that have blocks not yet in the buffer.
    pub fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Returns whether the session is suspended because of a full buffer.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Registers blocks to be read: [`Sessions::read`].
    ///
    /// # Errors
    /// The scheduler refused the call.
    pub fn read(
        &mut self,
        sessions: &mut dyn Sessions,
        range: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, RecordsError> {
        let task = sessions.read(self.session, range, block, parameter)?;
        self.register(task, range, block, Vec::new());
        Ok(task)
    }

    /// Registers blocks to be written: [`Sessions::write`]. `bytes` is the data of the whole range. They are kept
    /// until all of it is written, because a client that fetches records cannot be called for data.
    ///
    /// # Errors
    /// The scheduler refused the call, or the number of bytes does not match the range.
    pub fn write(
        &mut self,
        sessions: &mut dyn Sessions,
        range: LbnRange,
        block: Sectors,
        bytes: Vec<u8>,
        parameter: Parameter,
    ) -> Result<TaskId, RecordsError> {
        let expected = range.len().get().checked_mul(self.sector.get());
        if expected != Some(bytes.len() as u64) {
            let expected = expected.unwrap_or(u64::MAX);
            return Err(RecordsError::Bytes { range, expected, found: bytes.len() as u64 });
        }
        let task = sessions.write(self.session, range, block, parameter)?;
        self.register(task, range, block, bytes);
        Ok(task)
    }

    fn register(&mut self, task: TaskId, range: LbnRange, block: Sectors, bytes: Vec<u8>) {
        let block = block.get().max(1);
        let left = BlockSet::full(range.len().get().div_ceil(block));
        self.left += left.len();
        self.tasks.insert(task, Task { range, block, left, bytes });
    }

    /// Returns the next record, or the time to wait for it: see [`Got`].
    ///
    /// # Errors
    /// The session is gone, so it cannot be resumed; no record is lost.
    pub fn get(
        &mut self,
        sessions: &mut dyn Sessions,
        timeout: Timeout,
        now: Instant,
    ) -> Result<Got, RecordsError> {
        self.get_by(sessions, timeout.deadline(now), now)
    }

    /// Returns the next record as [`get`](Self::get) does, for a client that has waited already.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    pub fn get_by(
        &mut self,
        sessions: &mut dyn Sessions,
        deadline: Deadline,
        now: Instant,
    ) -> Result<Got, RecordsError> {
        let Some(mut fetched) = self.buffer.pop_front() else {
            return Ok(match deadline {
                _ if self.left == 0 => Got::Done,
                Deadline::At(at) if at <= now => Got::Nothing,
                waiting => Got::WaitUntil(waiting),
            });
        };
        self.buffered -= fetched.bytes.len() as u64;
        if let Err(error) = self.let_flow(sessions) {
            self.buffered += fetched.bytes.len() as u64;
            self.buffer.push_front(fetched);
            return Err(error.into());
        }
        // Since this record came, the client may have registered more blocks, or aborted the rest.
        fetched.done.last = self.to_come() == 0;
        Ok(Got::Record(fetched))
    }

    /// Ends a task; returns the number of its blocks that have not been fetched, and never will be.
    ///
    /// # Errors
    /// The scheduler refused the call, for instance because all of the task has been fetched.
    pub fn abort(&mut self, sessions: &mut dyn Sessions, task: TaskId) -> Result<u64, RecordsError> {
        let aborted = sessions.abort(task);
        if let Some(gone) = self.tasks.remove(&task) {
            self.left -= gone.left.len();
        }
        let taken = self.take_back(|done| done.task == task);
        self.let_flow(sessions)?;
        match aborted {
            Ok(left) => Ok(left + taken),
            // The core had no blocks of the task left, so it refused; those in the buffer are withdrawn.
            Err(_) if taken > 0 => Ok(taken),
            Err(error) => Err(error.into()),
        }
    }

    /// Withdraws every block that touches `range` and is not fetched: [`Sessions::abort_range`]. Returns their
    /// number.
    ///
    /// # Errors
    /// The scheduler refused the call.
    pub fn abort_range(&mut self, sessions: &mut dyn Sessions, range: LbnRange) -> Result<u64, RecordsError> {
        let pending = sessions.abort_range(self.session, range)?;
        let left = &mut self.left;
        self.tasks.retain(|_, task| {
            if task.range.overlaps(range) {
                let blocks = blocks_over(task.range, task.block, range);
                *left -= task.left.remove_range(blocks.start, blocks.end);
            }
            !task.left.is_empty()
        });
        let taken = self.take_back(|done| done.range.overlaps(range));
        self.let_flow(sessions)?;
        Ok(pending + taken)
    }

    /// Makes pending blocks that touch `range` foreground work: [`Sessions::promote`]. Returns their number. The
    /// blocks wait while the session is suspended, by the client or by its full buffer.
    ///
    /// # Errors
    /// The scheduler refused the call.
    pub fn promote(&mut self, sessions: &mut dyn Sessions, range: LbnRange) -> Result<u64, RecordsError> {
        Ok(sessions.promote(self.session, range)?)
    }

    /// Suspends the session's tasks until [`resume`](Self::resume).
    ///
    /// # Errors
    /// The scheduler refused the call.
    pub fn suspend(&mut self, sessions: &mut dyn Sessions) -> Result<(), RecordsError> {
        sessions.suspend(self.session)?;
        self.suspended = true;
        Ok(())
    }

    /// Resumes the session's tasks: now, or once the buffer is half empty if it is full.
    ///
    /// # Errors
    /// The scheduler refused the call.
    pub fn resume(&mut self, sessions: &mut dyn Sessions) -> Result<(), RecordsError> {
        if !self.full {
            sessions.resume(self.session)?;
        }
        self.suspended = false;
        Ok(())
    }

    /// Ends the session; returns the number of blocks that have not been fetched, and never will be.
    ///
    /// # Errors
    /// The session was closed by another caller.
    pub fn close(self, sessions: &mut dyn Sessions) -> Result<u64, RecordsError> {
        Ok(sessions.close(self.session)? + self.buffer.len() as u64)
    }

    fn take_back(&mut self, of: impl Fn(&Record) -> bool) -> u64 {
        let before = self.buffer.len();
        let buffered = &mut self.buffered;
        self.buffer.retain(|fetched| {
            let gone = of(&fetched.done);
            *buffered -= if gone { fetched.bytes.len() as u64 } else { 0 };
            !gone
        });
        (before - self.buffer.len()) as u64
    }

    /// Resumes a session that its full buffer suspended, once half of the buffer is free. If every fetched record
    /// resumed it, the scheduler would search for one block at a time.
    fn let_flow(&mut self, sessions: &mut dyn Sessions) -> Result<(), SessionError> {
        let half =
            self.buffer.len() <= self.limits.records / 2 && self.buffered <= self.limits.bytes.get() / 2;
        if self.full && half {
            if !self.suspended {
                sessions.resume(self.session)?;
            }
            self.full = false;
        }
        Ok(())
    }
}

impl Application for Records {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], _: Instant) {
        let Some(task) = self.tasks.get_mut(&done.task) else {
            debug_assert!(false, "a record of no task of this session: {done:?}");
            return;
        };
        if task.left.remove(blocks_over(task.range, task.block, done.range).start) {
            self.left -= 1;
        }
        if task.left.is_empty() {
            self.tasks.remove(&done.task);
        }
        self.buffered += bytes.len() as u64;
        self.buffer.push_back(Fetched { done: *done, bytes: bytes.to_vec() });
        let full = self.buffer.len() >= self.limits.records || self.buffered >= self.limits.bytes.get();
        // A session that is gone cannot be suspended.
        if full && !self.full && (self.suspended || sessions.suspend(self.session).is_ok()) {
            self.full = true;
        }
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let Some(task) = self.tasks.get(&wanted.task) else { return false };
        let Some(offset) = wanted.range.start().get().checked_sub(task.range.start().get()) else {
            return false;
        };
        let from = offset.checked_mul(self.sector.get()).and_then(|from| usize::try_from(from).ok());
        let bytes = from.and_then(|from| task.bytes.get(from..from.checked_add(into.len())?));
        if let Some(bytes) = bytes {
            into.copy_from_slice(bytes);
        }
        bytes.is_some()
    }
}
