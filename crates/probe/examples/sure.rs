//! Compares how often findings are right with the confidences that reports give them.
//!
//! `cargo run --release -p freeblock-probe --example sure` probes the built-in drives of up to 9 GB with the default
//! noise, with seeds 1 to 3 each. `--random N` takes the hidden drives of seeds 0 to N instead; so do names of drives,
//! and `random:SEED`. `--ways WORDS` gives the drives' behaviour (`noise,late_settles=100000:1ms`) and may be repeated.
//! `--seeds N` sets the number of seeds, and `--one` gives the drives one command at a time. `--only FINDING`, which
//! may be repeated, leaves out all other findings. `--wrong` lists the wrong findings, the most certain first, and
//! `--each` lists all.
//!
//! The table has, for each finding and for all together, the number of findings that the drive's profile can judge, the
//! sum of their confidences, and the number that are right. The second and third columns are for findings with
//! confidences of at least 75% and 95%. `tests/probe/common/judge.rs` defines what is right.

#[path = "../tests/probe/common/mod.rs"]
mod common;

use common::judge::{Judged, drive, judged};
use common::profile_of;
use drive::Behaviour;
use probe::{Options, Probe};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

#[derive(Default)]
struct SureFlags {
    names: Vec<String>,
    ways: Vec<String>,
    only: Vec<String>,
    seeds: u64,
    one: bool,
    wrong: bool,
    each: bool,
}

fn wanted() -> Option<SureFlags> {
    let mut wanted = SureFlags { seeds: 3, ..SureFlags::default() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--ways" => wanted.ways.push(args.next()?),
            "--only" => wanted.only.push(args.next()?),
            "--seeds" => wanted.seeds = args.next()?.parse().ok()?,
            "--one" => wanted.one = true,
            "--wrong" => wanted.wrong = true,
            "--each" => wanted.each = true,
            "--random" => {
                let most: u64 = args.next()?.parse().ok()?;
                wanted.names.extend((0..=most).map(|seed| format!("random:{seed}")));
            }
            name => wanted.names.push(name.to_owned()),
        }
    }
    if wanted.names.is_empty() {
        wanted.names = common::nine_gigabytes().map(str::to_owned).collect();
    }
    if wanted.ways.is_empty() {
        wanted.ways.push("fast02".to_owned());
    }
    Some(wanted)
}

#[expect(clippy::print_stdout, reason = "an example")]
fn main() {
    let Some(wanted) = wanted() else {
        println!(
            "give names of drives, --random N, --ways WORDS, --seeds N, --only FINDING, --one, --wrong, --each"
        );
        return;
    };
    for way in &wanted.ways {
        let Ok(behaviour) = way.parse::<Behaviour>() else {
            println!("{way}: no such behaviour");
            continue;
        };
        let mut said: Vec<(String, Judged)> = Vec::new();
        for name in &wanted.names {
            for seed in 1..=wanted.seeds {
                said.extend(of(&wanted, name, behaviour, seed));
            }
        }
        print(&wanted, way, said);
    }
}

/// Returns the requested findings of one probe, with the drive's name and seed.
#[expect(clippy::print_stdout, reason = "an example")]
fn of(wanted: &SureFlags, name: &str, behaviour: Behaviour, seed: u64) -> Vec<(String, Judged)> {
    let Some(truth) = profile_of(name) else {
        println!("{name}: no such drive");
        return Vec::new();
    };
    let mut device = drive(&truth, behaviour, seed, !wanted.one);
    let found = match Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())) {
        Ok(found) => found,
        Err(error) => {
            println!("{name}, {seed}: {error}");
            return Vec::new();
        }
    };
    let shares = common::predictions_on(device, &truth, &found.profile, &found.report, 1_000);
    let asked = |j: &Judged| wanted.only.is_empty() || wanted.only.contains(&j.what);
    let said = judged(&truth, &behaviour, &found, shares);
    said.into_iter().filter(asked).map(|j| (format!("{name}, {seed}"), j)).collect()
}

#[expect(clippy::print_stdout, reason = "an example")]
fn print(wanted: &SureFlags, way: &str, mut said: Vec<(String, Judged)>) {
    println!("{way}\n{:28} {:>18} {:>18} {:>18}", "finding", "all", "75% sure or more", "95%");
    let mut findings: BTreeMap<&str, Vec<&Judged>> = BTreeMap::new();
    for (_, j) in &said {
        findings.entry(&j.what).or_default().push(j);
        findings.entry("~ all of them").or_default().push(j);
    }
    for (what, of) in findings {
        let held = |least: f64| {
            let of: Vec<_> = of.iter().filter(|j| j.confidence >= least).collect();
            let sum: f64 = of.iter().map(|j| j.confidence).sum();
            let right = of.iter().filter(|j| j.right).count();
            format!("{:4} {sum:6.1} {right:4}", of.len())
        };
        println!("{what:28} {:>18} {:>18} {:>18}", held(0.0), held(0.75), held(0.95));
    }
    said.sort_by(|a, b| b.1.confidence.total_cmp(&a.1.confidence));
    for (of, j) in said.iter().filter(|(_, j)| wanted.each || wanted.wrong && !j.right) {
        let right = if j.right { "right" } else { "wrong" };
        println!("{right} {:3.0}%  {of}: {}, {}", 100.0 * j.confidence, j.what, j.reported);
    }
}
