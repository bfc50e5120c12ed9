//! The states of two switches of a disk: its look-ahead and its read cache.

use super::commands::{CachingPage, Identity};
use super::{Scsi, ScsiError};
use std::fmt;

/// The states of a disk's switches; `None` for a switch that the disk does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// Whether the disk reads further sectors into its buffer after the requested ones.
    pub look_ahead: Option<bool>,
    /// Whether a read may be answered from the buffer. ATA disks have no switch for that.
    pub read_cache: Option<bool>,
}

/// One of the two switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    LookAhead,
    ReadCache,
}

impl Switch {
    const ALL: [Self; 2] = [Self::LookAhead, Self::ReadCache];
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::LookAhead => "look-ahead",
            Self::ReadCache => "the read cache",
        })
    }
}

impl Switches {
    /// Reads the states from a disk.
    ///
    /// # Errors
    /// The disk executes no commands, or has no caching mode page.
    pub fn read(disk: &mut dyn Scsi) -> Result<Self, ScsiError> {
        Ok(match Identity::of(disk)? {
            Identity::Ata { look_ahead, .. } => Self { look_ahead, read_cache: None },
            Identity::Scsi => {
                let page = CachingPage::read(disk)?;
                Self { look_ahead: Some(page.look_ahead()), read_cache: Some(page.read_cache()) }
            }
        })
    }

    pub(super) fn get(self, switch: Switch) -> Option<bool> {
        match switch {
            Switch::LookAhead => self.look_ahead,
            Switch::ReadCache => self.read_cache,
        }
    }

    pub(super) fn on(self) -> impl Iterator<Item = Switch> {
        Switch::ALL.into_iter().filter(move |&switch| self.get(switch) == Some(true))
    }
}
