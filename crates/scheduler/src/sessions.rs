//! The session API (FAST'04, Table 1) from an application's view.
//!
//! An [`Application`] receives records and is asked for the bytes of writes; it acts by calls of [`Sessions`], none of which
//! waits for a disk. The implementation of [`Sessions`] may be the scheduler's core, a daemon's client, or a naive model in a
//! test.

use thiserror::Error;
use units::{Instant, Lbn, LbnRange, Op, Sectors, SessionId, TaskId};

/// A session's tickets in the lottery for gaps and idle time, 1 to 100. Sessions win in proportion to their tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "u8"))]
pub struct Priority(u8);

impl Priority {
    /// Returns the priority; `None` for a number outside 1 to 100.
    pub const fn new(priority: u8) -> Option<Self> {
        if priority >= 1 && priority <= 100 { Some(Self(priority)) } else { None }
    }

    /// Returns the number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl TryFrom<u8> for Priority {
    type Error = PriorityError;

    fn try_from(priority: u8) -> Result<Self, PriorityError> {
        Self::new(priority).ok_or(PriorityError(priority))
    }
}

/// A number that is no [`Priority`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("priority {0}; give 1 to 100")]
pub struct PriorityError(pub u8);

impl Default for Priority {
    /// Returns 20, FAST'04's default.
    fn default() -> Self {
        Self(20)
    }
}

/// The reason why a session call was refused. A refusal changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The session was closed, or never opened.
    #[error("{0} is not open; use the id that open returned")]
    NoSession(SessionId),
    /// The task has ended, was aborted, or was never registered.
    #[error("{0} is not active; it was delivered whole, aborted, or never registered")]
    NoTask(TaskId),
    /// The range is empty.
    #[error("an empty range at LBN {0}; name at least one sector")]
    EmptyRange(Lbn),
    /// The block size is zero or too large for any buffer.
    #[error("a block size of {0} sectors; give 1 to {most}", most = BLOCK_SECTORS_MAX)]
    BlockSize(Sectors),
    /// The blocks of a write are not whole physical sectors: the drive would read a sector before it writes a part of it, which
    /// costs a revolution.
    #[error(
        "blocks of {block} sectors over LBNs {range} on a medium with sectors of {physical}; give multiples of {physical}"
    )]
    PartOfSector {
        /// The requested range.
        range: LbnRange,
        /// The block size.
        block: Sectors,
        /// LBNs in a sector of the medium.
        physical: Sectors,
    },
    /// The range ends past the end of the drive.
    #[error("LBNs {range} end past the drive's last LBN; the drive has {capacity} sectors")]
    PastEnd {
        /// The requested range.
        range: LbnRange,
        /// Sectors of the drive.
        capacity: Sectors,
    },
    /// The maximum of sessions is open.
    #[error("{most} sessions are open; close one first")]
    TooManySessions {
        /// The maximum.
        most: usize,
    },
    /// The maximum of tasks is active.
    #[error("{most} tasks are active; wait for some to end, or register larger ranges")]
    TooManyTasks {
        /// The maximum.
        most: usize,
    },
}

/// The maximum of sectors in a block, 1 GiB of 512-byte sectors, because a host keeps a whole block in memory.
pub const BLOCK_SECTORS_MAX: u64 = 1 << 21;

/// The maximum of open sessions, because the core keeps a table of the drive's tracks for each.
pub const SESSIONS_MAX: usize = 1 << 10;

/// The maximum of tasks of all sessions together, so that clients cannot fill the memory.
pub const TASKS_MAX: usize = 1 << 20;

/// The report on a finished block. Every registered block that is not aborted has exactly one record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Record {
    /// The session.
    pub session: SessionId,
    /// The task.
    pub task: TaskId,
    /// The block.
    pub range: LbnRange,
    /// Whether the block was read or written.
    pub op: Op,
    /// The parameter that the client gave with the task.
    pub parameter: Parameter,
    /// The first bad sector of the block, if the block failed; a failed read has no data.
    pub bad: Option<Lbn>,
    /// Whether no further record of the session is to come; see [`Sessions`] for the case in which no record tells so.
    pub last: bool,
}

/// A client's value for a task, which each of the task's records carries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Parameter(pub u64);

/// A call of an application, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum SessionCall {
    /// [`Sessions::open`].
    Open {
        /// The session's priority.
        priority: Priority,
    },
    /// [`Sessions::set_priority`].
    SetPriority {
        /// The session.
        session: SessionId,
        /// The session's new priority.
        priority: Priority,
    },
    /// [`Sessions::serve_reads_by_writes`] and [`Sessions::serve_writes_by_writes`].
    ServeByWrites {
        /// The session.
        session: SessionId,
        /// The operation of the tasks that writes complete.
        op: Op,
        /// Whether writes complete those tasks.
        on: bool,
    },
    /// [`Sessions::read`] and [`Sessions::write`].
    Register {
        /// The session.
        session: SessionId,
        /// Whether the task reads or writes.
        op: Op,
        /// The LBNs of the task.
        range: LbnRange,
        /// The sectors of a block.
        block: Sectors,
        /// The client's value for the task.
        parameter: Parameter,
    },
    /// [`Sessions::abort`].
    Abort {
        /// The task.
        task: TaskId,
    },
    /// [`Sessions::abort_range`].
    AbortRange {
        /// The session.
        session: SessionId,
        /// The LBNs; each pending block that touches them is withdrawn.
        range: LbnRange,
    },
    /// [`Sessions::promote`].
    Promote {
        /// The session.
        session: SessionId,
        /// The LBNs; each pending block that touches them is promoted.
        range: LbnRange,
    },
    /// [`Sessions::suspend`].
    Suspend {
        /// The session.
        session: SessionId,
    },
    /// [`Sessions::resume`].
    Resume {
        /// The session.
        session: SessionId,
    },
    /// [`Sessions::close`].
    Close {
        /// The session.
        session: SessionId,
    },
}

/// The calls of an application. A refused call changes nothing.
///
/// Pending tasks have no order. A read returns bytes that were on the medium at some time before it returned. A write is
/// complete when it, or a concurrent write to the same place, is on the medium: a write to a place completes all pending
/// writes there, of any session, and the overlapping part of longer ones. So a write may complete while its session is
/// suspended, or after its client has refused a buffer; and no write restores data older than data that were reported as
/// written.
///
/// # The end
/// After a record with [`last`](Record::last) no record of the session comes until a new task is registered. If the rest of a
/// session's work is aborted, the last record may have been delivered without `last`. So after [`abort`](Self::abort) or
/// [`abort_range`](Self::abort_range) the client calls [`to_come`](Self::to_come): if that returns 0, no record comes;
/// otherwise a record with `last` comes later, unless the rest is aborted, too.
///
/// # Example
/// A cache has four dirty buffers; one of them dies, and one is wanted at once.
/// ```
/// # use freeblock_scheduler::model::{DriveModel, builtin};
/// # use freeblock_scheduler::units::{Instant, Lbn, LbnRange, Sectors};
/// use freeblock_scheduler::{Buffers, Config, HeadWork, InDrive, Output, Parameter, Priority, Sessions, Wanted};
/// # let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k")?)?;
/// /// Asked for a buffer when the head could write it.
/// struct Cache {
///     locked: bool,
/// }
/// impl Buffers for Cache {
///     fn ready(&mut self, _: &Wanted) -> bool {
///         !self.locked // Otherwise: not now.
///     }
/// }
/// let buffer = |n: u64| LbnRange::new(Lbn::new(800 + 8 * n), Sectors::new(8));
/// let mut core = InDrive::new(drive.into(), Config::default());
/// let session = core.open(Priority::default())?;
/// let four = LbnRange::new(buffer(0).start(), Sectors::new(32));
/// let task = core.write(session, four, Sectors::new(8), Parameter(7))?;
/// assert_eq!(core.abort_range(session, buffer(3))?, 1);
///
/// let (mut now, mut written) = (Instant::ZERO, Vec::new());
/// let mut run = |core: &mut InDrive, mut cache: Cache| {
///     while let Some(output) = core.poll_with(now, &mut cache) {
///         match output {
///             Output::Do(HeadWork::Execute) => {
///                 now = core.busy_until().unwrap();
///                 core.completed(now);
///             }
///             Output::Deliver(record) => written.push((record.range, record.parameter)),
///             _ => {}
///         }
///     }
///     written.clone()
/// };
/// // A suspended session's is held back until it goes on.
/// core.suspend(session)?;
/// assert_eq!(core.promote(session, buffer(1))?, 1);
/// assert_eq!(run(&mut core, Cache { locked: false }), []);
/// // "Not now" leaves it where it was, in the background.
/// core.resume(session)?;
/// assert_eq!(run(&mut core, Cache { locked: true }), []);
/// assert_eq!(core.promote(session, buffer(1))?, 1);
/// let written = run(&mut core, Cache { locked: false });
/// assert_eq!(written[0], (buffer(1), Parameter(7)));
/// // Whatever else of the three passed under the head on its way was written for nothing.
/// let left = core.abort(task)?;
/// assert_eq!(written.len() as u64 + left, 3);
/// assert_eq!((core.to_come(session)?, core.close(session)?), (0, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Sessions {
    /// Makes a call. Returns the id of the opened session or of the registered task, or the count of withdrawn or promoted
    /// blocks; 0 for any other call. An implementation needs only this method and [`to_come`](Self::to_come); each of the
    /// other methods passes its call to this one.
    ///
    /// # Errors
    /// The errors of the methods below.
    fn call(&mut self, call: SessionCall) -> Result<u64, SessionError>;

    /// Returns the number of blocks that the session has not yet received.
    ///
    /// # Errors
    /// No such session.
    fn to_come(&self, session: SessionId) -> Result<u64, SessionError>;

    /// Opens a session.
    ///
    /// # Errors
    /// Too many are open.
    fn open(&mut self, priority: Priority) -> Result<SessionId, SessionError> {
        self.call(SessionCall::Open { priority }).map(SessionId::new)
    }

    /// Sets a session's priority, from the next choice on.
    ///
    /// # Errors
    /// No such session.
    fn set_priority(&mut self, session: SessionId, priority: Priority) -> Result<(), SessionError> {
        self.call(SessionCall::SetPriority { session, priority }).map(drop)
    }

    /// Sets whether a write to the same place, foreground or background, completes a read of this session: the written data are
    /// then the contents of the medium. A new session of a core has [`writes_serve_reads`](crate::Config::writes_serve_reads).
    /// A scrubber must read the medium, and sets false.
    ///
    /// # Errors
    /// No such session.
    fn serve_reads_by_writes(&mut self, session: SessionId, on: bool) -> Result<(), SessionError> {
        self.call(SessionCall::ServeByWrites { session, op: Op::Read, on }).map(drop)
    }

    /// Sets whether another background write to the same place, of any session, completes a pending write of this session:
    /// pending writes have no order. A new session of a core has
    /// [`writes_serve_writes`](crate::Config::writes_serve_writes). With false, each write of the session is carried out with
    /// its own bytes, perhaps over those of other writes that were pending at the same time. A foreground write always completes
    /// the part that it covers, because its data are newer.
    ///
    /// # Errors
    /// No such session.
    fn serve_writes_by_writes(&mut self, session: SessionId, on: bool) -> Result<(), SessionError> {
        self.call(SessionCall::ServeByWrites { session, op: Op::Write, on }).map(drop)
    }

    /// Registers a task that reads every block of `block` sectors in `range`, in any order, each once. Blocks are aligned to the
    /// range's first LBN; the last block is shorter if the range is no multiple of `block`.
    ///
    /// # Errors
    /// No such session, a range that is empty or ends past the drive's end, a block size out of its bounds, too many tasks.
    fn read(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        self.call(SessionCall::Register { session, op: Op::Read, range, block, parameter }).map(TaskId::new)
    }

    /// Registers a task that writes: the bytes of each block are requested ([`Application::buffer`]) when the block is chosen.
    ///
    /// # Errors
    /// Those of [`read`](Self::read), and blocks that are not whole physical sectors.
    fn write(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        self.call(SessionCall::Register { session, op: Op::Write, range, block, parameter }).map(TaskId::new)
    }

    /// Ends a task: no record of it is delivered from here on. Returns the number of its blocks that were not delivered.
    ///
    /// # Errors
    /// No such task; a task whose records were all delivered has ended.
    fn abort(&mut self, task: TaskId) -> Result<u64, SessionError> {
        self.call(SessionCall::Abort { task })
    }

    /// Withdraws every pending block of the session's tasks that touches `range`. Returns their number.
    ///
    /// # Errors
    /// No such session, or a range that is empty or ends past the drive's end.
    fn abort_range(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
        self.call(SessionCall::AbortRange { session, range })
    }

    /// Makes the pending blocks of the session's tasks that touch `range` foreground work; for a suspended session when it is
    /// resumed. Returns their number. If too many promoted requests wait, the rest stays in the background.
    ///
    /// # Errors
    /// No such session, or a range that is empty or ends past the drive's end.
    fn promote(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
        self.call(SessionCall::Promote { session, range })
    }

    /// Suspends the session's tasks until [`resume`](Self::resume). Blocks under way are still delivered.
    ///
    /// # Errors
    /// No such session.
    fn suspend(&mut self, session: SessionId) -> Result<(), SessionError> {
        self.call(SessionCall::Suspend { session }).map(drop)
    }

    /// Resumes a suspended session's tasks.
    ///
    /// # Errors
    /// No such session.
    fn resume(&mut self, session: SessionId) -> Result<(), SessionError> {
        self.call(SessionCall::Resume { session }).map(drop)
    }

    /// Ends a session and all its tasks. Returns the number of blocks that were not delivered.
    ///
    /// # Errors
    /// No such session.
    fn close(&mut self, session: SessionId) -> Result<u64, SessionError> {
        self.call(SessionCall::Close { session })
    }
}

/// A block that is about to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The session.
    pub session: SessionId,
    /// The task.
    pub task: TaskId,
    /// The sectors that are written now: the block, or a part of it.
    pub range: LbnRange,
    /// The parameter that the client gave with the task.
    pub parameter: Parameter,
}

/// An application of background work: a state machine that acts by calls of [`Sessions`].
pub trait Application {
    /// Handles a finished block. `bytes` are the data of a read, and empty after a write or an error. A read without bytes and
    /// without an error is to be repeated: after a part of the block was read, a write over it has failed.
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant);

    /// Fills `into`, which has the size of `wanted`, with the bytes of a block that is about to be written, and returns
    /// true; or returns false ("not now"), and is asked again later. The core calls this while it chooses the next access, so
    /// session calls are not possible here.
    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let _ = (wanted, into);
        false
    }
}
