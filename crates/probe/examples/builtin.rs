//! Probes drives, then predicts 2,000 random reads of 4 KiB with the profiles that were found; prints a line a drive.
//!
//! `cargo run --release -p freeblock-probe --example builtin` probes every built-in drive. Names of drives may be given
//! instead, and `random:SEED`, `wong:NAME:SEED` or the path of a DiskSim parameter file. `--segments N` gives the
//! drives a cache of N segments. `--noise` makes drives differ from their profiles as `drive::Behaviour::fast02` does,
//! with the seed of `--seed N`. `--random N` adds the hidden drives of seeds 0 to N. `--stages` prints when each
//! measurement began, and `--profile` prints the report and the profile.
//!
//! The columns are shares of reads. `near`: within 50 us of the prediction, on the drive with all its noise. `true`:
//! the same on the drive without random noise. `revolutions`: off by whole revolutions. `other`: off by any other time.
//! `sure`: like `near`, but only for reads outside the regions that the report names as uncertain; `none` if the report
//! names the whole drive. Behind them stand the order of tracks found, the true order, and the confidence. The last
//! line has the number of drives that are named as a whole, and the least `sure` of the others.

#[path = "../tests/probe/common/mod.rs"]
mod common;

use common::{Emulated, Shares, profile_of};
use model::profile::Order;
use model::{Profile, builtin};
use probe::{Options, Probe, ProbedProfile};
use std::ops::ControlFlow;

struct BuiltinFlags {
    names: Vec<String>,
    noise: bool,
    seed: u64,
    stages: bool,
    profile: bool,
    segments: Option<u32>,
}

fn wanted() -> Option<BuiltinFlags> {
    let mut wanted = BuiltinFlags {
        names: Vec::new(),
        noise: false,
        seed: 1,
        stages: false,
        profile: false,
        segments: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--noise" => wanted.noise = true,
            "--stages" => wanted.stages = true,
            "--profile" => wanted.profile = true,
            "--seed" => wanted.seed = args.next()?.parse().ok()?,
            "--segments" => wanted.segments = Some(args.next()?.parse().ok()?),
            "--random" => {
                let most: u64 = args.next()?.parse().ok()?;
                wanted.names.extend((0..=most).map(|seed| format!("random:{seed}")));
            }
            name => wanted.names.push(name.to_owned()),
        }
    }
    if wanted.names.is_empty() {
        wanted.names = builtin::names().iter().map(|&name| name.to_owned()).collect();
    }
    Some(wanted)
}

#[expect(clippy::print_stdout, reason = "an example")]
fn main() {
    let Some(wanted) = wanted() else {
        println!("give names of drives, --noise, --seed N, --random N, --segments N, --stages, --profile");
        return;
    };
    println!(
        "{:24} {:>8} {:>8} {:>7} {:>7} {:>11} {:>7} {:>7}  found",
        "drive", "drive s", "reads", "near", "true", "revolutions", "other", "sure"
    );
    let (mut lines, mut whole, mut least) = (0, 0, 1.0_f64);
    for name in &wanted.names {
        let Some(mut truth) = profile_of(name) else {
            println!("{name:24} no such drive");
            continue;
        };
        if let (Some(segments), Some(firmware)) = (wanted.segments, truth.firmware.as_mut()) {
            firmware.cache.segments = segments;
        }
        if let Some(sure) = line(&wanted, name, &truth) {
            lines += 1;
            whole += u32::from(sure.is_none());
            least = sure.map_or(least, |sure| least.min(sure));
        }
    }
    let least = 100.0 * least;
    println!(
        "{lines} drives, {whole} of them named whole; of the others at least {least:.1}% where they are sure"
    );
}

/// Probes one drive and prints its line. Returns `None` if the probe failed; otherwise the share of predicted reads
/// outside the regions that the report names, which is `None` if the report names the whole drive.
#[expect(clippy::print_stdout, reason = "an example")]
fn line(wanted: &BuiltinFlags, name: &str, truth: &Profile) -> Option<Option<f64>> {
    let drive = |noise: bool| match (noise, wanted.noise) {
        (true, true) => Emulated::noisy(truth, wanted.seed),
        (false, true) => Emulated::with(truth, common::without_chance(), wanted.seed),
        _ => Emulated::new(truth),
    };
    let mut device = drive(true);
    let mut stages: Vec<(&str, f64)> = Vec::new();
    let mut hook = |at: &probe::Progress<'_>| {
        if stages.last().map(|s| s.0) != Some(at.stage) {
            stages.push((at.stage, at.drive_time.as_secs_f64()));
        }
        ControlFlow::Continue(())
    };
    let ProbedProfile { profile, report } = match Probe::new(Options::default()).run(&mut device, &mut hook) {
        Ok(outcome) => outcome,
        Err(error) => {
            println!("{name:24} {error}");
            return None;
        }
    };
    // A spindle whose speed varies goes on from where the probe left it.
    let on = if wanted.noise { device } else { drive(true) };
    let Shares { near, revolutions, other, sure } =
        common::predictions_on(on, truth, &profile, &report, 2_000);
    let exact = common::predictions_on(drive(false), truth, &profile, &report, 2_000);
    let percent = |share: f64| format!("{:.1}%", 100.0 * share);
    println!(
        "{name:24} {:8.0} {:8} {:>7} {:>7} {:>11} {:>7} {:>7}  {} of {} zones, {} of {} heads, {} for {}, {} sure{}",
        report.drive_time_s,
        report.commands,
        percent(near),
        percent(exact.near),
        percent(revolutions),
        percent(other),
        sure.map_or_else(|| "none".to_owned(), percent),
        profile.layout.zones.len(),
        truth.layout.zones.len(),
        profile.heads,
        truth.heads,
        order(&profile),
        order(truth),
        percent(common::confidence(&report, "order of tracks")),
        if report.unsure.is_empty() { "" } else { "; names regions" }
    );
    if wanted.stages {
        println!("  {stages:?}");
    }
    if wanted.profile {
        println!("{report:#?}\n{}", profile.to_toml());
    }
    Some(sure)
}

fn order(profile: &Profile) -> String {
    match profile.layout.order {
        Order::Cylinder => "cylinder".to_owned(),
        Order::CylinderSerpentine => "serpentine".to_owned(),
        Order::CylinderSerpentineAbsolute => "serpentine-absolute".to_owned(),
        Order::SurfaceSerpentine { band_cylinders } => format!("bands of {band_cylinders}"),
        Order::Bands { band_cylinders, tracks, surfaces } => {
            format!("bands of {band_cylinders}, {tracks:?} {surfaces:?}")
        }
        Order::Pattern => "pattern".to_owned(),
    }
}
