//! The core: times, completions and calls go in, and actions come out.

mod bad;
mod builder;
mod config;
mod dispatch;
mod idle_search;
mod outside;
mod under_way;
mod watch;

use alloc::boxed::Box;
use alloc::vec::Vec;
pub use outside::{
    AdoptError, AuditArm, AuditConfig, AuditReport, AuditWindow, Caution, Command, CommandId, Conservatism,
    ErrorRecord, Interval, Neighbour, Neighbours, Outcome, OutsideConfig, Overheads, Part, Place, Promise,
};

use crate::background::{Background, Buffers, Ready, Urgent};
use crate::foreground::{Pending, Request, follows};
use crate::idle::{Harm, Idle, IdleTimeError};
use crate::lottery::Lottery;
use crate::planner::Planner;
use crate::policy::{AnyPolicy, ForeignPolicy};
use crate::predictor::Mimic;
use crate::sessions::{Parameter, Priority, Record, SessionCall, SessionError, Sessions};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
pub use bad::Bad;
pub use config::{Config, Sharing};
use model::{DriveModel, Position};
use outside::Outside;
use thiserror::Error;
use under_way::{Job, JobWork, UnderWay};
use units::{Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId, TaskId, TrackIndex};
use watch::DriveWatch;

/// The maximum of sectors of a request that joins promoted reads: half a megabyte of 512-byte sectors.
const MOST_PROMOTED: u64 = 1 << 10;

/// The reason why a foreground request was refused. A refusal changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// The pool is full.
    #[error("{most} requests are waiting; submit {id} again after a completion")]
    Full {
        /// The request.
        id: RequestId,
        /// The most that may wait.
        most: usize,
    },
    /// No sectors.
    #[error("{id} asks for no sectors at LBN {range}; ask for at least one")]
    Empty {
        /// The request.
        id: RequestId,
        /// Its range.
        range: LbnRange,
    },
    /// The range ends past the drive's end.
    #[error("{id} asks for LBNs {range}; the drive ends at LBN {capacity}")]
    PastEnd {
        /// The request.
        id: RequestId,
        /// Its range.
        range: LbnRange,
        /// Sectors of the drive.
        capacity: Sectors,
    },
}

/// The next action of the host, or an event for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Carry out [`Core::accesses`] in order without a pause, then call [`Core::completed`]. [`Core::whose`] returns the
    /// request that they serve.
    Execute,
    /// Outside the drive: send this command, and when it is done, call [`Core::command_done`].
    Send(Command),
    /// The work in idle time ends early, because a foreground request has arrived: [`Core::accesses`] returns the part that
    /// is still done, [`Core::busy_until`] the instant at which the head is free. Call [`Core::completed`] at that instant,
    /// not before.
    Cut,
    /// A foreground request is done.
    Completed(RequestId),
    /// A foreground request cannot be done: the medium failed.
    Failed {
        /// The request.
        id: RequestId,
        /// Its first bad sector.
        bad: Lbn,
    },
    /// A background block is finished. The data of a read are the contents of its sectors when they passed, overlaid with
    /// later writes: for a block that is read in pieces, or written to by the same [`Execute`](Self::Execute), the host
    /// returns the current contents of the medium.
    Deliver(Record),
}

/// The purpose of the head's current work; detours are part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A foreground request.
    Request(RequestId),
    /// Background blocks that a session has promoted.
    Promoted(SessionId),
    /// Background blocks, in idle time.
    Idle,
}

/// The purpose of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// For the foreground.
    Foreground,
    /// For the background, in a gap: `useful` of the sectors are wanted, the others lie between them.
    Background {
        /// Wanted sectors.
        useful: u32,
    },
    /// For the background, in idle time.
    Idle {
        /// Wanted sectors.
        useful: u32,
    },
}

/// Consecutive sectors of one track, read or written as they pass; past the track's end they continue at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The track.
    pub track: TrackIndex,
    /// The first sector.
    pub sector: u32,
    /// The number of sectors.
    pub sectors: u32,
    /// Whether they are read or written.
    pub op: Op,
    /// The head takes the first pass that begins when it is ready, and not before this instant. A detour may reach the
    /// destination earlier than the direct move (measured seek curves have dents, and a head is ready to read before it has
    /// settled to write); the foreground keeps the revolution that it would have had.
    pub not_before: Instant,
    /// The purpose.
    pub purpose: Purpose,
}

/// The planner's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannerStats {
    /// Gaps looked at.
    pub gaps: u64,
    /// Gaps with a detour.
    pub detours: u64,
    /// The detours for which a request has waited one more revolution ([`OutsideConfig::bought_turns`]).
    pub bought: u64,
    /// Tracks examined in all.
    pub tracks: u64,
    /// The most tracks examined for one gap.
    pub tracks_max: u32,
}

/// The scheduler core. Inside a drive it knows the drive exactly and moves its head; outside ([`Config::place`]) it sends
/// commands and learns from their completions.
///
/// One door in: [`submit`](Self::submit) for the foreground, the session calls ([`Sessions`]) for the background,
/// [`completed`](Self::completed) when an `Execute` is done, outside the drive [`command_done`](Self::command_done) for each
/// command; all but the session calls take the time. One door out: after any call, and at [`wake_at`](Self::wake_at),
/// [`poll`](Self::poll) until it returns `None`. At most one [`Action::Execute`] is under way; outside the drive, at most
/// [`OutsideConfig::at_drive`] commands, or [`OutsideConfig::pass_through`] while the drive chooses their order. The core
/// reads no clock, and its lottery is seeded: the same calls give the same actions.
///
/// ```
/// use freeblock_scheduler::model::{DriveModel, builtin};
/// use freeblock_scheduler::units::{Instant, Lbn, LbnRange, Op, RequestId, Sectors};
/// use freeblock_scheduler::{Action, Config, Core, Parameter, Priority, Request, Sessions};
/// use std::sync::Arc;
/// let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k")?)?;
/// let scanned = LbnRange::new(Lbn::ZERO, Sectors::new(4_900));
/// let mut core = Core::new(Arc::new(drive), Config::default());
/// let session = core.open(Priority::default())?;
/// core.read(session, scanned, Sectors::new(8), Parameter::default())?;
///
/// let (mut now, mut delivered, mut id) = (Instant::ZERO, 0, 0);
/// while core.undelivered(session) != Some(0) {
///     id += 1;
///     let range = LbnRange::new(Lbn::new(id * 1_237 % 4_900), Sectors::new(8));
///     core.submit(now, Request { id: RequestId::new(id), op: Op::Read, range })?;
///     while let Some(action) = core.poll(now) {
///         match action {
///             Action::Execute => {
///                 // Here a host moves the head; this one believes the core's own prediction.
///                 now = core.busy_until().unwrap();
///                 core.completed(now);
///             }
///             Action::Deliver(_) => delivered += 1,
///             _ => {}
///         }
///     }
/// }
/// assert_eq!(delivered, scanned.len().get().div_ceil(8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Core {
    drive: Arc<DriveModel>,
    config: Config,
    policy: AnyPolicy,
    watch: DriveWatch,
    pool: Vec<Pending>,
    /// How many of them were promoted.
    promoted: usize,
    /// Promoted requests of suspended sessions.
    held_back: Vec<Pending>,
    next_sequence: u64,
    /// The arrival of the last request.
    came: Option<Instant>,
    background: Background,
    planner: Planner,
    /// The position of the head, now or when the work under way is done.
    position: Position,
    track: Option<TrackIndex>,
    busy: Option<UnderWay>,
    /// The lost job, which is repeated before any other work.
    retry: Option<Job>,
    accesses: Vec<Access>,
    outbox: VecDeque<Action>,
    stats: PlannerStats,
    lottery: Lottery,
    idle: Idle,
    /// The position in which the foreground left the head, if idle time has moved it since.
    displaced: Option<Position>,
    /// The latest time of any call.
    now: Instant,
    /// The commands and the knowledge of a core outside the drive.
    outside: Option<Box<Outside>>,
    /// The model of the drive, and the configuration, that are [adopted](Self::adopt) when no command is at the drive.
    adopting: Option<Box<(Arc<DriveModel>, Config)>>,
}

impl Core {
    /// Returns a new core, like [`new`](Self::new), for a configuration from outside.
    ///
    /// # Errors
    /// The invalid field and its valid values ([`IdleTime::check`](crate::IdleTime::check)).
    pub fn try_new(drive: Arc<DriveModel>, config: Config) -> Result<Self, IdleTimeError> {
        config.idle.map_or(Ok(()), |idle| idle.check())?;
        Ok(Self::new(drive, config))
    }

    /// Returns a core for a drive whose head stands at cylinder 0 under head 0.
    ///
    /// # Panics
    /// If the settings of idle time are invalid; [`try_new`](Self::try_new) returns the reason.
    pub fn new(drive: Arc<DriveModel>, config: Config) -> Self {
        let position = Position::default();
        if let Some(Err(error)) = config.idle.map(|idle| idle.check()) {
            panic!("{error}");
        }
        Self {
            policy: config.policy.into(),
            watch: DriveWatch::default(),
            config,
            pool: Vec::new(),
            promoted: 0,
            held_back: Vec::new(),
            next_sequence: 0,
            came: None,
            background: Background::new(drive.layout(), config.most_partials),
            planner: Planner::new(&drive),
            position,
            track: drive.layout().track_at(position.cylinder, position.head),
            busy: None,
            retry: None,
            accesses: Vec::new(),
            outbox: VecDeque::new(),
            stats: PlannerStats::default(),
            lottery: Lottery::new(config.seed),
            idle: Idle::new(drive.layout().cylinders()),
            displaced: None,
            now: Instant::ZERO,
            outside: match config.place {
                Place::Inside => None,
                Place::Outside(outside) => Some(Box::new(Outside::new(&drive, outside))),
            },
            adopting: None,
            drive,
        }
    }

    /// Sets a policy of the host's own in place of [`Config::policy`], from the next choice on.
    pub fn set_policy(&mut self, policy: Box<dyn ForeignPolicy>) {
        self.policy = AnyPolicy::Foreign(policy);
    }

    /// Sets the mimic that SMTF queries, and reports each foreground request to it from here on, under any policy. Returns
    /// the previous one. Without a mimic, SMTF is its base policy.
    pub fn set_mimic(&mut self, mimic: Option<Box<dyn Mimic>>) -> Option<Box<dyn Mimic>> {
        core::mem::replace(&mut self.watch.mimic, mimic)
    }

    /// Returns the mimic that SMTF queries; as `dyn Any` it is the type that was set.
    pub fn mimic(&self) -> Option<&dyn Mimic> {
        self.watch.mimic.as_deref()
    }

    /// Returns the drive model.
    pub fn drive(&self) -> &DriveModel {
        &self.drive
    }

    /// Accepts a foreground request.
    ///
    /// # Errors
    /// An empty request, one past the drive's end, or one too many; an error changes nothing.
    pub fn submit(&mut self, now: Instant, request: Request) -> Result<(), SubmitError> {
        let Request { id, range, .. } = request;
        let capacity = self.drive.layout().capacity();
        if range.is_empty() {
            return Err(SubmitError::Empty { id, range });
        }
        if range.checked_end().is_none_or(|end| end.get() > capacity.get()) {
            return Err(SubmitError::PastEnd { id, range, capacity });
        }
        if self.pool.len() - self.promoted >= self.config.most_pending {
            return Err(SubmitError::Full { id, most: self.config.most_pending });
        }
        let Some(pending) = Pending::new(&self.drive, request, now, self.next_sequence) else {
            return Err(SubmitError::PastEnd { id, range, capacity });
        };
        self.next_sequence += 1;
        let follows = follows(&mut self.came, now);
        self.meet_stream(now, request.op);
        self.pool.push(Pending { follows, ..pending });
        self.now = now;
        self.idle.since = now;
        self.idle.asked.get_or_insert(now);
        self.cut(now);
        Ok(())
    }

    /// Reports that the outstanding [`Action::Execute`] is done, at `now`.
    pub fn completed(&mut self, now: Instant) {
        self.completed_with(now, &[]);
    }

    /// The same with sectors that the medium could not serve. The requests and blocks that contain them fail, and nothing
    /// else. If the host knows which operation failed, it passes a [`Bad`]; if it passes a list, both reads and writes of
    /// those sectors fail.
    pub fn completed_with<'a>(&mut self, now: Instant, bad: impl Into<Bad<'a>>) {
        let bad = bad.into();
        let Some(done) = self.busy.take() else {
            debug_assert!(false, "completed without an Execute under way");
            return;
        };
        self.now = now;
        if let JobWork::Foreground(job) = &done.work
            && job.pending.promoted.is_none()
        {
            self.idle.since = now;
            let request = job.pending.request;
            let Request { id, op, range } = request;
            let failed = bad.first(op, range);
            self.watch.done(now, &request, failed.is_none());
            self.outbox.push_back(match failed {
                Some(bad) => Action::Failed { id, bad },
                None => Action::Completed(id),
            });
        } else if let JobWork::Probe(job) = done.work {
            self.watch.done(now, &job.pending.request, bad.is_empty());
        } else {
            self.watch.lost_sight();
        }
        let outbox = &mut self.outbox;
        self.background.deliver(bad, |record| outbox.push_back(Action::Deliver(record)));
    }

    /// Reports that the outstanding [`Action::Execute`] was lost; whether it reached the medium is unknown. The foreground
    /// request is repeated before any other work, and the background blocks are wanted again. Outside the drive this applies
    /// to all commands there.
    pub fn lost(&mut self, now: Instant) {
        if self.outside.is_some() {
            return self.lost_outside(now);
        }
        let Some(lost) = self.busy.take() else {
            debug_assert!(false, "lost without an Execute under way");
            return;
        };
        self.now = now;
        self.watch.lost_sight();
        self.background.lost(self.drive.layout());
        if let JobWork::Foreground(job) = lost.work {
            self.retry = Some(job);
        }
    }

    /// Returns the next action, or `None` until the next call. A host with background writes uses
    /// [`poll_with`](Self::poll_with).
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        self.poll_with(now, &mut Ready)
    }

    /// Polls like [`poll`](Self::poll); `buffers` is asked before a background block is written.
    pub fn poll_with(&mut self, now: Instant, buffers: &mut dyn Buffers) -> Option<Action> {
        self.now = now;
        if let Some(mut action) = self.outbox.pop_front() {
            if let Action::Deliver(record) = &mut action {
                record.last = self.background.handed_over(record.session);
            }
            return Some(action);
        }
        self.promote_again();
        if self.outside.is_some() {
            return self.send(now, buffers);
        }
        (self.busy.is_none() && self.dispatch(now, buffers)).then_some(Action::Execute)
    }

    /// Returns the instant of the next poll if no event occurs before: idle time begins then, or is tried again; outside the
    /// drive, the next command is chosen then.
    pub fn wake_at(&self) -> Option<Instant> {
        if let Some(choice) = self.choice_at() {
            return Some(choice);
        }
        let idle = self.config.idle.as_ref()?;
        let busy = self.busy.is_some() || self.outside.as_ref().is_some_and(|o| o.is_busy());
        let nothing_wanted = self.background.is_idle() && !self.watch.uses_idle_time();
        if busy || !self.pool.is_empty() || nothing_wanted {
            return None;
        }
        let at = (self.idle.since + idle.threshold).max(self.idle.not_before);
        (at > self.now).then_some(at)
    }

    /// Returns the accesses of the last [`Action::Execute`], in order.
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// Returns the purpose of the work under way, `None` without work.
    pub fn whose(&self) -> Option<Whose> {
        Some(match &self.busy.as_ref()?.work {
            JobWork::Idle(_) | JobWork::Probe(_) => Whose::Idle,
            JobWork::Foreground(job) => match job.pending.promoted {
                Some(session) => Whose::Promoted(session),
                None => Whose::Request(job.pending.request.id),
            },
        })
    }

    /// Returns the predicted end of the work under way.
    pub fn busy_until(&self) -> Option<Instant> {
        self.busy.as_ref().map(|b| b.until)
    }

    /// Returns the number of waiting foreground requests, promoted ones included, without the one under way.
    pub fn pending(&self) -> usize {
        let lost = self.outside.as_ref().map_or(0, |o| o.lost_requests());
        self.pool.len() + usize::from(self.retry.is_some()) + lost
    }

    /// Returns the number of promoted requests among them.
    pub fn promoted_pending(&self) -> usize {
        self.promoted
    }

    /// Returns the harm of idle time: the foreground's delay, or its gain.
    pub fn harm(&self) -> Harm {
        self.idle.harm()
    }

    /// Returns a session's priority.
    pub fn priority(&self, session: SessionId) -> Option<Priority> {
        self.background.priority(session)
    }

    fn register(
        &mut self,
        session: SessionId,
        op: Op,
        blocks: (LbnRange, Sectors),
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        if op == Op::Write {
            self.check_whole_sectors(blocks)?;
        }
        let task = self.background.register(self.drive.layout(), session, op, blocks, parameter)?;
        // A block of the new task may lie on the track under the head.
        self.idle.not_before = Instant::ZERO;
        Ok(task)
    }

    /// Refuses background writes of parts of a physical sector: the drive would read the sector first, which costs a
    /// revolution that no gap has.
    fn check_whole_sectors(&self, (range, block): (LbnRange, Sectors)) -> Result<(), SessionError> {
        let physical = self.drive.physical_sector();
        let whole = |sectors: u64| sectors.is_multiple_of(physical.get());
        if whole(range.start().get()) && whole(range.len().get()) && whole(block.get()) {
            return Ok(());
        }
        Err(SessionError::PartOfSector { range, block, physical })
    }

    /// Releases the requests that a session has promoted, because it is not suspended any more.
    fn release(&mut self, session: SessionId) {
        let (pool, promoted, came) = (&mut self.pool, &mut self.promoted, &mut self.came);
        let now = self.now;
        self.held_back.retain(|pending| {
            let goes = pending.promoted == Some(session);
            if goes {
                pool.push(Pending { follows: follows(came, now), ..*pending });
                *promoted += 1;
            }
            !goes
        });
    }

    /// Withdraws records that have not been polled and returns their number.
    fn withdraw(&mut self, of: impl Fn(&Record) -> bool) -> u64 {
        let mut withdrawn = 0;
        let background = &mut self.background;
        self.outbox.retain(|action| match action {
            Action::Deliver(record) if of(record) => {
                background.handed_over(record.session);
                withdrawn += 1;
                false
            }
            _ => true,
        });
        withdrawn
    }

    /// Ends the task: nothing of it is delivered any more, neither work under way nor records that wait to be polled. A
    /// write that is under way may still reach the medium.
    fn abort_task(&mut self, task: TaskId) -> Result<u64, SessionError> {
        let aborted = self.background.abort(task);
        match (aborted, self.withdraw(|record| record.task == task)) {
            (Ok(left), withdrawn) => Ok(left + withdrawn),
            // All blocks were done, but records were still to be polled.
            (Err(_), withdrawn) if withdrawn > 0 => Ok(withdrawn),
            (error, _) => error,
        }
    }

    /// Makes wanted blocks foreground work. Adjacent reads become one request. Besides [`Config::most_pending`] requests of the foreground as many promoted ones
    /// may wait; the rest stays in the background, and so does a write whose buffer is not available when it is chosen. The
    /// requests of a suspended session wait until it is resumed. A block that is under way is not counted; if the drive does
    /// not transfer it, it is promoted afterwards.
    fn promote_blocks(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
        let room = self.config.most_pending.saturating_sub(self.promoted + self.held_back.len());
        let most = (MOST_PROMOTED, room);
        let requests = self.background.promotable(self.drive.layout(), session, range, most)?;
        let mut promoted = 0;
        for Urgent { op, range, blocks } in requests {
            let request = Request { id: RequestId::new(0), op, range };
            let Some(pending) = Pending::new(&self.drive, request, self.now, self.next_sequence) else {
                continue;
            };
            self.next_sequence += 1;
            self.held_back.push(Pending { promoted: Some(session), ..pending });
            promoted += blocks;
        }
        self.background.promote_under_way(session, range);
        if !self.background.is_suspended(session) {
            self.release(session);
        }
        Ok(promoted)
    }

    /// Returns the number of blocks that a session has not yet received.
    pub fn undelivered(&self, session: SessionId) -> Option<u64> {
        self.background.undelivered(session)
    }

    /// Returns the number of blocks that a task has not yet received; 0 for a task that has ended.
    pub fn task_undelivered(&self, task: TaskId) -> u64 {
        self.background.task_undelivered(task).unwrap_or(0)
    }

    /// Returns the planner's counters.
    pub fn planner_stats(&self) -> PlannerStats {
        self.stats
    }

    /// Returns the memory of the wanted set in bytes.
    pub fn wanted_memory_bytes(&self) -> usize {
        self.background.memory_bytes()
    }
}

impl Sessions for Core {
    fn call(&mut self, call: SessionCall) -> Result<u64, SessionError> {
        let nothing = |()| 0;
        match call {
            SessionCall::Open { priority } => {
                let Config { writes_serve_reads, writes_serve_writes, .. } = self.config;
                let by_writes = [writes_serve_reads, writes_serve_writes];
                self.background.open(self.drive.layout(), priority, by_writes).map(SessionId::get)
            }
            SessionCall::SetPriority { session, priority } => {
                self.background.set_priority(session, priority).map(nothing)
            }
            SessionCall::ServeByWrites { session, op, on } => {
                self.background.serve_by_writes(session, op, on).map(nothing)
            }
            SessionCall::Register { session, op, range, block, parameter } => {
                self.register(session, op, (range, block), parameter).map(TaskId::get)
            }
            SessionCall::Abort { task } => self.abort_task(task),
            SessionCall::AbortRange { session, range } => {
                let left = self.background.abort_range(self.drive.layout(), session, range)?;
                let touches = |record: &Record| record.session == session && record.range.overlaps(range);
                Ok(left + self.withdraw(touches))
            }
            SessionCall::Promote { session, range } => self.promote_blocks(session, range),
            SessionCall::Suspend { session } => self.background.suspend(session, true).map(nothing),
            SessionCall::Resume { session } => {
                self.background.suspend(session, false)?;
                self.idle.not_before = Instant::ZERO;
                self.release(session);
                Ok(0)
            }
            SessionCall::Close { session } => {
                let left = self.background.close(session)?;
                self.held_back.retain(|pending| pending.promoted != Some(session));
                let waiting = self.pool.len();
                self.pool.retain(|pending| pending.promoted != Some(session));
                self.promoted -= waiting - self.pool.len();
                Ok(left + self.withdraw(|record| record.session == session))
            }
        }
    }

    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        self.undelivered(session).ok_or(SessionError::NoSession(session))
    }
}
