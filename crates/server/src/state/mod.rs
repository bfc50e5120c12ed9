//! Files of the state directory: logs of checksummed records, and beside each log its end file.
//!
//! A file that a task depends on is a [`Log`]: records, each with its length, its number and a checksum that continues
//! from the record before. Beside the log `NAME` its end file, `NAME.end`, names the last acknowledged record. The log
//! is written and synced first, the end file second, and only then is a record acknowledged. So damage can be told from
//! the torn write of a power cut:
//!
//! | found when the daemon starts | it is |
//! |---|---|
//! | bytes behind the last acknowledged record that are no whole record | torn by a power cut: they are cut off |
//! | a whole record behind the last acknowledged one | written, and not acknowledged: it is kept |
//! | fewer sound records than were acknowledged | damage: flipped, cut, or an older copy |
//! | a log without its end file, or an end file without its log | damage: one of them was removed |
//! | an end file that is older than the log says | damage: an older copy |
//!
//! This module repairs nothing and guesses nothing: [`Broken`] describes the damage. The records before the damage are
//! returned, because `freeblock repair` shows them.
//!
//! ```text
//! log     "fbstate\0", version u32 = 1, kind u32, number u64, crc32 of these; then records
//! record  length of the body u32, sequence u64, committed u64, body, crc32 of (the crc32 before, all of these)
//! end     two slots of 4096 bytes, written in turn:
//!         "fbstend\0", version u32 = 1, kind u32, number u64, sequence u64, crc32 of that record u32, length of the note
//!         u32, note, zeros, crc32 of all of it in the last four bytes
//! ```
//! Numbers are little-endian. `committed` is the sequence in the durable end file when the record was written, which
//! shows whether an end file is older than its log. Sequences are consecutive in a file and are never used again for
//! the same log: a rewritten log ([`Log::replace`]) begins with the sequence after the last. A new file is complete
//! before it gets its name, so its first record cannot be torn.

mod damage;
mod end;
mod log;

pub(crate) use damage::{Broken, Damage};
pub(crate) use end::End;
pub(crate) use log::{Log, Scan, end_path};

#[cfg(test)]
pub(crate) mod tests;

/// The kind of content of a log. A log of another kind in its place is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogKind {
    /// The journal of all tasks of a disk.
    Tasks,
    /// The old content of blocks that a backup, replica or snapshot keeps.
    Kept,
    /// The state of the moves of a reorganisation.
    Moves,
    /// A checksum store. The store has a format of its own; only its end file has the format of this module.
    Sums,
}

impl LogKind {
    fn code(self) -> u32 {
        u32::from_le_bytes(match self {
            Self::Tasks => *b"TASK",
            Self::Kept => *b"KEPT",
            Self::Moves => *b"MOVE",
            Self::Sums => *b"SUMS",
        })
    }
}
