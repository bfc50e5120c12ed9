//! The record face of a session (FAST'04, section 3.2): completion records with their data in a bounded buffer, fetched
//! with a timeout of 0, -1 or t.
//!
//! [`Records`] is the translator of the paper's section 5.1, sans-IO: the scheduler's side puts records in (it is an
//! [`Application`]), the client's side takes them out with [`Records::get`], and where the client would have to wait it
//! is told until when. The host parks the client, and asks again when a record has come or that instant has; it may be a
//! thread's condition variable, a socket, or a loop over virtual time.
//!
//! Flow control: a full buffer suspends the session, an emptier one resumes it. A record is never dropped. What was
//! under way when the session was suspended still comes, so the buffer may hold more than [`Limits`] say: by the blocks of
//! one wish of the core (the sectors of one foreground request and of the tracks that its gaps visit), never more. And
//! blocks to be written that another write overtakes, the foreground's or another session's, are done even while
//! suspended; their records have no data, and there are no more of them than blocks that the client registered.

use crate::sessions::{Application, Parameter, Priority, Record, SessionError, Sessions, Wanted};
use std::collections::{BTreeMap, VecDeque};
use thiserror::Error;
use units::{Bytes, Duration, Instant, LbnRange, Sectors, SessionId, TaskId};

/// How long a client waits for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Not at all: the paper's 0.
    Poll,
    /// Until one comes: the paper's -1.
    Forever,
    /// So long at most.
    For(Duration),
}

impl Timeout {
    /// Up to when, for a call at `now`.
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

/// When a client ceases to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// At this instant.
    At(Instant),
    /// When a record comes.
    Never,
}

/// What came of asking for a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// A record.
    Record(Fetched),
    /// None has come, and the time is up.
    Nothing,
    /// None has come yet: ask again, with [`Records::get_by`] and the same deadline, when one has or at that instant.
    WaitUntil(Deadline),
}

/// A completion record with its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// What is done. [`last`](Record::last) is as of now: the session has nothing left to come, and its buffer is empty.
    pub done: Record,
    /// What was read; empty after a write or an error.
    pub bytes: Vec<u8>,
}

/// How much a buffer holds before its session is suspended. Either limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Records.
    pub records: usize,
    /// Bytes of their data.
    pub bytes: Bytes,
}

impl Default for Limits {
    /// A thousand records, 4 MiB.
    fn default() -> Self {
        Self { records: 1_000, bytes: Bytes::new(4 << 20) }
    }
}

/// Why a call was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordsError {
    /// The session refused.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A buffer that holds nothing.
    #[error("a buffer of {records} records and {bytes} bytes; give at least one record and one byte")]
    Limits {
        /// Records.
        records: usize,
        /// Bytes.
        bytes: u64,
    },
    /// Bytes to be written that are not as many as the range has.
    #[error("LBNs {range} are {expected} bytes, and {found} came; give the bytes of the whole range")]
    Bytes {
        /// What was to be written.
        range: LbnRange,
        /// Its bytes.
        expected: u64,
        /// Those that came.
        found: u64,
    },
}

/// What a task still owes.
#[derive(Clone, Debug)]
struct Task {
    range: LbnRange,
    /// Blocks that have not been put into the buffer.
    left: u64,
    /// What it writes.
    bytes: Vec<u8>,
}

/// One session, as records.
///
/// ```
/// use freeblock_apps::records::{Got, Limits, Records, Timeout};
/// use freeblock_apps::sessions::{Application, Parameter, Priority, Record, Sessions};
/// # use model::{DriveModel, builtin};
/// # use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, Sectors};
/// # let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
/// # let mut core = scheduler::Core::new(std::sync::Arc::new(drive), scheduler::Config::default());
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
    /// Blocks that have not been put into the buffer.
    left: u64,
    /// The client's own wish.
    suspended: bool,
    /// The buffer is, or was, full.
    full: bool,
}

impl Records {
    /// Opens a session. `sector` is the drive's.
    ///
    /// # Errors
    /// Limits of nothing, or the session cannot be opened.
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

    /// The session.
    pub fn session(&self) -> SessionId {
        self.session
    }

    /// Records in the buffer.
    pub fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Blocks registered and not yet fetched, those in the buffer included.
    pub fn to_come(&self) -> u64 {
        self.left + self.buffer.len() as u64
    }

    /// Whether the buffer's being full has suspended the session.
    pub fn is_full(&self) -> bool {
        self.full
    }

    /// Registers blocks to be read: [`Sessions::read`].
    ///
    /// # Errors
    /// The session's.
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

    /// Registers blocks to be written: [`Sessions::write`]. The bytes are those of the whole range, and are kept until
    /// all of it is written: over this face nobody can be asked for them later.
    ///
    /// # Errors
    /// The session's, or another number of bytes than the range has.
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
        let left = range.len().get().div_ceil(block.get().max(1));
        self.left += left;
        self.tasks.insert(task, Task { range, left, bytes });
    }

    /// The next record, or how long to wait for it: see [`Got`].
    ///
    /// # Errors
    /// The session is gone, so that it cannot be resumed; no record is lost by that.
    pub fn get(
        &mut self,
        sessions: &mut dyn Sessions,
        timeout: Timeout,
        now: Instant,
    ) -> Result<Got, RecordsError> {
        self.get_by(sessions, timeout.deadline(now), now)
    }

    /// The same for a client that has waited already.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn get_by(
        &mut self,
        sessions: &mut dyn Sessions,
        deadline: Deadline,
        now: Instant,
    ) -> Result<Got, RecordsError> {
        let Some(mut fetched) = self.buffer.pop_front() else {
            return Ok(match deadline {
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
        // What was the last when it came need not be so any more: the client may have registered more, or aborted.
        fetched.done.last = self.to_come() == 0;
        Ok(Got::Record(fetched))
    }

    /// Ends a task: what is not fetched of it never will be. How many blocks that are.
    ///
    /// # Errors
    /// The session's; all of the task has been fetched, for instance.
    pub fn abort(&mut self, sessions: &mut dyn Sessions, task: TaskId) -> Result<u64, RecordsError> {
        let aborted = sessions.abort(task);
        if let Some(gone) = self.tasks.remove(&task) {
            self.left -= gone.left;
        }
        let taken = self.take_back(|done| done.task == task);
        self.let_flow(sessions)?;
        match aborted {
            Ok(left) => Ok(left + taken),
            // All of it had come, but had not been fetched.
            Err(_) if taken > 0 => Ok(taken),
            Err(error) => Err(error.into()),
        }
    }

    /// Turns pending blocks that touch `range` into foreground work: [`Sessions::promote`]. How many. Of a session that
    /// is suspended, by the client or by its full buffer, they wait.
    ///
    /// # Errors
    /// The session's.
    pub fn promote(&mut self, sessions: &mut dyn Sessions, range: LbnRange) -> Result<u64, RecordsError> {
        Ok(sessions.promote(self.session, range)?)
    }

    /// Leaves the session's tasks alone until [`resume`](Self::resume).
    ///
    /// # Errors
    /// The session's.
    pub fn suspend(&mut self, sessions: &mut dyn Sessions) -> Result<(), RecordsError> {
        sessions.suspend(self.session)?;
        self.suspended = true;
        Ok(())
    }

    /// Goes on with them, if the buffer is not full; otherwise as soon as it is not.
    ///
    /// # Errors
    /// The session's.
    pub fn resume(&mut self, sessions: &mut dyn Sessions) -> Result<(), RecordsError> {
        if !self.full {
            sessions.resume(self.session)?;
        }
        self.suspended = false;
        Ok(())
    }

    /// Ends the session with all that has not been fetched; how many blocks that are.
    ///
    /// # Errors
    /// The session was closed otherwise.
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

    /// Resumes a session that was suspended because its buffer was full, when half of it is free: switching at every
    /// record would have the scheduler look for one block at a time.
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
        task.left = task.left.saturating_sub(1);
        self.left = self.left.saturating_sub(1);
        if task.left == 0 {
            self.tasks.remove(&done.task);
        }
        self.buffered += bytes.len() as u64;
        self.buffer.push_back(Fetched { done: *done, bytes: bytes.to_vec() });
        let full = self.buffer.len() >= self.limits.records || self.buffered >= self.limits.bytes.get();
        // A session that is gone has nothing to suspend.
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
