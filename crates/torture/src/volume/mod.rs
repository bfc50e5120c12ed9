//! The host of a volume: a simulated drive with bytes, and the applications on it.
//!
//! The drive has four parts: a volume with snapshots, a part behind a write-back cache, a part whose blocks a reorganiser
//! moves, and a plain part. The bytes of every sector name its LBN and its last write, so that each read can be compared with
//! the permitted contents ([`Shadow`]).

mod backups;
mod cached;
mod fetched;
mod logged;
mod looked;
mod moved;
mod seat;
mod settle;
mod shadow;
mod snapshots;
mod standing;

use crate::clients::{Clients, range};
use crate::counts::Counts;
use crate::dice::{Dice, mix};
use crate::failure::{Broken, Check, hold};
use crate::hash::Hash;
use crate::medium::lbns;
use crate::misuse::{bad_range, refuse_session};
use crate::setup::Setup;
use crate::stage::{Doors, Outcome, Stage};
use crate::step::Step;
use apps::reorganizer::Access;
use apps::snapshot::WriteId;
use backups::Backups;
use cached::Cached;
use fetched::Client;
use logged::{LogOperation, Logged};
use looked::Looked;
use model::DriveModel;
use moved::Moved;
use scheduler::{Core, SubmitError};
use shadow::{Floors, Shadow};
use sim::{Completion, Cure, Faults, PlacedCore, Platters, Volume, VolumeError};
use snapshots::Snapshots;
use standing::Standing;
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId};

/// The longest permitted time of a foreground request. A lost command takes half a second, and no history loses hundreds of
/// commands for one request.
const FOREGROUND_TIME_MAX: Duration = Duration::from_secs(120);

/// The number of actions at one instant that counts as an endless loop.
const ACTIONS_PER_INSTANT_MAX: u32 = 1 << 16;

/// A part of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Snapshots,
    Cached,
    Moved,
    Plain,
}

const PARTS: [Part; 4] = [Part::Snapshots, Part::Cached, Part::Moved, Part::Plain];

/// A read or write of a client, which takes one or more requests of the volume.
#[derive(Debug)]
struct Job {
    op: Op,
    /// The range in the client's addresses.
    range: LbnRange,
    began: Instant,
    /// The bytes to be written, or the bytes that were read.
    bytes: Vec<u8>,
    /// The oldest permitted content of each sector of a read.
    floors: Floors,
    /// The version of a write.
    version: u64,
    /// The number of unfinished requests.
    left: usize,
    /// Whether a request has failed.
    failed: bool,
    way: Way,
}

/// The way in which a job is executed.
#[derive(Debug)]
enum Way {
    /// All requests at once.
    Straight,
    /// A write to the volume with snapshots, one request after another; with the bytes of its last read.
    Steps(WriteId, Vec<u8>),
    /// An access to blocks that the reorganiser moves.
    Access(Access),
}

/// The owner of a request.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// A job, and the part of its range that the request reads or writes.
    Job(u64, LbnRange),
    Cache(RequestId),
    Log,
    None,
}

pub(crate) struct House {
    place: Standing,
    drive: Arc<DriveModel>,
    volume: Volume,
    /// The number of power cuts so far.
    life: u64,
    faults: Faults,
    parts: [LbnRange; 4],
    /// The parts in which a sector has ever been bad.
    spoilt: [bool; 4],
    shadow: Shadow,
    sector: usize,
    requests: BTreeMap<RequestId, Whose>,
    jobs: BTreeMap<u64, Job>,
    next_job: u64,
    cached: Cached,
    snapshots: Snapshots,
    backups: Backups,
    moved: Option<Moved>,
    client: Option<Client>,
    /// The log-structured disk that may occupy the plain part.
    logged: Option<Logged>,
    looked: Looked,
    dice: Dice,
    hash: Hash,
    counts: Counts,
}

impl Stage for House {
    fn open(setup: &Setup) -> Result<Self, Broken> {
        Self::new(setup)
    }

    fn step(&mut self, step: &Step) -> Result<(), Broken> {
        self.take(step)
    }

    fn check(&mut self) -> Result<(), Broken> {
        self.check_all()
    }

    /// Makes a bad call of a session, or a bad request of the volume.
    fn bad_call(&mut self, kind: Option<u32>) -> Result<(), Broken> {
        let capacity = self.drive.layout().capacity();
        let (bad, session) = match kind.map(|kind| (kind, bad_range(capacity, kind))) {
            None => (None, None),
            Some((kind, None)) => (None, Some(kind)),
            Some((kind, Some(range))) => (Some((kind, range)), None),
        };
        let reported = self.volume.call(self.cached.place(), |_, sessions| {
            session.map_or(Ok(()), |kind| refuse_session(sessions, &Clients::default(), capacity, kind))
        });
        reported.unwrap_or(Ok(()))?;
        let Some((kind, range)) = bad else { return Ok(()) };
        let reported = self.volume.submit_read(range);
        let right = match range.is_empty() {
            true => matches!(reported, Err(VolumeError::Submit(SubmitError::Empty { .. }))),
            false => matches!(reported, Err(VolumeError::Submit(SubmitError::PastEnd { .. }))),
        };
        hold(right, Check::Refusal, || format!("misuse {kind} is answered {reported:?}"))
    }

    fn core(&self) -> &Core {
        self.volume.core()
    }

    fn doors(&self) -> Doors {
        let core = self.volume.placed();
        let (busy, at_drive) = match core {
            PlacedCore::In(core) => (core.busy_until(), 0),
            PlacedCore::Outside(core) => (None, core.at_drive()),
        };
        Doors { wake: core.wake_at(), busy, waiting: core.pending(), at_drive }
    }

    fn now(&self) -> Instant {
        self.volume.now()
    }

    fn outcome(&self) -> Outcome {
        Outcome { counts: self.counts, hash: self.hash.get() }
    }
}

impl House {
    pub fn new(setup: &Setup) -> Result<Self, Broken> {
        let drive = Arc::new(setup.drive.build().map_err(|e| (Check::Panic, e))?);
        let mut dice = Dice::new(mix(setup.seed));
        // The pool is large, because the applications do not expect that requests are refused.
        let config = setup.config().with_most_pending(1 << 12);
        let (capacity, sector) = (drive.layout().capacity().get(), drive.sector_bytes().get() as usize);
        let quarter = (capacity / 4).max(1).min(capacity);
        let parts = [0, 1, 2, 3].map(|part| {
            let start = (part * quarter).min(capacity - 1);
            let end = if part == 3 { capacity } else { ((part + 1) * quarter).min(capacity) };
            range(start, end.saturating_sub(start))
        });
        let shadow = Shadow::new(capacity, sector);
        let mut platters = Platters::blank(&drive);
        for lbn in lbns(range(0, capacity)) {
            let reported = platters.medium_mut().write(range(lbn.get(), 1), &shadow.stamped(lbn, 0));
            reported.map_err(refused)?;
        }
        let ppm = |dice: &mut Dice| if dice.one_in(2) { 0 } else { dice.below(100_000) as u32 };
        let faults = Faults {
            lost_ppm: ppm(&mut dice),
            late_ppm: ppm(&mut dice),
            seed: dice.next(),
            ..Faults::default()
        };
        let now = Instant::from_nanos(setup.start_ns);
        let place = Standing::new(setup, drive, config)?;
        let mut volume = place.volume(now, 0, platters)?;
        volume.set_faults(faults);
        let cached = Cached::new(&mut volume, parts[1], &mut dice)?;
        let snapshots = Snapshots::new(parts[0], &mut dice)?;
        let logged = match setup.log {
            true => Logged::new(&mut volume, parts[3], sector, setup.seed)?,
            false => None,
        };
        Ok(Self {
            drive: Arc::clone(&place.known),
            place,
            volume,
            life: 0,
            faults,
            parts,
            spoilt: [false; 4],
            shadow,
            sector,
            requests: BTreeMap::new(),
            jobs: BTreeMap::new(),
            next_job: 0,
            cached,
            snapshots,
            backups: Backups::default(),
            moved: None,
            client: None,
            logged,
            looked: Looked::default(),
            dice,
            hash: Hash::default(),
            counts: Counts::default(),
        })
    }

    /// Returns the parameters that were drawn from the seed, as text.
    pub fn drawn(&self) -> String {
        let Self { parts, faults, cached, snapshots, logged, .. } = self;
        let logged = logged.as_ref().map_or_else(String::new, |logged| format!(" {}", logged.drawn()));
        format!("{parts:?} {faults:?} {} {}{logged}", cached.drawn(), snapshots.drawn())
    }

    fn now(&self) -> Instant {
        self.volume.now()
    }

    fn range_of(&self, part: Part) -> LbnRange {
        self.parts[part as usize]
    }

    fn is_spoilt(&self, part: Part) -> bool {
        self.spoilt[part as usize]
    }

    fn part_of(&self, lbn: Lbn) -> Part {
        PARTS.into_iter().find(|part| self.range_of(*part).contains(lbn)).unwrap_or(Part::Plain)
    }

    /// Returns a part of the drive, and a range within it, for any two numbers.
    fn clip(&self, start: u64, len: u64) -> (Part, LbnRange) {
        let capacity = self.drive.layout().capacity().get();
        let start = Lbn::new(start % capacity);
        let part = self.part_of(start);
        let mut end = self.range_of(part).end();
        if part == Part::Snapshots {
            // Clients cannot address the sectors that are reserved for copies.
            end = self.snapshots.end().max(start);
        }
        let most = end.since(start).get();
        (part, range(start.get(), len.min(most)))
    }

    fn take(&mut self, step: &Step) -> Result<(), Broken> {
        match *step {
            Step::Submit { op, start, len } => {
                let (part, range) = self.clip(start, len.clamp(1, 256));
                self.submit(op, part, range)?;
            }
            Step::Advance { ns } => return self.run(Duration::from_nanos(ns)),
            Step::Bad { lbn, stuck } => self.spoil(lbn, if stuck { Cure::None } else { Cure::Write }),
            Step::Mend { lbn } => {
                let lbn = Lbn::new(lbn % self.drive.layout().capacity().get());
                self.mend(|bad| bad == lbn);
            }
            Step::PowerCut => self.power_cut()?,
            Step::Suspend { session } => self.suspend(session, true)?,
            Step::Resume { session } => self.suspend(session, false)?,
            Step::Flush => {
                self.flush()?;
                self.sync_log();
            }
            Step::Trim { start, len } => {
                let (part, range) = self.clip(start, len.clamp(1, 256));
                if self.is_logged(part) {
                    self.ask_log(LogOperation::Trim, range);
                }
                self.trim(part, range)?;
            }
            Step::Snapshot => self.take_snapshot()?,
            Step::Forget => self.forget_snapshot()?,
            Step::Backup { priority, difference } => self.start_backup(priority, difference)?,
            Step::Room { bytes } => self.room(bytes),
            Step::Reorganize { priority } => self.start_moving(priority)?,
            Step::Nvram { operations } => {
                if let Some(moved) = &self.moved {
                    moved.memory.dies_after(Some(operations));
                }
            }
            Step::Records { priority, records, bytes } => self.records(priority, records, bytes)?,
            Step::Task { op, task, start, len, block, .. } => {
                self.ask_records(task, op, (start, len, block))?;
            }
            Step::Abort { task } => self.abort_records(task)?,
            Step::AbortRange { start, len, .. } => self.abort_range_records(start, len)?,
            Step::Promote { start, len, .. } => self.promote_records(start, len)?,
            Step::Fetch { wait, most } => self.fetch(wait, most)?,
            Step::Settle { .. } => self.settle()?,
            // All other steps are for other hosts.
            _ => {}
        }
        self.pump()
    }

    /// Checks the conditions that hold after every step.
    fn check_all(&mut self) -> Result<(), Broken> {
        let log = self.logged.as_ref().and_then(Logged::oldest);
        let begun = self.jobs.values().map(|job| job.began).chain(self.cached.oldest()).chain(log).min();
        let waited = begun.map_or(Duration::ZERO, |began| self.now().saturating_since(began));
        hold(waited < FOREGROUND_TIME_MAX, Check::Hang, || {
            format!("a request or a call has waited for {} s: {}", waited.as_secs_f64(), self.reported())
        })?;
        self.check_medium()
    }

    /// Returns a description of the unfinished work, for messages.
    fn reported(&self) -> String {
        let (jobs, calls) = (self.jobs.len(), self.cached.calls());
        let (backups, moved) = (self.backups.reported(&self.volume), self.progress());
        let dirty = self.cached.cache(&self.volume).map_or(0, |cache| cache.dirty());
        let log = self.log_calls();
        format!(
            "{jobs} requests, {calls} calls of the cache, {dirty} dirty, {log} of the log, {backups}, moved {moved:?}"
        )
    }

    fn spoil(&mut self, lbn: u64, cure: Cure) {
        let lbn = Lbn::new(lbn % self.drive.layout().capacity().get());
        if self.is_logged(self.part_of(lbn)) {
            // The log-structured disk does not handle unreadable sectors.
            return;
        }
        self.spoilt[self.part_of(lbn) as usize] = true;
        self.volume.platters_mut().spoil(lbn, cure);
    }

    fn mend(&mut self, which: impl Fn(Lbn) -> bool) {
        let old = self.volume.platters();
        let mut platters = Platters::new(old.medium().clone());
        old.bad().filter(|(lbn, _)| !which(*lbn)).for_each(|(lbn, cure)| platters.spoil(lbn, cure));
        *self.volume.platters_mut() = platters;
    }

    /// Advances the time.
    fn run(&mut self, time: Duration) -> Result<(), Broken> {
        let until = self.now() + time;
        self.pump()?;
        let mut polled = (self.now(), 0);
        loop {
            let wake = self.cached.cache(&self.volume).and_then(|cache| cache.wake());
            let wake = wake.into_iter().chain(self.fetch_due()).min().map(|at| at.max(self.now()));
            let next = self.volume.next_at();
            let Some(at) = next.into_iter().chain(wake).min().filter(|at| *at <= until) else { break };
            polled = if at == polled.0 { (at, polled.1 + 1) } else { (at, 0) };
            hold(polled.1 < ACTIONS_PER_INSTANT_MAX, Check::Endless, || {
                format!("time does not go on: {}", self.reported())
            })?;
            if next == Some(at) {
                self.volume.step().map_err(refused)?;
            } else {
                self.volume.run_until(at).map_err(refused)?;
            }
            self.pump()?;
        }
        self.volume.run_until(until).map_err(refused)?;
        self.pump()
    }

    /// Takes completions, and lets all applications act, until none has more to do.
    fn pump(&mut self) -> Result<(), Broken> {
        for _ in 0..ACTIONS_PER_INSTANT_MAX {
            let mut did = false;
            while let Some(done) = self.volume.completion() {
                self.completed(&done)?;
                did = true;
            }
            did |= self.poll_cache()?;
            did |= self.poll_log()?;
            did |= self.look_at_records()?;
            self.look_at_backups()?;
            if !did {
                return Ok(());
            }
        }
        Err((Check::Endless, format!("something is done again and again: {}", self.reported())))
    }

    /// Submits a client's read or write. The call is left out if it would race with an unfinished one ([`Self::is_busy`]).
    fn submit(&mut self, op: Op, part: Part, range: LbnRange) -> Result<(), Broken> {
        if range.is_empty() {
            return Ok(());
        }
        match part {
            Part::Cached => self.call(op, range),
            Part::Plain if self.logged.is_some() => {
                self.ask_log(if op.is_write() { LogOperation::Write } else { LogOperation::Read }, range);
                Ok(())
            }
            Part::Snapshots if self.is_busy(op, self.snapshots.blocks_around(range)) => Ok(()),
            Part::Moved | Part::Plain if self.is_busy(op, range) => Ok(()),
            Part::Snapshots if op.is_write() => self.begin_steps(range),
            Part::Snapshots => {
                let places = self.snapshots.places(range);
                let id = self.job(op, range, Way::Straight);
                self.go(id, &places)
            }
            Part::Moved if self.moved.is_some() => self.begin_access(op, range),
            Part::Moved | Part::Plain => {
                let id = self.job(op, range, Way::Straight);
                self.go(id, &[(range, range)])
            }
        }
    }

    /// Returns whether a call would race with an unfinished one: two writes that overlap, or, in the volume with snapshots, any
    /// call that overlaps a write, because a write may free sectors that are reused at once.
    fn is_busy(&self, op: Op, range: LbnRange) -> bool {
        let alone = self.part_of(range.start()) == Part::Snapshots;
        let races = |job: &Job| match (job.op, op) {
            (Op::Write, Op::Write) => true,
            (Op::Read, Op::Read) => false,
            _ => alone,
        };
        self.jobs.values().any(|job| races(job) && job.range.overlaps(range))
    }

    fn job(&mut self, op: Op, range: LbnRange, way: Way) -> u64 {
        let id = self.next_job;
        self.next_job += 1;
        let (bytes, version) = match op {
            Op::Write => (self.shadow.next_bytes(range), self.shadow.issue(range)),
            Op::Read => (vec![0; range.len().get() as usize * self.sector], 0),
        };
        let (floors, began) = (self.shadow.floors(range), self.now());
        self.jobs.insert(id, Job { op, range, began, bytes, floors, version, left: 0, failed: false, way });
        id
    }

    /// Submits the requests of a job: pairs of a part of its range, and the place of that part on the drive.
    fn go(&mut self, id: u64, places: &[(LbnRange, LbnRange)]) -> Result<(), Broken> {
        let Some(job) = self.jobs.get_mut(&id) else { return Ok(()) };
        job.left = places.len();
        let op = job.op;
        for &(part, place) in places {
            let request = match op {
                Op::Read => self.volume.submit_read(place),
                Op::Write => {
                    let job = &self.jobs[&id];
                    let from = part.start().since(job.range.start()).get() as usize * self.sector;
                    let bytes = job.bytes[from..from + part.len().get() as usize * self.sector].to_vec();
                    self.volume.submit_write(place, bytes)
                }
            };
            self.requests.insert(request.map_err(refused)?, Whose::Job(id, part));
        }
        if places.is_empty() { self.end(id) } else { Ok(()) }
    }

    fn completed(&mut self, done: &Completion) -> Result<(), Broken> {
        self.counts.requests += 1;
        self.hash.add_answer(done.id, done.at);
        let part = self.part_of(done.range.start());
        let reported =
            done.bad.is_none() || (self.is_spoilt(part) && done.bad.is_some_and(|b| done.range.contains(b)));
        hold(reported, Check::Bad, || format!("{} fails at {:?}, which is good", done.id, done.bad))?;
        match self.requests.remove(&done.id) {
            Some(Whose::Job(id, part)) => self.job_completed(id, part, done),
            Some(Whose::Cache(id)) => self.cache_completed(id, done),
            Some(Whose::Log) => self.log_completed(done),
            Some(Whose::None) => Ok(()),
            None => Err((Check::Once, format!("{} is completed, but is not outstanding", done.id))),
        }
    }

    fn job_completed(&mut self, id: u64, part: LbnRange, done: &Completion) -> Result<(), Broken> {
        let Some(job) = self.jobs.get_mut(&id) else { return Ok(()) };
        job.left -= 1;
        job.failed |= done.bad.is_some();
        if let Way::Steps(write, read) = &mut job.way {
            if done.op == Op::Read {
                *read = done.bytes.clone();
            }
            let write = *write;
            return self.step_done(id, write, done.bad.is_some());
        }
        if done.op == Op::Read && done.bad.is_none() {
            let from = part.start().since(job.range.start()).get() as usize * self.sector;
            job.bytes[from..from + done.bytes.len()].copy_from_slice(&done.bytes);
        }
        if job.left > 0 { Ok(()) } else { self.end(id) }
    }

    /// Ends a job, and checks the bytes of a read.
    fn end(&mut self, id: u64) -> Result<(), Broken> {
        let Some(job) = self.jobs.remove(&id) else { return Ok(()) };
        if let Way::Access(access) = job.way {
            self.end_access(access)?;
        }
        match job.op {
            _ if job.failed => Ok(()),
            Op::Write => {
                self.shadow.acknowledge(job.range, job.version);
                Ok(())
            }
            Op::Read => {
                let wrong = self.shadow.wrong(job.range, &job.bytes, &job.floors);
                hold(wrong.is_none(), Check::Stale, || {
                    format!("a read of {} gets {}", job.range, wrong.unwrap_or_default())
                })
            }
        }
    }

    /// Checks that the sectors of the range `of`, which lie at `place`, have a permitted content. Bad sectors are not checked.
    fn check_place(
        &self,
        of: LbnRange,
        place: LbnRange,
        floors: &[Option<u64>],
        check: Check,
    ) -> Result<(), Broken> {
        let platters = self.volume.platters();
        let mut bytes = vec![0; of.len().get() as usize * self.sector];
        platters.medium().read(place, &mut bytes).map_err(refused)?;
        let mut wrong = self.shadow.wrong(of, &bytes, floors);
        if wrong.is_some() && platters.first_bad(place).is_some() {
            let mut floors = floors.to_vec();
            for (bad, _) in platters.bad().filter(|(bad, _)| place.contains(*bad)) {
                floors[bad.since(place.start()).get() as usize] = None;
            }
            wrong = self.shadow.wrong(of, &bytes, &floors);
        }
        hold(wrong.is_none(), check, || wrong.unwrap_or_default())
    }

    /// Cuts the power at this instant and restores it: a new volume starts with the surviving medium.
    fn power_cut(&mut self) -> Result<(), Broken> {
        self.counts.power_cuts += 1;
        self.life += 1;
        let now = self.now();
        let contents = self.cached.contents(&self.volume);
        let known = self.log_known();
        let blank = self.place.volume(now, self.life, Platters::blank(&self.drive))?;
        let old = std::mem::replace(&mut self.volume, blank);
        let platters = old.power_cut().map_err(refused)?;
        self.volume = self.place.volume(now, self.life, platters)?;
        self.volume.set_faults(Faults { seed: self.faults.seed.wrapping_add(self.life), ..self.faults });
        self.requests.clear();
        self.jobs.clear();
        self.cache_restarts(contents)?;
        self.snapshots.restart()?;
        self.backups_restart()?;
        self.moving_restarts()?;
        self.records_restart()?;
        self.log_restarts(known)?;
        self.check_medium()
    }

    fn suspend(&mut self, which: u32, on: bool) -> Result<(), Broken> {
        match which % 3 {
            0 => self.cached.suspend(&mut self.volume, on),
            2 if self.logged.is_some() => self.suspend_log(on),
            2 => self.suspend_records(on),
            _ => self.backups.suspend(&mut self.volume, on),
        }
    }
}

/// Returns the failure of a call that must be accepted.
fn refused(error: impl std::fmt::Display) -> Broken {
    (Check::Refusal, format!("refused: {error}"))
}
