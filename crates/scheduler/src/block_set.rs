//! A set of block numbers that usually starts full and is emptied: the basis of the wanted set.
//!
//! The numbers below `blocks` are divided into leaves of 4096 numbers, and the leaves into nodes of 256 leaves. A leaf or node
//! that is full or empty is only a tag; a mixed leaf has a bit for each number, in 64 words. A full set of the blocks of 20 TB
//! takes 40 kB, a fragmented set at most 1.1 bits a block, and the most frequent query (the number of wanted blocks among some
//! hundred) reads one or two cache lines. A set that becomes empty frees its memory.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

const LEAF_WORDS: usize = 64;
const LEAF_BLOCKS: u64 = 64 * LEAF_WORDS as u64;
const NODE_LEAVES: usize = 256;
const NODE_BLOCKS: u64 = LEAF_BLOCKS * NODE_LEAVES as u64;
/// A tag in place of an index: no number of the leaf or node is in the set.
const EMPTY_TAG: u32 = u32::MAX;
/// A tag in place of an index: all numbers of the leaf or node are in the set.
const FULL_TAG: u32 = u32::MAX - 1;

/// The number of leaves that are allocated at a time, so that growth copies no leaf and wastes little memory, and neighbouring
/// leaves are near each other.
const CHUNK_LEAVES: usize = 16;

type Leaf = [u64; LEAF_WORDS];

#[derive(Clone, Debug)]
struct Node {
    leaves: [u32; NODE_LEAVES],
}

/// A subset of `0..blocks`.
///
/// ```
/// use freeblock_scheduler::BlockSet;
/// let mut wanted = BlockSet::full(5_000_000_000);
/// assert!(wanted.remove(4_999_999_999));
/// assert!(!wanted.remove(4_999_999_999));
/// assert_eq!(wanted.count(4_999_999_000, 5_000_000_000), 999);
/// assert_eq!(wanted.next(4_999_999_999), None);
/// assert!(wanted.memory_bytes() < 64 << 10);
/// ```
#[derive(Clone, Debug)]
pub struct BlockSet {
    blocks: u64,
    len: u64,
    /// The tag or the index of each node.
    roots: Vec<u32>,
    nodes: Vec<Node>,
    free_nodes: Vec<u32>,
    leaves: Vec<Box<[Leaf; CHUNK_LEAVES]>>,
    free_leaves: Vec<u32>,
}

impl BlockSet {
    /// Returns the set of all `0..blocks`.
    ///
    /// # Panics
    /// With 2^50 blocks or more, a thousand times the sectors of the largest drive.
    pub fn full(blocks: u64) -> Self {
        let mut set = Self::empty(blocks);
        set.roots.fill(FULL_TAG);
        set.len = blocks;
        set
    }

    /// Returns an empty subset of `0..blocks`.
    ///
    /// # Panics
    /// As [`full`](Self::full).
    pub fn empty(blocks: u64) -> Self {
        assert!(blocks < 1 << 50, "{blocks} blocks");
        Self {
            blocks,
            len: 0,
            roots: vec![EMPTY_TAG; blocks.div_ceil(NODE_BLOCKS) as usize],
            nodes: Vec::new(),
            free_nodes: Vec::new(),
            leaves: Vec::new(),
            free_leaves: Vec::new(),
        }
    }

    /// Returns the number of blocks in the set.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns one more than the largest number that the set can hold.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the memory in use, in bytes.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + (self.roots.capacity() + self.free_nodes.capacity() + self.free_leaves.capacity()) * 4
            + self.nodes.capacity() * size_of::<Node>()
            + self.leaves.capacity() * size_of::<usize>()
            + self.leaves.len() * size_of::<[Leaf; CHUNK_LEAVES]>()
    }

    /// Returns whether `block` is in the set.
    #[inline]
    pub fn contains(&self, block: u64) -> bool {
        if block >= self.blocks {
            return false;
        }
        match self.leaf_tag(block) {
            EMPTY_TAG => false,
            FULL_TAG => true,
            leaf => self.leaf(leaf)[word(block)] >> (block % 64) & 1 == 1,
        }
    }

    /// Returns the number of blocks of `from..to` in the set.
    #[inline]
    pub fn count(&self, from: u64, to: u64) -> u64 {
        let to = to.min(self.blocks);
        let mut sum = 0;
        let mut at = from;
        while at < to {
            let root = self.roots[(at / NODE_BLOCKS) as usize];
            if root >= FULL_TAG {
                let end = to.min((at / NODE_BLOCKS + 1) * NODE_BLOCKS);
                sum += if root == FULL_TAG { end - at } else { 0 };
                at = end;
                continue;
            }
            let end = to.min((at / LEAF_BLOCKS + 1) * LEAF_BLOCKS);
            sum += match self.nodes[root as usize].leaves[leaf_slot(at)] {
                EMPTY_TAG => 0,
                FULL_TAG => end - at,
                leaf => count_bits(self.leaf(leaf), at % LEAF_BLOCKS, (end - 1) % LEAF_BLOCKS + 1),
            };
            at = end;
        }
        sum
    }

    /// Returns the smallest block in the set that is not below `from`.
    pub fn next(&self, from: u64) -> Option<u64> {
        let mut at = from;
        while at < self.blocks {
            match self.roots[(at / NODE_BLOCKS) as usize] {
                EMPTY_TAG => at = (at / NODE_BLOCKS + 1) * NODE_BLOCKS,
                FULL_TAG => return Some(at),
                node => match self.nodes[node as usize].leaves[leaf_slot(at)] {
                    EMPTY_TAG => at = (at / LEAF_BLOCKS + 1) * LEAF_BLOCKS,
                    FULL_TAG => return Some(at),
                    leaf => {
                        let bits = self.leaf(leaf);
                        let mut w = word(at);
                        let mut rest = bits[w] & (!0 << (at % 64));
                        while rest == 0 && w + 1 < LEAF_WORDS {
                            w += 1;
                            rest = bits[w];
                        }
                        let base = at / LEAF_BLOCKS * LEAF_BLOCKS;
                        if rest != 0 {
                            return Some(base + w as u64 * 64 + u64::from(rest.trailing_zeros()));
                        }
                        at = base + LEAF_BLOCKS;
                    }
                },
            }
        }
        None
    }

    /// Returns the first run of blocks in the set among `from..to`: its first block, and one more than its last. Long runs
    /// cost little: each full or empty leaf or node is looked at once.
    ///
    /// ```
    /// use freeblock_scheduler::BlockSet;
    /// let mut wanted = BlockSet::full(5_000_000_000);
    /// wanted.remove(3_000_000_000);
    /// assert_eq!(wanted.run(7, 4_000_000_000), Some(7..3_000_000_000));
    /// assert_eq!(wanted.run(3_000_000_000, 4_000_000_000), Some(3_000_000_001..4_000_000_000));
    /// assert_eq!(wanted.run(3_000_000_000, 3_000_000_001), None);
    /// ```
    pub fn run(&self, from: u64, to: u64) -> Option<Range<u64>> {
        let to = to.min(self.blocks);
        let first = self.next(from).filter(|first| *first < to)?;
        Some(first..self.end_of_run(first, to))
    }

    /// Returns the first block of `from..to` that is not in the set, or `to`.
    fn end_of_run(&self, from: u64, to: u64) -> u64 {
        let mut at = from;
        while at < to {
            match self.roots[(at / NODE_BLOCKS) as usize] {
                EMPTY_TAG => return at,
                FULL_TAG => at = (at / NODE_BLOCKS + 1) * NODE_BLOCKS,
                node => match self.nodes[node as usize].leaves[leaf_slot(at)] {
                    EMPTY_TAG => return at,
                    FULL_TAG => at = (at / LEAF_BLOCKS + 1) * LEAF_BLOCKS,
                    leaf => {
                        // Numbers past the end of the set count as absent; the minimum with `to` excludes them.
                        let absent = !self.leaf(leaf)[word(at)] & (!0 << (at % 64));
                        let base = at / 64 * 64;
                        if absent != 0 {
                            return (base + u64::from(absent.trailing_zeros())).min(to);
                        }
                        at = base + 64;
                    }
                },
            }
        }
        to
    }

    /// Calls `each` for every block of `from..to` that is in the set, in ascending order.
    #[inline]
    pub fn for_each(&self, from: u64, to: u64, mut each: impl FnMut(u64)) {
        let to = to.min(self.blocks);
        let mut at = from;
        while at < to {
            let end = to.min((at / 64 + 1) * 64);
            let mut bits = self.word_at(at) & (!0 << (at % 64));
            if !end.is_multiple_of(64) {
                bits &= !(!0 << (end % 64));
            }
            let base = at / 64 * 64;
            while bits != 0 {
                each(base + u64::from(bits.trailing_zeros()));
                bits &= bits - 1;
            }
            at = end;
        }
    }

    /// Removes `block`. Returns whether it was in the set.
    pub fn remove(&mut self, block: u64) -> bool {
        if !self.contains(block) {
            return false;
        }
        if self.len == 1 {
            self.clear();
            return true;
        }
        let bits = self.leaf_bits(block);
        bits[word(block)] &= !(1 << (block % 64));
        if bits.iter().all(|w| *w == 0) {
            self.set_leaf(block, EMPTY_TAG);
        }
        self.len -= 1;
        true
    }

    /// Inserts `block`. Returns whether it was absent.
    pub fn insert(&mut self, block: u64) -> bool {
        if block >= self.blocks || self.contains(block) {
            return false;
        }
        let bits = self.leaf_bits(block);
        bits[word(block)] |= 1 << (block % 64);
        if bits.iter().all(|w| *w == !0) {
            self.set_leaf(block, FULL_TAG);
        }
        self.len += 1;
        true
    }

    /// Removes all of `from..to`. Returns the number of blocks that were in the set.
    pub fn remove_range(&mut self, from: u64, to: u64) -> u64 {
        let to = to.min(self.blocks);
        let removed = self.count(from, to);
        if removed == self.len {
            self.clear();
            return removed;
        }
        let mut at = from;
        while at < to {
            let node_end = (at / NODE_BLOCKS + 1) * NODE_BLOCKS;
            if at.is_multiple_of(NODE_BLOCKS) && (node_end <= to || to == self.blocks) {
                self.set_root(at, EMPTY_TAG);
                at = node_end;
                continue;
            }
            let leaf_end = (at / LEAF_BLOCKS + 1) * LEAF_BLOCKS;
            let end = to.min(leaf_end);
            if self.leaf_tag(at) != EMPTY_TAG {
                if at.is_multiple_of(LEAF_BLOCKS) && (end == leaf_end || end == self.blocks) {
                    self.set_leaf(at, EMPTY_TAG);
                } else {
                    let bits = self.leaf_bits(at);
                    let (first, last) = (at % LEAF_BLOCKS, (end - 1) % LEAF_BLOCKS);
                    for w in first / 64..=last / 64 {
                        let mut mask = !0u64;
                        if w == first / 64 {
                            mask &= !0 << (first % 64);
                        }
                        if w == last / 64 {
                            mask &= !0 >> (63 - last % 64);
                        }
                        bits[w as usize] &= !mask;
                    }
                    if bits.iter().all(|w| *w == 0) {
                        self.set_leaf(at, EMPTY_TAG);
                    }
                }
            }
            at = end;
        }
        self.len -= removed;
        removed
    }

    /// Removes all blocks, and frees all memory except that of the roots.
    fn clear(&mut self) {
        self.roots.fill(EMPTY_TAG);
        self.nodes = Vec::new();
        self.free_nodes = Vec::new();
        self.leaves = Vec::new();
        self.free_leaves = Vec::new();
        self.len = 0;
    }

    #[inline]
    fn leaf(&self, index: u32) -> &Leaf {
        &self.leaves[index as usize / CHUNK_LEAVES][index as usize % CHUNK_LEAVES]
    }

    #[inline]
    fn leaf_tag(&self, block: u64) -> u32 {
        match self.roots[(block / NODE_BLOCKS) as usize] {
            tag if tag >= FULL_TAG => tag,
            node => self.nodes[node as usize].leaves[leaf_slot(block)],
        }
    }

    /// Returns the bits of the 64 aligned blocks that contain `block`.
    #[inline]
    fn word_at(&self, block: u64) -> u64 {
        match self.leaf_tag(block) {
            EMPTY_TAG => 0,
            FULL_TAG => !0,
            leaf => self.leaf(leaf)[word(block)],
        }
    }

    /// Returns the bits of the leaf of `block`, and allocates them if the leaf was a tag.
    fn leaf_bits(&mut self, block: u64) -> &mut Leaf {
        let tag = self.leaf_tag(block);
        let index = if tag >= FULL_TAG {
            let index = self.free_leaves.pop().unwrap_or_else(|| {
                let first = (self.leaves.len() * CHUNK_LEAVES) as u32;
                if self.leaves.len() == self.leaves.capacity() {
                    self.leaves.reserve_exact((self.leaves.len() / 16).max(8));
                }
                self.leaves.push(Box::new([[0; LEAF_WORDS]; CHUNK_LEAVES]));
                self.free_leaves.extend((first + 1..first + CHUNK_LEAVES as u32).rev());
                first
            });
            let leaf = &mut self.leaves[index as usize / CHUNK_LEAVES][index as usize % CHUNK_LEAVES];
            leaf.fill(if tag == FULL_TAG { !0 } else { 0 });
            // Numbers past the end are never in the set, so that a leaf becomes empty with its last block.
            let end = self.blocks - block / LEAF_BLOCKS * LEAF_BLOCKS;
            if end < LEAF_BLOCKS {
                let at = (end / 64) as usize;
                leaf[at] &= !(!0 << (end % 64));
                leaf[at + 1..].fill(0);
            }
            self.node(block).leaves[leaf_slot(block)] = index;
            index
        } else {
            tag
        };
        &mut self.leaves[index as usize / CHUNK_LEAVES][index as usize % CHUNK_LEAVES]
    }

    /// Returns the node of `block`, and allocates it if it was a tag.
    fn node(&mut self, block: u64) -> &mut Node {
        let root = (block / NODE_BLOCKS) as usize;
        let tag = self.roots[root];
        let index = if tag >= FULL_TAG {
            let index = match self.free_nodes.pop() {
                Some(index) => index,
                None => {
                    self.nodes.push(Node { leaves: [EMPTY_TAG; NODE_LEAVES] });
                    (self.nodes.len() - 1) as u32
                }
            };
            let node = &mut self.nodes[index as usize];
            node.leaves = [tag; NODE_LEAVES];
            // As in a leaf, numbers past the end of the set are never in it.
            let end = (self.blocks - block / NODE_BLOCKS * NODE_BLOCKS).div_ceil(LEAF_BLOCKS);
            if end < NODE_LEAVES as u64 {
                node.leaves[end as usize..].fill(EMPTY_TAG);
            }
            self.roots[root] = index;
            index
        } else {
            tag
        };
        &mut self.nodes[index as usize]
    }

    /// Replaces the leaf of `block` by a tag, and the node too if all its leaves have that tag.
    fn set_leaf(&mut self, block: u64, tag: u32) {
        let old = self.leaf_tag(block);
        if old == tag {
            return;
        }
        if old < FULL_TAG {
            self.free_leaves.push(old);
        }
        let node = self.node(block);
        node.leaves[leaf_slot(block)] = tag;
        if node.leaves.iter().all(|l| *l == tag) {
            self.set_root(block, tag);
        }
    }

    fn set_root(&mut self, block: u64, tag: u32) {
        let root = (block / NODE_BLOCKS) as usize;
        let old = core::mem::replace(&mut self.roots[root], tag);
        if old < FULL_TAG {
            let freed = self.nodes[old as usize].leaves.iter().filter(|l| **l < FULL_TAG);
            self.free_leaves.extend(freed);
            self.free_nodes.push(old);
        }
    }
}

#[inline]
fn word(block: u64) -> usize {
    (block % LEAF_BLOCKS / 64) as usize
}

#[inline]
fn leaf_slot(block: u64) -> usize {
    (block / LEAF_BLOCKS) as usize % NODE_LEAVES
}

/// Returns the number of ones in bits `from..to` of a leaf, where `from < to`.
#[inline]
fn count_bits(leaf: &Leaf, from: u64, to: u64) -> u64 {
    let (first, last) = ((from / 64) as usize, ((to - 1) / 64) as usize);
    let head = !0u64 << (from % 64);
    let tail = !0u64 >> (63 - (to - 1) % 64);
    if first == last {
        return u64::from((leaf[first] & head & tail).count_ones());
    }
    let inner: u32 = leaf[first + 1..last].iter().map(|w| w.count_ones()).sum();
    u64::from((leaf[first] & head).count_ones() + inner + (leaf[last] & tail).count_ones())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum SetStep {
        Remove(u64),
        Insert(u64),
        RemoveRange(u64, u64),
        Count(u64, u64),
        Next(u64),
        Each(u64, u64),
        Run(u64, u64),
    }

    /// Returns sizes at which the last leaf or node is full, barely begun or partial.
    fn sizes() -> impl Strategy<Value = u64> {
        prop_oneof![
            0..200u64,
            4000..4200u64,
            8192..=8192u64,
            1_048_500..1_048_700u64,
            2_097_152..=2_097_152u64
        ]
    }

    fn steps() -> impl Strategy<Value = Vec<SetStep>> {
        // Numbers lie close to boundaries and to each other, so that leaves become empty and full again.
        let place = || {
            prop_oneof![
                0..300u64,
                4_000..4_200u64,
                1_048_400..1_048_700u64,
                0..2_200_000u64,
                2_097_000..2_097_200u64
            ]
        };
        let step = prop_oneof![
            4 => place().prop_map(SetStep::Remove),
            3 => place().prop_map(SetStep::Insert),
            3 => (place(), place()).prop_map(|(a, b)| SetStep::RemoveRange(a, b)),
            4 => (place(), place()).prop_map(|(a, b)| SetStep::Count(a, b)),
            2 => place().prop_map(SetStep::Next),
            2 => (place(), 0..600u64).prop_map(|(a, n)| SetStep::Each(a, a + n)),
            2 => (place(), place()).prop_map(|(a, b)| SetStep::Run(a, b)),
        ];
        prop::collection::vec(step, 1..60)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(testing::sized(120, 300)))]

        #[test]
        fn behaves_as_a_plain_set(blocks in sizes(), full: bool, steps in steps()) {
            // The naive set has the numbers missing from a set that began full, or present in one that began empty.
            let mut ours = if full { BlockSet::full(blocks) } else { BlockSet::empty(blocks) };
            let mut odd = BTreeSet::new();
            let has = |odd: &BTreeSet<u64>, b: u64| b < blocks && (odd.contains(&b) != full);
            for step in steps {
                match step {
                    SetStep::Remove(b) => {
                        let was = has(&odd, b);
                        if was { if full { odd.insert(b); } else { odd.remove(&b); } }
                        prop_assert_eq!(ours.remove(b), was);
                    }
                    SetStep::Insert(b) => {
                        let new = b < blocks && !has(&odd, b);
                        if new { if full { odd.remove(&b); } else { odd.insert(b); } }
                        prop_assert_eq!(ours.insert(b), new);
                    }
                    SetStep::RemoveRange(a, b) => {
                        let b = b.min(a + 20_000).min(blocks);
                        let mut n = 0;
                        for block in a..b {
                            if has(&odd, block) {
                                n += 1;
                                if full { odd.insert(block); } else { odd.remove(&block); }
                            }
                        }
                        prop_assert_eq!(ours.remove_range(a, b), n);
                    }
                    SetStep::Count(a, b) => {
                        let b2 = b.min(blocks);
                        let odd_here = if a < b2 { odd.range(a..b2).count() as u64 } else { 0 };
                        let expected = if full { b2.saturating_sub(a) - odd_here } else { odd_here };
                        prop_assert_eq!(ours.count(a, b), expected);
                    }
                    SetStep::Next(a) => {
                        let expected = if full {
                            (a..blocks).find(|b| !odd.contains(b))
                        } else {
                            odd.range(a..).next().copied()
                        };
                        prop_assert_eq!(ours.next(a), expected);
                    }
                    SetStep::Run(a, b) => {
                        let first = (a..b).find(|block| has(&odd, *block));
                        let end = |first| (first..b).find(|block| !has(&odd, *block)).unwrap_or(b);
                        prop_assert_eq!(ours.run(a, b), first.map(|first| first..end(first)));
                    }
                    SetStep::Each(a, b) => {
                        let mut listed = Vec::new();
                        ours.for_each(a, b, |block| listed.push(block));
                        let expected: Vec<u64> = (a..b).filter(|block| has(&odd, *block)).collect();
                        prop_assert_eq!(listed, expected);
                    }
                }
                let expected = if full { blocks - odd.len() as u64 } else { odd.len() as u64 };
                prop_assert_eq!(ours.len(), expected);
            }
        }
    }

    #[test]
    fn whole_range_of_20_tb_costs_kilobytes() {
        let blocks = 20_000_000_000_000 / 4096;
        assert!(BlockSet::full(blocks).memory_bytes() < 64 << 10);
    }

    #[test]
    fn a_fragmented_set_costs_at_most_1_1_bits_a_block() {
        let blocks = 20_000_000u64;
        let mut set = BlockSet::full(blocks);
        // The most memory is used when every leaf is mixed.
        for block in (0..blocks).step_by(LEAF_BLOCKS as usize / 2) {
            set.remove(block);
        }
        let bits = set.memory_bytes() as f64 * 8.0 / blocks as f64;
        assert!(bits <= 1.1, "{bits} bits a block");
        set.remove_range(0, blocks);
        assert!(set.is_empty());
        assert!(set.memory_bytes() < 1 << 10, "{} bytes", set.memory_bytes());
    }

    #[test]
    fn a_single_block_costs_next_to_nothing() {
        let mut set = BlockSet::full(1);
        assert!(set.memory_bytes() < 256, "{} bytes", set.memory_bytes());
        assert!(set.remove(0) && set.memory_bytes() < 256);
    }
}
