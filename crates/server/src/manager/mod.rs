//! The task manager: the one application of a disk. The task manager owns all tasks of the disk, and the sessions of
//! client programs.
//!
//! A [`TaskManager`] is a state machine: it reads no clock and touches no file. [`TaskManager::next_file_request`]
//! returns the file operations that it needs, and [`TaskManager::file_done`] takes their results; the threads of
//! [`crate::files::FileWorkers`] execute them.

mod application;
mod bad;
mod calls;
mod client_session;
mod ending;
mod ledger;
mod live;
mod owner;
mod pace;
pub mod permits;
mod rings;
pub mod status;
mod sums;

pub use crate::task::{budget, file_request, spec, table};

use crate::disk::{BackgroundTerms, Fence};
use crate::jobs::job::Copying;
use crate::jobs::job::Stage;
use crate::task::budget::{Budget, Reservation};
use crate::task::file_request::{FileQueue, FileReply, FileRequest, FileRequestSink, FileResult};
use crate::task::journal::{self, Damaged, Journal, JournalError};
use crate::task::spec::{DiskFacts, SpecError, TaskKind};
use crate::task::table::{Closed, DiskShape, Event, Figures, Table, TaskState};
use apps::snapshot::VolumeId;
pub(crate) use client_session::ASKED_BYTES_MAX;
use client_session::ClientSession;
use device::Answer;
use ending::Ending;
use live::{Live, PermitState, RETRY_AFTER};
use owner::Owner;
use permits::Permits;
use scheduler::{Harm, SessionOwners, Sessions};
use status::Outcome;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use sums::DiskSums;
use thiserror::Error;
use tracing::{error, warn};
use units::{Bytes, Duration, Instant, LbnRange};

/// The most tasks of a disk that are not over; one more is refused.
pub const LIVE_TASKS_MAX: usize = 64;
/// The most tasks that are remembered; the oldest of those that are over are dropped.
pub const REMEMBERED_TASKS_MAX: usize = 1_000;
/// The least interval between two journal entries with a task's progress. Each byte of the job's own data in the entry
/// adds a microsecond, so that a task writes at most a megabyte a second.
const SAVE_EVERY: Duration = Duration::from_secs(1);
/// The most time that counts as running between two ticks, which are half a second apart: a longer interval means that
/// the daemon was stopped, and that no result of a file operation could arrive.
const TICK_MAX: Duration = Duration::from_secs(2);
/// The length up to which a journal is not compacted, because a shorter file would save little.
const COMPACTED_BYTES_MIN: u64 = 64 << 10;

/// A callback that gets `Ok` when a journal entry is durable, or the reason why the entry cannot be written.
pub type Waiter = Box<dyn FnOnce(Result<(), String>) + Send>;

/// The configuration of a task manager.
#[derive(Clone, Debug)]
pub struct ManagerConfig {
    /// The disk's name, size and files.
    pub disk: DiskFacts,
    /// The most bytes of overwritten blocks that all backups, replicas and snapshots of the disk keep in the state
    /// directory.
    pub keep_bytes_max: u64,
    /// The least service of clients' reads of snapshots (the floor), and the memory to read ahead for them.
    pub background: BackgroundTerms,
    /// A random seed, for the names of images, and of the disk if it has none.
    pub seed: u128,
    /// The permits for scrubs and comparisons, which all disks of a daemon share.
    pub permits: Permits,
    /// The memory for comparisons, which all disks of a daemon share.
    pub memory: Budget,
}

/// The reason why a call was refused. A refused call has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ManagerError {
    /// No task has this number.
    #[error("there is no task {0}; look at the list of tasks")]
    NoTask(u64),
    /// The task is over.
    #[error("task {id} is {state}; start a new one")]
    Over {
        /// The task's number.
        id: u64,
        /// The final state of the task.
        state: TaskState,
    },
    /// A field of the specification is wrong.
    #[error(transparent)]
    Field(#[from] SpecError),
    /// Another task, or a client, prevents the call.
    #[error("{0}")]
    Busy(String),
    /// [`LIVE_TASKS_MAX`] tasks are not over.
    #[error("{LIVE_TASKS_MAX} tasks are not over yet; wait for one to end, or cancel one")]
    TooMany,
    /// The journal is damaged, or the disk has another size.
    #[error(
        "the tasks of this disk are stopped: {0}; `freeblock repair` shows what is known, and how to go on"
    )]
    Damaged(String),
}

/// A change of a task, and the journal entry that makes it durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskChange {
    /// The task's number.
    pub task: u64,
    /// The journal entry after which the change is durable.
    pub seq: u64,
}

/// All tasks of a disk.
pub struct TaskManager {
    config: ManagerConfig,
    table: Table,
    volume: VolumeId,
    damage: Option<Damaged>,
    dice: u64,
    live: BTreeMap<u64, Live>,
    client_sessions: BTreeMap<u64, ClientSession>,
    next_client_session: u64,
    owners: SessionOwners<Owner>,
    file_requests: VecDeque<FileRequest>,
    file_sink: Option<FileRequestSink>,
    /// The last journal entry whose write was requested, and the last that is durable.
    seq: u64,
    durable: u64,
    appended: u64,
    compacted: u64,
    trouble: Option<String>,
    /// Tasks whose creation is not durable yet. Each begins when its journal entry is durable.
    creating: VecDeque<TaskChange>,
    saving: VecDeque<(TaskChange, Figures)>,
    claimed: BTreeMap<u64, Figures>,
    waiters: Vec<(u64, Waiter)>,
    /// The number of clients that have the disk open for writing.
    writers: usize,
    sums: DiskSums,
    now: Instant,
    /// The last tick, and the time that the daemon had run until then.
    ticked: Instant,
    ran: Duration,
    unix_ms: u64,
    harm: Harm,
    /// Blocks that sessions are about to write and that a backup has still to read: the write waits for the copy.
    wanted: Vec<LbnRange>,
    ending: Vec<Ending>,
    /// Cancelled tasks whose output files are being removed, with the callbacks for the removal; and per task the file
    /// that could not be removed.
    discarding: BTreeMap<u64, Vec<Waiter>>,
    left: BTreeMap<u64, String>,
    /// How tasks of each kind have ended.
    outcomes: BTreeMap<TaskKind, Outcome>,
    /// Tasks that wait for the flush in flight.
    flushing: Vec<u64>,
    /// Restores that are not over. Neither clients nor other tasks may write beside them.
    alone: BTreeSet<u64>,
    /// The memory of each comparison that is not over.
    memory: BTreeMap<u64, Reservation>,
    /// Restores that begin when the clients' writes in flight are done.
    hushing: Vec<u64>,
    /// Whether writes of clients are in flight.
    changing: bool,
    /// The budget of bytes for the old block contents that backups, replicas and snapshots keep.
    kept: Budget,
    /// Answers to requests to snapshots.
    answers: VecDeque<Answer>,
}

impl std::fmt::Debug for TaskManager {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskManager")
            .field("config", &self.config)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

/// Returns whether the name of a device is a serial number, and not a path.
fn is_serial(device: &str) -> bool {
    !device.starts_with('/')
}

/// Returns the names of the disk in the table and of the present disk, if the table belongs to another disk. A disk
/// without live tasks may change its path, but never its serial number.
fn other_disk(table: &Table, now: Option<&str>) -> Option<(String, String)> {
    let known = |device: Option<&str>| device.unwrap_or("without a serial number").to_owned();
    let serials = [table.device(), now].into_iter().flatten().filter(|device| is_serial(device)).count() == 2;
    let differs = table.device().is_some_and(|before| Some(before) != now);
    (differs && (serials || table.needs_its_disk())).then(|| (known(table.device()), known(now)))
}

impl TaskManager {
    /// Opens a task manager with the tasks of its journal. If the journal is damaged, or the disk's size has changed
    /// since its tasks began, shows the tasks and runs none.
    ///
    /// # Errors
    /// The journal is of another disk.
    pub fn open(config: ManagerConfig, journal: Journal) -> Result<Self, JournalError> {
        let Journal { mut table, mut damage } = journal;
        let (capacity, sector_bytes) = (config.disk.capacity.get(), config.disk.sector_bytes.get());
        let shape = DiskShape { sectors: capacity, sector_bytes };
        if let Some((before, now)) = other_disk(&table, config.disk.device.as_deref()) {
            return Err(JournalError::OtherDisk { place: config.disk.name.clone(), before, now });
        }
        damage = damage.or_else(|| journal::resized(&table, shape));
        let volume = table.volume().unwrap_or_else(|| spec::volume(config.seed));
        // A known serial number is not replaced by a path when the device does not report it this time.
        let known = table.device().filter(|known| is_serial(known));
        let seen = config.disk.device.as_deref().filter(|now| known.is_none() || is_serial(now));
        let device = seen.or(table.device()).map(str::to_owned);
        if table.device().is_some() && table.device() != device.as_deref() && table.sums().is_some() {
            let (disk, before) = (&config.disk.name, table.device());
            warn!(disk, before, now = device, "another disk has this name now: its checksums are given up");
            table.apply(Event::Sums { store: None });
        }
        let noted = table.apply(journal::first(volume, device, shape));
        debug_assert!(noted, "a disk is noted anew each time");
        let outcomes = Outcome::of_each(&table);
        let kept = Budget::of(Bytes::new(config.keep_bytes_max));
        let claimed = table.iter().map(|(id, entry)| (id, entry.figures.clone())).collect();
        let mut manager = Self {
            dice: config.seed as u64 ^ (config.seed >> 64) as u64,
            config,
            table,
            volume,
            damage,
            live: BTreeMap::new(),
            client_sessions: BTreeMap::new(),
            next_client_session: 1,
            owners: SessionOwners::default(),
            file_requests: VecDeque::new(),
            file_sink: None,
            seq: 0,
            durable: 0,
            appended: 0,
            compacted: 0,
            trouble: None,
            creating: VecDeque::new(),
            saving: VecDeque::new(),
            claimed,
            waiters: Vec::new(),
            writers: 0,
            sums: DiskSums::default(),
            now: Instant::ZERO,
            ticked: Instant::ZERO,
            ran: Duration::ZERO,
            unix_ms: 0,
            harm: Harm::default(),
            ending: Vec::new(),
            discarding: BTreeMap::new(),
            left: BTreeMap::new(),
            outcomes,
            wanted: Vec::new(),
            flushing: Vec::new(),
            alone: BTreeSet::new(),
            memory: BTreeMap::new(),
            hushing: Vec::new(),
            changing: false,
            kept,
            answers: VecDeque::new(),
        };
        // A damaged journal is not written to.
        if manager.damage.is_none() {
            manager.compact();
        }
        Ok(manager)
    }

    /// Continues all tasks that are not over. Call this once, before any client can write to the disk: a write must not
    /// overwrite a block that a backup has still to read.
    pub fn begin(&mut self, sessions: &mut dyn Sessions, now: Instant, unix_ms: u64) {
        (self.now, self.ticked, self.unix_ms) = (now, now, unix_ms);
        if let Some(damage) = &self.damage {
            let (disk, why) = (&self.config.disk.name, &damage.why);
            error!(disk, why, "the tasks of this disk are stopped; `freeblock repair` shows what is known");
            for (id, entry) in self.table.live() {
                error!(disk, task = id, kind = %entry.spec.kind, "stopped");
            }
            if let Some(why) = self.shut() {
                error!(disk, why, "clients are kept out");
            }
            return;
        }
        self.begin_sums();
        for id in self.table.live().map(|(id, _)| id).collect::<Vec<_>>() {
            self.begin_one(sessions, id);
        }
        self.sweep();
    }

    /// Returns the disk's name, size and files.
    pub fn disk(&self) -> &DiskFacts {
        &self.config.disk
    }

    /// From here on passes each file request to `file_sink` at once. [`next_file_request`](Self::next_file_request)
    /// then returns none.
    pub(crate) fn send_file_requests_to(&mut self, file_sink: FileRequestSink) {
        self.file_sink = Some(file_sink);
        self.send_file_requests();
    }

    fn send_file_requests(&mut self) {
        if let Some(file_sink) = &self.file_sink {
            self.file_requests.drain(..).for_each(file_sink);
        }
    }

    /// Sets the time at which the next call takes place.
    pub(crate) fn set_now(&mut self, now: Instant, unix_ms: u64) {
        (self.now, self.unix_ms) = (self.now.max(now), unix_ms);
    }

    /// Saves the progress of all tasks for the last time. Afterwards no file requests are sent.
    pub(crate) fn close(&mut self) {
        let ids: Vec<u64> = self.live.keys().copied().collect();
        ids.into_iter().for_each(|id| self.save(id, true));
        self.let_go_of_all();
        self.send_file_requests();
        self.file_sink = None;
    }

    /// Returns the next file operation to execute.
    pub fn next_file_request(&mut self) -> Option<FileRequest> {
        self.file_requests.pop_front()
    }

    /// Returns the journal's damage. The caller notes it in the state directory before clients write.
    pub(crate) fn damage(&mut self) -> Option<&mut Damaged> {
        self.damage.as_mut()
    }

    /// Returns why the tasks are stopped, or why the journal cannot be written.
    pub fn trouble(&self) -> Option<String> {
        self.sound().err().map(|error| error.to_string()).or_else(|| self.trouble.clone())
    }

    /// # Errors
    /// The journal is damaged, and a call that depends on its content is refused.
    fn sound(&self) -> Result<(), ManagerError> {
        self.damage.as_ref().map_or(Ok(()), |damage| Err(ManagerError::Damaged(damage.why.clone())))
    }

    /// Returns the accesses that are closed to clients although no task is at work: because the journal is damaged, or
    /// because a repair has ended a task that was writing to the disk.
    fn closed(&self) -> Option<Closed> {
        self.damage.as_ref().map_or(self.table.closed(), |damage| damage.closed)
    }

    /// Returns a message about the accesses that [`closed`](Self::closed) closes to clients.
    fn shut(&self) -> Option<String> {
        let closed = match self.closed()? {
            Closed::Writes => "clients may not write to it",
            Closed::All => "clients may neither read nor write it",
        };
        Some(match &self.damage {
            Some(Damaged { why, .. }) => format!(
                "the tasks of this disk are stopped, and one of these tasks had closed the disk: {closed} until `freeblock repair`; {why}"
            ),
            None => format!(
                "a task that wrote to this disk ended early, and the content of the disk is incomplete: {closed} until a restore is done, or `freeblock repair --open`"
            ),
        })
    }

    /// Sets the number of clients that have the disk open for writing.
    pub fn set_writers(&mut self, writers: usize) {
        self.writers = writers;
    }

    /// Returns why clients may not write to the disk now, if they may not. From the request for a restore until its
    /// end, paused or not, new clients are refused and the writes of present ones fail.
    pub fn is_taken(&self) -> Option<String> {
        let Some(id) = self.alone.first() else { return self.shut() };
        let kind = self.table.get(*id)?.spec.kind;
        Some(format!("{kind} {id} is writing this disk; wait until it is done, or cancel it"))
    }

    /// Calls `waiter` when the journal entry `seq` is durable.
    pub fn when_durable(&mut self, seq: u64, waiter: Waiter) {
        if seq <= self.durable {
            waiter(Ok(()));
        } else {
            self.waiters.push((seq, waiter));
        }
    }

    /// Takes the result of a file operation.
    pub fn file_done(&mut self, sessions: &mut dyn Sessions, reply: FileReply, now: Instant) {
        self.now = self.now.max(now);
        let (id, kept) = match (reply.queue, reply.result) {
            (FileQueue::Journal, FileResult::Journal { seq, failed }) => {
                return self.journaled(sessions, seq, failed);
            }
            (FileQueue::Journal, FileResult::SumsLeft(failed)) => return self.left_sums(failed),
            (FileQueue::Journal, _) => return,
            (FileQueue::Sums, result) => return self.sums_done(sessions, result),
            (FileQueue::Kept(id), FileResult::Removed(failed)) => return self.removed_kept(id, failed),
            (FileQueue::Target(id), FileResult::Discarded(left)) => return self.discarded(id, left),
            (FileQueue::Target(id), result) => (id, (false, result)),
            (FileQueue::Kept(id), result) => (id, (true, result)),
        };
        let opening = self.with(sessions, id, |live, cx| {
            live.job.file_done(cx, kept.0, kept.1);
            live.job.stage() == Stage::Opening
        });
        if opening == Some(true) {
            // A task begins when its first entry is in the journal; it does not wait for a tick.
            self.save(id, false);
        }
        self.settle(sessions, id);
    }

    /// Does the work that is due. Call this each half second. `harm` is the core's estimate of how much background work
    /// has delayed the foreground so far.
    pub fn tick(&mut self, sessions: &mut dyn Sessions, now: Instant, unix_ms: u64, harm: Harm) {
        (self.now, self.unix_ms) = (self.now.max(now), unix_ms);
        self.ran += now.saturating_since(self.ticked).min(TICK_MAX);
        self.ticked = now;
        if self.trouble.is_some() {
            self.compact();
        }
        self.charge(harm);
        self.give_up_waiting(sessions);
        if !self.changing {
            for id in std::mem::take(&mut self.hushing) {
                self.begin_one(sessions, id);
            }
        }
        self.client_sessions.values_mut().for_each(|client| client.tick(now));
        self.keep_wanted(sessions);
        let ids: Vec<u64> = self.live.keys().copied().collect();
        for id in ids {
            let bytes = self.claimed.get(&id).map_or(0, |f| f.bytes);
            self.take_permit(sessions, id);
            self.with(sessions, id, |live, cx| {
                live.pace.see(cx.now, bytes);
                live.job.tick(cx);
                // A task that waits for a permit tries again when it gets the permit.
                let may = !live.paused && !matches!(live.permit, PermitState::Waits);
                let stuck = matches!(live.job.stage(), Stage::Waiting(_));
                if may && stuck && live.retry_at.is_some_and(|at| at <= cx.now) {
                    live.retry_at = Some(cx.now + RETRY_AFTER);
                    live.job.retry(cx);
                }
            });
            self.save(id, false);
            self.warn_of_deadline(id);
            self.log_progress(id);
            self.settle(sessions, id);
        }
    }

    /// Limits the memory of the comparisons that begin from now on.
    #[cfg(test)]
    pub(crate) fn set_memory(&mut self, memory: Budget) {
        self.config.memory = memory;
    }

    /// Makes the disk read-only.
    #[cfg(test)]
    pub(crate) fn set_read_only(&mut self) {
        self.config.disk.read_only = true;
    }

    /// Sets the floor, the least service of reads, of the snapshots that begin from now on.
    #[cfg(test)]
    pub(crate) fn set_floor(&mut self, floor: crate::disk::Floor) {
        self.config.background.floor = Some(floor);
    }

    /// Limits the memory for blocks that are read ahead of readers of the snapshots that begin from now on.
    #[cfg(test)]
    pub(crate) fn set_read_ahead(&mut self, most: Bytes) {
        self.config.background.memory = crate::disk::ReadAheadBudget::of(most);
    }

    /// Limits the scrubs and comparisons that begin from now on.
    #[cfg(test)]
    pub(crate) fn set_permits(&mut self, permits: Permits) {
        self.config.permits = permits;
    }

    /// Returns whether a write of the foreground to `range` has to wait. If so, ask again after the core has delivered
    /// another block, or after the next result of a file operation.
    pub fn hold(&mut self, sessions: &mut dyn Sessions, range: LbnRange) -> bool {
        self.hold_until_copied(sessions, range, Copying::Now)
    }

    pub(super) fn hold_until_copied(
        &mut self,
        sessions: &mut dyn Sessions,
        range: LbnRange,
        copying: Copying,
    ) -> bool {
        let needed: Vec<u64> =
            self.live.iter().filter(|(_, l)| l.job.needs(range)).map(|(id, _)| *id).collect();
        let mut held = self.hold_for_sums(range);
        for id in needed {
            held |= self.with(sessions, id, |live, cx| live.job.hold(cx, range, copying)).unwrap_or(false);
            self.settle(sessions, id);
        }
        // A task that has just failed may hold the write, too.
        held || self.is_ending(range)
    }

    /// Returns whether a client's request may access a range now. Blocks that a reorganisation is moving are closed.
    pub fn fenced(&self, range: LbnRange) -> Fence {
        let mut result = Fence::Open;
        if self.closed() == Some(Closed::All) {
            return Fence::Closed;
        }
        for live in self.live.values() {
            match live.job.fences(range) {
                Fence::Closed => return Fence::Closed,
                Fence::Wait => result = Fence::Wait,
                Fence::Open => {}
            }
        }
        result
    }

    /// Returns whether a task waits for the end of the clients' requests at the blocks that the task has closed.
    pub fn wants_clear(&self) -> bool {
        self.live.values().any(|live| live.job.wants_clear())
    }

    /// Records that all requests that clients had begun at closed blocks are done.
    pub fn clear(&mut self, sessions: &mut dyn Sessions) {
        let waits: Vec<u64> =
            self.live.iter().filter(|(_, l)| l.job.wants_clear()).map(|(id, _)| *id).collect();
        for id in waits {
            self.with(sessions, id, |live, cx| live.job.clear(cx));
            self.settle(sessions, id);
        }
    }

    /// Returns whether the disk should flush; [`flushed`](Self::flushed) is called with the result.
    pub fn wants_flush(&mut self) -> bool {
        // Collect every task that wants a flush: one flush serves all of them.
        let flushing: Vec<u64> =
            self.live.iter_mut().filter_map(|(id, live)| live.job.wants_flush().then_some(*id)).collect();
        let wants = !flushing.is_empty();
        self.flushing.extend(flushing);
        wants
    }

    /// Records that all writes that were done before the flush was wanted are durable, or why they are not.
    pub fn flushed(&mut self, sessions: &mut dyn Sessions, result: &Result<(), String>) {
        for id in std::mem::take(&mut self.flushing) {
            let opening = self.with(sessions, id, |live, cx| {
                live.job.flushed(cx, result.clone());
                live.job.stage() == Stage::Opening
            });
            if opening == Some(true) {
                // The task may have waited for the flush before its begin.
                self.save(id, false);
            }
            self.settle(sessions, id);
        }
    }

    /// Returns a random number by splitmix64.
    fn roll(&mut self) -> u64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn not_over(&self, id: u64) -> Result<(), ManagerError> {
        self.sound()?;
        match self.table.get(id) {
            None => Err(ManagerError::NoTask(id)),
            Some(entry) if entry.state.is_over() => Err(ManagerError::Over { id, state: entry.state }),
            Some(_) => Ok(()),
        }
    }

    /// Has backups read the blocks that sessions are about to write.
    fn keep_wanted(&mut self, sessions: &mut dyn Sessions) {
        for range in std::mem::take(&mut self.wanted) {
            self.hold(sessions, range);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
