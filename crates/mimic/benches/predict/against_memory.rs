//! Compares predictions by each table with single random reads from RAM of the same size,
//! alternating between the two.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a benchmark has a clock")]

use crate::{CAPACITY, POOL, Pools, even, learner, memory, spread, table};
use divan::black_box;
use mimic::{Metric, Table};
use scheduler::Mimic;
use std::num::NonZeroU64;
use std::time::Instant;
use workload::random::Stream;

/// The limit for the time of a prediction, ns.
const PREDICTION_NS_MAX: f64 = 100.0;

/// The number of pools in a round.
const POOLS: u64 = 16;

/// The size of a cache line, bytes.
const LINE: usize = 64;

#[repr(align(64))]
struct MemoryLine {
    next: usize,
}

/// Cache lines in RAM, each with the index of the next line to read; all are read before one
/// repeats.
struct Chain {
    lines: Vec<MemoryLine>,
    at: usize,
}

impl Chain {
    fn new(bytes: u64) -> Self {
        let count = usize::try_from(bytes).unwrap_or(usize::MAX).div_ceil(LINE).max(2);
        let mut random = Stream::new(11, "bench-chain");
        let mut lines: Vec<MemoryLine> = (0..count).map(|next| MemoryLine { next }).collect();
        // Sattolo's shuffle makes a single cycle.
        for i in (1..count).rev() {
            let below = NonZeroU64::new(i as u64).expect("from 1 on");
            let other = random.below(below) as usize;
            let here = lines[i].next;
            lines[i].next = std::mem::replace(&mut lines[other].next, here);
        }
        Self { lines, at: 0 }
    }

    fn walk(&mut self, reads: u64) -> usize {
        for _ in 0..reads {
            self.at = self.lines[self.at].next;
        }
        self.at
    }
}

/// Prints the time of a prediction beside the time of a single read.
pub(crate) fn print() {
    let small = memory() < 64 << 20;
    let rounds = if small { 3 } else { 400 };
    println!(
        "ns of a question, median (fastest), of {rounds} rounds of {POOLS} pools of {POOL} requests; and of a read at random of as much memory"
    );
    println!(
        "{:44} {:>9} {:>13} {:>13} {:>13} {:>16} {:>12}",
        "", "MB", "at once", "one by one", "a read", "at once, reads", "one by one"
    );
    let tables = [
        ("a table of a thousand distances", table(Metric::Mean, even(1_000, 18_000_000)), 18_000_000),
        (
            "a table of 9 GB, a million distances",
            table(Metric::Mean, even(memory() / 64, 18_000_000)),
            18_000_000,
        ),
        ("a table of 20 TB, as a prober spreads it", table(Metric::Mean, spread(memory() / 10)), CAPACITY),
        (
            "a table of 20 TB, evenly, as no prober does",
            table(Metric::Mean, even(memory() / 9, CAPACITY)),
            CAPACITY,
        ),
    ];
    let mut reads = Vec::new();
    for (what, table, capacity) in &tables {
        let bytes = Table::memory(table).get();
        reads.push((bytes, row(what, table, *capacity, bytes, rounds)));
    }
    let learnt = learner(memory(), None);
    row("learnt times of 20 TB", &learnt, CAPACITY, learnt.memory().get(), rounds);
    let [_, _, (_, table, _), _] = tables;
    let both = learner(memory(), Some(table));
    row("learnt times, and a table for the others", &both, CAPACITY, both.memory().get(), rounds);
    for (bytes, read) in reads.into_iter().filter(|(_, read)| *read > PREDICTION_NS_MAX) {
        println!(
            "No question that waits for a table of {:.1} MB alone takes less than {PREDICTION_NS_MAX:.0} ns here: one read at random takes {read:.0}.",
            bytes as f64 / 1e6
        );
    }
}

/// Measures one table and prints its row; returns the time of a single read, ns.
fn row(what: &str, mimic: &dyn Mimic, capacity: u64, bytes: u64, rounds: usize) -> f64 {
    let (mut pools, mut chain, mut times) = (Pools::new(capacity), Chain::new(bytes), Vec::new());
    let questions = POOLS * POOL;
    let mut taken: [Vec<f64>; 3] = Default::default();
    for _ in 0..rounds {
        let [at_once, one_by_one, read] = &mut taken;
        for (taken, at_once) in [(at_once, true), (one_by_one, false)] {
            taken.push(each(questions, || {
                (0..POOLS).for_each(|_| {
                    black_box(pools.ask(mimic, at_once, &mut times));
                })
            }));
        }
        read.push(each(questions, || {
            black_box(chain.walk(questions));
        }));
    }
    let [at_once, one_by_one, read] = &taken;
    let ratio = |of: &[f64]| median(&of.iter().zip(read).map(|(a, b)| a / b).collect::<Vec<_>>()).0;
    let shown = |of: &[f64]| {
        let (median, fastest) = median(of);
        format!("{median:.0} ({fastest:.0})")
    };
    println!(
        "{what:44} {:>9.1} {:>13} {:>13} {:>13} {:>16.2} {:>12.2}",
        bytes as f64 / 1e6,
        shown(at_once),
        shown(one_by_one),
        shown(read),
        ratio(at_once),
        ratio(one_by_one)
    );
    median(read).0
}

/// Returns the time that `work` takes for each of its `count` items, ns.
fn each(count: u64, work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_nanos() as f64 / count as f64
}

/// Returns the median and the minimum.
fn median(of: &[f64]) -> (f64, f64) {
    let mut sorted = of.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |i: usize| sorted.get(i).copied().unwrap_or(f64::NAN);
    (at(sorted.len() / 2), at(0))
}
