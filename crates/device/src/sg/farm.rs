//! The log in which Seagate's disks describe themselves (Field Accessible Reliability Metrics, FARM).
//!
//! The places of its fields are those of smartmontools 7.4 (`farmcmds.h`, `farmprint.cpp`), after Seagate's
//! specification 4.23.1. Only ATA disks are asked.

use super::commands::{ATA_SECTOR_BYTES, Identity, read_log};
use super::{Scsi, ScsiError};

/// The number of the log, and of the sectors of each of its pages.
const LOG: u8 = 0xa6;
const PAGE_SECTORS: u16 = 32;

/// The first field: "FARMER" in ASCII, as a number.
const SIGNATURE: u64 = 0x4641_524d_4552;

/// The fields of page 1, by their numbers: eight bytes each.
const RECORDING: usize = 42;
const DEPOPULATED: usize = 43;

/// The way in which tracks are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recording {
    /// Tracks do not overlap.
    Conventional,
    /// Tracks overlap.
    Shingled,
}

/// The description of a disk by itself; a field that it does not report is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Farm {
    /// The recording of its tracks.
    pub recording: Option<Recording>,
    /// Whether heads were taken out of service.
    pub depopulated: Option<bool>,
}

impl Farm {
    /// Reads the log; `None` from a disk that has none: one of another maker, or an old one.
    ///
    /// # Errors
    /// The disk carries out no commands.
    pub fn read(disk: &mut dyn Scsi) -> Result<Option<Self>, ScsiError> {
        match Identity::of(disk)? {
            // Other makers may use a log with this number for something else.
            Identity::Ata { model, logs: true, .. } if model.starts_with("ST") => {}
            _ => return Ok(None),
        }
        // The log directory has the number of sectors of each log.
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
                // A disk with both kinds of zones has shingled ones.
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

/// Returns a field; its uppermost byte says whether the disk supports it and whether the value is valid.
fn field(page: &[u8; ATA_SECTOR_BYTES], number: usize) -> Option<u64> {
    let value = u64::from_le_bytes(*page.get(8 * number..)?.first_chunk()?);
    (value >> 56 == 0xc0).then_some(value & (u64::MAX >> 8))
}
