//! SCAN, the elevator that goes to the end.

use super::{Look, Policy, View};
use crate::predictor::Predictor;
use units::{Lbn, Sectors};

/// Chooses as [`Look`] does, but before it reverses, the arm goes on to the drive's last or first address (P. J. Denning,
/// "Effects of scheduling on file memory operations", AFIPS 1967).
///
/// The core in a drive makes that trip together with the move to the chosen request. No detour fits into it, and a request
/// that arrives meanwhile waits for its sweep. A core outside the drive moves no arm without a command: there SCAN is LOOK.
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
        // The direction is that after the reversal.
        self.order.reversed.then(|| if self.order.is_downward() { last } else { Lbn::ZERO })
    }
}
