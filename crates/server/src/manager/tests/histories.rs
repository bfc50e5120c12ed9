//! Random histories of a disk with tasks: clients write, snapshots are taken and read, backups and scrubs run,
//! operators pause and cancel, files are slow, the daemon is killed and the power is cut. Every byte that a snapshot or
//! a backup gives is checked against the disk's contents at its instant.

#![allow(clippy::print_stderr)] // the steps of a history that fails

use super::images::restored_from;
use super::memory::below;
use super::rig::{Rig, SECTOR, range};
use super::tasks::access;
use crate::DiskHooks;
use crate::manager::TaskChange;
use crate::manager::status::TaskStatus;
use crate::task::spec::{TaskKind, TaskSpec};
use crate::task::table::TaskState;
use device::{Answer, Ask, BackgroundRequest};
use std::collections::{BTreeMap, BTreeSet};
use units::LbnRange;
use workload::random::Stream;

/// The content of the disk at a task's instant. A sector that was written between the task's start and its first step
/// has one of several contents. The first read decides which, and later reads must agree.
#[derive(Clone)]
struct Captured {
    bytes: Vec<u8>,
    candidates: BTreeMap<usize, BTreeSet<Vec<u8>>>,
}

impl Captured {
    fn of(rig: &Rig) -> Self {
        let mut captured = Self { bytes: rig.now.clone(), candidates: BTreeMap::new() };
        rig.waiting().for_each(|(range, bytes)| captured.may_have(range, bytes));
        captured
    }

    /// Records a write that may or may not be part of the captured content.
    fn may_have(&mut self, range: LbnRange, bytes: &[u8]) {
        let first = range.start().get() as usize;
        for (at, sector) in bytes.chunks(SECTOR).enumerate() {
            let lbn = first + at;
            let before = self.bytes[lbn * SECTOR..][..SECTOR].to_vec();
            self.candidates.entry(lbn).or_insert_with(|| BTreeSet::from([before])).insert(sector.to_vec());
        }
    }

    /// Checks sectors that were read. Where several contents were possible, the one that was read is the only one from
    /// now on.
    fn check(&mut self, from: usize, found: &[u8], whose: &str) {
        for (at, sector) in found.chunks(SECTOR).enumerate() {
            let lbn = from + at;
            let own = &mut self.bytes[lbn * SECTOR..][..SECTOR];
            if let Some(candidates) = self.candidates.remove(&lbn) {
                assert!(candidates.contains(sector), "{whose}: LBN {lbn} was never so");
                own.copy_from_slice(sector);
            }
            assert!(own == sector, "{whose}: LBN {lbn} is not of its instant");
        }
    }
}

/// A task as the test knows it.
struct Known {
    kind: TaskKind,
    instant: Captured,
    /// Whether the task has been seen running, so that a crash may not forget the task any more.
    began: bool,
    /// The path of a backup's image.
    to: String,
    state: TaskState,
}

struct History {
    rig: Rig,
    chance: Stream,
    known: BTreeMap<u64, Known>,
    /// The reads of snapshots that wait for an answer, with the snapshot and the range.
    reads: BTreeMap<u64, (u64, LbnRange)>,
    asked: u64,
    names: u64,
    read: u64,
    done: u64,
    crashes: u64,
    /// The steps so far, for the message of a failure.
    steps: Vec<String>,
    seed: u64,
}

impl Drop for History {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("history {}: {}", self.seed, self.steps.join("; "));
        }
    }
}

/// The kinds of steps, each with its weight.
const STEPS: [(HistoryStep, u64); 11] = [
    (HistoryStep::Access, 10),
    (HistoryStep::Time, 10),
    (HistoryStep::Read, 8),
    (HistoryStep::Snapshot, 2),
    (HistoryStep::Backup, 2),
    (HistoryStep::Scrub, 1),
    (HistoryStep::Pause, 1),
    (HistoryStep::Resume, 2),
    (HistoryStep::Cancel, 1),
    (HistoryStep::Pace, 1),
    (HistoryStep::Crash, 1),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HistoryStep {
    Access,
    Time,
    Read,
    Snapshot,
    Backup,
    Scrub,
    Pause,
    Resume,
    Cancel,
    Pace,
    Crash,
}

impl History {
    fn new(seed: u64) -> Self {
        let chance = Stream::numbered(seed, "histories of tasks", 0);
        Self {
            rig: Rig::new(),
            chance,
            known: BTreeMap::new(),
            reads: BTreeMap::new(),
            asked: 0,
            names: 0,
            read: 0,
            done: 0,
            crashes: 0,
            steps: Vec::new(),
            seed,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        below(&mut self.chance, n)
    }

    fn find(&self, id: u64) -> Option<TaskStatus> {
        self.rig.volume.app(self.rig.manager).unwrap().task(id)
    }

    /// Makes `steps` random steps. About half of the kinds of steps occur in a history, so that each kind can be
    /// frequent (swarm testing).
    fn run(&mut self, steps: usize) {
        let kinds: Vec<(HistoryStep, u64)> = STEPS
            .into_iter()
            .filter(|(step, _)| matches!(step, HistoryStep::Access | HistoryStep::Time) || self.below(2) == 0)
            .collect();
        let all = kinds.iter().map(|(_, weight)| weight).sum();
        for _ in 0..steps {
            let mut at = self.below(all);
            let step = kinds.iter().find(|(_, weight)| {
                let here = at < *weight;
                at = at.saturating_sub(*weight);
                here
            });
            let step = step.map_or(HistoryStep::Time, |(step, _)| *step);
            self.steps.push(format!("{step:?}"));
            self.take(step);
            self.check_tasks();
        }
        self.end();
    }

    fn take(&mut self, step: HistoryStep) {
        match step {
            HistoryStep::Access => {
                if self.rig.outstanding() < 6 {
                    let before: Vec<(LbnRange, Vec<u8>)> = self.waiting();
                    access(&mut self.rig, &mut self.chance);
                    let new: Vec<_> = self.waiting().into_iter().filter(|w| !before.contains(w)).collect();
                    for known in self.known.values_mut().filter(|known| !known.began) {
                        new.iter().for_each(|(range, bytes)| known.instant.may_have(*range, bytes));
                    }
                }
            }
            HistoryStep::Time => {
                for _ in 0..=self.below(40) {
                    self.rig.step();
                    self.check_tasks();
                }
            }
            HistoryStep::Read => self.ask(),
            HistoryStep::Snapshot => {
                self.names += 1;
                let name = Some(format!("s{}", self.names));
                self.start(TaskSpec { name, block_sectors: Some(8), ..TaskSpec::new(TaskKind::Snapshot) });
            }
            HistoryStep::Backup => {
                self.names += 1;
                let to = Some(format!("/backups/{}", self.names).into());
                self.start(TaskSpec { to, block_sectors: Some(8), ..TaskSpec::new(TaskKind::Backup) });
            }
            HistoryStep::Scrub => {
                self.start(TaskSpec { block_sectors: Some(8), ..TaskSpec::new(TaskKind::Scrub) });
            }
            HistoryStep::Pause => self.steer(|manager, sessions, id| manager.pause(sessions, id).is_ok()),
            HistoryStep::Resume => self.steer(|manager, sessions, id| manager.resume(sessions, id).is_ok()),
            HistoryStep::Cancel => self.steer(|manager, sessions, id| manager.cancel(sessions, id).is_ok()),
            HistoryStep::Pace => self.rig.pace = [1, 3, usize::MAX][self.below(3) as usize],
            HistoryStep::Crash => self.crash(),
        }
    }

    fn waiting(&self) -> Vec<(LbnRange, Vec<u8>)> {
        self.rig.waiting().map(|(range, bytes)| (range, bytes.to_vec())).collect()
    }

    fn start(&mut self, spec: TaskSpec) {
        if self.known.values().filter(|known| !known.state.is_over()).count() >= 4 {
            return;
        }
        let (kind, to) = (spec.kind, spec.to.clone());
        let instant = Captured::of(&self.rig);
        let Ok(TaskChange { task: id, .. }) = self.rig.call(|manager, _| manager.start(spec)) else { return };
        let to = to.map(|to| to.to_string_lossy().into_owned()).unwrap_or_default();
        let known = Known { kind, instant, began: false, to, state: TaskState::Queued };
        assert!(self.known.insert(id, known).is_none(), "the number {id} is used twice");
    }

    fn steer(
        &mut self,
        call: impl FnOnce(&mut crate::manager::TaskManager, &mut dyn scheduler::Sessions, u64) -> bool,
    ) {
        let live: Vec<u64> =
            self.known.iter().filter(|(_, k)| !k.state.is_over()).map(|(id, _)| *id).collect();
        if live.is_empty() {
            return;
        }
        let id = live[self.below(live.len() as u64) as usize];
        self.rig.call(|manager, sessions| call(manager, sessions, id));
    }

    /// Reads a random range of a random snapshot.
    fn ask(&mut self) {
        let served: Vec<u64> =
            self.rig.call(|manager, _| manager.snapshots()).iter().map(|s| s.number).collect();
        if served.is_empty() || self.reads.len() >= 16 {
            return;
        }
        let capacity = (self.rig.now.len() / SECTOR) as u64;
        let (id, len) = (served[self.below(served.len() as u64) as usize], 1 + self.below(64));
        let range = range(self.below(capacity - len), len);
        self.asked += 1;
        let request =
            BackgroundRequest { id: self.asked, client: 1, range, ask: Ask::Read, snapshot: Some(id) };
        if self.rig.call(|manager, s| manager.read_snapshot(s, &request)) {
            self.reads.insert(self.asked, (id, range));
        }
    }

    /// Checks the state of all tasks and the answers that have come.
    fn check_tasks(&mut self) {
        for id in self.known.keys().copied().collect::<Vec<_>>() {
            let Some(task) = self.find(id) else { panic!("task {id} is forgotten") };
            let known = self.known.get_mut(&id).unwrap();
            assert!(task.state != TaskState::Failed, "{task:?}");
            assert!(!known.state.is_over() || known.state == task.state, "over, and not: {task:?}");
            known.began |= task.state == TaskState::Running;
            let ended = task.state == TaskState::Done && known.state != TaskState::Done;
            known.state = task.state;
            if ended {
                self.done += 1;
                if known.kind == TaskKind::Backup {
                    let found = restored_from(&self.rig, &known.to);
                    known.instant.check(0, &found, &format!("backup {id}"));
                }
            }
        }
        while let Some(Answer { id, result, .. }) = self.rig.call(|manager, _| manager.answer()) {
            let (snapshot, range) = self.reads.remove(&id).expect("an answer to a request");
            let known = self.known.get_mut(&snapshot).unwrap();
            match result {
                Ok(bytes) => {
                    known.instant.check(
                        range.start().get() as usize,
                        &bytes,
                        &format!("snapshot {snapshot}"),
                    );
                    self.read += 1;
                }
                Err(failure) => {
                    let over = self.find(snapshot).is_none_or(|task| task.state != TaskState::Running);
                    assert!(over, "snapshot {snapshot} is served, and a read fails: {failure}");
                }
            }
        }
    }

    fn crash(&mut self) {
        self.crashes += 1;
        let power = self.below(2) == 0;
        let mut cut = Stream::numbered(self.seed, "power", self.crashes);
        let rig = std::mem::replace(&mut self.rig, Rig::new());
        self.rig = rig.crash(power.then_some(&mut cut));
        self.reads.clear();
        // A task that was not yet durable may be forgotten, and its number used again. A pause, resume or cancellation
        // that was not yet durable may be undone.
        let ids: Vec<u64> = self.known.keys().copied().collect();
        for id in ids {
            let task = self.find(id);
            let known = self.known.get_mut(&id).unwrap();
            match task {
                // `check_tasks` handles the end of the task.
                Some(task) if task.state.is_over() => {}
                Some(task) => known.state = task.state,
                None => {
                    assert!(!known.began, "task {id}, which had begun, is forgotten over a crash");
                    self.known.remove(&id);
                }
            }
        }
    }

    /// Lets all tasks end, and reads all of each snapshot.
    fn end(&mut self) {
        self.rig.pace = usize::MAX;
        self.rig.serve();
        self.rig.settle();
        let live: Vec<u64> =
            self.known.iter().filter(|(_, k)| !k.state.is_over()).map(|(id, _)| *id).collect();
        for id in &live {
            self.rig.call(|manager, sessions| manager.resume(sessions, *id)).ok();
        }
        for id in live {
            self.finish(id);
        }
        let medium = self.rig.medium();
        assert!(medium == self.rig.now, "the disk does not hold what its clients wrote");
        let kept: Vec<u64> = self
            .known
            .keys()
            .copied()
            .filter(|id| self.rig.files.get(&format!("/state/task-{id}.kept")).is_some())
            .collect();
        assert!(kept.is_empty(), "the blocks kept for {kept:?} are left behind");
    }

    fn finish(&mut self, id: u64) {
        let snapshot = self.known[&id].kind == TaskKind::Snapshot;
        for _ in 0..100_000 {
            self.check_tasks();
            let state = self.known[&id].state;
            if state.is_over() {
                return;
            }
            if snapshot && state == TaskState::Running {
                self.read_all(id);
                self.rig.call(|manager, sessions| manager.cancel(sessions, id)).unwrap();
                self.rig.settle();
                return;
            }
            self.rig.step();
        }
        panic!("no end: {:?}", self.find(id));
    }

    fn read_all(&mut self, id: u64) {
        let capacity = (self.rig.now.len() / SECTOR) as u64;
        for at in (0..capacity).step_by(40) {
            self.asked += 1;
            let range = range(at, 40.min(capacity - at));
            let request =
                BackgroundRequest { id: self.asked, client: 1, range, ask: Ask::Read, snapshot: Some(id) };
            assert!(
                self.rig.call(|manager, s| manager.read_snapshot(s, &request)),
                "snapshot {id} is not served"
            );
            self.reads.insert(self.asked, (id, range));
        }
        for _ in 0..100_000 {
            self.check_tasks();
            if self.reads.is_empty() {
                return;
            }
            self.rig.step();
        }
        panic!("{} reads of snapshots are never answered", self.reads.len());
    }
}

#[test]
fn random_histories_of_snapshots_and_backups_keep_every_byte_of_their_instants() {
    let seed = testing::commit_seed();
    let (mut read, mut done, mut crashes) = (0, 0, 0);
    for at in 0..testing::sized(40, 2_000) {
        let mut history = History::new(seed.wrapping_add(at));
        history.run(120);
        (read, done, crashes) = (read + history.read, done + history.done, crashes + history.crashes);
    }
    assert!(read > 1_000 && done > 20 && crashes > 20, "{read} reads, {done} ends, {crashes} crashes");
}
