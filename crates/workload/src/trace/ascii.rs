//! DiskSim's default "ascii" traces, and those of MQSim and SSDSim.
//!
//! `arrival device LBN blocks flags`, separated by blanks. DiskSim's arrivals are in milliseconds, those of MQSim and
//! SSDSim in nanoseconds. Bit 0 of the flags is set for a read; MQSim and SSDSim write 1 for a read and 0 for a write.
//! Flags are hexadecimal, with or without 0x; the bit depends on the last digit alone, so decimal flags have the same
//! meaning.

use super::parser::LineParser;
use super::text::{Field, Fields, sectors_at_lbn};
use super::{Notes, TraceError, TraceRecord};
use std::fmt::{self, Write};
use units::Op;

/// The parser of a line.
#[derive(Debug)]
pub(super) struct Ascii {
    /// Nanoseconds in a unit of the arrival times.
    pub(super) unit_ns: u64,
}

impl LineParser for Ascii {
    fn line(&mut self, mut fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let expected = "the arrival time, 0 or more";
        let arrival = fields.field(expected)?.arrival(self.unit_ns, expected)?;
        let expected = "the device, a whole number";
        let device = fields.field(expected)?.small_number(expected)?;
        let (lbn, blocks) = (fields.field("the first LBN")?, fields.field("the number of blocks")?);
        let range = sectors_at_lbn(lbn, blocks, notes)?;
        let op = flags(fields.field("flags in hexadecimal")?)?;
        fields.end()?;
        Ok(range.map(|range| TraceRecord { arrival: Some(arrival), device, ..TraceRecord::new(op, range) }))
    }
}

fn flags(field: Field<'_>) -> Result<Op, TraceError> {
    let digits = field.text.strip_prefix("0x").or_else(|| field.text.strip_prefix("0X"));
    let digits = digits.unwrap_or(field.text);
    let expected = "flags in hexadecimal, bit 0 set for a read";
    if digits.starts_with('+') {
        return Err(field.error(expected));
    }
    let flags = u32::from_str_radix(digits, 16).map_err(|_| field.error(expected))?;
    Ok(if flags & 1 == 1 { Op::Read } else { Op::Write })
}

/// Writes a trace; a missing arrival is written as 0. A reader of the output gets these requests and arrivals again.
///
/// # Errors
/// `out` failed.
pub fn write(records: &[TraceRecord], out: &mut impl Write) -> fmt::Result {
    for record in records {
        let arrival = record.arrival.unwrap_or_default().as_nanos();
        writeln!(
            out,
            "{}.{:06} {} {} {} {:x}",
            arrival / 1_000_000,
            arrival % 1_000_000,
            record.device,
            record.range.start(),
            record.range.len(),
            u8::from(!record.op.is_write()),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Vec<TraceRecord>, TraceError> {
        crate::trace::read_as(crate::trace::TraceFormat::Ascii, text).map(|trace| trace.records)
    }

    #[test]
    fn bit_0_of_the_flags_is_a_read_in_either_base() {
        let text = b"0.0 0 1 2 1\n0.5 1 3 4 0\n1.25 0 5 6 0x11\n2 0 7 8 10\n3 0 7 8 b\n";
        let records = read(text).unwrap();
        let writes: Vec<_> = records.iter().map(|r| r.op.is_write()).collect();
        assert_eq!(writes, [false, true, false, true, false]);
        assert_eq!(records[2].arrival.unwrap().as_nanos(), 1_250_000);
        assert_eq!(records[1].device, 1);
    }

    #[test]
    fn a_request_without_blocks_is_left_out_and_counted() {
        let trace = crate::trace::read(b"0.5 0 1 0 1\n1.5 0 8 8 1\n").unwrap();
        assert_eq!((trace.records.len(), trace.notes.empty), (1, 1));
    }

    #[test]
    fn errors_name_the_place() {
        let refuse = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(refuse("0 0 1 2 g").contains("line 1, column 9: found \"g\", expected flags in hexadecimal"));
        assert!(refuse("0 0 1 2 +1").contains("expected flags"));
        assert!(refuse("0 -1 1 2 1").contains("column 3: found \"-1\", expected the device"));
        assert!(refuse("0 4294967296 1 2 1").contains("expected a number below 2^32"));
    }
}
