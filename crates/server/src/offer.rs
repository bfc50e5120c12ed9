//! How a device is offered, and what becomes of that.

use crate::limits::Limits;
use crate::tls::Tls;
use std::io;
use thiserror::Error;

/// What ends a server.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The drive cannot be offered.
    #[error(transparent)]
    Export(#[from] nbd::ExportError),
    /// There is no block device of it.
    #[error(transparent)]
    Ublk(#[from] device::UblkError),
    /// The kernel gives no ring, or the ring fails.
    #[error(
        "io_uring: {0}; it needs Linux 5.11 or later, and may be switched off (sysctl kernel.io_uring_disabled)"
    )]
    Ring(io::Error),
    /// A defect.
    #[error("the thread that serves the disk has ended before its time; its log says why")]
    Ended,
}

/// What a server has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Clients that came.
    pub clients: u64,
    /// Requests answered well.
    pub requests: u64,
    /// Requests answered with an error.
    pub failed: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, well: bool) {
        *if well { &mut self.requests } else { &mut self.failed } += 1;
    }

    pub(crate) fn add(&mut self, answered: nbd::Answered) {
        self.requests += answered.well;
        self.failed += answered.failed;
    }
}

/// What may change of an [`Offer`] while it is served.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// What its clients may keep the server busy with.
    pub limits: Limits,
    /// Encryption, of clients that come from then on.
    pub tls: Option<Tls>,
}

/// How a device is offered.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// The export's name. The empty one is what a client gets who asks for none.
    pub name: String,
    /// Nobody writes to it.
    pub read_only: bool,
    /// Encryption, for clients who want it or for all.
    pub tls: Option<Tls>,
    /// What its clients may keep the server busy with.
    pub limits: Limits,
    /// As a block device of this machine's kernel, too.
    pub ublk: Option<Ublk>,
}

/// The block device that a disk is to be in this machine's kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ublk {
    /// The N of `/dev/ublkbN`.
    pub number: u32,
    /// The disk's name: a device that was left behind is taken over by the same disk only.
    pub disk: String,
}

impl Ublk {
    /// What the driver keeps with the device: that it is ours, and of which disk.
    pub(crate) fn owner(&self) -> u64 {
        u64::from(u32::from_be_bytes(*b"free")) << 32 | u64::from(crc32fast::hash(self.disk.as_bytes()))
    }
}
