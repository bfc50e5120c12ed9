//! One buffer: which of its sectors are valid, dirty, or being written.

use super::calls::Job;
use super::mask::{Mask, Span};
use super::tally::Cause;
use std::collections::VecDeque;
use units::{Instant, LbnRange, RequestId, TaskId};

/// The moment at which a sector was dirtied: its place in the order of all writes, and the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    pub sequence: u64,
    pub at: Instant,
}

/// A write-back under way: the bytes that were handed out may or may not be on the medium.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// The sectors whose newest bytes were handed out.
    pub taken: Mask,
    /// The sectors that were dirty when the first bytes were handed out, and that have not been handed out.
    owed: Mask,
    /// The cause for which the write-back was forced; `None` if it was not forced when bytes were last handed out.
    pub cause: Option<Cause>,
}

/// A registered background write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub id: TaskId,
    pub range: LbnRange,
    pub promoted: bool,
}

/// A foreground request for a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foreground {
    pub id: RequestId,
    pub range: LbnRange,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Buffer {
    /// The block in the buffer; `None` if the buffer is free.
    pub block: Option<u64>,
    /// The last use, as a position in the order of all uses.
    pub used: u64,
    pub valid: Mask,
    /// Sectors whose bytes are newer than the medium's, as far as is known.
    pub dirty: Mask,
    /// A lower bound on the stamps of the dirty sectors.
    pub oldest: Stamp,
    /// The stamp of the client's first write since bytes were handed out.
    late: Option<Stamp>,
    pub flight: Option<Flight>,
    pub task: Option<Task>,
    /// The foreground write-back under way.
    pub write: Option<Foreground>,
    /// The foreground read under way.
    pub fill: Option<Foreground>,
    /// The only job that the read `fill` is for, because an earlier read of the whole block met a bad sector.
    pub fill_for: Option<Job>,
    /// Whether a read of the whole block met a bad sector.
    pub suspect: bool,
    /// Reads that wait for the buffer's bytes.
    pub readers: VecDeque<Job>,
    pub pins: u32,
    /// The reason for which the buffer must be written now.
    pub forced: Option<Cause>,
    /// Whether the contents were trimmed: the buffer is released as soon as possible, unless it is written to.
    pub dead: bool,
    /// Whether the buffer is clean because of a free write.
    pub gift: bool,
    /// The time of the next try after a failed write-back.
    pub failed: Option<Instant>,
    /// The number of times that the buffer was registered; a record of an earlier registration has another number.
    pub registrations: u32,
    pub bytes: Vec<u8>,
}

/// The state of the buffer after a write-back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Landed {
    /// The buffer had handed out no bytes, so the completion says nothing about its contents.
    NotOurs,
    /// Everything that was dirty is on the medium.
    Clean(Option<Cause>),
    /// The buffer was dirtied again, or the write covered only some of its dirty sectors.
    StillDirty(Option<Cause>),
}

impl Buffer {
    /// Records new bytes in these sectors.
    pub fn dirtied(&mut self, sectors: Mask, stamp: Stamp) {
        if self.dirty.is_empty() {
            self.oldest = stamp;
        }
        self.dirty = self.dirty.with(sectors);
        self.valid = self.valid.with(sectors);
        (self.gift, self.dead) = (false, false);
        if let Some(flight) = &mut self.flight {
            flight.taken = flight.taken.without(sectors);
            self.late.get_or_insert(stamp);
        }
    }

    /// Records that the bytes of these sectors are handed out.
    pub fn taken(&mut self, sectors: Mask) {
        let (cause, owed) = (self.forced, self.dirty);
        let flight = self.flight.get_or_insert(Flight { taken: Mask::EMPTY, owed, cause });
        flight.taken = flight.taken.with(sectors);
        flight.owed = flight.owed.without(sectors);
        flight.cause = cause;
    }

    /// Records that the bytes handed out are on the medium; sectors dirtied since then stay dirty.
    pub fn landed(&mut self) -> Landed {
        let Some(flight) = self.flight.take() else { return Landed::NotOurs };
        let rest = self.dirty.without(flight.taken);
        // As long as a sector is owed, the old stamp stays the oldest: that sector, whether or not it was dirtied
        // again, has not been written.
        if let (Some(late), true) = (self.late, flight.owed.is_empty()) {
            self.oldest = late;
        }
        self.dirty = rest;
        self.late = None;
        self.forced = None;
        if rest.is_empty() {
            self.gift = flight.cause.is_none();
            return Landed::Clean(flight.cause);
        }
        Landed::StillDirty(flight.cause)
    }

    /// Records that the medium refused the bytes handed out; the sectors are still dirty.
    pub fn not_landed(&mut self, retry: Instant) {
        self.flight = None;
        self.late = None;
        self.forced = None;
        self.failed = Some(retry);
    }

    /// Returns the range of a write-back: from the first dirty sector to the last dirty one that valid sectors
    /// connect to it. Further dirty sectors go into another write-back; so no block is ever read only to be written.
    pub fn write_back(&self) -> Option<Span> {
        let first = self.dirty.hull()?.first;
        let reach = self.valid.from(first).first_run()?;
        self.dirty.within(reach.mask()).hull()
    }

    /// Returns whether a background write has to wait before it gets the bytes.
    pub fn is_locked(&self) -> bool {
        self.pins > 0 || self.fill.is_some() || self.write.is_some()
    }

    /// Returns whether bytes that were handed out may still be on their way to the medium.
    pub fn is_out(&self) -> bool {
        self.flight.is_some() || self.write.is_some()
    }

    /// Returns whether the block may leave at once. Bytes on their way always have a task or lock the buffer.
    pub fn is_evictable(&self) -> bool {
        self.dirty.is_empty() && self.task.is_none() && !self.is_locked() && self.readers.is_empty()
    }
}
