//! Binary formats of records of one size: oracleGeneral, vscsi, blktrace.

use super::blkparse::flush_alone;
use super::input::Input;
use super::lists::scsi_op;
use super::parser::{Next, RecordParser};
use super::{Event, Notes, SECTOR_BYTES, TraceError, TraceRecord, enclosing};
use units::{CacheOps, Instant, LbnRange, Op};

/// Bytes from which integers are read, in the byte order of the file.
struct Words<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

impl Words<'_> {
    /// Returns the unsigned integer in the `bytes` bytes at `at`; 0 past the end, which callers have excluded.
    fn at(&self, at: usize, bytes: usize) -> u64 {
        let field = self.bytes.get(at..at + bytes).unwrap_or_default();
        let push = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        if self.big_endian { field.iter().fold(0, push) } else { field.iter().rev().fold(0, push) }
    }

    fn u16(&self, at: usize) -> u16 {
        self.at(at, 2) as u16
    }

    fn u32(&self, at: usize) -> u32 {
        self.at(at, 4) as u32
    }

    fn u64(&self, at: usize) -> u64 {
        self.at(at, 8)
    }
}

/// Returns the next `size` bytes; `None` at the end.
fn take<'i>(input: &'i mut Input<'_>, size: usize) -> Result<Option<&'i [u8]>, TraceError> {
    let offset = input.offset() as usize;
    let found = input.peek(size)?;
    if found.is_empty() {
        return Ok(None);
    }
    match found.get(..size) {
        Some(record) => Ok(Some(record)),
        None => Err(TraceError::Binary {
            offset,
            found: format!("{} bytes", found.len()),
            expected: "a whole record: the file is cut short",
        }),
    }
}

fn nanoseconds(value: u64, unit_ns: u64, offset: u64) -> Result<Instant, TraceError> {
    value.checked_mul(unit_ns).map(Instant::from_nanos).ok_or_else(|| TraceError::Binary {
        offset: offset as usize,
        found: value.to_string(),
        expected: "a time below 584 years",
    })
}

/// Returns the sectors that enclose `bytes` bytes from an LBN on. An error names `offset`, the place in the file.
fn sectors(lbn: u64, bytes: u64, offset: u64, notes: &mut Notes) -> Result<Option<LbnRange>, TraceError> {
    if bytes == 0 {
        notes.empty += 1;
        return Ok(None);
    }
    let found = lbn.checked_mul(SECTOR_BYTES).and_then(|start| enclosing(start, bytes));
    let (range, widened) = found.ok_or_else(|| TraceError::Binary {
        offset: offset as usize,
        found: format!("LBN {lbn}"),
        expected: "a request that ends below byte 2^64",
    })?;
    notes.widened += u64::from(widened);
    Ok(Some(range))
}

fn next(record: Option<TraceRecord>) -> Next {
    record.map_or(Next::Skipped, Next::Record)
}

/// libCacheSim's oracleGeneral: 24 bytes a request, little-endian: time in seconds (32 bits), object (64), size in bytes
/// (32), and the next request to the object (64), which is ignored. The object is the LBN of 512-byte sectors; the
/// format has no direction, so all requests are reads.
#[derive(Debug)]
pub(super) struct OracleGeneral {
    /// Nanoseconds in a unit of the times.
    pub(super) unit_ns: u64,
}

/// Bytes in a record of oracleGeneral.
pub(super) const ORACLE_BYTES: usize = 24;

impl RecordParser for OracleGeneral {
    fn record(&mut self, input: &mut Input<'_>, notes: &mut Notes) -> Result<Next, TraceError> {
        let offset = input.offset();
        let Some(bytes) = take(input, ORACLE_BYTES)? else { return Ok(Next::End) };
        let words = Words { bytes, big_endian: false };
        let (time, lbn, size) = (words.u32(0), words.u64(4), words.u32(12));
        input.consume(ORACLE_BYTES);
        let arrival = nanoseconds(u64::from(time), self.unit_ns, offset)?;
        let range = sectors(lbn, u64::from(size), offset, notes)?;
        Ok(next(
            range.map(|range| TraceRecord { arrival: Some(arrival), ..TraceRecord::new(Op::Read, range) }),
        ))
    }
}

/// Returns whether the first records look like oracleGeneral: times that do not fall, sizes that are not 0, and next
/// requests that are -1 or positive.
pub(super) fn looks_like_oracle(bytes: &[u8]) -> bool {
    const RECORDS: usize = 16;
    let mut last = 0;
    let mut records = 0;
    for record in bytes.chunks_exact(ORACLE_BYTES).take(RECORDS) {
        let words = Words { bytes: record, big_endian: false };
        let (time, lbn, size, following) = (words.u32(0), words.u64(4), words.u32(12), words.u64(16) as i64);
        if time < last
            || size == 0
            || lbn >= 1 << 48
            || !(following == -1 || (1..1 << 48).contains(&following))
        {
            return false;
        }
        last = time;
        records += 1;
    }
    records > 0
}

/// VMware's vscsi traces (CloudPhysics), versions 1 and 2, little-endian: records of 32 or 40 bytes with the SCSI operation
/// code, the length in bytes, the LBN, and the time in microseconds.
#[derive(Debug)]
pub(super) struct Vscsi {
    /// Nanoseconds in a unit of the times.
    pub(super) unit_ns: u64,
    pub(super) version: u8,
}

/// Returns the version of a vscsi trace that begins with `bytes`.
pub(super) fn vscsi_version(bytes: &[u8]) -> Option<u8> {
    let agree = |at: usize, size: usize, version: u16| {
        let mut records = bytes.chunks_exact(size).take(2).peekable();
        records.peek().is_some()
            && records.all(|record| Words { bytes: record, big_endian: false }.u16(at) >> 8 == version)
    };
    if agree(14, 32, 1) {
        Some(1)
    } else if agree(2, 40, 2) {
        Some(2)
    } else {
        None
    }
}

impl RecordParser for Vscsi {
    fn record(&mut self, input: &mut Input<'_>, notes: &mut Notes) -> Result<Next, TraceError> {
        let offset = input.offset();
        let size = if self.version == 1 { 32 } else { 40 };
        let Some(bytes) = take(input, size)? else { return Ok(Next::End) };
        let words = Words { bytes, big_endian: false };
        let (version, code, length, lbn, time) = match self.version {
            1 => (words.u16(14) >> 8, words.u16(12), words.u32(4), words.u64(16), words.u64(24)),
            _ => (words.u16(2) >> 8, words.u16(0), words.u32(8), words.u64(16), words.u64(24)),
        };
        input.consume(size);
        if version != u16::from(self.version) {
            return Err(TraceError::Binary {
                offset: offset as usize,
                found: format!("a record of version {version}"),
                expected: "the version of the first record",
            });
        }
        let Some(op) = scsi_op(code) else {
            notes.other += 1;
            return Ok(Next::Skipped);
        };
        let arrival = nanoseconds(time, self.unit_ns, offset)?;
        let range = sectors(lbn, u64::from(length), offset, notes)?;
        Ok(next(range.map(|range| TraceRecord { arrival: Some(arrival), ..TraceRecord::new(op, range) })))
    }
}

/// The kernel's binary block trace (blktrace), of either byte order: 48 bytes an event and a payload. The time is in
/// nanoseconds, the address in sectors of 512 bytes, the length in bytes.
#[derive(Debug)]
pub(super) struct Blktrace {
    pub(super) event: Event,
    /// Whether flushes and discards are requests.
    pub(super) cache_ops: bool,
}

const BLKTRACE_MAGIC: u32 = 0x6561_7400;
const BLKTRACE_BYTES: usize = 48;

/// Returns whether bytes begin with an event of blktrace.
pub(super) fn looks_like_blktrace(bytes: &[u8]) -> bool {
    let magic = |big_endian| Words { bytes, big_endian }.u32(0) & 0xffff_ff00 == BLKTRACE_MAGIC;
    bytes.len() >= 4 && (magic(false) || magic(true))
}

impl RecordParser for Blktrace {
    fn record(&mut self, input: &mut Input<'_>, notes: &mut Notes) -> Result<Next, TraceError> {
        const READ: u32 = 1;
        const WRITE: u32 = 1 << 1;
        const FLUSH: u32 = 1 << 2;
        // A SCSI command that a program sent.
        const COMMAND: u32 = 1 << 9;
        const NOTIFY: u32 = 1 << 10;
        const DISCARD: u32 = 1 << 13;
        const FORCED: u32 = 1 << 15;
        // An event may carry the number of its control group in front of its payload.
        const CONTROL_GROUP: u32 = 1 << 8;
        let offset = input.offset();
        let Some(bytes) = take(input, BLKTRACE_BYTES)? else { return Ok(Next::End) };
        let big_endian = bytes.first() == Some(&0x65);
        let words = Words { bytes, big_endian };
        let (magic, time, lbn, length) = (words.u32(0), words.u64(8), words.u64(16), words.u32(24));
        let (action, device, payload) = (words.u32(28), words.u32(36), words.u16(46));
        if magic & 0xffff_ff00 != BLKTRACE_MAGIC {
            return Err(TraceError::Binary {
                offset: offset as usize,
                found: format!("{magic:#010x}"),
                expected: "the magic number of an event, 0x65617407",
            });
        }
        input.consume(BLKTRACE_BYTES);
        let payload = usize::from(payload);
        if input.peek(payload)?.len() < payload {
            return Err(TraceError::Binary {
                offset: offset as usize,
                found: "an event".to_owned(),
                expected: "its whole payload: the file is cut short",
            });
        }
        input.consume(payload);
        let kind = action >> 16;
        if kind & NOTIFY != 0 || action & 0xffff & !CONTROL_GROUP != self.event.number() {
            return Ok(Next::Skipped);
        }
        if kind & COMMAND != 0 {
            notes.other += 1;
            return Ok(Next::Skipped);
        }
        let (flush, discard) = (kind & FLUSH != 0, kind & DISCARD != 0);
        notes.discards += u64::from(discard);
        notes.flushes += u64::from(flush && !discard);
        let op = match kind & (READ | WRITE) {
            READ => Some(Op::Read),
            WRITE => Some(Op::Write),
            _ => discard.then_some(Op::Write),
        };
        let Some(op) = op.filter(|_| length > 0) else {
            notes.empty += u64::from(!flush && op.is_some());
            notes.other += u64::from(!flush && op.is_none());
            let alone = flush && self.cache_ops;
            return Ok(next(alone.then(|| flush_alone(Instant::from_nanos(time), device))));
        };
        if discard && !self.cache_ops {
            return Ok(Next::Skipped);
        }
        let forced = op.is_write() && !discard && kind & FORCED != 0;
        notes.forced += u64::from(forced);
        let orders = CacheOps { flush: flush && !discard, forced, discard };
        let cache = if self.cache_ops { orders } else { CacheOps::default() };
        let range = sectors(lbn, u64::from(length), offset, notes)?;
        let arrival = Some(Instant::from_nanos(time));
        Ok(next(range.map(|range| TraceRecord { arrival, device, cache, ..TraceRecord::new(op, range) })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Options, TraceFormat, detect, read, read_as, read_with};

    fn vscsi(version: u16, code: u16, lbn: u64, time: u64) -> Vec<u8> {
        let mut record = Vec::new();
        if version == 1 {
            record.extend([7u32, 4096, 1].iter().flat_map(|word| word.to_le_bytes()));
            record.extend([code, 0x100].iter().flat_map(|word| word.to_le_bytes()));
        } else {
            record.extend([code, 0x200].iter().flat_map(|word| word.to_le_bytes()));
            record.extend([7u32, 4096, 1].iter().flat_map(|word| word.to_le_bytes()));
        }
        record.extend([lbn, time].iter().flat_map(|word| word.to_le_bytes()));
        record.extend(std::iter::repeat_n(0, if version == 1 { 0 } else { 8 }));
        record
    }

    #[test]
    fn both_versions_of_vscsi_are_known_and_read() {
        for version in [1, 2] {
            let file = [vscsi(version, 0x28, 1_000, 5), vscsi(version, 0x2a, 8, 9), vscsi(version, 0, 0, 9)]
                .concat();
            assert_eq!(detect(&file), Ok(TraceFormat::Vscsi));
            let trace = read(&file).unwrap();
            assert_eq!(trace.records[0].range.to_string(), "1000+8");
            assert_eq!(trace.records[0].arrival, Some(Instant::from_nanos(5_000)));
            assert!(trace.records[1].op.is_write());
            assert_eq!((trace.records.len(), trace.notes.other), (2, 1));
            let error = read_as(TraceFormat::Vscsi, &file[..file.len() - 1]).unwrap_err().to_string();
            assert!(error.contains("a whole record: the file is cut short"), "{error}");
        }
    }

    fn blktrace(action: u32, time: u64, payload: u16, big_endian: bool) -> Vec<u8> {
        let mut event = Vec::new();
        let mut push = |value: u64, bytes: usize| {
            let all = value.to_be_bytes();
            let mut word = all[8 - bytes..].to_vec();
            if !big_endian {
                word.reverse();
            }
            event.extend(word);
        };
        push(u64::from(BLKTRACE_MAGIC | 7), 4);
        push(1, 4);
        push(time, 8);
        push(1_000, 8);
        push(4_096, 4);
        push(u64::from(action), 4);
        push(5, 4);
        push(0x80_0010, 4);
        push(0, 4);
        push(0, 2);
        push(u64::from(payload), 2);
        event.extend(std::iter::repeat_n(0xff, usize::from(payload)));
        event
    }

    #[test]
    fn blktrace_is_read_in_both_byte_orders_with_payloads() {
        for big_endian in [false, true] {
            let file = [
                blktrace(1 << 16 | 1, 10, 0, big_endian),
                blktrace(1 << 16 | 7, 20, 12, big_endian),
                blktrace((1 << 1 | 1 << 15) << 16 | 1, 30, 0, big_endian),
                blktrace((1 << 1 | 1 << 13) << 16 | 1, 40, 0, big_endian),
                blktrace(1 << 26, 50, 4, big_endian),
            ]
            .concat();
            let trace = read(&file).unwrap();
            assert_eq!(trace.format, TraceFormat::Blktrace);
            let arrivals: Vec<_> = trace.records.iter().map(|r| r.arrival.unwrap().as_nanos()).collect();
            assert_eq!((arrivals, trace.records[0].device), (vec![10, 30], 0x80_0010));
            assert_eq!((trace.notes.forced, trace.notes.discards), (1, 1));
            let options = Options { cache_ops: true, ..Options::default() };
            let kept = read_with(&options, &file[..]).unwrap().records;
            let found: Vec<_> = kept.iter().map(|r| (r.cache.forced, r.cache.discard)).collect();
            assert_eq!(found, [(false, false), (true, false), (false, true)]);
            let options = Options { event: Event::Dispatch, ..Options::default() };
            assert_eq!(read_with(&options, &file[..]).unwrap().records.len(), 1);
            // An event with its control group, and a SCSI command of a program.
            let file = [
                blktrace(1 << 16 | 1 << 8 | 1, 10, 8, big_endian),
                blktrace((1 | 1 << 9) << 16 | 1, 20, 16, big_endian),
            ]
            .concat();
            let trace = read(&file).unwrap();
            assert_eq!((trace.records.len(), trace.notes.other), (1, 1));
        }
    }

    #[test]
    fn oracle_general_is_known_by_its_records() {
        let record = |time: u32, lbn: u64, size: u32, next: i64| {
            [&time.to_le_bytes()[..], &lbn.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()].concat()
        };
        let file = [record(0, 1_000, 4_096, -1), record(1, 8, 512, 5)].concat();
        let trace = read(&file).unwrap();
        assert_eq!((trace.format, trace.records.len()), (TraceFormat::OracleGeneral, 2));
        assert_eq!(trace.records[1].range.to_string(), "8+1");
        assert!(!looks_like_oracle(&record(0, 1, 0, -1)) && !looks_like_oracle(b""));
    }
}
