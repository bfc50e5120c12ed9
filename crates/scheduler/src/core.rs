//! The core: time, completions and calls in, actions out, and nothing else.

use crate::background::{Background, Priority, Record, SessionError};
use crate::foreground::{Pending, Request};
use crate::planner::{Gap, Planner, SearchBudget};
use crate::policy::{AgeWeight, AnyPolicy, Policy, PolicyName, View};
use model::{DriveModel, Position};
use std::collections::VecDeque;
use std::sync::Arc;
use thiserror::Error;
use units::{
    Arc as Rotation, FULL_TURN, Instant, LbnRange, Op, RequestId, Sectors, SessionId, TaskId, TrackIndex,
};

/// What a core is told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The foreground policy.
    pub policy: PolicyName,
    /// How much waiting counts.
    pub age: AgeWeight,
    /// How far the gap planner searches.
    pub budget: SearchBudget,
    /// The most foreground requests that may wait.
    pub most_pending: usize,
    /// The most blocks that may be half read at once; their data wait in memory.
    pub most_partials: usize,
    /// Whether a foreground write serves reads of what it overwrites: its data are the content.
    /// A scrubber, which wants the medium read, sets this to false.
    pub writes_serve_reads: bool,
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
    /// Carry out [`Core::accesses`] in order without a pause, then call [`Core::completed`].
    Execute,
    /// A foreground request is done.
    Completed(RequestId),
    /// A background block has come.
    Deliver(Record),
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
    /// Tracks examined in all.
    pub tracks: u64,
    /// The most tracks examined for one gap.
    pub tracks_max: u32,
}

/// The scheduler core, inside a drive: it knows the drive exactly and moves its head.
///
/// One door in: [`submit`](Self::submit) for the foreground, the session calls for the background,
/// [`completed`](Self::completed) when what it asked for is done; all but the session calls take the time. One door
/// out: after any call, [`poll`](Self::poll) until it returns `None`. At most one [`Action::Execute`] is under way.
/// The core starts no clock and draws nothing at random: the same calls give the same actions.
///
/// ```
/// use model::{DriveModel, Profile};
/// use freeblock_scheduler::{Action, Config, Core, Priority, Request};
/// use std::sync::Arc;
/// use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};
/// # let toml = include_str!("../../model/tests/data/tiny.toml");
/// let drive = DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml")?)?;
/// let whole = LbnRange::new(Lbn::ZERO, drive.layout().capacity());
/// let mut core = Core::new(Arc::new(drive), Config::default());
/// let session = core.open(Priority::default());
/// core.read(session, whole, Sectors::new(8))?;
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
///             Action::Completed(_) => {}
///             Action::Deliver(_) => delivered += 1,
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
    pool: Vec<Pending>,
    next_sequence: u64,
    background: Background,
    planner: Planner,
    /// Where the head is, or will be when what is under way is done.
    position: Position,
    track: Option<TrackIndex>,
    busy: Option<UnderWay>,
    accesses: Vec<Access>,
    outbox: VecDeque<Action>,
    stats: PlannerStats,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    request: RequestId,
    until: Instant,
}

impl Core {
    /// A core for a drive whose head stands at cylinder 0 under head 0.
    pub fn new(drive: Arc<DriveModel>, config: Config) -> Self {
        let position = Position::default();
        Self {
            policy: config.policy.into(),
            config,
            pool: Vec::new(),
            next_sequence: 0,
            background: Background::new(drive.layout(), config.most_partials),
            planner: Planner::new(&drive),
            position,
            track: drive.layout().track_at(position.cylinder, position.head),
            busy: None,
            accesses: Vec::new(),
            outbox: VecDeque::new(),
            stats: PlannerStats::default(),
            drive,
        }
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
        if self.pool.len() >= self.config.most_pending {
            return Err(SubmitError::Full { id, most: self.config.most_pending });
        }
        let Some(pending) = Pending::new(&self.drive, request, now, self.next_sequence) else {
            return Err(SubmitError::PastEnd { id, range, capacity });
        };
        self.next_sequence += 1;
        self.pool.push(pending);
        Ok(())
    }

    /// What [`Action::Execute`] asked for is done, at `now`.
    pub fn completed(&mut self, _now: Instant) {
        let Some(done) = self.busy.take() else {
            debug_assert!(false, "completed without an Execute under way");
            return;
        };
        self.outbox.push_back(Action::Completed(done.request));
        let outbox = &mut self.outbox;
        self.background.deliver(|record| outbox.push_back(Action::Deliver(record)));
    }

    /// The next action, or `None` until the next call.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        if let Some(mut action) = self.outbox.pop_front() {
            if let Action::Deliver(record) = &mut action {
                record.last = self.background.handed_over(record.session);
            }
            return Some(action);
        }
        if self.busy.is_some() || self.pool.is_empty() {
            return None;
        }
        self.dispatch(now);
        Some(Action::Execute)
    }

    /// What the last [`Action::Execute`] asks for, in order.
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// When what is under way will be done, as the core predicts it.
    pub fn busy_until(&self) -> Option<Instant> {
        self.busy.map(|b| b.until)
    }

    /// Foreground requests that wait, the one under way not counted.
    pub fn pending(&self) -> usize {
        self.pool.len()
    }

    /// Opens a session.
    pub fn open(&mut self, priority: Priority) -> SessionId {
        self.background.open(priority)
    }

    /// A session's priority.
    pub fn priority(&self, session: SessionId) -> Option<Priority> {
        self.background.priority(session)
    }

    /// Registers a task: read every block of `block` sectors in `range`, in any order, each once. The last block is
    /// shorter where the range is no multiple.
    ///
    /// # Errors
    /// No such session, an empty range or one past the drive's end, a block size of zero or over a gigabyte.
    pub fn read(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
    ) -> Result<TaskId, SessionError> {
        self.background.read(self.drive.layout(), session, range, block)
    }

    /// Ends a task. From here on nothing of it is delivered, not what is under way and not what waits to be polled.
    /// How many blocks it did not get.
    ///
    /// # Errors
    /// No such task.
    pub fn abort(&mut self, task: TaskId) -> Result<u64, SessionError> {
        let aborted = self.background.abort(task);
        match (aborted, self.withdraw(|record| record.task == task)) {
            (Ok(left), withdrawn) => Ok(left + withdrawn),
            // All of it had come, but nobody had taken it yet.
            (Err(_), withdrawn) if withdrawn > 0 => Ok(withdrawn),
            (error, _) => error,
        }
    }

    /// Ends a session and all its tasks, as [`abort`](Self::abort) ends one. How many blocks they did not get.
    ///
    /// # Errors
    /// No such session.
    pub fn close(&mut self, session: SessionId) -> Result<u64, SessionError> {
        let left = self.background.close(session)?;
        Ok(left + self.withdraw(|record| record.session == session))
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

    /// Chooses the next foreground request and fills the gap before it.
    fn dispatch(&mut self, now: Instant) {
        let view = View {
            pool: &self.pool,
            at: now,
            from: self.position,
            predictor: &*self.drive,
            age: self.config.age,
        };
        let chosen = self.policy.choose(&view);
        let Request { id, op, range } = self.pool.swap_remove(chosen).request;
        self.accesses.clear();
        if op == Op::Read || self.config.writes_serve_reads {
            // What the foreground itself passes over is free; the planner is to look for other things.
            for piece in self.drive.layout().pieces(range) {
                if self.background.is_idle() {
                    break;
                }
                self.background.take(&self.drive, piece.track, (piece.sector, piece.len));
            }
        }
        let until = self.foreground(now, op, range);
        self.busy = Some(UnderWay { request: id, until });
    }

    /// Lays out the accesses of a foreground request, with detours in their gaps; when it will be done.
    fn foreground(&mut self, now: Instant, op: Op, range: LbnRange) -> Instant {
        let drive = Arc::clone(&self.drive);
        let (layout, rpm) = (drive.layout(), drive.rpm());
        let mut at = now;
        for piece in layout.pieces(range) {
            let track = layout.track(piece.track);
            let arrive = at + drive.move_time(self.position, track.into(), op);
            let wait = rpm.earliest_angle(arrive).until(track.sector_angle(piece.sector));
            let span = track.arc(piece.sector, piece.len);
            let passed = Rotation::from_parts(FULL_TURN) - wait;
            let access = |sector, sectors| Access {
                track: piece.track,
                sector,
                sectors,
                op,
                not_before: arrive,
                purpose: Purpose::Foreground,
            };
            // The sectors of the piece that are gone when the head arrives, the one under it included.
            let missed = match drive.zero_latency(op) && passed < span {
                true => {
                    let from = track.boundary(piece.sector) + passed;
                    (from.parts() * u64::from(track.sectors)).div_ceil(FULL_TURN) as u32 - piece.sector
                }
                false => piece.len,
            };
            if missed < piece.len {
                // Zero-latency access: the rear part now, the front part when it comes round.
                self.accesses.push(access(piece.sector + missed, piece.len - missed));
                at = arrive + rpm.time_within(span - passed);
                self.arrived(piece.track, track.into());
                self.fill(at, piece.track, op, arrive + rpm.time_within(wait));
                self.accesses.push(access(piece.sector, missed));
                at = arrive + rpm.time_within(wait + track.arc(piece.sector, missed));
            } else {
                self.fill(at, piece.track, op, arrive + rpm.time_within(wait));
                self.accesses.push(access(piece.sector, piece.len));
                at = arrive + rpm.time_within(wait + span);
            }
            self.arrived(piece.track, track.into());
        }
        at
    }

    fn arrived(&mut self, track: TrackIndex, position: Position) {
        self.track = Some(track);
        self.position = position;
    }

    /// Puts the best detour into the gap between `at` and the sector that passes at `deadline`.
    fn fill(&mut self, at: Instant, destination: TrackIndex, op: Op, deadline: Instant) {
        if self.background.is_idle() {
            return;
        }
        let gap = Gap { at, from: self.position, source: self.track, destination, op, deadline };
        let (detour, examined) =
            self.planner.plan(&self.drive, &mut self.background, &gap, self.config.budget);
        self.stats.gaps += 1;
        self.stats.tracks += u64::from(examined);
        self.stats.tracks_max = self.stats.tracks_max.max(examined);
        let Some(detour) = detour else { return };
        self.stats.detours += 1;
        for stop in detour.stops.into_iter().flatten() {
            let Some((begin, end, useful)) =
                self.background.take(&self.drive, stop.track, (stop.first, stop.count))
            else {
                continue;
            };
            let sectors = self.drive.layout().track(stop.track).sectors;
            self.accesses.push(Access {
                track: stop.track,
                sector: (stop.first + begin) % sectors,
                sectors: end - begin,
                op: Op::Read,
                not_before: at,
                purpose: Purpose::Background { useful },
            });
        }
    }
}
