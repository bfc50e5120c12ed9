//! A disk shown to this machine's own kernel as a block device, `/dev/ublkbN`, by Linux's ublk driver.
//!
//! This needs the cargo feature `ublk`, which needs libclang to build. Without the feature [`Ublk`] has the same
//! interface, and opening it fails with the reason.

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

/// The properties of a device to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UblkPlan {
    /// The N of `/dev/ublkbN`.
    pub number: u32,
    /// The owner's tag: only a daemon with the same tag takes over a device whose daemon has died.
    pub owner: u64,
    /// The bytes of a sector: 512 to 4096, a power of two.
    pub sector: Bytes,
    /// The number of sectors.
    pub sectors: Sectors,
    /// The optional commands and properties of the device.
    pub abilities: Abilities,
    /// Whether the kernel refuses writes to the device.
    pub read_only: bool,
}

/// The reason why a device cannot be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UblkError {
    /// This build has no ublk.
    #[error(
        "freeblock was built without ublk; build it with `make ublk` (cargo's --features ublk, which needs libclang), or serve without ublk"
    )]
    NotBuilt,
    /// The kernel's driver is missing.
    #[error(
        "/dev/ublk-control is not there; `modprobe ublk_drv` loads the driver of a Linux that has it (6.1 or later)"
    )]
    NoDriver,
    /// This process may not use the driver.
    #[error("/dev/ublk-control: {0}; ublk devices are for root")]
    Control(io::Error),
    /// The number is in use.
    #[error("/dev/ublkb{number} {whose}; give another number")]
    Taken {
        /// The number.
        number: u32,
        /// The present owner, in words.
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
    /// The thread that gives the driver its commands has ended by a defect.
    #[error("the thread that looks after /dev/ublkb{0} has ended unexpectedly")]
    Ended(u32),
}

impl UblkError {
    /// Returns the number of the device that the error is about.
    pub fn number(&self) -> Option<u32> {
        match self {
            Self::Taken { number, .. } | Self::Driver { number, .. } | Self::Ended(number) => Some(*number),
            Self::NotBuilt | Self::NoDriver | Self::Control(_) | Self::Sector(_) => None,
        }
    }
}
