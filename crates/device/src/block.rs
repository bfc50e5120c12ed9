//! What an event loop may know of any block device.

use crate::emulated::{Answer, Ask};
use crate::ring::{Ended, Work};
use std::fmt::Debug;
use units::{Bytes, Instant, LbnRange, Sectors};

/// What a device can do beside reading, writing and flushing. What it cannot is not asked of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// [`Ask::Discard`].
    pub discard: bool,
    /// [`Ask::WriteZeroes`], quicker than writing them.
    pub write_zeroes: bool,
    /// It forgets what it has acknowledged when the power fails, unless it was flushed or written through.
    pub volatile: bool,
    /// A head must move.
    pub rotational: bool,
}

/// Sectors of one kind, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// How many.
    pub len: Sectors,
    /// They take no room, and read as zeroes.
    pub hole: bool,
}

/// A block device as a disk's event loop meets it: told the time, asked, answering. It does no input or output on a ring
/// itself: it hands out the work.
///
/// After any call the host starts all of [`next_work`](Self::next_work) on its ring, [`poll`](Self::poll)s until there is
/// no answer, and comes back at [`next_event`](Self::next_event) with [`advance`](Self::advance), or when a ring operation
/// has [ended](Self::ended). Each ask is answered once, in any order; an ask that comes after a write was answered sees
/// what it wrote. A flush covers what was answered before it was asked for.
///
/// A medium that fails is told of as [`Failure::Medium`](crate::Failure::Medium) with the first bad sector of the range:
/// a device of which only the failure is heard looks for that sector itself, before it answers.
pub trait Device: Debug {
    /// Bytes of a sector: every range is in sectors of this size.
    fn sector_bytes(&self) -> Bytes;

    /// Bytes in all.
    fn size(&self) -> Bytes;

    /// What it can do.
    fn abilities(&self) -> Abilities;

    /// What lies where in a range: at least one run from its beginning on, together no more than the range. A device that
    /// does not know has no holes.
    fn runs(&self, range: LbnRange) -> Vec<Run> {
        vec![Run { len: range.len(), hole: false }]
    }

    /// Asks for something at `now`; the answer comes in time, under `id`.
    fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask);

    /// The next operation to be started on the ring, under the device's name for it.
    fn next_work(&mut self) -> Option<(u64, Work)> {
        None
    }

    /// An operation that [`next_work`](Self::next_work) named `work` has ended.
    fn ended(&mut self, now: Instant, work: u64, ended: Ended) {
        let _ = (now, work, ended);
    }

    /// When time alone makes something happen.
    fn next_event(&self) -> Option<Instant>;

    /// Lets time pass until `now`.
    fn advance(&mut self, now: Instant);

    /// How many clients have it open and may write; told by whoever serves it, when that changes.
    fn set_writers(&mut self, writers: usize) {
        let _ = writers;
    }

    /// Why no client is to be let in now, if none is.
    fn taken(&self) -> Option<String> {
        None
    }

    /// The next answer; `now` is when the host takes it.
    fn poll(&mut self, now: Instant) -> Option<Answer>;
}

/// One that is chosen at run time.
impl<D: Device + ?Sized> Device for Box<D> {
    fn taken(&self) -> Option<String> {
        (**self).taken()
    }

    fn set_writers(&mut self, writers: usize) {
        (**self).set_writers(writers);
    }

    fn sector_bytes(&self) -> Bytes {
        (**self).sector_bytes()
    }

    fn size(&self) -> Bytes {
        (**self).size()
    }

    fn abilities(&self) -> Abilities {
        (**self).abilities()
    }

    fn runs(&self, range: LbnRange) -> Vec<Run> {
        (**self).runs(range)
    }

    fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask) {
        (**self).ask(now, id, range, ask);
    }

    fn next_work(&mut self) -> Option<(u64, Work)> {
        (**self).next_work()
    }

    fn ended(&mut self, now: Instant, work: u64, ended: Ended) {
        (**self).ended(now, work, ended);
    }

    fn next_event(&self) -> Option<Instant> {
        (**self).next_event()
    }

    fn advance(&mut self, now: Instant) {
        (**self).advance(now);
    }

    fn poll(&mut self, now: Instant) -> Option<Answer> {
        (**self).poll(now)
    }
}
