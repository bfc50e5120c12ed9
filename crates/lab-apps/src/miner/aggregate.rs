//! Exact answers: sums, groups, ranks, histograms. Results are integers until they are read, so that the answers are
//! the same to the bit for every order of the pages and every split over mergers.

use super::page::Sale;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;

/// Count, sum, least, greatest, mean and variance of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSummary {
    count: u64,
    sum: i128,
    /// The sum of squares. It saturates, which does not depend on the order since no square is negative.
    squares: u128,
    min: i64,
    max: i64,
}

impl Default for ColumnSummary {
    fn default() -> Self {
        Self { count: 0, sum: 0, squares: 0, min: i64::MAX, max: i64::MIN }
    }
}

impl ColumnSummary {
    #[inline]
    pub(super) fn add(&mut self, value: i64) {
        self.count += 1;
        self.sum += i128::from(value);
        let size = u128::from(value.unsigned_abs());
        self.squares = self.squares.saturating_add(size * size);
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares = self.squares.saturating_add(other.squares);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Returns the number of records.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the exact sum of the values.
    pub fn sum(&self) -> i128 {
        self.sum
    }

    /// Returns the least value; `None` if there are no records.
    pub fn min(&self) -> Option<i64> {
        (self.count > 0).then_some(self.min)
    }

    /// Returns the greatest value; `None` if there are no records.
    pub fn max(&self) -> Option<i64> {
        (self.count > 0).then_some(self.max)
    }

    /// Returns the mean; `None` if there are no records.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Returns the sample variance (divisor: count - 1); `None` for fewer than two records, or if the sum of squares
    /// has passed 2^128 (at the largest possible revenue: after 10^10 records).
    pub fn variance(&self) -> Option<f64> {
        if self.count < 2 || self.squares == u128::MAX {
            return None;
        }
        let (n, size) = (u128::from(self.count), self.sum.unsigned_abs());
        // n times the sum of squares less the square of the sum, in integers if they do not overflow: a difference of
        // large floats would have no correct digits.
        let scatter = match (n.checked_mul(self.squares), size.checked_mul(size)) {
            (Some(a), Some(b)) => a.saturating_sub(b) as f64 / n as f64,
            _ => (self.squares as f64 - size as f64 * (size as f64 / n as f64)).max(0.0),
        };
        Some(scatter / (self.count - 1) as f64)
    }
}

impl fmt::Display for ColumnSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count {}, sum {}", self.count, self.sum)?;
        if let (Some(min), Some(max), Some(mean)) = (self.min(), self.max(), self.mean()) {
            write!(f, ", min {min}, max {max}, mean {mean:.3}")?;
        }
        match self.variance() {
            Some(variance) => write!(f, ", variance {variance:.3}"),
            None => Ok(()),
        }
    }
}

/// A summary for each key, for a bounded number of keys.
///
/// If there are more keys, the smallest keys are kept. A key that is among the smallest at the end has been among the
/// smallest all along, so its summary is complete in every order of the pages; all other records are in the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    groups: BTreeMap<i64, ColumnSummary>,
    rest: ColumnSummary,
    most: usize,
}

impl Groups {
    pub(super) fn new(most: usize) -> Self {
        Self { groups: BTreeMap::new(), rest: ColumnSummary::default(), most }
    }

    #[inline]
    pub(super) fn add(&mut self, key: i64, value: i64) {
        if let Some(group) = self.groups.get_mut(&key) {
            return group.add(value);
        }
        let mut one = ColumnSummary::default();
        one.add(value);
        self.admit(key, &one);
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.rest.merge(&other.rest);
        for (&key, group) in &other.groups {
            match self.groups.get_mut(&key) {
                Some(mine) => mine.merge(group),
                None => self.admit(key, group),
            }
        }
    }

    /// Adds a group for a new key, or merges it into the rest.
    fn admit(&mut self, key: i64, group: &ColumnSummary) {
        if self.groups.len() >= self.most {
            match self.groups.last_entry() {
                Some(last) if *last.key() > key => self.rest.merge(&last.remove()),
                _ => return self.rest.merge(group),
            }
        }
        self.groups.insert(key, *group);
    }

    /// Iterates over the groups by key.
    pub fn iter(&self) -> impl Iterator<Item = (i64, &ColumnSummary)> {
        self.groups.iter().map(|(&key, group)| (key, group))
    }

    /// Returns the group of a key, if it is kept.
    pub fn get(&self, key: i64) -> Option<&ColumnSummary> {
        self.groups.get(&key)
    }

    /// Returns the summary of all records outside the kept groups.
    pub fn rest(&self) -> &ColumnSummary {
        &self.rest
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (key, group)) in self.iter().enumerate() {
            let newline = if i > 0 { "\n" } else { "" };
            write!(f, "{newline}  {key}: {group}")?;
        }
        match self.rest.count() {
            0 => Ok(()),
            _ => write!(f, "\n  the rest: {}", self.rest),
        }
    }
}

/// The records with the largest ranks. The top of the heap is the record with the smallest of these ranks.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    heap: BinaryHeap<(Reverse<i64>, Sale)>,
    most: usize,
}

impl Ranking {
    pub fn new(most: usize) -> Self {
        Self { heap: BinaryHeap::new(), most }
    }

    #[inline]
    pub fn add(&mut self, rank: i64, sale: &Sale) {
        let entry = (Reverse(rank), *sale);
        if self.heap.len() < self.most {
            self.heap.push(entry);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && entry < *worst
        {
            *worst = entry;
        }
    }

    pub fn merge(&mut self, other: &Self) {
        for (Reverse(rank), sale) in &other.heap {
            self.add(*rank, sale);
        }
    }

    pub fn finish(&self) -> Vec<Sale> {
        self.heap.clone().into_sorted_vec().into_iter().map(|(_, sale)| sale).collect()
    }
}

/// The number of records with values in each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    start: i64,
    width: u64,
    buckets: Vec<u64>,
    below: u64,
    above: u64,
}

impl Histogram {
    pub(super) fn new(start: i64, width: u64, buckets: usize) -> Self {
        Self { start, width: width.max(1), buckets: vec![0; buckets], below: 0, above: 0 }
    }

    #[inline]
    pub(super) fn add(&mut self, value: i64) {
        if value < self.start {
            self.below += 1;
            return;
        }
        let bucket = value.abs_diff(self.start) / self.width;
        match usize::try_from(bucket).ok().and_then(|b| self.buckets.get_mut(b)) {
            Some(count) => *count += 1,
            None => self.above += 1,
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.below += other.below;
        self.above += other.above;
    }

    /// Returns the counts, from the lowest bucket up.
    pub fn buckets(&self) -> &[u64] {
        &self.buckets
    }

    /// Returns the number of records below the first bucket.
    pub fn below(&self) -> u64 {
        self.below
    }

    /// Returns the number of records above the last bucket.
    pub fn above(&self) -> u64 {
        self.above
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  below {}: {}", self.start, self.below)?;
        let mut from = i128::from(self.start);
        for count in &self.buckets {
            write!(f, "\n  from {from}: {count}")?;
            from += i128::from(self.width);
        }
        write!(f, "\n  from {from}: {}", self.above)
    }
}
