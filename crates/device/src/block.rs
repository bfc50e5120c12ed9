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
    /// Read the sectors.
    Read,
    /// Write the sectors.
    Write {
        /// Their bytes.
        bytes: Vec<u8>,
        /// Whether they must be on the medium before the answer.
        through: bool,
    },
    /// Put all acknowledged writes on the medium. The range is ignored.
    Flush,
    /// Discard the sectors; their content is undefined afterwards. Only for a device that
    /// [can](Abilities::discard).
    Discard,
    /// Make the sectors zero. Only for a device that [can](Abilities::write_zeroes).
    WriteZeroes {
        /// Whether they must be on the medium before the answer.
        through: bool,
        /// Whether the space must stay allocated.
        keep: bool,
    },
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// The caller's number of the request.
    pub id: u64,
    /// The time at which the device finished, as precisely as it is known; the call that reported it came later.
    pub at: Instant,
    /// The bytes of a read; empty for other requests.
    pub result: Result<Vec<u8>, Failure>,
}

/// The reason for which a request failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Failure {
    /// A bad sector.
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
        /// Its size in bytes.
        expected: Bytes,
        /// The bytes given.
        found: usize,
    },
    /// The range is empty, or not on the device.
    #[error(
        "LBNs {range} on a device of {sectors} sectors; ask for at least one, and for none beyond the end"
    )]
    Outside {
        /// The range of the request.
        range: LbnRange,
        /// The sectors of the device.
        sectors: Sectors,
    },
    /// The device does not have this command: see [`Abilities`].
    #[error("the device cannot {0}; query its abilities first")]
    Unsupported(&'static str),
    /// There is no answer, and the wait has ended: the request may still be carried out.
    #[error("the device has not answered for {} s", after.as_nanos() / 1_000_000_000)]
    Silent {
        /// The time after which the wait ended.
        after: Duration,
    },
    /// The device must not be written now.
    #[error("{0}")]
    Taken(String),
    /// The snapshot that was asked for has ended; with the reason.
    #[error("{0}")]
    Ended(String),
    /// There is no room for one more request; with the bound that is reached.
    #[error("{0}")]
    Busy(String),
    /// The file or the device node below it failed.
    #[error("backing file: {0}")]
    File(#[from] io::Error),
}

/// The optional commands and properties of a device. A command that it does not have must not be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// [`Ask::Discard`] is possible.
    pub discard: bool,
    /// [`Ask::WriteZeroes`] is possible, and faster than writing zeroes.
    pub write_zeroes: bool,
    /// A power failure loses acknowledged writes that were not flushed or written through.
    pub volatile: bool,
    /// The device has a head that must move.
    pub rotational: bool,
}

/// A run of sectors of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of sectors.
    pub len: Sectors,
    /// Whether they are unallocated, and read as zeroes.
    pub hole: bool,
}

/// A request of a client that can wait: the device carries it out when that costs other requests nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackgroundRequest {
    /// The caller's number of the request. Numbers grow, and are not those of other requests.
    pub id: u64,
    /// The client, whose requests are dropped together.
    pub client: u64,
    /// The sectors.
    pub range: LbnRange,
    /// The operation.
    pub ask: Ask,
    /// The number of the [snapshot](Device::snapshots) that it is for; `None`: the device as it is.
    pub snapshot: Option<u64>,
}

/// The device as it was at one instant, for reading only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Its number. No other snapshot of the device ever has it.
    pub number: u64,
    /// The name under which clients ask for it.
    pub name: String,
}

/// A block device for a disk's event loop. It takes the time and the requests, and returns answers. It does no I/O on
/// a ring itself: it returns the work to be done.
///
/// After any call the host starts all of [`next_work`](Self::next_work) on its ring, calls [`poll`](Self::poll) until
/// there is no answer, and calls [`advance`](Self::advance) at [`next_event`](Self::next_event), or
/// [`ended`](Self::ended) when a ring operation has ended. Each ask is answered once, in any order; a read that is
/// submitted after a write was answered returns the written bytes. A flush covers all writes that were answered
/// before it was submitted.
///
/// A failing medium is reported as [`Failure::Medium`] with the first bad sector of the
/// range: if the hardware reports only the failure, the device finds that sector before it answers.
#[cfg(target_os = "linux")]
pub trait Device: Debug {
    /// Returns the bytes of a sector: every range is in sectors of this size.
    fn sector_bytes(&self) -> Bytes;

    /// Returns the size in bytes.
    fn size(&self) -> Bytes;

    /// Returns its optional commands and properties.
    fn abilities(&self) -> Abilities;

    /// Returns the runs of a range: at least one from its beginning on, together no more than the range. A device
    /// that does not know its holes returns one run without.
    fn runs(&self, range: LbnRange) -> Vec<Run> {
        vec![Run { len: range.len(), hole: false }]
    }

    /// Starts a request at `now`; its answer will have the number `id`.
    fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask);

    /// Starts a request that can wait. A device without a scheduler carries it out as any other.
    fn ask_in_background(&mut self, now: Instant, request: BackgroundRequest) {
        self.ask(now, request.id, request.range, request.ask);
    }

    /// Returns the snapshots that can be read now.
    fn snapshots(&self) -> Vec<Snapshot> {
        Vec::new()
    }

    /// Declares that a client will ask for a range in the background. Nothing is answered.
    fn declare(&mut self, now: Instant, client: u64, range: LbnRange) {
        let _ = (now, client, range);
    }

    /// Returns the parts of a range, in order, that a request in the background gets from memory.
    fn in_memory(&self, range: LbnRange) -> Vec<LbnRange> {
        let _ = range;
        Vec::new()
    }

    /// Stops delaying background writes: clients that are gone have left too many of them for new clients to be accepted.
    fn hurry(&mut self, now: Instant) {
        let _ = now;
    }

    /// Drops the requests of a client that can wait, because the client is gone. Returns their numbers; the client's
    /// other requests are still answered.
    fn leave(&mut self, now: Instant, client: u64) -> Vec<u64> {
        let _ = (now, client);
        Vec::new()
    }

    /// Returns the next operation to be started on the ring, with the device's number for it.
    fn next_work(&mut self) -> Option<(u64, Work)> {
        None
    }

    /// Records that the operation with the number `work` has ended.
    fn ended(&mut self, now: Instant, work: u64, ended: Ended) {
        let _ = (now, work, ended);
    }

    /// Returns the next time at which the device has something to do without any call.
    fn next_event(&self) -> Option<Instant>;

    /// Lets time pass until `now`.
    fn advance(&mut self, now: Instant);

    /// Sets the number of clients that have it open for writing; the server calls this when that changes.
    fn set_writers(&mut self, writers: usize) {
        let _ = writers;
    }

    /// Returns the reason for which no client may be admitted now, if there is one.
    fn taken(&self) -> Option<String> {
        None
    }

    /// Returns the next answer; `now` is the time at which the host takes it.
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
