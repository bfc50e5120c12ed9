//! An index of tasks by their ranges of LBNs, for one task over a whole drive, a hundred thousand single blocks, or both.
//!
//! Tasks are divided into size classes by the binary logarithm of their length, and sorted by first LBN in each class. A task in
//! class `c` is shorter than `2^(c + 1)`, so a task that overlaps `low..high` begins after `low - 2^(c + 1)`, and a look-up
//! visits little more than its result. A class is a list of short sorted lists: an insertion moves a kilobyte or two, and a
//! class of a single task is read like an array.

use alloc::vec;
use alloc::vec::Vec;

/// The maximum of entries in one of the short lists, which bounds the cost of an insertion.
const CHUNK_ENTRIES_MAX: usize = 128;

/// The maximum of entries that an insertion examines to find whether the depth rises. If more are near, the depth is assumed to
/// rise, because counting them for each insertion would take quadratic time.
const EXAMINED_ENTRIES_MAX: usize = 256;

/// The number of size classes: enough for every length that a `u64` can hold.
const LENGTH_CLASSES: usize = 64;

/// A task in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    start: u64,
    end: u64,
    slot: u32,
}

impl Entry {
    /// Returns the sort key: the first LBN, and the slot for equal ones.
    fn key(&self) -> (u64, u32) {
        (self.start, self.slot)
    }
}

/// The tasks of one size class, in order of their first LBN. No chunk is empty.
#[derive(Clone, Debug, Default)]
struct Class {
    chunks: Vec<Vec<Entry>>,
}

/// Ranges of LBNs, indexed by overlap, each with the slot of its task.
#[derive(Clone, Debug)]
pub(crate) struct TaskIndex {
    classes: Vec<Class>,
    /// A bit for every class that is not empty.
    occupied: u64,
    len: usize,
    /// An upper bound on the number of ranges over any LBN; see [`depth`](Self::depth).
    depth: u64,
    /// The number of changes since `depth` was last computed that may have made it too large.
    changes: usize,
}

impl TaskIndex {
    pub fn new() -> Self {
        Self { classes: vec![Class::default(); LENGTH_CLASSES], occupied: 0, len: 0, depth: 0, changes: 0 }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns an upper bound on the number of ranges over any one LBN. The exact value is computed again after as many changes
    /// as there are ranges, which is nearly exact for few ranges and cheap for many.
    #[inline]
    pub fn depth(&self) -> u64 {
        self.depth
    }

    /// Adds `start..end`, which is not empty. Returns the number of other ranges that were examined.
    pub fn insert(&mut self, start: u64, end: u64, slot: u32) -> usize {
        // A new range raises the depth by at most one, and only if enough others overlap it.
        let (mut over, mut looked) = (1, 0);
        let all = self.scan_near(start, end, |overlaps| {
            over += u64::from(overlaps);
            looked += 1;
            looked < EXAMINED_ENTRIES_MAX
        });
        if !all {
            over = u64::MAX;
        }
        let entry = Entry { start, end, slot };
        let class = class_of(start, end);
        self.classes[class].insert(entry);
        self.occupied |= 1 << class;
        self.len += 1;
        if over > self.depth {
            self.depth += 1;
            // With at most one overlapping range the depth is exact; several may not overlap each other.
            self.changes += usize::from(over > 2);
        }
        self.settle();
        looked
    }

    /// Calls `each` for all ranges near `start..end`, telling whether the two overlap, until `each` returns false. All
    /// overlapping ranges are near. Returns whether all ranges were visited.
    fn scan_near(&self, start: u64, end: u64, mut each: impl FnMut(bool) -> bool) -> bool {
        let mut occupied = self.occupied;
        while occupied != 0 {
            let class = occupied.trailing_zeros();
            occupied &= occupied - 1;
            if !self.classes[class as usize]
                .near(class, start, end, &mut |e| each(e.start < end && e.end > start))
            {
                return false;
            }
        }
        true
    }

    /// Removes a range that [`insert`](Self::insert) added. Returns whether it was there.
    pub fn remove(&mut self, start: u64, end: u64, slot: u32) -> bool {
        let class = class_of(start, end);
        let found = self.classes[class].remove((start, slot));
        if found {
            if self.classes[class].chunks.is_empty() {
                self.occupied &= !(1 << class);
            }
            self.len -= 1;
            self.changes += 1;
            self.settle();
        }
        found
    }

    /// Calls `each` with the slot of every range that overlaps `low..high`, in an order that depends on the ranges alone.
    #[inline]
    pub fn overlapping(&self, low: u64, high: u64, mut each: impl FnMut(u32)) {
        let mut occupied = self.occupied;
        while occupied != 0 {
            let class = occupied.trailing_zeros();
            occupied &= occupied - 1;
            self.classes[class as usize].overlapping(class, low, high, &mut each);
        }
    }

    /// Computes the depth again after enough changes that may have made it too large.
    fn settle(&mut self) {
        if self.changes >= self.len {
            self.recompute();
        }
    }

    fn recompute(&mut self) {
        let entries = || self.classes.iter().flat_map(|c| &c.chunks).flatten();
        // At one LBN ends sort before starts, because ranges that touch do not overlap.
        let mut edges: Vec<(u64, bool)> = entries().flat_map(|e| [(e.start, true), (e.end, false)]).collect();
        edges.sort_unstable();
        let (mut over, mut most) = (0u64, 0);
        for (_, starts) in edges {
            if starts {
                over += 1;
                most = most.max(over);
            } else {
                over -= 1;
            }
        }
        self.depth = most;
        self.changes = 0;
    }
}

impl Class {
    /// Returns the index of the chunk in which a key is or would be inserted.
    fn chunk_of(&self, key: (u64, u32)) -> usize {
        let after = self.chunks.partition_point(|c| c.first().is_some_and(|e| e.key() <= key));
        after.saturating_sub(1)
    }

    fn insert(&mut self, entry: Entry) {
        let at = self.chunk_of(entry.key());
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push(vec![entry]);
            return;
        };
        let place = chunk.partition_point(|e| e.key() < entry.key());
        chunk.insert(place, entry);
        if chunk.len() > CHUNK_ENTRIES_MAX {
            let rest = chunk.split_off(CHUNK_ENTRIES_MAX / 2);
            self.chunks.insert(at + 1, rest);
        }
    }

    fn remove(&mut self, key: (u64, u32)) -> bool {
        let at = self.chunk_of(key);
        let Some(chunk) = self.chunks.get_mut(at) else { return false };
        let Ok(place) = chunk.binary_search_by_key(&key, Entry::key) else { return false };
        chunk.remove(place);
        if chunk.is_empty() {
            self.chunks.remove(at);
        }
        true
    }

    #[inline]
    fn overlapping(&self, class: u32, low: u64, high: u64, each: &mut impl FnMut(u32)) {
        if let [only] = self.chunks.as_slice()
            && let [entry] = only.as_slice()
        {
            if entry.start < high && entry.end > low {
                each(entry.slot);
            }
            return;
        }
        self.overlapping_many(class, low, high, each);
    }

    fn overlapping_many(&self, class: u32, low: u64, high: u64, each: &mut impl FnMut(u32)) {
        self.near(class, low, high, &mut |entry| {
            if entry.end > low {
                each(entry.slot);
            }
            true
        });
    }

    /// Calls `each` for entries that begin before `high` and may reach beyond `low`, until `each` returns false. Returns
    /// whether all of them were visited.
    fn near(&self, class: u32, low: u64, high: u64, each: &mut impl FnMut(&Entry) -> bool) -> bool {
        // Every range in the class is shorter than `longest`.
        let longest = 2u64.checked_shl(class).unwrap_or(u64::MAX);
        let from = low.saturating_sub(longest);
        let first = self.chunks.partition_point(|c| c.last().is_some_and(|e| e.start < from));
        for chunk in &self.chunks[first..] {
            let begin = chunk.partition_point(|e| e.start < from);
            for entry in &chunk[begin..] {
                if entry.start >= high {
                    return true;
                }
                if !each(entry) {
                    return false;
                }
            }
        }
        true
    }
}

fn class_of(start: u64, end: u64) -> usize {
    (end - start).max(1).ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum IndexStep {
        Insert(u64, u64),
        /// Removes the entry with this rank in the order of insertion.
        Remove(usize),
        Look(u64, u64),
    }

    fn steps() -> impl Strategy<Value = Vec<IndexStep>> {
        // Many small ranges share a small space, so that chunks split and become empty; some ranges cover most of it.
        let length = prop_oneof![6 => 1..9u64, 2 => 1..100u64, 1 => 1..3_000u64];
        let step = prop_oneof![
            5 => (0..2_000u64, length.clone()).prop_map(|(a, n)| IndexStep::Insert(a, a + n)),
            3 => any::<usize>().prop_map(IndexStep::Remove),
            3 => (0..5_000u64, length).prop_map(|(a, n)| IndexStep::Look(a, a + n)),
        ];
        prop::collection::vec(step, 1..1_500)
    }

    fn depth(ranges: &[(u64, u64, u32)]) -> u64 {
        let over = |place| ranges.iter().filter(|r| r.0 <= place && place < r.1).count() as u64;
        ranges.iter().map(|r| over(r.0)).max().unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn the_index_finds_the_same_tasks_as_a_plain_list(steps in steps()) {
            let (mut ours, mut naive) = (TaskIndex::new(), Vec::new());
            let mut next = 0;
            for step in steps {
                match step {
                    IndexStep::Insert(start, end) => {
                        ours.insert(start, end, next);
                        naive.push((start, end, next));
                        next += 1;
                    }
                    IndexStep::Remove(which) if !naive.is_empty() => {
                        let (start, end, slot) = naive.remove(which % naive.len());
                        prop_assert!(ours.remove(start, end, slot));
                        prop_assert!(!ours.remove(start, end, slot), "removed twice");
                    }
                    IndexStep::Remove(_) => prop_assert!(!ours.remove(1, 2, 0)),
                    IndexStep::Look(low, high) => {
                        let mut found = Vec::new();
                        ours.overlapping(low, high, |slot| found.push(slot));
                        found.sort_unstable();
                        let expected: Vec<u32> =
                            naive.iter().filter(|r| r.0 < high && r.1 > low).map(|r| r.2).collect();
                        prop_assert_eq!(found, expected);
                    }
                }
                prop_assert_eq!(ours.is_empty(), naive.is_empty());
            }
            let exact = depth(&naive);
            prop_assert!(ours.depth() >= exact, "depth {} below {}", ours.depth(), exact);
            ours.recompute();
            prop_assert_eq!(ours.depth(), exact);
        }

        #[test]
        fn the_depth_is_never_too_low(steps in prop::collection::vec((0..60u64, 1..30u64, any::<bool>()), 1..40)) {
            let (mut ours, mut naive) = (TaskIndex::new(), Vec::new());
            for (slot, (start, len, goes)) in steps.into_iter().enumerate() {
                ours.insert(start, start + len, slot as u32);
                naive.push((start, start + len, slot as u32));
                prop_assert!(ours.depth() >= depth(&naive));
                if goes {
                    let (start, end, slot) = naive.remove(slot % naive.len());
                    ours.remove(start, end, slot);
                    prop_assert!(ours.depth() >= depth(&naive));
                }
            }
        }
    }

    /// Counts the tasks that insertions examine, with a million tasks over three blocks.
    #[test]
    fn tasks_over_one_block_are_not_all_looked_at_when_one_more_comes() {
        let mut index = TaskIndex::new();
        let mut looked = 0;
        for i in 0..1_000_000u32 {
            let start = u64::from(i % 3) * 8;
            looked += index.insert(start, start + 8, i);
        }
        assert!(looked < 1_000_000 * (EXAMINED_ENTRIES_MAX + 1), "{looked} of {}", index.len);
        assert!(index.depth() >= 333_334 && index.depth() <= 1_000_000, "{}", index.depth());
        for i in 0..1_000_000u32 {
            let start = u64::from(i % 3) * 8;
            assert!(index.remove(start, start + 8, i));
        }
        assert_eq!((index.depth(), index.is_empty()), (0, true));
    }

    #[test]
    fn many_blocks_under_a_whole_drive_are_two_deep() {
        let mut index = TaskIndex::new();
        for i in 0..10_000 {
            index.insert(i * 16, i * 16 + 8, i as u32);
        }
        assert_eq!(index.depth(), 1);
        index.insert(0, 1 << 40, 10_000);
        assert_eq!(index.depth(), 2);
        for i in 0..10_000 {
            assert!(index.remove(i * 16, i * 16 + 8, i as u32));
        }
        assert_eq!(index.depth(), 1);
        assert!(index.remove(0, 1 << 40, 10_000));
        assert_eq!((index.depth(), index.is_empty()), (0, true));
    }
}
