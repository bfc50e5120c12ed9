//! The layout of files in blocks: format version 1. All numbers are little-endian.
//!
//! | block | holds |
//! |---|---|
//! | 0 | the superblock: "FBFILES\0", version, blocks, directories, inode blocks reserved, inode blocks begun, state (0 synced, 1 not), generation (64 bits), checksum; then zeros |
//! | 1 to the reserved ones | inodes, 63 a block; begun one by one as files come |
//! | all others | files' bytes, directories, indirect blocks |
//!
//! Every block except the superblock and those with files' bytes has a header of 16 bytes: kind, own number, owner,
//! and the CRC-32 of the block without these last four bytes. A block of a file's bytes has no header: its CRC-32
//! stands beside the pointer to the block, so that a stale block is detected as well as a damaged one.
//!
//! An inode has 64 bytes: kind, size in bytes, six pointers (block, CRC-32) and the indirect block (0: none), which
//! has 510 pointers more. Inode n below the number of directories is directory n; a directory is a file of blocks
//! with 255 entries of 16 bytes after the header: name (64 bits), inode, in use (1) or not (0).
//!
//! The free blocks and inodes are not stored: a mount derives them from the inodes, so they cannot be wrong.

use super::damage::BlockDamage;
use super::store::{BLOCK_BYTES, Block, LogicalBlock};
use std::fmt;

/// The version that this program writes and reads.
pub const VERSION: u32 = 1;
const MAGIC: [u8; 8] = *b"FBFILES\0";

pub(super) const DIRECT_POINTERS: usize = 6;
pub(super) const INDIRECT_POINTERS: usize = (BLOCK_BYTES - HEADER_BYTES) / POINTER_BYTES;
pub(super) const POINTERS_MAX: usize = DIRECT_POINTERS + INDIRECT_POINTERS;
/// The largest file, in bytes.
pub const FILE_BYTES_MAX: u64 = (POINTERS_MAX * BLOCK_BYTES) as u64;

pub(super) const INODES_PER_BLOCK: u32 = (BLOCK_BYTES / INODE_BYTES - 1) as u32;
const HEADER_BYTES: usize = 16;
const INODE_BYTES: usize = 64;
const ENTRY_BYTES: usize = 16;
const POINTER_BYTES: usize = 8;
const CHECKSUM_AT: usize = 12;

const _: () = assert!(INODE_BYTES == 8 + DIRECT_POINTERS * POINTER_BYTES + 8 && HEADER_BYTES <= INODE_BYTES);
const _: () = assert!(FILE_BYTES_MAX <= u32::MAX as u64);

/// The kind of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BlockKind {
    /// The superblock.
    Superblock,
    /// The block of inodes with this number, counted from 0.
    Inodes(u32),
    /// Entries of the directory with this number.
    Directory(u32),
    /// More pointers of the file with this inode.
    Indirect(u32),
    /// Bytes of the file with this inode.
    Data(u32),
}

impl BlockKind {
    /// Returns kind and owner for the block's header; `None` for a file's bytes, which have no header.
    const fn header(self) -> Option<(u32, u32)> {
        Some(match self {
            Self::Superblock => return None,
            Self::Inodes(n) => (u32::from_le_bytes(*b"INOD"), n),
            Self::Directory(n) => (u32::from_le_bytes(*b"DIRE"), n),
            Self::Indirect(n) => (u32::from_le_bytes(*b"INDI"), n),
            Self::Data(_) => return None,
        })
    }
}

impl fmt::Display for BlockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Superblock => f.write_str("the superblock"),
            Self::Inodes(n) => write!(f, "number {n} of the inode blocks"),
            Self::Directory(n) => write!(f, "a block of directory {n}"),
            Self::Indirect(n) => write!(f, "the indirect block of inode {n}"),
            Self::Data(n) => write!(f, "bytes of the file of inode {n}"),
        }
    }
}

fn get_u32(bytes: &[u8], at: usize) -> u32 {
    let number = bytes.get(at..).and_then(|rest| rest.first_chunk());
    number.map_or(0, |number| u32::from_le_bytes(*number))
}

fn get_u64(bytes: &[u8], at: usize) -> u64 {
    let number = bytes.get(at..).and_then(|rest| rest.first_chunk());
    number.map_or(0, |number| u64::from_le_bytes(*number))
}

fn put(bytes: &mut [u8], at: usize, number: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + number.len()) {
        place.copy_from_slice(number);
    }
}

fn put_u32(bytes: &mut [u8], at: usize, n: u32) {
    put(bytes, at, &n.to_le_bytes());
}

/// Begins an empty block of metadata.
pub(super) fn begin(block: &mut Block, number: LogicalBlock, kind: BlockKind) {
    block.fill(0);
    if let Some((kind, owner)) = kind.header() {
        put_u32(block, 0, kind);
        put_u32(block, 4, number.get());
        put_u32(block, 8, owner);
    }
}

fn checksum_without_itself(block: &Block) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&block[..CHECKSUM_AT]);
    hasher.update(&block[CHECKSUM_AT + 4..]);
    hasher.finalize()
}

/// Writes the checksum into a block before it goes to the store, if its kind has a header.
pub(super) fn seal(block: &mut Block, kind: BlockKind) {
    if kind.header().is_none() {
        return;
    }
    let checksum = checksum_without_itself(block);
    put_u32(block, CHECKSUM_AT, checksum);
}

/// Checks that a block from the store is the one written there. `checksum` is that of a file's bytes; metadata have
/// their own.
pub(super) fn verify(
    block: &Block,
    number: LogicalBlock,
    kind: BlockKind,
    checksum: u32,
) -> Result<(), BlockDamage> {
    let Some((kind, owner)) = kind.header() else {
        let found = crc32fast::hash(block);
        return match found == checksum {
            true => Ok(()),
            false => Err(BlockDamage::Checksum { expected: checksum, found }),
        };
    };
    let (expected, found) = (get_u32(block, CHECKSUM_AT), checksum_without_itself(block));
    if expected != found {
        return Err(BlockDamage::Checksum { expected, found });
    }
    let is = (get_u32(block, 0), get_u32(block, 4), get_u32(block, 8));
    if is == (kind, number.get(), owner) { Ok(()) } else { Err(BlockDamage::Misplaced) }
}

/// The contents of block 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    pub blocks: u32,
    pub directories: u32,
    /// Blocks set aside for inodes, from block 1 on.
    pub inode_blocks_max: u32,
    /// The number of blocks that hold inodes, of those set aside.
    pub inode_blocks: u32,
    /// Whether no block was written since the last sync.
    pub synced: bool,
    /// The number of syncs.
    pub generation: u64,
}

/// The reason for which block 0 is no superblock.
pub(super) enum NoSuperblock {
    Magic,
    Version(u32),
    Damaged(BlockDamage),
}

impl Superblock {
    const CHECKSUM_AT: usize = 40;

    pub fn encode(&self) -> Block {
        let mut block = [0; BLOCK_BYTES];
        put(&mut block, 0, &MAGIC);
        put_u32(&mut block, 8, VERSION);
        put_u32(&mut block, 12, self.blocks);
        put_u32(&mut block, 16, self.directories);
        put_u32(&mut block, 20, self.inode_blocks_max);
        put_u32(&mut block, 24, self.inode_blocks);
        put_u32(&mut block, 28, u32::from(!self.synced));
        put(&mut block, 32, &self.generation.to_le_bytes());
        let checksum = crc32fast::hash(&block);
        put_u32(&mut block, Self::CHECKSUM_AT, checksum);
        block
    }

    pub fn decode(block: &Block) -> Result<Self, NoSuperblock> {
        if block[..8] != MAGIC {
            return Err(NoSuperblock::Magic);
        }
        let expected = get_u32(block, Self::CHECKSUM_AT);
        let mut bare = *block;
        put_u32(&mut bare, Self::CHECKSUM_AT, 0);
        let found = crc32fast::hash(&bare);
        // The version is checked first: another version may keep its checksum elsewhere.
        match get_u32(block, 8) {
            VERSION => {}
            other => return Err(NoSuperblock::Version(other)),
        }
        if expected != found {
            return Err(NoSuperblock::Damaged(BlockDamage::Checksum { expected, found }));
        }
        Ok(Self {
            blocks: get_u32(block, 12),
            directories: get_u32(block, 16),
            inode_blocks_max: get_u32(block, 20),
            inode_blocks: get_u32(block, 24),
            synced: get_u32(block, 28) == 0,
            generation: get_u64(block, 32),
        })
    }

    /// Returns the first block that is not set aside for inodes.
    pub const fn first_free(&self) -> u32 {
        1 + self.inode_blocks_max
    }

    pub const fn inodes_max(&self) -> u32 {
        self.inode_blocks_max * INODES_PER_BLOCK
    }
}

/// The address of a block of a file, and the checksum of its bytes (0 for a directory's).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pointer {
    pub block: u32,
    pub checksum: u32,
}

impl Pointer {
    fn decode(bytes: &[u8], at: usize) -> Self {
        Self { block: get_u32(bytes, at), checksum: get_u32(bytes, at + 4) }
    }

    fn encode(self, bytes: &mut [u8], at: usize) {
        put_u32(bytes, at, self.block);
        put_u32(bytes, at + 4, self.checksum);
    }
}

/// Returns the `n`th pointer of an indirect block.
pub(super) fn indirect_pointer(block: &Block, n: usize) -> Pointer {
    Pointer::decode(block, HEADER_BYTES + n * POINTER_BYTES)
}

pub(super) fn set_indirect_pointer(block: &mut Block, n: usize, pointer: Pointer) {
    pointer.encode(block, HEADER_BYTES + n * POINTER_BYTES);
}

/// The kind of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Free,
    File,
    Directory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inode {
    pub kind: Kind,
    /// The size in bytes; a multiple of the block size for a directory.
    pub size: u32,
    pub direct: [Pointer; DIRECT_POINTERS],
    /// The indirect block; 0 for none.
    pub indirect: u32,
}

impl Inode {
    pub const fn new(kind: Kind) -> Self {
        Self { kind, size: 0, direct: [Pointer { block: 0, checksum: 0 }; DIRECT_POINTERS], indirect: 0 }
    }

    /// Returns the number of blocks of bytes, without the indirect one.
    pub const fn blocks(&self) -> usize {
        (self.size as usize).div_ceil(BLOCK_BYTES)
    }

    /// Returns the number of inode `n`'s block, counted from 0, and the offset in it.
    const fn place(n: u32) -> (u32, usize) {
        (n / INODES_PER_BLOCK, (n % INODES_PER_BLOCK + 1) as usize * INODE_BYTES)
    }

    /// Returns the block of inode `n`, and its kind.
    pub const fn home(n: u32) -> (LogicalBlock, BlockKind) {
        let table = Self::place(n).0;
        (LogicalBlock::new(1 + table), BlockKind::Inodes(table))
    }

    /// Reads an inode; `None` if the bytes are invalid.
    pub fn decode(block: &Block, n: u32) -> Option<Self> {
        let at = Self::place(n).1;
        let kind = match get_u32(block, at) {
            0 => Kind::Free,
            1 => Kind::File,
            2 => Kind::Directory,
            _ => return None,
        };
        let mut inode = Self::new(kind);
        inode.size = get_u32(block, at + 4);
        for (i, pointer) in inode.direct.iter_mut().enumerate() {
            *pointer = Pointer::decode(block, at + 8 + i * POINTER_BYTES);
        }
        inode.indirect = get_u32(block, at + 8 + DIRECT_POINTERS * POINTER_BYTES);
        let blocks = inode.blocks();
        let sized =
            u64::from(inode.size) <= FILE_BYTES_MAX && (blocks > DIRECT_POINTERS) == (inode.indirect != 0);
        let whole = kind != Kind::Directory || (inode.size as usize).is_multiple_of(BLOCK_BYTES);
        (sized && whole).then_some(inode)
    }

    pub fn encode(&self, block: &mut Block, n: u32) {
        let at = Self::place(n).1;
        let kind = match self.kind {
            Kind::Free => 0,
            Kind::File => 1,
            Kind::Directory => 2,
        };
        put_u32(block, at, kind);
        put_u32(block, at + 4, self.size);
        for (i, pointer) in self.direct.iter().enumerate() {
            pointer.encode(block, at + 8 + i * POINTER_BYTES);
        }
        put_u32(block, at + 8 + DIRECT_POINTERS * POINTER_BYTES, self.indirect);
    }
}

/// Iterates over the used entries of a block of a directory: place, name and inode.
pub(super) fn entries(block: &Block) -> impl Iterator<Item = (usize, u64, u32)> {
    let places = block[HEADER_BYTES..].chunks_exact(ENTRY_BYTES).enumerate();
    places.filter(|(_, entry)| entry[12] == 1).map(|(n, entry)| (n, get_u64(entry, 0), get_u32(entry, 8)))
}

/// Returns the number of the first unused entry in a block of a directory.
pub(super) fn free_entry(block: &Block) -> Option<usize> {
    block[HEADER_BYTES..].chunks_exact(ENTRY_BYTES).position(|entry| entry[12] != 1)
}

pub(super) fn set_entry(block: &mut Block, n: usize, name: u64, inode: u32) {
    let at = HEADER_BYTES + n * ENTRY_BYTES;
    put(block, at, &name.to_le_bytes());
    put_u32(block, at + 8, inode);
    put_u32(block, at + 12, 1);
}

pub(super) fn clear_entry(block: &mut Block, n: usize) {
    put(block, HEADER_BYTES + n * ENTRY_BYTES, &[0; ENTRY_BYTES]);
}
