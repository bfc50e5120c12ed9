//! The time of one prediction by a table and by a learner, each as large as its memory allows.
//!
//! SMTF asks for the time of every waiting request after every completion; the limit is 100 ns a prediction. The
//! benchmark asks for a pool of 64 requests at random places, each time after a request at another random place, so
//! that the parts of a table that are read for one pool are of no use for the next. Pools are asked for at once, as
//! SMTF does, or request by request (`one_by_one`).
//!
//! The time of a table that no cache holds depends on the machine's memory and its other users. So the benchmark
//! first compares each table, in one run, with single random reads of the same amount of memory, each of which must
//! wait for the previous one. Run `cargo bench -p freeblock-mimic`; under test the tables are small. The checksum
//! is over the first predictions.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use divan::{Bencher, black_box};
use mimic::{Distance, Learner, LearnerConfig, Metric, Pair, Samples, Table, TableBuilder};
use scheduler::{Last, Mimic, Request};
use std::num::NonZeroU64;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};
use workload::random::Stream;

mod against_memory;

/// The ways of asking for the times of a pool.
const WAYS: [&str; 2] = ["at_once", "one_by_one"];

/// The number of waiting requests in a pool.
const POOL: u64 = 64;

/// The number of sectors of a 20 TB drive.
const CAPACITY: u64 = 40_000_000_000;

/// Returns the size of a table in bytes: the limit for a 20 TB drive, or less under test.
fn memory() -> u64 {
    if std::env::args().any(|arg| arg == "--bench") { 64 << 20 } else { 1 << 20 }
}

/// Returns a table of these distances.
fn table(metric: Metric, distances: impl IntoIterator<Item = i64>) -> Table {
    let mut builder = TableBuilder::new(metric, 1);
    for (i, distance) in distances.into_iter().enumerate() {
        let times = (0..3).map(|k| Duration::from_micros(2_000 + (i as u64 * 37 + k * 400) % 9_000));
        builder.push(Pair::ALL[0], Distance::new(distance), &times.collect::<Samples>(), true);
    }
    builder.stand_in(Pair::ALL[0]);
    builder.build()
}

/// Returns distances, the same number in each doubling, like those of a prober whose memory does not suffice for
/// all.
fn spread(knots: u64) -> Vec<i64> {
    let doublings = u64::from(CAPACITY.ilog2());
    let each = (knots / 2 / doublings).max(1);
    let forward = (3..=doublings).flat_map(|k| {
        let n = each.min(1 << (k - 3));
        (0..n).map(move |i| ((1u64 << k) + (1u64 << k) / n * i) as i64)
    });
    let forward: Vec<i64> = forward.collect();
    let backward = forward.iter().rev().map(|d| -d);
    backward.chain(forward.iter().copied()).collect()
}

/// Returns distances spread evenly over a drive of `capacity` sectors.
fn even(knots: u64, capacity: u64) -> impl Iterator<Item = i64> {
    let gap = (2 * capacity / knots).max(1) as i64;
    (0..knots as i64).map(move |i| i * gap - capacity as i64)
}

fn learner(memory: u64, table: Option<Table>) -> Learner {
    let config = LearnerConfig {
        memory: Bytes::new(memory),
        notice_change: false,
        ..LearnerConfig::new(Sectors::new(CAPACITY), Sectors::new(8))
    };
    let mut learner = Learner::new(config, table).expect("a configuration that holds");
    let mut random = Stream::new(7, "bench-learn");
    // Half of the learner's capacity is used, so that some distances are known and others interpolated.
    for _ in 0..memory / 32 {
        let pair = Pair::ALL[(random.next_u64() % 4) as usize];
        let distance = place(&mut random, CAPACITY).get() as i64 - place(&mut random, CAPACITY).get() as i64;
        learner.learn(pair, Distance::new(distance), Duration::from_micros(5_000 + random.next_u64() % 40));
    }
    learner
}

fn place(random: &mut Stream, capacity: u64) -> Lbn {
    let block = NonZeroU64::new(capacity / 8).expect("a drive with blocks");
    Lbn::new(random.below(block) * 8)
}

/// A pool of waiting requests, which stays the same; the request before it is drawn anew each time.
struct Pools {
    random: Stream,
    capacity: u64,
    pool: Vec<Request>,
}

impl Pools {
    fn new(capacity: u64) -> Self {
        let mut random = Stream::new(3, "bench-ask");
        let request = |i| Request {
            id: RequestId::new(i),
            op: Op::Read,
            range: LbnRange::new(place(&mut random, capacity), Sectors::new(8)),
        };
        let pool = (0..POOL).map(request).collect();
        Self { random, capacity, pool }
    }

    fn last(&mut self) -> Last {
        let op = if self.random.next_u64() & 1 == 0 { Op::Read } else { Op::Write };
        Last { op, lbn: place(&mut self.random, self.capacity) }
    }

    /// Returns the shortest time of the pool after another request; the times are asked for at once or one by one.
    fn ask(
        &mut self,
        mimic: &dyn Mimic,
        at_once: bool,
        times: &mut Vec<Option<Duration>>,
    ) -> Option<Duration> {
        let last = self.last();
        let pool = black_box(&self.pool[..]);
        if at_once {
            mimic.times(last, Instant::ZERO, pool, times);
            return times.iter().flatten().min().copied();
        }
        pool.iter().filter_map(|r| mimic.time(last, Instant::ZERO, r)).min()
    }
}

fn ask(bencher: Bencher<'_, '_>, mimic: &dyn Mimic, capacity: u64, at_once: bool) {
    let (mut pools, mut times) = (Pools::new(capacity), Vec::new());
    let mut sum = 0u64;
    for _ in 0..256 {
        pools.ask(mimic, at_once, &mut times);
        times.iter().flatten().for_each(|time| sum = sum.rotate_left(5) ^ time.as_nanos());
    }
    if at_once {
        println!("checksum {sum:016x}");
    }
    bencher
        .counter(divan::counter::ItemsCount::new(POOL))
        .bench_local(|| pools.ask(mimic, at_once, &mut times));
}

/// The table of a 20 TB drive that was probed within 64 MB.
#[divan::bench(args = WAYS)]
fn table_of_20_tb(bencher: Bencher<'_, '_>, way: &str) {
    ask(bencher, &table(Metric::Mean, spread(memory() / 10)), CAPACITY, way == WAYS[0]);
}

#[divan::bench(args = WAYS)]
fn table_of_20_tb_probabilistic(bencher: Bencher<'_, '_>, way: &str) {
    ask(bencher, &table(Metric::Probabilistic, spread(memory() / 80)), CAPACITY, way == WAYS[0]);
}

/// A table of a thousand distances, which any cache holds: this measures the search alone.
#[divan::bench(args = WAYS)]
fn table_of_a_thousand(bencher: Bencher<'_, '_>, way: &str) {
    ask(bencher, &table(Metric::Mean, even(1_000, 18_000_000)), 18_000_000, way == WAYS[0]);
}

/// The table of a 9 GB drive with a million distances, all that it has.
#[divan::bench(args = WAYS)]
fn table_of_9_gb(bencher: Bencher<'_, '_>, way: &str) {
    ask(bencher, &table(Metric::Mean, even(memory() / 64, 18_000_000)), 18_000_000, way == WAYS[0]);
}

/// A table that no prober makes: 64 MB of distances spread evenly over 20 TB. Each prediction waits for memory,
/// whatever the search.
#[divan::bench(args = WAYS)]
fn table_that_no_cache_holds(bencher: Bencher<'_, '_>, way: &str) {
    ask(bencher, &table(Metric::Mean, even(memory() / 10, CAPACITY)), CAPACITY, way == WAYS[0]);
}

/// A learner with a table of the same size, which answers for distances that were not learnt.
#[divan::bench(args = WAYS)]
fn learnt_after_a_table(bencher: Bencher<'_, '_>, way: &str) {
    ask(
        bencher,
        &learner(memory(), Some(table(Metric::Mean, spread(memory() / 10)))),
        CAPACITY,
        way == WAYS[0],
    );
}

#[divan::bench(args = WAYS)]
fn learnt(bencher: Bencher<'_, '_>, way: &str) {
    ask(bencher, &learner(memory(), None), CAPACITY, way == WAYS[0]);
}

#[divan::bench]
fn observe(bencher: Bencher<'_, '_>) {
    let mut learner = learner(memory(), None);
    let mut random = Stream::new(5, "bench-observe");
    bencher.bench_local(|| {
        let distance = place(&mut random, CAPACITY).get() as i64 - place(&mut random, CAPACITY).get() as i64;
        learner.learn(Pair::ALL[0], Distance::new(distance), Duration::from_micros(5_000));
    });
}

fn main() {
    against_memory::print();
    divan::main();
}
