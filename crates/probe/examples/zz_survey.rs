#![allow(missing_docs, clippy::all, clippy::pedantic, clippy::print_stdout, clippy::unwrap_used)]
#[path = "../tests/common/mod.rs"]
mod common;
use common::{Emulated, judge};
use probe::{Options, Probe};
use std::ops::ControlFlow;
fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    // mode from to
    let mode = &args[0];
    let behaviour_text = args.get(3).cloned();
    let (from, to): (u64, u64) = (args[1].parse().unwrap(), args[2].parse().unwrap());
    for seed in from..=to {
        let truth = common::random(seed);
        one(mode, &format!("{seed}"), &truth, behaviour_text.as_deref());
    }
    if from > to + 1 { one(mode, &args[4], &model::builtin::find(&args[4]).unwrap(), behaviour_text.as_deref()); return; }
    if from > to {
        for name in model::builtin::names() {
            if name.starts_with("nearline") { continue; }
            one(mode, name, &model::builtin::find(name).unwrap(), behaviour_text.as_deref());
        }
    }
}
fn one(mode: &str, seed: &str, truth: &model::Profile, text: Option<&str>) {
        let (behaviour, two) = match mode {
            "exact" => (drive::Behaviour::default(), false),
            "two" => (drive::Behaviour::noisy(), true),
            "one" => (drive::Behaviour::noisy(), false),
            _ => panic!(),
        };
        let mut behaviour = behaviour;
        for item in text.unwrap_or("").split(',').filter(|s| !s.is_empty()) { behaviour.set(item).unwrap(); }
        let env = |n: &str| std::env::var(n).ok().map_or(1, |v| v.parse::<u64>().unwrap());
        let mut device = judge::drive(truth, behaviour, env("DS"), two);
        let found = match Probe::new(Options { seed: env("PS"), ..Options::default() }).run(&mut device, &mut |_| ControlFlow::Continue(())) {
            Ok(f) => f, Err(e) => { println!("DRIVE {seed}: ERROR {e}"); return; } };
        let whole: u64 = found.report.unsure.iter().map(|u| u.end.get() - u.first.get()).sum();
        let cap = judge::capacity(&device);
        let s = common::predictions_on(device, truth, &found.profile, &found.report, 2_000);
        println!("DRIVE {seed}: {:.0}s near {:.1}% turns {:.1}% other {:.1}% sure {:?} {}", found.report.drive_time_s, 100.*s.near, 100.*s.turns, 100.*s.other, s.sure,
            if whole >= cap { "WHOLE" } else if whole > 0 { "part" } else { "" });
        for j in judge::judged(truth, &behaviour, &found, s) {
            println!("  {} {:.2} {}: {}", if j.right { "ok " } else { "BAD" }, j.confidence, j.what, j.told);
        }
        let _ = Emulated::new;
}
