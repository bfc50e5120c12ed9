//! What a client's request is to a device: one ask after the other.

use device::{Abilities, Ask, Failure, Run};
use nbd::{Command, Errno, Extent, Request};
use std::io;
use units::{Bytes, Lbn, LbnRange, Sectors};

/// Of zeroes that go as bytes, and of what is only brought near: as much at once.
const PIECE: u64 = nbd::PIECE_BYTES_MAX as u64;

/// What a request needs to know of the device it is for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub sector: Bytes,
    pub abilities: Abilities,
    /// Sectors of a read or write.
    pub most: u64,
}

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Client(u64),
    /// This machine's kernel, under its name for the request.
    Kernel(u16),
}

/// A request that the device has.
#[derive(Debug)]
pub(crate) struct Carried {
    pub from: From,
    pub request: Request,
    /// What goes down after what is there now.
    rest: LbnRange,
    /// Then all of it is to be on the medium.
    flush: bool,
    /// Bytes of zeroes or of what is read ahead that it holds. A connection counts them, the kernel's queue does not.
    pub extra: usize,
}

/// How a request begins.
#[derive(Debug)]
pub(crate) enum Begun {
    Asks(Carried, LbnRange, Ask),
    /// The device's [`runs`](device::Device::runs) answer it.
    Runs(Request, LbnRange),
    Refused(Request, Errno, &'static str),
}

impl Target {
    pub fn range(&self, request: &Request) -> LbnRange {
        let sector = self.sector.get();
        LbnRange::new(Lbn::new(request.offset / sector), Sectors::new(u64::from(request.length) / sector))
    }

    /// The first ask.
    pub fn begin(&self, from: From, mut request: Request) -> Begun {
        let range = self.range(&request);
        let data = std::mem::take(&mut request.data);
        let none = LbnRange::new(range.end(), Sectors::new(0));
        let mut carried = Carried { from, request, rest: none, flush: false, extra: 0 };
        let ask = match carried.request.command {
            Command::Read => Ask::Read,
            Command::Write => Ask::Write { bytes: data, through: carried.request.fua },
            Command::Flush => Ask::Flush,
            Command::Trim => {
                carried.flush = carried.request.fua;
                Ask::Discard
            }
            Command::WriteZeroes { fast: true, .. } => {
                return Begun::Refused(carried.request, Errno::NotSupported, "no fast way to zero here");
            }
            Command::WriteZeroes { .. } | Command::Cache => {
                carried.rest = range;
                return match carried.next(self) {
                    Some((range, ask)) => Begun::Asks(carried, range, ask),
                    None => Begun::Refused(carried.request, Errno::Invalid, "nothing to do"),
                };
            }
            Command::BlockStatus { .. } => return Begun::Runs(carried.request, range),
        };
        Begun::Asks(carried, range, ask)
    }
}

impl Carried {
    /// What comes after an ask that went well.
    pub fn next(&mut self, target: &Target) -> Option<(LbnRange, Ask)> {
        self.extra = 0;
        if self.rest.is_empty() {
            return std::mem::take(&mut self.flush).then_some((self.rest, Ask::Flush));
        }
        let sector = target.sector.get();
        let zeroes = match self.request.command {
            Command::WriteZeroes { no_hole, .. } => Some(no_hole),
            _ => None,
        };
        let own_way = zeroes.is_some() && target.abilities.write_zeroes;
        let most = if own_way { target.most } else { (PIECE / sector).max(1) };
        let range = LbnRange::new(self.rest.start(), Sectors::new(self.rest.len().get().min(most)));
        self.rest = LbnRange::new(range.end(), self.rest.len() - range.len());
        let bytes = range.len().bytes(target.sector).get() as usize;
        let through = self.request.fua;
        let ask = match zeroes {
            Some(keep) if own_way => Ask::WriteZeroes { through, keep },
            Some(_) => Ask::Write { bytes: vec![0; bytes], through },
            None => Ask::Read,
        };
        self.extra = if own_way { 0 } else { bytes };
        Some((range, ask))
    }
}

/// What a client is told of where something lies.
pub(crate) fn extents(runs: &[Run], sector: Bytes) -> Vec<Extent> {
    // A status is asked for at most 4 GiB.
    let bytes = |run: &Run| u32::try_from(run.len.get().saturating_mul(sector.get())).unwrap_or(u32::MAX);
    runs.iter().map(|run| Extent { length: bytes(run), hole: run.hole, zero: run.hole }).collect()
}

/// What a client is told of a failure: the error, and the first byte that failed.
pub(crate) fn blame(failure: &Failure, sector: Bytes) -> (Errno, Option<u64>) {
    match failure {
        Failure::Medium(lbn) => (Errno::Io, lbn.get().checked_mul(sector.get())),
        Failure::File(error) if error.kind() == io::ErrorKind::StorageFull => (Errno::NoSpace, None),
        Failure::Taken(_) => (Errno::NotPermitted, None),
        Failure::Command(_) | Failure::Length { .. } => (Errno::Invalid, None),
        Failure::Unsupported(_) => (Errno::NotSupported, None),
        _ => (Errno::Io, None),
    }
}
