//! The errors of files. A failed operation changes nothing.

use super::damage::BlockDamage;
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

/// The reason for which an operation on files failed; `E` is the store's error.
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
        /// The number of directories.
        directories: u32,
    },
    /// The file would be larger than the largest possible one.
    #[error("{path} would have {bytes} bytes, but a file has {FILE_BYTES_MAX} at most; split it")]
    TooLarge {
        /// The path.
        path: FilePath,
        /// The size that it would have.
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
        /// The number of inodes.
        inodes: u32,
    },
    /// The directory has as many blocks as a directory can have.
    #[error("directory {directory} is full; use another directory")]
    DirectoryFull {
        /// The number of the directory.
        directory: u32,
    },
    /// The store returned other bytes than were written, or blocks contradict one another.
    #[error("{block}, {kind}, is damaged: {problem}; restore it from a copy")]
    Damaged {
        /// The block.
        block: LogicalBlock,
        /// The kind of block that should be there.
        kind: BlockKind,
        /// The damage.
        problem: BlockDamage,
    },
    /// The store failed.
    #[error("the store could not {call} {block}: {source}")]
    Store {
        /// The failed call.
        call: StoreCall,
        /// The block.
        block: LogicalBlock,
        /// The store's error.
        source: E,
    },
}

/// The reason for which a file system could not be made or opened; `E` is the store's error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MountError<E: std::error::Error + 'static> {
    /// A setting is out of range.
    #[error("{field} is {found}; {mend}")]
    Config {
        /// The field of the configuration.
        field: &'static str,
        /// The value of the field.
        found: u64,
        /// The values that it may have.
        mend: String,
    },
    /// Block 0 does not have the mark of this file layer.
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
    /// Blocks were written after the last sync, so blocks may contradict one another.
    #[error("the file system was not synced before it was left; restore it from a copy, or format it")]
    NotSynced,
    /// A block could not be read or written, or is damaged.
    #[error(transparent)]
    Blocks(#[from] FileError<E>),
}
