//! Cells of distances: exact near zero, and coarser with distance, so that any drive fits into any memory.

/// Cells of distances. A distance from 1 + step x unit on, and less than a unit more, belongs to that step. Forward
/// steps 0, 1, .. and backward steps -1, -2, .. are two sides with equal cells. The first 2^bits steps of a side
/// have a cell each; from there on each doubling of the step has 2^(bits - 1) cells. So a cell is never wider than
/// 2^(1 - bits) of its distance, and with enough memory each step has a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grid {
    unit: u64,
    bits: u32,
    /// The number of cells of one side.
    side: usize,
}

impl Grid {
    /// Returns the finest grid for distances of up to `blocks` units in either direction with at most `cells` cells.
    pub fn new(unit: u64, blocks: u64, cells: usize) -> Option<Self> {
        let most = u64::BITS - blocks.max(1).leading_zeros();
        let fits = |bits: u32| {
            let side = Self::place(blocks, bits) + 1;
            (side.checked_mul(2)? <= cells).then_some(Self { unit: unit.max(1), bits, side })
        };
        (1..=most).rev().find_map(fits)
    }

    /// Returns the number of cells of both sides together.
    pub fn cells(&self) -> usize {
        self.side * 2
    }

    /// Returns whether each step has a cell of its own.
    pub fn is_exact(&self) -> bool {
        self.side as u64 <= 1 << self.bits
    }

    /// Returns the index of the cell of a distance; indices ascend with distances.
    #[inline]
    pub fn cell(&self, distance: i64) -> usize {
        let from_next = distance.saturating_sub(1);
        // A division of 64-bit numbers would take longer than the rest of this function, and most units are powers
        // of two.
        let step = if self.unit.is_power_of_two() {
            from_next >> self.unit.trailing_zeros()
        } else {
            from_next.div_euclid(self.unit as i64)
        };
        let last = self.side - 1;
        if step >= 0 {
            self.side + Self::place(step as u64, self.bits).min(last)
        } else {
            last - Self::place(!step as u64, self.bits).min(last)
        }
    }

    /// Returns the distance that represents a cell: that of the cell's middle step.
    #[inline]
    pub fn distance(&self, cell: usize) -> i64 {
        let backward = cell < self.side;
        let (low, width) = self.steps(if backward { self.side - 1 - cell } else { cell - self.side });
        let middle = (low + (width - 1) / 2) as i64;
        let step = if backward { !middle } else { middle };
        step.saturating_mul(self.unit as i64).saturating_add(1)
    }

    /// Returns the first step of a cell, and its number of steps; `place` counts cells of one side from zero.
    #[inline]
    fn steps(&self, place: usize) -> (u64, u64) {
        let exact = 1usize << self.bits;
        if place < exact {
            return (place as u64, 1);
        }
        let half = self.bits - 1;
        let (shift, sub) = ((place - exact) >> half, (place - exact) & ((1 << half) - 1));
        let shift = shift as u32 + 1;
        (((1u64 << half) + sub as u64) << shift, 1 << shift)
    }

    /// Returns the place, among the cells of its side, of a step.
    #[inline]
    fn place(step: u64, bits: u32) -> usize {
        if step < 1 << bits {
            return step as usize;
        }
        let half = bits - 1;
        let shift = step.ilog2() - half;
        (1usize << bits) + ((shift as usize - 1) << half) + ((step >> shift) - (1 << half)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_20_tb_drive_fits_and_a_small_one_is_exact() {
        let grid = Grid::new(8, 40_000_000_000 / 8, 1 << 20).unwrap();
        assert!(!grid.is_exact() && grid.cells() > 1 << 19 && grid.cells() <= 1 << 20);
        // The grid is exact for distances up to 128 MB, and for larger ones to a part in 16,384.
        assert_eq!(grid.bits, 15);
        assert!(Grid::new(2, 500_000, 1 << 20).unwrap().is_exact());
        assert_eq!(Grid::new(1, u64::MAX >> 3, 10), None);
    }

    proptest! {
        #[test]
        fn cells_ascend_with_distances_and_are_as_narrow_as_promised(
            unit in 1..20u64,
            blocks in 1..1u64 << 40,
            cells in 200..100_000usize,
            from in any::<prop::sample::Index>(),
            near in -40_000..40_000i64,
        ) {
            let grid = Grid::new(unit, blocks, cells).unwrap();
            prop_assert!(grid.cells() <= cells);
            let reach = (blocks * unit) as i64;
            let far = (from.index(reach as usize) as i64) * if near < 0 { -1 } else { 1 };
            for distance in [near.clamp(-reach, reach), far, 1 - unit as i64, 0, 1, 2, unit as i64 + 1, -reach, reach] {
                let cell = grid.cell(distance);
                prop_assert!(cell < grid.cells());
                prop_assert!(grid.cell(distance + 1) >= cell && grid.cell(distance + 1) <= cell + 1);
                let middle = grid.distance(cell);
                prop_assert_eq!(grid.cell(middle), cell, "the distance that stands for a cell lies in it");
                let off = middle.abs_diff(distance);
                prop_assert!(off <= unit + distance.unsigned_abs() / (1 << (grid.bits - 1)), "{} for {}", middle, distance);
                if grid.is_exact() {
                    prop_assert!(off < unit);
                }
            }
        }

        #[test]
        fn neighbours_in_order_are_neighbours_in_distance(
            blocks in 1..1u64 << 40, cells in 200..5_000usize, at: prop::sample::Index,
        ) {
            let grid = Grid::new(1, blocks, cells).unwrap();
            let cell = at.index(grid.cells() - 1);
            prop_assert!(grid.distance(cell) < grid.distance(cell + 1));
        }

        #[test]
        fn the_furthest_distances_have_the_outermost_cells(d: i64) {
            let grid = Grid::new(8, 1 << 20, 1 << 12).unwrap();
            prop_assert!(grid.cell(d) < grid.cells());
        }
    }
}
