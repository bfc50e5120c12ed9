//! A task manager on a simulated drive, with files in memory, clients that write, and power cuts.

use super::memory::{MemoryFiles, below};
use crate::disk::{BackgroundTerms, Fence};
use crate::files::worker::FileWorker;
use crate::handle::Peers;
use crate::manager::permits::Permits;
use crate::manager::status::TaskStatus;
use crate::manager::{ManagerConfig, TaskManager};
use crate::task::budget::Budget;
use crate::task::file_request::{FileQueue, FileReply, FileRequest};
use crate::task::journal;
use crate::task::spec::{DiskFacts, TaskSpec};
use crate::task::table::TaskState;
use model::{DriveModel, Profile};
use scheduler::{Config, IdleTime};
use sim::{Place, Platters, Volume};
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, RequestId, Sectors};
use workload::random::Stream;

pub const SECTOR: usize = 512;
pub const STATE: &str = "/state";

pub struct Rig {
    pub volume: Volume,
    pub manager: Place<TaskManager>,
    pub files: MemoryFiles,
    pub drive: Arc<DriveModel>,
    workers: BTreeMap<FileQueue, FileWorker>,
    /// File operations that were not executed yet.
    file_requests: VecDeque<FileRequest>,
    /// The number of file operations executed in a step: low for a slow file system, 0 for one that hangs.
    pub pace: usize,
    /// Queues whose files hang: their operations are not executed.
    pub hangs: Vec<FileQueue>,
    /// Queues whose file operations fail because the system has no thread left.
    pub no_threads: Vec<FileQueue>,
    /// The daemon's other disks, which comparisons read: an empty list. A test may replace it by one that is not filled
    /// yet.
    pub peers: Peers,
    held: VecDeque<(LbnRange, Vec<u8>)>,
    in_flight: BTreeMap<RequestId, (LbnRange, Vec<u8>)>,
    /// The disk's content from the clients' point of view.
    pub now: Vec<u8>,
    pub keep: u64,
    /// The number of writes that were refused because a task has their blocks closed.
    pub refused: u64,
    /// Whether the drive has a write cache, so that a power cut undoes the writes since the last flush. `cached` has
    /// the old contents under these writes, in order.
    pub caches: bool,
    cached: Vec<(LbnRange, Vec<u8>)>,
    /// The number of steps that a flush takes.
    pub flush_steps: usize,
    /// The flushes in flight, each with its steps left and the number of cached writes that its end makes durable.
    flushes: VecDeque<(usize, usize)>,
    ticked: Instant,
    writes: u64,
    cuts: u128,
}

pub fn drive() -> Arc<DriveModel> {
    let toml = include_str!("../../../../model/tests/data/tiny.toml");
    Arc::new(DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml").unwrap()).unwrap())
}

pub fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

pub fn manager_config(drive: &DriveModel, keep: u64, seed: u128) -> ManagerConfig {
    let disk = DiskFacts {
        name: "tiny".into(),
        capacity: drive.layout().capacity(),
        sector_bytes: Bytes::new(SECTOR as u64),
        own: vec!["/disk".into()],
        read_only: false,
        device: None,
    };
    ManagerConfig {
        disk,
        keep_bytes_max: keep,
        background: BackgroundTerms::default(),
        seed,
        permits: Permits::default(),
        memory: Budget::default(),
    }
}

impl Rig {
    /// Returns a drive on which each sector holds its own address.
    pub fn new() -> Self {
        let drive = drive();
        let capacity = drive.layout().capacity().get();
        let bytes = stamps(0..capacity, 0);
        let mut platters = Platters::blank(&drive);
        platters.medium_mut().write(range(0, capacity), &bytes).unwrap();
        Self::over(drive, platters, MemoryFiles::default(), bytes, Instant::ZERO, 1 << 30, 7)
    }

    /// Returns a drive on which each sector holds its own address, with a limit on running scrubs.
    pub fn with_permits(most: usize) -> Self {
        let mut rig = Self::new();
        rig.call(|manager, _| manager.set_permits(Permits::at_most(most)));
        rig
    }

    fn over(
        drive: Arc<DriveModel>,
        platters: Platters,
        files: MemoryFiles,
        now: Vec<u8>,
        at: Instant,
        keep: u64,
        seed: u128,
    ) -> Self {
        let config = Config::default().with_idle(Some(IdleTime::default()));
        let mut volume = Volume::starting_at(at, Arc::clone(&drive), config, platters).unwrap();
        let journal = journal::open(&files, Path::new(STATE)).unwrap();
        let manager = volume.host(TaskManager::open(manager_config(&drive, keep, seed), journal).unwrap());
        let peers = Peers::default();
        peers.set([]);
        let mut rig = Self {
            volume,
            manager,
            files,
            drive,
            workers: BTreeMap::new(),
            file_requests: VecDeque::new(),
            pace: usize::MAX,
            hangs: Vec::new(),
            no_threads: Vec::new(),
            peers,
            held: VecDeque::new(),
            in_flight: BTreeMap::new(),
            now,
            keep,
            refused: 0,
            caches: false,
            cached: Vec::new(),
            flush_steps: 0,
            flushes: VecDeque::new(),
            ticked: at,
            writes: 0,
            cuts: seed,
        };
        rig.volume.call(manager, |manager, sessions| manager.begin(sessions, at, ms(at))).unwrap();
        rig.serve();
        rig
    }

    pub fn call<R>(&mut self, call: impl FnOnce(&mut TaskManager, &mut dyn scheduler::Sessions) -> R) -> R {
        let reported = self.volume.call(self.manager, call).unwrap();
        self.serve();
        reported
    }

    pub fn start(&mut self, spec: TaskSpec) -> u64 {
        self.call(|manager, _| manager.start(spec)).unwrap().task
    }

    pub fn task(&self, id: u64) -> TaskStatus {
        self.volume.app(self.manager).unwrap().task(id).unwrap()
    }

    /// Returns the number of file operations of a queue that wait.
    pub fn waiting_for(&self, queue: FileQueue) -> usize {
        self.file_requests.iter().filter(|file_request| file_request.queue == queue).count()
    }

    /// Executes file operations and retries held writes, as long as there is progress.
    pub fn serve(&mut self) {
        for _ in 0..self.pace {
            self.take_file_requests();
            let next =
                self.file_requests.iter().position(|file_request| !self.hangs.contains(&file_request.queue));
            let Some(FileRequest { queue, op }) = next.and_then(|at| self.file_requests.remove(at)) else {
                break;
            };
            let (files, peers) = (Arc::new(self.files.clone()), self.peers.clone());
            let worker = self
                .workers
                .entry(queue)
                .or_insert_with(|| FileWorker::new(queue, files, PathBuf::from(STATE)).among(peers));
            let result = match self.no_threads.contains(&queue) {
                true => op.refused(queue, "no thread".into()),
                false => worker.execute(op),
            };
            if let Some(result) = result {
                let now = self.volume.now();
                self.volume
                    .call(self.manager, |manager, s| manager.file_done(s, FileReply { queue, result }, now))
                    .unwrap();
            }
        }
        let busy = self.in_flight.values().map(|(range, _)| *range);
        let busy: Vec<LbnRange> = busy.filter(|range| self.fenced(*range) != Fence::Open).collect();
        if busy.is_empty() && self.volume.app(self.manager).unwrap().wants_clear() {
            self.volume.call(self.manager, |manager, s| manager.clear(s)).unwrap();
        }
        self.take_file_requests();
        let flush = self.volume.call(self.manager, |manager, _| manager.wants_flush()).unwrap();
        if flush {
            self.flushes.push_back((self.flush_steps, self.cached.len()));
        }
        if self.flushes.front().is_some_and(|(steps, _)| *steps == 0) {
            self.end_flush();
            return self.serve();
        }
        for (range, bytes) in std::mem::take(&mut self.held) {
            self.offer(range, bytes);
        }
    }

    pub fn is_flushing(&self) -> bool {
        !self.flushes.is_empty()
    }

    /// Ends the oldest flush: the writes that were cached when it began are durable.
    fn end_flush(&mut self) {
        let Some((_, durable)) = self.flushes.pop_front() else { return };
        self.cached.drain(..durable);
        self.flushes.iter_mut().for_each(|(_, later)| *later -= durable);
        self.volume.call(self.manager, |manager, s| manager.flushed(s, &Ok(()))).unwrap();
    }

    fn fenced(&self, range: LbnRange) -> Fence {
        self.volume.app(self.manager).unwrap().fenced(range)
    }

    fn take_file_requests(&mut self) {
        while let Some(file_request) =
            self.volume.call(self.manager, |manager, _| manager.next_file_request()).unwrap()
        {
            self.file_requests.push_back(file_request);
        }
    }

    fn offer(&mut self, range: LbnRange, bytes: Vec<u8>) {
        // As in `Disk`, overlapping requests are done in order of arrival.
        let behind = self.held.iter().any(|(other, _)| other.overlaps(range));
        let under_way = self.in_flight.values().any(|(other, _)| other.overlaps(range));
        let fence = self.fenced(range);
        if fence == Fence::Closed && !behind && !under_way {
            self.refused += 1;
            return;
        }
        let held = fence == Fence::Wait
            || behind
            || under_way
            || self.volume.call(self.manager, |manager, s| manager.hold(s, range)).unwrap();
        if held {
            self.held.push_back((range, bytes));
        } else {
            self.volume.call(self.manager, |manager, _| manager.writing(range)).unwrap();
            let id = self.volume.submit_write(range, bytes.clone()).unwrap();
            self.in_flight.insert(id, (range, bytes));
        }
    }

    /// Writes as a client.
    pub fn write(&mut self, range: LbnRange) {
        self.writes += 1;
        let bytes = stamps(range.start().get()..range.end().get(), self.writes);
        self.offer(range, bytes);
        self.serve();
    }

    pub fn read(&mut self, range: LbnRange) {
        self.volume.submit_read(range).unwrap();
    }

    /// Returns the number of writes that clients wait for.
    pub fn outstanding(&self) -> usize {
        self.held.len() + self.in_flight.len()
    }

    /// Returns the writes that clients wait for.
    pub fn waiting(&self) -> impl Iterator<Item = (LbnRange, &[u8])> {
        self.held.iter().chain(self.in_flight.values()).map(|(range, bytes)| (*range, &bytes[..]))
    }

    /// Handles the next event, or a tick. Returns whether there was an event other than a tick.
    pub fn step(&mut self) -> bool {
        let due = self.ticked + Duration::from_millis(200);
        let next = self.volume.next_at().filter(|at| *at <= due);
        match next {
            Some(_) => drop(self.volume.step().unwrap()),
            None => {
                self.volume.run_until(due).unwrap();
                self.ticked = due;
                let harm = self.volume.core().harm();
                self.volume.call(self.manager, |manager, s| manager.tick(s, due, ms(due), harm)).unwrap();
            }
        }
        let now = self.volume.now();
        self.volume.call(self.manager, |manager, s| crate::DiskHooks::do_due(manager, s, now)).unwrap();
        while let Some(done) = self.volume.completion() {
            if let Some((range, bytes)) = self.in_flight.remove(&done.id) {
                let at = range.start().get() as usize * SECTOR;
                if self.caches {
                    self.cached.push((range, self.now[at..at + bytes.len()].to_vec()));
                }
                self.now[at..at + bytes.len()].copy_from_slice(&bytes);
                self.volume.call(self.manager, |manager, _| manager.wrote(range)).unwrap();
            }
        }
        self.flushes.iter_mut().for_each(|(steps, _)| *steps = steps.saturating_sub(1));
        self.serve();
        next.is_some()
    }

    /// Runs until the task is over or paused.
    pub fn run(&mut self, id: u64) -> TaskState {
        for _ in 0..200_000 {
            let state = self.task(id).state;
            if state.is_over() || state == TaskState::Paused {
                return state;
            }
            self.step();
        }
        panic!("no end: {:?}", self.task(id));
    }

    pub fn run_for(&mut self, time: Duration) {
        let until = self.volume.now() + time;
        while self.volume.now() < until {
            self.step();
        }
    }

    /// Runs until no client waits.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            if self.outstanding() == 0 {
                return;
            }
            self.step();
        }
        panic!("{} writes wait for ever", self.held.len());
    }

    /// Cuts the power, or without `power` kills only the daemon; then starts the daemon again.
    pub fn crash(self, power: Option<&mut Stream>) -> Self {
        let Self {
            volume,
            files,
            drive,
            mut now,
            keep,
            cuts,
            in_flight,
            caches,
            cached,
            flush_steps,
            workers,
            ..
        } = self;
        // The end of the daemon closes its files and releases their locks.
        drop(workers);
        let at = volume.now();
        let mut platters = volume.power_cut().unwrap();
        if let Some(chance) = power {
            files.power_cut(|n| below(chance, n));
            for (range, bytes) in cached.into_iter().rev() {
                let from = range.start().get() as usize * SECTOR;
                now[from..from + bytes.len()].copy_from_slice(&bytes);
                platters.medium_mut().write(range, &bytes).unwrap();
            }
        }
        // A write that was not acknowledged may be done or not: the medium says which.
        for (range, bytes) in in_flight.values() {
            let from = range.start().get() as usize * SECTOR;
            platters.medium().read(*range, &mut now[from..from + bytes.len()]).unwrap();
        }
        let mut rig = Self::over(drive, platters, files, now, at + Duration::from_secs(1), keep, cuts + 1);
        (rig.caches, rig.flush_steps) = (caches, flush_steps);
        rig
    }

    /// Returns the same disk under a new daemon with these files, after a kill.
    pub fn again(&self, files: MemoryFiles) -> Self {
        let mut platters = Platters::blank(&self.drive);
        let bytes = self.medium();
        platters.medium_mut().write(range(0, (bytes.len() / SECTOR) as u64), &bytes).unwrap();
        let at = self.volume.now() + Duration::from_secs(1);
        Self::over(Arc::clone(&self.drive), platters, files, bytes, at, self.keep, self.cuts + 1)
    }

    pub fn medium(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.now.len()];
        self.volume.platters().medium().read(range(0, (bytes.len() / SECTOR) as u64), &mut bytes).unwrap();
        bytes
    }
}

/// Returns sectors, each of which holds its own address and the number of its last write. The sectors are copied whole,
/// because in a build without optimisation an iterator over bytes takes a third of the time of these tests.
fn stamps(lbns: std::ops::Range<u64>, version: u64) -> Vec<u8> {
    lbns.map(|lbn| stamp(lbn, version)).collect::<Vec<_>>().concat()
}

/// Returns a sector that holds its own address and the number of its last write.
fn stamp(lbn: u64, version: u64) -> [u8; SECTOR] {
    let mut sector = [0; SECTOR];
    for (i, chunk) in sector.chunks_mut(16).enumerate() {
        chunk[..8].copy_from_slice(&lbn.wrapping_mul(0x9e37_79b9).wrapping_add(i as u64).to_le_bytes());
        chunk[8..].copy_from_slice(&version.to_le_bytes());
    }
    sector
}

fn ms(at: Instant) -> u64 {
    1_000_000 + at.as_nanos() / 1_000_000
}
