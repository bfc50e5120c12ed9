//! Memory as an allocator counts it: a configured amount is never exceeded, and a reported amount is in use.

use cap::Cap;
use mimic::{
    CheckPoints, Distance, Learner, LearnerConfig, Metric, Pair, ProbePlan, Prober, Samples, Saved,
    SavedPart, Table, TableBuilder,
};
use std::alloc::System;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use units::{Bytes, Duration, Sectors};

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// The memory that the test and its harness may take during a measurement.
const HARNESS_BYTES_MAX: u64 = 8 << 10;

/// The memory of the windows into a file that is being read.
const WINDOWS: u64 = 6 * (4 << 10);

const TB_20: Sectors = Sectors::new(20_000_000_000_000 / 512);

fn now() -> u64 {
    ALLOCATOR.allocated() as u64
}

/// Returns a time unrelated to that of its neighbours, so that only chance makes a time interpolable.
fn crooked(at: u64) -> Duration {
    Duration::from_nanos(1_000_000 + (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40))
}

/// The memory of one part of a written file: 512 distances, with at most seventeen times each, in a growing
/// vector.
const PART_BYTES_MAX: u64 = 2 * (64 << 10);

/// Probes until memory runs out, writes the table to a file, and returns the table that is read from it.
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
    let (path, says) = (file(), saved.table.memory().get());
    let bytes = saved.to_bytes();
    fs::write(&path, &bytes).unwrap();
    let sum = |bytes: &[u8]| bytes.iter().fold(7u64, |sum, byte| sum.rotate_left(9) ^ u64::from(*byte));
    let written = sum(&bytes);
    drop((bytes, saved));
    // Reading takes the memory of the table, and hardly any beside it.
    let mut from = File::open(&path).unwrap();
    let again = within(says + WINDOWS, || Saved::read(&mut from).unwrap());
    assert_eq!((again.table.memory().get(), sum(&again.to_bytes())), (says, written));
    fs::remove_file(path).unwrap();
    again.table
}

/// Returns the path of the file. One path suffices, because the test makes one file at a time.
fn file() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("memory-{}", std::process::id()))
}

/// Returns the result of `work`. If more than `bytes` bytes beyond the present memory are allocated at any moment,
/// that allocation ends the process.
fn within<T>(bytes: u64, work: impl FnOnce() -> T) -> T {
    let before = ALLOCATOR.limit();
    ALLOCATOR.set_limit(before.min(usize::try_from(now() + bytes).unwrap())).unwrap();
    let done = work();
    ALLOCATOR.set_limit(before).unwrap();
    done
}

/// Saves a learner to a file, a part at a time.
fn save(learner: &Learner, path: &Path) {
    let (mut saving, mut file) = (learner.begin_saving("a drive"), File::create(path).unwrap());
    loop {
        match saving.go_on(learner, 512) {
            SavedPart::Part(bytes) => file.write_all(&bytes).unwrap(),
            SavedPart::Last { bytes, beginning } => {
                file.write_all(&bytes).unwrap();
                file.seek(SeekFrom::Start(0)).unwrap();
                return file.write_all(&beginning).unwrap();
            }
            SavedPart::Forgotten => panic!("nothing is learnt meanwhile"),
        }
    }
}

/// Makes the learner observe distances of all lengths, until most cells are in use.
fn learn(learner: &mut Learner, times: u64) {
    for i in 0..times {
        let draw = (i + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let reach = TB_20.get() >> (draw % 24);
        let distance = (crooked(draw).as_nanos() << 20 | draw >> 44) % reach;
        let sign = if draw >> 63 == 0 { 1 } else { -1 };
        learner.learn(Pair::ALL[(draw >> 8 & 3) as usize], Distance::new(distance as i64 * sign), crooked(i));
    }
}

/// A single test in a process of its own, because the allocator has one count for the whole process.
#[test]
fn no_more_memory_is_ever_taken_than_was_granted() {
    if !testing::in_own_process("memory::no_more_memory_is_ever_taken_than_was_granted") {
        return;
    }
    for memory in testing::some(1, [1 << 20, 3 << 20u64]) {
        for (metric, pairs) in [
            (Metric::Mean, &Pair::ALL[..1]),
            (Metric::Median, &Pair::ALL[..]),
            (Metric::Probabilistic, &Pair::ALL[..1]),
        ] {
            // In the first plan most memory goes to ranges, in the second to points; in the third, distances are
            // too far apart to share blocks of the table.
            for (capacity, rule) in [
                (TB_20, CheckPoints::NONE),
                (Sectors::new(1 << 24), CheckPoints::TABLE_2),
                (Sectors::new(1 << 40), CheckPoints::fixed(10, 100)),
            ] {
                let begin = now();
                let table =
                    within(memory + HARNESS_BYTES_MAX, || probe(memory, metric, pairs, capacity, rule));
                let held = now() - begin;
                let says = table.memory().get();
                assert!(says.abs_diff(held) <= HARNESS_BYTES_MAX / 4, "{says} said, {held} held, {metric}");

                // A learner with the table takes no more than the memory configured for both, and neither does one
                // without it.
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
                    let learner = within(memory + HARNESS_BYTES_MAX - of_table, || {
                        let mut learner = Learner::new(config, table).unwrap();
                        learn(&mut learner, memory / 128);
                        learner
                    });
                    let held = now() + of_table - before;
                    let says = learner.memory().get() - size_of::<Learner>() as u64;
                    assert!(says.abs_diff(held) <= HARNESS_BYTES_MAX / 4, "{says} said, {held} held");
                    assert!(learner.memory().get() <= memory && held > memory / 4, "{held} of {memory}");
                    // A learner that is loaded from its file takes no more than that memory either, with the table
                    // and without it.
                    let (known, path) = (learner.stats().known, file());
                    within(PART_BYTES_MAX, || save(&learner, &path));
                    drop(learner);
                    let mut from = File::open(&path).unwrap();
                    let again =
                        within(memory + WINDOWS, || Learner::read(config, "a drive", &mut from).unwrap());
                    assert_eq!(again.stats().known, known);
                    assert!(fs::metadata(&path).unwrap().len() > 2 * WINDOWS, "it would show");
                    fs::remove_file(path).unwrap();
                }
            }
        }
    }
    a_9_gb_disk_takes_less_than_a_tenth_of_the_papers_memory_and_20_tb_fit_in_64_mb();
}

/// Returns the memory of the paper's table, in proportion to the size of the disk: "can exceed 800 MB" for 10 GB
/// (ATC'03, section 5.3).
fn of_the_paper(bytes: u64) -> u64 {
    bytes / 10_000_000_000 * 800_000_000 + bytes % 10_000_000_000 * 8 / 100
}

/// A disk of 9 GB takes less than a tenth of the paper's memory, although every distance is known, in steps of 4
/// KB; and a disk of 20 TB takes no more than 64 MB.
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
    // A learner, too, takes at most a tenth of the paper's memory, and for 20 TB as much as for 9 GB.
    for capacity in [capacity, TB_20] {
        let begin = now();
        let learner = Learner::new(LearnerConfig::new(capacity, Sectors::new(8)), None).unwrap();
        let held = now() - begin;
        assert!(held <= 64 << 20 && held * 10 < of_the_paper(gb_9), "{held} bytes");
        assert!(learner.memory() <= Bytes::new(64 << 20));
    }
}
