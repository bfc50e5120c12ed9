//! The plan of a reorganisation: the blocks and their destinations.

use crate::codec::{Cursor, seal, unseal};
use scheduler::BLOCK_SECTORS_MAX;
use units::{Lbn, LbnRange, Sectors};

/// The most blocks of a plan: 2 TiB of 8 KiB blocks. Links between blocks are 32 bits wide.
pub const PLAN_BLOCKS_MAX: usize = 1 << 28;

/// The block number that stands for "no block".
pub const NONE: u32 = u32::MAX;

const MAGIC: [u8; 8] = *b"fb-plan\0";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 8 + 4 + 8 + 8 + 8;

/// A range that moves, block by block; its last block is shorter if the range is no multiple of the block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The source.
    pub from: LbnRange,
    /// The first LBN of the destination.
    pub to: Lbn,
}

/// A block that moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub from: u64,
    pub to: u64,
    pub sectors: u32,
}

impl Block {
    pub fn source(&self) -> LbnRange {
        LbnRange::new(Lbn::new(self.from), Sectors::new(self.sectors.into()))
    }

    pub fn destination(&self) -> LbnRange {
        LbnRange::new(Lbn::new(self.to), Sectors::new(self.sectors.into()))
    }
}

/// A relocation of blocks: no two have the same destination, and no live data are overwritten unless they move
/// themselves.
///
/// ```
/// use freeblock_apps::reorganizer::{Move, RelocationPlan};
/// use units::{Lbn, LbnRange, Sectors};
/// let range = |start, len| LbnRange::new(Lbn::new(start), Sectors::new(len));
/// let swap = [
///     Move { from: range(0, 16), to: Lbn::new(64) },
///     Move { from: range(64, 16), to: Lbn::new(0) },
/// ];
/// let plan = RelocationPlan::new(Sectors::new(8), Sectors::new(100), &swap, &[])?;
/// assert_eq!(plan.len(), 4);
/// # Ok::<(), freeblock_apps::reorganizer::RelocationPlanError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelocationPlan {
    block: Sectors,
    capacity: Sectors,
    /// The blocks that move, by source.
    blocks: Vec<Block>,
    /// For each block, the block whose place it takes, or [`NONE`]. Computed with the plan, so that a start is short.
    ahead: Vec<u32>,
}

/// The reason for which a plan was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelocationPlanError {
    /// The block size is 0, or too large for any buffer.
    #[error("a block size of {0} sectors; give 1 to {BLOCK_SECTORS_MAX}")]
    BlockSize(Sectors),
    /// A move has no sectors.
    #[error("a move from LBN {0} has no sectors; remove the move")]
    EmptyMove(Lbn),
    /// The plan has more blocks than links can address.
    #[error("the plan has more than {PLAN_BLOCKS_MAX} blocks; move less at a time, or larger blocks")]
    TooManyBlocks,
    /// A source or destination is past the end of the drive.
    #[error("LBNs {range} end past the drive's last LBN; the drive has {capacity} sectors")]
    PastEnd {
        /// The source or destination.
        range: LbnRange,
        /// Sectors of the drive.
        capacity: Sectors,
    },
    /// Two moves have a source sector in common.
    #[error("LBN {0} is moved twice; a sector has one destination")]
    SourceTwice(Lbn),
    /// Two blocks have the same destination.
    #[error("two blocks go to LBN {0}; give one of them another place")]
    DestinationTwice(Lbn),
    /// A destination overlaps several sources: the block would depend on more than one.
    #[error(
        "the block for LBNs {destination} overlaps the block at LBNs {source_block} in part; align moves to each other"
    )]
    Straddles {
        /// The destination.
        destination: LbnRange,
        /// The source that the destination overlaps in part.
        source_block: LbnRange,
    },
    /// A destination has live data that do not move.
    #[error("LBN {0} is a destination, holds live data and does not move; move it too, or name it as free")]
    Live(Lbn),
    /// A random plan was to have more blocks than the region has places.
    #[error("{count} blocks for {places} places; give at most {places} blocks")]
    Count {
        /// The requested number of blocks.
        count: u64,
        /// The places in the region.
        places: u64,
    },
    /// The bytes are not an encoded plan of this version, or are damaged.
    #[error("the file is no plan of this version, or is damaged at byte {0}; make the plan anew")]
    Encoding(usize),
}

impl RelocationPlan {
    /// Creates a plan of `moves` in blocks of `block` sectors on a drive of `capacity` sectors. Places outside of all
    /// moves have live data, except those in `free`. A move to its own source keeps that place occupied.
    ///
    /// # Errors
    /// Any [`RelocationPlanError`] except `Count` and `Encoding`.
    pub fn new(
        block: Sectors,
        capacity: Sectors,
        moves: &[Move],
        free: &[LbnRange],
    ) -> Result<Self, RelocationPlanError> {
        if block.get() == 0 || block.get() > BLOCK_SECTORS_MAX {
            return Err(RelocationPlanError::BlockSize(block));
        }
        let mut blocks = split(block, capacity, moves)?;
        blocks.sort_unstable_by_key(|b| b.from);
        if let Some(pair) = blocks.windows(2).find(|p| p[0].source().end() > p[1].source().start()) {
            return Err(RelocationPlanError::SourceTwice(Lbn::new(pair[1].from)));
        }
        let mut by_destination: Vec<&Block> = blocks.iter().collect();
        by_destination.sort_unstable_by_key(|b| b.to);
        if let Some(pair) =
            by_destination.windows(2).find(|p| p[0].destination().end() > p[1].destination().start())
        {
            return Err(RelocationPlanError::DestinationTwice(Lbn::new(pair[1].to)));
        }
        let free = merged(free);
        for b in &by_destination {
            vacant(&blocks, &free, b)?;
        }
        blocks.retain(|b| b.from != b.to);
        let ahead = Self::whose_places(&blocks);
        Ok(Self { block, capacity, blocks, ahead })
    }

    /// Returns the number of blocks that move.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Returns whether nothing moves.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Returns the sectors of a block; the last of a move may have fewer.
    pub fn block(&self) -> Sectors {
        self.block
    }

    /// Returns the sectors of the drive.
    pub fn capacity(&self) -> Sectors {
        self.capacity
    }

    /// Iterates over the blocks that move, by source: source and first LBN of the destination.
    pub fn moves(&self) -> impl Iterator<Item = Move> {
        self.blocks.iter().map(|b| Move { from: b.source(), to: Lbn::new(b.to) })
    }

    pub(super) fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Returns for each block the one whose place it takes, or [`NONE`].
    pub(super) fn ahead(&self) -> &[u32] {
        &self.ahead
    }

    /// Returns the plan as bytes, with version and checksum. Recovery needs the plan beside the staging area, unless
    /// it can be generated again.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES + self.blocks.len() * 20 + 4);
        bytes.extend(MAGIC);
        bytes.extend(VERSION.to_le_bytes());
        for n in [self.block.get(), self.capacity.get(), self.blocks.len() as u64] {
            bytes.extend(n.to_le_bytes());
        }
        for b in &self.blocks {
            bytes.extend(b.from.to_le_bytes());
            bytes.extend(b.to.to_le_bytes());
            bytes.extend(b.sectors.to_le_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    /// Decodes bytes of [`encode`](Self::encode), and validates the plan again, except for live data.
    ///
    /// # Errors
    /// [`RelocationPlanError::Encoding`], or an error of [`RelocationPlan::new`].
    pub fn decode(bytes: &[u8]) -> Result<Self, RelocationPlanError> {
        let bad = RelocationPlanError::Encoding;
        let body = unseal(bytes).ok_or(bad(bytes.len().saturating_sub(4)))?;
        let mut rest = Cursor::new(body);
        if rest.take(MAGIC.len()) != Some(MAGIC.as_slice()) {
            return Err(bad(0));
        }
        if rest.u32() != Some(VERSION) {
            return Err(bad(8));
        }
        let mut number = || rest.u64().ok_or(bad(body.len()));
        let (block, capacity, count) = (number()?, number()?, number()?);
        if count > PLAN_BLOCKS_MAX as u64 || rest.left() as u64 != count * 20 {
            return Err(bad(HEAD_BYTES - 8));
        }
        let mut blocks = Vec::with_capacity(count as usize);
        while let (Some(from), Some(to), Some(sectors)) = (rest.u64(), rest.u64(), rest.u32()) {
            blocks.push(Block { from, to, sectors });
        }
        let (block, capacity) = (Sectors::new(block), Sectors::new(capacity));
        let moves: Vec<Move> = blocks.iter().map(|b| Move { from: b.source(), to: Lbn::new(b.to) }).collect();
        // The bytes do not list the free places, so all places count as free.
        let plan = Self::new(block, capacity, &moves, &[LbnRange::new(Lbn::ZERO, capacity)])?;
        if plan.blocks != blocks {
            return Err(bad(HEAD_BYTES));
        }
        Ok(plan)
    }

    /// Returns for each of `blocks`, which are sorted by source, the block at its destination. Visiting the blocks by
    /// destination takes one pass over both orders; a binary search for each of a million blocks takes 1 s.
    fn whose_places(blocks: &[Block]) -> Vec<u32> {
        let mut by_destination: Vec<(u64, u32)> = blocks.iter().zip(0..).map(|(b, i)| (b.to, i)).collect();
        by_destination.sort_unstable();
        let mut ahead = vec![NONE; blocks.len()];
        let mut at = 0;
        for (to, b) in by_destination {
            while blocks.get(at).is_some_and(|other| other.from < to) {
                at += 1;
            }
            if let (Some(other), Some(of)) = (blocks.get(at), ahead.get_mut(b as usize))
                && other.from == to
            {
                *of = at as u32;
            }
        }
        ahead
    }

    /// Returns the checksum by which saved state recognises its plan.
    pub(super) fn digest(&self) -> u32 {
        // The last bytes are the checksum itself: the CRC of bytes that end with their own CRC is the same for every
        // plan.
        self.encode().last_chunk().map_or(0, |sum| u32::from_le_bytes(*sum))
    }
}

fn split(block: Sectors, capacity: Sectors, moves: &[Move]) -> Result<Vec<Block>, RelocationPlanError> {
    let mut blocks = Vec::new();
    for m in moves {
        if m.from.is_empty() {
            return Err(RelocationPlanError::EmptyMove(m.from.start()));
        }
        for range in [m.from, LbnRange::new(m.to, m.from.len())] {
            if range.checked_end().is_none_or(|end| end.get() > capacity.get()) {
                return Err(RelocationPlanError::PastEnd { range, capacity });
            }
        }
        let len = m.from.len().get();
        if len.div_ceil(block.get()) > (PLAN_BLOCKS_MAX - blocks.len()) as u64 {
            return Err(RelocationPlanError::TooManyBlocks);
        }
        let mut done = 0;
        while done < len {
            let sectors = block.get().min(len - done);
            // At most BLOCK_SECTORS_MAX, so the number fits.
            blocks.push(Block {
                from: m.from.start().get() + done,
                to: m.to.get() + done,
                sectors: sectors as u32,
            });
            done += sectors;
        }
    }
    Ok(blocks)
}

/// Returns the free ranges sorted and merged, without empty ones and those past the largest LBN.
fn merged(free: &[LbnRange]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = free
        .iter()
        .filter(|r| !r.is_empty())
        .filter_map(|r| Some((r.start().get(), r.checked_end()?.get())))
        .collect();
    ranges.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::with_capacity(ranges.len());
    for (start, end) in ranges {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// Fails unless the destination of `b` is exactly a block that moves, or free.
fn vacant(blocks: &[Block], free: &[(u64, u64)], b: &Block) -> Result<(), RelocationPlanError> {
    let destination = b.destination();
    let (start, end) = (destination.start().get(), destination.end().get());
    let at = blocks.partition_point(|other| other.source().end().get() <= start);
    if let Some(there) = blocks.get(at).filter(|there| there.from < end) {
        return if there.from == start && there.sectors == b.sectors {
            Ok(())
        } else {
            Err(RelocationPlanError::Straddles { destination, source_block: there.source() })
        };
    }
    let at = free.partition_point(|f| f.1 <= start);
    match free.get(at) {
        Some(f) if f.0 <= start && end <= f.1 => Ok(()),
        Some(f) if f.0 <= start => Err(RelocationPlanError::Live(Lbn::new(f.1))),
        _ => Err(RelocationPlanError::Live(destination.start())),
    }
}
