//! First come, first served.

use super::{Policy, View, shortest};
use crate::predictor::Predictor;

/// Chooses the oldest request: the reference that reorders nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fcfs;

impl Policy for Fcfs {
    #[inline]
    fn choose<P: Predictor + ?Sized>(&mut self, view: &View<'_, P>) -> usize {
        shortest(view.pool, |_| ())
    }
}
