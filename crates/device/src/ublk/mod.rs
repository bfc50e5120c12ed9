//! A disk as a block device of this machine's own kernel, `/dev/ublkbN`: Linux's ublk driver passes on the requests.
//!
//! Only with the cargo feature `ublk`, which needs libclang to build. Without it the same [`Ublk`] exists, and
//! opening it fails with the reason; its users need not distinguish the two.

use crate::block::Abilities;
use std::io;
use thiserror::Error;
use units::{Bytes, Sectors};

#[cfg(not(feature = "ublk"))]
mod absent;
#[cfg(feature = "ublk")]
mod node;
#[cfg(feature = "ublk")]
mod params;
#[cfg(feature = "ublk")]
mod queue;

#[cfg(not(feature = "ublk"))]
pub use absent::Ublk;
#[cfg(feature = "ublk")]
pub use node::Ublk;

/// The plan of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UblkPlan {
    /// The N of `/dev/ublkbN`.
    pub number: u32,
    /// The owner: only it takes over a device whose daemon has died.
    pub owner: u64,
    /// The bytes of a sector: 512 to 4096, a power of two.
    pub sector: Bytes,
    /// The number of sectors.
    pub sectors: Sectors,
    /// The optional commands and properties of the device.
    pub abilities: Abilities,
    /// Whether the kernel refuses writes to it.
    pub read_only: bool,
}

/// The reason for which a device cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UblkError {
    /// The feature is off.
    #[error(
        "freeblock was built without ublk; build it with `make ublk` (cargo's --features ublk, which needs libclang), or serve without ublk"
    )]
    NotBuilt,
    /// The driver is missing.
    #[error(
        "/dev/ublk-control is not there; `modprobe ublk_drv` loads the driver of a Linux that has it (6.1 or later)"
    )]
    NoDriver,
    /// This process has no permission.
    #[error("/dev/ublk-control: {0}; ublk devices are for root")]
    Control(io::Error),
    /// The number belongs to another user.
    #[error("/dev/ublkb{number} {whose}; give another number")]
    Taken {
        /// The number.
        number: u32,
        /// The current owner.
        whose: String,
    },
    /// The sector size is not supported.
    #[error("sectors of {0} bytes; ublk has those of 512, 1024, 2048 and 4096")]
    Sector(u64),
    /// The driver failed.
    #[error("/dev/ublkb{number}: {what}: {source}")]
    Driver {
        /// The number.
        number: u32,
        /// The operation.
        what: &'static str,
        /// The driver's error.
        source: io::Error,
    },
    /// A defect of this program.
    #[error("the thread that looks after /dev/ublkb{0} has ended before its time")]
    Ended(u32),
}

impl UblkError {
    /// Returns the number of the device that it is about.
    pub fn number(&self) -> Option<u32> {
        match self {
            Self::Taken { number, .. } | Self::Driver { number, .. } | Self::Ended(number) => Some(*number),
            Self::NotBuilt | Self::NoDriver | Self::Control(_) | Self::Sector(_) => None,
        }
    }
}
