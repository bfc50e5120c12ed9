//! A volume, a client with random actions, and the ledger that checks the results.

use super::ledger::{Ledger, Pass, Task, encode};
use freeblock_sim::{Cure, Faults, Place, Platters, Volume};
use model::DriveModel;
use model::random_profile::{Size, random_profile};
use proptest::prelude::*;
use scheduler::policy::PolicyName;
use scheduler::{Application, Config, IdleTime, Parameter, Priority, Record, Sessions, Sharing, Wanted};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId, TaskId};

pub type Shared = Rc<RefCell<Ledger>>;

#[derive(Clone, Debug)]
pub enum VolumeStep {
    Open(u8),
    Foreground { write: bool, start: u64, len: u64 },
    Task { write: bool, session: usize, start: u64, len: u64, block: u64 },
    Abort(usize),
    AbortRange { session: usize, start: u64, len: u64 },
    Promote { session: usize, start: u64, len: u64 },
    Suspend(usize),
    Resume(usize),
    Strict(usize),
    Close(usize),
    Refuse(u32),
    Run(u64),
    Spoil { lbn: u64, forever: bool },
    PowerCut,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub drive: u64,
    pub policy: PolicyName,
    pub sharing: Sharing,
    pub idle: bool,
    pub partials: usize,
    pub seed: u64,
    pub lost_ppm: u32,
    pub late_ppm: u32,
    pub spoilt_ppm: u32,
}

pub fn plans(faults: bool) -> impl Strategy<Value = Plan> {
    let policy = prop_oneof![Just(PolicyName::Fcfs), Just(PolicyName::CLook), Just(PolicyName::Sptf)];
    let sharing = prop_oneof![Just(Sharing::Lottery), Just(Sharing::Greedy)];
    let ppm = move |most: u32| if faults { prop_oneof![Just(0), 0..most].boxed() } else { Just(0).boxed() };
    let partials = prop_oneof![Just(1 << 15), Just(1), 1..4usize];
    (
        any::<u64>(),
        policy,
        sharing,
        any::<bool>(),
        partials,
        any::<u64>(),
        (ppm(100_000), ppm(100_000), ppm(20_000)),
    )
        .prop_map(|(drive, policy, sharing, idle, partials, seed, (lost_ppm, late_ppm, spoilt_ppm))| {
            Plan { drive, policy, sharing, idle, partials, seed, lost_ppm, late_ppm, spoilt_ppm }
        })
}

pub fn steps(faults: bool) -> impl Strategy<Value = Vec<VolumeStep>> {
    // Some places are used often, so that tasks overlap.
    let start = || prop_oneof![any::<u64>(), 0..60u64];
    let run = prop_oneof![4 => 1..30_000u64, 2 => 0..500u64, 1 => 30_000..300_000u64];
    let fault = prop_oneof![
        (start(), any::<bool>()).prop_map(|(lbn, forever)| VolumeStep::Spoil { lbn, forever }),
        Just(VolumeStep::PowerCut),
    ];
    let fault = if faults { fault.boxed() } else { Just(VolumeStep::Run(1)).boxed() };
    let step = prop_oneof![
        1 => (1..100u8).prop_map(VolumeStep::Open),
        6 => (any::<bool>(), start(), 1..40u64).prop_map(|(write, start, len)| VolumeStep::Foreground { write, start, len }),
        5 => (any::<bool>(), 0..3usize, start(), 1..200u64, prop_oneof![1..12u64, 12..200u64])
            .prop_map(|(write, session, start, len, block)| VolumeStep::Task { write, session, start, len, block }),
        1 => (0..20usize).prop_map(VolumeStep::Abort),
        1 => (0..3usize, start(), 1..60u64).prop_map(|(session, start, len)| VolumeStep::AbortRange { session, start, len }),
        1 => (0..3usize, start(), 1..60u64).prop_map(|(session, start, len)| VolumeStep::Promote { session, start, len }),
        1 => (0..3usize).prop_map(VolumeStep::Suspend),
        1 => (0..3usize).prop_map(VolumeStep::Resume),
        1 => (0..3usize).prop_map(VolumeStep::Strict),
        1 => (0..6usize).prop_map(VolumeStep::Close),
        1 => (0..6u32).prop_map(VolumeStep::Refuse),
        10 => run.prop_map(VolumeStep::Run),
        2 => fault,
    ];
    prop::collection::vec(step, 1..120)
}

/// The volume's application, which records everything.
pub struct Scribe {
    ledger: Shared,
    sector: usize,
}

impl Application for Scribe {
    fn done(&mut self, _: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant) {
        let mut ledger = self.ledger.borrow_mut();
        ledger.delivered += 1;
        let Some(task) = ledger.tasks.get_mut(&done.task) else {
            return ledger.problem(format!("a record of no task: {done:?}"));
        };
        let offset = done.range.start().get().wrapping_sub(task.range.start().get());
        let len = task.block.min(task.range.len().get().wrapping_sub(offset));
        let mut problems = Vec::new();
        if task.session != done.session
            || task.op != done.op
            || done.parameter != Parameter(task.version as u64)
        {
            problems.push("its session, operation or parameter are not the registered ones");
        }
        if offset % task.block != 0 || len != done.range.len().get() {
            problems.push("it is no block of its task");
        }
        if !task.came.insert(done.range) {
            problems.push("it was delivered twice");
        }
        if task.ended.is_some() {
            problems.push("its task had ended");
        }
        let (registered, op, version, session) = (task.registered, task.op, task.version, task.session);
        let whole = task.left() == 0;
        for problem in problems {
            ledger.problem(format!("{done:?}: {problem}"));
        }
        let of_session = |ledger: &Ledger| -> u64 {
            let open = ledger.tasks.values().filter(|t| t.session == session && t.ended.is_none());
            open.map(Task::left).sum()
        };
        let left = of_session(&ledger);
        if done.last != (left == 0) {
            ledger.problem(format!("{done:?}: {left} blocks are left of its session"));
        }
        if let Some(bad) = done.bad {
            if !ledger.any_bad && !ledger.bad.contains(&bad) || !done.range.contains(bad) {
                ledger.problem(format!("{done:?}: that sector was never bad"));
            }
            if !bytes.is_empty() {
                ledger.problem(format!("{done:?}: bytes with an error"));
            }
            return;
        }
        ledger.check_passed(done.range, registered);
        match op {
            Op::Read => ledger.check_bytes("a background read", done.range, bytes, registered, now),
            Op::Write if whole => {
                // If a block was withdrawn or failed, not all of the write is on the medium.
                let task = &ledger.tasks[&done.task];
                if !task.doubt && !ledger.any_bad && ledger.bad.is_empty() {
                    ledger.writes[version].end = Some(now);
                }
            }
            Op::Write => {}
        }
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let mut ledger = self.ledger.borrow_mut();
        if ledger.refuse > 0 {
            ledger.refuse -= 1;
            return false;
        }
        let Some(task) = ledger.tasks.get(&wanted.task) else {
            ledger.problem(format!("a buffer for no task: {wanted:?}"));
            return false;
        };
        let inside = task.range.covers(wanted.range);
        let (version, ended) = (task.version, task.ended.is_some());
        if !inside || ended || wanted.parameter != Parameter(version as u64) {
            ledger.problem(format!("a buffer for a range that is not wanted: {wanted:?}"));
        }
        into.copy_from_slice(&encode(wanted.range, version, self.sector));
        true
    }
}

pub struct World {
    pub plan: Plan,
    pub drive: Arc<DriveModel>,
    pub volume: Volume,
    pub scribe: Place<Scribe>,
    pub ledger: Shared,
    pub sessions: Vec<SessionId>,
    pub open: Vec<SessionId>,
    pub tasks: Vec<TaskId>,
    pub requests: BTreeMap<RequestId, (Op, LbnRange, Instant, usize)>,
    pub completions: Vec<(RequestId, Instant)>,
    sector: usize,
}

impl World {
    pub fn new(plan: &Plan) -> Self {
        let drive = Arc::new(DriveModel::from_profile(&random_profile(plan.drive, Size::Tiny)).unwrap());
        let platters = Platters::blank(&drive);
        let ledger = Shared::default();
        let (volume, scribe) = Self::start(plan, &drive, platters, Instant::ZERO, &ledger, 0);
        Self {
            plan: plan.clone(),
            sector: drive.sector_bytes().get() as usize,
            drive,
            volume,
            scribe,
            ledger,
            sessions: Vec::new(),
            open: Vec::new(),
            tasks: Vec::new(),
            requests: BTreeMap::new(),
            completions: Vec::new(),
        }
    }

    fn start(
        plan: &Plan,
        drive: &Arc<DriveModel>,
        platters: Platters,
        now: Instant,
        ledger: &Shared,
        life: u64,
    ) -> (Volume, Place<Scribe>) {
        let config = Config::default()
            .with_policy(plan.policy)
            .with_sharing(plan.sharing)
            .with_idle(plan.idle.then(IdleTime::default))
            .with_most_partials(plan.partials)
            .with_seed(plan.seed);
        let mut volume = Volume::starting_at(now, Arc::clone(drive), config, platters).unwrap();
        volume.set_faults(Faults {
            seed: plan.seed + life,
            lost_ppm: plan.lost_ppm,
            late_ppm: plan.late_ppm,
            spoilt_ppm: plan.spoilt_ppm,
            ..Faults::default()
        });
        ledger.borrow_mut().any_bad |= plan.spoilt_ppm > 0;
        let sector = drive.sector_bytes().get() as usize;
        let scribe = volume.host(Scribe { ledger: Rc::clone(ledger), sector });
        let watching = Rc::clone(ledger);
        volume.watch(move |passed| {
            let mut ledger = watching.borrow_mut();
            // Sectors of lost work do not count, because the core orders that work again.
            for lbn in (passed.range.start().get()..passed.range.end().get()).filter(|_| !passed.lost) {
                ledger.passes.insert(Lbn::new(lbn), Pass { began: passed.began });
            }
        });
        (volume, scribe)
    }

    fn range(&self, start: u64, len: u64) -> LbnRange {
        let capacity = self.drive.layout().capacity().get();
        let start = start % capacity;
        LbnRange::new(Lbn::new(start), Sectors::new(len.min(capacity - start)))
    }

    fn sessions<R>(&mut self, call: impl FnOnce(&mut dyn Sessions) -> R) -> R {
        self.volume.call(self.scribe, |_, sessions| call(sessions)).unwrap()
    }

    fn session(&self, at: usize) -> Option<SessionId> {
        self.open.get(at % self.open.len().max(1)).copied()
    }

    pub fn foreground(&mut self, write: bool, range: LbnRange) {
        let now = self.volume.now();
        if write {
            let number = self.ledger.borrow_mut().write(now, range, true);
            let id = self.volume.submit_write(range, encode(range, number, self.sector)).unwrap();
            self.requests.insert(id, (Op::Write, range, now, number));
        } else {
            let id = self.volume.submit_read(range).unwrap();
            self.requests.insert(id, (Op::Read, range, now, 0));
        }
    }

    pub fn step(&mut self, step: &VolumeStep) {
        let now = self.volume.now();
        match *step {
            VolumeStep::Open(priority) => {
                if self.open.len() < 4 {
                    let priority = Priority::new(priority).unwrap();
                    let id = self.sessions(|s| s.open(priority)).unwrap();
                    self.sessions.push(id);
                    self.open.push(id);
                }
            }
            VolumeStep::Foreground { write, start, len } => self.foreground(write, self.range(start, len)),
            VolumeStep::Task { write, session, start, len, block } => {
                let Some(session) = self.session(session) else { return };
                let (range, size) = (self.range(start, len), Sectors::new(block));
                let op = if write { Op::Write } else { Op::Read };
                let version = if write { self.ledger.borrow_mut().write(now, range, false) } else { 0 };
                let parameter = Parameter(version as u64);
                let id = self
                    .sessions(|s| match op {
                        Op::Read => s.read(session, range, size, parameter),
                        Op::Write => s.write(session, range, size, parameter),
                    })
                    .unwrap();
                self.tasks.push(id);
                let task = Task {
                    session,
                    op,
                    range,
                    block,
                    registered: now,
                    came: Default::default(),
                    ended: None,
                    doubt: false,
                    version,
                };
                self.ledger.borrow_mut().tasks.insert(id, task);
            }
            VolumeStep::Abort(task) => {
                let Some(&id) = self.tasks.get(task) else { return };
                let aborted = self.sessions(|s| s.abort(id));
                let mut ledger = self.ledger.borrow_mut();
                let Some(task) = ledger.tasks.get_mut(&id) else { return };
                let expected = if task.ended.is_some() { 0 } else { task.left() };
                task.ended = task.ended.or(Some(expected));
                if aborted.unwrap_or(0) != expected {
                    ledger
                        .problem(format!("{expected} blocks of {id} were left, and abort said {aborted:?}"));
                }
            }
            VolumeStep::AbortRange { session, start, len } => {
                let (Some(session), range) = (self.session(session), self.range(start, len)) else { return };
                let withdrawn = self.sessions(|s| s.abort_range(session, range)).unwrap();
                let mut ledger = self.ledger.borrow_mut();
                let mut expected = 0;
                for task in ledger.tasks.values_mut().filter(|t| t.session == session && t.ended.is_none()) {
                    let mut at = task.range.start().get();
                    while at < task.range.end().get() {
                        let len = task.block.min(task.range.end().get() - at);
                        let block = LbnRange::new(Lbn::new(at), Sectors::new(len));
                        let touches = block.overlaps(range);
                        // A withdrawn block counts as delivered, because it may not be delivered any
                        // more.
                        if touches && !task.came.contains(&block) {
                            task.came.insert(block);
                            expected += 1;
                        }
                        at += len;
                    }
                    // Whether the write of a withdrawn block is on the medium is unknown.
                    task.doubt |= expected > 0;
                }
                if expected != withdrawn {
                    ledger
                        .problem(format!("{expected} blocks touch {range}, and {withdrawn} were withdrawn"));
                }
            }
            VolumeStep::Promote { session, start, len } => {
                let (Some(session), range) = (self.session(session), self.range(start, len)) else { return };
                self.sessions(|s| s.promote(session, range)).unwrap();
            }
            VolumeStep::Suspend(session) => {
                let Some(session) = self.session(session) else { return };
                self.sessions(|s| s.suspend(session)).unwrap();
            }
            VolumeStep::Resume(session) => {
                let Some(session) = self.session(session) else { return };
                self.sessions(|s| s.resume(session)).unwrap();
            }
            VolumeStep::Strict(session) => {
                let Some(session) = self.session(session) else { return };
                self.sessions(|s| s.serve_reads_by_writes(session, false)).unwrap();
            }
            VolumeStep::Close(session) => {
                let Some(&id) = self.sessions.get(session) else { return };
                let closed = self.sessions(|s| s.close(id));
                self.open.retain(|open| *open != id);
                let mut ledger = self.ledger.borrow_mut();
                let mut left = 0;
                for task in ledger.tasks.values_mut().filter(|t| t.session == id && t.ended.is_none()) {
                    left += task.left();
                    task.ended = Some(task.left());
                }
                if closed.unwrap_or(0) != left {
                    ledger.problem(format!("{left} blocks of {id} were left, and close said {closed:?}"));
                }
            }
            VolumeStep::Refuse(times) => self.ledger.borrow_mut().refuse = times,
            VolumeStep::Run(micros) => self.run(Duration::from_micros(micros)),
            VolumeStep::Spoil { lbn, forever } => {
                let lbn = self.range(lbn, 1).start();
                self.ledger.borrow_mut().bad.insert(lbn);
                self.volume.platters_mut().spoil(lbn, if forever { Cure::None } else { Cure::Write });
            }
            VolumeStep::PowerCut => self.power_cut(),
        }
    }

    pub fn run(&mut self, time: Duration) {
        self.volume.run_for(time).unwrap();
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(done) = self.volume.completion() {
            self.completions.push((done.id, done.at));
            let mut ledger = self.ledger.borrow_mut();
            let Some((op, range, begin, number)) = self.requests.remove(&done.id) else {
                ledger.problem(format!("{} was completed twice", done.id));
                continue;
            };
            if (op, range, begin) != (done.op, done.range, done.arrived) {
                ledger.problem(format!("{done:?} is not a submitted request"));
            }
            match (op, done.bad) {
                (_, Some(bad)) => {
                    if !range.contains(bad) || !ledger.any_bad && !ledger.bad.contains(&bad) {
                        ledger.problem(format!("{done:?}: that sector was never bad"));
                    }
                }
                (Op::Read, None) => {
                    ledger.check_bytes("a foreground read", range, &done.bytes, begin, done.at);
                }
                (Op::Write, None) => ledger.writes[number].end = Some(done.at),
            }
            ledger.check_passed(range, begin);
        }
    }

    fn power_cut(&mut self) {
        self.collect();
        let now = self.volume.now();
        let empty = Platters::blank(&self.drive);
        let volume = Volume::new(Arc::clone(&self.drive), Config::default(), empty).unwrap();
        let platters = std::mem::replace(&mut self.volume, volume).power_cut().unwrap();
        self.check_medium(&platters, now);
        // After a power cut only the medium is left.
        let mut ledger = self.ledger.borrow_mut();
        let mut bytes = vec![0; self.sector];
        let lbns: Vec<Lbn> = ledger.on.keys().copied().collect();
        for lbn in lbns {
            platters.medium().read(LbnRange::new(lbn, Sectors::new(1)), &mut bytes).unwrap();
            let number = super::ledger::decode(lbn, &bytes).unwrap_or(0);
            ledger.on.insert(lbn, vec![number]);
        }
        for write in &mut ledger.writes {
            write.end = write.end.or(Some(now));
        }
        ledger.tasks.clear();
        ledger.passes.clear();
        drop(ledger);
        self.sessions.clear();
        self.open.clear();
        self.tasks.clear();
        self.requests.clear();
        (self.volume, self.scribe) =
            Self::start(&self.plan, &self.drive, platters, now, &self.ledger, now.as_nanos());
    }

    /// Checks that every sector has a permitted content.
    pub fn check_medium(&mut self, platters: &Platters, now: Instant) {
        let mut ledger = self.ledger.borrow_mut();
        let mut bytes = vec![0; self.sector];
        let lbns: Vec<Lbn> = ledger.on.keys().copied().collect();
        for lbn in lbns {
            let one = LbnRange::new(lbn, Sectors::new(1));
            platters.medium().read(one, &mut bytes).unwrap();
            ledger.check_bytes("the medium", one, &bytes, now, now);
        }
    }

    pub fn problems(&self) -> Vec<String> {
        self.ledger.borrow().problems.clone()
    }

    /// Returns the number of blocks that are still to be delivered.
    pub fn left(&self) -> u64 {
        self.ledger.borrow().tasks.values().filter(|t| t.ended.is_none()).map(Task::left).sum()
    }

    /// Runs to the end, with a foreground that makes gaps.
    pub fn finish(&mut self) -> Result<(), String> {
        self.ledger.borrow_mut().refuse = 0;
        for session in self.open.clone() {
            self.sessions(|s| s.resume(session)).unwrap();
        }
        let capacity = self.drive.layout().capacity().get();
        let mut at = self.plan.seed;
        for round in 0..6_000u64 {
            if self.left() == 0 && self.requests.is_empty() {
                return Ok(());
            }
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mut range = self.range((at >> 20) % capacity, 1 + round % 3);
            if round > 1_000 && round % 4 == 0 {
                // The foreground reads the blocks that no gap has served.
                range = self.ledger.borrow().tasks.values().find_map(|t| t.missing(round)).unwrap_or(range);
            }
            if round > 1_500 && round % 200 == 0 {
                // With room for few partial blocks, a write in pieces may wait very long for its gap.
                let all = LbnRange::new(Lbn::ZERO, self.drive.layout().capacity());
                for session in self.open.clone() {
                    self.sessions(|s| s.promote(session, all)).unwrap();
                }
            }
            self.foreground(false, range);
            self.volume.settle().unwrap();
            self.collect();
            if !self.problems().is_empty() {
                return Ok(());
            }
        }
        let left: Vec<_> = self.ledger.borrow().tasks.values().filter(|t| t.left() > 0).cloned().collect();
        Err(format!("{} blocks never come: {left:?}", self.left()))
    }
}
