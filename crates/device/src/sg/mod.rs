//! SCSI commands to a disk, other than its reads and writes, by the kernel's SG_IO.
//!
//! [`Sg`] is a disk of this machine. Everything else here uses the trait [`Scsi`], which tests implement with a
//! simulated disk.

pub(crate) mod commands;
pub(crate) mod farm;
mod journal;
mod kernel;
pub(crate) mod states;
mod switches;

pub use commands::Identity;
pub(crate) use commands::{read_rate, vpd_rate};
pub use farm::{Farm, Recording};
pub use journal::{Held, Journal, Record, SwitchJournal, SwitchJournalError};
pub use kernel::Sg;
pub use states::Switches;
pub use switches::{NotSwitched, Quiet, SwitchError, put_back, switch_off};

use std::io;
use thiserror::Error;

/// The data of a command.
#[derive(Debug)]
pub enum Transfer<'a> {
    /// The command has no data.
    None,
    /// The disk sends at most as many bytes as fit.
    FromDisk(&'a mut [u8]),
    /// The disk receives these bytes.
    ToDisk(&'a [u8]),
}

/// The reason why a disk did not execute a command.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ScsiError {
    /// The kernel did not send the command.
    #[error("the kernel does not send the command ({0}); run as root")]
    System(#[from] io::Error),
    /// The disk refused the command.
    #[error("the disk refuses the command (sense key {key:#x}, code {code:#x}/{qualifier:#x})")]
    Refused {
        /// The sense key, 0 to 15 (SPC-5, table 49).
        key: u8,
        /// The additional sense code.
        code: u8,
        /// The additional sense code qualifier.
        qualifier: u8,
    },
    /// The command did not reach the disk, or the disk's answer was lost.
    #[error(
        "the command failed on its way (SCSI status {status:#x}, host status {host:#x}); look at the kernel's log (dmesg)"
    )]
    Transport {
        /// The status byte of SCSI.
        status: u8,
        /// The status of the host adapter.
        host: u16,
    },
    /// The disk answered with too few bytes, or with impossible ones.
    #[error("the disk's answer to {command} is not understood")]
    Answer {
        /// The name of the command.
        command: &'static str,
    },
}

impl ScsiError {
    /// Returns whether the kernel has no SCSI commands for a device of this kind.
    pub(crate) fn is_no_scsi_disk(&self) -> bool {
        let Self::System(error) = self else { return false };
        matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL | libc::EOPNOTSUPP))
    }
}

/// A disk that executes SCSI commands.
pub trait Scsi {
    /// Executes a command of 6 to 16 bytes, and returns the number of data bytes that were transferred.
    ///
    /// # Errors
    /// The command was not executed.
    fn execute(&mut self, command: &[u8], data: Transfer<'_>) -> Result<usize, ScsiError>;
}

impl<S: Scsi + ?Sized> Scsi for &mut S {
    fn execute(&mut self, command: &[u8], data: Transfer<'_>) -> Result<usize, ScsiError> {
        (**self).execute(command, data)
    }
}

impl<S: Scsi + ?Sized> Scsi for Box<S> {
    fn execute(&mut self, command: &[u8], data: Transfer<'_>) -> Result<usize, ScsiError> {
        (**self).execute(command, data)
    }
}
