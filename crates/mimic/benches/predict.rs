//! How long one prediction takes: of a table and of what was learnt, each as large as its memory allows.
//!
//! SMTF asks for every request that waits after every completion; the budget is 100 ns a question. Questions here are for
//! pools of 64 requests at random places, so that no cache holds what is asked for. `cargo bench -p freeblock-mimic`; under
//! test the tables are small. The checksum is over all answers.
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use divan::{Bencher, black_box};
use mimic::{Distance, Learner, LearnerConfig, Metric, Pair, Samples, Table, TableBuilder};
use scheduler::{Last, Mimic, Request};
use std::num::NonZeroU64;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors};
use workload::random::Stream;

/// Requests that wait.
const POOL: u64 = 64;

/// Sectors of a 20 TB drive.
const CAPACITY: u64 = 40_000_000_000;

/// Bytes of a table: what the budget of a 20 TB drive is, or little under test.
fn memory() -> u64 {
    if std::env::args().any(|arg| arg == "--bench") { 64 << 20 } else { 1 << 20 }
}

fn table(metric: Metric, bytes_a_knot: u64) -> Table {
    let knots = memory() / bytes_a_knot;
    let mut builder = TableBuilder::new(metric, 1);
    let gap = (2 * CAPACITY / knots) as i64;
    for i in 0..knots as i64 {
        let distance = Distance::new(i * gap - CAPACITY as i64);
        let times = (0..3).map(|k| Duration::from_micros(2_000 + (i.unsigned_abs() * 37 + k * 400) % 9_000));
        builder.push(Pair::ALL[0], distance, &times.collect::<Samples>(), true);
    }
    builder.stand_in(Pair::ALL[0]);
    builder.build()
}

fn learner(memory: u64) -> Learner {
    let config = LearnerConfig {
        memory: Bytes::new(memory),
        notice_change: false,
        ..LearnerConfig::new(Sectors::new(CAPACITY), Sectors::new(8))
    };
    let mut learner = Learner::new(config, None).expect("a configuration that holds");
    let mut random = Stream::new(7, "bench-learn");
    // Half of what it has room for: both known and interpolated distances are asked for.
    for _ in 0..memory / 32 {
        let pair = Pair::ALL[(random.next_u64() % 4) as usize];
        let distance = place(&mut random).get() as i64 - place(&mut random).get() as i64;
        learner.learn(pair, Distance::new(distance), Duration::from_micros(5_000 + random.next_u64() % 40));
    }
    learner
}

fn place(random: &mut Stream) -> Lbn {
    let block = NonZeroU64::new(CAPACITY / 8).expect("a drive with blocks");
    Lbn::new(random.below(block) * 8)
}

/// Asks for the time of each request of a pool, as SMTF does, and takes the shortest.
fn ask(bencher: Bencher<'_, '_>, mimic: &dyn Mimic) {
    let mut random = Stream::new(3, "bench-ask");
    let pools: Vec<(Last, Vec<Request>)> = (0..256)
        .map(|_| {
            let op = if random.next_u64() & 1 == 0 { Op::Read } else { Op::Write };
            let last = Last { op, lbn: place(&mut random) };
            let request = |i| Request {
                id: RequestId::new(i),
                op: Op::Read,
                range: LbnRange::new(place(&mut random), Sectors::new(8)),
            };
            (last, (0..POOL).map(request).collect())
        })
        .collect();
    let answers =
        pools.iter().flat_map(|(last, pool)| pool.iter().map(|r| mimic.time(*last, Instant::ZERO, r)));
    let sum = answers.flatten().fold(0u64, |sum, time| sum.rotate_left(5) ^ time.as_nanos());
    println!("checksum {sum:016x}");
    let mut next = 0;
    bencher.counter(divan::counter::ItemsCount::new(POOL)).bench_local(|| {
        let (last, pool) = &pools[next % pools.len()];
        next += 1;
        pool.iter().filter_map(|r| mimic.time(*last, Instant::ZERO, black_box(r))).min()
    });
}

#[divan::bench]
fn table_mean(bencher: Bencher<'_, '_>) {
    ask(bencher, &table(Metric::Mean, 13));
}

#[divan::bench]
fn table_probabilistic(bencher: Bencher<'_, '_>) {
    ask(bencher, &table(Metric::Probabilistic, 77));
}

#[divan::bench]
fn learnt(bencher: Bencher<'_, '_>) {
    ask(bencher, &learner(memory()));
}

#[divan::bench]
fn observe(bencher: Bencher<'_, '_>) {
    let mut learner = learner(memory());
    let mut random = Stream::new(5, "bench-observe");
    bencher.bench_local(|| {
        let distance = place(&mut random).get() as i64 - place(&mut random).get() as i64;
        learner.learn(Pair::ALL[0], Distance::new(distance), Duration::from_micros(5_000));
    });
}

fn main() {
    divan::main();
}
