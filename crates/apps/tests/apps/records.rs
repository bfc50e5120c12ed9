//! The record form of a session: against a naive queue on a naive host, and over the real core with slow clients.

use crate::support::{Naive, SECTOR};
use freeblock_apps::records::{Deadline, Got, Limits, Records, RecordsError, Timeout};
use freeblock_apps::sessions::{Parameter, Record, Sessions};
use model::DriveModel;
use model::random_profile::{Size, random_profile};
use proptest::prelude::*;
use scheduler::{Config, IdleTime, Priority, SessionError};
use sim::{Content, Faults, Platters, Volume};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, Sectors, TaskId};
use workload::{Arrival, Issuer, Random, RandomConfig};

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

#[derive(Clone, Debug)]
enum RecordEvent {
    Read { start: u64, len: u64, block: u64 },
    Write { start: u64, len: u64, block: u64 },
    Steps(u32),
    Get(u32),
    Abort(usize),
    AbortRange(u64, u64),
    Suspend,
    Resume,
}

fn events() -> impl Strategy<Value = Vec<RecordEvent>> {
    let event = prop_oneof![
        2 => (0..150u64, 1..50u64, 1..9u64).prop_map(|(start, len, block)| RecordEvent::Read { start, len, block }),
        1 => (0..150u64, 1..50u64, 1..9u64).prop_map(|(start, len, block)| RecordEvent::Write { start, len, block }),
        6 => (1..12u32).prop_map(RecordEvent::Steps),
        6 => (1..12u32).prop_map(RecordEvent::Get),
        1 => (0..8usize).prop_map(RecordEvent::Abort),
        1 => (0..150u64, 1..50u64).prop_map(|(start, len)| RecordEvent::AbortRange(start, len)),
        1 => Just(RecordEvent::Suspend),
        1 => Just(RecordEvent::Resume),
    ];
    prop::collection::vec(event, 1..80)
}

fn blocks(start: u64, len: u64, block: u64) -> Vec<LbnRange> {
    (0..len).step_by(block as usize).map(|at| range(start + at, block.min(len - at))).collect()
}

/// A naive queue of records with a limit.
struct Queue {
    limits: Limits,
    records: VecDeque<(Record, Vec<u8>)>,
    suspended: bool,
    full: bool,
}

impl Queue {
    fn update(&mut self) {
        let bytes: u64 = self.records.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        if self.records.len() >= self.limits.records || bytes >= self.limits.bytes.get() {
            self.full = true;
        }
        if self.records.len() * 2 <= self.limits.records && bytes * 2 <= self.limits.bytes.get() {
            self.full = false;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::sized(150, 400)))]

    #[test]
    fn records_are_a_queue_that_suspends_when_it_is_full(
        seed in any::<u64>(),
        records in 2..30usize,
        bytes in 64..4_000u64,
        events in events(),
    ) {
        let mut host = Naive::new(200, seed);
        host.bad.insert(seed % 200);
        let limits = Limits { records, bytes: Bytes::new(bytes) };
        let sector = Bytes::new(SECTOR as u64);
        let mut app = Records::open(&mut host.registry, Priority::default(), sector, limits).unwrap();
        let mut queue = Queue { limits, records: VecDeque::new(), suspended: false, full: false };
        let mut tasks: Vec<TaskId> = Vec::new();
        let mut left: BTreeMap<TaskId, Vec<LbnRange>> = BTreeMap::new();
        let now = Instant::from_nanos(5);
        for event in events {
            match event {
                RecordEvent::Read { start, len, block } => {
                    let task = app.read(&mut host.registry, range(start, len), Sectors::new(block), Parameter(start));
                    tasks.push(task.unwrap());
                    left.insert(task.unwrap(), blocks(start, len, block));
                }
                RecordEvent::Write { start, len, block } => {
                    let bytes = vec![start as u8; len as usize * SECTOR];
                    let (range, block_size) = (range(start, len), Sectors::new(block));
                    let task = app.write(&mut host.registry, range, block_size, bytes, Parameter(start)).unwrap();
                    tasks.push(task);
                    left.insert(task, blocks(start, len, block));
                }
                RecordEvent::Steps(n) => for _ in 0..n {
                    let before = host.handed.len();
                    let done = host.step(&mut app);
                    prop_assert!(!(done && (queue.suspended || queue.full)), "a record for a suspended session");
                    for done in &host.handed[before..] {
                        let bytes = match (done.op, done.bad) {
                            (Op::Read, None) => host.bytes(done.range).to_vec(),
                            _ => Vec::new(),
                        };
                        if done.op.is_write() && done.bad.is_none() {
                            let written = host.bytes(done.range);
                            prop_assert!(written.iter().all(|byte| u64::from(*byte) == done.parameter.0));
                        }
                        queue.records.push_back((*done, bytes));
                        left.get_mut(&done.task).unwrap().retain(|block| *block != done.range);
                    }
                    queue.update();
                },
                RecordEvent::Get(n) => for _ in 0..n {
                    let timeout = [Timeout::Poll, Timeout::Forever, Timeout::For(Duration::from_nanos(3))];
                    let timeout = timeout[n as usize % 3];
                    let got = app.get(&mut host.registry, timeout, now).unwrap();
                    match queue.records.pop_front() {
                        Some((mut done, bytes)) => {
                            queue.update();
                            done.last = queue.records.is_empty() && left.values().all(|left| left.is_empty());
                            let Got::Record(fetched) = got else {
                                return Err(TestCaseError::fail(format!("{got:?} for {done:?}")));
                            };
                            prop_assert_eq!((fetched.done, fetched.bytes), (done, bytes));
                        }
                        None if left.values().all(|left| left.is_empty()) => prop_assert_eq!(got, Got::Done),
                        None => prop_assert_eq!(got, match timeout {
                            Timeout::Poll => Got::Nothing,
                            Timeout::Forever => Got::WaitUntil(Deadline::Never),
                            Timeout::For(_) => Got::WaitUntil(Deadline::At(Instant::from_nanos(8))),
                        }),
                    }
                },
                RecordEvent::Abort(task) => {
                    let Some(&task) = tasks.get(task) else { continue };
                    let before = queue.records.len();
                    queue.records.retain(|(done, _)| done.task != task);
                    queue.update();
                    let expected = (before - queue.records.len()) as u64 + left.insert(task, Vec::new()).unwrap().len() as u64;
                    match app.abort(&mut host.registry, task) {
                        Ok(gone) => prop_assert_eq!(gone, expected),
                        Err(error) => {
                            prop_assert_eq!(error, RecordsError::Session(SessionError::NoTask(task)));
                            prop_assert_eq!(expected, 0);
                        }
                    }
                }
                RecordEvent::AbortRange(start, len) => {
                    let gone = range(start, len);
                    let before = queue.records.len();
                    queue.records.retain(|(done, _)| !done.range.overlaps(gone));
                    queue.update();
                    let mut expected = (before - queue.records.len()) as u64;
                    for left in left.values_mut() {
                        let before = left.len();
                        left.retain(|block| !block.overlaps(gone));
                        expected += (before - left.len()) as u64;
                    }
                    prop_assert_eq!(app.abort_range(&mut host.registry, gone), Ok(expected));
                }
                RecordEvent::Suspend => {
                    app.suspend(&mut host.registry).unwrap();
                    queue.suspended = true;
                }
                RecordEvent::Resume => {
                    app.resume(&mut host.registry).unwrap();
                    queue.suspended = false;
                }
            }
            prop_assert_eq!(host.registry.is_suspended(app.session()), queue.suspended || queue.full);
            prop_assert_eq!(app.buffered(), queue.records.len());
            prop_assert_eq!(app.to_come(), queue.records.len() as u64 + left.values().map(|left| left.len() as u64).sum::<u64>());
        }
    }

    /// With slow clients and faults of the drive, every block is still delivered once, with its bytes, and the
    /// buffers exceed their limits by no more than the blocks under way.
    #[test]
    fn slow_clients_lose_nothing_over_the_core(
        drive in any::<u64>(),
        seed in any::<u64>(),
        clients in prop::collection::vec((1..20usize, 1..24u64, 1..6u64), 1..4),
        idle in any::<bool>(),
        lost in prop_oneof![Just(0), 0..100_000u32],
    ) {
        let drive = Arc::new(DriveModel::from_profile(&random_profile(drive, Size::Tiny)).unwrap());
        let all = range(0, drive.layout().capacity().get().min(600));
        let mut platters = Platters::blank(&drive);
        let sector = drive.sector_bytes();
        for lbn in 0..all.len().get() {
            platters.medium_mut().write(range(lbn, 1), &vec![lbn as u8; sector.get() as usize]).unwrap();
        }
        let config = Config::default().with_idle(idle.then(IdleTime::default));
        let mut volume = Volume::new(Arc::clone(&drive), config, platters).unwrap();
        volume.set_faults(Faults { seed, lost_ppm: lost, ..Faults::default() });
        let load = RandomConfig { size: Sectors::new(2), ..RandomConfig::new(drive.layout().capacity(), sector) };
        let load = Box::new(Random::new(load, seed).unwrap());
        let issuer = Issuer::new(load as Box<_>, Arrival::oltp(6), Instant::ZERO, seed).unwrap();
        volume.load(issuer, Content::Timing);
        let mut apps = Vec::new();
        for &(records, block, _) in &clients {
            let limits = Limits { records, ..Limits::default() };
            let place = volume.host(Holder { records: None });
            volume.call(place, |app, sessions| {
                let mut records = Records::open(sessions, Priority::default(), sector, limits).unwrap();
                records.read(sessions, all, Sectors::new(block), Parameter(block)).unwrap();
                app.records = Some(records);
            }).unwrap();
            apps.push((place, BTreeMap::<Lbn, u64>::new()));
        }
        let densest = u64::from(drive.layout().densest_track());
        let mut round = 0;
        while apps.iter().any(|(place, _)| volume.app(*place).unwrap().to_come() > 0) {
            round += 1;
            prop_assert!(round < 20_000, "blocks that never come");
            // A block of most of a track may fit no gap of a busy drive; promotion makes it foreground work.
            if round > 2_000 && round % 100 == 0 {
                for (place, _) in &apps {
                    volume.call(*place, |app, sessions| {
                        app.records.as_mut().unwrap().promote(sessions, all).unwrap()
                    }).unwrap();
                }
            }
            volume.run_for(Duration::from_millis(20 + seed % 50)).unwrap();
            for ((place, seen), &(limit, block, pace)) in apps.iter_mut().zip(&clients) {
                let most = limit as u64 + (2 + 4 * densest).div_ceil(block) + 4;
                prop_assert!(volume.app(*place).unwrap().buffered() as u64 <= most);
                let now = volume.now();
                for _ in 0..pace {
                    let got = volume.call(*place, |app, sessions| {
                        app.records.as_mut().unwrap().get(sessions, Timeout::Poll, now).unwrap()
                    }).unwrap();
                    let Got::Record(fetched) = got else { break };
                    let done = fetched.done;
                    prop_assert_eq!(done.parameter, Parameter(block));
                    prop_assert!(seen.insert(done.range.start(), done.range.len().get()).is_none(), "twice");
                    let whole = (done.range.start().get()..).zip(fetched.bytes.chunks(sector.get() as usize));
                    for (lbn, bytes) in whole {
                        prop_assert!(bytes.iter().all(|byte| *byte == lbn as u8));
                    }
                    let left = volume.app(*place).unwrap().to_come();
                    prop_assert_eq!(done.last, left == 0);
                }
            }
        }
        for (_, seen) in &apps {
            prop_assert_eq!(seen.values().sum::<u64>(), all.len().get());
        }
    }
}

/// The session's records, once the volume is running.
struct Holder {
    records: Option<Records>,
}

impl Holder {
    fn to_come(&self) -> u64 {
        self.records.as_ref().map_or(0, Records::to_come)
    }

    fn buffered(&self) -> usize {
        self.records.as_ref().map_or(0, Records::buffered)
    }
}

impl freeblock_apps::sessions::Application for Holder {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant) {
        if let Some(records) = &mut self.records {
            records.done(sessions, done, bytes, now);
        }
    }

    fn buffer(&mut self, wanted: &freeblock_apps::sessions::Wanted, into: &mut [u8]) -> bool {
        self.records.as_mut().is_some_and(|records| records.buffer(wanted, into))
    }
}

#[test]
fn a_get_returns_at_once_if_nothing_can_come() {
    let mut host = Naive::new(100, 1);
    let sector = Bytes::new(SECTOR as u64);
    let mut records =
        Records::open(&mut host.registry, Priority::default(), sector, Limits::default()).unwrap();
    let now = Instant::ZERO;
    assert_eq!(records.get(&mut host.registry, Timeout::Forever, now), Ok(Got::Done));
    records.read(&mut host.registry, range(0, 8), Sectors::new(2), Parameter::default()).unwrap();
    let waits = Ok(Got::WaitUntil(Deadline::Never));
    assert_eq!(records.get(&mut host.registry, Timeout::Forever, now), waits);
    assert_eq!(records.abort_range(&mut host.registry, range(1, 7)), Ok(4));
    assert_eq!(records.get_by(&mut host.registry, Deadline::Never, now), Ok(Got::Done));
}

#[test]
fn impossible_limits_and_writes_are_refused() {
    let mut host = Naive::new(100, 1);
    let sector = Bytes::new(SECTOR as u64);
    let nothing = Limits { records: 0, ..Limits::default() };
    let error = Records::open(&mut host.registry, Priority::default(), sector, nothing).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a buffer of 0 records and 4194304 bytes; give at least one record and one byte"
    );
    let mut records =
        Records::open(&mut host.registry, Priority::default(), sector, Limits::default()).unwrap();
    let write =
        records.write(&mut host.registry, range(0, 4), Sectors::new(2), vec![0; 16], Parameter::default());
    assert_eq!(
        write.unwrap_err().to_string(),
        "LBNs 0+4 are 64 bytes, but 16 were given; give the bytes of the whole range"
    );
    assert_eq!((host.registry.pending(), records.to_come()), (0, 0));
}
