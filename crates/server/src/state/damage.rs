//! The ways in which a log can be damaged.

use std::path::PathBuf;
use thiserror::Error;

/// A damaged log.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}: {damage}", .path.display())]
pub(crate) struct Broken {
    /// The damaged file: the log or its end file.
    pub path: PathBuf,
    pub damage: Damage,
    /// The note in the log's end file, if that file is sound and belongs to this log.
    pub note: Option<Vec<u8>>,
    /// Whether every byte of the log is part of a sound record, so that only the end file is in
    /// doubt.
    pub whole: bool,
}

/// The damage of a log.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Damage {
    #[error("the file is gone, and {acknowledged} records of it were acknowledged")]
    Gone { acknowledged: u64 },
    #[error("the file is missing, and without this file the last acknowledged record is unknown")]
    EndGone,
    #[error("the file cannot be read: {0}")]
    Unreadable(String),
    #[error("the file does not begin like a freeblock log")]
    Foreign,
    #[error("the file has version {0}, and this program reads version 1")]
    Version(u32),
    #[error("the file's header is damaged")]
    Header,
    #[error("the file belongs to another disk or task")]
    Other,
    #[error("record {sequence} at byte {at} is damaged; {acknowledged} were acknowledged")]
    Record { sequence: u64, at: u64, acknowledged: u64 },
    #[error(
        "the file ends after record {last}, and {acknowledged} were acknowledged: the file was cut, or is an older copy"
    )]
    Cut { last: u64, acknowledged: u64 },
    #[error("record {sequence} is not the one that was acknowledged: it is another copy")]
    Differs { sequence: u64 },
    #[error("record {sequence} at byte {at} is sound, and does not fit those before it")]
    Content { sequence: u64, at: u64 },
    #[error("the record at byte {at} is not the one that was written there")]
    ReadBack { at: u64 },
    #[error("neither of its two slots is sound")]
    End,
    #[error(
        "the file says that {acknowledged} records were acknowledged, and the log says {committed}: the file is an older copy"
    )]
    EndOlder { acknowledged: u64, committed: u64 },
    #[error(
        "the file and its end have {records} records, and the journal says that {journaled} were acknowledged: both files are \
         older copies"
    )]
    Older { records: u64, journaled: u64 },
}
