//! Computes how many points fit into the memory of a plan.

use super::plan::ProbePlan;
use super::range::{POINTS_MAX, Point, Range};
use crate::search::Knots;
use crate::summary::{Metric, PARTS};

/// Returns the most check points of one range.
pub(super) fn check_points(plan: &ProbePlan) -> usize {
    plan.check_points.most().max(1) as usize
}

/// Returns the most points that fit into the memory, both while probing and beside the table that is made of them at
/// the end; but no more than `distances` and the points that one range may add. `None` if there is not even room for
/// the `ends` that are sampled first and the check points of one range.
pub(super) fn points(plan: &ProbePlan, distances: u64, ends: usize) -> Option<usize> {
    let checks = check_points(plan);
    let each = if plan.metric == Metric::Probabilistic { size_of::<[u32; PARTS + 1]>() as u64 } else { 0 };
    let point = size_of::<Point>() as u64 + each;
    // The parts of fixed size: the samples, the ends, the check points of the current range, and the prober itself
    // with its list of unreadable sectors.
    let fixed = 4_096 + u64::from(plan.samples) * 8 + (ends as u64 + checks as u64) * 16;
    let span = plan.reach.unwrap_or(plan.capacity).get().saturating_mul(2);
    let fits = |points: u64| {
        let probing = points.saturating_mul(point + size_of::<Range>() as u64);
        let curves = plan.pairs.len() as u64;
        let table = Knots::most_memory(points, span.saturating_mul(curves))
            .saturating_add(Knots::most_places(points, span.saturating_mul(curves)).saturating_mul(each))
            .saturating_add(curves * Knots::most_memory(0, 0));
        let finished = points.saturating_mul(point).saturating_add(table);
        fixed.saturating_add(probing.max(finished)) <= plan.memory.get()
    };
    let (mut low, mut high) = (0, distances.saturating_add(checks as u64 + 1).min(POINTS_MAX as u64));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    usize::try_from(low).ok().filter(|room| *room >= ends.saturating_add(checks))
}
