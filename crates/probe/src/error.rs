//! Why a probe ended without a profile.

use crate::device::DeviceError;
use crate::journal::StateError;
use thiserror::Error;
use units::{Lbn, LbnRange};

/// Why a probe ended without a profile.
#[derive(Debug, Error)]
pub enum ProbeError {
    /// The device refused or lost a command.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// So much cannot be read that it cannot be gone round.
    #[error(
        "{problem}, the last at LBN {lbn}: {reason}; save what is on the drive, look at its cable and at the kernel's log \
         (dmesg), and probe it again when its sectors have been written anew"
    )]
    Unreadable {
        /// The last sector that could not be read.
        lbn: Lbn,
        /// How much could not.
        problem: String,
        /// What the device said.
        reason: String,
    },
    /// The caller asked for an end; the journal holds all that was measured.
    #[error("interrupted; resume from the state file")]
    Interrupted,
    /// A saved state does not belong to this device or this program.
    #[error(transparent)]
    State(#[from] StateError),
    /// Writes are allowed where there is no drive, or to too little of it.
    #[error(
        "writes are allowed to {region} of a drive of {capacity} sectors; name at least {least} sectors inside it"
    )]
    Region {
        /// What the user named.
        region: LbnRange,
        /// Sectors of the drive.
        capacity: u64,
        /// What is needed.
        least: u64,
    },
    /// The times do not look like a disk's.
    #[error("{stage}: {problem}; {mend}")]
    Unlike {
        /// What was being measured.
        stage: &'static str,
        /// What was seen.
        problem: String,
        /// What may help.
        mend: String,
    },
}

impl ProbeError {
    /// Whether the drive itself is the reason, by its times or by what cannot be read, rather than the device's handle, the user or a
    /// file: a probe goes on without the measurement.
    pub(crate) const fn is_of_the_drive(&self) -> bool {
        matches!(self, Self::Unlike { .. } | Self::Unreadable { .. })
    }
}
