//! A client's request as a device sees it: a sequence of asks, each sent after the one before has succeeded.

use device::{Abilities, Ask, Failure, Run};
use nbd::{Command, Errno, Extent, MemoryExtent, Request};
use std::io;
use units::{Bytes, Lbn, LbnRange, Sectors};

/// The most bytes in one ask that writes zeroes as data or prefetches, so that other clients' requests are served
/// between the asks of a long request.
const PIECE_BYTES_MAX: u64 = nbd::PIECE_BYTES_MAX as u64;

/// The properties of a device that decide how a request is divided into asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceFacts {
    pub sector: Bytes,
    pub abilities: Abilities,
    /// The most sectors in one read or write.
    pub most: u64,
}

/// The origin of a request, which gets the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestOrigin {
    Client(u64),
    /// This machine's kernel.
    Kernel(KernelTag),
}

/// The identifier of a request of this machine's kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelTag {
    /// Whether the request came to the block device of the background.
    pub background: bool,
    /// The tag that the kernel gave the request.
    pub tag: u16,
}

/// A request that is at the device.
#[derive(Debug)]
pub(crate) struct ActiveRequest {
    pub from: RequestOrigin,
    pub request: Request,
    /// The sectors of the asks that follow the present one.
    rest: LbnRange,
    /// Whether the request ends with a flush.
    flush: bool,
    /// Whether the request can wait: it came to the background export.
    pub background: bool,
    /// The number of the snapshot that the request reads.
    pub snapshot: Option<u64>,
    /// Bytes of zeroes or prefetched data that the present ask holds. A connection counts them among the client's; the
    /// kernel's queue does not.
    pub extra: usize,
    /// The bytes of the present ask in the fair order of clients: those that the disk transfers.
    pub charge: u64,
}

/// The first step of a request: an ask, a search for runs, or a refusal.
#[derive(Debug)]
pub(crate) enum RequestStart {
    Asks(ActiveRequest, LbnRange, Ask),
    /// A request for the block status, which the device's [`runs`](device::Device::runs) answer.
    Runs(Request, LbnRange),
    Refused(Request, Errno, &'static str),
}

impl DeviceFacts {
    pub fn range(&self, request: &Request) -> LbnRange {
        let sector = self.sector.get();
        LbnRange::new(Lbn::new(request.offset / sector), Sectors::new(u64::from(request.length) / sector))
    }

    /// Returns the first ask of a request.
    pub fn begin(&self, from: RequestOrigin, mut request: Request) -> RequestStart {
        let range = self.range(&request);
        let data = std::mem::take(&mut request.data);
        let none = LbnRange::new(range.end(), Sectors::new(0));
        let mut active = ActiveRequest {
            from,
            request,
            rest: none,
            flush: false,
            background: false,
            snapshot: None,
            extra: 0,
            charge: 0,
        };
        let ask = match active.request.command {
            Command::Read => Ask::Read,
            Command::Write => Ask::Write { bytes: data, through: active.request.fua },
            Command::Flush => Ask::Flush,
            Command::WriteZeroes { fast: true, .. } => {
                return RequestStart::Refused(
                    active.request,
                    Errno::NotSupported,
                    "no fast way to zero here",
                );
            }
            Command::Trim | Command::WriteZeroes { .. } | Command::Cache => {
                active.rest = range;
                active.flush = active.request.command == Command::Trim && active.request.fua;
                return match active.next(self) {
                    Some((range, ask)) => RequestStart::Asks(active, range, ask),
                    None => RequestStart::Refused(active.request, Errno::Invalid, "nothing to do"),
                };
            }
            Command::BlockStatus { .. } => return RequestStart::Runs(active.request, range),
        };
        RequestStart::Asks(active, range, ask)
    }
}

impl ActiveRequest {
    /// Returns the next ask after the present one has succeeded, or `None` after the last.
    pub fn next(&mut self, target: &DeviceFacts) -> Option<(LbnRange, Ask)> {
        self.extra = 0;
        if self.rest.is_empty() {
            return std::mem::take(&mut self.flush).then_some((self.rest, Ask::Flush));
        }
        let sector = target.sector.get();
        let zeroes = match self.request.command {
            Command::WriteZeroes { no_hole, .. } => Some(no_hole),
            _ => None,
        };
        let trims = self.request.command == Command::Trim;
        let own_way = trims || zeroes.is_some() && target.abilities.write_zeroes;
        let most = if own_way { target.most } else { (PIECE_BYTES_MAX / sector).max(1) };
        let range = LbnRange::new(self.rest.start(), Sectors::new(self.rest.len().get().min(most)));
        self.rest = LbnRange::new(range.end(), self.rest.len() - range.len());
        let bytes = range.len().bytes(target.sector).get() as usize;
        let through = self.request.fua;
        let ask = match zeroes {
            Some(keep) if own_way => Ask::WriteZeroes { through, keep },
            Some(_) => Ask::Write { bytes: vec![0; bytes], through },
            None if trims => Ask::Discard,
            None => Ask::Read,
        };
        self.extra = if own_way { 0 } else { bytes };
        Some((range, ask))
    }
}

/// Converts a device's runs into the extents of an NBD block status.
pub(crate) fn extents(runs: &[Run], sector: Bytes) -> Vec<Extent> {
    // A status request covers at most 4 GiB.
    let bytes = |run: &Run| u32::try_from(run.len.get().saturating_mul(sector.get())).unwrap_or(u32::MAX);
    runs.iter().map(|run| Extent { length: bytes(run), hole: run.hole, zero: run.hole }).collect()
}

/// Converts the parts of a range that are in the server's memory into the extents of an NBD block status.
pub(crate) fn memory(range: LbnRange, parts: &[LbnRange], sector: Bytes) -> Vec<MemoryExtent> {
    let mut extents = Vec::new();
    let mut add = |from: Lbn, to: Lbn, in_memory| {
        let bytes = to.get().saturating_sub(from.get()).saturating_mul(sector.get());
        if bytes > 0 {
            extents.push(MemoryExtent { length: u32::try_from(bytes).unwrap_or(u32::MAX), in_memory });
        }
    };
    let mut at = range.start();
    for part in parts {
        add(at, part.start(), false);
        add(part.start(), part.end(), true);
        at = part.end();
    }
    add(at, range.end(), false);
    extents
}

/// Returns the error for a client, and the offset of the first byte that failed.
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

#[cfg(test)]
mod tests {
    use super::*;

    const SECTOR_BYTES: u64 = 512;

    /// Other clients' requests are served between the discards, and before each discard few blocks are copied for a
    /// snapshot.
    #[test]
    fn a_long_trim_is_a_sequence_of_discards_and_the_flush_comes_last() {
        let abilities =
            nbd::Abilities { write: true, trim: true, fua: true, flush: true, ..Default::default() };
        let export = nbd::Export::new("", 1 << 30).unwrap().with(abilities);
        let mut connection = nbd::Connection::new([export].into(), nbd::Tls::Off, Default::default());
        let (offset, length) = (SECTOR_BYTES.to_be_bytes(), (10_000 * SECTOR_BYTES as u32).to_be_bytes());
        let trim = [&b"\x25\x60\x95\x13\0\x01\0\x04cookie!!"[..], &offset, &length].concat();
        connection.receive(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0").unwrap();
        connection.receive(&trim).unwrap();
        let request = std::iter::from_fn(|| connection.poll())
            .find_map(|event| if let nbd::Event::Request(request) = event { Some(request) } else { None })
            .unwrap();
        let abilities = Abilities { discard: true, ..Abilities::default() };
        let facts = DeviceFacts { sector: Bytes::new(SECTOR_BYTES), abilities, most: 4_096 };
        let RequestStart::Asks(mut active, first, ask) = facts.begin(RequestOrigin::Client(1), request)
        else {
            panic!("it is refused")
        };
        let mut asks = vec![(first, ask)];
        asks.extend(std::iter::from_fn(|| active.next(&facts)));
        let (flush, discards) = asks.split_last().unwrap();
        assert!(matches!(flush.1, Ask::Flush));
        assert!(discards.iter().all(|(_, ask)| matches!(ask, Ask::Discard)));
        let ranges: Vec<_> =
            discards.iter().map(|(range, _)| (range.start().get(), range.len().get())).collect();
        assert_eq!(ranges, [(1, 4_096), (4_097, 4_096), (8_193, 1_808)]);
    }
}
