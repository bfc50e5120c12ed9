//! SCAN, the elevator that reverses at the end of the drive.

use super::{Look, Policy, View};
use crate::predictor::Predictor;
use units::{Lbn, Sectors};

/// Chooses as [`Look`] does, but before the arm reverses, it goes on to the drive's last or first address (P. J. Denning,
/// "Effects of scheduling on file memory operations", AFIPS 1967).
///
/// A core in the drive makes that trip together with the move to the chosen request. The trip has no detour, and a request that
/// arrives meanwhile waits for its sweep. A core outside the drive cannot move the arm without a command, so there SCAN is LOOK.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scan {
    order: Look,
}

impl Policy for Scan {
    fn choose<P: Predictor + ?Sized>(&mut self, view: &View<'_, P>) -> usize {
        self.order.choose(view)
    }

    fn passes(&self, capacity: Sectors) -> Option<Lbn> {
        let last = Lbn::new(capacity.get().saturating_sub(1));
        // `is_downward` is the direction after the reversal.
        self.order.reversed.then(|| if self.order.is_downward() { last } else { Lbn::ZERO })
    }
}
