//! The host with the daemon's own disk and task manager. Clients read and write the disk, send background requests and read
//! snapshots, on a drive with faults, through kills of the daemon and power cuts.
//!
//! The bytes of each sector name its LBN and its last write (a number, the *stamp*), so that an answer shows when its contents
//! were current. A *place* is the index of a stamp in the list of a sector's writes.

mod answers;
mod contents;
mod medium;
mod snapshots;
mod terms;

pub(crate) use terms::Terms;

use crate::counts::Counts;
use crate::dice::{Dice, mix};
use crate::failure::{Broken, Check, hold};
use crate::hash::Hash;
use crate::outer::{Knowledge, Outer};
use crate::setup::{Mimicry, Setup};
use crate::stage::{Doors, Outcome, Stage};
use crate::step::Step;
use contents::{Contents, Place};
use device::{Ask, BackgroundRequest, Device};
use medium::{DISCARDED, Medium, Wire, stamped};
use scheduler::{Adoption, Config, Core};
use server::Disk;
use server::manager::spec::{DiskFacts, TaskKind, TaskSpec};
use server::manager::table::TaskState;
use server::manager::{ManagerConfig, TaskChange, TaskManager};
use server::simulated::{MemoryFiles, Simulated};
use snapshots::Snapshot;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// The interval between ticks of the task manager, as in the daemon.
const TICK_INTERVAL: Duration = Duration::from_millis(500);

/// The time from the end of a daemon to the start of the next.
const DOWNTIME: Duration = Duration::from_millis(700);

/// The time of day at instant zero, in milliseconds since 1970.
const DAY_MS: u64 = 1_700_000_000_000;

/// The virtual time in seconds within which all requests must end after the last fault: longer than idle work may rest and file
/// operations may take.
const SETTLES_S_MAX: u64 = 4_000;

/// The number of events at one instant that counts as an endless loop.
const EVENTS_PER_INSTANT_MAX: u32 = 1 << 16;

/// The most sectors of a request.
const REQUEST_SECTORS_MAX: u64 = 256;

/// The most unanswered requests; further ones are not sent.
const REQUESTS_MAX: usize = 200;

/// The most snapshots at a time.
const SNAPSHOTS_MAX: usize = 4;

/// An unanswered request of a client.
#[derive(Debug)]
enum Asked {
    /// A read, with the place of each sector's oldest permitted stamp; in the foreground (without a client) also of the
    /// newest.
    Read { range: LbnRange, client: Option<u64>, oldest: Vec<Place>, newest: Option<Vec<Place>> },
    /// A read of a snapshot; `over` if the snapshot had ended before.
    Snapshot { range: LbnRange, client: u64, snapshot: u64, over: bool },
    /// A write or discard, with the place of its stamp in each sector.
    Write { range: LbnRange, places: Vec<Place>, through: bool },
    /// A flush, with the place in each sector of the newest stamp that it must make durable.
    Flush { known: Vec<Place> },
}

/// The daemon of a history, its drive and its clients.
pub(crate) struct Daemon {
    setup: Setup,
    terms: Terms,
    all: LbnRange,
    medium: Rc<RefCell<Medium>>,
    files: MemoryFiles,
    /// The running daemon; `None` only between a kill and the next start.
    running: Option<Simulated<Wire>>,
    contents: Contents,
    asked: BTreeMap<u64, Asked>,
    next: u64,
    snapshots: Vec<Snapshot>,
    /// The number of snapshots so far, from which their names are made.
    named: u64,
    now: Instant,
    ticked: Instant,
    /// The time at which the daemon started, in milliseconds since 1970.
    started_unix_ms: u64,
    /// The most file operations that are executed after an event; `None` for no limit.
    pace: Option<u32>,
    /// The sectors that were bad or stuck at any time.
    ever_bad: BTreeSet<u64>,
    /// Whether a snapshot may fail, because files were slow or space for them was limited.
    may_fail: bool,
    starts: u64,
    dice: Dice,
    hash: Hash,
    counts: Counts,
}

impl Stage for Daemon {
    fn open(setup: &Setup) -> Result<Self, Broken> {
        let now = Instant::from_nanos(setup.start_ns);
        let terms = Terms::of(setup.seed);
        let medium = Medium::new(setup, terms.timeout, now).map_err(|e| (Check::Panic, e))?;
        let capacity = medium.model().layout().capacity();
        let mut daemon = Self {
            setup: setup.clone(),
            all: LbnRange::new(Lbn::ZERO, capacity),
            medium: Rc::new(RefCell::new(medium)),
            files: MemoryFiles::default(),
            running: None,
            contents: Contents::new(capacity.get()),
            asked: BTreeMap::new(),
            next: 0,
            snapshots: Vec::new(),
            named: 0,
            now,
            ticked: now,
            started_unix_ms: 0,
            pace: None,
            ever_bad: BTreeSet::new(),
            may_fail: terms.keep_bytes_max < 1 << 30,
            terms,
            starts: 0,
            dice: Dice::new(mix(setup.seed ^ 0x6461_656d_6f6e)),
            hash: Hash::default(),
            counts: Counts::default(),
        };
        daemon.start()?;
        Ok(daemon)
    }

    fn step(&mut self, step: &Step) -> Result<(), Broken> {
        match *step {
            Step::Advance { ns } => return self.run_until(self.now + Duration::from_nanos(ns)),
            Step::Submit { op, start, len } => self.foreground(op, start, len)?,
            Step::Ask { op, client, snapshot, start, len } => {
                self.background(op, client.into(), snapshot, (start, len))?;
            }
            Step::Declare { client, start, len } => {
                let (range, now) = (self.range(start, len), self.now);
                self.disk()?.declare(now, client.into(), range);
            }
            Step::Close { session } => self.leave(session.into())?,
            Step::Trim { start, len } => {
                let range = self.range(start, len);
                self.write(range, DISCARDED, Ask::Discard)?;
            }
            Step::Flush => {
                let known = self.contents.known(self.all);
                self.ask(LbnRange::new(Lbn::ZERO, Sectors::ZERO), Ask::Flush, Asked::Flush { known })?;
            }
            Step::Snapshot => self.snapshot(None)?,
            Step::Keep { ns } => self.snapshot(Some(ns / 1_000_000))?,
            Step::Forget => self.forget()?,
            Step::Suspend { session } | Step::Resume { session } => {
                let pauses = matches!(step, Step::Suspend { .. });
                self.steer(session, pauses)?;
            }
            Step::Polls { most } => {
                self.pace = most.map(|most| most.max(1));
                self.may_fail |= most.is_some();
            }
            Step::Room { bytes } => {
                self.files.limit("/state", bytes);
                self.may_fail |= bytes.is_some();
            }
            Step::Bad { lbn, stuck } => {
                let lbn = lbn % self.all.len().get();
                self.medium.borrow_mut().spoil(lbn, stuck);
                self.ever_bad.insert(lbn);
            }
            Step::Mend { lbn } => self.medium.borrow_mut().mend(lbn % self.all.len().get()),
            Step::Adopt { knowledge } => self.adopt(knowledge)?,
            Step::Kill { operations } => self.restart(false, operations.into())?,
            Step::PowerCut => {
                let operations = self.dice.below(6);
                self.restart(true, operations)?;
            }
            Step::Settle { .. } => self.settle()?,
            // All other steps set the faults of the next command at the drive, or are for other hosts.
            _ => drop(self.medium.borrow_mut().troubles.take(step)),
        }
        self.after_event()
    }

    fn check(&mut self) -> Result<(), Broken> {
        if let Some(wrong) = self.medium.borrow_mut().wrong.take() {
            return Err((Check::Request, wrong));
        }
        let status = self.daemon()?.disk().status();
        let snapshots = status.snapshot_requests.iter().map(|one| one.requests.memory.held_bytes);
        let live = status.background_requests.map_or(0, |requests| requests.memory.held_bytes);
        let (held, most) = (snapshots.sum::<u64>() + live, self.terms.memory.get());
        hold(held <= most, Check::Bound, || format!("{held} bytes are read ahead, and {most} may be"))?;
        // The kept blocks of a snapshot that has just failed are not counted. If file operations are slow the failure may not
        // be known yet, so the largest file is not counted either.
        let not_failed = self.snapshots.iter().filter(|one| one.state != TaskState::Failed);
        let lengths: Vec<u64> = not_failed.filter_map(|one| self.files.length(&kept_path(one.id))).collect();
        let failing = lengths.iter().max().filter(|_| self.pace.is_some()).copied().unwrap_or(0);
        let (kept, most) = (lengths.iter().sum::<u64>() - failing, self.terms.keep_bytes_max);
        hold(kept <= most, Check::Bound, || format!("{kept} bytes are kept, and {most} may be"))
    }

    fn bad_call(&mut self, kind: Option<u32>) -> Result<(), Broken> {
        // Makes no bad call with a probing learner: a call makes the daemon poll the core, and the learner draws a random
        // number for each query.
        if self.setup.mimic == Mimicry::Probing {
            return Ok(());
        }
        let now = self.now;
        // First the core does all that it can do at this instant, because the bad call will poll it.
        self.disk()?.advance(now);
        self.after_event()?;
        self.run_until(now)?;
        let Some(kind) = kind else { return Ok(()) };
        let beyond = LbnRange::new(self.all.end(), Sectors::new(1));
        let (range, snapshot) =
            if kind.is_multiple_of(2) { (self.all, Some(u64::MAX)) } else { (beyond, None) };
        // A request number that no other request has.
        let (id, ask) = (u64::MAX, Ask::Read);
        let request = BackgroundRequest { id, client: u64::MAX, range, ask, snapshot };
        let disk = self.disk()?;
        disk.ask_in_background(now, request);
        let refused = disk.poll(now).is_some_and(|answer| answer.id == id && answer.result.is_err());
        hold(refused, Check::Refusal, || format!("a bad request of kind {kind} is taken"))
    }

    fn core(&self) -> &Core {
        match &self.running {
            Some(daemon) => daemon.disk().core(),
            None => unreachable!("a step ends with a daemon"),
        }
    }

    fn doors(&self) -> Doors {
        let disk = self.running.as_ref().map(Simulated::disk);
        let waiting = disk.map_or(0, Disk::outstanding);
        Doors { wake: disk.and_then(Device::next_event), busy: None, waiting, at_drive: self.asked.len() }
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn outcome(&self) -> Outcome {
        Outcome { counts: self.counts, hash: self.hash.get() }
    }
}

fn kept_path(task: u64) -> String {
    format!("/state/task-{task}.kept")
}

impl Daemon {
    fn unix_ms(&self) -> u64 {
        DAY_MS + self.now.as_nanos() / 1_000_000
    }

    fn daemon(&mut self) -> Result<&mut Simulated<Wire>, Broken> {
        self.running.as_mut().ok_or_else(|| (Check::Panic, "no daemon runs".into()))
    }

    fn disk(&mut self) -> Result<&mut Disk<Wire, TaskManager>, Broken> {
        Ok(self.daemon()?.disk_mut())
    }

    fn config(&self, outer: Outer) -> Result<(Arc<model::DriveModel>, Config), Broken> {
        let medium = self.medium.borrow();
        let known = outer.known(medium.profile(), &medium.model()).map_err(|e| (Check::Panic, e))?;
        Ok((known, self.setup.config().with_outside(outer.config(medium.overheads))))
    }

    /// Starts a daemon with the existing drive and files.
    fn start(&mut self) -> Result<(), Broken> {
        let refused = |e: String| (Check::Restored, format!("the daemon does not start: {e}"));
        let (known, config) = self.config(self.setup.outside)?;
        let mut disk =
            Disk::new(Wire(Rc::clone(&self.medium)), known, config).map_err(|e| refused(e.to_string()))?;
        if let Some(mimic) = self.setup.mimic.begin(self.all.len(), self.setup.seed) {
            disk.set_mimic(mimic);
        }
        disk.set_timeout(self.terms.timeout);
        let terms = self.terms.background();
        disk.take_background_requests(terms.clone());
        self.starts += 1;
        let facts = DiskFacts {
            name: "disk".into(),
            capacity: self.all.len(),
            sector_bytes: disk.sector_bytes(),
            own: vec!["/disk".into()],
            read_only: false,
            device: None,
        };
        let config = ManagerConfig {
            disk: facts,
            keep_bytes_max: self.terms.keep_bytes_max,
            background: terms,
            seed: u128::from(mix(self.setup.seed ^ self.starts)),
            permits: server::manager::permits::Permits::default(),
            memory: server::manager::budget::Budget::default(),
        };
        let files = self.files.clone();
        let daemon = Simulated::start(disk, config, files, self.now, self.unix_ms());
        self.running = Some(daemon.map_err(|e| refused(e.to_string()))?);
        (self.ticked, self.started_unix_ms) = (self.now, self.unix_ms());
        let trouble = self.disk()?.app().and_then(TaskManager::trouble);
        trouble.map_or(Ok(()), |trouble| Err(refused(trouble)))
    }

    /// Kills the daemon, by a power cut if `power`, and starts it again. Unanswered requests are never answered.
    fn restart(&mut self, power: bool, operations: u64) -> Result<(), Broken> {
        if let Some(daemon) = self.running.take() {
            daemon.kill(operations);
        }
        self.counts.power_cuts += u64::from(power);
        self.counts.kills += u64::from(!power);
        self.asked.clear();
        self.now += DOWNTIME;
        let dice = &mut self.dice;
        if power {
            self.files.power_cut(|n| dice.below(n));
        }
        let restarted = self.medium.borrow_mut().restart(self.now, power, |n| dice.below(n));
        restarted.map_err(|e| (Check::Panic, e))?;
        self.contents.restart(self.medium.borrow().sectors(), power)?;
        self.start()?;
        let manager = self.running.as_ref().and_then(|daemon| daemon.disk().app());
        let manager = manager.ok_or((Check::Panic, String::new()))?;
        // After a restart, a snapshot that had not begun may be gone, and one that had ended may be there again.
        self.snapshots.retain(|one| one.has_begun() || manager.task(one.id).is_some());
        for one in &mut self.snapshots {
            one.state = manager.task(one.id).map_or(one.state, |task| task.state);
        }
        Ok(())
    }

    fn adopt(&mut self, knowledge: Knowledge) -> Result<(), Broken> {
        let (drive, config) = self.config(Outer { knowledge, ..self.setup.outside })?;
        self.counts.adopted += 1;
        let now = self.now;
        // The last argument is for the recording of the disk, but this disk is not recorded.
        let adopted = self.disk()?.adopt(now, Adoption { drive, config }, Default::default());
        adopted.map_err(|e| (Check::Refusal, format!("a model of the same drive is refused: {e}")))
    }

    fn range(&self, start: u64, len: u64) -> LbnRange {
        let start = start % self.all.len().get();
        let len = len.clamp(1, REQUEST_SECTORS_MAX).min(self.all.len().get() - start);
        LbnRange::new(Lbn::new(start), Sectors::new(len))
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn ask(&mut self, range: LbnRange, ask: Ask, asked: Asked) -> Result<(), Broken> {
        let (id, now) = (self.number(), self.now);
        if self.asked.len() < REQUESTS_MAX {
            self.asked.insert(id, asked);
            self.disk()?.ask(now, id, range, ask);
        }
        Ok(())
    }

    fn foreground(&mut self, op: Op, start: u64, len: u64) -> Result<(), Broken> {
        let range = self.range(start, len);
        if op.is_write() {
            let stamp = self.next + 1;
            let bytes = stamped(range, |_| stamp);
            return self.write(range, stamp, Ask::Write { bytes, through: stamp.is_multiple_of(8) });
        }
        let (oldest, newest) = (self.contents.known(range), Some(self.contents.newest(range)));
        self.ask(range, Ask::Read, Asked::Read { range, client: None, oldest, newest })
    }

    fn write(&mut self, range: LbnRange, stamp: u64, ask: Ask) -> Result<(), Broken> {
        if self.asked.len() >= REQUESTS_MAX {
            return Ok(());
        }
        let places = self.contents.arrive(range, stamp);
        let through = matches!(ask, Ask::Write { through: true, .. });
        self.ask(range, ask, Asked::Write { range, places, through })
    }

    /// Sends a background request: for the disk itself if `snapshot` is 0, otherwise for one of the history's snapshots.
    fn background(
        &mut self,
        op: Op,
        client: u64,
        snapshot: u32,
        (start, len): (u64, u64),
    ) -> Result<(), Broken> {
        if self.asked.len() >= REQUESTS_MAX {
            return Ok(());
        }
        let (range, now, id) = (self.range(start, len), self.now, self.number());
        let one = (snapshot as usize).checked_sub(1).map(|at| at % self.snapshots.len().max(1));
        let one = one.and_then(|at| self.snapshots.get(at));
        let (ask, asked, snapshot) = match (one, op.is_write()) {
            (Some(one), _) => {
                let (snapshot, over) = (one.id, one.state.is_over());
                (Ask::Read, Asked::Snapshot { range, client, snapshot, over }, Some(snapshot))
            }
            (None, true) => {
                let places = self.contents.arrive(range, id);
                let through = id.is_multiple_of(4);
                let ask = Ask::Write { bytes: stamped(range, |_| id), through };
                (ask, Asked::Write { range, places, through }, None)
            }
            (None, false) => {
                let oldest = self.contents.known(range);
                (Ask::Read, Asked::Read { range, client: Some(client), oldest, newest: None }, None)
            }
        };
        self.asked.insert(id, asked);
        self.disk()?.ask_in_background(now, BackgroundRequest { id, client, range, ask, snapshot });
        Ok(())
    }

    /// Ends a client of background requests, and checks that exactly its reads are dropped.
    fn leave(&mut self, client: u64) -> Result<(), Broken> {
        self.take_answers()?;
        let now = self.now;
        let mut left: Vec<u64> = self.disk()?.leave(now, client);
        left.sort_unstable();
        let its = self.asked.iter().filter(|(_, asked)| match asked {
            Asked::Read { client: of, .. } => *of == Some(client),
            Asked::Snapshot { client: of, .. } => *of == client,
            _ => false,
        });
        let its: Vec<u64> = its.map(|(id, _)| *id).collect();
        hold(its == left, Check::Once, || format!("client {client} leaves {left:?} behind, of {its:?}"))?;
        its.iter().for_each(|id| drop(self.asked.remove(id)));
        Ok(())
    }

    fn snapshot(&mut self, lasts_ms: Option<u64>) -> Result<(), Broken> {
        if self.snapshots.iter().filter(|one| !one.state.is_over()).count() >= SNAPSHOTS_MAX {
            return Ok(());
        }
        self.named += 1;
        let ends_unix_s = lasts_ms.map(|ms| (self.unix_ms() + ms).div_ceil(1_000));
        let spec = TaskSpec {
            name: Some(format!("s{}", self.named)),
            block_sectors: Some(self.terms.block_sectors),
            expires_unix_s: ends_unix_s,
            ..TaskSpec::new(TaskKind::Snapshot)
        };
        let one = |id, daemon: &Self| {
            Snapshot::new(id, &daemon.contents, daemon.all, ends_unix_s.map(|s| s * 1_000))
        };
        let now = self.now;
        let started = self.disk()?.call(now, |manager, _| manager.start(spec));
        match started {
            Some(Ok(TaskChange { task: id, .. })) => {
                let one = one(id, self);
                hold(self.snapshots.iter().all(|old| old.id != id), Check::Once, || {
                    format!("two snapshots have the number {id}")
                })?;
                self.snapshots.push(one);
                Ok(())
            }
            // The daemon may refuse a snapshot whose end has already passed.
            Some(Err(_)) if ends_unix_s.is_some() => Ok(()),
            refused => Err((Check::Refusal, format!("a snapshot is refused: {refused:?}"))),
        }
    }

    /// Removes the oldest snapshot.
    fn forget(&mut self) -> Result<(), Broken> {
        let now = self.now;
        let Some(one) = self.snapshots.iter_mut().find(|one| !one.state.is_over()) else { return Ok(()) };
        one.removed = true;
        let id = one.id;
        self.disk()?.call(now, |manager, sessions| manager.cancel(sessions, id));
        Ok(())
    }

    fn steer(&mut self, snapshot: u32, pauses: bool) -> Result<(), Broken> {
        let now = self.now;
        let at = snapshot as usize % self.snapshots.len().max(1);
        let Some(id) = self.snapshots.get(at).map(|one| one.id) else { return Ok(()) };
        self.disk()?.call(now, |manager, sessions| match pauses {
            true => manager.pause(sessions, id).is_ok(),
            false => manager.resume(sessions, id).is_ok(),
        });
        Ok(())
    }

    fn run_until(&mut self, until: Instant) -> Result<(), Broken> {
        let mut at_once = 0;
        loop {
            let tick = self.ticked + TICK_INTERVAL;
            let event = self.disk()?.next_event().unwrap_or(tick).min(tick).max(self.now);
            if event > until {
                self.now = until;
                return Ok(());
            }
            at_once = if event == self.now { at_once + 1 } else { 0 };
            hold(at_once < EVENTS_PER_INSTANT_MAX, Check::Endless, || "time stands still".into())?;
            self.now = event;
            let (now, unix_ms) = (self.now, self.unix_ms());
            self.disk()?.advance(now);
            if now >= tick {
                self.ticked = now;
                self.daemon()?.tick(now, unix_ms);
            }
            self.after_event()?;
        }
    }

    /// Executes file operations, takes answers, and checks the states of the snapshots.
    fn after_event(&mut self) -> Result<(), Broken> {
        for _ in 0..self.pace.unwrap_or(u32::MAX) {
            let (now, nth) = (self.now, self.dice.below(64) as usize);
            if !self.daemon()?.do_file_request(now, nth) {
                break;
            }
        }
        self.take_answers()?;
        self.look_at_snapshots()
    }

    fn look_at_snapshots(&mut self) -> Result<(), Broken> {
        let (unix_ms, started_unix_ms) = (self.unix_ms(), self.started_unix_ms);
        let faults = self.medium.borrow().faults;
        let Self { running: Some(daemon), snapshots, contents, all, .. } = self else { return Ok(()) };
        let served = daemon.disk().snapshots();
        let Some(manager) = daemon.disk().app() else { return Ok(()) };
        for one in snapshots.iter_mut().filter(|one| !one.state.is_over()) {
            let id = one.id;
            let Some(task) = manager.task(id) else {
                return Err((Check::Restored, format!("snapshot {id} is forgotten")));
            };
            let is_served = served.iter().any(|there| there.number == id);
            if is_served {
                one.begin(contents, *all);
            }
            let expired = one.ends_unix_ms.is_some_and(|ends| ends <= unix_ms);
            let permitted = match task.state {
                TaskState::Done => expired,
                TaskState::Failed => self.may_fail || faults > 0,
                TaskState::Cancelled => one.removed,
                // The snapshot may still be waiting to begin. It may be past its end if its files have no space for the record
                // of the end, but then it must not be served.
                _ => {
                    self.may_fail && !is_served
                        || !one.has_begun()
                        || one.ends_unix_ms.is_none_or(|ends| unix_ms <= ends.max(started_unix_ms) + 1_500)
                }
            };
            hold(permitted, Check::Restored, || {
                format!(
                    "snapshot {id}, which ends at {:?}: {:?} {:?}",
                    one.ends_unix_ms, task.state, task.reason
                )
            })?;
            one.state = task.state;
        }
        Ok(())
    }
}
