//! Probes drives, then predicts 2,000 random reads of 4 KiB on the true one with the found profile. A line a drive.
//!
//! `cargo run --release -p freeblock-probe --example sweep -- quantum-atlas-10k random:7`; with `NOISE=SEED` in the
//! environment on drives that differ from their profiles as `drive::Behaviour::noisy` has it; with `PROFILE=1` the
//! found profile and the report are printed as well.

#[path = "../tests/common/mod.rs"]
mod common;

use model::profile::Order;
use model::{Profile, builtin};
use probe::{Options, Outcome, Probe};
use std::ops::ControlFlow;

#[expect(clippy::print_stdout, clippy::unwrap_used, reason = "an example")]
fn main() {
    let noise = std::env::var("NOISE").ok().map(|seed| seed.parse::<u64>().unwrap());
    println!("{:24} {:>8} {:>7} {:>7} {:>7}  found", "drive", "drive s", "near", "turns", "other");
    for name in std::env::args().skip(1) {
        let truth = match name.strip_prefix("random:") {
            Some(seed) => common::random(seed.parse().unwrap()),
            None => builtin::find(&name).unwrap(),
        };
        let drive = || match noise {
            Some(seed) => common::Emulated::noisy(&truth, seed),
            None => common::Emulated::new(&truth),
        };
        let mut device = drive();
        let mut probe = Probe::new(Options::default());
        let mut stages: Vec<(&str, f64)> = Vec::new();
        let mut hook = |at: &probe::Progress<'_>| {
            if stages.last().map(|s| s.0) != Some(at.stage) {
                stages.push((at.stage, at.drive_time.as_secs_f64()));
                eprintln!("{:?} {}", stages.last(), at.journal.commands());
            }
            ControlFlow::Continue(())
        };
        let Outcome { profile, report } = match probe.run(&mut device, &mut hook) {
            Ok(outcome) => outcome,
            Err(error) => {
                println!("{name:24} {error}");
                continue;
            }
        };
        // A spindle that drifts is where the probe left it.
        let on = if noise.is_some() { device } else { drive() };
        let (near, turns, other) = common::predictions_on(on, &truth, &profile, 2_000);
        println!(
            "{name:24} {:8.0} {:6.1}% {:6.1}% {:6.1}%  {} of {} zones, {} of {} heads, {} for {}{}",
            report.drive_time_s,
            100.0 * near,
            100.0 * turns,
            100.0 * other,
            profile.layout.zones.len(),
            truth.layout.zones.len(),
            profile.heads,
            truth.heads,
            order(&profile),
            order(&truth),
            if report.unsure.is_empty() { "" } else { "; says it is unsure" }
        );
        if std::env::var("PROFILE").is_ok() {
            println!("{report:#?}\n{}", profile.to_toml());
        }
    }
}

fn order(profile: &Profile) -> String {
    match profile.layout.order {
        Order::Cylinder => "cylinder".to_owned(),
        Order::CylinderSerpentine => "serpentine".to_owned(),
        Order::CylinderSerpentineAbsolute => "serpentine-absolute".to_owned(),
        Order::SurfaceSerpentine { band_cylinders } => format!("bands of {band_cylinders}"),
        Order::Pattern => "pattern".to_owned(),
    }
}
