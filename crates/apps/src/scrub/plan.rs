//! The range of a scrub, and the findings there.

use scheduler::SessionError;
use units::{Lbn, LbnRange, Sectors};

/// The range of a scrub. Block `i` begins `i * block` sectors after the range's first LBN; the last may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubPlan {
    /// The LBNs to be read.
    pub range: LbnRange,
    /// Sectors in a block, at least 1: the unit of the checksum store.
    pub block: Sectors,
    /// Bytes in a sector.
    pub sector_bytes: usize,
}

impl ScrubPlan {
    /// Returns the number of blocks.
    pub fn blocks(&self) -> u64 {
        self.range.len().get().div_ceil(self.block.get().max(1))
    }

    pub(super) fn check(&self) -> Result<(), SessionError> {
        /// The most blocks of a set; as a bound on the end of the range in sectors, it suffices even for blocks of
        /// one sector.
        const SET_SECTORS_MAX: Sectors = Sectors::new((1 << 50) - 1);
        if self.block.get() == 0 {
            return Err(SessionError::BlockSize(self.block));
        }
        if self.range.checked_end().is_none_or(|end| end.get() > SET_SECTORS_MAX.get()) {
            return Err(SessionError::PastEnd { range: self.range, capacity: SET_SECTORS_MAX });
        }
        Ok(())
    }

    /// Returns the LBNs of a block.
    pub fn place(&self, block: u64) -> LbnRange {
        let skip = block * self.block.get();
        let len = self.block.get().min(self.range.len().get().saturating_sub(skip));
        LbnRange::new(Lbn::new(self.range.start().get() + skip), Sectors::new(len))
    }
}

/// A finding of a scrub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// The medium cannot read this sector.
    Medium(Lbn),
    /// The content of this block differs from what was written.
    Mismatch(u64),
    /// This block was overwritten, or readable only at times, at every try; its state is unknown.
    Unsettled(u64),
}
