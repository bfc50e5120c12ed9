//! SPTF weighted toward short seeks.

use super::{Policy, SeekWeight, View, shortest};
use crate::predictor::{Positioning, Predictor};
use alloc::vec::Vec;

/// SPTF-SWn%: chooses the shortest seek among the requests whose positioning time is within n% of the shortest. The policy
/// trades a little foreground time for longer gaps (OSDI'00 section 3.3, figure 6).
#[derive(Clone, Debug)]
pub struct SptfSw {
    weight: SeekWeight,
    times: Vec<Positioning>,
}

impl SptfSw {
    /// Returns the policy with the n of its name.
    pub fn new(weight: SeekWeight) -> Self {
        Self { weight, times: Vec::new() }
    }
}

impl Policy for SptfSw {
    fn choose<P: Predictor + ?Sized>(&mut self, view: &View<'_, P>) -> usize {
        self.times.clear();
        self.times.extend(view.pool.iter().map(|p| view.predictor.positioning(view.from, view.at, p)));
        let shortest_time = self.times.iter().map(|t| t.total()).min().unwrap_or_default();
        let limit = self.weight.limit(shortest_time);
        let mut next = 0;
        shortest(view.pool, |p| {
            // The times are queried in the order of the pool, once each.
            let time = self.times[next];
            next += 1;
            let near = time.total() <= limit;
            (!near, view.age.apply(time.seek, view.at, p.arrived), time.total())
        })
    }
}
