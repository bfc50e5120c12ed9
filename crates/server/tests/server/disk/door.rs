//! A program that reads the background export of a large drive, beside random foreground requests, on virtual time:
//! by how much the requests are slower than at the drive alone, and how fast the program reads.

use super::serving::{OTHERS, Serving};
use device::{Ask, BackgroundRequest, Device as _};
use drive::Behaviour;
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, OutsideConfig, Overheads};
use server::BackgroundTerms;
use testing::interval::{mean, upper_end};
use units::{Lbn, LbnRange, Sectors};

/// A program that reads a disk.
#[derive(Clone, Copy, Debug)]
struct Program {
    name: &'static str,
    /// Returns the program's reads in order.
    reads: fn() -> Vec<Read>,
}

/// A read of a program: the first byte, the length, and the number of earlier reads that may be in flight when it
/// is sent.
struct Read {
    from: u64,
    bytes: u64,
    beside: usize,
}

/// The number of bytes that nbdcopy and dd read.
const BYTES: u64 = 2_000_000_000;

/// The number of foreground requests in a run: enough to make the confidence interval of the 99th percentile
/// narrower than the bound.
const REQUESTS: u64 = 40_000;

const KIB: u64 = 1 << 10;

// nbdcopy (without options) and dd (in blocks of 1 MiB) read the disk from its beginning. The reads of restic (a
// backup) and of pg_basebackup (a copy of a data directory of PostgreSQL) are those that `proofs/door.sh` recorded,
// of an ext4 in a snapshot through the kernel's page cache.
const NBDCOPY: Program = Program { name: "nbdcopy", reads: || pieces(256 * KIB, 64) };
const DD: Program = Program { name: "dd", reads: || pieces(1_024 * KIB, 1) };
const RESTIC: Program =
    Program { name: "restic", reads: || recorded(include_str!("../../data/restic.reads")) };
const PG_BASEBACKUP: Program =
    Program { name: "pg_basebackup", reads: || recorded(include_str!("../../data/pg_basebackup.reads")) };

/// Returns consecutive reads of `each` bytes, `depth` of them in flight at a time.
fn pieces(each: u64, depth: usize) -> Vec<Read> {
    (0..BYTES.div_ceil(each))
        .map(|nth| Read { from: nth * each, bytes: each.min(BYTES - nth * each), beside: depth - 1 })
        .collect()
}

/// Returns the reads in a file of `proofs/door.py runs`. A line is a run of equal reads: their number; the distance
/// of each from the end of the read before, and its length, both in sectors of 512 bytes; and the number of earlier
/// reads in flight.
fn recorded(text: &str) -> Vec<Read> {
    let (mut reads, mut end) = (Vec::new(), 0);
    for line in text.lines() {
        let [times, distance, sectors, beside] =
            line.split(' ').map(|number| number.parse::<i64>().unwrap()).collect::<Vec<_>>()[..]
        else {
            panic!("no run of reads: {line}")
        };
        for _ in 0..times {
            let from = end + distance;
            end = from + sectors;
            let [from, bytes] = [from, sectors].map(|sectors| sectors as u64 * 512);
            reads.push(Read { from, bytes, beside: beside as usize });
        }
    }
    reads
}

/// The export at which a program reads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Door {
    Background,
    Foreground,
}

/// The response times of the same foreground requests: first beside one run of a program, then at the drive alone.
struct Beside {
    mean_ms: [f64; 2],
    p99_ms: [f64; 2],
    mb_per_s: f64,
}

impl Beside {
    /// Returns by how many percent the program raises the mean and the 99th percentile.
    fn slower(&self) -> [f64; 2] {
        [self.mean_ms, self.p99_ms].map(|[with, alone]| 100.0 * (with / alone - 1.0))
    }
}

fn p99(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable_by(f64::total_cmp);
    times[(times.len() * 99).div_ceil(100) - 1]
}

/// Lets a program read beside random requests. At the background export the program begins again when it has read
/// everything, because few requests give no 99th percentile.
fn read_beside(program: Program, door: Door, (requests_per_s, requests, seed): (f64, u64, u64)) -> Beside {
    let profile = builtin::find("nearline-20tb").unwrap();
    let known = DriveModel::from_profile(&profile).unwrap();
    let behaviour = Behaviour::modern();
    let reported = behaviour.firmware(profile.firmware.as_ref().unwrap());
    let overheads = Overheads::of(&reported, &known, true);
    let place = OutsideConfig::beyond(overheads).serving();
    let config = Config::outside(place)
        .with_idle(Some(IdleTime::default()))
        .with_policy(PolicyName::Sptf)
        .with_seed(seed);
    let sector = known.sector_bytes().get();
    let mut serving = Serving::new((&profile, behaviour), known, config, (requests_per_s, [seed, seed]));
    serving.disk.take_background_requests(BackgroundTerms::default());
    let reads = (program.reads)();
    let (mut asked, mut done, mut bytes) = (0, 0, 0);
    let all = match door {
        Door::Background => usize::MAX,
        Door::Foreground => reads.len(),
    };
    let nth = |n: usize| &reads[n % reads.len()];
    while serving.ids < requests && done < all {
        while asked < all && asked - done <= nth(asked).beside {
            let read = nth(asked);
            let range = LbnRange::new(Lbn::new(read.from / sector), Sectors::new(read.bytes / sector));
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
        bytes += serving.others.drain(..).map(|id| nth((id - OTHERS) as usize).bytes).sum::<u64>();
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

/// Compares a program at the background export with the drive alone, and with the same program at the foreground
/// export.
#[allow(clippy::print_stdout, reason = "docs/SERVE.md names the command that prints these figures")]
fn delays_by_at_most_the_bound(program: Program) {
    let interval = |of: &[f64]| format!("{:.2}% | {:.2}%", mean(of), upper_end(of));
    for rate in [50.0, 20.0] {
        let all = |door| -> [Vec<f64>; 3] {
            let runs: Vec<Beside> =
                (42..66).map(|seed| read_beside(program, door, (rate, REQUESTS, seed))).collect();
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
    delays_by_at_most_the_bound(NBDCOPY);
}

#[test]
fn dd_at_the_background_export_delays_requests_by_at_most_the_bound() {
    delays_by_at_most_the_bound(DD);
}

#[test]
fn restic_at_the_background_export_delays_requests_by_at_most_the_bound() {
    delays_by_at_most_the_bound(RESTIC);
}

#[test]
fn pg_basebackup_at_the_background_export_delays_requests_by_at_most_the_bound() {
    delays_by_at_most_the_bound(PG_BASEBACKUP);
}
