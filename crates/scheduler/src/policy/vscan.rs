//! V(R), a continuum from shortest distance first to the elevator.

use super::{Policy, SweepWeight, View, shortest};
use crate::predictor::Predictor;
use units::Lbn;

/// Chooses the nearest address, where an address against the current direction counts as farther by R times the drive's
/// size (R. Geist and S. Daniel, "A continuum of disk scheduling algorithms", ACM TOCS 5(1), 1987). With R = 0 the policy is
/// shortest distance first, with R = 1 it is [`Look`](super::Look). Distances are between LBNs, as in DiskSim's `VSCAN_LBN`. The
/// first sweep goes upward from address 0.
#[derive(Clone, Copy, Debug)]
pub struct VScan {
    weight: SweepWeight,
    last: Lbn,
    downward: bool,
}

impl VScan {
    /// Returns the policy with the R of its name.
    pub const fn new(weight: SweepWeight) -> Self {
        Self { weight, last: Lbn::ZERO, downward: false }
    }
}

impl Policy for VScan {
    fn choose<P: Predictor + ?Sized>(&mut self, view: &View<'_, P>) -> usize {
        let Self { last, downward, weight } = *self;
        let penalty = weight.of(view.capacity);
        let chosen = shortest(view.pool, |p| {
            let behind = if downward { p.lbn() > last } else { p.lbn() < last };
            let distance = u128::from(p.lbn().get().abs_diff(last.get()));
            // At equal distances the arm keeps its direction.
            (distance + if behind { penalty } else { 0 }, behind)
        });
        let next = view.pool[chosen].lbn();
        if next != last {
            self.downward = next < last;
        }
        self.last = next;
        chosen
    }
}
