//! The layer below the files: numbered blocks that can be read, written and freed.

use std::fmt;

/// Bytes in a block, as in LLD (OSDI'00, section 5.2).
pub const BLOCK_BYTES: usize = 4096;

pub(super) type Block = [u8; BLOCK_BYTES];

/// The number by which the file layer names a block; the store maps it to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogicalBlock(u32);

impl LogicalBlock {
    /// Wraps the number.
    #[inline]
    pub const fn new(n: u32) -> Self {
        Self(n)
    }

    /// Returns the number.
    #[inline]
    pub const fn get(self) -> u32 {
        self.0
    }

    #[inline]
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for LogicalBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {}", self.0)
    }
}

/// A store of blocks, each of which returns the data last written to it. The host implements a store over a
/// log-structured disk on a simulated drive, or over any other medium; every call is finished when it returns.
///
/// The file layer reads only blocks that it has written and not freed since, and frees only blocks that it has
/// written. A call that fails must leave the block as it was. A store that loses writes in a crash must lose the
/// latest ones first, so that the "not synced" mark is never lost before the writes that follow it.
pub trait Store {
    /// The error of a call.
    type Error: std::error::Error + 'static;

    /// Fills `into`, which has [`BLOCK_BYTES`], with the bytes last written to `block`.
    ///
    /// # Errors
    /// The store failed.
    fn read(&mut self, block: LogicalBlock, into: &mut [u8]) -> Result<(), Self::Error>;

    /// Stores `data`, which has [`BLOCK_BYTES`], as `block`.
    ///
    /// # Errors
    /// The store failed.
    fn write(&mut self, block: LogicalBlock, data: &[u8]) -> Result<(), Self::Error>;

    /// Frees `block`, whose contents are not needed any more.
    ///
    /// # Errors
    /// The store failed.
    fn free(&mut self, block: LogicalBlock) -> Result<(), Self::Error>;

    /// Announces that these two or more blocks of one file are read next, one by one, in this order. A store that can
    /// get several at once may do so now; the default does nothing.
    fn will_read(&mut self, blocks: &[LogicalBlock]) {
        let _ = blocks;
    }
}

impl<S: Store + ?Sized> Store for &mut S {
    type Error = S::Error;

    fn read(&mut self, block: LogicalBlock, into: &mut [u8]) -> Result<(), Self::Error> {
        (**self).read(block, into)
    }

    fn write(&mut self, block: LogicalBlock, data: &[u8]) -> Result<(), Self::Error> {
        (**self).write(block, data)
    }

    fn free(&mut self, block: LogicalBlock) -> Result<(), Self::Error> {
        (**self).free(block)
    }

    fn will_read(&mut self, blocks: &[LogicalBlock]) {
        (**self).will_read(blocks);
    }
}

/// A store in memory, for examples and tests. Blocks that were freed or never written cannot be read.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    blocks: Vec<Option<Box<Block>>>,
    stored: usize,
}

/// An error of [`MemoryStore`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryStoreError {
    /// The block lies past the end.
    #[error("{block} is past the store's {blocks} blocks; make the store larger")]
    PastEnd {
        /// The block.
        block: LogicalBlock,
        /// The number of blocks in the store.
        blocks: usize,
    },
    /// The block has no contents.
    #[error("{0} holds nothing; write it first")]
    Empty(LogicalBlock),
    /// The buffer is not one block long.
    #[error("a buffer of {0} bytes is not a block; pass {BLOCK_BYTES} bytes")]
    Length(usize),
}

impl MemoryStore {
    /// Creates an empty store of `blocks` blocks. Memory is allocated as blocks are written.
    pub fn new(blocks: u32) -> Self {
        Self { blocks: vec![None; blocks as usize], stored: 0 }
    }

    /// Returns the number of blocks with contents.
    pub const fn stored(&self) -> usize {
        self.stored
    }

    /// Returns the bytes of a block, for tests that read or damage them; `None` if the block has no contents.
    pub fn block_mut(&mut self, block: LogicalBlock) -> Option<&mut [u8; BLOCK_BYTES]> {
        self.blocks.get_mut(block.index())?.as_deref_mut()
    }

    fn place(&mut self, block: LogicalBlock) -> Result<&mut Option<Box<Block>>, MemoryStoreError> {
        let blocks = self.blocks.len();
        self.blocks.get_mut(block.index()).ok_or(MemoryStoreError::PastEnd { block, blocks })
    }
}

impl Store for MemoryStore {
    type Error = MemoryStoreError;

    fn read(&mut self, block: LogicalBlock, into: &mut [u8]) -> Result<(), MemoryStoreError> {
        let length = into.len();
        let kept = self.place(block)?.as_deref().ok_or(MemoryStoreError::Empty(block))?;
        let into: &mut Block = into.try_into().map_err(|_| MemoryStoreError::Length(length))?;
        *into = *kept;
        Ok(())
    }

    fn write(&mut self, block: LogicalBlock, data: &[u8]) -> Result<(), MemoryStoreError> {
        let data: &Block = data.try_into().map_err(|_| MemoryStoreError::Length(data.len()))?;
        match self.place(block)? {
            Some(kept) => **kept = *data,
            empty => {
                *empty = Some(Box::new(*data));
                self.stored += 1;
            }
        }
        Ok(())
    }

    fn free(&mut self, block: LogicalBlock) -> Result<(), MemoryStoreError> {
        self.place(block)?.take().ok_or(MemoryStoreError::Empty(block))?;
        self.stored -= 1;
        Ok(())
    }
}
