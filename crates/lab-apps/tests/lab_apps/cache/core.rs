//! The cache on the scheduler's core, inside a drive: reads and flushes are right, and write-backs
//! are free.

use super::host::{Host, SECTOR, range, sectors, stamp};
use super::model::Model;
use lab_apps::cache::{Action, Cache, CacheTally, Config, Force, Replacement, Syncer};
use model::{DriveModel, Location, Position, Profile};
use scheduler::{Application, Buffers, HeadWork, InDrive, Pending, Predictor, Request, Wanted};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// Gives the core the cache's buffers, and keeps their bytes until they are on the medium.
struct Held<'a> {
    cache: &'a mut Cache,
    held: &'a mut Vec<(LbnRange, Vec<u8>)>,
}

impl Buffers for Held<'_> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        let mut bytes = vec![0; wanted.range.len().get() as usize * SECTOR];
        let ready = self.cache.buffer(wanted, &mut bytes);
        if ready {
            self.held.push((wanted.range, bytes));
        }
        ready
    }
}

/// The head's position as a host with a `Predictor` reports it to SPTF-Evict.
struct FromHere<'a> {
    drive: &'a DriveModel,
    lbn: Lbn,
}

impl lab_apps::cache::HeadTime for FromHere<'_> {
    fn lbn(&self) -> Lbn {
        self.lbn
    }

    fn positioning(&self, now: Instant, range: LbnRange) -> Duration {
        let layout = self.drive.layout();
        let at = layout.locate(self.lbn).map_or(Position::default(), |l| layout.track(l.track).into());
        let request = Request { id: RequestId::new(0), op: Op::Write, range };
        let piece = layout.pieces(range).next().unwrap();
        let track = layout.track(piece.track);
        let pending =
            Pending { request, arrived: now, sequence: 0, piece, track, promoted: None, follows: false };
        self.drive.positioning(at, now, &pending).total()
    }
}

struct CoreRig {
    core: InDrive,
    cache: Cache,
    /// A host of which only the medium and the random numbers are used.
    host: Host,
    model: Model,
    requests: BTreeMap<RequestId, Request>,
    held: Vec<(LbnRange, Vec<u8>)>,
    /// The time at which the current action ends.
    until: Option<Instant>,
    now: Instant,
    last: Lbn,
}

impl CoreRig {
    fn new(seed: u64, change: impl FnOnce(&mut Config)) -> Self {
        let toml = include_str!("../../../../model/tests/data/tiny.toml");
        let drive = DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml").unwrap()).unwrap();
        let capacity = drive.layout().capacity().get();
        let mut core = InDrive::new(Arc::new(drive), scheduler::Config::default());
        let mut config = Config::new(range(0, capacity), Sectors::new(8), Bytes::new(SECTOR as u64), 64);
        config.syncer = None;
        change(&mut config);
        let cache = Cache::new(config, &mut core, Instant::ZERO).unwrap();
        Self {
            core,
            cache,
            host: Host::new(capacity, seed),
            model: Model::new(capacity),
            requests: BTreeMap::new(),
            held: Vec::new(),
            until: None,
            now: Instant::ZERO,
            last: Lbn::ZERO,
        }
    }

    /// Runs all actions that are possible now.
    fn settle(&mut self) {
        loop {
            let drive = self.core.drive().clone();
            let head = FromHere { drive: &drive, lbn: self.last };
            while let Some(action) = self.cache.poll(&mut self.core, &head, self.now) {
                match action {
                    Action::Submit(request) => {
                        self.requests.insert(request.id, request);
                        self.core.submit(self.now, request).unwrap();
                    }
                    Action::Answer { call, result } => self.model.answer(call, &result, &self.host),
                    Action::WriteFailed { .. } => panic!("the medium is good"),
                }
            }
            let mut buffers = Held { cache: &mut self.cache, held: &mut self.held };
            match self.core.poll_with(self.now, &mut buffers) {
                None => return,
                Some(scheduler::Output::Do(HeadWork::Execute)) => self.until = self.core.busy_until(),
                Some(scheduler::Output::Completed(id)) => self.completed(id),
                Some(scheduler::Output::Deliver(record)) => {
                    self.cache.done(&mut self.core, &record, &[], self.now);
                }
                Some(other) => panic!("{other:?}"),
            }
        }
    }

    fn completed(&mut self, id: RequestId) {
        let Request { op, range, .. } = self.requests.remove(&id).unwrap();
        self.last = range.start();
        let mut bytes = vec![0; range.len().get() as usize * SECTOR];
        if op.is_write() {
            self.cache.bytes(id, range, &mut bytes).unwrap();
            self.host.put(range.start().get(), &bytes);
            bytes.clear();
        } else {
            bytes = sectors(range).flat_map(|lbn| self.host.sector(lbn).to_vec()).collect();
        }
        self.cache.completed(id, Ok(&bytes), self.now).unwrap();
    }

    /// Ends the current action: its writes reach the medium.
    fn land(&mut self) {
        let layout = self.core.drive().layout();
        let mut written = BTreeSet::new();
        for access in self.core.accesses().iter().filter(|a| a.op.is_write()) {
            let around = layout.track(access.track).sectors;
            for sector in (access.sector..access.sector + access.sectors).map(|s| s % around) {
                written.extend(layout.lbn_at(Location { track: access.track, sector }));
            }
        }
        for (range, bytes) in std::mem::take(&mut self.held) {
            for (lbn, bytes) in sectors(range).zip(bytes.chunks_exact(SECTOR)) {
                if written.contains(&Lbn::new(lbn)) {
                    self.host.put(lbn, bytes);
                }
            }
        }
        self.core.completed(self.now);
        self.settle();
    }

    /// Advances time to `then`.
    fn until(&mut self, then: Instant) {
        self.settle();
        loop {
            let wake = self.cache.wake().into_iter().chain(self.until).min().filter(|&at| at <= then);
            let Some(at) = wake else { break };
            self.now = at.max(self.now);
            match self.until.take_if(|until| *until <= self.now) {
                Some(_) => self.land(),
                None => self.settle(),
            }
        }
        self.now = then;
        self.settle();
    }

    fn client(&mut self, reads_percent: u64) {
        let blocks = self.host.medium.len() as u64 / SECTOR as u64 / 8;
        let of = range(self.host.below(blocks) * 8, 1 + self.host.below(8));
        if self.host.chance(reads_percent) {
            let call = self.cache.read(of, self.now).unwrap();
            self.model.read(call, of);
        } else {
            self.model.written += 1;
            let bytes = sectors(of).flat_map(|lbn| stamp(lbn, self.model.written)).collect();
            let call = self.cache.write(of, bytes, self.now).unwrap();
            self.model.write(call, of, self.model.written);
        }
    }

    /// Runs a busy client with a flush, and checks that everything is written at the end.
    fn run(mut self, calls: u64) -> CacheTally {
        for n in 0..calls {
            self.client(50);
            if n == calls / 2 {
                let call = self.cache.flush().unwrap();
                self.model.flush(call);
            }
            let pause = Duration::from_micros(self.host.below(9_000));
            self.until(self.now + pause);
        }
        let tally = self.cache.tally();
        self.until(self.now + Duration::from_secs(100));
        let call = self.cache.flush().unwrap();
        self.model.flush(call);
        self.until(self.now + Duration::from_secs(100));
        assert_eq!((self.cache.dirty(), self.cache.calls()), (0, 0));
        assert!(self.model.is_idle());
        self.model.check_all_written(&self.host);
        tally
    }
}

#[test]
fn every_promise_holds_on_the_core() {
    for (seed, replacement) in (0..)
        .zip([Replacement::Lru, Replacement::SptfEvict, Replacement::FreeClean].repeat(testing::sized(2, 4)))
    {
        for force in [Force::Promote, Force::Submit] {
            for cleaner in [true, false] {
                let rig = CoreRig::new(seed, |config| {
                    (config.replacement, config.force) = (replacement, force);
                    config.cleaner = config.cleaner.filter(|_| cleaner);
                    config.syncer = Some(Syncer::default()).filter(|_| seed % 2 == 0);
                });
                let tally = rig.run(1_500);
                assert!(cleaner == (tally.free > 0), "{tally:?}");
            }
        }
    }
}
