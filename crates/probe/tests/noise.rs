//! Where times vary: what a small drive's anchors say, how well moves are known, that the check has its time.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::{Emulated, finding, holds};
use model::profile::Seek;
use model::{DriveModel, Profile, builtin};
use probe::{Options, Outcome, Probe};
use std::ops::ControlFlow;

fn probed(truth: &Profile, seed: u64) -> Outcome {
    let mut device = Emulated::noisy(truth, seed).one_at_a_time();
    let found = Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
    holds(device, truth, &found, 300.0);
    found
}

/// All of this drive is 18 MB: what is read ahead of one anchor must not be the next one, or readings seem not to vary.
#[test]
fn anchors_of_a_small_drive_are_read_from_the_medium() {
    let truth = common::random(19);
    for seed in 1..4 {
        let found = probed(&truth, seed);
        let spread = finding(&found, "spread of an angle").value.clone();
        let us: f64 = spread.trim_end_matches(" us").parse().unwrap();
        // Completions vary evenly by 10 us: a standard deviation of 2.9 us, and what the speed does meanwhile.
        assert!((2.5..10.0).contains(&us), "seed {seed}: {spread}");
    }
}

/// A curve without bends, so that what is off is off by the measurement: commands and completions cost 15 us more in the mean than
/// the profile says, which is in every move.
#[test]
fn moves_are_known_to_a_part_of_what_one_varies_by() {
    let of = |profile: &Profile, distance: u32| {
        let overhead = profile.firmware.as_ref().unwrap().overheads.read_miss.0;
        overhead * 1e3 + DriveModel::from_profile(profile).unwrap().seek(distance).as_nanos() as f64 / 1e3
    };
    for (drive, seed) in
        [("mimic-base", 1), ("mimic-base", 2), ("mimic-slow-seek", 1), ("mimic-slow-seek", 2)]
    {
        let truth = builtin::find(drive).unwrap();
        let found = probed(&truth, seed).profile;
        let Seek::Table { points } = &found.seek else { panic!("{drive}: another curve") };
        // Where it was measured: between two points it may bend.
        let errors: Vec<f64> = points.iter().map(|p| of(&found, p.0) - of(&truth, p.0)).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let rms = (errors.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / errors.len() as f64).sqrt();
        let worst = errors.iter().map(|e| (e - mean).abs()).fold(0.0, f64::max);
        // One move varies by 20 us.
        let said = format!("{drive}, seed {seed}: {mean:.1} us, apart by {rms:.1}, at most {worst:.1}");
        assert!((5.0..30.0).contains(&mean) && rms < 12.0 && worst < 45.0, "{said}");
    }
}

/// Its moves take so long that the curve alone would take all of the time.
#[test]
fn a_slow_arm_leaves_time_for_the_check() {
    let truth = builtin::find("mimic-slow-seek").unwrap();
    for seed in 1..4 {
        let report = probed(&truth, seed).report;
        assert!(report.unsure.is_empty(), "seed {seed}: {:?}", report.unsure);
    }
}
