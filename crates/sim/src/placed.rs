//! A core in the drive or outside, for hosts that have either.

use scheduler::{AnyCore, Buffers, Command, Config, HeadWork, IdleTimeError, InDrive, Output, OutsideDrive};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use units::Instant;

/// A core that is in the drive or outside.
#[expect(clippy::large_enum_variant, reason = "a host has one")]
pub enum PlacedCore {
    /// The core in the drive.
    In(InDrive),
    /// The core outside the drive.
    Outside(OutsideDrive),
}

/// The work that a core asks for, in the drive or outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacedWork {
    /// Work of the head, for a core in the drive.
    Head(HeadWork),
    /// A command to the drive, for a core outside.
    Command(Command),
}

impl PlacedCore {
    /// Returns a core in the drive.
    ///
    /// # Errors
    /// Invalid settings of idle time.
    pub fn in_drive(drive: Arc<model::DriveModel>, config: Config) -> Result<Self, IdleTimeError> {
        Ok(Self::In(InDrive::try_new(drive, config)?))
    }

    /// Returns a core outside the drive.
    ///
    /// # Errors
    /// Invalid settings of idle time.
    pub fn outside(drive: Arc<model::DriveModel>, config: Config) -> Result<Self, IdleTimeError> {
        Ok(Self::Outside(OutsideDrive::try_new(drive, config)?))
    }

    /// Returns the core in the drive, for work of the head. `None` if the core is outside: then the host has mixed them
    /// up, because no head work can belong to it.
    pub(crate) fn of_the_head(&mut self) -> Option<&mut InDrive> {
        match self {
            Self::In(core) => Some(core),
            Self::Outside(_) => {
                debug_assert!(false, "a head has work, but its core is outside the drive");
                None
            }
        }
    }

    /// Returns the core outside the drive, for commands. `None` if the core is in the drive: then the host has mixed
    /// them up, because no command can belong to it.
    pub(crate) fn of_the_commands(&mut self) -> Option<&mut OutsideDrive> {
        match self {
            Self::Outside(core) => Some(core),
            Self::In(_) => {
                debug_assert!(false, "a drive has commands, but its core is in the drive");
                None
            }
        }
    }

    /// Returns the next output; `buffers` is asked before a background block is written.
    pub fn poll_with(&mut self, now: Instant, buffers: &mut dyn Buffers) -> Option<Output<PlacedWork>> {
        match self {
            Self::In(core) => core.poll_with(now, buffers).map(|output| output.map(PlacedWork::Head)),
            Self::Outside(core) => core.poll_with(now, buffers).map(|output| output.map(PlacedWork::Command)),
        }
    }
}

impl Deref for PlacedCore {
    type Target = dyn AnyCore;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::In(core) => core,
            Self::Outside(core) => core,
        }
    }
}

impl DerefMut for PlacedCore {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::In(core) => core,
            Self::Outside(core) => core,
        }
    }
}
