//! The core: time, completions and calls in, actions out, and nothing else.

mod bad;
mod dispatch;
mod idle_search;
mod outside;
mod under_way;
mod watch;

pub use outside::{
    AuditArm, AuditConfig, AuditReport, AuditWindow, Caution, Command, CommandId, Conservatism, ErrorRecord,
    Interval, Neighbour, Neighbours, Outcome, OutsideConfig, Overheads, Part, Place, Promise,
};

use crate::background::{Background, Buffers, Ready, Urgent};
use crate::foreground::{Pending, Request, follows};
use crate::idle::{Harm, Idle, IdleTime, IdleTimeError};
use crate::lottery::Lottery;
use crate::planner::{Planner, SearchBudget};
use crate::policy::{AgeWeight, AnyPolicy, PolicyName};
use crate::predictor::Mimic;
use crate::sessions::{Parameter, Priority, Record, SessionError, Sessions};
pub use bad::Bad;
use model::{DriveModel, Position};
use outside::Outside;
use std::collections::VecDeque;
use std::sync::Arc;
use thiserror::Error;
use under_way::{Job, UnderWay, Work};
use units::{Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId, TaskId, TrackIndex};
use watch::Watch;

/// The most sectors of a request that promoted reads are put together to: half a megabyte of 512-byte sectors.
const MOST_PROMOTED: u64 = 1 << 10;

/// How sessions share the gaps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sharing {
    /// A drawn session's blocks are searched for first, and win (FAST'04, section 5.2). Alone, a session has it all.
    #[default]
    Lottery,
    /// The most blocks win, whosever they are.
    Greedy,
}

/// What a core is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The foreground policy.
    pub policy: PolicyName,
    /// How much waiting counts.
    pub age: AgeWeight,
    /// How far the gap planner searches.
    pub budget: SearchBudget,
    /// The most foreground requests that may wait; as many promoted ones may beside them.
    pub most_pending: usize,
    /// The most blocks that may be half read at once; their data wait in memory.
    pub most_partials: usize,
    /// Whether a write serves reads of what it overwrites, for sessions that say nothing else
    /// ([`Sessions::serve_reads_by_writes`]): its data are the content.
    pub writes_serve_reads: bool,
    /// Whether a background write completes pending background writes of what it covers, for sessions that say nothing else
    /// ([`Sessions::serve_writes_by_writes`]).
    pub writes_serve_writes: bool,
    /// How sessions share the gaps.
    pub sharing: Sharing,
    /// The seed of the lottery.
    pub seed: u64,
    /// How idle time is used; `None` for gaps alone, as in OSDI'00.
    pub idle: Option<IdleTime>,
    /// In the drive, or outside it.
    pub place: Place,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            policy: PolicyName::Fcfs,
            age: AgeWeight::default(),
            budget: SearchBudget::default(),
            most_pending: 1 << 16,
            most_partials: 1 << 15,
            writes_serve_reads: true,
            writes_serve_writes: true,
            sharing: Sharing::Lottery,
            seed: 1,
            idle: None,
            place: Place::Inside,
        }
    }
}

/// Why a foreground request was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
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
        /// What it asked for.
        range: LbnRange,
    },
    /// Past the drive's end.
    #[error("{id} asks for LBNs {range}; the drive ends at LBN {capacity}")]
    PastEnd {
        /// The request.
        id: RequestId,
        /// What it asked for.
        range: LbnRange,
        /// Sectors of the drive.
        capacity: Sectors,
    },
}

/// What the host must do, or is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Carry out [`Core::accesses`] in order without a pause, then call [`Core::completed`]. [`Core::whose`] says for
    /// whom.
    Execute,
    /// Outside the drive: send it this command, then, when it is done, call [`Core::command_done`].
    Send(Command),
    /// What is under way in idle time ends early, since a foreground request has come: [`Core::accesses`] says what
    /// of it is done, [`Core::busy_until`] when the head is free. Then, not before, call [`Core::completed`].
    Cut,
    /// A foreground request is done.
    Completed(RequestId),
    /// A foreground request cannot be done: the medium failed.
    Failed {
        /// Which.
        id: RequestId,
        /// Its first bad sector.
        bad: Lbn,
    },
    /// A background block is done with. What was read of it is what its sectors held when they passed, overlaid with
    /// what has been written to them since: of a block that is read in pieces, or written to by the same
    /// [`Execute`](Self::Execute), the host gives out what the medium holds now.
    Deliver(Record),
}

/// For whom the head goes somewhere; detours come with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// A foreground request.
    Request(RequestId),
    /// Background blocks that a session has promoted.
    Promoted(SessionId),
    /// Background blocks, in idle time.
    Idle,
}

/// Why the head goes somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// For the foreground.
    Foreground,
    /// For the background, in a gap; so many of the sectors are wanted, the others lie between them.
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

/// Sectors that follow each other on one track, read or written as they pass; past the track's end they go on at its
/// start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The track.
    pub track: TrackIndex,
    /// The first sector.
    pub sector: u32,
    /// How many.
    pub sectors: u32,
    /// Read or write.
    pub op: Op,
    /// The head takes the first pass that begins when it is ready, and not before this instant. A detour may bring it
    /// to the destination before the direct way would (measured seek curves have dents, and a head is ready to read
    /// before it has settled to write); the foreground keeps the revolution that it would have had.
    pub not_before: Instant,
    /// What for.
    pub purpose: Purpose,
}

/// Counts of what the planner did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannerStats {
    /// Gaps looked at.
    pub gaps: u64,
    /// Gaps with a detour.
    pub detours: u64,
    /// Those for which a request has waited a turn longer ([`OutsideConfig::bought_turns`]).
    pub bought: u64,
    /// Tracks examined in all.
    pub tracks: u64,
    /// The most tracks examined for one gap.
    pub tracks_max: u32,
}

/// The scheduler core. Inside a drive it knows the drive exactly and moves its head; outside ([`Config::place`]) it
/// sends commands and learns from their completions.
///
/// One door in: [`submit`](Self::submit) for the foreground, the session calls ([`Sessions`]) for the background,
/// [`completed`](Self::completed) when what it asked for is done, outside the drive
/// [`command_done`](Self::command_done) for each command; all but the session calls take the time. One door
/// out: after any call, and at [`wake_at`](Self::wake_at), [`poll`](Self::poll) until it returns `None`. At most one
/// [`Action::Execute`] is under way; outside the drive, at most [`OutsideConfig::at_drive`] commands, or
/// [`OutsideConfig::pass_through`] while the drive chooses their order. The core starts no clock, and its lottery is seeded: the same calls give the same
/// actions.
///
/// ```
/// use model::{DriveModel, Profile};
/// use freeblock_scheduler::{Action, Config, Core, Parameter, Priority, Request, Sessions};
/// use std::sync::Arc;
/// use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};
/// # let toml = include_str!("../../model/tests/data/tiny.toml");
/// let drive = DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml")?)?;
/// let whole = LbnRange::new(Lbn::ZERO, drive.layout().capacity());
/// let mut core = Core::new(Arc::new(drive), Config::default());
/// let session = core.open(Priority::default())?;
/// core.read(session, whole, Sectors::new(8), Parameter::default())?;
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
/// assert_eq!(delivered, whole.len().get().div_ceil(8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Core {
    drive: Arc<DriveModel>,
    config: Config,
    policy: AnyPolicy,
    watch: Watch,
    pool: Vec<Pending>,
    /// How many of them were promoted.
    promoted: usize,
    /// Promoted requests of suspended sessions.
    held_back: Vec<Pending>,
    next_sequence: u64,
    /// When the last request came.
    came: Option<Instant>,
    background: Background,
    planner: Planner,
    /// Where the head is, or will be when what is under way is done.
    position: Position,
    track: Option<TrackIndex>,
    busy: Option<UnderWay>,
    /// What was lost and must be done again before anything else.
    retry: Option<Job>,
    accesses: Vec<Access>,
    outbox: VecDeque<Action>,
    stats: PlannerStats,
    lottery: Lottery,
    idle: Idle,
    /// Where the foreground left the head, if idle time has moved it since.
    displaced: Option<Position>,
    /// The latest time that it was told.
    now: Instant,
    /// What a core outside the drive has sent and knows.
    outside: Option<Box<Outside>>,
}

impl Core {
    /// The same as [`new`](Self::new) for a configuration that comes from outside.
    ///
    /// # Errors
    /// Which field cannot be, and what it may be ([`IdleTime::check`]).
    pub fn try_new(drive: Arc<DriveModel>, config: Config) -> Result<Self, IdleTimeError> {
        config.idle.map_or(Ok(()), |idle| idle.check())?;
        Ok(Self::new(drive, config))
    }

    /// A core for a drive whose head stands at cylinder 0 under head 0.
    ///
    /// # Panics
    /// If idle time is to be used as it cannot be; [`try_new`](Self::try_new) says why.
    pub fn new(drive: Arc<DriveModel>, config: Config) -> Self {
        let position = Position::default();
        if let Some(Err(error)) = config.idle.map(|idle| idle.check()) {
            panic!("{error}");
        }
        Self {
            policy: config.policy.into(),
            watch: Watch::default(),
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
            drive,
        }
    }

    /// Gives SMTF what it asks, and tells it of each foreground request from here on, whatever the policy. Returns the one
    /// before. Without one, SMTF is its base.
    pub fn set_mimic(&mut self, mimic: Option<Box<dyn Mimic>>) -> Option<Box<dyn Mimic>> {
        std::mem::replace(&mut self.watch.mimic, mimic)
    }

    /// What SMTF asks; as `dyn Any` it is what was given.
    pub fn mimic(&self) -> Option<&dyn Mimic> {
        self.watch.mimic.as_deref()
    }

    /// The drive.
    pub fn drive(&self) -> &DriveModel {
        &self.drive
    }

    /// A foreground request comes in.
    ///
    /// # Errors
    /// An empty request, one past the drive's end, or one too many; nothing has changed then.
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

    /// What [`Action::Execute`] asked for is done, at `now`.
    pub fn completed(&mut self, now: Instant) {
        self.completed_with(now, &[]);
    }

    /// The same, but the medium could not serve some sectors. They cost the requests and blocks that they lie in, and
    /// nothing else. A host that knows which sectors failed to be read and which to be written gives a [`Bad`]; from any
    /// other a list does, and what lies on one of its sectors has failed whichever it was.
    pub fn completed_with<'a>(&mut self, now: Instant, bad: impl Into<Bad<'a>>) {
        let bad = bad.into();
        let Some(done) = self.busy.take() else {
            debug_assert!(false, "completed without an Execute under way");
            return;
        };
        self.now = now;
        if let Work::Foreground(job) = &done.work
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
        } else if let Work::Probe(job) = done.work {
            self.watch.done(now, &job.pending.request, bad.is_empty());
        } else {
            self.watch.lost_sight();
        }
        let outbox = &mut self.outbox;
        self.background.deliver(bad, |record| outbox.push_back(Action::Deliver(record)));
    }

    /// What [`Action::Execute`] asked for came to nothing, or nobody knows: a command was lost. The foreground request
    /// is done again before anything else, the background's blocks are wanted again.
    /// Outside the drive all commands there are meant: nobody knows which of them were done.
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
        if let Work::Foreground(job) = lost.work {
            self.retry = Some(job);
        }
    }

    /// The next action, or `None` until the next call. Whoever has background writes polls with
    /// [`poll_with`](Self::poll_with).
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        self.poll_with(now, &mut Ready)
    }

    /// The same; `buffers` is asked before a background block is written.
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

    /// When to poll although nothing has happened: idle time begins then, or may be tried again; outside the drive, what
    /// goes next is chosen then.
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

    /// What the last [`Action::Execute`] asks for, in order.
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// For whom what is under way is done; `None` when nothing is.
    pub fn whose(&self) -> Option<Whose> {
        Some(match &self.busy.as_ref()?.work {
            Work::Idle(_) | Work::Probe(_) => Whose::Idle,
            Work::Foreground(job) => match job.pending.promoted {
                Some(session) => Whose::Promoted(session),
                None => Whose::Request(job.pending.request.id),
            },
        })
    }

    /// When what is under way will be done, as the core predicts it.
    pub fn busy_until(&self) -> Option<Instant> {
        self.busy.as_ref().map(|b| b.until)
    }

    /// Foreground requests that wait, promoted ones among them; the one under way is not counted.
    pub fn pending(&self) -> usize {
        let lost = self.outside.as_ref().map_or(0, |o| o.lost_requests());
        self.pool.len() + usize::from(self.retry.is_some()) + lost
    }

    /// Of those, promoted ones.
    pub fn promoted_pending(&self) -> usize {
        self.promoted
    }

    /// What idle time has cost the foreground, or saved it.
    pub fn harm(&self) -> Harm {
        self.idle.harm()
    }

    /// A session's priority.
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
        // It may lie on the track under the head.
        self.idle.not_before = Instant::ZERO;
        Ok(task)
    }

    /// Refuses background writes of parts of a sector of the medium: the drive would read it first, which costs a revolution
    /// that no gap has.
    fn check_whole_sectors(&self, (range, block): (LbnRange, Sectors)) -> Result<(), SessionError> {
        let physical = self.drive.physical_sector();
        let whole = |sectors: u64| sectors.is_multiple_of(physical.get());
        if whole(range.start().get()) && whole(range.len().get()) && whole(block.get()) {
            return Ok(());
        }
        Err(SessionError::PartOfSector { range, block, physical })
    }

    /// What a session has promoted may go: it is not suspended any more.
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

    /// Takes records back that nobody has polled; how many.
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

    /// Blocks that a session has still to get.
    pub fn undelivered(&self, session: SessionId) -> Option<u64> {
        self.background.undelivered(session)
    }

    /// Blocks that a task has still to get; none for a task that has ended.
    pub fn task_undelivered(&self, task: TaskId) -> u64 {
        self.background.task_undelivered(task).unwrap_or(0)
    }

    /// What the planner did so far.
    pub fn planner_stats(&self) -> PlannerStats {
        self.stats
    }

    /// Memory of the wanted set, in bytes.
    pub fn wanted_memory_bytes(&self) -> usize {
        self.background.memory_bytes()
    }
}

impl Sessions for Core {
    fn open(&mut self, priority: Priority) -> Result<SessionId, SessionError> {
        let Config { writes_serve_reads, writes_serve_writes, .. } = self.config;
        self.background.open(self.drive.layout(), priority, [writes_serve_reads, writes_serve_writes])
    }

    fn set_priority(&mut self, session: SessionId, priority: Priority) -> Result<(), SessionError> {
        self.background.set_priority(session, priority)
    }

    fn serve_reads_by_writes(&mut self, session: SessionId, on: bool) -> Result<(), SessionError> {
        self.background.serve_by_writes(session, Op::Read, on)
    }

    fn serve_writes_by_writes(&mut self, session: SessionId, on: bool) -> Result<(), SessionError> {
        self.background.serve_by_writes(session, Op::Write, on)
    }

    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        self.undelivered(session).ok_or(SessionError::NoSession(session))
    }

    fn read(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        self.register(session, Op::Read, (range, block), parameter)
    }

    fn write(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        self.register(session, Op::Write, (range, block), parameter)
    }

    /// From here on nothing of the task is delivered, not what is under way and not what waits to be polled. A write
    /// that is under way may still reach the medium.
    fn abort(&mut self, task: TaskId) -> Result<u64, SessionError> {
        let aborted = self.background.abort(task);
        match (aborted, self.withdraw(|record| record.task == task)) {
            (Ok(left), withdrawn) => Ok(left + withdrawn),
            // All of it had come, but nobody had taken it yet.
            (Err(_), withdrawn) if withdrawn > 0 => Ok(withdrawn),
            (error, _) => error,
        }
    }

    fn abort_range(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
        let left = self.background.abort_range(self.drive.layout(), session, range)?;
        let touches = |record: &Record| record.session == session && record.range.overlaps(range);
        Ok(left + self.withdraw(touches))
    }

    /// Reads that lie side by side become one request. Beside [`Config::most_pending`] requests of the foreground as many
    /// promoted ones may wait; what is beyond stays in the background, as does a write whose buffer is not at hand when
    /// its turn comes. A suspended session's wait until it is resumed. A block that is under way is not counted; if the drive
    /// does not do it after all, it is promoted then.
    fn promote(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
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

    fn suspend(&mut self, session: SessionId) -> Result<(), SessionError> {
        self.background.suspend(session, true)
    }

    fn resume(&mut self, session: SessionId) -> Result<(), SessionError> {
        self.background.suspend(session, false)?;
        self.idle.not_before = Instant::ZERO;
        self.release(session);
        Ok(())
    }

    fn close(&mut self, session: SessionId) -> Result<u64, SessionError> {
        let left = self.background.close(session)?;
        self.held_back.retain(|pending| pending.promoted != Some(session));
        let waiting = self.pool.len();
        self.pool.retain(|pending| pending.promoted != Some(session));
        self.promoted -= waiting - self.pool.len();
        Ok(left + self.withdraw(|record| record.session == session))
    }
}
