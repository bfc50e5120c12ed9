//! Sorted distances with their times, found in few cache lines.

/// Distances of a leaf: with their times as many as go into two cache lines, which a processor fetches together.
const LEAF: usize = 14;

/// As many of a level stand for one of the next: one cache line of sixteen, compared at once.
const FAN_OUT: usize = 16;

/// No distance is further, so that it can be doubled; no drive has half as many sectors.
pub(crate) const FURTHEST: i64 = (1 << 62) - 1;

/// What is not used of a leaf.
const UNUSED: u32 = u32::MAX;

/// Distances in ascending order, each with a time and whether it is joined to the next: leaves of [`LEAF`] of them, under
/// a tree of every sixteenth. The tree compares distances cut to 32 bits; it leads to the right leaf but where leaves
/// begin too close together for that, which is seen and mended. At seven million distances, 64 MB, a search touches the
/// leaf, and a group in each of five levels of which all but the lowest stay in a processor's nearer caches.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Knots {
    leaves: Vec<Leaf>,
    /// The least 32 bits that are cut off for the tree.
    shift: u32,
    /// The top first.
    levels: Vec<Vec<i32>>,
    len: usize,
}

/// Some distances that follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(128))]
struct Leaf {
    /// The first.
    base: i64,
    /// From the first, doubled, plus one if it is joined to the next; [`UNUSED`] after the last.
    ways: [u32; LEAF],
    times: [u32; LEAF],
}

/// Which of the distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    leaf: usize,
    slot: usize,
}

impl Place {
    /// A number for it below [`Knots::places`].
    #[inline]
    pub fn index(self) -> usize {
        self.leaf * LEAF + self.slot
    }
}

impl Knots {
    /// Of distances in ascending order, none beyond [`FURTHEST`].
    pub fn new(knots: impl IntoIterator<Item = (i64, bool, u32)>) -> Self {
        let mut these = Self::default();
        let mut used = LEAF;
        for (distance, joined, time) in knots {
            let way = these.leaves.last().map_or(u64::MAX, |leaf| distance.abs_diff(leaf.base));
            if used == LEAF || way >= u64::from(UNUSED >> 1) {
                these.leaves.push(Leaf { base: distance, ways: [UNUSED; LEAF], times: [0; LEAF] });
                used = 0;
            }
            let Some(leaf) = these.leaves.last_mut() else { continue };
            leaf.ways[used] = (distance.abs_diff(leaf.base) as u32) << 1 | u32::from(joined);
            leaf.times[used] = time;
            used += 1;
            these.len += 1;
        }
        these.leaves.shrink_to_fit();
        these.grow_tree();
        these
    }

    fn grow_tree(&mut self) {
        let (Some(first), Some(last)) = (self.leaves.first(), self.leaves.last()) else { return };
        let furthest = first.base.unsigned_abs().max(last.base.unsigned_abs());
        self.shift = (64 - furthest.leading_zeros()).saturating_sub(31);
        let mut level: Vec<i32> = self.leaves.iter().map(|leaf| coarse(leaf.base, self.shift)).collect();
        while level.len() > 1 {
            let above = level.iter().step_by(FAN_OUT).copied().collect();
            self.levels.push(std::mem::replace(&mut level, above));
        }
        self.levels.reverse();
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Places are numbered below this.
    pub fn places(&self) -> usize {
        self.leaves.len() * LEAF
    }

    /// The last distance that is not above `distance`.
    #[inline]
    pub fn at_or_before(&self, distance: i64) -> Option<Place> {
        let [place] = self.all_at_or_before(&[distance]);
        place
    }

    /// The same for several at once, a level of the tree after the other: no search waits for another's memory, so that
    /// a processor fetches for all of them side by side.
    #[inline]
    pub fn all_at_or_before<const N: usize>(&self, distances: &[i64; N]) -> [Option<Place>; N] {
        let keys = distances.map(|distance| coarse(distance.clamp(-FURTHEST, FURTHEST), self.shift));
        let mut leaves = [0; N];
        for level in &self.levels {
            for (leaf, key) in leaves.iter_mut().zip(keys) {
                *leaf = descend(level, *leaf, key);
            }
        }
        // A pass of nothing but loads: all of the leaves are on their way before the first is searched.
        let bases = leaves.map(|leaf| self.leaves.get(leaf).map_or(i64::MAX, |leaf| leaf.base));
        std::array::from_fn(|i| self.in_leaf((leaves[i], bases[i]), distances[i]))
    }

    /// The same where the tree has led to a leaf that begins at `base`.
    #[inline]
    fn in_leaf(&self, (mut leaf, base): (usize, i64), distance: i64) -> Option<Place> {
        let distance = distance.clamp(-FURTHEST, FURTHEST);
        if base > distance {
            // Leaves that are one to the tree.
            leaf = self.leaves.partition_point(|leaf| leaf.base <= distance).checked_sub(1)?;
        }
        let found = self.leaves.get(leaf)?;
        let way = u32::try_from(distance.abs_diff(found.base)).unwrap_or(UNUSED).min(UNUSED >> 1);
        // Below `UNUSED`, and not below the last way however it is joined.
        let key = (way << 1 | 1).min(UNUSED - 1);
        let not_above: u32 = found.ways.iter().map(|way| u32::from(*way <= key)).sum();
        Some(Place { leaf, slot: (not_above as usize).saturating_sub(1) })
    }

    /// The first distance.
    pub fn first(&self) -> Option<Place> {
        (self.len > 0).then_some(Place { leaf: 0, slot: 0 })
    }

    /// The distance after.
    #[inline]
    pub fn next(&self, place: Place) -> Option<Place> {
        let Place { leaf, slot } = place;
        if slot + 1 < LEAF && self.leaves[leaf].ways[slot + 1] != UNUSED {
            return Some(Place { leaf, slot: slot + 1 });
        }
        (leaf + 1 < self.leaves.len()).then_some(Place { leaf: leaf + 1, slot: 0 })
    }

    /// A distance, whether it is joined to the next, and its time.
    #[inline]
    pub fn get(&self, place: Place) -> (i64, bool, u32) {
        let leaf = &self.leaves[place.leaf];
        let way = leaf.ways[place.slot];
        (leaf.base + i64::from(way >> 1), way & 1 == 1, leaf.times[place.slot])
    }

    /// All places, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Place> + '_ {
        std::iter::successors(self.first(), |place| self.next(*place))
    }

    /// In bytes.
    pub fn memory(&self) -> usize {
        self.leaves.capacity() * size_of::<Leaf>()
            + self.levels.iter().map(Vec::capacity).sum::<usize>() * size_of::<i32>()
    }
}

/// Which of the next level, below the group that `at` stands for.
#[inline]
fn descend(level: &[i32], at: usize, key: i32) -> usize {
    let begin = at * FAN_OUT;
    let group = level.get(begin..(begin + FAN_OUT).min(level.len())).unwrap_or_default();
    let not_above = match <&[i32; FAN_OUT]>::try_from(group) {
        // Counting all sixteen takes no branch that could be foretold wrongly; in 32 bits, four at a time.
        Ok(full) => full.iter().map(|k| u32::from(*k <= key)).sum::<u32>() as usize,
        Err(_) => group.partition_point(|k| *k <= key),
    };
    begin + not_above.saturating_sub(1)
}

/// A distance without its lowest bits.
#[inline]
fn coarse(distance: i64, shift: u32) -> i32 {
    (distance >> shift).clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn finds_what_an_ordered_set_finds(
            near in prop::collection::btree_set(-3_000..3_000i64, 0..600),
            clump in -FURTHEST + 200..FURTHEST - 200,
            beside in prop::collection::btree_set(-90..90i64, 0..60),
            far in prop::collection::btree_set(-FURTHEST..=FURTHEST, 0..40),
            asked in prop::collection::vec(any::<i64>(), 20),
        ) {
            let mut set: BTreeSet<i64> = near.union(&far).copied().collect();
            set.extend(beside.iter().map(|d| clump + d));
            let odd = |d: i64| d % 3 == 0;
            let knots = Knots::new(set.iter().enumerate().map(|(i, d)| (*d, odd(*d), i as u32)));
            prop_assert_eq!(knots.len(), set.len());
            let all: Vec<(i64, bool, u32)> = knots.iter().map(|place| knots.get(place)).collect();
            let expected: Vec<(i64, bool, u32)> =
                set.iter().enumerate().map(|(i, d)| (*d, odd(*d), i as u32)).collect();
            prop_assert_eq!(all, expected);
            let places: BTreeSet<usize> = knots.iter().map(Place::index).collect();
            prop_assert!(places.len() == set.len() && places.last().is_none_or(|last| *last < knots.places()));
            let beside = set.iter().flat_map(|d| [d - 1, *d, d + 1]);
            for distance in asked.into_iter().chain(beside).chain([i64::MIN, i64::MAX]) {
                let found = knots.at_or_before(distance);
                let before = set.range(..=distance).next_back();
                prop_assert_eq!(found.map(|place| knots.get(place).0), before.copied(), "at {}", distance);
                let after = found.and_then(|place| knots.next(place)).map(|place| knots.get(place).0);
                let beside = [distance.wrapping_add(7), distance, distance / 2, 1];
                let alone = beside.map(|distance| knots.at_or_before(distance));
                prop_assert_eq!(knots.all_at_or_before(&beside), alone);
                if let Some(before) = before {
                    prop_assert_eq!(after, set.range(before + 1..).next().copied());
                }
            }
        }
    }

    #[test]
    fn a_leaf_is_two_cache_lines() {
        assert_eq!(size_of::<Leaf>(), 128);
        let knots = Knots::new((0..1_000_000).map(|i| (i * 9_000, true, 7)));
        assert!(knots.memory() < 1_000_000 * 10, "{}", knots.memory());
    }
}
