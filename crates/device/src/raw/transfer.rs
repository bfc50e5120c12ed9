//! The transfer of a request's sectors: in one piece, and after a failure in smaller ones.

use crate::aligned::Aligned;
use crate::ring::Work;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::{Bytes, Lbn, LbnRange};

/// The most failures within one request. Finding the first bad sector by halving takes about 20 of them for the
/// largest request, and a disk that fails intermittently must not hold a request for ever.
const MEDIUM_ERRORS_MAX: u32 = 40;

/// The most bytes of zeroes that one operation writes.
const ZEROES_BYTES: u64 = 1 << 20;

/// The kind of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write {
        through: bool,
    },
    /// Writes the buffer, which is all zeroes, again and again.
    Zero {
        through: bool,
    },
}

/// A transfer in progress.
#[derive(Debug)]
pub(super) struct PendingTransfer {
    way: Way,
    range: LbnRange,
    sector: Bytes,
    /// The buffer; empty while the kernel uses it.
    buffer: Aligned,
    /// The number of sectors transferred so far, from the beginning of the range.
    good: u64,
    /// The end of the current piece, as a number of sectors from the beginning of the range.
    reach: u64,
    /// If a piece has failed, the end of that piece: a bad sector may lie before it.
    suspect: Option<u64>,
    failures: u32,
}

/// The next step of a transfer after a piece.
#[derive(Debug)]
pub(super) enum Next {
    /// Another piece has to be transferred.
    Piece(Work),
    /// Everything is transferred; with the bytes of a read.
    Done(Vec<u8>),
    /// This sector is bad.
    Bad(Lbn),
    /// The transfer fails, at an unknown sector.
    Failed(io::Error),
}

impl PendingTransfer {
    /// Begins a transfer. Returns it with the first piece, which is the whole range if one operation can transfer
    /// that.
    pub fn begin(
        way: Way,
        range: LbnRange,
        sector: Bytes,
        buffer: Aligned,
        file: &Arc<OwnedFd>,
    ) -> (Self, Work) {
        let mut transfer = Self { way, range, sector, buffer, good: 0, reach: 0, suspect: None, failures: 0 };
        let first = transfer.piece(file);
        (transfer, first)
    }

    /// Returns the buffer of zeroes for [`Way::Zero`].
    pub fn zeroes(range: LbnRange, sector: Bytes, alignment: usize) -> Aligned {
        let most = range.len().get().saturating_mul(sector.get()).min(ZEROES_BYTES.max(sector.get()));
        Aligned::zeroed(most as usize, alignment)
    }

    /// Records the result of a piece; returns the next step.
    pub fn ended(&mut self, buffer: Aligned, result: io::Result<usize>, file: &Arc<OwnedFd>) -> Next {
        self.buffer = buffer;
        match result {
            Ok(bytes) => {
                // A sector that was transferred in part is transferred again.
                let sectors = bytes as u64 / self.sector.get();
                if sectors == 0 {
                    let kind = if self.way == Way::Read {
                        io::ErrorKind::UnexpectedEof
                    } else {
                        io::ErrorKind::WriteZero
                    };
                    return Next::Failed(io::Error::new(kind, "the device has become smaller"));
                }
                self.good = (self.good + sectors).min(self.reach);
                // If all sectors of a failed piece have succeeded in smaller pieces, none was bad.
                self.suspect = self.suspect.filter(|suspect| self.good < *suspect);
            }
            Err(error) => {
                self.failures += 1;
                match fault(&error) {
                    _ if self.failures > MEDIUM_ERRORS_MAX => return Next::Failed(error),
                    Fault::Medium if self.reach - self.good == 1 => {
                        return Next::Bad(Lbn::new(self.range.start().get() + self.good));
                    }
                    Fault::Medium => self.suspect = Some(self.reach),
                    Fault::Passing => {}
                    Fault::Other => return Next::Failed(error),
                }
            }
        }
        if self.good == self.range.len().get() {
            let read = self.way == Way::Read;
            return Next::Done(if read { std::mem::take(&mut self.buffer).into_vec() } else { Vec::new() });
        }
        Next::Piece(self.piece(file))
    }

    /// Returns the next piece: from the first remaining sector to the end of the range, or half-way to the end of
    /// a piece that failed.
    fn piece(&mut self, file: &Arc<OwnedFd>) -> Work {
        let end = match self.suspect {
            None => self.range.len().get(),
            Some(suspect) => {
                self.good + (suspect - self.good).div_ceil(2).min(suspect - self.good - 1).max(1)
            }
        };
        let part = self.part(end);
        self.reach = self.good + (part.len() as u64 / self.sector.get());
        let at = (self.range.start().get() + self.good) * self.sector.get();
        let (file, buffer) = (Arc::clone(file), std::mem::take(&mut self.buffer));
        match self.way {
            Way::Read => Work::ReadAt(file, buffer, part, at),
            Way::Write { through } | Way::Zero { through } => Work::WriteAt(file, buffer, part, at, through),
        }
    }

    /// Returns the part of the buffer for the sectors from the first remaining one to `end`.
    fn part(&self, end: u64) -> Range<usize> {
        let bytes = |sectors: u64| (sectors * self.sector.get()) as usize;
        match self.way {
            Way::Zero { .. } => 0..bytes(end - self.good).min(self.buffer.len()),
            _ => bytes(self.good)..bytes(end),
        }
    }
}

/// The meaning of a device's error.
enum Fault {
    /// One or several sectors are bad.
    Medium,
    /// The error may not recur.
    Passing,
    Other,
}

/// Classifies an error. The kernel's block layer returns EIO for most errors, ENODATA for a drive's medium error,
/// EILSEQ if a sector's protection information does not match, and EREMOTEIO for a failed target.
fn fault(error: &io::Error) -> Fault {
    match error.raw_os_error() {
        Some(libc::EIO | libc::ENODATA | libc::EILSEQ | libc::EREMOTEIO) => Fault::Medium,
        Some(libc::EINTR | libc::EAGAIN) => Fault::Passing,
        _ => Fault::Other,
    }
}

/// Returns whether the error means that the device does not support the operation.
pub(super) fn unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS | libc::ENOTTY))
}
