//! A disk on virtual time, compared with the true content of the medium. Random foreground and background work
//! overlaps, with errors, on a drive that reorders its commands.

mod background;
mod door;
mod mistrust;
mod probe;
mod recording;
mod serving;
mod silence;
mod snapshot;
mod spy;
mod tester;

use device::{Abilities, Answer, Ask, Device, Emulated, Failure};
use drive::{Behaviour, Queue, QueueOrder};
use model::{DriveModel, Profile};
use proptest::prelude::*;
use scheduler::{Config, IdleTime, OutsideConfig, Overheads, Parameter, Priority};
use server::{Disk, DiskHooks};
use spy::{SharedTruth, Spy, stamped, stamps};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tester::{BACKGROUND, Tester};
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, Sectors};

const PROFILE: &str = include_str!("../../../../drive/tests/data/small.toml");

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

/// Returns the model and the configuration of a core for these tests.
fn core(policy: &str, seed: u64) -> (Arc<DriveModel>, Config) {
    let profile = Profile::from_toml(PROFILE, "small.toml").unwrap();
    let model = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let firmware = profile.firmware.as_ref().unwrap();
    let overheads = Overheads::of(firmware, &model, true).writing_back(firmware, false);
    let config = Config::default()
        .with_policy(policy.parse().unwrap())
        .with_outside(OutsideConfig::beyond(overheads))
        .with_idle(Some(IdleTime::default()))
        .with_most_pending(6)
        .with_most_partials(8)
        .with_seed(seed);
    (model, config)
}

/// Returns a disk over a drive that reorders commands, and the true content of its medium.
fn disk<A: DiskHooks>(policy: &str, seed: u64) -> (Disk<Spy, A>, SharedTruth) {
    disk_with(policy, seed, Some(IdleTime::default()))
}

/// Returns a disk over a drive that reorders commands, with this use of idle time, and the true content of its
/// medium.
fn disk_with<A: DiskHooks>(policy: &str, seed: u64, idle: Option<IdleTime>) -> (Disk<Spy, A>, SharedTruth) {
    let profile = Profile::from_toml(PROFILE, "small.toml").unwrap();
    let (model, config) = core(policy, seed);
    let queue = Queue::Tagged { order: QueueOrder::Sptf, depth: 4 };
    let behaviour = Behaviour { queue, seek_spread: Duration::from_micros(30), ..Behaviour::default() };
    let drive = Emulated::new(&profile, behaviour, seed, nameless()).unwrap();
    let truth = SharedTruth::default();
    (Disk::new(Spy::new(drive, &truth), model, config.with_idle(idle)).unwrap(), truth)
}

/// Returns a file without a name, which is deleted even if the test fails.
fn nameless() -> File {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let next = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    // The file is in memory if possible, because some file systems allow no file of 20 TB.
    let shared = std::path::Path::new("/dev/shm");
    let directory = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
    let path = directory.join(format!("freeblock-disk-test-{}-{next}", std::process::id()));
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    std::fs::remove_file(path).unwrap();
    file
}

#[derive(Clone, Debug)]
enum DiskStep {
    Read(LbnRange),
    Write(LbnRange, bool),
    Discard(LbnRange),
    Flush,
    Wait(u64),
    Register(Op, LbnRange, u64),
    Abort(usize),
    Promote(LbnRange),
    Spoil(u64),
    FailAWrite,
}

const CAPACITY: u64 = 3_500;

fn any_range(longest: u64) -> impl Strategy<Value = LbnRange> {
    // Half of the ranges begin in a small region, so that they overlap.
    let start = prop_oneof![0u64..CAPACITY - longest, 950u64..1_050];
    (start, 1..=longest).prop_map(|(start, len)| range(start, len))
}

fn step() -> impl Strategy<Value = DiskStep> {
    prop_oneof![
        6 => any_range(40).prop_map(DiskStep::Read),
        6 => (any_range(40), any::<bool>()).prop_map(|(range, through)| DiskStep::Write(range, through)),
        1 => any_range(40).prop_map(DiskStep::Discard),
        1 => Just(DiskStep::Flush),
        5 => (0u64..30_000).prop_map(DiskStep::Wait),
        2 => (any_range(300), 1u64..130).prop_map(|(range, block)| DiskStep::Register(Op::Read, range, block)),
        2 => (any_range(300), 1u64..130).prop_map(|(range, block)| DiskStep::Register(Op::Write, range, block)),
        1 => (0usize..8).prop_map(DiskStep::Abort),
        1 => any_range(100).prop_map(DiskStep::Promote),
        1 => prop_oneof![0..CAPACITY, 950u64..1_050].prop_map(DiskStep::Spoil),
        1 => Just(DiskStep::FailAWrite),
    ]
}

/// The expected content of a sector for a client: the last write that had arrived, and the event at which it
/// arrived.
type Expected = (u64, u64);

enum OpenRequest {
    Read(LbnRange, Vec<Expected>),
    Write(LbnRange, u64, bool),
    Discard,
    Flush(u64),
}

struct DiskWorld {
    disk: Disk<Spy, Tester>,
    truth: SharedTruth,
    now: Instant,
    asked: BTreeMap<u64, OpenRequest>,
    /// The last write to each sector, in order of arrival.
    latest: Vec<Expected>,
    /// The stamps of writes that failed, and of discards: the content is undefined.
    unknown: BTreeSet<u64>,
    answers: u64,
    recording: recording::Memory,
}

impl DiskWorld {
    fn new(policy: &str, seed: u64) -> Self {
        let (mut disk, truth) = disk(policy, seed);
        let recording = recording::record(&mut disk, policy, seed);
        disk.host(Tester::new(&truth, seed));
        let latest = vec![(0, 0); disk.size().get() as usize / spy::SECTOR];
        let (asked, unknown) = (BTreeMap::new(), BTreeSet::new());
        Self { disk, truth, now: Instant::ZERO, asked, latest, unknown, answers: 0, recording }
    }

    fn lbns(range: LbnRange) -> std::ops::Range<usize> {
        range.start().get() as usize..range.end().get() as usize
    }

    fn step(&mut self, step: DiskStep) {
        let id = self.truth.get().tick();
        let (range, ask, asked) = match step {
            DiskStep::Read(range) => {
                (range, Ask::Read, OpenRequest::Read(range, self.latest[Self::lbns(range)].to_vec()))
            }
            DiskStep::Write(range, through) => {
                self.latest[Self::lbns(range)].fill((id, id));
                let bytes = stamped(id).repeat(range.len().get() as usize);
                (range, Ask::Write { bytes, through }, OpenRequest::Write(range, id, through))
            }
            DiskStep::Discard(range) => {
                self.latest[Self::lbns(range)].fill((id, id));
                self.unknown.insert(id);
                (range, Ask::Discard, OpenRequest::Discard)
            }
            DiskStep::Flush => (range(0, 0), Ask::Flush, OpenRequest::Flush(id)),
            DiskStep::Wait(us) => return self.run_until(self.now + Duration::from_micros(us)),
            DiskStep::Register(op, range, block) => {
                let block = Sectors::new(block);
                self.call(|app, sessions| app.register(sessions, op, range, block));
                return self.take();
            }
            DiskStep::Abort(which) => {
                self.call(|app, sessions| app.abort(sessions, which));
                return self.take();
            }
            DiskStep::Promote(range) => {
                self.call(|app, sessions| app.promote(sessions, range));
                return self.take();
            }
            DiskStep::Spoil(lbn) => {
                self.truth.get().bad.insert(lbn);
                return;
            }
            DiskStep::FailAWrite => {
                self.truth.get().failing = true;
                return;
            }
        };
        self.asked.insert(id, asked);
        self.disk.ask(self.now, id, range, ask);
        self.take();
    }

    fn call<R>(&mut self, call: impl FnOnce(&mut Tester, &mut dyn scheduler::Sessions) -> R) -> R {
        self.disk.call(self.now, call).unwrap()
    }

    fn run_until(&mut self, until: Instant) {
        while let Some(at) = self.disk.next_event().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.disk.advance(self.now);
            self.take();
        }
        self.now = until;
    }

    /// Checks that a sector holds the write that a client expects, or a later background write.
    fn check(&self, lbn: usize, found: u64, (stamp, since): Expected) {
        let background = found & BACKGROUND != 0;
        let newer = background && found & !BACKGROUND > since;
        let known = found == stamp || newer || self.unknown.contains(&stamp);
        assert!(known, "LBN {lbn} holds {found:#x}, not {stamp} of event {since} or what came later");
    }

    fn take(&mut self) {
        while let Some(answer) = self.disk.poll(self.now) {
            self.answers += 1;
            let asked = self.asked.remove(&answer.id).unwrap();
            let truth = self.truth.clone();
            let truth = truth.get();
            match (asked, answer.result) {
                (OpenRequest::Read(range, expected), Ok(bytes)) => {
                    assert_eq!(truth.first_bad(range), None, "{range} is read although it cannot be");
                    for ((lbn, found), expected) in Self::lbns(range).zip(stamps(&bytes)).zip(expected) {
                        self.check(lbn, found, expected);
                    }
                }
                (OpenRequest::Read(range, _), Err(Failure::Medium(bad))) => {
                    assert_eq!(truth.first_bad(range), Some(bad), "only what is bad fails");
                }
                (OpenRequest::Write(range, stamp, through), Ok(_)) => {
                    // Later writes that waited for this one may be done by now, too.
                    let last = Self::lbns(range).filter(|lbn| self.latest[*lbn].0 == stamp);
                    assert!({ last }.all(|lbn| truth.sectors[lbn] == stamp), "{range} is acknowledged");
                    let kept = Self::lbns(range).all(|lbn| !truth.volatile.contains_key(&(lbn as u64)));
                    assert!(kept || !through, "{range} was to go through");
                }
                (OpenRequest::Write(_, stamp, _), Err(Failure::File(_))) => {
                    self.unknown.insert(stamp);
                }
                (OpenRequest::Flush(since), Ok(_)) => {
                    assert!(truth.volatile.values().all(|event| *event > since), "not all is flushed");
                }
                (OpenRequest::Discard, Ok(_)) => {}
                (_, result) => panic!("{result:?}"),
            }
        }
    }

    /// Runs until all requests and the background work are done.
    fn finish(&mut self) {
        let mut left = 400_000;
        loop {
            let to_come = self.disk.call(self.now, |app, sessions| app.to_come(sessions)).unwrap();
            self.take();
            if self.asked.is_empty() && to_come == 0 {
                break;
            }
            let at = self.disk.next_event();
            let at = at.unwrap_or_else(|| {
                panic!("{} requests and {to_come} blocks are forgotten", self.asked.len())
            });
            self.now = self.now.max(at);
            self.disk.advance(self.now);
            self.take();
            left -= 1;
            assert!(left > 0, "it never ends: {:?}", self.disk.status());
        }
        let truth = self.truth.clone();
        let truth = truth.get();
        for (lbn, (found, expected)) in truth.sectors.iter().zip(&self.latest).enumerate() {
            self.check(lbn, *found, *expected);
        }
        let app = self.disk.app().unwrap();
        for (id, task) in &app.tasks {
            let aborted = app.aborted.contains(id);
            let once = task.delivered.iter().all(|n| *n == 1);
            assert!(aborted || once, "{id} has not got all its blocks");
        }
        let status = self.disk.status();
        assert_eq!(status.background.blocks, app.blocks);
        assert_eq!(status.background.parts_kept, 0, "parts of blocks that no session waits for");
        assert_eq!(status.outstanding, 0);
        let blocks = app.blocks;
        self.disk.end_recording().unwrap();
        let reported = recording::again(&self.recording.bytes()).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((reported.blocks, reported.cut_off), (blocks, false));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_byte_is_where_a_client_left_it(
        policy in prop::sample::select(vec!["fcfs", "sptf", "c-look"]),
        seed in 0u64..1_000,
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let mut world = DiskWorld::new(policy, seed);
        for step in steps {
            world.step(step);
        }
        world.finish();
    }
}

/// A device that counts the commands it has not answered yet.
#[derive(Debug)]
struct CountedDevice(Emulated, Arc<AtomicUsize>);

impl Device for CountedDevice {
    fn sector_bytes(&self) -> Bytes {
        self.0.sector_bytes()
    }

    fn size(&self) -> Bytes {
        self.0.size()
    }

    fn abilities(&self) -> Abilities {
        Device::abilities(&self.0)
    }

    fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask) {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.ask(now, id, range, ask);
    }

    fn next_event(&self) -> Option<Instant> {
        self.0.next_event()
    }

    fn advance(&mut self, now: Instant) {
        self.0.advance(now);
    }

    fn poll(&mut self, now: Instant) -> Option<Answer> {
        let answer = self.0.poll(now);
        self.1.fetch_sub(usize::from(answer.is_some()), Ordering::Relaxed);
        answer
    }
}

#[test]
fn a_client_has_its_answer_before_the_core_chooses_background_work() {
    let profile = model::builtin::find("nearline-20tb").unwrap();
    let all = DriveModel::from_profile(&profile).unwrap();
    // A core that does not know when sectors pass the head sends a background read at once, if the bound on
    // harm has room.
    let known = DriveModel::unknown(all.layout().capacity(), all.sector_bytes()).unwrap();
    let idle = Some(IdleTime::default().with_harm_ppm(500_000));
    let config = Config::outside(OutsideConfig::blind().serving()).with_idle(idle);
    let at_device = Arc::new(AtomicUsize::new(0));
    let drive = Emulated::new(&profile, Behaviour::modern(), 1, nameless()).unwrap();
    let mut disk = Disk::new(CountedDevice(drive, Arc::clone(&at_device)), Arc::new(known), config).unwrap();
    disk.host(probe::CountingScan::default());
    let mut now = Instant::ZERO;
    let wanted = disk.call(now, |_, sessions| {
        let session = sessions.open(Priority::default())?;
        sessions.read(session, range(0, CAPACITY << 20), Sectors::new(8), Parameter::default())
    });
    assert!(wanted.unwrap().is_ok());
    let (mut before, mut behind) = (0, 0);
    for id in 0..100 {
        disk.ask(now, id, range(id * 13_000_000, 8), Ask::Read);
        while disk.poll(now).is_none() {
            now = disk.next_event().unwrap();
            disk.advance(now);
        }
        before += at_device.load(Ordering::Relaxed);
        if disk.next_event() == Some(now) {
            disk.advance(now);
            behind += at_device.load(Ordering::Relaxed);
        }
    }
    assert_eq!(before, 0, "commands at the device when clients are answered");
    assert!(behind > 0);
}
