//! A probe's promises to its caller: the probe uses only the handle, reports progress, may be ended at any command, and
//! measures few tracks.

use crate::common::{self, CUT, Cut, Emulated, finding};
use model::{Layout, Profile, builtin};
use probe::{Journal, Options, Probe, ProbeError, ProbedProfile};
use std::ops::ControlFlow;

fn probed(truth: &Profile) -> ProbedProfile {
    Probe::new(Options::default()).run(&mut Emulated::new(truth), &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Checks that two profiles are the same except for their sources.
fn is_the_same(found: &Profile, whole: &Profile, what: &str) {
    assert_eq!(
        (found.rpm, found.cylinders, found.heads),
        (whole.rpm, whole.cylinders, whole.heads),
        "{what}"
    );
    assert_eq!(found.layout, whole.layout, "{what}");
    // A search ends with a range of some microseconds, in which chance decides, so times may differ slightly.
    let near = |a: f64, b: f64| (a - b).abs() < 0.03;
    let seeks = |profile: &Profile| match &profile.seek {
        model::profile::Seek::Table { points } => points.clone(),
        _ => panic!("a table"),
    };
    for (a, b) in seeks(found).iter().zip(seeks(whole)) {
        assert!(a.0 == b.0 && near(a.1, b.1), "{what}: {a:?} {b:?}");
    }
    let (a, b) = (&found.mechanics, &whole.mechanics);
    assert!(near(a.head_switch_ms, b.head_switch_ms), "{what}: {a:?} {b:?}");
    assert_eq!(a.zero_latency_read, b.zero_latency_read, "{what}");
    let firmware = |profile: &Profile| profile.firmware.clone().unwrap();
    assert_eq!(firmware(found).cache, firmware(whole).cache, "{what}");
}

/// The probe is killed several times, after a few or many commands; the saved state is the journal up to then.
#[test]
fn a_probe_killed_at_any_command_resumes_to_the_same_profile() {
    let truth = builtin::find("mimic-less-capacity").unwrap();
    let queue = drive::Behaviour { queue: drive::Behaviour::fast02().queue, ..drive::Behaviour::default() };
    for behaviour in [drive::Behaviour::default(), queue] {
        let mut whole = Emulated::with(&truth, behaviour, 0);
        let whole =
            Probe::new(Options::default()).run(&mut whole, &mut |_| ControlFlow::Continue(())).unwrap();
        let mut state = 0x0123_4567_89ab_cdef_u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((u128::from(state) * u128::from(bound)) >> 64) as u64
        };
        for round in testing::some(1, 0..4) {
            // The drive keeps rotating between the probes.
            let mut device = Emulated::with(&truth, behaviour, 0);
            let mut saved: Option<Vec<u8>> = None;
            let mut cuts = Vec::new();
            let found = loop {
                // Some kills come while the probe looks for the platter's angle after the previous kill.
                let left = match below(4) {
                    0 => below(20),
                    _ => below(4_000),
                };
                let left = if cuts.len() > 20 { u64::MAX } else { left };
                cuts.push(left);
                let mut probe = match &saved {
                    None => Probe::new(Options::default()),
                    Some(bytes) => {
                        let journal = Journal::from_bytes(bytes, "state").unwrap();
                        Probe::resume(Options::default(), journal).unwrap()
                    }
                };
                let mut cut = Cut { device: &mut device, left };
                match probe.run(&mut cut, &mut |_| ControlFlow::Continue(())) {
                    Ok(found) => break found,
                    Err(ProbeError::Device(error)) => assert_eq!(error.reason, CUT),
                    Err(error) => panic!("{round}, {cuts:?}: {error}"),
                }
                saved = Some(probe.journal().to_bytes());
            };
            is_the_same(&found.profile, &whole.profile, &format!("{round}, {cuts:?}"));
            assert_eq!(found.report.unsure, whole.report.unsure, "{cuts:?}");
        }
    }
}

/// The times vary, and the resumed probe has a drive with other noise: no measurement repeats exactly, but the findings
/// are as good, and their confidences hold. The probe is cut off in every stage: the buffer, the spindle, zones, heads,
/// seeks, the check.
#[test]
fn a_resumed_probe_finds_a_noisy_drive_as_well() {
    let truth = builtin::find("mimic-less-capacity").unwrap();
    let mut device = Emulated::noisy(&truth, 1);
    let mut stages: Vec<(String, u64)> = Vec::new();
    let whole = Probe::new(Options::default())
        .run(&mut device, &mut |at| {
            if stages.last().is_none_or(|last| last.0 != at.stage) {
                stages.push((at.stage.to_owned(), at.journal.commands()));
            }
            ControlFlow::Continue(())
        })
        .unwrap();
    let whole_shares = common::predictions_on(device, &truth, &whole.profile, &whole.report, 2_000);
    // The cuts are in the middle of each stage, and three commands after its beginning.
    let commands: Vec<u64> = stages.iter().map(|stage| stage.1).collect();
    let inside = commands.windows(2).map(|two| two[0] + (two[1] - two[0]) / 2);
    let places: Vec<u64> = inside.chain(commands.iter().map(|c| c + 3)).filter(|&at| at > 0).collect();
    assert!(places.len() > 10, "{stages:?}");
    for (i, at) in testing::some(4, places.into_iter().enumerate()) {
        let mut probe = Probe::new(Options::default());
        let mut begun = Emulated::noisy(&truth, 1);
        let cut = probe.run(&mut Cut { device: &mut begun, left: at }, &mut |_| ControlFlow::Continue(()));
        let bytes = probe.journal().to_bytes();
        let found = match cut {
            Ok(found) => found,
            Err(ProbeError::Device(error)) => {
                assert_eq!(error.reason, CUT);
                let mut later = Emulated::noisy(&truth, 2 + i as u64);
                let journal = Journal::from_bytes(&bytes, "state").unwrap();
                let mut probe = Probe::resume(Options::default(), journal).unwrap();
                let found = probe.run(&mut later, &mut |_| ControlFlow::Continue(())).unwrap();
                let shares = common::predictions_on(later, &truth, &found.profile, &found.report, 2_000);
                // Two shares of 2,000 reads each may differ by three standard deviations of their difference.
                let deviation = (2.0 * whole_shares.near * (1.0 - whole_shares.near) / 2_000.0).sqrt();
                assert!(
                    shares.near > whole_shares.near - 3.0 * deviation,
                    "{at}: {shares:?} for {whole_shares:?}"
                );
                assert!(shares.sure.is_none_or(|sure| sure >= 0.97), "{at}: {shares:?}");
                found
            }
            Err(error) => panic!("{at}: {error}"),
        };
        assert_eq!((found.profile.cylinders, found.profile.heads), (truth.cylinders, truth.heads), "{at}");
        assert_eq!(found.profile.layout.order, truth.layout.order, "{at}");
        assert_eq!(found.profile.layout.zones.len(), truth.layout.zones.len(), "{at}");
        let (a, b) = (&found.profile.mechanics, &whole.profile.mechanics);
        assert!((a.head_switch_ms - b.head_switch_ms).abs() < 0.05, "{at}: {a:?} for {b:?}");
    }
}

#[test]
fn progress_rises_from_zero_to_one() {
    for (name, noisy) in
        [("mimic-less-capacity", false), ("mimic-less-capacity", true), ("quantum-atlas-10k", false)]
    {
        let truth = builtin::find(name).unwrap();
        let mut device = if noisy { Emulated::noisy(&truth, 1) } else { Emulated::new(&truth) };
        let mut shares = Vec::new();
        let hook = &mut |at: &probe::Progress<'_>| {
            shares.push(at.share);
            ControlFlow::Continue(())
        };
        let found = Probe::new(Options::default()).run(&mut device, hook).unwrap();
        assert!(shares.len() as u64 >= found.report.commands / 64, "{} calls", shares.len());
        assert!(shares.is_sorted(), "{name}: {shares:?}");
        assert!(shares[0] < 0.1 && shares.last() == Some(&1.0), "{name}: {shares:?}");
        let moves = shares.windows(2).filter(|two| two[0] < two[1]).count();
        assert!(moves > 80, "{name}: {moves} steps in {} calls", shares.len());
    }
}

/// A caller that saves the journal in the hook has a state from before the first command on. The caller may end the
/// probe at any call, even while a resumed probe still replays its journal.
#[test]
fn the_hook_is_called_before_the_first_command_and_can_end_the_probe_at_any_call() {
    let truth = builtin::find("mimic-less-capacity").unwrap();
    let whole = probed(&truth);
    let mut saved = Journal::from_bytes(&Probe::new(Options::default()).journal().to_bytes(), "new").unwrap();
    let mut longest = 0;
    for calls in [0_u64, 1, 3, 30, 10, 40] {
        let mut probe = Probe::resume(Options::default(), saved).unwrap();
        let mut device = Emulated::new(&truth);
        let (mut left, mut reported) = (calls, None);
        let hook = &mut |at: &probe::Progress<'_>| {
            reported.get_or_insert(at.journal.commands());
            if left == 0 {
                return ControlFlow::Break(());
            }
            left -= 1;
            ControlFlow::Continue(())
        };
        assert!(matches!(probe.run(&mut device, hook), Err(ProbeError::Interrupted)), "{calls}");
        // A state without a revolution time is measured anew; an older state loses nothing.
        let usable = if longest < 200 { 0 } else { longest };
        assert_eq!(reported, Some(usable), "{calls}");
        longest = usable.max(probe.journal().commands());
        assert!(longest >= 64 * calls.saturating_sub(1), "{calls}: {longest}");
        saved = Journal::from_bytes(&probe.journal().to_bytes(), "state").unwrap();
        assert_eq!(saved.commands(), longest);
    }
    let found = Probe::resume(Options::default(), saved)
        .unwrap()
        .run(&mut Emulated::new(&truth), &mut |_| ControlFlow::Continue(()))
        .unwrap();
    is_the_same(&found.profile, &whole.profile, "ended often");
}

/// A profile's name, title and sources change nothing, because the probe sees only the handle.
#[test]
fn a_probe_uses_only_the_handle() {
    let truth = builtin::find("mimic-less-capacity").unwrap();
    let found = probed(&truth);
    let mut other = truth.clone();
    other.name = "another".to_owned();
    other.title = "Another one".to_owned();
    other.sources = vec!["nothing".to_owned()];
    assert_eq!(probed(&other), found);
    // A drive with half of the sectors behind the same kind of handle gives another profile.
    let mut half = truth;
    half.cylinders /= 2;
    half.layout.zones[0].last_cylinder = half.cylinders - 1;
    let found = probed(&half);
    assert_eq!((found.profile.cylinders, found.profile.heads), (half.cylinders, half.heads));
}

#[test]
fn few_tracks_are_measured_and_their_number_is_reported() {
    for name in builtin::names() {
        let truth = builtin::find(name).unwrap();
        if crate::common::is_large(name) {
            continue;
        }
        let layout = Layout::new(&truth.layout, truth.cylinders, truth.heads).unwrap();
        let found = probed(&truth);
        let reported = finding(&found, "tracks measured");
        let measured: u64 = reported.value.parse().unwrap();
        let zones = truth.layout.zones.len();
        let slips: usize = truth.layout.zones.iter().map(|z| z.slips.len()).sum();
        // A repetition shows on a few tracks. For an irregularity the probe reads ever farther ahead, and a binary
        // search finds it.
        let tracks = f64::from(layout.track_count());
        let most = 3.0 * (zones + slips) as f64 * tracks.log2();
        assert!(measured as f64 <= most, "{name}: {measured} tracks, {zones} zones, {slips} slips");
        assert!(measured as f64 <= tracks / 10.0, "{name}: {measured} of {tracks}");
    }
}
