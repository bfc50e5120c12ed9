//! Drives whose times vary: the anchors of a small drive, the accuracy of moves, and the time for the check.

use crate::common::{self, Emulated, finding, holds};
use drive::Behaviour;
use model::profile::Seek;
use model::{DriveModel, Profile, builtin};
use probe::{Options, Probe, ProbedProfile};
use std::ops::ControlFlow;

fn probed(truth: &Profile, seed: u64) -> ProbedProfile {
    let mut device = Emulated::noisy(truth, seed).one_at_a_time();
    let found = Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
    holds(device, truth, &found, 300.0);
    found
}

/// This drive has 18 MB. Read-ahead from one anchor must not reach the next: a cache hit would not show the angle.
#[test]
fn anchors_of_a_small_drive_are_read_from_the_medium() {
    let truth = common::random(19);
    for seed in 1..4 {
        let found = probed(&truth, seed);
        let spread = finding(&found, "spread of an angle").value.clone();
        let us: f64 = spread.trim_end_matches(" us").parse().unwrap();
        // Completions are uniformly delayed over 10 us, a standard deviation of 2.9 us; changes of the speed add to
        // that.
        assert!((2.5..10.0).contains(&us), "seed {seed}: {spread}");
    }
}

/// The seek curve is smooth, so every difference from it is an error of the measurement. Commands and completions take
/// a mean of 15 us more than the profile says, which is a part of every move.
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
        // Only measured distances are compared, because the curve may bend between them.
        let errors: Vec<f64> = points.iter().map(|p| of(&found, p.0) - of(&truth, p.0)).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let rms = (errors.iter().map(|e| (e - mean).powi(2)).sum::<f64>() / errors.len() as f64).sqrt();
        let worst = errors.iter().map(|e| (e - mean).abs()).fold(0.0, f64::max);
        // The standard deviation of a single move is 20 us.
        let said = format!("{drive}, seed {seed}: {mean:.1} us, apart by {rms:.1}, at most {worst:.1}");
        assert!((5.0..30.0).contains(&mean) && rms < 12.0 && worst < 45.0, "{said}");
    }
}

/// The moves of this drive take so long that the whole seek curve would take all of the time. About 98% of the reads
/// are as predicted, too close to 97% for the check to decide with every seed; if it does not, the check must have used
/// all of its time.
#[test]
fn a_slow_arm_leaves_time_for_the_check() {
    let truth = builtin::find("mimic-slow-seek").unwrap();
    let mut named = 0;
    for seed in 1..4 {
        let report = probed(&truth, seed).report;
        assert!(report.check.requests >= 500, "seed {seed}: {:?}", report.check);
        assert!(
            report.unsure.is_empty() || report.check.requests >= 1_500,
            "seed {seed}: {:?}",
            report.unsure
        );
        named += u32::from(!report.unsure.is_empty());
    }
    assert!(named <= 1, "{named} of 3");
}

/// Each band has three runs of sectors so short that readings do not distinguish them; behind the bands follows a zone
/// of a quarter of their density.
#[test]
fn bands_of_three_runs_are_found_where_sectors_are_too_small_to_tell() {
    let truth = common::random(5);
    for seed in 1..3 {
        let mut device = Emulated::noisy(&truth, seed).one_at_a_time();
        let found =
            Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(found.profile.layout.order, truth.layout.order, "seed {seed}");
        assert_eq!(found.profile.heads, truth.heads, "seed {seed}");
        let shares = common::predictions_on(device, &truth, &found.profile, &found.report, 2_000);
        // The 2% of seeks that end one revolution late bring the share of predicted reads close to 97%, on either side.
        assert!(shares.near >= 0.95 && found.report.check.within_50us >= 0.95, "seed {seed}: {shares:?}");
    }
}

/// Two consecutive runs of 128 tracks lie on one surface, then two with 7% fewer sectors; a sector takes 6 us. The
/// first LBN that deviates visibly is 110 LBNs behind the end of a run.
#[test]
fn runs_with_densities_of_their_own_are_found_where_sectors_are_too_small_to_tell() {
    for name in ["wong:st3160811as:1", "wong:st3320613as:1"] {
        let truth = common::profile_of(name).unwrap();
        let mut device = Emulated::noisy(&truth, 1);
        let found =
            Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
        holds(Emulated::noisy(&truth, 1), &truth, &found, 1_200.0);
        let shares = common::predictions_on(device, &truth, &found.profile, &found.report, 2_000);
        assert!(shares.near >= 0.97 && shares.sure.is_some(), "{name}: {shares:?}");
        assert_eq!(found.profile.heads, truth.heads, "{name}");
    }
}

/// A sector takes 1.7 us, far less than the spread of a reading. The buffer has 64 segments, so half a second passes
/// before a sector can be read again from the medium, and the speed changes by 139 millionths meanwhile.
#[test]
fn the_largest_drive_is_mapped_where_its_speed_wanders() {
    let truth = builtin::find("nearline-20tb").unwrap();
    let mut device = Emulated::noisy(&truth, 1);
    let found = Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
    let named: u64 = found.report.unsure.iter().map(|region| region.end.get() - region.first.get()).sum();
    let capacity = probe::ProbedDevice::capacity(&device).get();
    // The limit is half an hour: a probe that could not map the drive took 44 minutes.
    holds(Emulated::noisy(&truth, 1), &truth, &found, 1_800.0);
    let shares = common::predictions_on(device, &truth, &found.profile, &found.report, 2_000);
    assert!(shares.near >= 0.97, "{shares:?}");
    assert!(named as f64 <= 0.03 * capacity as f64, "{:?}", found.report.unsure);
    assert_eq!((found.profile.heads, found.profile.layout.order), (truth.heads, truth.layout.order));
}

/// Commands, completions or the bus are slow, or vary, by more than a cache hit usually takes: the probe recognises
/// hits by the distribution of their times. It reports unknown properties as unknown, and continues.
#[test]
fn a_buffer_whose_hits_vary_is_known_and_what_is_not_is_named() {
    let probed = |truth: &Profile, switch: &str, (dice, seed): (u64, u64)| {
        let mut behaviour = Behaviour::fast02();
        behaviour.set(switch).unwrap();
        let mut device = Emulated::with(truth, behaviour, dice);
        let options = Options { seed, ..Options::default() };
        let found = Probe::new(options).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
        holds(device, truth, &found, 305.0);
        common::is_right_or_unsure(truth, &found);
        found
    };
    for switch in ["command_spread=500us", "completion_spread=1ms", "bus_sector=200us"] {
        for seed in testing::some(1, [1, 10, 26]) {
            let truth = common::random(seed);
            let found = probed(&truth, switch, (1, 1));
            let cache = &found.profile.firmware.as_ref().unwrap().cache;
            assert!(cache.enabled && cache.segments == 16, "{switch}, {seed}: {cache:?}");
        }
    }
    // The next drive has many unreadable sectors, the first sector among them.
    let truth = builtin::find("mimic-fast-rotate").unwrap();
    let found = probed(&truth, "bad_sectors=5000:20", (17, 41));
    assert!(found.profile.heads == truth.heads && !found.report.unreadable.is_empty());
    // The next drive has a hidden head switch, and no buffer.
    let truth = builtin::find("ibm-ultrastar-9es").unwrap();
    let found = probed(&truth, "buffer=off", (16, 24));
    let switch = finding(&found, "head switch");
    let off = (found.profile.mechanics.head_switch_ms - truth.mechanics.head_switch_ms).abs();
    assert!(off < 0.05 || switch.confidence < 0.9, "{switch:?} for {}", truth.mechanics.head_switch_ms);
}

/// One move in five, or in ten, settles late by up to a millisecond. A probe once assigned the late moves to other
/// cylinders, and was sure of one head instead of eight.
#[test]
fn heads_that_land_late_leave_the_order_of_tracks_unsure_where_it_is_wrong() {
    let cases = [
        ("quantum-atlas-10k", 100_000),
        ("mimic-base", 100_000),
        ("quantum-atlas-10k", 200_000),
        ("seagate-cheetah-4lp", 200_000),
        ("ibm-ultrastar-9es", 200_000),
        ("mimic-base", 200_000),
    ];
    for (name, often) in testing::some(3, cases) {
        let truth = builtin::find(name).unwrap();
        let mut behaviour = Behaviour::fast02();
        behaviour.set(&format!("late_settles={often}:1ms")).unwrap();
        for seed in testing::some(1, 1..4) {
            let mut device = Emulated::with(&truth, behaviour, seed);
            let found =
                Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
            common::is_right_or_unsure(&truth, &found);
            let switch = finding(&found, "head switch");
            let off = (found.profile.mechanics.head_switch_ms - truth.mechanics.head_switch_ms).abs();
            assert!(off < 0.05 || switch.confidence < 0.75, "{name}, {often}, {seed}: {switch:?}");
        }
    }
}

/// One move in ten settles late, and a search that met such a move at a critical step ended with an error of 200 us:
/// with these seeds a probe once was 81% to 97% sure of one head instead of six, eight or ten.
#[test]
fn one_search_that_a_late_head_led_astray_does_not_make_another_shape() {
    let dice = [
        ("quantum-atlas-10k", 7),
        ("quantum-atlas-10k", 12),
        ("mimic-base", 4),
        ("mimic-base", 7),
        ("seagate-cheetah-4lp", 6),
        ("seagate-cheetah-4lp", 11),
    ];
    for (name, seed) in testing::some(3, dice) {
        let truth = builtin::find(name).unwrap();
        let mut behaviour = Behaviour::fast02();
        behaviour.set("late_settles=100000:1ms").unwrap();
        let mut device = Emulated::with(&truth, behaviour, seed);
        let found =
            Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
        common::is_right_or_unsure(&truth, &found);
        assert_eq!(found.profile.heads, truth.heads, "{name}, {seed}");
    }
}
