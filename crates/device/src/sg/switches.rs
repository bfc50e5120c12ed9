//! The drive's own switches of its look-ahead and its read cache: switched off for a measurement, and put back after it.
//!
//! The states before are in a journal before the first switch is changed, and are removed from it when they are back. So
//! a measurement that is killed at any point leaves a record, and the next start puts the switches back by it.

use super::commands::{CachingPage, Identity, set_look_ahead};
use super::journal::{Journal, Record, SwitchJournalError};
use super::states::{Switch, Switches};
use super::{Scsi, ScsiError};
use std::fmt;
use thiserror::Error;

/// The reason why a switch did not change.
#[derive(Debug, Error)]
pub enum SwitchError {
    /// The disk refused, or did not answer.
    #[error("{switch}: {source}")]
    Disk {
        /// The switch.
        switch: String,
        /// The disk's answer.
        source: ScsiError,
    },
    /// The disk accepted the change, and did not carry it out.
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

/// The reason why a disk's switches are as they were.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NotSwitched {
    /// Their states could not be read.
    #[error("the states of look-ahead and read cache cannot be read: {0}")]
    Unknown(#[from] ScsiError),
    /// They are off already, or the disk has none.
    #[error("the disk has neither look-ahead nor read cache switched on")]
    Nothing,
    /// Their states could not be recorded.
    #[error("{0}")]
    Journal(#[from] SwitchJournalError),
    /// The disk refused all changes.
    #[error("{0}")]
    Refused(SwitchError),
}

/// A disk with switches that are off, until [`Quiet::end`] or the end of its scope puts them back.
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

/// Switches off the look-ahead and the read cache of the disk with this identity. Their states are in the journal first.
///
/// # Errors
/// No switch was changed.
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
        // The end of the scope puts back what a disk changed in spite of its error.
        Some(error) if off == 0 => Err(NotSwitched::Refused(error)),
        refused => {
            quiet.refused = refused;
            Ok(quiet)
        }
    }
}

/// Puts the switches of a disk back to the states of a record.
///
/// # Errors
/// The disk refuses; the record must be kept.
pub fn put_back(disk: &mut dyn Scsi, record: &Record) -> Result<(), SwitchError> {
    let mut result = Ok(());
    for switch in record.before.on() {
        // A switch that cannot be put back must not keep the other one off.
        if let Err(error) = set(disk, switch, true) {
            result = Err(error);
        }
    }
    result
}

impl Quiet {
    /// Returns the error of a switch that stayed on.
    pub const fn refused(&self) -> Option<&SwitchError> {
        self.refused.as_ref()
    }

    /// Puts the switches back, and removes the record.
    ///
    /// # Errors
    /// The disk refuses, or the record cannot be removed; the next start tries again.
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
            // A failure leaves the record to the next start.
            let _ = self.back();
        }
    }
}
