//! What a drive's own profile says of its next read, held against the drive.

#![allow(clippy::unwrap_used, reason = "a test")]

mod common;

use common::Emulated;
use model::Layout;
use probe::{Device, Predictor};
use units::{Lbn, LbnRange, Op, Sectors};

/// Drives that may begin a read in its middle: among its sectors on one track, not over the end of one; and what was read first waits in
/// the buffer for what comes before it.
#[test]
fn reads_that_begin_in_their_middle_are_predicted_by_the_drives_own_profile() {
    for seed in [3, 4, 5, 8, 9, 16, 21, 22, 23, 26] {
        let truth = common::random(seed);
        assert!(truth.mechanics.zero_latency_read, "{seed}");
        let layout = Layout::new(&truth.layout, truth.cylinders, truth.heads).unwrap();
        let mut drive = Emulated::new(&truth);
        let capacity = drive.capacity().get();
        let mut predictor = Predictor::new(&truth).unwrap();
        let mut state = 0x1234_5678_9abc_def0_u64;
        // Those on one track, and those over the end of one: near, and all.
        let mut counts = [(0_u32, 0_u32); 2];
        for i in 0..4_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let lbn = ((u128::from(state) * u128::from(capacity - 7)) >> 64) as u64;
            let range = LbnRange::new(Lbn::new(lbn), Sectors::new(8));
            let timed = drive.execute(drive.now(), Op::Read, range).unwrap();
            predictor.read(timed.submitted, range);
            let near = predictor.completed(timed.completed).abs() <= 50_000;
            if i >= 60 {
                let count = &mut counts[usize::from(layout.pieces(range).count() > 1)];
                *count = (count.0 + u32::from(near), count.1 + 1);
            }
        }
        let shares = counts.map(|(near, of)| f64::from(near) / f64::from(of.max(1)));
        assert!(
            shares[0] >= 0.99 && (shares[1] >= 0.98 || counts[1].1 < 50),
            "{seed}: {shares:?} of {counts:?}"
        );
    }
}
