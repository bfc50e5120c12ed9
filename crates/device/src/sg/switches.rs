//! The drive's own switches of its look-ahead and its read cache, which are off during a measurement and are
//! put back after it.
//!
//! The states before the change are in a journal before the first switch is changed, and are removed from it
//! when the switches are back. So a measurement that is killed at any point leaves a record, by which the next
//! start puts the switches back.

use super::commands::{CachingPage, Identity, set_look_ahead};
use super::journal::{Journal, Record, SwitchJournalError};
use super::states::{Switch, Switches};
use super::{Scsi, ScsiError};
use std::fmt;
use thiserror::Error;

/// The reason why a switch did not change.
#[derive(Debug, Error)]
pub enum SwitchError {
    /// The disk refused the command, or did not answer.
    #[error("{switch}: {source}")]
    Disk {
        /// The switch.
        switch: String,
        /// The disk's answer.
        source: ScsiError,
    },
    /// The disk accepted the command, but did not change the switch.
    #[error("{switch}: the disk accepts the command and does not change its state")]
    Unchanged {
        /// The switch.
        switch: String,
    },
}

fn set(disk: &mut dyn Scsi, switch: Switch, on: bool) -> Result<(), SwitchError> {
    let failed = |source| SwitchError::Disk { switch: switch.to_string(), source };
    let mut change = || {
        match (Identity::of(disk)?, switch) {
            (Identity::Ata { .. }, _) => set_look_ahead(disk, on)?,
            (Identity::Scsi, Switch::LookAhead) => {
                let mut page = CachingPage::read(disk)?;
                page.set_look_ahead(on);
                page.write(disk)?;
            }
            (Identity::Scsi, Switch::ReadCache) => {
                let mut page = CachingPage::read(disk)?;
                page.set_read_cache(on);
                page.write(disk)?;
            }
        }
        Switches::read(disk)
    };
    if change().map_err(failed)?.get(switch) == Some(on) {
        Ok(())
    } else {
        Err(SwitchError::Unchanged { switch: switch.to_string() })
    }
}

/// The reason why no switch of a disk was switched off.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NotSwitched {
    /// The states could not be read.
    #[error("the states of look-ahead and read cache cannot be read: {0}")]
    Unknown(#[from] ScsiError),
    /// The switches are off already, or the disk has none.
    #[error("the disk has neither look-ahead nor read cache switched on")]
    Nothing,
    /// The states could not be recorded.
    #[error("{0}")]
    Journal(#[from] SwitchJournalError),
    /// The disk refused to change any switch.
    #[error("{0}")]
    Refused(SwitchError),
}

/// A disk whose look-ahead and read cache are off. [`Quiet::end`], or dropping the value, restores them.
pub struct Quiet {
    disk: Box<dyn Scsi + Send>,
    journal: Box<dyn Journal + Send>,
    record: Record,
    refused: Option<SwitchError>,
    ended: bool,
}

impl fmt::Debug for Quiet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quiet").field("record", &self.record).finish_non_exhaustive()
    }
}

/// Switches off the look-ahead and the read cache of the disk with this identity, after recording their states
/// in the journal.
///
/// # Errors
/// No switch is off.
pub fn switch_off(
    mut disk: Box<dyn Scsi + Send>,
    mut journal: Box<dyn Journal + Send>,
    identity: &str,
) -> Result<Quiet, NotSwitched> {
    let before = Switches::read(&mut disk)?;
    if before.on().next().is_none() {
        return Err(NotSwitched::Nothing);
    }
    let record = Record { disk: identity.to_owned(), before };
    journal.save(&record)?;
    let mut quiet = Quiet { disk, journal, record, refused: None, ended: false };
    let mut off = 0;
    for switch in before.on() {
        match set(&mut quiet.disk, switch, false) {
            Ok(()) => off += 1,
            Err(error) => quiet.refused = Some(error),
        }
    }
    match quiet.refused.take() {
        // Dropping `quiet` puts back a switch that the disk changed although it reported an error.
        Some(error) if off == 0 => Err(NotSwitched::Refused(error)),
        refused => {
            quiet.refused = refused;
            Ok(quiet)
        }
    }
}

/// Puts a disk's switches back to the states in a record.
///
/// # Errors
/// The disk refuses; the caller has to keep the record.
pub fn put_back(disk: &mut dyn Scsi, record: &Record) -> Result<(), SwitchError> {
    let mut result = Ok(());
    for switch in record.before.on() {
        // If one switch cannot be put back, the other one still is.
        if let Err(error) = set(disk, switch, true) {
            result = Err(error);
        }
    }
    result
}

impl Quiet {
    /// Returns the error of a switch that the disk did not switch off.
    pub const fn refused(&self) -> Option<&SwitchError> {
        self.refused.as_ref()
    }

    /// Puts the switches back, and removes the record.
    ///
    /// # Errors
    /// The disk refuses, or the record cannot be removed. In either case the next start tries again.
    pub fn end(mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.ended = true;
        self.back()
    }

    fn back(&mut self) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        put_back(&mut self.disk, &self.record)?;
        self.journal.remove(&self.record)?;
        Ok(())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if !self.ended {
            // If this fails, the record stays for the next start.
            let _ = self.back();
        }
    }
}
