//! The configuration of an export, and the result of serving it.

use crate::limits::Limits;
use crate::tls::Tls;
use std::io;
use thiserror::Error;

/// The errors that end a server.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The device cannot be offered as an export.
    #[error(transparent)]
    Export(#[from] nbd::ExportError),
    /// The block device cannot be created.
    #[error(transparent)]
    Ublk(#[from] device::UblkError),
    /// The kernel gives no ring, or the ring fails.
    #[error(
        "io_uring: {0}; io_uring needs Linux 5.11 or later, and may be switched off (sysctl kernel.io_uring_disabled)"
    )]
    Ring(io::Error),
    /// The thread of the server has ended by a defect.
    #[error("the thread that serves the disk has ended unexpectedly; its log says why")]
    Ended,
}

/// The counts of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Clients that connected.
    pub clients: u64,
    /// Requests answered without error.
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

/// The parts of an [`ExportConfig`] that may change while the export is served.
#[derive(Clone, Debug, Default)]
pub struct ExportUpdate {
    /// The limits on the load by the export's clients.
    pub limits: Limits,
    /// Encryption, for clients that connect after the change.
    pub tls: Option<Tls>,
}

/// The configuration of an export: a device and how it is served.
#[derive(Clone, Debug, Default)]
pub struct ExportConfig {
    /// The export's name. The empty name is for clients that ask for none.
    pub name: String,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Encryption, offered to clients or required of all.
    pub tls: Option<Tls>,
    /// The limits on the load by the export's clients.
    pub limits: Limits,
    /// The block device of this machine's kernel that shows the disk, if there is to be one.
    pub ublk: Option<Ublk>,
    /// The name of a second export of the device, if there is to be one. Requests to that export are [background
    /// requests](device::Device::ask_in_background): they wait for time that other requests leave.
    pub background: Option<String>,
    /// Whether clients of the background export may write.
    pub background_write: bool,
    /// The block device of this machine's kernel whose requests are background requests, if there is to be one.
    pub background_ublk: Option<Ublk>,
}

/// A block device in this machine's kernel that shows a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ublk {
    /// The N of `/dev/ublkbN`.
    pub number: u32,
    /// The disk's name: a device left by a dead daemon is taken over only for the same disk.
    pub disk: String,
    /// Whether the requests are background requests. A foreground device never takes over one of the background,
    /// nor the reverse.
    pub background: bool,
}

impl Ublk {
    /// Returns the tag that the driver stores with the device: the high half marks the device as ours, the low half
    /// names the disk.
    pub(crate) fn owner(&self) -> u64 {
        let kind = if self.background { *b"frbg" } else { *b"free" };
        u64::from(u32::from_be_bytes(kind)) << 32 | u64::from(crc32fast::hash(self.disk.as_bytes()))
    }
}
