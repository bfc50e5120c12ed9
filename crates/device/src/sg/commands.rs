//! The SCSI commands that are sent: INQUIRY, the caching mode page, and ATA commands within SCSI ones.

use super::{Scsi, ScsiError, Transfer};
use units::Rpm;

/// The bytes of a sector of an ATA log, and of IDENTIFY DEVICE.
pub(super) const ATA_SECTOR_BYTES: usize = 512;

/// The command set of a disk, and the model of an ATA disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// An ATA disk behind a SCSI translation, of the kernel or of a host adapter.
    Ata {
        /// The model, from IDENTIFY DEVICE.
        model: String,
        /// Whether look-ahead is on; `None` if the disk has no switch for it.
        look_ahead: Option<bool>,
        /// Whether the disk has general-purpose logs.
        logs: bool,
    },
    /// A SCSI disk.
    Scsi,
}

impl Identity {
    /// Asks a disk which command set it has.
    ///
    /// # Errors
    /// The disk executes no commands, or its answer is not understood.
    pub fn of(disk: &mut dyn Scsi) -> Result<Self, ScsiError> {
        let mut inquiry = [0; 36];
        execute(disk, &[INQUIRY, 0, 0, 0, inquiry.len() as u8, 0], Transfer::FromDisk(&mut inquiry))?;
        // Every ATA disk behind a SCSI translation has this vendor (SAT-4, section 8.1.2).
        if inquiry.get(8..16) != Some(b"ATA     ".as_slice()) {
            return Ok(Self::Scsi);
        }
        let mut identify = [0; ATA_SECTOR_BYTES];
        read(disk, Ata { command: 0xec, count: 1, ..Ata::default() }, &mut identify, "IDENTIFY DEVICE")?;
        let word = |n: usize| match identify.get(2 * n..2 * n + 2) {
            Some(&[low, high]) => u16::from_le_bytes([low, high]),
            _ => 0,
        };
        let (supported, enabled) = (word(82), word(85));
        // The first of the two characters of a word is in the high byte.
        let model: Vec<u8> = (27..47).flat_map(|n| word(n).to_be_bytes()).collect();
        Ok(Self::Ata {
            model: String::from_utf8_lossy(&model).trim().to_owned(),
            // Words 82 to 84 are valid only with these upper bits in 83 and 84 (ACS-4, section 7.13.6).
            look_ahead: (word(83) & 0xc000 == 0x4000 && supported & LOOK_AHEAD != 0)
                .then_some(enabled & LOOK_AHEAD != 0),
            logs: word(84) & 0xc020 == 0x4020,
        })
    }
}

const INQUIRY: u8 = 0x12;

/// The VPD page of block device characteristics, and the offset of the rotation rate in it (SBC-4, section 6.6.2).
const CHARACTERISTICS: u8 = 0xb1;
const RATE_OFFSET: usize = 4;
/// The smallest value that is a rate. Smaller ones mean "not reported", "does not rotate", or are reserved.
const RATE_MIN: u16 = 0x0401;

/// Returns the rotation rate in a VPD page of block device characteristics; `None` if the page has no rate.
pub(crate) fn vpd_rate(page: &[u8]) -> Option<Rpm> {
    let is_there = page.get(1) == Some(&CHARACTERISTICS);
    let rate = u16::from_be_bytes(*page.get(RATE_OFFSET..)?.first_chunk()?);
    // The largest value is reserved.
    Rpm::new(u32::from(rate)).filter(|_| is_there && (RATE_MIN..u16::MAX).contains(&rate))
}

/// Asks a disk for its rotation rate; `None` if it does not report one.
pub(crate) fn read_rate(disk: &mut dyn Scsi) -> Option<Rpm> {
    let mut page = [0; 64];
    // The 1 asks for a VPD page.
    let command = [INQUIRY, 1, CHARACTERISTICS, 0, page.len() as u8, 0];
    let done = execute(disk, &command, Transfer::FromDisk(&mut page)).ok()?;
    vpd_rate(page.get(..done)?)
}

/// How often a command is sent again after a unit attention.
const ATTENTIONS: u32 = 4;
const UNIT_ATTENTION: u8 = 6;

/// Executes a command. If the disk reports an event instead (a reset, a changed mode page), sends the command again.
fn execute(disk: &mut dyn Scsi, command: &[u8], mut data: Transfer<'_>) -> Result<usize, ScsiError> {
    for _ in 0..ATTENTIONS {
        let again = match &mut data {
            Transfer::None => Transfer::None,
            Transfer::FromDisk(bytes) => Transfer::FromDisk(bytes),
            Transfer::ToDisk(bytes) => Transfer::ToDisk(bytes),
        };
        match disk.execute(command, again) {
            Err(ScsiError::Refused { key: UNIT_ATTENTION, .. }) => {}
            result => return result,
        }
    }
    disk.execute(command, data)
}

/// The bit of look-ahead in words 82 and 85 of IDENTIFY DEVICE.
const LOOK_AHEAD: u16 = 1 << 6;

/// The registers of an ATA command; those not used are 0.
#[derive(Clone, Copy, Debug, Default)]
struct Ata {
    command: u8,
    feature: u8,
    count: u8,
    lba: u64,
}

impl Ata {
    /// Returns the command wrapped in ATA PASS-THROUGH (16) with this protocol (SAT-4, section 12.2.2).
    fn pass_through(self, protocol: u8, transfer: u8) -> [u8; 16] {
        let [low, mid, high, low_later, mid_later, high_later, ..] = self.lba.to_le_bytes();
        // READ LOG EXT has registers of 48 bits, which the lowest bit of the byte announces.
        let extended = u8::from(self.command == READ_LOG_EXT);
        [
            0x85,
            protocol << 1 | extended,
            transfer,
            0,
            self.feature,
            0,
            self.count,
            low_later,
            low,
            mid_later,
            mid,
            high_later,
            high,
            0,
            self.command,
            0,
        ]
    }
}

/// The protocol and the transfer bits of a command with PIO data from the disk, whose length in sectors is in the
/// count register, and of one without data.
const PIO_IN: (u8, u8) = (4, 0x0e);
const NO_DATA: (u8, u8) = (3, 0);

const READ_LOG_EXT: u8 = 0x2f;

fn read(disk: &mut dyn Scsi, ata: Ata, to: &mut [u8], name: &'static str) -> Result<(), ScsiError> {
    let wanted = to.len();
    let (protocol, transfer) = PIO_IN;
    if execute(disk, &ata.pass_through(protocol, transfer), Transfer::FromDisk(to))? < wanted {
        return Err(ScsiError::Answer { command: name });
    }
    Ok(())
}

/// Reads one sector of a general-purpose log.
pub(super) fn read_log(disk: &mut dyn Scsi, log: u8, page: u16) -> Result<[u8; ATA_SECTOR_BYTES], ScsiError> {
    let [low, high] = page.to_le_bytes();
    let lba = u64::from(log) | u64::from(low) << 8 | u64::from(high) << 32;
    let mut bytes = [0; ATA_SECTOR_BYTES];
    let ata = Ata { command: READ_LOG_EXT, count: 1, lba, ..Ata::default() };
    read(disk, ata, &mut bytes, "READ LOG EXT")?;
    Ok(bytes)
}

/// Switches an ATA disk's look-ahead, by SET FEATURES 55h and AAh (ACS-4, section 7.45).
pub(super) fn set_look_ahead(disk: &mut dyn Scsi, on: bool) -> Result<(), ScsiError> {
    let ata = Ata { command: 0xef, feature: if on { 0xaa } else { 0x55 }, ..Ata::default() };
    let (protocol, transfer) = NO_DATA;
    execute(disk, &ata.pass_through(protocol, transfer), Transfer::None).map(|_| ())
}

/// The caching mode page (SBC-4, section 6.5.6), kept whole, because a change sends all of it back.
#[derive(Clone, Debug)]
pub(super) struct CachingPage {
    bytes: Vec<u8>,
}

const CACHING: u8 = 0x08;
const MODE_HEADER_BYTES: usize = 4;
/// The byte and the bit of RCD (read cache disable), and of DRA (disable read-ahead).
const READ_CACHE_DISABLED: (usize, u8) = (2, 1);
const READ_AHEAD_DISABLED: (usize, u8) = (12, 1 << 5);

impl CachingPage {
    /// Reads the current values.
    pub(super) fn read(disk: &mut dyn Scsi) -> Result<Self, ScsiError> {
        let mut answer = [0; 252];
        // MODE SENSE (6), for current values without block descriptors.
        let done =
            execute(disk, &[0x1a, 0x08, CACHING, 0, answer.len() as u8, 0], Transfer::FromDisk(&mut answer))?;
        let page = || {
            let len = usize::from(*answer.first()?) + 1;
            // Some disks send block descriptors although none were asked for.
            let begin = MODE_HEADER_BYTES + usize::from(*answer.get(3)?);
            let page = answer.get(begin..len.min(done))?;
            let whole = page.get(..usize::from(*page.get(1)?) + 2)?;
            let holds_both = whole.len() > READ_AHEAD_DISABLED.0;
            (page.first()? & 0x3f == CACHING && holds_both).then(|| whole.to_vec())
        };
        page().map(|bytes| Self { bytes }).ok_or(ScsiError::Answer { command: "MODE SENSE" })
    }

    fn is_set(&self, (byte, bit): (usize, u8)) -> bool {
        self.bytes.get(byte).is_some_and(|byte| byte & bit != 0)
    }

    fn set(&mut self, (byte, bit): (usize, u8), set: bool) {
        if let Some(byte) = self.bytes.get_mut(byte) {
            *byte = if set { *byte | bit } else { *byte & !bit };
        }
    }

    pub(super) fn read_cache(&self) -> bool {
        !self.is_set(READ_CACHE_DISABLED)
    }

    pub(super) fn look_ahead(&self) -> bool {
        !self.is_set(READ_AHEAD_DISABLED)
    }

    pub(super) fn set_read_cache(&mut self, on: bool) {
        self.set(READ_CACHE_DISABLED, !on);
    }

    pub(super) fn set_look_ahead(&mut self, on: bool) {
        self.set(READ_AHEAD_DISABLED, !on);
    }

    /// Makes these values the current ones, without saving them: the disk's saved values return when its power is cut.
    pub(super) fn write(&self, disk: &mut dyn Scsi) -> Result<(), ScsiError> {
        let mut parameters = vec![0; MODE_HEADER_BYTES];
        parameters.extend_from_slice(&self.bytes);
        if let Some(code) = parameters.get_mut(MODE_HEADER_BYTES) {
            // The bit "can be saved" must be zero in MODE SELECT.
            *code &= 0x3f;
        }
        // MODE SELECT (6), with a page in the standard's format that is not saved.
        let command = [0x15, 0x10, 0, 0, parameters.len() as u8, 0];
        execute(disk, &command, Transfer::ToDisk(&parameters)).map(|_| ())
    }
}
