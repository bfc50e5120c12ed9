//! Aged SPTF.

use super::{AgeWeight, Policy, Sptf, View};
use crate::predictor::Predictor;

/// Chooses the shortest positioning time less W times the time waited. This is the ASATF of D. M. Jacobson and J. Wilkes ("Disk
/// scheduling algorithms based on rotational position", HPL-CSP-91-7, 1991) and the ASPTF(W) of Worthington, Ganger and Patt
/// (SIGMETRICS 1994), whose W is in milliseconds for each second waited: SPTF with an age weight of its own.
#[derive(Clone, Copy, Debug)]
pub struct Asptf {
    weight: AgeWeight,
}

impl Asptf {
    /// Returns the policy with the W of its name.
    pub const fn new(weight: AgeWeight) -> Self {
        Self { weight }
    }
}

impl Policy for Asptf {
    fn choose<P: Predictor + ?Sized>(&mut self, view: &View<'_, P>) -> usize {
        Sptf.choose(&View { age: self.weight, ..*view })
    }
}
