//! The text that blkparse prints of a block trace.
//!
//! `major,minor cpu sequence time pid event rwbs sector + sectors [process]`. One event of each request is read: its
//! queueing (Q) or its dispatch to the driver (D). Lines of other events and the summary at the end are not requests.

use super::reader::LineParser;
use super::text::{Fields, sectors_at_lbn};
use super::{Event, Notes, TraceError, TraceRecord};
use units::Op;

/// The reader of a line.
#[derive(Debug)]
pub(super) struct Blkparse {
    /// Nanoseconds in a unit of the times.
    pub(super) unit_ns: u64,
    pub(super) event: Event,
}

impl LineParser for Blkparse {
    fn line(&mut self, mut fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let numbers = fields.optional().map_or("", |field| field.text).split_once(',');
        let device = numbers.and_then(|(major, minor)| device(major.parse().ok()?, minor.parse().ok()?));
        // The summary of blkparse follows the events, and begins with another word.
        let Some(device) = device else { return Ok(None) };
        fields.field("the processor's number")?;
        fields.field("the sequence number")?;
        let time = fields.field("the time in seconds")?;
        fields.field("the process's number")?;
        let event = fields.field("the event, such as Q or D")?;
        if event.text != self.event.letter() {
            return Ok(None);
        }
        let kind = fields.field("the kind of request, such as R or WS")?;
        let Some(op) = op_of(kind.text, notes) else { return Ok(None) };
        let lbn = fields.field("the first LBN, a whole number")?;
        let plus = fields.field("a plus sign")?;
        if plus.text != "+" {
            return Err(plus.error("a plus sign between the first LBN and the number of sectors"));
        }
        let sectors = fields.field("the number of sectors, a whole number")?;
        let arrival = time.arrival(self.unit_ns, "the time in seconds, 0 or more")?;
        let range = sectors_at_lbn(lbn, sectors, notes)?;
        Ok(range.map(|range| TraceRecord { arrival: Some(arrival), device, ..TraceRecord::new(op, range) }))
    }
}

/// The number of a device: 2^20 times its major plus its minor number, as the kernel has it.
pub(super) fn device(major: u32, minor: u32) -> Option<u32> {
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

/// The direction of a request of blkparse's kind: a first F is a flush before it, a D a discard, an F after the W the
/// forced unit access of a write.
fn op_of(kind: &str, notes: &mut Notes) -> Option<Op> {
    if kind.contains('D') {
        notes.discards += 1;
        return None;
    }
    notes.flushes += u64::from(kind.starts_with('F'));
    if kind.contains('R') {
        Some(Op::Read)
    } else if let Some((_, after)) = kind.split_once('W') {
        notes.forced += u64::from(after.contains('F'));
        Some(Op::Write)
    } else {
        notes.other += u64::from(!kind.starts_with('F'));
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::{Event, Options, TraceFormat, read_with};

    const TEXT: &str = "\
  8,16   0        1    0.001565259  5000  Q  RS 1000 + 8 [a b]
  8,16   0        4    0.001573259  5000  D  RS 1000 + 8 [a b]
  8,16   1        5    0.002000000     0  C  RS 1000 + 8 [0]
  8,16   1        6    0.003000000     0  Q FWFS 2000 + 16 [a]
  8,16   1        7    0.004000000     0  Q  FN [a]
  8,16   1        8    0.005000000     0  Q  DS 0 + 1024 [a]
  8,16   1        9    0.006000000     0  m   N cfq insert
CPU0 (sda):
 Reads Queued:           1,        4KiB
";

    #[test]
    fn one_event_of_each_request_is_read_and_flushes_are_counted() {
        for (event, arrivals) in
            [(Event::Queue, vec![1_565_259, 3_000_000]), (Event::Dispatch, vec![1_573_259])]
        {
            let options = Options { format: Some(TraceFormat::Blkparse), event, ..Options::default() };
            let trace = read_with(&options, TEXT.as_bytes()).unwrap();
            let found: Vec<u64> = trace.records.iter().map(|r| r.arrival.unwrap().as_nanos()).collect();
            assert_eq!(found, arrivals);
            assert_eq!(
                (trace.records[0].range.to_string().as_str(), trace.records[0].device),
                ("1000+8", 0x80_0010)
            );
            if event == Event::Queue {
                let notes = trace.notes;
                assert_eq!((notes.flushes, notes.forced, notes.discards, notes.other), (2, 1, 1, 0));
            }
        }
    }
}
