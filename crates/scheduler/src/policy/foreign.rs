//! Policies that are defined outside this crate.

use super::{Fcfs, Policy, View};
use crate::foreground::Pending;
use crate::predictor::{Positioning, Predictor};
use alloc::boxed::Box;
use core::fmt;
use model::Position;
use units::Instant;

/// The input of a [`ForeignPolicy`].
pub struct Choice<'a> {
    /// The waiting requests, in no order; never empty.
    pub pool: &'a [Pending],
    /// The current time.
    pub at: Instant,
    /// The position of the arm.
    pub from: Position,
    positioning: &'a dyn Fn(&Pending) -> Positioning,
}

impl Choice<'_> {
    /// Returns the predicted time from the arm's position to the first sector of a request.
    pub fn positioning(&self, request: &Pending) -> Positioning {
        (self.positioning)(request)
    }
}

impl fmt::Debug for Choice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, at, from, .. } = self;
        f.debug_struct("Choice")
            .field("pool", pool)
            .field("at", at)
            .field("from", from)
            .finish_non_exhaustive()
    }
}

/// A host's own rule that chooses the next foreground request, for
/// [`OutsideDrive::set_policy`](crate::OutsideDrive::set_policy).
///
/// ```
/// use freeblock_scheduler::policy::{Choice, ForeignPolicy};
/// /// The request with the largest LBN first.
/// #[derive(Clone, Debug)]
/// struct Last;
/// impl ForeignPolicy for Last {
///     fn choose(&mut self, choice: &Choice<'_>) -> usize {
///         let lbns = choice.pool.iter().map(|pending| pending.lbn()).enumerate();
///         lbns.max_by_key(|&(_, lbn)| lbn).map_or(0, |(index, _)| index)
///     }
///
///     fn boxed_clone(&self) -> Box<dyn ForeignPolicy> {
///         Box::new(self.clone())
///     }
/// }
/// ```
pub trait ForeignPolicy: fmt::Debug + Send + Sync {
    /// Returns the index of the next request in the pool; an index past the end stands for the earliest arrival. A choice need
    /// not be carried out: a core outside the drive looks ahead with a copy of the policy, and if a promoted request is chosen
    /// and dropped, a copy from before that choice replaces the policy.
    fn choose(&mut self, choice: &Choice<'_>) -> usize;

    /// Returns a copy, for a core that is cloned or looks ahead.
    fn boxed_clone(&self) -> Box<dyn ForeignPolicy>;
}

impl Clone for Box<dyn ForeignPolicy> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}

impl Policy for Box<dyn ForeignPolicy> {
    fn choose<P: Predictor + ?Sized>(&mut self, view: &View<'_, P>) -> usize {
        let positioning = |request: &Pending| view.predictor.positioning(view.from, view.at, request);
        let choice = Choice { pool: view.pool, at: view.at, from: view.from, positioning: &positioning };
        let chosen = (**self).choose(&choice);
        if chosen < view.pool.len() { chosen } else { Fcfs.choose(view) }
    }
}
