//! A program that reads the background export of a disk of today, beside random requests, on virtual time: what the requests
//! lose against the drive alone, and what the program gets.

use super::serving::{OTHERS, Serving};
use device::{Ask, BackgroundRequest, Device as _};
use drive::Behaviour;
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, OutsideConfig, Overheads};
use server::BackgroundTerms;
use std::num::NonZeroU64;
use testing::interval::{mean, upper_end};
use units::{Lbn, LbnRange, Sectors};
use workload::random::Stream;

/// A program that reads a disk.
#[derive(Clone, Copy, Debug)]
struct Program {
    name: &'static str,
    /// Returns its reads in order, drawn from this source of chance: the first byte and the length of each, [`BYTES`] in all.
    reads: fn(&mut Stream) -> Vec<(u64, u64)>,
    /// The number of its requests that wait at a time.
    depth: usize,
}

/// The number of bytes after which a program ends.
const BYTES: u64 = 2_000_000_000;

const KIB: u64 = 1 << 10;

/// The read-ahead of Linux for a file, by default.
const READ_AHEAD: u64 = 128 * KIB;

/// The bytes of a group of blocks of ext4: the first blocks of a group hold the inodes of its files.
const GROUP: u64 = 128 << 20;

/// The largest file of a relation of PostgreSQL.
const SEGMENT: u64 = 1 << 30;

// nbdcopy and dd read the disk from its beginning: nbdcopy without options, dd with blocks of 1 MiB. The other two read files
// through a file system, so that the kernel has the next piece of a file under way: the walk of restic, and a copy of a data
// directory as pg_basebackup makes it.
const NBDCOPY: Program = Program { name: "nbdcopy", reads: |_| pieces(0, BYTES, 256 * KIB), depth: 64 };
const DD: Program = Program { name: "dd", reads: |_| pieces(0, BYTES, 1_024 * KIB), depth: 1 };
const RESTIC: Program = Program { name: "restic", reads: walk, depth: 2 };
const PG_BASEBACKUP: Program = Program { name: "pg_basebackup", reads: data_directory, depth: 2 };

/// Returns the reads of these bytes, one behind the other.
fn pieces(from: u64, bytes: u64, each: u64) -> Vec<(u64, u64)> {
    (0..bytes.div_ceil(each)).map(|nth| (from + nth * each, each.min(bytes - nth * each))).collect()
}

/// Returns the reads of files in the order of their names, which is not that of their places: of each its inode, then its
/// content. Sizes of 4 KiB to 16 MiB are equally likely at any scale.
fn walk(chance: &mut Stream) -> Vec<(u64, u64)> {
    let mut below = |n: u64| chance.below(NonZeroU64::new(n).unwrap());
    let (mut reads, mut bytes) = (Vec::new(), 0);
    while bytes < BYTES {
        let scale = (4 * KIB) << below(12);
        let size = (scale + below(scale)).div_ceil(4 * KIB) * 4 * KIB;
        let group = below(1_000) * GROUP;
        reads.push((group + below(512) * 4 * KIB, 4 * KIB));
        let first = group + (2 << 20) + below((GROUP - (32 << 20)) / (4 * KIB)) * 4 * KIB;
        reads.extend(pieces(first, size, READ_AHEAD));
        bytes += size;
    }
    reads
}

/// Returns the reads of a data directory: small relations of the catalog in one group of blocks, then large ones in
/// segments.
fn data_directory(chance: &mut Stream) -> Vec<(u64, u64)> {
    let mut below = |n: u64| chance.below(NonZeroU64::new(n).unwrap());
    let mut reads: Vec<(u64, u64)> = (0..900)
        .flat_map(|_| pieces(below(GROUP / (64 * KIB)) * 64 * KIB, 8 * KIB * (1 + below(8)), READ_AHEAD))
        .collect();
    let segments = [SEGMENT, BYTES - SEGMENT];
    reads.extend(segments.into_iter().flat_map(|size| pieces(GROUP * (1 + below(1_000)), size, READ_AHEAD)));
    reads
}

/// Where a program reads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Door {
    Background,
    Foreground,
}

/// The response times of the requests beside one run of a program: with the program, and of the drive alone.
struct Beside {
    mean_ms: [f64; 2],
    p99_ms: [f64; 2],
    mb_per_s: f64,
}

impl Beside {
    /// Returns by how many percent the program makes the mean and the 99th percentile longer.
    fn slower(&self) -> [f64; 2] {
        [self.mean_ms, self.p99_ms].map(|[with, alone]| 100.0 * (with / alone - 1.0))
    }
}

fn p99(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable_by(f64::total_cmp);
    times[(times.len() * 99).div_ceil(100) - 1]
}

/// Lets a program read beside this number of random requests.
fn read_beside(program: Program, door: Door, (requests_per_s, requests, seed): (f64, u64, u64)) -> Beside {
    let profile = builtin::find("nearline-20tb").unwrap();
    let known = DriveModel::from_profile(&profile).unwrap();
    let behaviour = Behaviour::modern();
    let told = behaviour.firmware(profile.firmware.as_ref().unwrap());
    let overheads = Overheads::of(&told, &known, true);
    let place = OutsideConfig::beyond(overheads).serving();
    let config =
        Config { idle: Some(IdleTime::default()), policy: PolicyName::Sptf, seed, ..Config::outside(place) };
    let sector = known.sector_bytes().get();
    let mut serving = Serving::new((&profile, behaviour), known, config, (requests_per_s, [seed, seed]));
    serving.disk.take_background_requests(BackgroundTerms::default());
    let reads = (program.reads)(&mut Stream::new(seed, "program"));
    let sizes: Vec<u64> = reads.iter().map(|read| read.1).collect();
    let mut left = reads.into_iter();
    let (mut asked, mut done, mut bytes) = (0, 0, 0);
    while serving.ids < requests && done < sizes.len() {
        while asked < done + program.depth {
            let Some((from, bytes)) = left.next() else { break };
            let range = LbnRange::new(Lbn::new(from / sector), Sectors::new(bytes / sector));
            let id = OTHERS + asked as u64;
            match door {
                Door::Background => {
                    let request = BackgroundRequest { id, client: 1, range, ask: Ask::Read, snapshot: None };
                    serving.disk.ask_in_background(serving.now, request);
                }
                Door::Foreground => serving.disk.ask(serving.now, id, range, Ask::Read),
            }
            asked += 1;
        }
        serving.step();
        done += serving.others.len();
        bytes += serving.others.drain(..).map(|id| sizes[(id - OTHERS) as usize]).sum::<u64>();
    }
    let responses = serving.responses();
    Beside {
        mean_ms: responses.each_ref().map(|times| mean(times)),
        p99_ms: responses.each_ref().map(|times| p99(times)),
        mb_per_s: bytes as f64 / (serving.now.as_nanos() as f64 / 1e3),
    }
}

#[test]
fn a_program_that_reads_in_order_goes_on_beside_fifty_requests_a_second() {
    for program in [NBDCOPY, DD] {
        let Beside { mb_per_s, .. } = read_beside(program, Door::Background, (50.0, 10_000, 42));
        assert!(mb_per_s > 0.3, "{}: {mb_per_s:.2} MB/s", program.name);
    }
}

/// Holds a program at the background export against the drive alone, and against the same program at the disk's own export.
#[allow(clippy::print_stdout, reason = "docs/SERVE.md names the command that prints these figures")]
fn delays_by_at_most_the_bound(program: Program, requests: u64) {
    let interval = |of: &[f64]| format!("{:.2}% | {:.2}%", mean(of), upper_end(of));
    for rate in [50.0, 20.0] {
        let all = |door| -> [Vec<f64>; 3] {
            let runs: Vec<Beside> =
                (42..54).map(|seed| read_beside(program, door, (rate, requests, seed))).collect();
            let slower = |nth: usize| runs.iter().map(|run| run.slower()[nth]).collect();
            [slower(0), slower(1), runs.iter().map(|run| run.mb_per_s).collect()]
        };
        let ([means, percentiles, mb_per_s], there) = (all(Door::Background), all(Door::Foreground));
        println!(
            "| {}, {rate} | {} | {} | {:.2} | {:.0}% | {:.0}% | {:.0} |",
            program.name,
            interval(&means),
            interval(&percentiles),
            mean(&mb_per_s),
            mean(&there[0]),
            mean(&there[1]),
            mean(&there[2])
        );
        for (figure, slower) in [("mean", &means), ("99th percentile", &percentiles)] {
            let upper = upper_end(slower);
            assert!(
                upper <= 1.0,
                "{} beside {rate}/s: {figure} {:.2}%, at most {upper:.2}%",
                program.name,
                mean(slower)
            );
        }
        let gained: Vec<f64> = means.iter().zip(&there[0]).map(|(here, there)| here - there).collect();
        assert!(upper_end(&gained) < 0.0, "{}: no better than at the disk's own export", program.name);
    }
}

#[test]
fn nbdcopy_at_the_background_export_delays_requests_by_at_most_the_bound() {
    delays_by_at_most_the_bound(NBDCOPY, 40_000);
}

#[test]
fn dd_at_the_background_export_delays_requests_by_at_most_the_bound() {
    delays_by_at_most_the_bound(DD, 40_000);
}

#[test]
fn restic_at_the_background_export_delays_requests_by_at_most_the_bound() {
    delays_by_at_most_the_bound(RESTIC, 40_000);
}

/// More requests than for the others: the small relations take one move of the arm each, and after one move in 200 the drive
/// delivers many revolutions late (`rereads_ppm`), which delays requests by several percent of 20,000.
#[test]
fn pg_basebackup_at_the_background_export_delays_requests_by_at_most_the_bound() {
    delays_by_at_most_the_bound(PG_BASEBACKUP, 160_000);
}
