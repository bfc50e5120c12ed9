//! Sorted distances with their times, in a structure that is searched by reading few cache lines.

/// The number of distances in a line; with their times they fill a cache line.
const LINE_DISTANCES: usize = 8;

/// The most lines of a block: their first distances fit into the block's header, which is a cache line and is searched
/// eight entries at a time.
const BLOCK_LINES: usize = 25;

/// The most distances of a block.
const BLOCK_DISTANCES: usize = BLOCK_LINES * LINE_DISTANCES;

/// The number of entries of a level of the tree per entry of the next higher level: a cache line of sixteen, which are
/// compared at once.
const FAN_OUT: usize = 16;

/// The largest distance: 2^44 sectors of 512 bytes are 9 PB. Distances 2^31 or more apart do not share a block, so this
/// also bounds the memory that a table of few distances may waste, at 2 MB.
pub(crate) const DISTANCE_SECTORS_MAX: i64 = 1 << 44;

/// The value of unused entries of a line.
const UNUSED_ENTRY: u32 = u32::MAX;

/// A key below those of all distances, which are at least 1.
const BEFORE_ALL: u32 = 0;

/// The entry of a block's header for an unused line. No difference at which a line begins has this value.
const NO_LINE: u16 = u16::MAX;

/// The value of unused entries of a group of the tree. No distance in the tree has this value.
const UNUSED_DISTANCE: i32 = i32::MAX;

/// A known distance of a curve, with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CurvePoint {
    pub distance: i64,
    /// Whether times between this point and the next are interpolated.
    pub joined: bool,
    pub time: u32,
}

/// Distances in ascending order, each with a time and whether it is joined to the next (times in between are
/// interpolated). Blocks of [`BLOCK_DISTANCES`] distances lie under a tree with a fan-out of sixteen. The tree compares
/// distances cut to 32 bits. On drives of more than 70 TB, blocks may begin too close together for that and the tree
/// may lead to a wrong block, which the search detects and corrects.
///
/// Tree and headers are a twenty-fourth of the memory, and stored apart from the lines. For a table of 64 MB the tree
/// takes a sixth of a megabyte, which stays in the own cache of a processor core, and the headers take two and a half
/// megabytes, which stay in a cache that these cores share. So a search waits for one line, which has the distance, its
/// time and mostly the next distance.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Knots {
    heads: Vec<Head>,
    /// The lines of all blocks, at least one for each block; all lines are full except a block's last.
    lines: Vec<Line>,
    /// The number of bits by which the tree cuts distances.
    shift: u32,
    /// The levels of the tree, the top first.
    levels: Vec<Vec<Group>>,
    len: usize,
}

/// The header of a block of distances: the first distance of each of its cache lines.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
struct Head {
    /// The block's first distance, to which all others are relative.
    base: i64,
    /// The index of the block's first line.
    first_line: u32,
    /// The number of bits by which the differences in `firsts` are cut.
    shift: u16,
    /// The differences at which all lines except the first begin, cut to sixteen bits; [`NO_LINE`] after the last. A
    /// cut difference may lead to a line too far, which the search detects in that line. This is rare: it happens only
    /// within 1/65536 of the block before the beginning of a line.
    firsts: [u16; BLOCK_LINES - 1],
}

impl Head {
    /// Returns the header of a block that consists of `lines`, at most 25 of them.
    fn of(base: i64, first_line: u32, lines: &[Line]) -> Self {
        let used = || lines.iter().map(|line| line.ways[0]);
        let furthest = used().next_back().unwrap_or(0);
        let shift = (0..=16).find(|shift| furthest >> shift < u32::from(NO_LINE)).unwrap_or(0);
        let mut firsts = [NO_LINE; BLOCK_LINES - 1];
        for (first, way) in firsts.iter_mut().zip(used().skip(1)) {
            *first = (way >> shift) as u16;
        }
        Self { base, first_line, shift, firsts }
    }

    /// Returns the index after the block's last line.
    #[inline]
    fn end(&self) -> usize {
        let more: u16 = self.firsts.iter().map(|first| u16::from(*first != NO_LINE)).sum();
        self.first_line as usize + 1 + usize::from(more)
    }

    /// Returns the index of the last line that may begin at or before `key`.
    #[inline]
    fn line(&self, key: u32) -> usize {
        let cut = (key >> self.shift).min(u32::from(NO_LINE - 1)) as u16;
        let not_above: u16 = self.firsts.iter().map(|first| u16::from(*first <= cut)).sum();
        self.first_line as usize + usize::from(not_above)
    }
}

/// Some distances of a block, with their times.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
struct Line {
    /// The differences from the block's first distance, doubled, plus one if the distance is joined to the next;
    /// [`UNUSED_ENTRY`] after the last.
    ways: [u32; LINE_DISTANCES],
    times: [u32; LINE_DISTANCES],
}

/// Sixteen entries of a level of the tree, [`UNUSED_DISTANCE`] after the last.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(64))]
struct Group([i32; FAN_OUT]);

/// The position of a distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    block: usize,
    /// The index of the line among those of all blocks.
    line: usize,
    slot: usize,
}

impl Place {
    /// Returns the index of this place among all places; it is less than [`Knots::places`].
    #[inline]
    pub fn index(self) -> usize {
        self.line * LINE_DISTANCES + self.slot
    }
}

impl Knots {
    /// Creates the structure from points in ascending order of distances, none beyond [`DISTANCE_SECTORS_MAX`]. The
    /// points are iterated twice, so that no more memory is allocated than needed.
    pub fn new(knots: impl IntoIterator<Item = CurvePoint, IntoIter: Clone>) -> Self {
        let knots = knots.into_iter();
        let (mut base, mut used) = (None, BLOCK_DISTANCES);
        let begins = |distance: i64, base: Option<i64>, used: usize| {
            let way = base.map_or(u64::MAX, |base| distance.abs_diff(base));
            used == BLOCK_DISTANCES || way >= u64::from(UNUSED_ENTRY >> 1)
        };
        let (mut blocks, mut lines) = (0, 0);
        for CurvePoint { distance, .. } in knots.clone() {
            if begins(distance, base, used) {
                (blocks, base, used) = (blocks + 1, Some(distance), 0);
            }
            lines += usize::from(used.is_multiple_of(LINE_DISTANCES));
            used += 1;
        }
        let mut these =
            Self { heads: Vec::with_capacity(blocks), lines: Vec::with_capacity(lines), ..Self::default() };
        let mut used = BLOCK_DISTANCES;
        for CurvePoint { distance, joined, time } in knots {
            if begins(distance, these.heads.last().map(|head| head.base), used) {
                these.close_block();
                // A table has fewer than 2^32 lines, which would take 256 GB.
                let first_line = these.lines.len() as u32;
                these.heads.push(Head {
                    base: distance,
                    first_line,
                    shift: 0,
                    firsts: [NO_LINE; BLOCK_LINES - 1],
                });
                used = 0;
            }
            if used.is_multiple_of(LINE_DISTANCES) {
                these.lines.push(Line { ways: [UNUSED_ENTRY; LINE_DISTANCES], times: [0; LINE_DISTANCES] });
            }
            let (Some(head), Some(line)) = (these.heads.last(), these.lines.last_mut()) else { continue };
            let way = (distance.abs_diff(head.base) as u32) << 1 | u32::from(joined);
            line.ways[used % LINE_DISTANCES] = way;
            line.times[used % LINE_DISTANCES] = time;
            used += 1;
            these.len += 1;
        }
        these.close_block();
        these.grow_tree();
        these
    }

    /// Writes the header of the last block, whose lines are complete.
    fn close_block(&mut self) {
        if let Some(head) = self.heads.last_mut() {
            *head = Head::of(head.base, head.first_line, &self.lines[head.first_line as usize..]);
        }
    }

    fn grow_tree(&mut self) {
        let (Some(first), Some(last)) = (self.heads.first(), self.heads.last()) else { return };
        let furthest = first.base.unsigned_abs().max(last.base.unsigned_abs());
        self.shift = (64 - furthest.leading_zeros()).saturating_sub(31);
        let mut level: Vec<i32> = self.heads.iter().map(|head| coarse(head.base, self.shift)).collect();
        while level.len() > 1 {
            let above = level.iter().step_by(FAN_OUT).copied().collect();
            let groups = level.chunks(FAN_OUT).map(|some| {
                let mut group = [UNUSED_DISTANCE; FAN_OUT];
                group[..some.len()].copy_from_slice(some);
                Group(group)
            });
            self.levels.push(groups.collect());
            level = above;
        }
        self.levels.reverse();
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of places, used or not: a bound on [`Place::index`].
    pub fn places(&self) -> usize {
        self.lines.len() * LINE_DISTANCES
    }

    /// Returns the place of the last distance that is not above `distance`.
    #[inline]
    pub fn at_or_before(&self, distance: i64) -> Option<Place> {
        let [place] = self.all_at_or_before(&[distance]);
        place
    }

    /// Returns, for each of several distances, the place of the last one that is not above it. Each step of the search
    /// is done for all of them before the next, so that the processor fetches their cache lines concurrently.
    #[inline]
    pub fn all_at_or_before<const N: usize>(&self, distances: &[i64; N]) -> [Option<Place>; N] {
        let distances = distances.map(|distance| distance.clamp(-DISTANCE_SECTORS_MAX, DISTANCE_SECTORS_MAX));
        let keys = distances.map(|distance| coarse(distance, self.shift));
        let mut blocks = [0; N];
        for level in &self.levels {
            for (block, key) in blocks.iter_mut().zip(keys) {
                *block = descend(level, *block, key);
            }
        }
        // This pass only loads, so that all headers are being fetched before the first one is searched.
        let bases = blocks.map(|block| self.heads.get(block).map_or(i64::MAX, |head| read(head).base));
        let mut lines = [0; N];
        let mut keys = [0; N];
        for i in 0..N {
            (blocks[i], lines[i], keys[i]) = self.in_head((blocks[i], bases[i]), distances[i]);
        }
        // The lines, too, are all being fetched before the first one is searched.
        let firsts = lines.map(|line| self.first_way(line));
        std::array::from_fn(|i| {
            let (line, slot) = self.in_line((lines[i], firsts[i]), keys[i]);
            (keys[i] != BEFORE_ALL && self.len > 0).then_some(Place { block: blocks[i], line, slot })
        })
    }

    #[inline]
    fn first_way(&self, line: usize) -> u32 {
        self.lines.get(line).map_or(0, |line| read(line).ways[0])
    }

    /// Returns the block and the line in which to search for `distance`, and the key to compare with the line's
    /// differences; the tree has led to `block`, which begins at `base`.
    #[inline]
    fn in_head(&self, (mut block, mut base): (usize, i64), distance: i64) -> (usize, usize, u32) {
        if base > distance {
            // Several blocks have equal entries in the tree.
            let before = self.heads.partition_point(|head| head.base <= distance);
            let Some(found) = before.checked_sub(1) else { return (0, 0, BEFORE_ALL) };
            (block, base) = (found, self.heads.get(found).map_or(i64::MAX, |head| head.base));
        }
        let key = way_to(distance, base);
        (block, self.heads.get(block).map_or(0, |head| read(head).line(key)), key)
    }

    /// Returns the line and the slot of the last entry that is not above `key`: in `line`, which begins at `first`, or
    /// in a line before it.
    #[inline]
    fn in_line(&self, (mut line, mut first): (usize, u32), key: u32) -> (usize, usize) {
        // A block's first entry is never above a key in that block.
        while first > key && line > 0 {
            line -= 1;
            first = self.first_way(line);
        }
        let not_above = self.lines.get(line).map_or(0, |line| {
            let ways = &read(line).ways;
            ways.iter().map(|way| u32::from(*way <= key)).sum::<u32>()
        });
        (line, (not_above as usize).saturating_sub(1))
    }

    /// Returns the place of the first distance.
    pub fn first(&self) -> Option<Place> {
        (self.len > 0).then_some(Place { block: 0, line: 0, slot: 0 })
    }

    /// Returns the place of the next distance.
    #[inline]
    pub fn next(&self, place: Place) -> Option<Place> {
        let Place { block, line, slot } = place;
        if slot + 1 < LINE_DISTANCES && read(&self.lines[line]).ways[slot + 1] != UNUSED_ENTRY {
            return Some(Place { block, line, slot: slot + 1 });
        }
        let block = block + usize::from(line + 1 >= read(&self.heads[block]).end());
        (line + 1 < self.lines.len()).then_some(Place { block, line: line + 1, slot: 0 })
    }

    /// Returns the point at a place.
    #[inline]
    pub fn get(&self, place: Place) -> CurvePoint {
        let line = read(&self.lines[place.line]);
        let way = line.ways[place.slot];
        CurvePoint {
            distance: read(&self.heads[place.block]).base + i64::from(way >> 1),
            joined: way & 1 == 1,
            time: line.times[place.slot],
        }
    }

    /// Iterates over all places, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Place> + '_ {
        std::iter::successors(self.first(), |place| self.next(*place))
    }

    /// Returns the memory of the structure, in bytes.
    pub fn memory(&self) -> usize {
        self.heads.capacity() * size_of::<Head>()
            + self.lines.capacity() * size_of::<Line>()
            + self.levels.capacity() * size_of::<Vec<Group>>()
            + self.levels.iter().map(Vec::capacity).sum::<usize>() * size_of::<Group>()
    }

    /// Returns the most bytes that `len` distances take, during and after construction; the first and the last of them
    /// are `span` apart.
    pub fn most_memory(len: u64, span: u64) -> u64 {
        let blocks = Self::most_blocks(len, span);
        // The tree has a group for each sixteen entries of each level, one group of a level may not be full, and its
        // construction needs the entries of the lowest two levels.
        let tree = size_of::<Group>().div_ceil(FAN_OUT - 1) + 2 * size_of::<i32>();
        let levels = 16 * (size_of::<Group>() + size_of::<Vec<Group>>());
        let lines = Self::most_places(len, span) / LINE_DISTANCES as u64;
        blocks
            .saturating_mul((size_of::<Head>() + tree) as u64)
            .saturating_add(lines.saturating_mul(size_of::<Line>() as u64))
            .saturating_add(levels as u64)
    }

    /// Returns the least bytes that `len` distances take.
    pub fn least_memory(len: u64) -> u64 {
        let (lines, heads) = (len.div_ceil(LINE_DISTANCES as u64), len.div_ceil(BLOCK_DISTANCES as u64));
        (lines * size_of::<Line>() as u64).saturating_add(heads * size_of::<Head>() as u64)
    }

    /// Returns the most [`places`](Self::places) of `len` distances.
    pub fn most_places(len: u64, span: u64) -> u64 {
        // All lines are full except the last ones of blocks.
        let lines = (len / LINE_DISTANCES as u64).saturating_add(Self::most_blocks(len, span));
        lines.saturating_mul(LINE_DISTANCES as u64)
    }

    fn most_blocks(len: u64, span: u64) -> u64 {
        // Some blocks end because they are full, others because the next distance is too far.
        let far = (span / u64::from(UNUSED_ENTRY >> 1)).min(len);
        (len / BLOCK_DISTANCES as u64).saturating_add(far).saturating_add(1)
    }
}

/// Returns the index of the group or block below the group at `at` in which `key` is.
#[inline]
fn descend(level: &[Group], at: usize, key: i32) -> usize {
    // Counting all sixteen entries takes no branch that could be mispredicted, and is done four at a time.
    let not_above = level
        .get(at)
        .map(read)
        .map_or(0, |Group(group)| group.iter().map(|k| u32::from(*k <= key)).sum::<u32>());
    at * FAN_OUT + (not_above as usize).saturating_sub(1)
}

/// Returns the key that is compared with the differences of a block that begins at `base`. The key is at least the
/// entry of the last distance that is not above `distance`, whether joined or not.
#[inline]
fn way_to(distance: i64, base: i64) -> u32 {
    let way = u32::try_from(distance.abs_diff(base)).unwrap_or(UNUSED_ENTRY).min(UNUSED_ENTRY >> 1);
    (way << 1 | 1).min(UNUSED_ENTRY - 1)
}

/// Reads memory. Every read of a search goes through this function, so that a test can count the cache lines.
#[inline(always)]
fn read<T>(from: &T) -> &T {
    #[cfg(test)]
    tests::note(from);
    from
}

/// Returns a distance without its lowest `shift` bits; the result is below [`UNUSED_DISTANCE`].
#[inline]
fn coarse(distance: i64, shift: u32) -> i32 {
    (distance >> shift).clamp(i64::from(i32::MIN), i64::from(UNUSED_DISTANCE - 1)) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distance::{Distance, Pair};
    use crate::summary::{Metric, Samples};
    use crate::table::{Table, TableBuilder};
    use proptest::prelude::*;
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use units::Duration;
    use workload::random::Stream;

    thread_local! {
        /// The cache lines that were read since a test began to count them.
        static READ: RefCell<Option<BTreeSet<usize>>> = const { RefCell::new(None) };
    }

    /// Records the cache lines of a value that is being read.
    pub(super) fn note<T>(from: &T) {
        READ.with_borrow_mut(|lines| {
            let Some(lines) = lines else { return };
            let first = std::ptr::from_ref(from).addr();
            lines.extend(first / 64..=(first + size_of::<T>() - 1) / 64);
        });
    }

    /// Returns the number of cache lines that a search reads.
    fn lines_of<T>(question: impl FnOnce() -> T) -> usize {
        READ.with_borrow_mut(|lines| *lines = Some(BTreeSet::new()));
        question();
        READ.with_borrow_mut(Option::take).map_or(0, |lines| lines.len())
    }

    fn table_of(distances: impl IntoIterator<Item = i64>) -> Table {
        let mut builder = TableBuilder::new(Metric::Mean, 1);
        for distance in distances {
            let samples: Samples =
                [Duration::from_micros(2_000 + distance.unsigned_abs() % 7_000)].into_iter().collect();
            builder.push(Pair::ALL[0], Distance::new(distance), &samples, true);
        }
        builder.build()
    }

    proptest! {
        #[test]
        fn the_search_finds_what_an_ordered_set_finds(
            near in prop::collection::btree_set(-3_000..3_000i64, 0..600),
            clump in -DISTANCE_SECTORS_MAX + 200..DISTANCE_SECTORS_MAX - 200,
            beside in prop::collection::btree_set(-90..90i64, 0..60),
            far in prop::collection::btree_set(-DISTANCE_SECTORS_MAX..=DISTANCE_SECTORS_MAX, 0..40),
            asked in prop::collection::vec(any::<i64>(), 20),
        ) {
            let mut set: BTreeSet<i64> = near.union(&far).copied().collect();
            set.extend(beside.iter().map(|d| clump + d));
            let odd = |d: i64| d % 3 == 0;
            let point = |(i, d): (usize, &i64)| CurvePoint { distance: *d, joined: odd(*d), time: i as u32 };
            let knots = Knots::new(set.iter().enumerate().map(point));
            prop_assert_eq!(knots.len(), set.len());
            let span = set.last().zip(set.first()).map_or(0, |(last, first)| last.abs_diff(*first));
            prop_assert!(knots.memory() as u64 <= Knots::most_memory(set.len() as u64, span));
            let all: Vec<CurvePoint> = knots.iter().map(|place| knots.get(place)).collect();
            let expected: Vec<CurvePoint> = set.iter().enumerate().map(point).collect();
            prop_assert_eq!(all, expected);
            let places: BTreeSet<usize> = knots.iter().map(Place::index).collect();
            prop_assert!(places.len() == set.len() && places.last().is_none_or(|last| *last < knots.places()));
            let beside = set.iter().flat_map(|d| [d - 1, *d, d + 1]);
            for distance in asked.into_iter().chain(beside).chain([i64::MIN, i64::MAX]) {
                let found = knots.at_or_before(distance);
                let before = set.range(..=distance).next_back();
                prop_assert_eq!(found.map(|place| knots.get(place).distance), before.copied(), "at {}", distance);
                let after = found.and_then(|place| knots.next(place)).map(|place| knots.get(place).distance);
                let beside = [distance.wrapping_add(7), distance, distance / 2, 1];
                let alone = beside.map(|distance| knots.at_or_before(distance));
                prop_assert_eq!(knots.all_at_or_before(&beside), alone);
                if let Some(before) = before {
                    prop_assert_eq!(after, set.range(before + 1..).next().copied());
                }
            }
        }
    }

    /// The cost of a prediction if no cache holds the table: cache lines of distances and times. The tree and the
    /// headers take at most a twentieth of the memory.
    #[test]
    fn a_question_reads_few_cache_lines() {
        let mut random = Stream::new(5, "lines");
        let drive = 18_000_000i64;
        let even: Vec<i64> = (0..1_000_000).map(|i| i * 36 - drive).collect();
        // These distances are like those of random check points: the same number in each doubling.
        let mut spread: Vec<i64> = Vec::new();
        for doubling in 3..35 {
            let way =
                |random: &mut Stream| (1i64 << doubling) + (random.next_u64() >> (64 - doubling)) as i64;
            spread.extend((0..30_000u64.min(1 << doubling)).map(|_| way(&mut random)));
        }
        spread.extend(spread.clone().iter().map(|d| -d));
        spread.sort_unstable();
        spread.dedup();
        for (distances, reach) in [(even, drive), (spread, 1 << 35)] {
            assert!(distances.len() >= 1_000_000);
            let table = table_of(distances.iter().copied());
            let knots =
                Knots::new(distances.iter().map(|d| CurvePoint { distance: *d, joined: true, time: 1 }));
            let lines = knots.lines.len() * size_of::<Line>();
            assert!((knots.memory() - lines) * 20 < knots.memory(), "{lines} of {}", knots.memory());
            let above = knots.levels.len();
            let (mut sum, mut most, questions) = (0, 0, 20_000);
            for _ in 0..questions {
                let distance = (random.next_u64() % (2 * reach as u64)) as i64 - reach;
                let read = lines_of(|| table.time(Pair::ALL[0], Distance::new(distance), 0).unwrap());
                sum += read;
                most = most.max(read);
            }
            // A search reads a cache line of each level, a header and a line; the next distance may be in the next
            // line, which may be in the next block.
            assert!(most <= above + 4, "{most} lines at most, {above} levels");
            let mean = sum as f64 / f64::from(questions);
            assert!(mean <= above as f64 + 2.2, "{mean} lines, {above} levels");
        }
    }

    #[test]
    fn heads_lines_and_groups_are_cache_lines() {
        assert_eq!((size_of::<Head>(), size_of::<Line>(), size_of::<Group>()), (64, 64, 64));
        assert_eq!((align_of::<Head>(), align_of::<Line>(), align_of::<Group>()), (64, 64, 64));
        let knots =
            Knots::new((0..1_000_000).map(|i| CurvePoint { distance: i * 9_000, joined: true, time: 7 }));
        assert!(knots.memory() < 1_000_000 * 9, "{}", knots.memory());
    }
}
