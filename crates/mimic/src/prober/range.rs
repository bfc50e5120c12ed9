//! Sampled distances, and the ranges between them.

use std::cmp::Ordering;

/// A distance that has been sampled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// The number of the distance, which is 1 + `step` x unit.
    pub step: i64,
    pub time: u32,
    /// From the highest bit down: the index of the point's quantiles, for the probabilistic metric; one bit that is
    /// set if the line to the next point is not confirmed; two bits for the curve.
    part_and_curve: u32,
}

impl Point {
    pub fn new(curve: usize, step: i64, time: u32, part: usize) -> Self {
        Self { step, time, part_and_curve: (part as u32) << 3 | curve as u32 }
    }

    pub fn curve(&self) -> usize {
        (self.part_and_curve & 3) as usize
    }

    pub fn part(&self) -> usize {
        (self.part_and_curve >> 3) as usize
    }

    /// Returns whether times up to the next point are interpolated: the line to it is not known to be unconfirmed.
    pub fn joined(&self) -> bool {
        self.part_and_curve & 4 == 0
    }

    /// Marks the line to the next point as not confirmed.
    pub fn part_from_next(&mut self) {
        self.part_and_curve |= 4;
    }

    pub fn end(&self) -> End {
        End { step: self.step, time: self.time }
    }
}

/// The most points: a [`Point`] has no room for a larger index of its quantiles.
pub(super) const POINTS_MAX: usize = 1 << 29;

/// One end of a range. The type is packed to save memory, because every range has two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C, packed(4))]
pub(super) struct End {
    pub step: i64,
    pub time: u32,
}

impl End {
    /// Returns the end as a point of a line.
    pub fn on_line(&self) -> (i64, u64) {
        (self.step, u64::from(self.time))
    }
}

/// The range of distances between two sampled ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub left: End,
    pub right: End,
    pub curve: u32,
}

impl Range {
    /// Returns the number of distances between the ends.
    pub fn inside(&self) -> i64 {
        self.right.step - self.left.step - 1
    }

    /// Returns the width relative to the distance, in fixed point. The value is not stored, because a division costs
    /// less than the memory.
    fn relative(&self) -> u64 {
        let width = (self.right.step - self.left.step).unsigned_abs();
        let near = self.left.step.unsigned_abs().min(self.right.step.unsigned_abs()) + 1;
        if width >> 32 == 0 {
            return (width << 32) / near;
        }
        u64::try_from((u128::from(width) << 32) / u128::from(near)).unwrap_or(u64::MAX)
    }
}

/// Orders ranges by relative width: the greatest is examined first.
impl Ord for Range {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |range: &Self| (range.curve, range.left, range.right);
        self.relative().cmp(&other.relative()).then_with(|| key(self).cmp(&key(other)))
    }
}

impl PartialOrd for Range {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A range that is being examined.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub range: Range,
    /// The check points of the range, in ascending order.
    pub checks: Vec<Point>,
    /// The index of the quantiles of the first check point.
    pub parts: usize,
    /// The number of check points since the range last met the rule, and their largest error.
    pub points: u32,
    pub worst: u64,
    /// The number of times that the range has met the rule.
    pub passed: u32,
    /// Whether the range is longer than may be interpolated, so that it is halved.
    pub too_long: bool,
    /// The number of drawn check points whose distance has no readable place.
    pub left_out: u32,
}

impl Look {
    /// Begins to examine a range, with room for `most` check points.
    pub fn at(range: Range, most: usize, parts: usize, too_long: bool) -> Self {
        let most = usize::try_from(range.inside()).unwrap_or(most).min(most);
        Self {
            range,
            checks: Vec::with_capacity(most),
            parts,
            points: 0,
            worst: 0,
            passed: 0,
            too_long,
            left_out: 0,
        }
    }
}
