//! Requests of clients.

use crate::error::Errno;
use crate::export::Export;
use crate::wire::{REQUEST, REQUEST_HEADER_BYTES, Reader, command, flag};

/// The command of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Sends the bytes to the client.
    Read,
    /// Writes the client's bytes.
    Write,
    /// Puts all acknowledged writes on the medium.
    Flush,
    /// Discards the bytes, whose content is undefined afterwards.
    Trim,
    /// Prefetches the bytes into memory.
    Cache,
    /// Makes the bytes zero.
    WriteZeroes {
        /// Whether the space must stay allocated.
        no_hole: bool,
        /// Whether to refuse with [`Errno::NotSupported`] at once if zeroing takes as long as writing zeroes.
        fast: bool,
    },
    /// Reports which parts are holes or zero.
    BlockStatus {
        /// Whether only the first extent is wanted.
        one: bool,
    },
}

/// The metadata contexts that a client has chosen for an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Contexts {
    /// `base:allocation`.
    pub allocation: bool,
    /// `freeblock:memory`.
    pub memory: bool,
}

impl Contexts {
    pub fn count(self) -> usize {
        usize::from(self.allocation) + usize::from(self.memory)
    }
}

/// A request of a client, or a piece of one. It was checked: it lies within the export, and the export supports its
/// command. Each request has to be answered once, in any order ([`Connection::reply`](crate::Connection::reply)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub(crate) cookie: u64,
    pub(crate) structured: bool,
    pub(crate) contexts: Contexts,
    /// The command.
    pub command: Command,
    /// Whether the request must be on the medium before it is answered.
    pub fua: bool,
    /// The first byte of the range; zero for a flush.
    pub offset: u64,
    /// The number of bytes; zero only for a flush.
    pub length: u32,
    /// The `length` bytes of a write; empty for other commands.
    pub data: Vec<u8>,
}

/// The most bytes that the server holds at once for a request whose message has no data: zeroes to be written, or prefetched data.
pub const PIECE_BYTES_MAX: u32 = 1 << 20;

impl Request {
    /// Returns the bytes that the request holds until it is answered. A host may have taken a write's bytes out of it.
    pub fn weight(&self) -> usize {
        match self.command {
            Command::Read | Command::Write => self.length as usize,
            Command::WriteZeroes { .. } | Command::Cache => self.length.min(PIECE_BYTES_MAX) as usize,
            Command::BlockStatus { .. } => 8 * extents_max(self.length) * self.contexts.count().max(1),
            Command::Flush | Command::Trim => 0,
        }
    }

    /// Makes a request that belongs to no connection. It has no data, and may be answered before it is on the medium.
    pub fn elsewhere(command: Command, offset: u64, length: u32) -> Self {
        let contexts = Contexts::default();
        Self { cookie: 0, structured: false, contexts, command, fua: false, offset, length, data: Vec::new() }
    }
}

/// The first 28 bytes of a request, without the magic number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub flags: u16,
    pub kind: u16,
    pub cookie: u64,
    pub offset: u64,
    pub length: u32,
}

/// Returns whether a client's bytes end with a goodbye (`NBD_CMD_DISC`). After that the client sends nothing more, and
/// may still wait for answers.
///
/// ```
/// let mut bytes = b"\x25\x60\x95\x13\0\0\0\x02".to_vec();
/// bytes.extend([0; 20]);
/// assert!(nbd::ends_with_goodbye(&bytes));
/// assert!(!nbd::ends_with_goodbye(&bytes[..27]));
/// ```
pub fn ends_with_goodbye(bytes: &[u8]) -> bool {
    let Some(at) = bytes.len().checked_sub(REQUEST_HEADER_BYTES) else { return false };
    let mut reader = Reader(&bytes[at..]);
    reader.u32() == Some(REQUEST)
        && Header::read(&mut reader).is_some_and(|header| header.kind == command::DISCONNECT)
}

/// The reason why a request is refused before the host gets it.
pub(crate) type Refusal = (Errno, &'static str);

impl Header {
    /// Reads the header after the magic.
    pub fn read(reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self {
            flags: reader.u16()?,
            kind: reader.u16()?,
            cookie: reader.u64()?,
            offset: reader.u64()?,
            length: reader.u32()?,
        })
    }

    /// Returns the number of bytes that follow the header, whether the header is valid or not.
    pub fn payload(&self) -> u32 {
        if self.kind == command::WRITE { self.length } else { 0 }
    }

    /// Returns the request's command, if the export supports it.
    pub fn check(&self, export: &Export, structured: bool, contexts: Contexts) -> Result<Command, Refusal> {
        let can = export.abilities();
        let has = |flag: u16| self.flags & flag != 0;
        let (asked, available, own_flags) = match self.kind {
            command::READ => (Command::Read, true, if structured { flag::DF } else { 0 }),
            command::WRITE => (Command::Write, true, 0),
            command::FLUSH => (Command::Flush, can.flush, 0),
            command::TRIM => (Command::Trim, can.trim || !can.write, 0),
            command::CACHE => (Command::Cache, can.cache, 0),
            command::WRITE_ZEROES => {
                let asked = Command::WriteZeroes { no_hole: has(flag::NO_HOLE), fast: has(flag::FAST_ZERO) };
                let fast = if can.fast_zero { flag::FAST_ZERO } else { 0 };
                (asked, can.write_zeroes || !can.write, flag::NO_HOLE | fast)
            }
            command::BLOCK_STATUS => {
                (Command::BlockStatus { one: has(flag::REQ_ONE) }, contexts.count() > 0, flag::REQ_ONE)
            }
            _ => return Err((Errno::Invalid, "unknown command")),
        };
        if !available {
            return Err((Errno::Invalid, "the export was not advertised to do this"));
        }
        let changes = matches!(asked, Command::Write | Command::Trim | Command::WriteZeroes { .. });
        if changes && !can.write {
            return Err((Errno::NotPermitted, "the export is read-only"));
        }
        let fua = if can.fua { flag::FUA } else { 0 };
        if self.flags & !(own_flags | fua) != 0 {
            return Err((Errno::Invalid, "a flag that the export was not advertised to take"));
        }
        if asked == Command::Flush {
            let whole = self.offset == 0 && self.length == 0;
            return if whole {
                Ok(asked)
            } else {
                Err((Errno::Invalid, "a flush has no offset and no length"))
            };
        }
        if self.length == 0 {
            return Err((Errno::Invalid, "no bytes are asked for"));
        }
        let blocks = export.block_sizes();
        let whole = |bytes: u64| bytes.is_multiple_of(u64::from(blocks.minimum));
        if !whole(self.offset) || !whole(u64::from(self.length)) {
            return Err((Errno::Invalid, "offset and length must be multiples of the minimum block size"));
        }
        let end = self.offset.checked_add(u64::from(self.length));
        if end.is_none_or(|end| end > export.size()) {
            let errno = if changes { Errno::NoSpace } else { Errno::Invalid };
            return Err((errno, "the range goes beyond the export's end"));
        }
        if matches!(asked, Command::Read | Command::Write) && self.length > blocks.maximum {
            return Err((Errno::Invalid, "more bytes than the maximum block size"));
        }
        Ok(asked)
    }
}

/// Returns the most extents in a status of this number of bytes: one more than its sectors of 512 bytes, and no more
/// than fit into 128 KiB. The client asks again for the rest.
pub(crate) fn extents_max(length: u32) -> usize {
    (length as usize / 512 + 1).min(1 << 14)
}
