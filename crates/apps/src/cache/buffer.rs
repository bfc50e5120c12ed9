//! One buffer: which of its sectors are valid, dirty, on their way.

use super::calls::Job;
use super::mask::{Mask, Span};
use super::tally::Cause;
use std::collections::VecDeque;
use units::{Instant, LbnRange, RequestId, TaskId};

/// When a sector was dirtied: its place in the order of all writes, and the time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    pub sequence: u64,
    pub at: Instant,
}

/// Bytes that were handed out and may be on the medium already, or not yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    /// Sectors of which the bytes handed out are still the newest.
    pub taken: Mask,
    /// Sectors that were dirty when the first bytes were handed out, and were not among them yet.
    owed: Mask,
    /// Why the write was forced, if it was when they were handed out.
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
    /// The block it holds; a free buffer holds none.
    pub block: Option<u64>,
    /// When it was used last, in the order of all uses.
    pub used: u64,
    pub valid: Mask,
    /// Sectors whose bytes are newer than what is known to be on the medium.
    pub dirty: Mask,
    /// Not later than the oldest of the dirty sectors.
    pub oldest: Stamp,
    /// The first write since bytes were handed out.
    late: Option<Stamp>,
    pub flight: Option<Flight>,
    pub task: Option<Task>,
    /// The foreground write-back under way.
    pub write: Option<Foreground>,
    /// The foreground read under way.
    pub fill: Option<Foreground>,
    /// The reader for which alone it is, after a read of the whole block met a bad sector.
    pub fill_for: Option<Job>,
    /// A read of the whole block met a bad sector.
    pub suspect: bool,
    /// Reads that wait for it.
    pub readers: VecDeque<Job>,
    pub pins: u32,
    /// Why it must be written now.
    pub forced: Option<Cause>,
    /// Its contents died: it leaves as soon as it can, unless it is written to.
    pub dead: bool,
    /// Clean because it was written for free.
    pub gift: bool,
    /// Its write-back failed; when it is tried again.
    pub failed: Option<Instant>,
    /// Counts registrations, so that a record of an earlier one is known.
    pub registrations: u32,
    pub bytes: Vec<u8>,
}

/// How a write-back ended for the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Landed {
    /// The bytes were another's: nothing is known.
    NotOurs,
    /// Everything that was dirty is on the medium.
    Clean(Option<Cause>),
    /// It was dirtied again, or the write covered only a part.
    StillDirty(Option<Cause>),
}

impl Buffer {
    /// New bytes for these sectors.
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

    /// The bytes of these sectors are handed out.
    pub fn taken(&mut self, sectors: Mask) {
        let (cause, owed) = (self.forced, self.dirty);
        let flight = self.flight.get_or_insert(Flight { taken: Mask::EMPTY, owed, cause });
        flight.taken = flight.taken.with(sectors);
        flight.owed = flight.owed.without(sectors);
        flight.cause = cause;
    }

    /// What was handed out is on the medium. Whatever was dirtied since is not.
    pub fn landed(&mut self) -> Landed {
        let Some(flight) = self.flight.take() else { return Landed::NotOurs };
        let rest = self.dirty.without(flight.taken);
        // What was owed may have been dirtied again since; its older bytes are not on the medium all the same.
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

    /// The medium did not take it: all that was dirty is.
    pub fn not_landed(&mut self, retry: Instant) {
        self.flight = None;
        self.late = None;
        self.forced = None;
        self.failed = Some(retry);
    }

    /// What a write-back covers: from the first dirty sector to the last that can be reached over valid ones. Where
    /// that is not all, the rest is another write-back; so no block is ever read only to be written.
    pub fn write_back(&self) -> Option<Span> {
        let first = self.dirty.hull()?.first;
        let reach = self.valid.from(first).first_run()?;
        self.dirty.within(reach.mask()).hull()
    }

    /// Whether the bytes may not be handed out for free now.
    pub fn is_locked(&self) -> bool {
        self.pins > 0 || self.fill.is_some() || self.write.is_some()
    }

    /// Whether old bytes may still be on their way to the medium.
    pub fn is_out(&self) -> bool {
        self.flight.is_some() || self.write.is_some()
    }

    /// Whether the block may leave at once. What is out belongs to a task or locks the buffer.
    pub fn is_evictable(&self) -> bool {
        self.dirty.is_empty() && self.task.is_none() && !self.is_locked() && self.readers.is_empty()
    }
}
