//! A disk as a block device of this machine's own kernel, `/dev/ublkbN`: Linux's ublk driver hands the requests over.
//!
//! Only with the cargo feature `ublk`, which needs libclang to build. Without it there is the same [`Ublk`], which cannot be
//! opened and says so; nobody else need know which of them it has.

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

/// What a device is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UblkPlan {
    /// The N of `/dev/ublkbN`.
    pub number: u32,
    /// Whose device it is: one that a daemon has left behind is taken over by this owner only.
    pub owner: u64,
    /// Of a sector: 512 to 4096, a power of two.
    pub sector: Bytes,
    /// How many.
    pub sectors: Sectors,
    /// What it can do.
    pub abilities: Abilities,
    /// Nobody writes to it.
    pub read_only: bool,
}

/// Why there is no such device.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UblkError {
    /// The feature is off.
    #[error(
        "this freeblock was built without ublk; build it with `make ublk` (cargo's --features ublk, which needs libclang), or serve without ublk"
    )]
    NotBuilt,
    /// No driver.
    #[error(
        "/dev/ublk-control is not there; `modprobe ublk_drv` loads the driver of a Linux that has it (6.1 or later)"
    )]
    NoDriver,
    /// Nobody may.
    #[error("/dev/ublk-control: {0}; ublk devices are for root")]
    Control(io::Error),
    /// It is somebody else's.
    #[error("/dev/ublkb{number} {whose}; give another number")]
    Taken {
        /// Which.
        number: u32,
        /// Whose it is.
        whose: String,
    },
    /// Sectors that ublk does not know.
    #[error("sectors of {0} bytes; ublk has those of 512, 1024, 2048 and 4096")]
    Sector(u64),
    /// The driver's word.
    #[error("/dev/ublkb{number}: {what}: {source}")]
    Driver {
        /// Which.
        number: u32,
        /// What it was to do.
        what: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// A defect.
    #[error("the thread that looks after /dev/ublkb{0} has ended before its time")]
    Ended(u32),
}
