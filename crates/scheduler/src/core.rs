//! The core: inputs go in, and outputs come out.

mod builder;
mod config;
mod dispatch;
mod idle_search;
mod in_drive;
mod input;
mod output;
mod outside;
mod refused;
mod under_way;
mod watch;
mod wrapper;

use alloc::vec::Vec;
pub use input::{Adoption, HeadEnd, HostCall, Input};
pub use output::{Access, HeadWork, Output, Purpose, Whose};
pub use outside::{
    AuditArm, AuditReport, AuditWindow, BackgroundWait, Caution, Command, CommandEnd, CommandId, ErrorRecord,
    Interval, Outcome, OutsideDrive, Promise,
};
pub use refused::{AdoptError, ReadingRefused, Refused, SubmitError};

use crate::background::{Background, Urgent};
use crate::foreground::{Pending, Request, follows};
use crate::idle::{Harm, Idle, IdleTimeError};
use crate::lottery::Lottery;
use crate::planner::Planner;
use crate::policy::AnyPolicy;
use crate::predictor::Mimic;
use crate::sessions::{Priority, Record, SessionCall, SessionError};
use crate::task::NewTask;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
pub use config::{AuditConfig, Config, Conservatism, Neighbours, OutsideConfig, Overheads, Sharing};
use core::any::Any;
pub use in_drive::InDrive;
use model::{DriveModel, Position};
use output::Event;
use units::{Instant, LbnRange, Op, RequestId, Sectors, SessionId, TaskId, TrackIndex};
use watch::DriveWatch;
pub use wrapper::AnyCore;
use wrapper::wraps_engine;

/// The maximum length, in sectors, of one request made of adjacent promoted reads: half a megabyte of 512-byte sectors.
const PROMOTED_SECTORS_MAX: u64 = 1 << 10;

/// The planner's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannerStats {
    /// Gaps for which a detour was searched.
    pub gaps: u64,
    /// Gaps with a detour.
    pub detours: u64,
    /// The detours for which a request has waited one more revolution ([`OutsideConfig::extra_revolutions`]).
    pub extra_revolutions: u64,
    /// Tracks examined in all.
    pub tracks: u64,
    /// The most tracks examined for one gap.
    pub tracks_max: u32,
}

/// The engine of both cores, [`InDrive`] and [`OutsideDrive`]: the waiting requests, the sessions and their blocks, the planner
/// and the estimates. Each core has its own methods for requests, completions and polls, and dereferences to its engine for the
/// queries below. Only the calls of a core change its engine.
#[derive(Clone, Debug)]
pub struct Core {
    /// Whether the core is in the drive: work in idle time can then end at any instant.
    in_drive: bool,
    drive: Arc<DriveModel>,
    config: Config,
    policy: AnyPolicy,
    watch: DriveWatch,
    pool: Vec<Pending>,
    /// The number of requests in `pool` that were promoted.
    promoted: usize,
    /// Promoted requests of suspended sessions.
    held_back: Vec<Pending>,
    next_sequence: u64,
    /// The arrival time of the last request.
    came: Option<Instant>,
    background: Background,
    planner: Planner,
    /// The position of the head, now or when the work under way is done.
    position: Position,
    track: Option<TrackIndex>,
    accesses: Vec<Access>,
    outbox: VecDeque<Event>,
    stats: PlannerStats,
    lottery: Lottery,
    idle: Idle,
    /// The position in which the foreground left the head, if idle time has moved it since.
    displaced: Option<Position>,
    /// The latest time of any call.
    now: Instant,
}

impl Core {
    fn try_new(drive: Arc<DriveModel>, config: Config, in_drive: bool) -> Result<Self, IdleTimeError> {
        config.idle.map_or(Ok(()), |idle| idle.check())?;
        let position = Position::default();
        Ok(Self {
            in_drive,
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
            accesses: Vec::new(),
            outbox: VecDeque::new(),
            stats: PlannerStats::default(),
            lottery: Lottery::new(config.seed),
            idle: Idle::new(drive.layout().cylinders()),
            displaced: None,
            now: Instant::ZERO,
            drive,
        })
    }

    /// Returns the mimic that SMTF queries; `None` without a mimic, or if the mimic has another type.
    pub fn mimic<M: Mimic>(&self) -> Option<&M> {
        let mimic: &dyn Any = self.watch.mimic.as_deref()?;
        mimic.downcast_ref()
    }

    /// Returns the drive model.
    pub fn drive(&self) -> &DriveModel {
        &self.drive
    }

    /// Returns the drive model and the configuration, which another core can [adopt](OutsideDrive::adopt).
    pub fn adoption(&self) -> Adoption {
        Adoption { drive: Arc::clone(&self.drive), config: self.config }
    }

    /// Checks a foreground request, and returns it with its position on the drive.
    fn check(&self, now: Instant, request: Request) -> Result<Pending, SubmitError> {
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
        let pending = Pending::new(&self.drive, request, now, self.next_sequence);
        pending.ok_or(SubmitError::PastEnd { id, range, capacity })
    }

    /// Adds a request that was checked.
    fn accept(&mut self, now: Instant, pending: Pending) {
        self.next_sequence += 1;
        let follows = follows(&mut self.came, now);
        self.pool.push(Pending { follows, ..pending });
        self.now = now;
        self.idle.since = now;
        self.idle.asked.get_or_insert(now);
    }

    /// Returns the next result for the host.
    fn next_event(&mut self, now: Instant) -> Option<Event> {
        self.now = now;
        let mut event = self.outbox.pop_front();
        if let Some(Event::Deliver(record)) = &mut event {
            record.last = self.background.handed_over(record.session);
        }
        event
    }

    /// Returns the next instant at which the core may find work in idle time, if nothing is under way; `None` if requests wait or
    /// nothing is wanted.
    fn idle_at(&self) -> Option<Instant> {
        let idle = self.config.idle.as_ref()?;
        let nothing_wanted = self.background.is_idle() && !self.watch.uses_idle_time();
        if !self.pool.is_empty() || nothing_wanted {
            return None;
        }
        let at = (self.idle.since + idle.threshold).max(self.idle.not_before);
        (at > self.now).then_some(at)
    }

    /// Returns the number of promoted requests that wait.
    pub fn promoted_pending(&self) -> usize {
        self.promoted
    }

    /// Returns the harm of idle time: the foreground's delay by idle work, or its lead.
    pub fn harm(&self) -> Harm {
        self.idle.harm()
    }

    /// Returns a session's priority.
    pub fn priority(&self, session: SessionId) -> Option<Priority> {
        self.background.priority(session)
    }

    fn register(&mut self, session: SessionId, new: NewTask) -> Result<TaskId, SessionError> {
        if new.op == Op::Write {
            self.check_whole_sectors(new.range, new.block)?;
        }
        let task = self.background.register(self.drive.layout(), session, new)?;
        // A block of the new task may lie on the track under the head.
        self.idle.not_before = Instant::ZERO;
        Ok(task)
    }

    /// Refuses background writes of parts of a physical sector: the drive would read the sector first, which costs a
    /// revolution that no gap has.
    fn check_whole_sectors(&self, range: LbnRange, block: Sectors) -> Result<(), SessionError> {
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
        self.outbox.retain(|event| match event {
            Event::Deliver(record) if of(record) => {
                background.handed_over(record.session);
                withdrawn += 1;
                false
            }
            _ => true,
        });
        withdrawn
    }

    /// Ends a task: neither its work under way nor its records that wait to be polled are delivered. A write that is under
    /// way may still reach the medium.
    fn abort_task(&mut self, task: TaskId) -> Result<u64, SessionError> {
        let aborted = self.background.abort(task);
        match (aborted, self.withdraw(|record| record.task == task)) {
            (Ok(left), withdrawn) => Ok(left + withdrawn),
            // All blocks were done, but records were still to be polled.
            (Err(_), withdrawn) if withdrawn > 0 => Ok(withdrawn),
            (error, _) => error,
        }
    }

    /// Makes wanted blocks of a session foreground work, and returns their number. Adjacent reads become one request. At most
    /// [`Config::most_pending`] promoted requests wait; further blocks stay in the background, and so does a write whose buffer
    /// is not available when the write is chosen. The requests of a suspended session wait until it is resumed. A block that is
    /// under way is not counted; if the drive does not transfer it, it is promoted afterwards.
    fn promote_blocks(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
        let room = self.config.most_pending.saturating_sub(self.promoted + self.held_back.len());
        let layout = self.drive.layout();
        let requests = self.background.promotable(layout, session, range, PROMOTED_SECTORS_MAX, room)?;
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
                self.register(session, NewTask { op, range, block, parameter }).map(TaskId::get)
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
}
