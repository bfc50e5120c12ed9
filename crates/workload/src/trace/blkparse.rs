//! The text that blkparse prints of a block trace.
//!
//! `major,minor cpu sequence time pid event rwbs sector + sectors [process]`. One event of each request is read: its
//! queueing (Q) or its dispatch to the driver (D). Lines of other events and the summary at the end are not requests.

use super::parser::LineParser;
use super::text::{Field, Fields, sectors_at_lbn};
use super::{Event, Notes, TraceError, TraceRecord};
use units::{CacheOps, Instant, Lbn, LbnRange, Op, Sectors};

/// The parser of a line.
#[derive(Debug)]
pub(super) struct Blkparse {
    /// Nanoseconds in a unit of the times.
    pub(super) unit_ns: u64,
    pub(super) event: Event,
    /// Whether flushes and discards are requests.
    pub(super) cache_ops: bool,
}

impl LineParser for Blkparse {
    fn line(&mut self, mut fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let numbers = fields.optional().map_or("", |field| field.text).split_once(',');
        let device = numbers.and_then(|(major, minor)| device(major.parse().ok()?, minor.parse().ok()?));
        // The events are followed by blkparse's summary, which begins with another word.
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
        match after(fields.clone()) {
            After::Sectors => {}
            After::Command => {
                notes.other += 1;
                return Ok(None);
            }
            After::Nothing => {
                let flush = kind.text.starts_with('F');
                notes.flushes += u64::from(flush);
                notes.empty += u64::from(!flush);
                if !flush || !self.cache_ops {
                    return Ok(None);
                }
                let arrival = time.arrival(self.unit_ns, TIME)?;
                return Ok(Some(flush_alone(arrival, device)));
            }
        }
        let Some((op, cache)) = op_of(kind.text, notes) else { return Ok(None) };
        if cache.discard && !self.cache_ops {
            return Ok(None);
        }
        let cache = if self.cache_ops { cache } else { CacheOps::default() };
        let lbn = fields.field("the first LBN, a whole number")?;
        let plus = fields.field("a plus sign")?;
        if plus.text != "+" {
            return Err(plus.error("a plus sign between the first LBN and the number of sectors"));
        }
        let sectors = fields.field("the number of sectors, a whole number")?;
        let arrival = time.arrival(self.unit_ns, TIME)?;
        let range = sectors_at_lbn(lbn, sectors, notes)?;
        Ok(range.map(|range| TraceRecord {
            arrival: Some(arrival),
            device,
            cache,
            ..TraceRecord::new(op, range)
        }))
    }
}

/// The text that an error names as expected in place of a time.
const TIME: &str = "the time in seconds, 0 or more";

/// Returns a flush without a write.
pub(super) fn flush_alone(arrival: Instant, device: u32) -> TraceRecord {
    let cache = CacheOps { flush: true, ..CacheOps::default() };
    let nothing = LbnRange::new(Lbn::ZERO, Sectors::new(0));
    TraceRecord { arrival: Some(arrival), device, cache, ..TraceRecord::new(Op::Write, nothing) }
}

/// Returns the number of a device: 2^20 times its major plus its minor number, as in the kernel.
pub(super) fn device(major: u32, minor: u32) -> Option<u32> {
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

/// The form of the rest of a line.
enum After {
    /// `LBN + sectors [process]`.
    Sectors,
    /// `bytes (command block) [process]`: a SCSI command that a program sent.
    Command,
    /// `[process]`: a flush, or another request without sectors.
    Nothing,
}

fn after(mut fields: Fields<'_>) -> After {
    let begins =
        |field: Option<Field<'_>>, with: char| field.is_some_and(|field| field.text.starts_with(with));
    let first = fields.optional();
    if first.is_none() || begins(first, '[') {
        After::Nothing
    } else if begins(first, '(') || begins(fields.optional(), '(') {
        After::Command
    } else {
        After::Sectors
    }
}

/// Returns the direction of a request and its orders for the cache, from the letters that blkparse prints: a first F
/// is a flush before the request, a first Z an operation on a zone, a D a discard, an F after the W forced unit
/// access.
fn op_of(kind: &str, notes: &mut Notes) -> Option<(Op, CacheOps)> {
    if kind.starts_with('Z') {
        notes.other += 1;
        return None;
    }
    if kind.contains('D') {
        notes.discards += 1;
        return Some((Op::Write, CacheOps { discard: true, ..CacheOps::default() }));
    }
    let flush = kind.starts_with('F');
    notes.flushes += u64::from(flush);
    if kind.contains('R') {
        Some((Op::Read, CacheOps { flush, ..CacheOps::default() }))
    } else if let Some((_, after)) = kind.split_once('W') {
        let forced = after.contains('F');
        notes.forced += u64::from(forced);
        Some((Op::Write, CacheOps { flush, forced, discard: false }))
    } else {
        notes.other += u64::from(!flush);
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::{Event, Options, TraceFormat, read_with};
    use units::CacheOps;

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

    #[test]
    fn flushes_discards_and_forced_writes_are_requests_where_the_drive_takes_them() {
        let options = Options { cache_ops: true, ..Options::default() };
        let trace = read_with(&options, TEXT.as_bytes()).unwrap();
        let found: Vec<_> =
            trace.records.iter().map(|record| (record.range.to_string(), record.cache)).collect();
        let cache = |flush, forced, discard| CacheOps { flush, forced, discard };
        let expected = [
            ("1000+8", cache(false, false, false)),
            ("2000+16", cache(true, true, false)),
            ("0+0", cache(true, false, false)),
            ("0+1024", cache(false, false, true)),
        ];
        assert_eq!(found, expected.map(|(range, cache)| (range.to_owned(), cache)));
        assert_eq!((trace.notes.flushes, trace.notes.forced, trace.notes.discards), (2, 1, 1));
    }

    /// Every action and form of line that blkparse prints by default.
    const ALL: &str = "\
Input file sda.blktrace.0 added
  8,0    3    1     0.000000000   697  A   W 223490 + 8 <- (8,1) 223427
  8,0    3    2     0.000001829   697  Q   W 223490 + 8 [kjournald]
  8,0    3    3     0.000006197   697  G   W 223490 + 8 [kjournald]
  8,0    3    4     0.000008101   697  P   N [kjournald]
  8,0    3    5     0.000009000   697  M   W 223498 + 8 [kjournald]
  8,0    3    6     0.000009100   697  F   W 223506 + 8 [kjournald]
  8,0    3    7     0.000009200   697  X   W 223498 / 223500 [kjournald]
  8,0    3    8     0.000009300   697  B   W 223498 + 8 [kjournald]
  8,0    3    9     0.000029400   697  U   N [kjournald] 1
  8,0    3   10     0.000029500   697 UT   N [kjournald] 1
  8,0    3   11     0.000030000   697  I   W 223490 + 8 [kjournald]
  8,0    3   12     0.000036000   697  D   W 223490 + 8 [kjournald]
  8,0    3   13     0.000100000   697  S   W 223490 + 8 [kjournald]
  8,0    3   14     0.000200000   697  R   W 223490 + 8 [0]
  8,0    1   15     0.004000000     0  C   W 223490 + 8 [0]
  8,0    1   16     0.005000000   300  Q FWS [jbd2/sda1-8]
  8,0    1   17     0.005100000   300  D  FN [kworker/1:1H]
  8,0    1   18     0.006000000   300  D   R 36 (12 00 00 00 24 00 ..) [smartd]
  8,0    1   19     0.006100000   300  D   N (00 ..) [smartd]
  8,0    1   20     0.006500000   300  Q  ZR 0 + 524288 [a]
  8,0    1   21     0.006600000   300  Q  DS 5000 + 1024 [fstrim]
  8,0    1   22     0.006700000   300  Q RAM 7000 + 8 [my program]
  8,0    1   23     0.006800000   300  Q WFS 8000 + 8 [a]
  8,0    1   24     0.006900000   300  Q   W 9000 + 0 [a]
  8,0    1   25     0.006950000   300  Q   W [a]
  8,0    1   26     0.007000000     0  m   N cfq700 dispatch_insert
";

    #[test]
    fn every_action_and_form_of_line_is_read() {
        for (event, ranges, counts) in [
            (Event::Queue, "223490+8 7000+8 8000+8", [1, 1, 1, 1, 2]),
            (Event::Dispatch, "223490+8", [1, 0, 0, 2, 0]),
        ] {
            let trace = read_with(&Options { event, ..Options::default() }, ALL.as_bytes()).unwrap();
            let found: Vec<_> = trace.records.iter().map(|record| record.range.to_string()).collect();
            let notes = trace.notes;
            assert_eq!((trace.format, found.join(" ").as_str()), (TraceFormat::Blkparse, ranges));
            let found = [notes.flushes, notes.discards, notes.forced, notes.other, notes.empty];
            assert_eq!(found, counts, "{event:?}");
        }
    }
}
