//! Files of the state directory: a log, and beside it the end of the log.
//!
//! A file that a task depends on is a [`Log`]: records, each with its length, its number and a checksum that continues
//! from the record before. Beside it is `NAME.end`, which holds the last record that was acknowledged. The log is
//! written and synced first, its end second, and only then is the record acknowledged. So damage and a torn end differ:
//!
//! | found at the start | it is |
//! |---|---|
//! | bytes behind the last acknowledged record that are no whole record | torn by a power cut: they are cut off |
//! | a whole record behind the last acknowledged one | written, and not acknowledged: it is kept |
//! | fewer sound records than were acknowledged | damage: flipped, cut, or an older copy |
//! | a log without its end, or an end without its log | damage: one of them was removed |
//! | an end that is older than the log says | damage: an older copy |
//!
//! This module repairs nothing and guesses nothing: [`Broken`] describes the damage, and the records before it are
//! returned, because `freeblock repair` shows them.
//!
//! ```text
//! log     "fbstate\0", version u32 = 1, kind u32, number u64, crc32 of these; then records
//! record  length of the body u32, sequence u64, committed u64, body, crc32 of (the crc32 before, all of these)
//! end     two slots of 4096 bytes, written in turn:
//!         "fbstend\0", version u32 = 1, kind u32, number u64, sequence u64, crc32 of that record u32, length of the note
//!         u32, note, zeros, crc32 of all of it in the last four bytes
//! ```
//! Little-endian. `committed` is the sequence in the durable end when the record was written: it shows if an end is
//! older than its log. Sequences are consecutive in a file and are never used again for the same log, also when it is
//! rewritten ([`Log::replace`]), which begins with the record after the last. The file is complete before it gets its
//! name, so its first record cannot be torn.

mod damage;
mod end;
mod log;

pub(crate) use damage::{Broken, Damage};
pub(crate) use end::End;
pub(crate) use log::{Log, Scan, end_path};

#[cfg(test)]
pub(crate) mod tests;

/// The contents of a log. One in the place of another is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogKind {
    /// The journal of all tasks of a disk.
    Tasks,
    /// Blocks that a backup keeps.
    Kept,
    /// The memory of a reorganisation.
    Moves,
    /// A checksum store: it has a format of its own, and only its end is here.
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
