//! fio's I/O log, version 2.
//!
//! The first line is `fio version 2 iolog`; then `file add|open|close` and `file action offset bytes`. Files
//! become devices in the order in which they are first named, from 0. `wait` is a pause of so many microseconds
//! before the next request: it is kept as the think time of the request before it. Syncs and trims are counted and
//! left out. Version 3, which has a timestamp on each line, is refused.

use super::text::{Field, Lines, Separator, byte_range};
use super::{Notes, TraceError, TraceRecord};
use std::collections::BTreeMap;
use units::{Duration, Op};

/// The first line of every log that this reads.
pub(super) const FIRST_LINE: &str = "fio version 2 iolog";

/// Reads a trace and what was left out of it; empty when it has no requests.
///
/// # Errors
/// The first place that does not follow the format.
pub fn read(bytes: &[u8]) -> Result<(Vec<TraceRecord>, Notes), TraceError> {
    let mut lines = Lines::new(bytes, Separator::Blanks);
    let expected = "the first line `fio version 2 iolog`, the version that is read here";
    match lines.next().transpose()? {
        Some(first) if first.whole().text == FIRST_LINE => {}
        Some(first) => return Err(first.whole().error(expected)),
        None => return Ok((Vec::new(), Notes::default())),
    }
    let mut log = Log::default();
    for line in lines {
        let mut fields = line?;
        let file = fields.field("a file name")?;
        let action = fields.field("an action such as read or write")?;
        let device = log.device(file)?;
        match action.text {
            "add" | "open" | "close" => {}
            "wait" => {
                let expected = "a pause in microseconds, a whole number";
                log.wait(fields.field(expected)?.time(1_000, expected)?);
                // Versions differ in whether they write a length of 0.
                fields.optional();
            }
            "read" => log.request(Op::Read, device, fields.field(OFFSET)?, fields.field(BYTES)?)?,
            "write" => log.request(Op::Write, device, fields.field(OFFSET)?, fields.field(BYTES)?)?,
            "sync" | "datasync" | "trim" => {
                log.notes.other += 1;
                // Their place and length, where they have one.
                fields.optional();
                fields.optional();
            }
            _ => return Err(action.error("add, open, close, read, write, sync, datasync, trim or wait")),
        }
        fields.end()?;
    }
    Ok((log.records, log.notes))
}

const OFFSET: &str = "the offset in bytes, a whole number";
const BYTES: &str = "the size in bytes, a whole number";

#[derive(Default)]
struct Log<'a> {
    files: BTreeMap<&'a str, u32>,
    records: Vec<TraceRecord>,
    notes: Notes,
}

impl<'a> Log<'a> {
    fn device(&mut self, file: Field<'a>) -> Result<u32, TraceError> {
        let next = u32::try_from(self.files.len()).map_err(|_| file.error("fewer than 2^32 files"))?;
        Ok(*self.files.entry(file.text).or_insert(next))
    }

    fn request(
        &mut self,
        op: Op,
        device: u32,
        offset: Field<'_>,
        bytes: Field<'_>,
    ) -> Result<(), TraceError> {
        let from = offset.number(OFFSET)?;
        if let Some(range) = byte_range((from, offset), bytes, &mut self.notes)? {
            let think = Some(Duration::ZERO);
            self.records.push(TraceRecord { device, think, ..TraceRecord::new(op, range) });
        }
        Ok(())
    }

    /// A pause before the first request is no pause between requests; it is dropped.
    fn wait(&mut self, pause: Duration) {
        if let Some(think) = self.records.last_mut().and_then(|record| record.think.as_mut()) {
            *think = Duration::from_nanos(think.as_nanos().saturating_add(pause.as_nanos()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_with_its_files_and_waits() {
        let text = b"fio version 2 iolog\n/dev/a add\n/dev/b add\n/dev/a open\n/dev/a read 4096 8192\n\
            /dev/a wait 150 0\n/dev/b write 1 512\n/dev/b sync 0 0\n/dev/b trim 0 4096\n/dev/a close\n";
        let (records, notes) = read(text).unwrap();
        assert_eq!((records[0].device, records[0].range.to_string().as_str()), (0, "8+16"));
        assert_eq!(records[0].think, Some(Duration::from_micros(150)));
        assert_eq!((records[1].device, records[1].op), (1, Op::Write));
        assert_eq!((notes.widened, notes.other, records.len()), (1, 2, 2));
    }

    #[test]
    fn errors_name_the_place() {
        let refuse = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(refuse("fio version 3 iolog\n").contains("line 1, column 1: found \"fio version 3 iolog\""));
        assert!(refuse("fio version 2 iolog\nf rename 1 2\n").contains("line 2, column 3: found \"rename\""));
        assert!(refuse("fio version 2 iolog\nf read 1\n").contains("the end of the line, expected the size"));
    }
}
