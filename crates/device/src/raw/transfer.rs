//! Sectors on their way: all at once, and piece by piece where something fails.

use crate::aligned::Aligned;
use crate::ring::Work;
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use units::{Bytes, Lbn, LbnRange};

/// A medium that fails is asked this often for one request, so that the first bad sector of 2^16 is found and a disk that
/// comes and goes does not hold a request for ever.
const MOST_FAILURES: u32 = 40;

/// Bytes of zeroes that are written at once.
const ZEROES: u64 = 1 << 20;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Read,
    Write {
        through: bool,
    },
    /// The buffer, of zeroes, is written as often as need be.
    Zero {
        through: bool,
    },
}

/// A request's sectors on their way.
#[derive(Debug)]
pub(super) struct Transfer {
    way: Way,
    range: LbnRange,
    sector: Bytes,
    /// Not here while the kernel works on it.
    buffer: Aligned,
    /// From the range's beginning on, so many sectors are through.
    good: u64,
    /// Where the piece under way ends, in sectors from the beginning.
    reach: u64,
    /// Somewhere before this sector is one that has failed.
    suspect: Option<u64>,
    failures: u32,
}

/// What becomes of a transfer after a piece of it.
#[derive(Debug)]
pub(super) enum Next {
    /// The next piece.
    Piece(Work),
    /// All is through; what was read.
    Done(Vec<u8>),
    /// This sector is bad.
    Bad(Lbn),
    /// It fails, one cannot say where.
    Failed(io::Error),
}

impl Transfer {
    /// A transfer and its first piece, which is all of it if that may go at once.
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

    /// Zeroes enough for a piece of [`Way::Zero`].
    pub fn zeroes(range: LbnRange, sector: Bytes, alignment: usize) -> Aligned {
        let most = range.len().get().saturating_mul(sector.get()).min(ZEROES.max(sector.get()));
        Aligned::zeroed(most as usize, alignment)
    }

    /// The piece is done, or is not: what next.
    pub fn ended(&mut self, buffer: Aligned, result: io::Result<usize>, file: &Arc<OwnedFd>) -> Next {
        self.buffer = buffer;
        match result {
            Ok(bytes) => {
                // A kernel that has gone half a sector far goes that sector again.
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
                // What has failed in a larger piece has not failed alone: it was no bad sector.
                self.suspect = self.suspect.filter(|suspect| self.good < *suspect);
            }
            Err(error) => {
                self.failures += 1;
                match fault(&error) {
                    _ if self.failures > MOST_FAILURES => return Next::Failed(error),
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

    /// From the first sector that is not through: to the end, or half way to where something has failed.
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

    /// The part of the buffer for the sectors until `end`.
    fn part(&self, end: u64) -> Range<usize> {
        let bytes = |sectors: u64| (sectors * self.sector.get()) as usize;
        match self.way {
            Way::Zero { .. } => 0..bytes(end - self.good).min(self.buffer.len()),
            _ => bytes(self.good)..bytes(end),
        }
    }
}

/// What an error of a device means.
enum Fault {
    /// A sector, or some of them.
    Medium,
    /// It may be gone the next time.
    Passing,
    Other,
}

/// The kernel's block layer says EIO of most, ENODATA of what the drive calls a medium error, EILSEQ of sectors whose
/// protection does not fit, EREMOTEIO of what the target gave up.
fn fault(error: &io::Error) -> Fault {
    match error.raw_os_error() {
        Some(libc::EIO | libc::ENODATA | libc::EILSEQ | libc::EREMOTEIO) => Fault::Medium,
        Some(libc::EINTR | libc::EAGAIN) => Fault::Passing,
        _ => Fault::Other,
    }
}

/// Whether a device of which this was asked does not know how.
pub(super) fn unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS | libc::ENOTTY))
}
