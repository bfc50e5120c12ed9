//! Circular LOOK.

use super::{Policy, View, shortest};
use crate::predictor::Predictor;
use units::Lbn;

/// Chooses the next request in ascending starting address; if none is above, the lowest (OSDI'00 section 3.3).
#[derive(Clone, Copy, Debug, Default)]
pub struct CLook {
    last: Lbn,
}

impl Policy for CLook {
    fn choose<P: Predictor + ?Sized>(&mut self, view: &View<'_, P>) -> usize {
        let chosen = shortest(view.pool, |p| (p.lbn() < self.last, p.lbn()));
        self.last = view.pool[chosen].lbn();
        chosen
    }
}
