//! The steps of a foreground write.

use super::Entry;
use std::collections::VecDeque;
use std::fmt;
use units::{LbnRange, Sectors};

/// The identity of a foreground write under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub(super) u64);

impl fmt::Display for WriteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "write {}", self.0)
    }
}

/// The source of the bytes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// The bytes that the preceding step read.
    Read,
    /// The foreground's data, from one of their sectors on.
    Data {
        /// The sectors of the data to skip.
        from: Sectors,
    },
    /// Zeros, for the rest of a block that was empty.
    Zeros,
}

/// The next step of a write, for the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read this range, and keep the bytes for the next step.
    Read(LbnRange),
    /// Write to this range.
    Write {
        /// The range.
        to: LbnRange,
        /// The source of the bytes.
        bytes: Bytes,
    },
    /// Make this entry durable, after all preceding writes. The change takes effect at
    /// [`Volume::done`](super::Volume::done).
    Record(Entry),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub block: u64,
    pub step: Step,
    /// The slot that is reserved for this block until its entry is recorded.
    pub slot: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct PlannedWrite {
    pub range: LbnRange,
    pub first: u64,
    pub last: u64,
    pub steps: VecDeque<Planned>,
}
