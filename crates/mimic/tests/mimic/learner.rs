//! On-line learning, compared with a map of all observations.

use mimic::{
    CheckPoints, Distance, Learner, LearnerConfig, LearnerError, Metric, Pair, Samples, TableBuilder,
};
use proptest::prelude::*;
use scheduler::{Last, Mimic, Observed, Request};
use std::collections::BTreeMap;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};

const CAPACITY: Sectors = Sectors::new(100_000);

fn config() -> LearnerConfig {
    LearnerConfig { notice_change: false, ..LearnerConfig::new(CAPACITY, Sectors::new(1)) }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

proptest! {
    /// Only distances with enough observations are known; the time of each is the mean of its
    /// observations.
    #[test]
    fn a_known_time_is_the_mean_of_its_observations(
        observed in prop::collection::vec((0..4usize, -60..60i64, 1..20_000_000u64), 1..400),
        minimum_samples in 1..5u8,
    ) {
        let config = LearnerConfig { minimum_samples, window: 255, check_points: CheckPoints::NONE, ..config() };
        let mut learner = Learner::new(config, None).unwrap();
        prop_assert!(learner.is_exact());
        let mut all: BTreeMap<(usize, i64), Vec<u64>> = BTreeMap::new();
        for (pair, distance, ns) in observed {
            learner.learn(Pair::ALL[pair], Distance::new(distance), Duration::from_nanos(ns));
            all.entry((pair, distance)).or_default().push(ns);
        }
        for pair in 0..4 {
            for distance in -62..62 {
                let samples = all.get(&(pair, distance)).filter(|s| s.len() >= minimum_samples.into());
                let time = learner.time_at(Pair::ALL[pair], Distance::new(distance), 0);
                prop_assert_eq!(time.is_some(), samples.is_some());
                if let (Some(time), Some(samples)) = (time, samples) {
                    let mean = samples.iter().sum::<u64>() / samples.len() as u64;
                    prop_assert!(time.as_nanos().abs_diff(mean) <= 1 + samples.len() as u64 / 2);
                }
            }
            let known: Vec<_> = learner.known(Pair::ALL[pair]).map(|(d, _)| d).collect();
            prop_assert!(known.windows(2).all(|w| w[0] < w[1]));
        }
        let counted = all.values().filter(|s| s.len() >= minimum_samples.into()).count();
        prop_assert_eq!(learner.stats().known, counted as u64);
    }

    /// For any drive and limit of memory, the limit holds, and every observed distance is known.
    #[test]
    fn memory_is_kept_to(
        capacity in 1..1u64 << 36, memory in 1u64 << 18..1 << 22, unit in 1..16u64,
        distances in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..50),
    ) {
        let config = LearnerConfig {
            capacity: Sectors::new(capacity), unit: Sectors::new(unit), memory: Bytes::new(memory), ..config()
        };
        let mut learner = Learner::new(config, None).unwrap();
        for (distance, backward) in distances {
            let distance = distance.index(capacity as usize) as i64 * if backward { -1 } else { 1 };
            learner.learn(Pair::ALL[2], Distance::new(distance), ms(5));
            prop_assert!(learner.time_at(Pair::ALL[2], Distance::new(distance), 0).is_some());
        }
        prop_assert!(learner.memory().get() <= memory + 8_192, "{} of {}", learner.memory().get(), memory);
    }
}

#[test]
fn the_largest_drives_fit_into_64_mb_and_small_ones_are_exact_in_it() {
    let learner = |sectors: u64, unit: u64| {
        let config = LearnerConfig::new(Sectors::new(sectors), Sectors::new(unit));
        let learner = Learner::new(config, None).unwrap();
        assert!(learner.memory() <= Bytes::new(64 << 20), "{}", learner.memory());
        learner
    };
    // 20 TB are not exact in steps of 4 KB, nor in steps of a sector.
    assert!(!learner(40_000_000_000, 8).is_exact() && !learner(40_000_000_000, 1).is_exact());
    // 1 GB is exact in steps of 1 KB, like the paper's traced disk, and 4 GB in steps of 4 KB.
    assert!(learner(2_000_000, 2).is_exact() && learner(8_000_000, 8).is_exact());
}

#[test]
fn a_table_counts_until_enough_is_observed() {
    let reads = Pair::ALL[0];
    let samples: Samples = [ms(4)].into_iter().collect();
    let mut builder = TableBuilder::new(Metric::Mean, 0);
    builder.push(reads, Distance::new(-1_000), &samples, true);
    builder.push(reads, Distance::new(1_000), &samples, true);
    let mut learner = Learner::new(config(), Some(builder.build())).unwrap();
    let at = |learner: &Learner, d| learner.time_at(reads, Distance::new(d), 0);
    assert_eq!(at(&learner, 9), Some(ms(4)));
    // The table's time has the weight of four samples.
    learner.learn(reads, Distance::new(9), ms(9));
    assert_eq!(at(&learner, 9), Some(ms(5)));
    (0..2_000).for_each(|_| learner.learn(reads, Distance::new(9), ms(9)));
    // Steps of less than half a nanosecond round to zero, so the mean stops before it reaches 9 ms.
    let off = ms(9).as_nanos().abs_diff(at(&learner, 9).unwrap().as_nanos());
    assert!(off <= 32, "{off} ns");
    assert_eq!(at(&learner, 10), Some(ms(4)));
}

#[test]
fn after_a_pause_nothing_is_learnt() {
    let mut learner = Learner::new(config(), None).unwrap();
    let last = Last { op: Op::Read, lbn: Lbn::new(50) };
    let range = LbnRange::new(Lbn::new(99), Sectors::new(8));
    let request = Request { id: RequestId::new(1), op: Op::Write, range };
    let mut observe = |pause| {
        learner.observe(&Observed { last, request, pause, time: ms(3) });
        learner.time(last, Instant::ZERO, &request)
    };
    assert_eq!(observe(Duration::from_micros(201)), None);
    assert_eq!(observe(Duration::from_micros(200)), Some(ms(3)));
    assert_eq!((learner.stats().observed, learner.stats().after_pause), (1, 1));
}

#[test]
fn another_drive_is_noticed_and_its_times_are_learnt() {
    let drive = |shift: u64, i: u64| Duration::from_micros(1_000 + (i * 37 + shift) % 400 * 15 + i % 5 * 40);
    let samples: Samples = [ms(4)].into_iter().collect();
    let mut builder = TableBuilder::new(Metric::Mean, 0);
    Pair::ALL.into_iter().for_each(|pair| assert!(builder.push(pair, Distance::new(0), &samples, true)));
    let config = LearnerConfig { notice_change: true, check_points: CheckPoints::NONE, ..config() };
    let mut learner = Learner::new(config, Some(builder.build())).unwrap();
    let run = |learner: &mut Learner, shift| {
        for i in 0..20_000u64 {
            learner.learn(
                Pair::ALL[(i % 4) as usize],
                Distance::new((i % 800) as i64 - 400),
                drive(shift, i % 800),
            );
        }
    };
    run(&mut learner, 0);
    assert_eq!(learner.stats().changes, 0);
    assert!(learner.table().is_some());
    run(&mut learner, 201);
    assert_eq!(learner.stats().changes, 1);
    assert!(learner.table().is_none(), "its table was of the other drive");
    for i in 0..800u64 {
        let time = learner.time_at(Pair::ALL[(i % 4) as usize], Distance::new(i as i64 - 400), 0);
        assert_eq!(time, Some(drive(201, i)));
    }
}

#[test]
fn idle_probes_are_of_unknown_distances_on_the_drive() {
    let mut learner =
        Learner::new(LearnerConfig { probe_idle: true, unit: Sectors::new(8), ..config() }, None).unwrap();
    let mut last = Last { op: Op::Read, lbn: Lbn::new(50_007) };
    for _ in 0..3_000 {
        let Some(range) = learner.wanted(last) else { continue };
        assert!(range.end().get() <= CAPACITY.get() && range.len() == Sectors::new(8));
        let request = Request { id: RequestId::new(0), op: Op::Read, range };
        let distance = Distance::between(last.lbn, range.start());
        assert_eq!(distance.sectors().rem_euclid(8), 1);
        let before = learner.stats().known;
        learner.observe(&Observed { last, request, pause: Duration::ZERO, time: ms(2) });
        assert_eq!(learner.stats().known, before + 1);
        last = Last::of(&request);
    }
    assert!(learner.stats().known > 1_000);
    let mut never = Learner::new(config(), None).unwrap();
    assert_eq!(never.wanted(last), None);
}

#[test]
fn configurations_that_make_no_learner_name_the_field() {
    let refused = |config: LearnerConfig, word: &str| {
        let error: LearnerError = Learner::new(config, None).unwrap_err();
        assert!(error.to_string().contains(word), "{error}");
    };
    refused(LearnerConfig { unit: Sectors::ZERO, ..config() }, "unit");
    refused(LearnerConfig { capacity: Sectors::ZERO, ..config() }, "capacity");
    refused(LearnerConfig { capacity: Sectors::new(u64::MAX), ..config() }, "capacity");
    refused(LearnerConfig { memory: Bytes::new(100), ..config() }, "memory");
    refused(LearnerConfig { minimum_samples: 0, ..config() }, "minimum_samples");
    refused(LearnerConfig { window: 0, minimum_samples: 1, ..config() }, "window");
}
