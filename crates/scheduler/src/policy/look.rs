//! LOOK, the elevator that reverses at the last request.

use super::{Policy, View, shortest};
use crate::predictor::Predictor;
use units::Lbn;

/// Chooses the nearest starting address in the current direction; if none lies ahead, the direction reverses (B. L.
/// Worthington, G. R. Ganger and Y. N. Patt, "Scheduling algorithms for modern disk drives", SIGMETRICS 1994; DiskSim's
/// `ELEVATOR_LBN`). The first sweep goes upward from address 0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    last: Lbn,
    downward: bool,
    /// Whether the last choice has reversed the direction.
    pub(super) reversed: bool,
}

impl Look {
    /// Returns whether the arm now moves downward.
    pub(super) const fn is_downward(&self) -> bool {
        self.downward
    }
}

impl Policy for Look {
    fn choose<P: Predictor + ?Sized>(&mut self, view: &View<'_, P>) -> usize {
        let Self { last, downward, .. } = *self;
        let chosen = shortest(view.pool, |p| {
            // An address at the arm counts as ahead in both directions.
            let behind = if downward { p.lbn() > last } else { p.lbn() < last };
            (behind, p.lbn().get().abs_diff(last.get()))
        });
        let next = view.pool[chosen].lbn();
        self.reversed = if downward { next > last } else { next < last };
        self.downward ^= self.reversed;
        self.last = next;
        chosen
    }
}
