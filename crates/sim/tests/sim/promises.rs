//! The promises of the design that the core inside a drive must keep, over random drives, loads and wanted sets.

use freeblock_sim::{Background, Inside, Nothing, Observer, Report};
use model::DriveModel;
use model::random_profile::{Size, random_profile};
use proptest::prelude::*;
use scheduler::policy::{AgeWeight, PolicyName, SeekWeight, SweepWeight};
use scheduler::{AnyCore, Config, Parameter, Priority, Record, Request, SearchBudget, Sessions};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, RequestId, Sectors, TaskId};
use workload::{Arrival, Closed, Issuer, Random, RandomConfig, Share, Think};

/// A drive with a load on it.
#[derive(Clone, Debug)]
struct LoadedDrive {
    drive: u64,
    size: Size,
    policy: PolicyName,
    age: u32,
    seed: u64,
    tasks: u32,
    think_us: u64,
    open: bool,
    request_sectors: u64,
    local: u64,
    reads: u64,
    budget: u32,
}

fn loads(size: Size) -> impl Strategy<Value = LoadedDrive> {
    let policy = prop_oneof![
        Just(PolicyName::Fcfs),
        Just(PolicyName::CLook),
        Just(PolicyName::Look),
        Just(PolicyName::Scan),
        (0..1_000_000u32).prop_map(|r| PolicyName::VScan(SweepWeight::from_millionths(r))),
        (0..20_000u32).prop_map(|w| PolicyName::Asptf(AgeWeight::from_millionths(w))),
        Just(PolicyName::Sstf),
        Just(PolicyName::Sptf),
        (0..200u16).prop_map(|n| PolicyName::SptfSw(SeekWeight::percent(n))),
        Just(PolicyName::SptfSw(SeekWeight::UNLIMITED)),
    ];
    (
        (any::<u64>(), policy, prop_oneof![Just(0), 0..20_000u32], any::<u64>()),
        (1..12u32, 0..40_000u64, any::<bool>(), 1..40u64, 0..=4u64, 0..=4u64),
        prop_oneof![Just(0), 1..30u32, Just(500)],
    )
        .prop_map(
            move |((drive, policy, age, seed), (tasks, think_us, open, sectors, local, reads), budget)| {
                LoadedDrive {
                    drive,
                    size,
                    policy,
                    age,
                    seed,
                    tasks,
                    think_us,
                    open,
                    request_sectors: sectors,
                    local,
                    reads,
                    budget,
                }
            },
        )
}

impl LoadedDrive {
    fn drive(&self) -> Arc<DriveModel> {
        Arc::new(DriveModel::from_profile(&random_profile(self.drive, self.size)).unwrap())
    }

    fn start(&self, background: Background) -> Inside<Random> {
        let drive = self.drive();
        let capacity = drive.layout().capacity();
        let sectors = self.request_sectors.min(capacity.get());
        let config = RandomConfig {
            size: Sectors::new(sectors),
            align: Sectors::new(1),
            reads: Share::new(self.reads, 4).unwrap(),
            local: Share::new(self.local, 4).unwrap(),
            local_deviation: Sectors::new(200),
            ..RandomConfig::new(capacity, Bytes::new(512))
        };
        let source = Random::new(config, self.seed).unwrap();
        let arrival = if self.open {
            Arrival::Poisson { rate: 5.0 + self.think_us as f64 / 400.0 }
        } else {
            let think = Think::Exponential(Duration::from_micros(self.think_us));
            Arrival::Closed(Closed { tasks: self.tasks, think })
        };
        let foreground = Issuer::new(source, arrival, Instant::ZERO, self.seed).unwrap();
        let config = Config::default()
            .with_policy(self.policy)
            .with_age(AgeWeight::from_millionths(self.age))
            .with_budget(SearchBudget::tracks(self.budget));
        Inside::new(drive, config, foreground, background).unwrap()
    }
}

/// An observer that records everything.
#[derive(Default, Debug, PartialEq, Clone)]
struct EventLog {
    completions: Vec<(RequestId, Instant, Instant)>,
    records: Vec<(Record, Instant)>,
}

impl Observer for EventLog {
    fn completed(&mut self, request: Request, arrived: Instant, at: Instant) {
        self.completions.push((request.id, arrived, at));
    }

    fn delivered(&mut self, _: &mut dyn AnyCore, record: Record, at: Instant) {
        self.records.push((record, at));
    }
}

/// Returns tasks, some of which overlap: the start in 256ths of the capacity, the length in 256ths of the rest, and
/// the size of a block in sectors.
fn wanted() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let block = prop_oneof![4 => 1..20u64, 1 => 20..300u64];
    prop::collection::vec((0..256u64, 1..=256u64, block), 0..4)
}

fn want(run: &mut Inside<Random>, tasks: &[(u64, u64, u64)]) -> Vec<(TaskId, LbnRange, u64)> {
    let capacity = run.core_mut().drive().layout().capacity().get();
    let session = run.core_mut().open(Priority::default()).unwrap();
    tasks
        .iter()
        .filter_map(|&(start, share, block)| {
            let start = capacity * start / 256;
            let len = ((capacity - start) * share / 256).max(1).min(capacity - start);
            let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
            let task = run.core_mut().read(session, range, Sectors::new(block), Parameter::default()).ok()?;
            Some((task, range, block))
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::sized(60, 120)))]

    /// Promise 1: in the drive, the background does not cost the foreground a nanosecond. The mechanics that carry out
    /// the accesses are independent of the planner: with one sector too many, a request misses a revolution.
    #[test]
    fn foreground_completions_are_identical_to_the_nanosecond(load in loads(Size::Small), tasks in wanted()) {
        let (mut without, mut with) = (load.start(Background::None), load.start(Background::None));
        want(&mut with, &tasks);
        let (mut plain, mut busy) = (EventLog::default(), EventLog::default());
        without.advance(400, &mut plain).unwrap();
        with.advance(400, &mut busy).unwrap();
        prop_assert_eq!(plain.completions, busy.completions);
        if load.local < 2 && load.budget > 100 && tasks.iter().any(|t| t.1 > 64 && t.2 < 8) {
            // The test would prove nothing if nothing had been read.
            prop_assert!(!busy.records.is_empty());
        }
    }

    /// Promise 2: every wanted block is delivered exactly once, the last record is marked as the last, and aborting a
    /// task ends its deliveries. The drives have slips, remaps and tracks of odd lengths, and some blocks are longer
    /// than a track.
    #[test]
    fn every_wanted_block_is_delivered_exactly_once(load in loads(Size::Tiny), tasks in wanted(), abort in any::<u64>()) {
        // An overloaded open queue would grow for as long as the test goes on.
        let load = LoadedDrive { open: false, ..load };
        let mut run = load.start(Background::None);
        let registered = want(&mut run, &tasks);
        let mut log = EventLog::default();
        run.advance(abort % 60, &mut log).unwrap();
        let mut aborted = None;
        if abort % 3 == 0 && let Some(&(task, ..)) = registered.first() {
            aborted = run.core_mut().abort(task).ok().map(|left| (task, left, log.records.len()));
        }
        let mut rounds = 0;
        while registered.iter().any(|(task, ..)| run.core_mut().task_undelivered(*task) > 0) {
            run.advance(200, &mut log).unwrap();
            rounds += 1;
            prop_assert!(rounds < 400, "blocks are left that no gap gives: {:?}", registered);
        }
        let mut seen: BTreeMap<TaskId, Vec<LbnRange>> = BTreeMap::new();
        for (record, _) in &log.records {
            seen.entry(record.task).or_default().push(record.range);
        }
        for (task, range, block) in registered {
            let mut got = seen.remove(&task).unwrap_or_default();
            got.sort();
            let n = range.len().get().div_ceil(block);
            let all: Vec<LbnRange> = (0..n).map(|i| {
                let len = block.min(range.len().get() - i * block);
                LbnRange::new(range.start() + Sectors::new(i * block), Sectors::new(len))
            }).collect();
            match aborted {
                Some((id, left, at)) if id == task => {
                    prop_assert_eq!(got.len() as u64 + left, n, "delivered and aborted");
                    prop_assert!(log.records[at..].iter().all(|(r, _)| r.task != task), "delivered after the abort");
                    got.dedup();
                    prop_assert_eq!(got.len() as u64 + left, n, "delivered twice");
                }
                _ => prop_assert_eq!(got, all),
            }
        }
        prop_assert!(seen.is_empty());
        let lasts = log.records.iter().filter(|(r, _)| r.last).count();
        prop_assert!(lasts <= 1 && (aborted.is_some() || log.records.last().is_none_or(|(r, _)| r.last)));
    }

    /// Promise 6: the same inputs give the same outputs.
    #[test]
    fn the_same_seed_gives_the_same_run(load in loads(Size::Small), tasks in wanted()) {
        let run = || -> (EventLog, Report) {
            let mut run = load.start(Background::Scan { block: Sectors::new(8) });
            want(&mut run, &tasks);
            let mut log = EventLog::default();
            run.advance(150, &mut log).unwrap();
            (log, run.report())
        };
        prop_assert_eq!(run(), run());
    }

    /// The background uses the foreground's latency alone: the foreground's seeks and transfers are the same with and
    /// without background work, whose own seeks and transfers replace latency.
    #[test]
    fn the_background_is_paid_from_latency(load in loads(Size::Small)) {
        let (mut without, mut with) =
            (load.start(Background::None), load.start(Background::Scan { block: Sectors::new(8) }));
        without.advance(200, &mut Nothing).unwrap();
        with.advance(200, &mut Nothing).unwrap();
        let (a, b) = (without.report(), with.report());
        prop_assert_eq!(a.simulated, b.simulated);
        let (a, b) = (a.head_time, b.head_time);
        prop_assert!((a.seek - b.seek).abs() < 1e-9 && (a.transfer - b.transfer).abs() < 1e-9);
        prop_assert!((a.rotation - b.rotation - b.free_transfer - b.extra_seek).abs() < 1e-9, "{a:?} {b:?}");
    }

    /// The shares of the head's time add up to 1.
    #[test]
    fn head_time_adds_up(load in loads(Size::Small)) {
        let mut run = load.start(Background::Scan { block: Sectors::new(8) });
        run.advance(150, &mut Nothing).unwrap();
        let h = run.report().head_time;
        let sum = h.seek + h.rotation + h.transfer + h.free_transfer + h.extra_seek + h.idle;
        prop_assert!((sum - 1.0).abs() < 1e-9, "{h:?}");
    }
}

/// The foreground continues after the end of a scan, and the scan's results do not change any more.
#[test]
fn the_foreground_outlives_its_scan() {
    let load = LoadedDrive {
        drive: 3,
        size: Size::Tiny,
        policy: PolicyName::Fcfs,
        age: 0,
        seed: 1,
        tasks: 4,
        think_us: 500,
        open: false,
        request_sectors: 4,
        local: 0,
        reads: 3,
        budget: 100,
    };
    let mut run = load.start(Background::Scan { block: Sectors::new(4) });
    while run.advance_scan(10, &mut Nothing).unwrap() {}
    assert!(run.is_scanned());
    let scanned = run.report();
    run.advance(500, &mut Nothing).unwrap();
    let after = run.report();
    assert_eq!(after.foreground.requests, scanned.foreground.requests + 500);
    assert_eq!(after.background, scanned.background);
}
