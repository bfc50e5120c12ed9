//! The drive time of probes, the slowest first: of every built-in drive of up to 9 GB, with every behaviour that a user
//! can switch and that affects the time, with writes allowed to sectors 100,000 to 120,000 and without.
//!
//! `cargo run --release -p freeblock-probe --example times` probes all of these. Names of drives select drives, and
//! `--ways WORDS`, which may be repeated (`noise,queue=sptf:64`), selects behaviours. `--seeds N` takes the noise of
//! seeds 1 to N, `--stages` prints how long each measurement took, and `--reads` leaves out the probes with writes.

#[path = "../tests/probe/common/mod.rs"]
mod common;

use common::Emulated;
use drive::Behaviour;
use model::builtin;
use probe::{Options, Probe};
use std::ops::ControlFlow;
use units::{Lbn, LbnRange, Sectors};

struct TimesFlags {
    names: Vec<String>,
    ways: Vec<String>,
    seeds: u64,
    stages: bool,
    reads: bool,
}

fn wanted() -> Option<TimesFlags> {
    let mut wanted =
        TimesFlags { names: Vec::new(), ways: Vec::new(), seeds: 1, stages: false, reads: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--ways" => wanted.ways.push(args.next()?),
            "--seeds" => wanted.seeds = args.next()?.parse().ok()?,
            "--stages" => wanted.stages = true,
            "--reads" => wanted.reads = true,
            name => wanted.names.push(name.to_owned()),
        }
    }
    if wanted.names.is_empty() {
        wanted.names = common::nine_gigabytes().map(str::to_owned).collect();
    }
    if wanted.ways.is_empty() {
        wanted.ways = common::WAYS.iter().map(|&way| way.to_owned()).collect();
    }
    Some(wanted)
}

#[expect(clippy::print_stdout, reason = "an example")]
fn main() {
    let Some(wanted) = wanted() else {
        println!("give names of drives, --ways WORDS, --seeds N, --stages, --reads");
        return;
    };
    let mut rows = Vec::new();
    for name in &wanted.names {
        for way in &wanted.ways {
            for seed in 1..=wanted.seeds {
                for writes in [false, true] {
                    if !(writes && wanted.reads) {
                        rows.push(row(&wanted, name, way, seed, writes));
                    }
                }
            }
        }
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, line) in rows {
        println!("{line}");
    }
}

fn row(wanted: &TimesFlags, name: &str, way: &str, seed: u64, writes: bool) -> (f64, String) {
    let what = format!("{name:24} {way} seed {seed}{}", if writes { " with writes" } else { "" });
    let (Ok(truth), Ok(behaviour)) = (builtin::find(name), way.parse::<Behaviour>()) else {
        return (f64::INFINITY, format!("{what}: no such drive, or no such behaviour"));
    };
    let mut device = Emulated::with(&truth, behaviour, seed);
    let region = LbnRange::new(Lbn::new(100_000), Sectors::new(20_001));
    let options = Options { writes: writes.then_some(region), ..Options::default() };
    let mut stages: Vec<(&str, f64, u64)> = Vec::new();
    let mut hook = |at: &probe::Progress<'_>| {
        if stages.last().map(|s| s.0) != Some(at.stage) {
            stages.push((at.stage, at.drive_time.as_secs_f64(), at.journal.commands()));
        }
        ControlFlow::Continue(())
    };
    match Probe::new(options).run(&mut device, &mut hook) {
        Ok(found) => {
            let report = &found.report;
            let seconds = report.drive_time_s;
            let check = |check: Option<&probe::Check>| {
                check.map_or((0, 0.0), |c| (c.requests, 100.0 * c.within_50us))
            };
            let (reads, near) = check(Some(&report.check));
            let (requests, near_writes) = check(report.writes.as_ref());
            let mut line = format!(
                "{seconds:6.1} s  {what}: {near:.1}% of {reads} reads, {near_writes:.1}% of {requests} with writes, {} and {} regions",
                report.unsure.len(),
                report.unsure_writes.len()
            );
            if wanted.stages {
                let next = stages.iter().skip(1).map(|s| (s.1, s.2)).chain([(seconds, report.commands)]);
                for ((stage, begun, first), (end, commands)) in stages.iter().zip(next) {
                    line += &format!("\n    {:6.1} s {:6} commands  {stage}", end - begun, commands - first);
                }
            }
            (seconds, line)
        }
        Err(error) => (f64::INFINITY, format!("{what}: {error}")),
    }
}
