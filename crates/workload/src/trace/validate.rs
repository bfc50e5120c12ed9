//! DiskSim's "validate" traces: measured on a real drive, one request outstanding.
//!
//! `R|W  action  LBN  blocks  service_us  think_us`, separated by blanks. The action (Hit, Miss, Doub, Trip, or any
//! other word) is ignored: most tracers wrote "Hit" for everything. `service_us` is the time that the drive took;
//! `think_us` is the pause between this request's completion and the next one's issue.

use super::parser::LineParser;
use super::text::{Fields, range};
use super::{Notes, TraceError, TraceRecord};
use std::fmt::{self, Write};

/// The parser of a line.
#[derive(Debug)]
pub(super) struct Validate;

impl LineParser for Validate {
    fn line(&mut self, mut fields: Fields<'_>, _: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let op = fields.field("R or W")?.op("R or W")?;
        fields.field("an action such as Hit or Miss")?;
        let range = range(fields.field("the first LBN")?, fields.field("the number of blocks")?)?;
        let expected = "the service time in microseconds, 0 or more";
        let service = fields.field(expected)?.time(1_000, expected)?;
        let expected = "the think time in microseconds, 0 or more";
        let think = fields.field(expected)?.time(1_000, expected)?;
        fields.end()?;
        let (service, think) = (Some(service), Some(think));
        Ok(Some(TraceRecord { service, think, ..TraceRecord::new(op, range) }))
    }
}

/// Writes a trace; a missing time is written as 0. A reader of the output gets these requests and times again.
///
/// # Errors
/// `out` failed.
pub fn write(records: &[TraceRecord], out: &mut impl Write) -> fmt::Result {
    for record in records {
        let op = if record.op.is_write() { 'W' } else { 'R' };
        let [service, think] = [record.service, record.think].map(|t| t.unwrap_or_default().as_nanos());
        writeln!(
            out,
            "{op} Miss {} {} {}.{:03} {}.{:03}",
            record.range.start(),
            record.range.len(),
            service / 1_000,
            service % 1_000,
            think / 1_000,
            think % 1_000,
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Vec<TraceRecord>, TraceError> {
        crate::trace::read_as(crate::trace::TraceFormat::Validate, text).map(|trace| trace.records)
    }

    fn refuse(text: &str) -> String {
        read(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn actions_comments_blank_lines_and_crlf_are_read_over() {
        let text = "# measured\r\n\r\nR Hit 1 2 3.5 4\r\nw\tTrip 5 6 7 8.25\r\nR Elsewhere 9 1 0 0";
        let records = read(text.as_bytes()).unwrap();
        assert_eq!(records.len(), 3);
        assert!(records[1].op.is_write());
        assert_eq!(records[0].service.unwrap().as_nanos(), 3_500);
        assert_eq!(records[1].think.unwrap().as_nanos(), 8_250);
    }

    #[test]
    fn errors_name_the_place_the_finding_and_the_expectation() {
        assert_eq!(refuse("R Hit 1 2 3 4\nX Hit 1 2 3 4"), "line 2, column 1: found \"X\", expected R or W");
        assert_eq!(
            refuse("R Hit 1 0 3 4"),
            "line 1, column 9: found \"0\", expected the number of 512-byte blocks, a whole number of at least 1"
        );
        assert_eq!(
            refuse("R Hit 1 2 3"),
            "line 1, column 12: found the end of the line, expected the think time in microseconds, 0 or more"
        );
        assert_eq!(
            refuse("R Hit 18446744073709551616 2 3 4"),
            "line 1, column 7: found \"18446744073709551616\", expected a number below 2^64"
        );
        assert_eq!(
            refuse("R Hit 18446744073709551615 2 3 4"),
            "line 1, column 28: found \"2\", expected a request that ends below LBN 2^64"
        );
        assert!(refuse("R Hit 1 2 -3 4").contains("column 11: found \"-3\", expected the service time"));
        assert!(refuse("R Hit 1 2 3 4 5").contains("column 15: found \"5\", expected the end of the line"));
    }
}
