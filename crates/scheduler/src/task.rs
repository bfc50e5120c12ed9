//! One registered range of blocks, with its wanted and half-read blocks.
//!
//! A block that lies in one extent of one track is read whole. A block that straddles two tracks, a slipped or a remapped sector,
//! or that is longer than a quarter of its track (more than a usual gap), is read in pieces, which wait until the block is
//! complete.

use crate::block_set::BlockSet;
use crate::sessions::Parameter;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use model::Extent;
use units::{Lbn, LbnRange, Op, Sectors, TaskId};

/// A wanted part of a track: a whole block, or a piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    pub block: u64,
    /// The first sector of the piece, counted from the block's first.
    pub offset: u32,
    /// The number of sectors in the piece.
    pub sectors: u32,
    /// The first sector of the piece on the track.
    pub sector: u32,
    /// Whether the piece is the whole block.
    pub whole: bool,
}

impl Item {
    fn piece(&self) -> BlockPiece {
        BlockPiece { offset: self.offset, sectors: self.sectors }
    }
}

/// The state of a block from which an item was taken.
#[derive(Clone, Debug)]
pub(crate) struct Took {
    /// Whether the block is complete with the item.
    pub completes: bool,
    /// The pieces of the block before the item was taken, for [`Task::untake`].
    pub had: Vec<BlockPiece>,
}

/// A piece of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockPiece {
    /// The first sector of the piece, counted from the block's first.
    pub offset: u32,
    pub sectors: u32,
}

impl BlockPiece {
    #[inline]
    fn end(self) -> u32 {
        self.offset + self.sectors
    }
}

/// The registration of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewTask {
    pub op: Op,
    pub range: LbnRange,
    /// The sectors of a block, not zero; the last block may be shorter.
    pub block: Sectors,
    pub parameter: Parameter,
}

#[cfg(test)]
impl NewTask {
    pub fn of(op: Op, range: LbnRange, block: u64) -> Self {
        Self { op, range, block: Sectors::new(block), parameter: Parameter::default() }
    }
}

/// The part of an extent that lies in a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ExtentWindow {
    pub extent: Extent,
    pub range: LbnRange,
    /// The length of the extent's track.
    pub track_sectors: u32,
}

/// Returns the LBNs of an extent.
#[inline]
pub(crate) fn lbns_of(extent: Extent) -> LbnRange {
    LbnRange::new(extent.lbn, Sectors::new(extent.len.into()))
}

/// A task of a session.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub id: TaskId,
    pub op: Op,
    pub parameter: Parameter,
    range: LbnRange,
    block: u64,
    /// `log2(block)` if that is an integer: most block sizes are powers of two, and a shift is faster than a division.
    shift: Option<u32>,
    wanted: BlockSet,
    /// The pieces of incomplete blocks that have been read or written, ascending and not touching each other.
    partial: BTreeMap<u64, Vec<BlockPiece>>,
    /// The keys of `partial`, for a fast look-up.
    begun: BlockSet,
    /// The number of blocks not yet delivered, those under way included.
    pub undelivered: u64,
}

/// The part of a window in an extent.
enum WindowPart {
    /// Blocks `from..to`, each whole.
    Blocks(u64, u64),
    /// A piece of a block.
    Piece(u64, BlockPiece),
}

impl Task {
    /// Returns a task that wants every block of its range.
    pub fn new(id: TaskId, new: NewTask) -> Self {
        let NewTask { op, range, block, parameter } = new;
        let block = block.get();
        let blocks = range.len().get().div_ceil(block);
        Self {
            id,
            op,
            parameter,
            range,
            block,
            shift: block.is_power_of_two().then(|| block.trailing_zeros()),
            wanted: BlockSet::full(blocks),
            partial: BTreeMap::new(),
            begun: BlockSet::empty(blocks),
            undelivered: blocks,
        }
    }

    /// Returns whether no block waits to be chosen.
    pub fn is_exhausted(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Returns all LBNs of the task, delivered or not.
    pub fn range(&self) -> LbnRange {
        self.range
    }

    /// Returns the first LBN of the first block that waits to be chosen, whole or in pieces.
    pub fn first_wanted(&self) -> Option<Lbn> {
        self.wanted.next(0).map(|block| self.block_range(block).start())
    }

    /// Returns the number of half-read blocks, which wait in memory. Writes have none.
    pub fn partials(&self) -> usize {
        if self.op.is_write() { 0 } else { self.partial.len() }
    }

    /// Returns the LBNs of a block.
    pub fn block_range(&self, block: u64) -> LbnRange {
        let offset = block * self.block;
        let len = self.block.min(self.range.len().get() - offset);
        LbnRange::new(self.range.start() + Sectors::new(offset), Sectors::new(len))
    }

    pub fn item_range(&self, item: &Item) -> LbnRange {
        let start = self.block_range(item.block).start() + Sectors::new(item.offset.into());
        LbnRange::new(start, Sectors::new(item.sectors.into()))
    }

    pub fn memory_bytes(&self) -> usize {
        let pieces: usize = self.partial.values().map(|p| p.capacity() * 8 + 48).sum();
        self.wanted.memory_bytes() + self.begun.memory_bytes() + pieces
    }

    /// Returns an upper bound on the task's wanted sectors in an extent, which costs little.
    pub fn bound(&self, extent: Extent) -> u64 {
        let Range { start: low, end: high } = self.clip(lbns_of(extent));
        if low >= high {
            return 0;
        }
        let (first, last) = (self.floor(low), self.ceil(high));
        let blocks = self.wanted.count(first, last);
        let bound = (blocks * self.block).min(high - low);
        // Few tracks have half-read blocks: a look into the bit set costs a cache line, a search in the tree many.
        if self.begun.count(first, last) == 0 {
            return bound;
        }
        // Pieces that were read or written are not wanted again.
        let within = |from: u64, to: u64| to.min(high).saturating_sub(from.max(low));
        let (mut begun, mut rest) = (0, 0);
        for (&block, got) in self.partial.range(first..last) {
            let start = block * self.block;
            let there: u64 = got
                .iter()
                .map(|piece| within(start + u64::from(piece.offset), start + u64::from(piece.end())))
                .sum();
            begun += 1;
            rest += within(start, start + self.block) - there;
        }
        ((blocks - begun) * self.block + rest).min(high - low)
    }

    /// Returns the number of wanted sectors in a window: of whole blocks, and of pieces of blocks that are already half read, or
    /// that `begin` allows to become half read.
    #[inline]
    pub fn score(&self, window: ExtentWindow, begin: bool) -> u64 {
        let mut sum = 0;
        self.parts(window, |part| match part {
            WindowPart::Blocks(from, to) => sum += self.sectors_wanted(from, to),
            WindowPart::Piece(block, piece) => {
                if self.wants_piece(block, piece, begin) {
                    sum += u64::from(piece.sectors);
                }
            }
        });
        sum
    }

    /// Returns the number of sectors of the wanted blocks among `from..to`.
    #[inline]
    fn sectors_wanted(&self, from: u64, to: u64) -> u64 {
        let sectors = self.wanted.count(from, to) * self.block;
        // The task's last block may be short.
        if to == self.wanted.blocks() && self.wanted.contains(to - 1) {
            sectors - (self.block - self.block_range(to - 1).len().get())
        } else {
            sectors
        }
    }

    /// Calls `each` with the items of [`score`](Self::score), in no order.
    pub fn items(&self, window: ExtentWindow, begin: bool, mut each: impl FnMut(Item)) {
        let extent = window.extent;
        let sector_of = |block: u64, offset: u32| {
            let lbn = self.range.start().get() + block * self.block + u64::from(offset);
            extent.sector + (lbn - extent.lbn.get()) as u32
        };
        self.parts(window, |part| match part {
            WindowPart::Blocks(from, to) => self.wanted.for_each(from, to, |block| {
                let sectors = self.block_range(block).len().get() as u32;
                each(Item { block, offset: 0, sectors, sector: sector_of(block, 0), whole: true });
            }),
            WindowPart::Piece(block, piece) => {
                if self.wants_piece(block, piece, begin) {
                    let BlockPiece { offset, sectors } = piece;
                    let sector = sector_of(block, offset);
                    each(Item { block, offset, sectors, sector, whole: false });
                }
            }
        });
    }

    /// Takes an item that is about to be transferred.
    pub fn take(&mut self, item: &Item) -> Took {
        let begun = self.begun.contains(item.block);
        if item.whole {
            let had = if begun { self.partial.remove(&item.block).unwrap_or_default() } else { Vec::new() };
            self.begun.remove(item.block);
            return Took { completes: self.wanted.remove(item.block), had };
        }
        let had = if begun { self.partial.get(&item.block).cloned().unwrap_or_default() } else { Vec::new() };
        Took { completes: self.add_piece(item.block, item.piece()), had }
    }

    /// Adds a piece of a block. Returns whether the block is complete with it.
    fn add_piece(&mut self, block: u64, piece: BlockPiece) -> bool {
        let whole = self.whole(block);
        self.begun.insert(block);
        let got = self.partial.entry(block).or_default();
        let at = got.partition_point(|other| other.offset < piece.offset);
        got.insert(at, piece);
        got.dedup_by(|next, previous| {
            let touch = previous.end() >= next.offset;
            if touch {
                previous.sectors = previous.end().max(next.end()) - previous.offset;
            }
            touch
        });
        if got.as_slice() == [whole] {
            self.forget_partial(block);
            return self.wanted.remove(block);
        }
        false
    }

    /// Puts an item back into the wanted set, because it was not transferred; `before` are the pieces of its block before the
    /// item was taken. Pieces that were added since then stay.
    pub fn untake(&mut self, item: &Item, before: &[BlockPiece]) {
        let block = item.block;
        let there = match self.wanted.insert(block) {
            true => vec![self.whole(block)],
            false => self.partial.get(&block).cloned().unwrap_or_default(),
        };
        self.forget_partial(block);
        let taken = item.piece();
        for piece in there {
            let (start, end) = (piece.offset, piece.end());
            for (offset, end) in [(start, end.min(taken.offset)), (start.max(taken.end()), end)] {
                if offset < end {
                    self.add_piece(block, BlockPiece { offset, sectors: end - offset });
                }
            }
        }
        for &piece in before {
            self.add_piece(block, piece);
        }
    }

    /// Returns the piece that is all of a block.
    fn whole(&self, block: u64) -> BlockPiece {
        BlockPiece { offset: 0, sectors: self.block_range(block).len().get() as u32 }
    }

    /// Calls `each` with the wanted blocks that share a sector with `range`.
    pub fn touching(&self, range: LbnRange, mut each: impl FnMut(u64)) {
        let Range { start: low, end: high } = self.clip(range);
        if low < high {
            self.wanted.for_each(self.floor(low), self.ceil(high), &mut each);
        }
    }

    /// Returns the first run of wanted blocks from block `from` on that share a sector with `range`.
    pub fn run(&self, from: u64, range: LbnRange) -> Option<Range<u64>> {
        let Range { start: low, end: high } = self.clip(range);
        if low >= high {
            return None;
        }
        self.wanted.run(from.max(self.floor(low)), self.ceil(high))
    }

    /// Returns the number of blocks of `from..to` that end within `most` sectors after `start`; at least one.
    pub fn blocks_before(&self, from: u64, to: u64, start: Lbn, most: u64) -> u64 {
        let limit = start.get().saturating_add(most).saturating_sub(self.range.start().get());
        let fit = if limit >= self.range.len().get() { to } else { self.floor(limit).min(to) };
        fit.saturating_sub(from).max(1)
    }

    /// Stops wanting the blocks that share a sector with `range`. Returns their number.
    pub fn give_up_all(&mut self, range: LbnRange) -> u64 {
        let Range { start: low, end: high } = self.clip(range);
        if low >= high {
            return 0;
        }
        let (first, last) = (self.floor(low), self.ceil(high));
        while let Some((&block, _)) = self.partial.range(first..last).next() {
            self.forget_partial(block);
        }
        self.wanted.remove_range(first, last)
    }

    /// Stops wanting a block. Returns whether it was wanted.
    pub fn give_up(&mut self, block: u64) -> bool {
        self.forget_partial(block);
        self.wanted.remove(block)
    }

    /// Records a write to `range`, whose part of `block` need not be written again. Returns that part and the block's state;
    /// `None` if the whole part was already written.
    pub fn supersede(&mut self, block: u64, range: LbnRange) -> Option<(Item, Took)> {
        let whole = self.block_range(block);
        let (from, to) = (range.start().max(whole.start()), range.end().min(whole.end()));
        let offset = (from.get() - whole.start().get()) as u32;
        let sectors = (to.get() - from.get()) as u32;
        let item = Item { block, offset, sectors, sector: 0, whole: false };
        let mut any = false;
        self.missing(&item, |_| any = true);
        any.then(|| (item, self.take(&item)))
    }

    /// Returns whether a block, or a part of it, is still to be chosen.
    pub fn is_wanted(&self, block: u64) -> bool {
        self.wanted.contains(block)
    }

    /// Calls `each` with the pieces of an item that were not read or written yet.
    pub fn missing(&self, item: &Item, mut each: impl FnMut(BlockPiece)) {
        let (mut offset, end) = (item.offset, item.piece().end());
        if self.begun.contains(item.block) {
            for piece in self.partial.get(&item.block).into_iter().flatten() {
                if piece.offset > offset && offset < end {
                    each(BlockPiece { offset, sectors: piece.offset.min(end) - offset });
                }
                offset = offset.max(piece.end());
            }
        }
        if offset < end {
            each(BlockPiece { offset, sectors: end - offset });
        }
    }

    fn forget_partial(&mut self, block: u64) {
        if self.begun.remove(block) {
            self.partial.remove(&block);
        }
    }

    fn wants_piece(&self, block: u64, piece: BlockPiece, begin: bool) -> bool {
        if !self.wanted.contains(block) {
            return false;
        }
        let begin = begin || self.op.is_write();
        if !self.begun.contains(block) {
            return begin;
        }
        let Some(got) = self.partial.get(&block) else { return begin };
        let after = got.partition_point(|other| other.offset <= piece.offset);
        let before = after.checked_sub(1).and_then(|i| got.get(i));
        before.is_none_or(|before| before.end() < piece.end())
    }

    /// Calls `each` with the parts of a window.
    #[inline]
    fn parts(&self, window: ExtentWindow, mut each: impl FnMut(WindowPart)) {
        // The part of the task in the extent, and the part of that in the window, as offsets in the task.
        let Range { start: low, end: high } = self.clip(lbns_of(window.extent));
        let Range { start: from, end: to } = self.clip(window.range);
        if low >= high || from >= to {
            return;
        }
        let longest = u64::from((window.track_sectors / 4).max(1));
        if self.block > longest {
            self.long_parts(low, high, from, to, longest, each);
            return;
        }
        let (first, last) = (self.ceil(low), self.last_whole(high));
        let (a, b) = (first.max(self.ceil(from)), last.min(self.last_whole(to)));
        if a < b {
            each(WindowPart::Blocks(a, b));
        }
        // The piece before the first whole block, and the piece after the last one. If the extent lies inside a single
        // block, only one of the conditions holds.
        let head_end = (first * self.block).min(high);
        if low < head_end && from <= low && to >= head_end {
            let block = first - 1;
            let offset = (low - block * self.block) as u32;
            each(WindowPart::Piece(block, BlockPiece { offset, sectors: (head_end - low) as u32 }));
        }
        let tail = last * self.block;
        if first <= last && tail < high && from <= tail && to >= high {
            each(WindowPart::Piece(last, BlockPiece { offset: 0, sectors: (high - tail) as u32 }));
        }
    }

    fn long_parts(
        &self,
        low: u64,
        high: u64,
        from: u64,
        to: u64,
        longest: u64,
        mut each: impl FnMut(WindowPart),
    ) {
        let mut block = low / self.block;
        while block * self.block < high.min(to) {
            let start = block * self.block;
            let (begin, end) = (start.max(low), (start + self.block).min(high));
            // Pieces are counted from the block's first sector in the extent, so that they do not depend on the window.
            let mut at = begin + from.saturating_sub(begin).div_ceil(longest) * longest;
            while at < end {
                let stop = (at + longest).min(end);
                if stop > to {
                    break;
                }
                let piece = BlockPiece { offset: (at - start) as u32, sectors: (stop - at) as u32 };
                each(WindowPart::Piece(block, piece));
                at = stop;
            }
            block += 1;
        }
    }

    /// Returns LBNs as offsets in the task, clipped to the task's range.
    #[inline]
    fn clip(&self, range: LbnRange) -> Range<u64> {
        let offset =
            |lbn: Lbn| lbn.get().saturating_sub(self.range.start().get()).min(self.range.len().get());
        offset(range.start())..offset(range.end())
    }

    #[inline]
    fn floor(&self, offset: u64) -> u64 {
        match self.shift {
            Some(shift) => offset >> shift,
            None => offset / self.block,
        }
    }

    #[inline]
    fn ceil(&self, offset: u64) -> u64 {
        match self.shift {
            Some(shift) => (offset + self.block - 1) >> shift,
            None => offset.div_ceil(self.block),
        }
    }

    /// Returns one more than the last block that ends at or before `offset`. The task's last block may be short.
    #[inline]
    fn last_whole(&self, offset: u64) -> u64 {
        if offset == self.range.len().get() { self.ceil(offset) } else { self.floor(offset) }
    }
}
