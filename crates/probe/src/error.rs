//! The reasons why a probe ends without a profile.

use crate::device::DeviceError;
use thiserror::Error;
use units::{Lbn, LbnRange};

/// The reason why a saved state cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StateError {
    /// The file is not a probe's state, or has another version.
    #[error("{file}: not a probe's state of this version; delete it and probe from the beginning")]
    Format {
        /// The file, as the caller names it.
        file: String,
    },
    /// Bytes of the file are missing or changed.
    #[error("{file}: damaged: {problem}; delete it and probe from the beginning")]
    Damaged {
        /// The file, as the caller names it.
        file: String,
        /// The fault.
        problem: String,
    },
    /// The state is of another drive or another set of options.
    #[error(
        "the state is of another probe: {problem}; give the drive and the options that it was begun with"
    )]
    Other {
        /// The disagreement of the saved state with this drive, these options, or the commands of this probe.
        problem: String,
    },
}

/// The reason why a probe ended without a profile.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The device refused or lost a command.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// So many sectors are unreadable that the probe cannot avoid them.
    #[error(
        "{problem}, the last at LBN {lbn}: {reason}; save what is on the drive, look at its cable and at the kernel's log \
         (dmesg), and probe it again when its sectors have been written anew"
    )]
    Unreadable {
        /// The last sector that could not be read.
        lbn: Lbn,
        /// The number of unreadable sectors, in words.
        problem: String,
        /// The device's message.
        reason: String,
    },
    /// The caller ended the probe; the journal holds all measurements.
    #[error("interrupted; resume from the state file")]
    Interrupted,
    /// A saved state does not belong to this device or this program.
    #[error(transparent)]
    State(#[from] StateError),
    /// The writable region is outside the drive, or too small.
    #[error(
        "writes are allowed to {region} of a drive of {capacity} sectors; name at least {least} sectors inside it"
    )]
    Region {
        /// The region that the user named.
        region: LbnRange,
        /// The number of sectors of the drive.
        capacity: u64,
        /// The least number of sectors of the region.
        least: u64,
    },
    /// The times are not those of a disk.
    #[error("{stage}: {problem}; {mend}")]
    Unlike {
        /// The measurement under way.
        stage: &'static str,
        /// The observation.
        problem: String,
        /// A possible remedy.
        mend: String,
    },
}

impl ProbeError {
    /// Returns whether the drive itself is the reason, by its times or its unreadable sectors, rather than the device's
    /// handle, the user or a file: the probe then goes on without the measurement.
    pub(crate) const fn is_of_the_drive(&self) -> bool {
        matches!(self, Self::Unlike { .. } | Self::Unreadable { .. })
    }
}
