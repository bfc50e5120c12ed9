//! What is known, and what lies between.

use std::cmp::Ordering;

/// A distance that has been sampled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// The distance is 1 + `step` x unit.
    pub step: i64,
    pub time: u32,
    /// Where its parts are, for the probabilistic metric; in the bit below that whether the line to the next is not
    /// confirmed; in the lowest two its curve.
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

    /// Whether the line to the next point holds, as far as is known.
    pub fn joined(&self) -> bool {
        self.part_and_curve & 4 == 0
    }

    /// The line to the next point has not been confirmed.
    pub fn part_from_next(&mut self) {
        self.part_and_curve |= 4;
    }

    pub fn end(&self) -> End {
        End { step: self.step, time: self.time }
    }
}

/// The most points whose parts a [`Point`] can name.
pub(super) const MOST_POINTS: usize = 1 << 29;

/// One end of a range; packed, since there are two of them to every range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C, packed(4))]
pub(super) struct End {
    pub step: i64,
    pub time: u32,
}

impl End {
    /// As a point of a line.
    pub fn on_line(&self) -> (i64, u64) {
        (self.step, u64::from(self.time))
    }
}

/// The distances between two that are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub left: End,
    pub right: End,
    pub curve: u32,
}

impl Range {
    /// How many there are.
    pub fn inside(&self) -> i64 {
        self.right.step - self.left.step - 1
    }

    /// Width by distance. It is not kept, since a division takes less than the memory of it.
    fn relative(&self) -> u64 {
        let width = (self.right.step - self.left.step).unsigned_abs();
        let near = self.left.step.unsigned_abs().min(self.right.step.unsigned_abs()) + 1;
        if width >> 32 == 0 {
            return (width << 32) / near;
        }
        u64::try_from((u128::from(width) << 32) / u128::from(near)).unwrap_or(u64::MAX)
    }
}

/// What is looked at first is greatest.
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

/// A range that is looked at.
#[derive(Clone, Debug)]
pub(super) struct Look {
    pub range: Range,
    /// Its check points, in ascending order.
    pub checks: Vec<Point>,
    /// Where their parts begin.
    pub parts: usize,
    /// How many of them count since it last passed, and the worst one's error.
    pub points: u32,
    pub worst: u64,
    /// How often it has passed.
    pub passed: u32,
    /// The range is longer than may be interpolated: it is halved.
    pub too_long: bool,
    /// How often a check point was drawn for whose distance no place can be read.
    pub left_out: u32,
}

impl Look {
    /// With room for so many check points.
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
