//! The known cells, and the gaps between them in which times are interpolated.

use super::Bits;
use crate::check_points::{CheckPoints, Verdict, error_of};
use crate::table::on_line;

/// The most known cells on one side of a gap that may be its check points, including the end of the line.
const CHECK_POINTS_MAX: usize = 6;

/// The known cells, and the gaps between neighbouring known cells that are straight: times in them are interpolated.
///
/// Off-line, check points are drawn within a range; here they are the known cells. A gap is straight if a line
/// between two known cells further out, one on either side, passes all known cells between them within the errors of
/// [`CheckPoints`]. With one check point, that cell is one of the gap's two neighbours; with more, they are both
/// neighbours and cells around them.
#[derive(Clone, Debug)]
pub(super) struct Lines {
    known: Bits,
    /// The known cells whose gap to the next known cell is straight.
    straight: Bits,
    len: usize,
}

impl Lines {
    pub fn new(cells: usize) -> Self {
        Self { known: Bits::new(cells), straight: Bits::new(cells), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_known(&self, i: usize) -> bool {
        self.known.has(i)
    }

    /// Returns whether the gap from a known cell to the next known cell is straight.
    pub fn is_straight(&self, i: usize) -> bool {
        self.straight.has(i)
    }

    /// Restores a known cell, and whether the gap from it to the next known cell is straight.
    pub fn restore(&mut self, i: usize, straight: bool) {
        self.len += usize::from(!self.known.has(i));
        self.known.insert(i);
        if straight {
            self.straight.insert(i);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.known.iter()
    }

    pub fn clear(&mut self) {
        self.known.clear();
        self.straight.clear();
        self.len = 0;
    }

    /// Returns the memory for `cells` cells, in bytes.
    pub fn memory(cells: usize) -> usize {
        2 * Bits::memory(cells)
    }

    /// Returns the memory in use, in bytes.
    pub fn held_memory(&self) -> usize {
        self.known.held_memory() + self.straight.held_memory()
    }

    /// Returns the time at a distance in the unknown cell `i`, interpolated; `None` if its gap is not straight.
    #[inline]
    pub fn between(&self, i: usize, point: impl Fn(usize) -> (i64, u64), distance: i64) -> Option<u64> {
        let left = self.known.below(i)?;
        if !self.straight.has(left) {
            return None;
        }
        let right = self.known.above(left)?;
        Some(on_line(point(left), point(right), distance))
    }

    /// Records that cell `i` is known, or that its time has changed; decides anew whether the gaps around it are
    /// straight.
    pub fn known(&mut self, i: usize, point: impl Fn(usize) -> (i64, u64), check: &CheckPoints) {
        if !self.known.has(i) {
            self.known.insert(i);
            self.len += 1;
        }
        if check.most() == 0 {
            return;
        }
        // Cell `i` and the known cells around it: those before the gaps that have cell `i` as a check point, and all
        // check points of these gaps.
        let mut around = [0usize; 4 * CHECK_POINTS_MAX + 1];
        let (mut begin, mut end) = (2 * CHECK_POINTS_MAX, 2 * CHECK_POINTS_MAX + 1);
        around[2 * CHECK_POINTS_MAX] = i;
        while begin > 0
            && let Some(left) = self.known.below(around[begin])
        {
            begin -= 1;
            around[begin] = left;
        }
        while end < around.len()
            && let Some(right) = self.known.above(around[end - 1])
        {
            around[end] = right;
            end += 1;
        }
        let mut points = [(0i64, 0u64); 4 * CHECK_POINTS_MAX + 1];
        for k in begin..end {
            points[k] = point(around[k]);
        }
        let (first, past) = (begin.max(CHECK_POINTS_MAX), end.min(3 * CHECK_POINTS_MAX + 1));
        for (left, cell) in (first..past).zip(&around[first..past]) {
            if left + 1 < end && straight(&points[begin..end], left - begin, check) {
                self.straight.insert(*cell);
            } else {
                self.straight.remove(*cell);
            }
        }
    }
}

/// Returns whether the gap after `points[left]` is straight.
fn straight(points: &[(i64, u64)], left: usize, check: &CheckPoints) -> bool {
    for n in 1..=(2 * (CHECK_POINTS_MAX - 1)).min(check.most() as usize) {
        // Both sides of the gap have the same number of check points; an odd one is on the left or, if that fails, on
        // the right.
        for odd_left in [true, false] {
            let on_left = if odd_left { n.div_ceil(2) } else { n / 2 };
            let (Some(first), last) = (left.checked_sub(on_left), left + 1 + (n - on_left)) else { continue };
            let Some(&end) = points.get(last) else { continue };
            let checks = &points[first + 1..last];
            let worst = checks
                .iter()
                .map(|(x, y)| error_of(on_line(points[first], end, *x), *y))
                .max()
                .unwrap_or(u64::MAX);
            if check.verdict(n as u32, worst) == Verdict::Straight {
                return true;
            }
            if n % 2 == 0 {
                break;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// In whatever order cells become known and change, the straight gaps are those of a new evaluation.
        #[test]
        fn gaps_are_as_if_all_were_looked_at_anew(
            observed in prop::collection::vec((0..200usize, 900..1_100u64), 1..120),
            flat in any::<bool>(),
        ) {
            let mut lines = Lines::new(200);
            let mut times = BTreeMap::new();
            for (cell, time) in observed {
                times.insert(cell, if flat { 1_000 + time % 15 } else { time });
                lines.known(cell, |i| (i as i64 * 3, times[&i]), &CheckPoints::TABLE_2);
            }
            let cells: Vec<usize> = times.keys().copied().collect();
            let points: Vec<(i64, u64)> = times.iter().map(|(i, t)| (*i as i64 * 3, *t)).collect();
            prop_assert!(lines.iter().eq(cells.iter().copied()));
            prop_assert_eq!(lines.len(), cells.len());
            for (k, pair) in cells.windows(2).enumerate() {
                let is = straight(&points, k, &CheckPoints::TABLE_2);
                prop_assert_eq!(lines.straight.has(pair[0]), is, "gap {}", k);
                for i in pair[0] + 1..pair[1] {
                    let time = lines.between(i, |i| (i as i64 * 3, times[&i]), i as i64 * 3);
                    prop_assert_eq!(time.is_some(), is);
                }
            }
        }
    }

    #[test]
    fn a_tooth_is_straight_and_its_end_is_not() {
        let mut lines = Lines::new(400);
        let time = |i: usize| 2_000 + (i as u64 % 100) * 60;
        for i in (0..400).step_by(9) {
            lines.known(i, |i| (i as i64, time(i)), &CheckPoints::TABLE_2);
        }
        let point = |i: usize| (i as i64, time(i));
        for (i, straight) in [(50, true), (150, true), (101, false), (203, false)] {
            assert_eq!(lines.between(i, point, i as i64).is_some(), straight, "{i}");
        }
        assert!(lines.between(150, point, 150).unwrap().abs_diff(time(150)) <= 1);
        let mut none = Lines::new(400);
        (0..400).step_by(9).for_each(|i| none.known(i, point, &CheckPoints::NONE));
        assert_eq!(none.between(50, point, 50), None);
    }
}
