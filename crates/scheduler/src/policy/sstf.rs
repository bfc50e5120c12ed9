//! Shortest seek time first.

use super::{Policy, View, shortest};
use crate::predictor::Predictor;

/// Chooses the request with the shortest seek; a write's settling does not count (OSDI'00 section 3.3).
#[derive(Clone, Copy, Debug, Default)]
pub struct Sstf;

impl Policy for Sstf {
    fn choose<P: Predictor + ?Sized>(&mut self, view: &View<'_, P>) -> usize {
        shortest(view.pool, |p| {
            let seek = view.predictor.positioning(view.from, view.at, p).seek;
            view.age.apply(seek, view.at, p.arrived)
        })
    }
}
