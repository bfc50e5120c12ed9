//! The traces of Microsoft Research Cambridge (SNIA IOTTA 388).
//!
//! `timestamp,host,disk,Read|Write,offset,bytes,response`: the timestamp and the response time in units of
//! 100 ns (the timestamp since 1601), offset and size in bytes. Arrivals count from the earliest timestamp. The
//! host's name is read over: a file has one host.

use super::text::{Field, Lines, Separator, byte_range};
use super::{Notes, TraceError, TraceRecord};
use units::{Duration, Instant};

/// Nanoseconds in a unit of the timestamps.
const TICK: u64 = 100;
/// How far a timestamp may lie from the first, before or after, for all arrivals to be counted in nanoseconds.
const SPAN_MAX: u64 = u64::MAX / TICK / 2;

/// Reads a trace and what was left out of it; empty when it has no requests. A first line that begins with
/// "Timestamp" is a heading.
///
/// # Errors
/// The first place that does not follow the format.
pub fn read(bytes: &[u8]) -> Result<(Vec<TraceRecord>, Notes), TraceError> {
    let mut records = Vec::new();
    let mut stamps = Vec::new();
    let mut notes = Notes::default();
    for (index, line) in Lines::new(bytes, Separator::Comma).enumerate() {
        let mut fields = line?;
        let expected = "a timestamp in units of 100 ns, a whole number";
        let stamp = fields.field(expected)?;
        if index == 0 && stamp.text.eq_ignore_ascii_case("timestamp") {
            continue;
        }
        let stamp = (stamp.number(expected)?, stamp);
        let first = *stamps.first().unwrap_or(&stamp.0);
        if stamp.0.abs_diff(first) > SPAN_MAX {
            return Err(stamp.1.error("a timestamp within 292 years of the first"));
        }
        fields.field("the host's name")?;
        let expected = "the disk's number, a whole number";
        let device = fields.field(expected)?.small_number(expected)?;
        let op = fields.field("Read or Write")?.op("Read or Write")?;
        let expected = "the offset in bytes, a whole number";
        let offset = fields.field(expected)?;
        let offset = (offset.number(expected)?, offset);
        let size = fields.field("the size in bytes, a whole number")?;
        let service = ticks(fields.field("the response time in units of 100 ns, a whole number")?)?;
        fields.end()?;
        if let Some(range) = byte_range(offset, size, &mut notes)? {
            stamps.push(stamp.0);
            records.push(TraceRecord { device, service: Some(service), ..TraceRecord::new(op, range) });
        }
    }
    // Only the span must fit: the timestamps themselves, in nanoseconds, are near the largest number.
    let earliest = stamps.iter().copied().min().unwrap_or(0);
    for (record, stamp) in records.iter_mut().zip(stamps) {
        record.arrival = Some(Instant::from_nanos((stamp - earliest) * TICK));
    }
    Ok((records, notes))
}

fn ticks(field: Field<'_>) -> Result<Duration, TraceError> {
    let ticks = field.number("the response time in units of 100 ns, a whole number")?;
    let ns = ticks.checked_mul(TICK).ok_or_else(|| field.error("a time below 584 years"))?;
    Ok(Duration::from_nanos(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_count_from_the_earliest_timestamp() {
        let text = b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
            128166372003061639,usr,0,Read,7014609920,24576,41286\n\
            128166372003061629,usr,1,Write,100,512,9\n";
        let (records, notes) = read(text).unwrap();
        assert_eq!(records[0].arrival.unwrap().as_nanos(), 1_000);
        assert_eq!(records[0].range.to_string(), "13700410+48");
        assert_eq!(records[0].service.unwrap().as_nanos(), 4_128_600);
        assert_eq!((records[1].arrival, records[1].device), (Some(Instant::ZERO), 1));
        assert_eq!((records[1].range.to_string().as_str(), notes.widened), ("0+2", 1));
    }

    #[test]
    fn errors_name_the_place() {
        let refuse = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(refuse("1,h,0,Trim,0,512,9").contains("column 7: found \"Trim\", expected Read or Write"));
        assert!(refuse("1,h,0,Read,-512,512,9").contains("found \"-512\", expected the offset"));
        assert!(refuse("1,h,0,Read,0,512,9\n18446744073709551615,h,0,Read,0,512,9").contains("292 years"));
        assert!(refuse("1,h,0,Read,0,512,18446744073709551615").contains("584 years"));
    }
}
