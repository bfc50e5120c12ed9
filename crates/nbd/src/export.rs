//! The exports offered to clients.

use crate::wire::export as flag;
use thiserror::Error;

/// The most bytes of a name, a description and an error message: the specification's limit for any string.
pub const NAME_BYTES_MAX: usize = 4096;

/// The block sizes of an export, which the server sends to clients.
///
/// ```
/// use nbd::BlockSizes;
/// assert_eq!(BlockSizes::sectors(512), BlockSizes { minimum: 512, preferred: 4096, maximum: 32 << 20 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSizes {
    /// The unit of offsets and lengths, in bytes; a power of two, at most 65536.
    pub minimum: u32,
    /// The smallest size of a write for which the device needs no read, in bytes; a power of two, at least
    /// 512 and the minimum.
    pub preferred: u32,
    /// The most bytes of a read or write; a multiple of the minimum.
    pub maximum: u32,
}

impl BlockSizes {
    /// Returns the sizes for a device with sectors of `bytes` bytes.
    pub const fn sectors(bytes: u32) -> Self {
        Self { minimum: bytes, preferred: if bytes < 4096 { 4096 } else { bytes }, maximum: 32 << 20 }
    }
}

/// A minimum of one byte, which clients that do not ask expect, and a preferred size of 4 KiB.
impl Default for BlockSizes {
    fn default() -> Self {
        Self { minimum: 1, preferred: 4096, maximum: 32 << 20 }
    }
}

/// The commands other than read that an export supports. The server advertises them and refuses all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Write, trim and zeroing commands.
    pub write: bool,
    /// Flush, after which all acknowledged writes are on the medium.
    pub flush: bool,
    /// Single writes that are on the medium when they are acknowledged.
    pub fua: bool,
    /// Trim.
    pub trim: bool,
    /// Zeroing without sending zeroes.
    pub write_zeroes: bool,
    /// Zeroing that fails at once if it would take as long as writing zeroes.
    pub fast_zero: bool,
    /// Reading ahead into a cache.
    pub cache: bool,
    /// Flushes that cover the writes of all connections.
    pub multi_conn: bool,
    /// Whether the device has moving heads.
    pub rotational: bool,
    /// Reports of which parts are holes or zero.
    pub block_status: bool,
    /// Reports of which parts are in the server's memory, as the metadata context `freeblock:memory`.
    pub memory_status: bool,
}

/// A device offered under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    name: String,
    description: String,
    size: u64,
    abilities: Abilities,
    blocks: BlockSizes,
}

/// The reason why an export cannot be offered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A string is too long for the protocol.
    #[error("the {what} of export {name:?} has {bytes} bytes; the protocol allows {NAME_BYTES_MAX}")]
    TooLong {
        /// Which string: name or description.
        what: &'static str,
        /// The name of the export.
        name: String,
        /// The length of the string in bytes.
        bytes: usize,
    },
    /// The export is larger than offsets can be.
    #[error("export {name:?} has {size} bytes; the protocol allows 2^63 - 1")]
    TooLarge {
        /// The name.
        name: String,
        /// The size in bytes.
        size: u64,
    },
    /// The block sizes contradict each other, or do not divide the size.
    #[error("export {name:?} of {size} bytes with {blocks:?}: {mend}")]
    Blocks {
        /// The name.
        name: String,
        /// The size in bytes.
        size: u64,
        /// The sizes given.
        blocks: BlockSizes,
        /// The advice to the caller.
        mend: &'static str,
    },
}

impl Export {
    /// Makes an export of `size` bytes. The empty name is for clients that name no export.
    ///
    /// # Errors
    /// The name is too long, or the size too large, for the protocol.
    ///
    /// ```
    /// use nbd::{Abilities, BlockSizes, Export};
    /// let export = Export::new("disk0", 1 << 30)?
    ///     .describe("9 GB of 1999")?
    ///     .with(Abilities { write: true, flush: true, fua: true, rotational: true, ..Abilities::default() })
    ///     .blocks(BlockSizes::sectors(512))?;
    /// assert_eq!((export.name(), export.size()), ("disk0", 1 << 30));
    /// # Ok::<(), nbd::ExportError>(())
    /// ```
    pub fn new(name: impl Into<String>, size: u64) -> Result<Self, ExportError> {
        let name = name.into();
        if name.len() > NAME_BYTES_MAX {
            return Err(ExportError::TooLong { what: "name", bytes: name.len(), name });
        }
        if i64::try_from(size).is_err() {
            return Err(ExportError::TooLarge { name, size });
        }
        let (abilities, blocks) = (Abilities::default(), BlockSizes::default());
        Ok(Self { name, description: String::new(), size, abilities, blocks })
    }

    /// Sets a description for people.
    ///
    /// # Errors
    /// The description is too long.
    pub fn describe(self, description: impl Into<String>) -> Result<Self, ExportError> {
        let description = description.into();
        if description.len() > NAME_BYTES_MAX {
            let bytes = description.len();
            return Err(ExportError::TooLong { what: "description", bytes, name: self.name });
        }
        Ok(Self { description, ..self })
    }

    /// Sets the supported commands.
    pub fn with(self, abilities: Abilities) -> Self {
        Self { abilities, ..self }
    }

    /// Sets the block sizes.
    ///
    /// # Errors
    /// The sizes contradict each other, or do not divide the export.
    pub fn blocks(self, blocks: BlockSizes) -> Result<Self, ExportError> {
        let BlockSizes { minimum, preferred, maximum } = blocks;
        let mend = if !minimum.is_power_of_two() || minimum > 1 << 16 {
            "give a minimum that is a power of two, at most 65536"
        } else if !preferred.is_power_of_two() || preferred < minimum.max(512) {
            "give a preferred size that is a power of two, at least 512 and the minimum"
        } else if maximum < preferred || !maximum.is_multiple_of(minimum) {
            "give a maximum that is a multiple of the minimum and no less than the preferred size"
        } else if !self.size.is_multiple_of(u64::from(minimum)) {
            "give a size that is a multiple of the minimum"
        } else {
            return Ok(Self { blocks, ..self });
        };
        Err(ExportError::Blocks { name: self.name, size: self.size, blocks, mend })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description for people, which may be empty.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the supported commands.
    pub fn abilities(&self) -> Abilities {
        self.abilities
    }

    /// Returns the block sizes.
    pub fn block_sizes(&self) -> BlockSizes {
        self.blocks
    }

    /// Returns the flags that the server sends to a client.
    pub(crate) fn flags(&self, structured: bool) -> u16 {
        let can = self.abilities;
        [
            (true, flag::HAS_FLAGS),
            (!can.write, flag::READ_ONLY),
            (can.flush, flag::SEND_FLUSH),
            (can.fua, flag::SEND_FUA),
            (can.rotational, flag::ROTATIONAL),
            (can.trim && can.write, flag::SEND_TRIM),
            (can.write_zeroes && can.write, flag::SEND_WRITE_ZEROES),
            (structured, flag::SEND_DF),
            (can.multi_conn, flag::CAN_MULTI_CONN),
            (can.cache, flag::SEND_CACHE),
            (can.fast_zero && can.write_zeroes && can.write, flag::SEND_FAST_ZERO),
        ]
        .into_iter()
        .filter_map(|(on, flag)| on.then_some(flag))
        .fold(0, |all, flag| all | flag)
    }
}
