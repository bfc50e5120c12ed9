//! A program that reads the background export of a disk of today, beside random requests, on virtual time: what the requests
//! lose against the drive alone, and what the program gets.

use super::serving::{OTHERS, Serving};
use device::{Ask, BackgroundRequest, Device as _};
use drive::Behaviour;
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, OutsideConfig, Overheads};
use server::BackgroundTerms;
use units::{Bytes, Lbn, LbnRange, Sectors};

/// A program that reads from the beginning of the disk.
#[derive(Clone, Copy, Debug)]
struct Program {
    name: &'static str,
    request: Bytes,
    /// Requests that wait at a time.
    depth: u64,
}

/// The requests of nbdcopy without options, and of dd with blocks of 1 MiB.
const PROGRAMS: [Program; 2] = [
    Program { name: "nbdcopy", request: Bytes::new(256 << 10), depth: 64 },
    Program { name: "dd", request: Bytes::new(1 << 20), depth: 1 },
];

/// The number of bytes after which a program ends.
const BYTES: u64 = 2_000_000_000;

/// Where a program reads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Door {
    Background,
    Foreground,
}

struct Result {
    /// The increase of the requests' mean response time over the drive alone in percent, and the upper end of its interval.
    slower: [f64; 2],
    mb_per_s: f64,
}

/// Lets a program read beside this number of random requests.
fn read_beside(
    drive: &str,
    program: Program,
    door: Door,
    (requests_per_s, requests, seed): (f64, u64, u64),
) -> Result {
    let profile = builtin::find(drive).unwrap();
    let known = DriveModel::from_profile(&profile).unwrap();
    let behaviour = Behaviour::modern();
    let told = behaviour.firmware(profile.firmware.as_ref().unwrap());
    let overheads = Overheads::of(&told, &known, true);
    let place = OutsideConfig::beyond(overheads).serving();
    let config =
        Config { idle: Some(IdleTime::default()), policy: PolicyName::Sptf, seed, ..Config::outside(place) };
    let sector = known.sector_bytes();
    let size = Sectors::new(program.request.get() / sector.get());
    let mut serving = Serving::new((&profile, behaviour), known, config, (requests_per_s, [seed, seed]));
    serving.disk.take_background_requests(BackgroundTerms::default());
    let (mut asked, mut done) = (0, 0);
    while serving.ids < requests && done * program.request.get() < BYTES {
        while asked < done + program.depth {
            let (id, range) = (OTHERS + asked, LbnRange::new(Lbn::new(asked * size.get()), size));
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
        done += serving.others.len() as u64;
        serving.others.clear();
    }
    let bytes = (done * program.request.get()) as f64;
    Result { slower: serving.slower(), mb_per_s: bytes / (serving.now.as_nanos() as f64 / 1e3) }
}

#[test]
fn a_program_at_the_background_export_goes_on_beside_fifty_requests_a_second() {
    for program in PROGRAMS {
        let Result { mb_per_s, .. } =
            read_beside("nearline-20tb", program, Door::Background, (50.0, 10_000, 42));
        assert!(mb_per_s > 0.3, "{}: {mb_per_s:.2} MB/s", program.name);
    }
}

#[test]
#[allow(clippy::print_stdout, reason = "docs/SERVE.md names the command that prints these figures")]
fn programs_at_the_background_export_delay_requests_by_at_most_the_bound() {
    for program in PROGRAMS {
        for rate in [50.0, 20.0] {
            let all: Vec<Result> = (42..54)
                .map(|seed| read_beside("nearline-20tb", program, Door::Background, (rate, 20_000, seed)))
                .collect();
            let n = all.len() as f64;
            let slower = all.iter().map(|one| one.slower[0]).sum::<f64>() / n;
            // From the intervals of the seeds, whose spread says less.
            let squares: f64 = all.iter().map(|one| (one.slower[1] - one.slower[0]).powi(2)).sum();
            let upper = slower + squares.sqrt() / n;
            let mb_per_s = all.iter().map(|one| one.mb_per_s).sum::<f64>() / n;
            let own = read_beside("nearline-20tb", program, Door::Foreground, (rate, 20_000, 42));
            println!(
                "{} beside {rate}/s: {slower:.2}% slower, at most {upper:.2}%, {mb_per_s:.2} MB/s; at the disk's own export \
                 {:.0}% slower, {:.0} MB/s",
                program.name, own.slower[0], own.mb_per_s
            );
            assert!(
                upper <= 1.0,
                "{} beside {rate}/s: {slower:.2}% slower, at most {upper:.2}%",
                program.name
            );
            assert!(own.slower[0] > 10.0, "{}: {:.2}%", program.name, own.slower[0]);
        }
    }
}
