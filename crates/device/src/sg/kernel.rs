//! The kernel's SG_IO, which sends one command to a disk and waits until the command has ended.

#![allow(unsafe_code, reason = "the kernel is given addresses; the block says why they stay good")]

use super::{Scsi, ScsiError, Transfer};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The ioctl number `SG_IO` of `scsi/sg.h`.
const SG_IO: u32 = 0x2285;

/// The time limit of a command in the kernel, in ms: a sleeping disk needs some ten seconds to spin up.
const TIMEOUT_MS: u32 = 60_000;

/// The most bytes of a command: ATA PASS-THROUGH (16) is the longest that is sent.
const COMMAND_BYTES_MAX: usize = 16;
/// The most bytes of sense data that are read.
const SENSE_BYTES_MAX: usize = 64;

/// The SCSI status of a command with sense data (SAM-5).
const CHECK_CONDITION: u8 = 0x02;

/// The kernel's `struct sg_io_hdr` of `scsi/sg.h`.
#[repr(C)]
struct Header {
    interface: i32,
    direction: i32,
    command_len: u8,
    sense_max: u8,
    vectors: u16,
    data_len: u32,
    data: *mut u8,
    command: *const u8,
    sense: *mut u8,
    timeout_ms: u32,
    flags: u32,
    pack_id: i32,
    user: *mut u8,
    status: u8,
    masked_status: u8,
    message_status: u8,
    sense_len: u8,
    host_status: u16,
    driver_status: u16,
    missing: i32,
    duration_ms: u32,
    info: u32,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Header>() == 88, "the kernel's structure and nothing else");

/// A disk of this machine, opened for commands. Other programs may read and write it at the same time.
#[derive(Debug)]
pub struct Sg {
    file: File,
    number: u64,
}

impl Sg {
    /// Opens the block device at a path. Most commands need root.
    ///
    /// ```no_run
    /// use device::{Identity, Sg};
    /// let mut disk = Sg::open("/dev/sda".as_ref())?;
    /// println!("{:?}", Identity::of(&mut disk)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The path cannot be opened, or is no block device.
    pub fn open(path: &Path) -> io::Result<Self> {
        // With O_NONBLOCK, a disk that is not ready can be opened, too.
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let metadata = file.metadata()?;
        if !metadata.file_type().is_block_device() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a block device"));
        }
        Ok(Self { file, number: metadata.rdev() })
    }

    /// Returns the device's number.
    pub const fn number(&self) -> u64 {
        self.number
    }
}

impl Scsi for Sg {
    fn execute(&mut self, command: &[u8], data: Transfer<'_>) -> Result<usize, ScsiError> {
        let too_long = || io::Error::new(io::ErrorKind::InvalidInput, "a command or its data are too long");
        if command.len() > COMMAND_BYTES_MAX {
            return Err(too_long().into());
        }
        let mut sense = [0_u8; SENSE_BYTES_MAX];
        // The directions are SG_DXFER_NONE, SG_DXFER_FROM_DEV and SG_DXFER_TO_DEV.
        let (direction, address, len) = match data {
            Transfer::None => (-1, std::ptr::null_mut(), 0),
            Transfer::FromDisk(bytes) => (-3, bytes.as_mut_ptr(), bytes.len()),
            Transfer::ToDisk(bytes) => (-2, bytes.as_ptr().cast_mut(), bytes.len()),
        };
        let mut header = Header {
            interface: i32::from(b'S'),
            direction,
            command_len: command.len() as u8,
            sense_max: SENSE_BYTES_MAX as u8,
            vectors: 0,
            data_len: u32::try_from(len).map_err(|_| too_long())?,
            data: address,
            command: command.as_ptr(),
            sense: sense.as_mut_ptr(),
            timeout_ms: TIMEOUT_MS,
            flags: 0,
            pack_id: 0,
            user: std::ptr::null_mut(),
            status: 0,
            masked_status: 0,
            message_status: 0,
            sense_len: 0,
            host_status: 0,
            driver_status: 0,
            missing: 0,
            duration_ms: 0,
            info: 0,
        };
        loop {
            // SAFETY: `header` is the kernel's structure (`repr(C)`, its size is asserted above) and lives through the
            // call, as do the slices to which it points, with their true lengths: `command` (at most 16 bytes), `sense`
            // and the data. The call is synchronous, so the kernel keeps no address beyond it. The kernel writes to the
            // data only in the direction from the disk, for which they were borrowed mutably, and never beyond
            // `data_len`. A descriptor of another kind returns an error for this request and writes nothing.
            let result =
                unsafe { libc::ioctl(self.file.as_raw_fd(), SG_IO as _, std::ptr::from_mut(&mut header)) };
            if result >= 0 {
                break;
            }
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error.into());
            }
        }
        let done = len.saturating_sub(usize::try_from(header.missing).unwrap_or(0));
        let sense = sense.get(..usize::from(header.sense_len)).unwrap_or(&sense);
        match (header.host_status, header.status, sense_of(sense)) {
            (0, 0, _) => Ok(done),
            // The command was executed, and the disk reports more: no sense, or a recovered error.
            (0, CHECK_CONDITION, Some((0 | 1, ..))) => Ok(done),
            (_, CHECK_CONDITION, Some((key, code, qualifier))) => {
                Err(ScsiError::Refused { key, code, qualifier })
            }
            (host, status, _) => Err(ScsiError::Transport { status, host }),
        }
    }
}

/// Returns the key, code and qualifier of sense data in either format (SPC-5, section 4.4).
fn sense_of(sense: &[u8]) -> Option<(u8, u8, u8)> {
    let at = |i: usize| sense.get(i).copied();
    match at(0)? & 0x7f {
        0x70 | 0x71 => Some((at(2)? & 0xf, at(12).unwrap_or(0), at(13).unwrap_or(0))),
        0x72 | 0x73 => Some((at(1)? & 0xf, at(2)?, at(3)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sense_data_are_decoded_in_both_formats() {
        let mut fixed = [0; 18];
        (fixed[0], fixed[2], fixed[12], fixed[13]) = (0x70, 0x65, 0x26, 0x01);
        assert_eq!(sense_of(&fixed), Some((5, 0x26, 1)));
        assert_eq!(sense_of(&fixed[..8]), Some((5, 0, 0)));
        assert_eq!(sense_of(&[0x72, 0x0b, 0x47, 0x03, 0, 0, 0, 0]), Some((0xb, 0x47, 3)));
        assert_eq!(sense_of(&[]), None);
        assert_eq!(sense_of(&[0x7f, 1, 2, 3]), None);
    }

    #[test]
    fn a_path_that_is_no_disk_takes_no_commands() {
        for path in ["/dev/null", "/nonexistent/sdb", "/tmp"] {
            assert!(Sg::open(Path::new(path)).is_err(), "{path}");
        }
        // An ioctl on a descriptor of another kind fails, and writes nothing.
        let mut other = Sg { file: File::open("/dev/null").unwrap(), number: 0 };
        let mut bytes = [7; 36];
        let failed = other.execute(&[0x12, 0, 0, 0, 36, 0], Transfer::FromDisk(&mut bytes));
        assert!(matches!(failed, Err(ScsiError::System(_))), "{failed:?}");
        assert_eq!(bytes, [7; 36]);
        assert!(other.execute(&[0; 17], Transfer::None).is_err());
    }
}
