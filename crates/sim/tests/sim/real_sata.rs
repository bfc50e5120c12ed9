//! `desktop-2tb` under the preset `modern`, compared with a real SATA drive of its class.
//!
//! The drive: a Seagate BarraCuda ST2000DM006 (2 TB, 7200 rpm, write cache on), through a file system and a file that covers the
//! platter; medians of its times as ublk-disksim publishes them (docs/img/data/latency.tsv and qd.tsv at commit 2b73b07d). Single
//! numbers are cited here, no file of theirs is used. `cargo test -p freeblock-sim --test sim -- real_sata --nocapture` prints the table
//! of docs/MODEL.md, section 8.

#![allow(clippy::print_stdout, reason = "the test prints a table")]

use drive::{Behaviour, Command, Drive, Rules};
use freeblock_sim::Direct;
use model::builtin;
use units::{Instant, Op, RequestId};
use workload::{Arrival, Issuer, Random, RandomConfig, Share, Source};

/// Commands outstanding, and 4 KiB random reads a second of the real drive.
const IOPS: [(u32, f64); 6] = [(1, 57.6), (2, 64.5), (4, 71.2), (8, 78.6), (16, 86.3), (32, 93.6)];

/// Percentages of the reads at depth 1, and the time in ms within which the real drive answers them.
const PERCENTILES: [(f64, f64); 12] = [
    (1.0, 3.26),
    (5.0, 7.70),
    (10.0, 10.42),
    (25.0, 14.75),
    (50.0, 17.69),
    (75.0, 20.84),
    (90.0, 23.20),
    (95.0, 24.77),
    (99.0, 28.44),
    (99.5, 40.63),
    (99.9, 103.3),
    (99.95, 156.2),
];

/// The mean of the same reads, in ms.
const MEAN_MS: f64 = 17.57;

/// The number of scattered cached writes of 4 KiB, and the median time of the flush after them in ms.
const FLUSHES: [(u64, f64); 2] = [(8, 127.0), (64, 630.0)];

/// The part of a flush that does not depend on the number of writes, in ms: the file system's own writes (28 + 9.4 ms a write is the
/// fit that is published with the measurement).
const FLUSH_OF_FILE_SYSTEM_MS: f64 = 28.0;

/// The largest error of each number in percent.
const ERROR_PERCENT_MAX: f64 = 10.0;

fn drive(seed: u64) -> Drive {
    let profile = builtin::find("desktop-2tb").unwrap();
    Drive::with_behaviour(&profile, Rules::HARDWARE, Behaviour::modern(), seed).unwrap()
}

/// Returns response times in ms of random reads of 4 KiB, ascending, and the reads per second.
fn reads(outstanding: u32, requests: u64) -> (Vec<f64>, f64) {
    let drive = drive(42);
    let model = drive.model();
    let config = RandomConfig {
        reads: Share::ALL,
        ..RandomConfig::new(model.layout().capacity(), model.sector_bytes())
    };
    let source = Random::new(config, 42).unwrap();
    let load = Issuer::new(source, Arrival::outstanding(outstanding), Instant::ZERO, 42).unwrap();
    let mut run = Direct::new(drive, usize::MAX, load);
    let mut times = Vec::new();
    run.advance(requests, |done| times.push(done.at.since(done.arrived).as_millis_f64())).unwrap();
    times.sort_by(f64::total_cmp);
    (times, run.report().iops)
}

/// Returns the median time in ms from the report of the last of `writes` random cached writes until all are on the medium.
fn flush_ms(writes: u64) -> f64 {
    let mut times: Vec<f64> = (0..101).map(|seed| one_flush_ms(writes, seed)).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn one_flush_ms(writes: u64, seed: u64) -> f64 {
    let mut drive = drive(seed);
    let model = drive.model();
    let config = RandomConfig {
        reads: Share::NONE,
        ..RandomConfig::new(model.layout().capacity(), model.sector_bytes())
    };
    let mut load = Random::new(config, seed).unwrap();
    let mut now = Instant::ZERO;
    for id in 0..writes {
        let range = load.next_request().unwrap().range;
        drive.submit(now, Command { id: RequestId::new(id), op: Op::Write, range }).unwrap();
        while drive.outstanding() > 0 {
            now = drive.next_event().unwrap();
            drive.advance(now);
            while drive.pop_completion().is_some() {}
        }
    }
    let reported = now;
    while drive.unwritten() > 0 {
        now = drive.next_event().unwrap();
        drive.advance(now);
    }
    now.since(reported).as_millis_f64()
}

/// Prints a row, and returns whether the number is near enough.
fn row(what: &str, real: f64, ours: f64) -> bool {
    let off = (ours / real - 1.0) * 100.0;
    println!("| {what} | {real} | {ours:.2} | {off:+.1}% |");
    off.abs() <= ERROR_PERCENT_MAX
}

#[test]
fn reads_and_flushes_take_as_long_as_those_of_a_real_drive() {
    println!("| 4 KiB random reads | real | desktop-2tb, modern | off by |");
    let mut near = true;
    for (outstanding, real) in IOPS {
        near &= row(&format!("{outstanding} outstanding, a second"), real, reads(outstanding, 20_000).1);
    }
    let (times, _) = reads(1, 200_000);
    near &= row("1 outstanding, mean ms", MEAN_MS, times.iter().sum::<f64>() / times.len() as f64);
    for (percent, real) in PERCENTILES {
        let at = ((times.len() as f64 * percent / 100.0).ceil() as usize).max(1) - 1;
        near &= row(&format!("1 outstanding, {percent}% within ms"), real, times[at]);
    }
    for (writes, real) in FLUSHES {
        near &= row(
            &format!("flush behind {writes} writes, ms"),
            real,
            flush_ms(writes) + FLUSH_OF_FILE_SYSTEM_MS,
        );
    }
    assert!(near, "a row is off by more than {ERROR_PERCENT_MAX}%");
}
