//! Shortest positioning time first.

use super::{Policy, View, shortest_time};
use crate::predictor::Predictor;

/// Chooses the request whose first sector can be reached earliest (OSDI'00 section 3.3).
#[derive(Clone, Copy, Debug, Default)]
pub struct Sptf;

impl Policy for Sptf {
    #[inline]
    fn choose<P: Predictor + ?Sized>(&mut self, view: &View<'_, P>) -> usize {
        shortest_time(view, |p| Some(view.predictor.positioning(view.from, view.at, p).total())).unwrap_or(0)
    }
}
