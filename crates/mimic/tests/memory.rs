//! Memory, as an allocator counts it: what is granted is not exceeded at any moment, and what is said to be used is used.

#![allow(clippy::unwrap_used)] // helpers of tests stand outside test functions

use cap::Cap;
use mimic::{
    CheckPoints, Distance, Learner, LearnerConfig, Metric, Pair, ProbePlan, Prober, Samples, Saved, Table,
    TableBuilder,
};
use std::alloc::System;
use units::{Bytes, Duration, Sectors};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// What the test itself and its harness may take meanwhile.
const BESIDE: u64 = 8 << 10;

const TB_20: Sectors = Sectors::new(20_000_000_000_000 / 512);

fn now() -> u64 {
    ALLOCATOR.allocated() as u64
}

/// How much more there has ever been than there was at the beginning.
fn peak_over(begin: u64) -> u64 {
    (ALLOCATOR.max_allocated() as u64).saturating_sub(begin)
}

/// Neighbours have nothing in common, so that nothing can be interpolated but by chance.
fn crooked(at: u64) -> Duration {
    Duration::from_nanos(1_000_000 + (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40))
}

/// Probes until memory runs out, with a table at the end; and its file, if it is to be written.
fn probe(memory: u64, metric: Metric, pairs: &[Pair], capacity: Sectors, check_points: CheckPoints) -> Table {
    let plan = ProbePlan {
        samples: 1,
        metric,
        pairs: pairs.to_vec(),
        check_points,
        memory: Bytes::new(memory),
        ..ProbePlan::new(capacity, Sectors::new(8))
    };
    let mut prober = Prober::new(plan).unwrap();
    assert!(prober.memory().get() <= memory, "{} of {memory}", prober.memory().get());
    let mut at = 0;
    while prober.next().is_some() {
        at += 1;
        prober.done(crooked(at));
    }
    let (table, report) = prober.finish();
    assert!(report.unconfirmed > 0, "memory was to run out: {report:?}");
    let saved = Saved {
        drive: "a drive".into(),
        capacity,
        sector: Bytes::new(512),
        unit: Sectors::new(8),
        samples: 1,
        accesses: report.accesses,
        time: report.time,
        table,
    };
    assert!(!saved.to_bytes().is_empty());
    saved.table
}

/// Learns distances of every length, until most cells hold something.
fn learn(learner: &mut Learner, times: u64) {
    for i in 0..times {
        let draw = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let reach = TB_20.get() >> (draw % 24);
        let distance = (crooked(draw).as_nanos() << 20 | draw >> 44) % reach;
        let sign = if draw >> 63 == 0 { 1 } else { -1 };
        learner.learn(Pair::ALL[(draw >> 8 & 3) as usize], Distance::new(distance as i64 * sign), crooked(i));
    }
}

/// One test, since the allocator's is one count for the process; larger budgets after smaller ones, since it is the peak
/// since the beginning.
#[test]
fn no_more_memory_is_ever_taken_than_was_granted() {
    for memory in [1 << 20, 3 << 20u64] {
        for (metric, pairs) in [
            (Metric::Mean, &Pair::ALL[..1]),
            (Metric::Median, &Pair::ALL[..]),
            (Metric::Probabilistic, &Pair::ALL[..1]),
        ] {
            // One that has all it finds out in ranges, one in points, and one drive with blocks too far apart to share.
            for (capacity, rule) in [
                (TB_20, CheckPoints::NONE),
                (Sectors::new(1 << 24), CheckPoints::TABLE_2),
                (Sectors::new(1 << 40), CheckPoints::fixed(10, 100)),
            ] {
                let begin = now();
                let table = probe(memory, metric, pairs, capacity, rule);
                let (peak, held) = (peak_over(begin), now() - begin);
                assert!(peak <= memory + BESIDE, "{peak} of {memory} while probing, {metric}");
                let says = table.memory().get();
                assert!(says.abs_diff(held) <= BESIDE / 4, "{says} said, {held} held, {metric}");

                // A learner over it has no more, all told; nor has one without it.
                for table in [Some(table), None] {
                    let of_table = table.as_ref().map_or(0, |table| table.memory().get());
                    if of_table > memory / 2 {
                        continue;
                    }
                    let config = LearnerConfig {
                        memory: Bytes::new(memory),
                        ..LearnerConfig::new(TB_20, Sectors::new(8))
                    };
                    let before = now();
                    let mut learner = Learner::new(config, table).unwrap();
                    learn(&mut learner, memory / 256);
                    let (peak, held) = (peak_over(before - of_table), now() + of_table - before);
                    assert!(peak <= memory + BESIDE, "{peak} of {memory} while learning");
                    let says = learner.memory().get() - size_of::<Learner>() as u64;
                    assert!(says.abs_diff(held) <= BESIDE / 4, "{says} said, {held} held");
                    assert!(learner.memory().get() <= memory && held > memory / 4, "{held} of {memory}");
                }
            }
        }
    }
    a_9_gb_disk_takes_less_than_a_tenth_of_the_papers_memory_and_20_tb_fit_in_64_mb();
}

/// The paper's memory for a table of a disk of 10 GB "can exceed 800 MB" (ATC'03, section 5.3): so much a sector.
fn of_the_paper(bytes: u64) -> u64 {
    bytes / 10_000_000_000 * 800_000_000 + bytes % 10_000_000_000 * 8 / 100
}

/// What a disk of 9 GB takes is less than a tenth of the paper's, though every distance is known, in steps of 4 KB; and one of
/// 20 TB takes no more than 64 MB.
fn a_9_gb_disk_takes_less_than_a_tenth_of_the_papers_memory_and_20_tb_fit_in_64_mb() {
    let gb_9 = 9_100_000_000u64;
    let capacity = Sectors::new(gb_9 / 512);
    let begin = now();
    let mut builder = TableBuilder::new(Metric::Mean, 1);
    let blocks = (capacity.get() / 8) as i64;
    for step in -blocks..blocks {
        let samples: Samples = [crooked(step as u64)].into_iter().collect();
        assert!(builder.push(Pair::ALL[0], Distance::new(step * 8 + 1), &samples, true));
    }
    let table = builder.build();
    let held = now() - begin;
    assert_eq!(table.len() as i64, 2 * blocks);
    assert!(held * 10 < of_the_paper(gb_9), "{held} bytes");
    drop(table);
    // What is learnt has a tenth of the paper's at most as well, and 20 TB have as much as 9 GB.
    for capacity in [capacity, TB_20] {
        let begin = now();
        let learner = Learner::new(LearnerConfig::new(capacity, Sectors::new(8)), None).unwrap();
        let held = now() - begin;
        assert!(held <= 64 << 20 && held * 10 < of_the_paper(gb_9), "{held} bytes");
        assert!(learner.memory() <= Bytes::new(64 << 20));
    }
}
