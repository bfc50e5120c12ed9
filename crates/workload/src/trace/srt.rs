//! Hewlett-Packard's SRT traces ("TR_IOREC").
//!
//! An ASCII header ends at a form feed (0x0C). Then come records of big-endian 32-bit words: record size in
//! bytes, id, seconds and microseconds of arrival since the trace began, start and stop in microseconds after
//! arrival, bytes, sector, device, driver type, cylinder, flags, info and, from version 4 on, queue length. The
//! id's high half is the version; its low half the kind, of which 1 (SHORT_IO_FLAG) is a request and 4 (SUSPECT_FLAG) is one
//! that the tracer mistrusted. Bit 0 of the flags is a read.
//!
//! `sector` counts the traced disk's own sectors. Their size is the header's `sectorsize` if all disks of the header
//! agree on it, else 256 bytes, the size on the disks of these traces.

use super::input::Input;
use super::parser::{Next, RecordParser};
use super::{Notes, SECTOR_BYTES, TraceError, TraceRecord, enclosing};
use units::{Duration, Instant, Op};

/// The bytes of the traced disks' sectors if the header does not say.
const DISK_SECTOR_BYTES: u64 = 256;
/// The most bytes of a header, more than any has: a form feed after them is part of a record.
const HEADER_BYTES_MAX: usize = 1 << 20;
const FORM_FEED: u8 = 0x0c;
/// Words of a record before version 4, and from then on.
const WORDS: [usize; 2] = [13, 14];
/// The most bytes of a record, more than any kind has: a larger size means that no record begins there.
const RECORD_BYTES_MAX: usize = 4096;

const SHORT_IO_FLAG: u32 = 1;
const SUSPECT_FLAG: u32 = 4;

/// The parser of a record.
#[derive(Debug, Default)]
pub(super) struct Srt {
    /// The bytes of the traced disks' sectors; `None` before the header is read.
    sector: Option<u64>,
}

impl Srt {
    fn header(input: &mut Input<'_>) -> Result<u64, TraceError> {
        let bytes = input.peek(HEADER_BYTES_MAX)?;
        let end = bytes.iter().take(HEADER_BYTES_MAX).position(|&byte| byte == FORM_FEED);
        let end = end.ok_or_else(|| TraceError::Binary {
            offset: 0,
            found: "no form feed in the first megabyte".to_owned(),
            expected: "an ASCII header that ends with one",
        })?;
        let sector = disk_sector(bytes.get(..end).unwrap_or_default());
        input.consume(end + 1);
        Ok(sector)
    }
}

impl RecordParser for Srt {
    fn record(&mut self, input: &mut Input<'_>, notes: &mut Notes) -> Result<Next, TraceError> {
        let sector = match self.sector {
            Some(sector) => sector,
            None => *self.sector.insert(Self::header(input)?),
        };
        let offset = input.offset() as usize;
        let rest = input.peek(RECORD_BYTES_MAX)?;
        if rest.is_empty() {
            return Ok(Next::End);
        }
        let record = Record::at(offset, rest)?;
        let size = record.size;
        let next = match record.kind()? {
            SHORT_IO_FLAG => record.request(sector, notes)?.map_or(Next::Skipped, Next::Record),
            SUSPECT_FLAG => {
                notes.suspect += 1;
                Next::Skipped
            }
            _ => {
                notes.other += 1;
                Next::Skipped
            }
        };
        input.consume(size);
        Ok(next)
    }
}

/// Returns the sector size that every `sectorsize = N` of the header gives, or [`DISK_SECTOR_BYTES`].
fn disk_sector(header: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(header);
    let mut sizes = text.split("sectorsize").skip(1).map(|rest| {
        let rest = rest.trim_start().strip_prefix('=').unwrap_or("").trim_start();
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse::<u64>().ok().filter(|n| n.is_power_of_two() && (128..=65_536).contains(n))
    });
    let first = sizes.next().flatten();
    first.filter(|_| sizes.all(|size| size == first)).unwrap_or(DISK_SECTOR_BYTES)
}

struct Record<'a> {
    offset: usize,
    size: usize,
    bytes: &'a [u8],
}

impl<'a> Record<'a> {
    fn at(offset: usize, rest: &'a [u8]) -> Result<Self, TraceError> {
        let error = |found: String, expected| TraceError::Binary { offset, found, expected };
        let cut = |n: usize| error(format!("{n} bytes"), "a whole record: the file is cut short");
        let size = word(rest, 0).ok_or_else(|| cut(rest.len()))? as usize;
        if !(8..=RECORD_BYTES_MAX).contains(&size) || !size.is_multiple_of(4) {
            return Err(error(format!("{size}"), "a record size in bytes, such as 56"));
        }
        let bytes = rest.get(..size).ok_or_else(|| cut(rest.len()))?;
        Ok(Self { offset, size, bytes })
    }

    fn error(&self, word: usize, found: impl ToString, expected: &'static str) -> TraceError {
        TraceError::Binary { offset: self.offset + 4 * word, found: found.to_string(), expected }
    }

    fn word(&self, index: usize) -> Result<u32, TraceError> {
        word(self.bytes, index).ok_or_else(|| self.error(0, self.size, "a size of at least 52 for a request"))
    }

    fn kind(&self) -> Result<u32, TraceError> {
        Ok(self.word(1)? & 0xffff)
    }

    fn request(&self, sector: u64, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let version = self.word(1)? >> 16;
        let words = WORDS[usize::from(version >= 4)];
        if self.size < 4 * words {
            return Err(self.error(
                0,
                self.size,
                "a size of at least 52, from version 4 on 56, for a request",
            ));
        }
        let [seconds, micros, start, stop, bytes] = [2, 3, 4, 5, 6].map(|index| self.word(index));
        let (start, stop, bytes) = (start?, stop?, u64::from(bytes?));
        let arrival = u64::from(seconds?) * 1_000_000_000 + u64::from(micros?) * 1_000;
        let service = stop
            .checked_sub(start)
            .ok_or_else(|| self.error(5, stop, "a stop that is not before the start"))?;
        if bytes == 0 {
            notes.empty += 1;
            return Ok(None);
        }
        let offset = u64::from(self.word(7)?) * sector;
        let (range, widened) =
            enclosing(offset, bytes).ok_or_else(|| self.error(7, offset, "a request below byte 2^64"))?;
        notes.widened += u64::from(widened);
        let op = if self.word(11)? & 1 == 1 { Op::Read } else { Op::Write };
        Ok(Some(TraceRecord {
            arrival: Some(Instant::from_nanos(arrival)),
            device: self.word(8)?,
            service: Some(Duration::from_micros(u64::from(service))),
            ..TraceRecord::new(op, range)
        }))
    }
}

fn word(bytes: &[u8], index: usize) -> Option<u32> {
    let four = bytes.get(4 * index..4 * index + 4)?;
    four.try_into().ok().map(u32::from_be_bytes)
}

const _: () = assert!(DISK_SECTOR_BYTES.is_power_of_two() && DISK_SECTOR_BYTES <= SECTOR_BYTES);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceFormat;

    fn read(bytes: &[u8]) -> Result<(Vec<TraceRecord>, Notes), TraceError> {
        let trace = crate::trace::read_as(TraceFormat::HpSrt, bytes)?;
        Ok((trace.records, trace.notes))
    }

    fn file(header: &str, records: &[[u32; 14]]) -> Vec<u8> {
        let words = records.iter().flatten().flat_map(|word| word.to_be_bytes());
        header.bytes().chain([FORM_FEED]).chain(words).collect()
    }

    const REQUEST: [u32; 14] = [56, 0x4_0001, 1, 500, 100, 7_100, 4_096, 1_056, 9, 4, 1, 1, 0, 2];

    fn with(changes: &[(usize, u32)]) -> [u32; 14] {
        let mut record = REQUEST;
        for &(index, value) in changes {
            record[index] = value;
        }
        record
    }

    #[test]
    fn a_request_is_read_in_512_byte_sectors() {
        let (records, notes) = read(&file("$$TR_IOREC", &[REQUEST])).unwrap();
        assert_eq!(notes, Notes::default());
        let record = records[0];
        assert_eq!(record.arrival.unwrap().as_nanos(), 1_000_500_000);
        assert_eq!((record.device, record.op, record.range.to_string().as_str()), (9, Op::Read, "528+8"));
        assert_eq!(record.service.unwrap(), Duration::from_millis(7));
    }

    #[test]
    fn an_odd_disk_sector_widens_the_request() {
        let (records, notes) = read(&file("", &[with(&[(7, 1_057)])])).unwrap();
        assert_eq!((records[0].range.to_string().as_str(), notes.widened), ("528+9", 1));
    }

    #[test]
    fn the_headers_sector_size_counts_when_its_disks_agree() {
        let agreed = file("sectorsize = 512, sectorsize=512 ", &[REQUEST]);
        assert_eq!(read(&agreed).unwrap().0[0].range.start().get(), 1_056);
        let mixed = file("sectorsize = 512, sectorsize=256 ", &[REQUEST]);
        assert_eq!(read(&mixed).unwrap().0[0].range.start().get(), 528);
    }

    #[test]
    fn suspect_empty_and_other_records_are_counted_and_left_out() {
        let records = [
            with(&[(1, 0x4_0004)]),
            with(&[(6, 0)]),
            with(&[(1, 0x4_0009)]),
            REQUEST,
            with(&[(1, 0x4_0004)]),
        ];
        let (records, notes) = read(&file("", &records)).unwrap();
        assert_eq!(records.len(), 1);
        assert_eq!(notes, Notes { suspect: 2, other: 1, empty: 1, ..Notes::default() });
    }

    #[test]
    fn records_before_version_4_have_no_queue_length() {
        let mut bytes = file("", &[with(&[(0, 52), (1, 0x3_0001)])]);
        bytes.truncate(bytes.len() - 4);
        assert_eq!(read(&bytes).unwrap().0.len(), 1);
    }

    #[test]
    fn errors_name_the_byte() {
        let refuse = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        let mut bytes = file("head", &[REQUEST, REQUEST]);
        bytes.truncate(bytes.len() - 10);
        assert_eq!(refuse(&bytes), "byte 61: found 46 bytes, expected a whole record: the file is cut short");
        assert!(
            refuse(&file("head", &[with(&[(0, 57)])]))
                .starts_with("byte 5: found 57, expected a record size")
        );
        assert!(refuse(&file("head", &[with(&[(5, 99)])])).starts_with("byte 25: found 99, expected a stop"));
        assert!(refuse(&file("head", &[with(&[(0, 52)])])).contains("from version 4 on 56"));
        assert!(refuse(b"no such thing").contains("no form feed"));
    }
}
