//! Damage of a block.

use super::store::LogicalBlock;

/// The way in which a block contradicts itself or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum BlockDamage {
    /// The bytes do not match the recorded checksum.
    #[error("the block's checksum is {found:#010x}, not {expected:#010x}")]
    Checksum {
        /// The checksum on record.
        expected: u32,
        /// The checksum of the bytes.
        found: u32,
    },
    /// The block is sound, but belongs in another place.
    #[error("another block's bytes stand in its place")]
    Misplaced,
    /// The block points outside the file system or at a block with another owner, or has an impossible size.
    #[error("the block points at {0}, which it cannot own")]
    Pointer(LogicalBlock),
    /// The superblock's numbers contradict one another.
    #[error("the block's numbers contradict one another")]
    Numbers,
    /// An inode or directory entry has an impossible kind or size.
    #[error("inode {0} has an impossible kind or size")]
    Inode(u32),
}
