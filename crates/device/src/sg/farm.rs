//! The log in which Seagate's disks describe themselves (Field Accessible Reliability Metrics, FARM).
//!
//! The offsets of the fields are those of smartmontools 7.4 (`farmcmds.h`, `farmprint.cpp`), after
//! Seagate's specification 4.23.1. Only ATA disks are asked.

use super::commands::{ATA_SECTOR_BYTES, Identity, read_log};
use super::{Scsi, ScsiError};

/// The number of the log, and the number of sectors in each of its pages.
const LOG: u8 = 0xa6;
const PAGE_SECTORS: u16 = 32;

/// The first field of the log: "FARMER" in ASCII, as a number.
const SIGNATURE: u64 = 0x4641_524d_4552;

/// The numbers of the fields of page 1 that are read; each field has eight bytes.
const RECORDING: usize = 42;
const DEPOPULATED: usize = 43;

/// How tracks are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Tracks do not overlap.
    Conventional,
    /// Tracks overlap.
    Shingled,
}

/// A disk's description of itself. A field that the disk does not report is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Farm {
    /// How the disk's tracks are recorded.
    pub recording: Option<Recording>,
    /// Whether heads were taken out of service.
    pub depopulated: Option<bool>,
}

impl Farm {
    /// Reads the log. Returns `None` for a disk without it, which is of another maker or old.
    ///
    /// # Errors
    /// The disk executes no commands.
    pub fn read(disk: &mut dyn Scsi) -> Result<Option<Self>, ScsiError> {
        match Identity::of(disk)? {
            // Other makers may use a log with this number for something else.
            Identity::Ata { model, logs: true, .. } if model.starts_with("ST") => {}
            _ => return Ok(None),
        }
        // The log directory contains the number of sectors of each log.
        let directory = read_log(disk, 0, 0)?;
        let sectors = directory.get(2 * usize::from(LOG)..).and_then(<[u8]>::first_chunk::<2>);
        if sectors.is_none_or(|&bytes| u16::from_le_bytes(bytes) <= PAGE_SECTORS) {
            return Ok(None);
        }
        if field(&read_log(disk, LOG, 0)?, 0) != Some(SIGNATURE) {
            return Ok(None);
        }
        let page = read_log(disk, LOG, PAGE_SECTORS)?;
        Ok(Some(Self {
            recording: match field(&page, RECORDING).map(|bits| bits & 3) {
                // On a disk with both kinds of zones, some tracks overlap.
                Some(1 | 3) => Some(Recording::Shingled),
                Some(2) => Some(Recording::Conventional),
                _ => None,
            },
            depopulated: match field(&page, DEPOPULATED) {
                Some(0) => Some(false),
                Some(1) => Some(true),
                _ => None,
            },
        }))
    }
}

/// Returns a field. Its highest byte says whether the disk supports the field and whether the value is
/// valid.
fn field(page: &[u8; ATA_SECTOR_BYTES], number: usize) -> Option<u64> {
    let value = u64::from_le_bytes(*page.get(8 * number..)?.first_chunk()?);
    (value >> 56 == 0xc0).then_some(value & (u64::MAX >> 8))
}
