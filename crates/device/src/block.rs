//! The interface of block devices to an event loop.

#[cfg(target_os = "linux")]
use crate::ring::{Ended, Work};
use drive::CommandError;
#[cfg(target_os = "linux")]
use std::fmt::Debug;
use std::io;
use thiserror::Error;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors};

/// A request to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Reads the sectors.
    Read,
    /// Writes the sectors.
    Write {
        /// The sectors' bytes.
        bytes: Vec<u8>,
        /// Whether the bytes must be on the medium before the answer.
        through: bool,
    },
    /// Puts all acknowledged writes on the medium. The range is ignored.
    Flush,
    /// Discards the sectors, whose content is undefined afterwards. Only for a device that [can](Abilities::discard).
    Discard,
    /// Makes the sectors zero. Only for a device that [can](Abilities::write_zeroes).
    WriteZeroes {
        /// Whether the zeroes must be on the medium before the answer.
        through: bool,
        /// Whether the space must stay allocated.
        keep: bool,
    },
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// The number that the caller gave the request.
    pub id: u64,
    /// The time at which the device finished, as precisely as it is known. The host learns of it later.
    pub at: Instant,
    /// The bytes of a read; empty for other requests.
    pub result: Result<Vec<u8>, Failure>,
}

/// The reason why a request failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// A sector is bad.
    #[error("sector {0} cannot be read")]
    Medium(Lbn),
    /// The drive refused the command.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The number of bytes does not match the range.
    #[error("{found} bytes to write to {range:?}, which has {expected}")]
    Length {
        /// The range.
        range: LbnRange,
        /// The range's size in bytes.
        expected: Bytes,
        /// The bytes given.
        found: usize,
    },
    /// The range is empty, or ends beyond the device.
    #[error(
        "LBNs {range} on a device of {sectors} sectors; ask for at least one, and for none beyond the end"
    )]
    Outside {
        /// The range asked for.
        range: LbnRange,
        /// The number of sectors of the device.
        sectors: Sectors,
    },
    /// The device does not have this command (see [`Abilities`]).
    #[error("the device cannot {0}; query its abilities first")]
    Unsupported(&'static str),
    /// The device has not answered within a time limit. The request may still be executed.
    #[error("the device has not answered for {} s", after.as_nanos() / 1_000_000_000)]
    Silent {
        /// The time limit.
        after: Duration,
    },
    /// The device must not be written now, for this reason.
    #[error("{0}")]
    Taken(String),
    /// The snapshot that was asked for has ended, for this reason.
    #[error("{0}")]
    Ended(String),
    /// There is no room for another request; the text names the bound that is reached.
    #[error("{0}")]
    Busy(String),
    /// The file or device node below the device failed.
    #[error("backing file: {0}")]
    File(#[from] io::Error),
}

/// The optional commands and properties of a device. A command that the device does not have must not be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Whether [`Ask::Discard`] is possible.
    pub discard: bool,
    /// Whether [`Ask::WriteZeroes`] is possible, and faster than writing zeroes.
    pub write_zeroes: bool,
    /// Whether a power failure loses acknowledged writes that were neither flushed nor written through.
    pub volatile: bool,
    /// Whether the device has a head that must move.
    pub rotational: bool,
}

/// Consecutive sectors that are all a hole, or all none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of sectors.
    pub len: Sectors,
    /// Whether the sectors are unallocated, and read as zeroes.
    pub hole: bool,
}

/// A background request of a client: the device executes it when that costs other requests nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundRequest {
    /// The number that the caller gave the request. Numbers grow, and differ from those of other requests.
    pub id: u64,
    /// The number of the client, all of whose background requests are dropped together when it is gone.
    pub client: u64,
    /// The sectors.
    pub range: LbnRange,
    /// The operation.
    pub ask: Ask,
    /// The number of the [snapshot](Device::snapshots) to read; `None` for the device as it is now.
    pub snapshot: Option<u64>,
}

/// A read-only view of the device as it was at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The snapshot's number, which no other snapshot of the device ever has.
    pub number: u64,
    /// The name under which clients ask for the snapshot.
    pub name: String,
}

/// A block device for a disk's event loop. It is passed the time and the requests, and returns answers. It does no
/// I/O itself: it returns the operations that the host has to do on a ring.
///
/// After any call the host starts all operations of [`next_work`](Self::next_work) on its ring, and calls
/// [`poll`](Self::poll) until there is no answer. It calls [`advance`](Self::advance) at the time of
/// [`next_event`](Self::next_event), and [`ended`](Self::ended) when an operation of the ring has ended. Each ask is
/// answered once, in any order. A read that is submitted after a write was answered returns the written bytes. A
/// flush covers all writes that were answered before the flush was submitted.
///
/// A failing medium is reported as [`Failure::Medium`] with the first bad sector of the range. If the hardware
/// reports only the failure, the device finds that sector before it answers.
#[cfg(target_os = "linux")]
pub trait Device: Debug {
    /// Returns the number of bytes in a sector. All ranges are in sectors of this size.
    fn sector_bytes(&self) -> Bytes;

    /// Returns the size in bytes.
    fn size(&self) -> Bytes;

    /// Returns the device's optional commands and properties.
    fn abilities(&self) -> Abilities;

    /// Returns runs from the range's beginning on, at least one, which end at the range's end or before it. A device
    /// that does not know its holes returns one run that is no hole.
    fn runs(&self, range: LbnRange) -> Vec<Run> {
        vec![Run { len: range.len(), hole: false }]
    }

    /// Starts a request at `now`; the answer will have the number `id`.
    fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask);

    /// Starts a background request. A device without a scheduler executes it like any other request.
    fn ask_in_background(&mut self, now: Instant, request: BackgroundRequest) {
        self.ask(now, request.id, request.range, request.ask);
    }

    /// Returns the snapshots that can be read now.
    fn snapshots(&self) -> Vec<Snapshot> {
        Vec::new()
    }

    /// Declares that a client will ask for a range in background requests. There is no answer.
    fn declare(&mut self, now: Instant, client: u64, range: LbnRange) {
        let _ = (now, client, range);
    }

    /// Returns the parts of a range, in order, that a background request would get from memory.
    fn in_memory(&self, range: LbnRange) -> Vec<LbnRange> {
        let _ = range;
        Vec::new()
    }

    /// Makes the device execute background writes at once: disconnected clients have left so many that no new client
    /// can be accepted.
    fn hurry(&mut self, now: Instant) {
        let _ = now;
    }

    /// Drops the background requests of a client that is gone, and returns their numbers. The client's other requests
    /// are still answered.
    fn leave(&mut self, now: Instant, client: u64) -> Vec<u64> {
        let _ = (now, client);
        Vec::new()
    }

    /// Returns the next operation to start on the ring, with the device's number for it.
    fn next_work(&mut self) -> Option<(u64, Work)> {
        None
    }

    /// Records that the operation with the number `work` has ended.
    fn ended(&mut self, now: Instant, work: u64, ended: Ended) {
        let _ = (now, work, ended);
    }

    /// Returns the next time at which [`advance`](Self::advance) must be called.
    fn next_event(&self) -> Option<Instant>;

    /// Lets time pass until `now`.
    fn advance(&mut self, now: Instant);

    /// Sets the number of clients that may write. The server calls this when the number changes.
    fn set_writers(&mut self, writers: usize) {
        let _ = writers;
    }

    /// Returns the reason why no client may be accepted now, if there is one.
    fn taken(&self) -> Option<String> {
        None
    }

    /// Returns the next answer; `now` is the time at which the host takes the answer.
    fn poll(&mut self, now: Instant) -> Option<Answer>;
}

/// A device chosen at run time.
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

    fn ask_in_background(&mut self, now: Instant, request: BackgroundRequest) {
        (**self).ask_in_background(now, request);
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        (**self).snapshots()
    }

    fn declare(&mut self, now: Instant, client: u64, range: LbnRange) {
        (**self).declare(now, client, range);
    }

    fn in_memory(&self, range: LbnRange) -> Vec<LbnRange> {
        (**self).in_memory(range)
    }

    fn hurry(&mut self, now: Instant) {
        (**self).hurry(now);
    }

    fn leave(&mut self, now: Instant, client: u64) -> Vec<u64> {
        (**self).leave(now, client)
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
