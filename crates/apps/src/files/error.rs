//! What can go wrong. Whatever an operation returns, when it fails nothing has changed.

use super::format::{BlockKind, FILE_BYTES_MAX, VERSION};
use super::path::FilePath;
use super::store::LogicalBlock;

/// A call to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreCall {
    /// [`Store::read`](super::Store::read).
    Read,
    /// [`Store::write`](super::Store::write).
    Write,
    /// [`Store::free`](super::Store::free).
    Free,
}

impl std::fmt::Display for StoreCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Free => "free",
        })
    }
}

/// Why an operation on files failed; `E` is the store's error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError<E: std::error::Error + 'static> {
    /// No file has that path.
    #[error("there is no file {0}; create it first")]
    NoSuchFile(FilePath),
    /// A file has that path already.
    #[error("there is a file {0} already; delete it first, or append to it")]
    Exists(FilePath),
    /// No directory has that number.
    #[error("{path} names directory {}, but there are {directories}, numbered from 0", .path.directory)]
    NoSuchDirectory {
        /// The path.
        path: FilePath,
        /// How many directories there are.
        directories: u32,
    },
    /// The file would be larger than a file can be.
    #[error("{path} would have {bytes} bytes, but a file has {FILE_BYTES_MAX} at most; split it")]
    TooLarge {
        /// The path.
        path: FilePath,
        /// How large it would be.
        bytes: u64,
    },
    /// Not enough blocks are free.
    #[error("the disk is full: {needed} blocks are needed and {free} are free; delete files")]
    Full {
        /// Blocks that the operation needs.
        needed: u32,
        /// Blocks that are free.
        free: u32,
    },
    /// Every inode is in use.
    #[error("all {inodes} inodes are in use; delete files, or format with more inodes")]
    NoInode {
        /// How many there are.
        inodes: u32,
    },
    /// The directory has as many blocks as a directory can have.
    #[error("directory {directory} is full; use another directory")]
    DirectoryFull {
        /// Its number.
        directory: u32,
    },
    /// The store gave back other bytes than were written, or the blocks contradict one another.
    #[error("{block}, {kind}, is damaged: {problem}; restore it from a copy")]
    Damaged {
        /// Which block.
        block: LogicalBlock,
        /// What it should hold.
        kind: BlockKind,
        /// What is wrong with it.
        problem: Damage,
    },
    /// The store failed.
    #[error("the store could not {call} {block}: {source}")]
    Store {
        /// What it was asked for.
        call: StoreCall,
        /// Which block.
        block: LogicalBlock,
        /// Why.
        source: E,
    },
}

/// How a block contradicts itself or another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The bytes have another checksum.
    #[error("its checksum is {found:#010x}, not {expected:#010x}")]
    Checksum {
        /// What was kept.
        expected: u32,
        /// What the bytes have.
        found: u32,
    },
    /// It is a good block, but another one.
    #[error("another block's bytes stand in its place")]
    Misplaced,
    /// It points outside the file system, at a block that others use too, or has a size that cannot be.
    #[error("it points at {0}, which it cannot own")]
    Pointer(LogicalBlock),
    /// A superblock whose numbers contradict one another.
    #[error("its numbers contradict one another")]
    Numbers,
    /// Inode or directory entry of an impossible kind or size.
    #[error("inode {0} makes no sense")]
    Inode(u32),
}

/// Why a file system could not be made or opened; `E` is the store's error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MountError<E: std::error::Error + 'static> {
    /// A setting makes no file system.
    #[error("{field} is {found}; {mend}")]
    Config {
        /// The setting.
        field: &'static str,
        /// What it holds.
        found: u64,
        /// What it may hold.
        mend: String,
    },
    /// Block 0 has not the mark of this file layer.
    #[error("block 0 does not begin a file system; format the store")]
    NotFormatted,
    /// The file system was written by another version.
    #[error(
        "the file system has format version {found}, this program reads {VERSION}; use the program that wrote it"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// Blocks were written after the last sync, so that blocks may contradict one another.
    #[error("the file system was not synced before it was left; restore it from a copy, or format it")]
    NotSynced,
    /// A block could not be read, written or trusted.
    #[error(transparent)]
    Blocks(#[from] FileError<E>),
}
