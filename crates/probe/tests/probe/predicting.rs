//! The predictions that a drive's own profile gives for reads, compared with the drive.

use crate::common::{self, Emulated};
use model::Layout;
use std::ops::ControlFlow;

/// The drives may begin a read in its middle if it lies on one track, but not if it crosses the end of a track. The
/// sectors that are read first wait in the buffer for the sectors before them.
#[test]
fn reads_that_begin_in_their_middle_are_predicted_by_the_drives_own_profile() {
    for seed in [3, 4, 5, 8, 9, 16, 21, 22, 23, 26] {
        let truth = common::random(seed);
        assert!(truth.mechanics.zero_latency_read, "{seed}");
        let layout = Layout::new(&truth.layout, truth.cylinders, truth.heads).unwrap();
        let mut drive = Emulated::new(&truth);
        // Pairs of the number of predicted reads and of all reads: on one track, and over the end of a track.
        let mut counts = [(0_u32, 0_u32); 2];
        common::read_at_random(&mut drive, &truth, 4_000, &|_| true, |range, error| {
            let count = &mut counts[usize::from(layout.pieces(range).count() > 1)];
            *count = (count.0 + u32::from(error.abs() <= 50_000), count.1 + 1);
            ControlFlow::Continue(())
        });
        let shares = counts.map(|(near, of)| f64::from(near) / f64::from(of.max(1)));
        assert!(
            shares[0] >= 0.99 && (shares[1] >= 0.98 || counts[1].1 < 50),
            "{seed}: {shares:?} of {counts:?}"
        );
    }
}
