//! Compares the regions that a report names as uncertain with the drives.

use crate::common::{self, Emulated};
use probe::{Options, Predictor, Probe, ProbedDevice};
use std::ops::ControlFlow;
use units::{Lbn, LbnRange, Op, Sectors};

/// Returns the share of reads of a region that a profile predicts within 50 us, each after a read
/// anywhere on the drive.
fn share_there(drive: &mut Emulated, predictor: &mut Predictor, region: (u64, u64), reads: u64) -> f64 {
    let capacity = drive.capacity().get();
    let mut state = 0x9abc_def0_1234_5678_u64;
    let mut below = |bound: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(state) * u128::from(bound)) >> 64) as u64
    };
    let mut near = 0;
    for _ in 0..reads {
        for (first, end, counts) in [(0, capacity, false), (region.0, region.1, true)] {
            let lbn = (first + below(end - first)).min(capacity - 8);
            let range = LbnRange::new(Lbn::new(lbn), Sectors::new(8));
            let timed = drive.execute(drive.now(), Op::Read, range).unwrap();
            predictor.read(timed.submitted, range);
            let error = predictor.completed(timed.completed).unsigned_abs();
            near += u64::from(counts && error < 50_000);
        }
    }
    near as f64 / reads as f64
}

#[test]
fn the_stated_confidence_covers_the_true_share() {
    let (mut regions, mut covered, mut wide) = (0, 0, 0);
    for seed in [2, 3, 19, 23, 24, 25, 29, 45, 48] {
        let truth = common::random(seed);
        let mut device = Emulated::new(&truth);
        let found =
            Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(found.report.drive_time_s <= 300.0, "{seed}: {} s", found.report.drive_time_s);
        let mut predictor = Predictor::new(&found.profile).unwrap();
        let all = (0, device.capacity().get());
        share_there(&mut device, &mut predictor, all, 60);
        for region in &found.report.unsure {
            let said = region.confidence;
            let share = share_there(&mut device, &mut predictor, (region.first.get(), region.end.get()), 500);
            regions += 1;
            covered += u32::from((said.low..=said.high).contains(&share));
            wide += u32::from(said.reads < 10);
            // The sources in the profile's file list the region, too.
            assert!(found.profile.sources.contains(&region.to_string()));
        }
    }
    // One in twenty intervals of 95% may miss the true share; one in ten is more than chance.
    assert!(regions > 15 && covered * 10 >= regions * 9, "{covered} of {regions}");
    assert!(wide * 2 < regions, "{wide} of {regions} were hardly read");
}
