//! The Storage Performance Council's traces (UMass "Financial" and "WebSearch").
//!
//! `ASU,LBA,bytes,opcode,seconds`, with optional further fields, which are ignored. The application storage unit
//! becomes the device; the LBA counts 512-byte blocks; the opcode is R or W.

use super::parser::LineParser;
use super::text::{Fields, bytes_at_lbn};
use super::{Notes, TraceError, TraceRecord};

/// The parser of a line.
#[derive(Debug)]
pub(super) struct Spc {
    /// Nanoseconds in a unit of the times.
    pub(super) unit_ns: u64,
}

impl LineParser for Spc {
    fn line(&mut self, mut fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let expected = "the application storage unit, a whole number";
        let device = fields.field(expected)?.small_number(expected)?;
        let lba = fields.field("the first LBA, a whole number")?;
        let size = fields.field("a number of bytes")?;
        let op = fields.field("R or W")?.op("R or W")?;
        let expected = "the time in seconds, 0 or more";
        let arrival = fields.field(expected)?.arrival(self.unit_ns, expected)?;
        let range = bytes_at_lbn(lba, size, notes)?;
        Ok(range.map(|range| TraceRecord { arrival: Some(arrival), device, ..TraceRecord::new(op, range) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceFormat;

    fn read(text: &[u8]) -> Result<(Vec<TraceRecord>, Notes), TraceError> {
        let trace = crate::trace::read_as(TraceFormat::Spc, text)?;
        Ok((trace.records, trace.notes))
    }

    #[test]
    fn lines_are_read_with_and_without_further_fields() {
        let text = b"0,20941264,8192,W,0.551706\n1, 7, 100, r, 1.5, x, y\n0,1,0,R,2.0\n";
        let (records, notes) = read(text).unwrap();
        assert_eq!(records[0].range.to_string(), "20941264+16");
        assert_eq!(records[0].arrival.unwrap().as_nanos(), 551_706_000);
        assert_eq!((records[1].device, records[1].range.to_string().as_str()), (1, "7+1"));
        assert_eq!((notes.widened, notes.empty, records.len()), (1, 1, 2));
    }

    #[test]
    fn errors_name_the_place() {
        let refuse = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(refuse("0,1,512,Q,0.5").contains("line 1, column 9: found \"Q\", expected R or W"));
        assert!(refuse("0,36028797018963968,512,R,0.5").contains("expected an LBN below 2^55"));
        assert!(refuse("0,36028797018963967,1024,R,0.5").contains("expected a request that ends below byte"));
        assert!(refuse("0,,512,R,0.5").contains("column 3: found nothing, expected the first LBN"));
    }
}
