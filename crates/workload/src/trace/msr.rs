//! The traces of Microsoft Research Cambridge (SNIA IOTTA 388).
//!
//! `timestamp,host,disk,Read|Write,offset,bytes,response`: the timestamp and the response time in units of
//! 100 ns (the timestamp since 1601), offset and size in bytes. Semicolons may stand for the commas, and the response
//! may be missing. The host's name and further fields are ignored. Other types than Read and Write are counted and left
//! out.

use super::parser::LineParser;
use super::text::{Field, Fields, byte_range};
use super::{Notes, TraceError, TraceRecord};
use units::{Duration, Instant};

/// Nanoseconds in a unit of the timestamps and the response times.
pub(super) const TICK_NS: u64 = 100;

/// The parser of a line.
#[derive(Debug)]
pub(super) struct Msr {
    /// Nanoseconds in a unit of the timestamps.
    pub(super) unit_ns: u64,
}

impl LineParser for Msr {
    fn heading(&mut self, fields: &Fields<'_>) -> Result<bool, TraceError> {
        Ok(fields.begins_with("timestamp"))
    }

    fn line(&mut self, mut fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let expected = "a timestamp, a whole number";
        let stamp = fields.field(expected)?;
        let arrival = Instant::ZERO + ticks(stamp, self.unit_ns, expected)?;
        fields.field("the host's name")?;
        let expected = "the disk's number, a whole number";
        let device = fields.field(expected)?.small_number(expected)?;
        let kind = fields.field("Read or Write")?;
        let offset = fields.field("the offset in bytes, a whole number")?;
        let size = fields.field("the size in bytes, a whole number")?;
        let expected = "the response time in units of 100 ns, a whole number";
        let service = fields.optional().map(|field| ticks(field, TICK_NS, expected)).transpose()?;
        let Ok(op) = kind.op("Read or Write") else {
            // The type may be another word, such as a trim or a flush, but not a number.
            if !kind.text.starts_with(|first: char| first.is_alphabetic()) {
                return Err(kind.error("Read or Write"));
            }
            notes.other += 1;
            return Ok(None);
        };
        let range = byte_range(offset, size, notes)?;
        Ok(range.map(|range| TraceRecord {
            arrival: Some(arrival),
            device,
            service,
            ..TraceRecord::new(op, range)
        }))
    }
}

fn ticks(field: Field<'_>, unit_ns: u64, expected: &'static str) -> Result<Duration, TraceError> {
    let ns = field.number(expected)?.checked_mul(unit_ns);
    ns.map(Duration::from_nanos).ok_or_else(|| field.error("a time below 584 years"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceFormat;

    fn read(text: &[u8]) -> Result<(Vec<TraceRecord>, Notes), TraceError> {
        let trace = crate::trace::read_as(TraceFormat::Msr, text)?;
        Ok((trace.records, trace.notes))
    }

    #[test]
    fn timestamps_are_kept_whole() {
        let text = b"Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n\
            128166372003061639,usr,0,Read,7014609920,24576,41286\n\
            128166372003061629,usr,1,Write,100,512,9\n";
        let (records, notes) = read(text).unwrap();
        assert_eq!(records[0].arrival.unwrap().as_nanos(), 12_816_637_200_306_163_900);
        assert_eq!(records[0].range.to_string(), "13700410+48");
        assert_eq!(records[0].service.unwrap().as_nanos(), 4_128_600);
        assert_eq!(records[0].arrival.unwrap().since(records[1].arrival.unwrap()), Duration::from_micros(1));
        assert_eq!(records[1].device, 1);
        assert_eq!((records[1].range.to_string().as_str(), notes.widened), ("0+2", 1));
    }

    #[test]
    fn other_types_and_further_fields_are_no_errors() {
        let (records, notes) = read(b"1,h,0,Trim,0,512,9\n2,h,0,Write,0,512,9,extra\n").unwrap();
        assert_eq!((records.len(), notes.other), (1, 1));
    }

    #[test]
    fn errors_name_the_place() {
        let refuse = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(refuse("1,h,0,7,0,512,9").contains("column 7: found \"7\", expected Read or Write"));
        assert!(refuse("1,h,0,Read,-512,512,9").contains("found \"-512\", expected the offset"));
        assert!(refuse("1,h,0,Read,0,512,9\n18446744073709551615,h,0,Read,0,512,9").contains("584 years"));
        assert!(refuse("1,h,0,Read,0,512,18446744073709551615").contains("584 years"));
    }
}
