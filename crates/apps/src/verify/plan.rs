//! The plan of a comparison: its members, their layout and the LBNs.

use thiserror::Error;
use units::{Bytes, Lbn, LbnRange, Sectors};

/// The most members of an array: RAID 6 has no more than 255 members with data.
pub const MEMBERS_MAX: usize = 255;
/// The least memory for sums.
pub const MEMORY_MIN: Bytes = Bytes::new(64 << 10);

/// The relation between the contents of an array's members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Array {
    /// All members have the same content.
    Mirror,
    /// The exclusive or of all members is zero at every LBN. That holds in any layout of RAID 5, so the chunk size is
    /// not needed.
    Raid5,
    /// RAID 6 in the layout that md has by default (left-symmetric), with the members in the order of the array.
    Raid6 {
        /// Sectors in a chunk.
        chunk: Sectors,
    },
}

/// The members of a comparison, and the LBNs that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComparisonPlan {
    /// The relation between the members' contents.
    pub array: Array,
    /// The number of members.
    pub members: usize,
    /// The LBN at which the array's data begin on each member.
    pub offset: Lbn,
    /// The LBNs of each member that are compared; not before `offset`.
    pub range: LbnRange,
    /// Sectors in a block.
    pub block: Sectors,
    /// Bytes in a sector.
    pub sector_bytes: Bytes,
    /// The most bytes for the sums of blocks that not all members have read yet.
    pub memory: Bytes,
}

/// The reason for which a comparison cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ComparisonPlanError {
    /// Too few or too many members.
    #[error("members: {found}; give {least} to {MEMBERS_MAX}")]
    Members {
        /// The number given.
        found: usize,
        /// The least number for this array.
        least: usize,
    },
    /// The block size does not divide the chunk size.
    #[error("block_sectors: {block} in chunks of {chunk}; give a number that divides the chunk")]
    Block {
        /// The block.
        block: u64,
        /// The chunk.
        chunk: u64,
    },
    /// The range does not begin a whole number of blocks after `offset`, the first LBN of the data.
    #[error(
        "first_lbn: {first}, and the data begin at {offset}; give that LBN, or a multiple of {block} sectors more"
    )]
    First {
        /// The first LBN of the range.
        first: u64,
        /// The LBN at which the data begin.
        offset: u64,
        /// Sectors in a block.
        block: u64,
    },
    /// The range is empty, or its end exceeds the largest block number of a set.
    #[error("sectors: {0}; give at least one sector of every member, and an end below LBN 2^50")]
    Range(u64),
    /// Too little memory.
    #[error("memory_bytes: {0}; give at least {MEMORY_MIN}")]
    Memory(u64),
}

impl ComparisonPlan {
    /// Returns the number of blocks of each member.
    pub fn blocks(&self) -> u64 {
        self.range.len().get().div_ceil(self.block.get().max(1))
    }

    /// Checks the fields.
    ///
    /// # Errors
    /// The first field that is wrong.
    pub fn check(&self) -> Result<(), ComparisonPlanError> {
        let least = match self.array {
            Array::Mirror => 2,
            Array::Raid5 => 3,
            Array::Raid6 { .. } => 4,
        };
        if !(least..=MEMBERS_MAX).contains(&self.members) {
            return Err(ComparisonPlanError::Members { found: self.members, least });
        }
        let (first, offset, block) = (self.range.start().get(), self.offset.get(), self.block.get());
        if let Array::Raid6 { chunk } = self.array
            && (chunk.get() == 0 || block == 0 || !chunk.get().is_multiple_of(block))
        {
            return Err(ComparisonPlanError::Block { block, chunk: chunk.get() });
        }
        if block == 0 || self.sector_bytes.get() == 0 {
            return Err(ComparisonPlanError::Block { block, chunk: 0 });
        }
        if !first.checked_sub(offset).is_some_and(|into| into.is_multiple_of(block)) {
            return Err(ComparisonPlanError::First { first, offset, block });
        }
        if self.range.is_empty() || self.range.checked_end().is_none_or(|end| end.get() >= 1 << 50) {
            return Err(ComparisonPlanError::Range(self.range.len().get()));
        }
        if self.memory < MEMORY_MIN {
            return Err(ComparisonPlanError::Memory(self.memory.get()));
        }
        Ok(())
    }

    /// Returns the LBNs of a block.
    pub(super) fn place(&self, block: u64) -> LbnRange {
        let skip = block * self.block.get();
        let len = self.block.get().min(self.range.len().get().saturating_sub(skip));
        LbnRange::new(Lbn::new(self.range.start().get() + skip), Sectors::new(len))
    }

    /// Returns the block that contains an LBN; `None` outside of the range.
    pub(super) fn block_of(&self, lbn: Lbn) -> Option<u64> {
        let block = lbn.get().checked_sub(self.range.start().get())? / self.block.get().max(1);
        (block < self.blocks()).then_some(block)
    }

    /// Returns the bytes of a slot of the ring of sums.
    pub(super) fn slot_bytes(&self) -> u64 {
        match self.array {
            Array::Mirror | Array::Raid5 => 10,
            Array::Raid6 { .. } => 18,
        }
    }

    /// Returns the part of a stripe that a member holds in a block.
    pub(super) fn part(&self, member: usize, block: u64) -> StripePart {
        let Array::Raid6 { chunk } = self.array else { return StripePart::Data(0) };
        let into = self.place(block).start().get().saturating_sub(self.offset.get());
        let (stripe, members) = (into / chunk.get().max(1), self.members as u64);
        // P moves one member to the left in each stripe, Q is behind it, and the data follow (raid5_compute_sector of
        // drivers/md/raid5.c, ALGORITHM_LEFT_SYMMETRIC of level 6).
        let p = members - 1 - stripe % members;
        match (member as u64 + members - p) % members {
            0 => StripePart::P,
            1 => StripePart::Q,
            number => StripePart::Data(number as usize - 2),
        }
    }
}

/// A member's part of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StripePart {
    /// The data chunk of this number in the stripe, from 0.
    Data(usize),
    /// The sum of the data.
    P,
    /// The weighted sum of the data.
    Q,
}
