//! The segment table.

use super::ids::{SegmentIndex, Sequence};
use super::summary::SegmentSummary;
use std::fmt;
use units::Instant;

/// The state of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The segment may be overwritten.
    Free,
    /// The segment is being filled in memory.
    Open,
    /// The segment is complete and waits to be written, or is being written.
    Waiting,
    /// The segment is on the medium, and some of it is live.
    Written,
    /// Nothing in the segment is live once the segment of this sequence is durable; until then recovery from a crash
    /// would need this one.
    Emptied {
        /// The sequence of the segment that must be durable.
        after: Sequence,
    },
    /// A torn segment found by recovery; its summary must be wiped before anything else is written.
    Torn,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free => f.write_str("free"),
            Self::Open => f.write_str("open"),
            Self::Waiting => f.write_str("waiting to be written"),
            Self::Written => f.write_str("written"),
            Self::Emptied { after } => write!(f, "empty once {after} is durable"),
            Self::Torn => f.write_str("torn"),
        }
    }
}

/// A segment as a cleaner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The segment.
    pub segment: SegmentIndex,
    /// The state of the segment.
    pub state: State,
    /// The number of live slots.
    pub live: u32,
    /// The number of live tombstones.
    pub tombstones: u32,
    /// The time at which the client wrote the youngest block in it.
    pub modified: Instant,
}

/// A row of the log's table of segments.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub state: State,
    /// The summary on the medium, even if nothing in it is live: a replay of the log reads it.
    pub medium: Option<SegmentSummary>,
    pub live: u32,
    pub tombstones: u32,
    pub modified: Instant,
    /// The sequence of the segment that superseded the last live block or tombstone of this one.
    pub superseded_in: Sequence,
}

impl Segment {
    pub fn blank() -> Self {
        Self {
            state: State::Free,
            medium: None,
            live: 0,
            tombstones: 0,
            modified: Instant::ZERO,
            superseded_in: Sequence::default(),
        }
    }

    pub fn counts(&self) -> bool {
        self.live > 0 || self.tombstones > 0
    }

    /// Frees a written segment in which nothing is live.
    pub fn settle(&mut self, durable: Sequence) {
        let emptied = matches!(self.state, State::Written | State::Emptied { .. }) && !self.counts();
        if emptied {
            self.state = if self.superseded_in <= durable {
                State::Free
            } else {
                State::Emptied { after: self.superseded_in }
            };
        }
    }
}
