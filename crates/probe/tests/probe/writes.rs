//! Random requests, a third of them writes, predicted by a found profile, with or without writes allowed.

use crate::common::{self, Emulated};
use drive::Behaviour;
use model::{Profile, builtin};
use probe::{Options, Predictor, Probe, ProbedDevice, ProbedProfile};
use std::ops::ControlFlow;
use units::{Lbn, LbnRange, Op, Sectors};

fn region_of(device: &dyn ProbedDevice) -> LbnRange {
    LbnRange::new(Lbn::new(device.capacity().get() / 3), Sectors::new(20_000))
}

fn probed(device: &mut Emulated, writes: Option<LbnRange>) -> ProbedProfile {
    let options = Options { writes, ..Options::default() };
    Probe::new(options).run(device, &mut |_| ControlFlow::Continue(())).unwrap()
}

/// Returns the share of random requests of 4 KiB all over the drive, a third of them writes, that complete
/// within 50 us of their predictions; and pairs of that number and of all requests, by the type of the
/// previous request and of this one.
fn shares(drive: &mut Emulated, found: &Profile, requests: u32) -> (f64, [[(u32, u32); 2]; 2]) {
    let capacity = drive.capacity().get();
    let mut predictor = Predictor::new(found).unwrap();
    let mut state = 0x1234_5678_9abc_def0_u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(state) * u128::from(bound)) >> 64) as u64
    };
    let mut counts = [[(0, 0); 2]; 2];
    let mut last = Op::Read;
    for i in 0..requests + 60 {
        let op = if i >= 60 && below(3) == 0 { Op::Write } else { Op::Read };
        let range = LbnRange::new(Lbn::new(below(capacity - 7)), Sectors::new(8));
        let timed = drive.execute(drive.now(), op, range).unwrap();
        match op {
            Op::Read => predictor.read(timed.submitted, range),
            Op::Write => predictor.write(timed.submitted, range),
        };
        let error = predictor.completed(timed.completed);
        if i >= 60 {
            let count = &mut counts[usize::from(last.is_write())][usize::from(op.is_write())];
            *count = (count.0 + u32::from(error.abs() <= 50_000), count.1 + 1);
        }
        last = op;
    }
    let near: u32 = counts.iter().flatten().map(|c| c.0).sum();
    (f64::from(near) / f64::from(requests), counts)
}

/// Probes with writes allowed to some sectors in the middle. Then requests all over the drive are predicted,
/// or the report is not sure of them.
fn writes_are_predicted(name: &str, behaviour: Behaviour) {
    let truth = builtin::find(name).unwrap();
    let mut device = Emulated::with(&truth, behaviour, 1);
    let region = region_of(&device);
    let found = probed(&mut device, Some(region));
    let report = &found.report;
    let most = if crate::common::is_large(name) { 3_600.0 } else { 300.0 };
    assert!(report.drive_time_s <= most, "{name}: {} s", report.drive_time_s);
    let check = report.writes.unwrap();
    // The check had enough time, unless the drive's speed drifts.
    assert!(check.requests >= 500 || behaviour.drift.is_some(), "{name}: {check:?}");
    // So many requests distinguish a tenth of a percent from chance: some drives are that close to 97%.
    let (share, by_pair) = shares(&mut device, &found.profile, 20_000);
    assert!(share >= 0.97 || !report.unsure_writes.is_empty(), "{name}: {share} {by_pair:?}");
    // The report must be sure of a drive whose speed does not drift.
    assert!(
        report.unsure_writes.is_empty() || behaviour.drift.is_some(),
        "{name}: {:?}",
        report.unsure_writes
    );
}

macro_rules! drives {
    ($($name:ident)*) => {
        $(mod $name {
            use super::{Behaviour, writes_are_predicted};

            fn name() -> String {
                stringify!($name).replace('_', "-")
            }

            #[test]
            fn writes_done_on_the_medium_are_predicted() {
                let through = Behaviour { write_back: Some(false), ..Behaviour::default() };
                writes_are_predicted(&name(), through);
            }

            #[test]
            fn writes_as_the_drive_has_them_are_predicted() {
                writes_are_predicted(&name(), Behaviour::default());
            }

            #[test]
            fn writes_are_predicted_or_named_where_times_vary() {
                writes_are_predicted(&name(), Behaviour::fast02());
            }
        })*
    };
}

drives! {
    quantum_atlas_10k seagate_cheetah_4lp seagate_cheetah_9lp seagate_cheetah_18lp ibm_ultrastar_9es
    mimic_base mimic_fast_seek mimic_slow_seek mimic_fast_rotate mimic_slow_rotate mimic_fast_seek_rotate
    mimic_more_capacity mimic_less_capacity nearline_4tb
}

/// The report of a probe without writes names the unknown properties of writes, with the reason.
#[test]
fn where_writes_are_not_allowed_the_report_is_not_sure_of_them() {
    for name in builtin::names() {
        if crate::common::is_large(name) {
            continue;
        }
        let truth = builtin::find(name).unwrap();
        let mut device = Emulated::new(&truth);
        let found = probed(&mut device, None);
        let report = &found.report;
        assert_eq!(report.writes, None);
        let [all] = report.unsure_writes.as_slice() else { panic!("{name}: {:?}", report.unsure_writes) };
        assert_eq!((all.first, all.end.get()), (Lbn::ZERO, device.capacity().get()), "{name}");
        assert!(all.why.contains("writes were not allowed"), "{name}: {all}");
        assert_eq!((all.confidence.reads, all.confidence.low, all.confidence.high), (0, 0.0, 1.0));
        assert!(
            found.profile.sources.iter().any(|line| line.starts_with("writes: not sure of LBN 0")),
            "{name}"
        );
    }
}

/// Through a handle that takes one command at a time, the settling time of a write is near the truth, or not
/// reported as sure.
#[test]
fn a_write_settles_no_less_than_a_read_and_is_not_said_to_be_known_when_it_is_not() {
    let mut surest = 0.0_f64;
    let names = ["seagate-cheetah-4lp", "seagate-cheetah-18lp", "seagate-cheetah-9lp", "mimic-base"];
    for name in testing::some(2, names) {
        for settle_ms in [0.0, 0.3] {
            for (write_back, noisy) in [(false, false), (true, false), (false, true)] {
                let mut truth = builtin::find(name).unwrap();
                truth.mechanics.write_settle_ms = settle_ms;
                let base = if noisy { Behaviour::fast02() } else { Behaviour::default() };
                let behaviour = Behaviour { write_back: Some(write_back), ..base };
                let mut device = Emulated::with(&truth, behaviour, 1).one_at_a_time();
                let region = region_of(&device);
                let found = probed(&mut device, Some(region));
                let said = common::finding(&found, "write settle");
                let found_ms = found.profile.mechanics.write_settle_ms;
                let case =
                    format!("{name}, {settle_ms} ms, acknowledged {write_back}, noisy {noisy}: {said:?}");
                assert!(found_ms >= 0.0, "{case}");
                assert!((found_ms - settle_ms).abs() < 0.05 || said.confidence < 0.75, "{case}");
                surest = surest.max(said.confidence);
                // If the report is not sure, its note says how much more the time may be.
                assert!(said.confidence >= 0.75 || said.note.contains("more"), "{case}");
            }
        }
    }
    // If times vary, one probe in 32 is surer than 75% of the settling time.
    assert!(surest > 0.5, "nowhere sure: {surest}");
}

/// Zero-latency writes are measured if writes are allowed and not acknowledged from the buffer; otherwise the
/// report calls its value an assumption.
#[test]
fn zero_latency_writes_are_measured_or_said_to_be_an_assumption() {
    for name in testing::some(1, ["seagate-cheetah-18lp", "mimic-base", "mimic-less-capacity"]) {
        for (read, write) in [(true, true), (true, false), (false, true), (false, false)] {
            for noisy in [false, true] {
                let mut truth = builtin::find(name).unwrap();
                (truth.mechanics.zero_latency_read, truth.mechanics.zero_latency_write) = (read, write);
                let base = if noisy { Behaviour::fast02() } else { Behaviour::default() };
                let through = Behaviour { write_back: Some(false), ..base };
                let mut device = Emulated::with(&truth, through, 1);
                let region = region_of(&device);
                let found = probed(&mut device, Some(region));
                let said = common::finding(&found, "zero-latency writes");
                let mechanics = &found.profile.mechanics;
                let case = format!("{name}, {read} {write}, noisy {noisy}: {said:?}");
                assert_eq!(
                    (mechanics.zero_latency_read, mechanics.zero_latency_write),
                    (read, write),
                    "{case}"
                );
                assert!(said.confidence > 0.9 && said.note.is_empty(), "{case}");
            }
        }
    }
    let truth = builtin::find("seagate-cheetah-18lp").unwrap();
    for (write_back, allowed) in [(true, true), (false, false)] {
        let behaviour = Behaviour { write_back: Some(write_back), ..Behaviour::default() };
        let mut device = Emulated::with(&truth, behaviour, 1);
        let region = allowed.then(|| region_of(&device));
        let found = probed(&mut device, region);
        let said = common::finding(&found, "zero-latency writes");
        assert!(said.confidence <= 0.5 && said.note.contains("an assumption"), "{said:?}");
    }
}
