//! fio's I/O log, versions 2 and 3.
//!
//! The first line is `fio version N iolog`; then `file add|open|close` and `file action offset bytes`, in version 3
//! with a timestamp before them, in microseconds since the run began (fio 3.33 measured; its manual names no
//! unit). Files become devices in the order in which they are first named, from 0. Syncs and trims are counted and
//! left out.
//!
//! Version 2 has `wait` instead of timestamps: so many microseconds "relative to the previous wait". Arrivals are
//! the sums of the waits so far; a log without any wait, which is what fio itself writes, has no arrivals.

use super::text::{Field, Fields, Lines, Separator, byte_range};
use super::{Notes, TraceError, TraceRecord};
use std::collections::BTreeMap;
use units::{Instant, Op};

/// Reads a trace and what was left out of it; empty when it has no requests.
///
/// # Errors
/// The first place that does not follow the format.
pub fn read(bytes: &[u8]) -> Result<(Vec<TraceRecord>, Notes), TraceError> {
    let mut lines = Lines::new(bytes, Separator::Blanks);
    let timed = match lines.next().transpose()?.map(|first| first.whole()) {
        Some(first) if first.text == "fio version 2 iolog" => false,
        Some(first) if first.text == "fio version 3 iolog" => true,
        Some(first) => return Err(first.error("`fio version 2 iolog` or `fio version 3 iolog`")),
        None => return Ok((Vec::new(), Notes::default())),
    };
    let mut log = Log::default();
    for line in lines {
        log.line(line?, timed)?;
    }
    if !timed && log.now == Instant::ZERO {
        log.records.iter_mut().for_each(|record| record.arrival = None);
    }
    Ok((log.records, log.notes))
}

const ACTIONS: &str = "add, open, close, read, write, sync, datasync, trim or, in version 2, wait";
const OFFSET: &str = "the offset in bytes, a whole number";
const BYTES: &str = "the size in bytes, a whole number";

#[derive(Default)]
struct Log<'a> {
    files: BTreeMap<&'a str, u32>,
    now: Instant,
    records: Vec<TraceRecord>,
    notes: Notes,
}

impl<'a> Log<'a> {
    fn line(&mut self, mut fields: Fields<'a>, timed: bool) -> Result<(), TraceError> {
        if timed {
            let expected = "the time in microseconds, 0 or more";
            self.now = Instant::ZERO + fields.field(expected)?.time(1_000, expected)?;
        }
        let device = self.device(fields.field("a file name")?)?;
        let action = fields.field("an action such as read or write")?;
        match action.text {
            "add" | "open" | "close" => {}
            "read" => self.request(Op::Read, device, &mut fields)?,
            "write" => self.request(Op::Write, device, &mut fields)?,
            "wait" if !timed => {
                let expected = "a pause in microseconds, a whole number";
                self.wait(fields.field(expected)?)?;
                fields.optional();
            }
            "sync" | "datasync" | "trim" => {
                self.notes.other += 1;
                // Their place and length, where they have one.
                fields.optional();
                fields.optional();
            }
            _ => return Err(action.error(ACTIONS)),
        }
        fields.end()
    }

    fn device(&mut self, file: Field<'a>) -> Result<u32, TraceError> {
        let next = u32::try_from(self.files.len()).map_err(|_| file.error("fewer than 2^32 files"))?;
        Ok(*self.files.entry(file.text).or_insert(next))
    }

    fn request(&mut self, op: Op, device: u32, fields: &mut Fields<'_>) -> Result<(), TraceError> {
        let offset = fields.field(OFFSET)?;
        let bytes = fields.field(BYTES)?;
        if let Some(range) = byte_range((offset.number(OFFSET)?, offset), bytes, &mut self.notes)? {
            let arrival = Some(self.now);
            self.records.push(TraceRecord { arrival, device, ..TraceRecord::new(op, range) });
        }
        Ok(())
    }

    fn wait(&mut self, field: Field<'_>) -> Result<(), TraceError> {
        let pause = field.time(1_000, "a pause in microseconds, a whole number")?;
        let now = self.now.as_nanos().checked_add(pause.as_nanos());
        self.now =
            Instant::from_nanos(now.ok_or_else(|| field.error("waits that sum up to less than 584 years"))?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrivals(records: &[TraceRecord]) -> Vec<Option<u64>> {
        records.iter().map(|r| r.arrival.map(Instant::as_nanos)).collect()
    }

    #[test]
    fn version_2_is_read_with_its_files_and_waits() {
        let text = b"fio version 2 iolog\n/dev/a add\n/dev/b add\n/dev/a open\n/dev/a read 4096 8192\n\
            /dev/a wait 150 0\n/dev/b write 1 512\n/dev/b sync 0 0\n/dev/b trim 0 4096\n/dev/a close\n";
        let (records, notes) = read(text).unwrap();
        assert_eq!((records[0].device, records[0].range.to_string().as_str()), (0, "8+16"));
        assert_eq!((records[1].device, records[1].op), (1, Op::Write));
        assert_eq!(arrivals(&records), [Some(0), Some(150_000)]);
        assert_eq!((notes.widened, notes.other, records.len()), (1, 2, 2));
    }

    #[test]
    fn version_2_without_waits_has_no_arrivals() {
        let (records, _) = read(b"fio version 2 iolog\n/dev/a read 0 512\n/dev/a read 512 512\n").unwrap();
        assert_eq!(arrivals(&records), [None, None]);
    }

    #[test]
    fn version_3_has_timestamps() {
        let text = b"fio version 3 iolog\n17 /dev/a add\n166 /dev/a open\n170 /dev/a read 61440 4096\n\
            50195 /dev/a write 880640 4096\n50377 /dev/a close\n";
        let (records, notes) = read(text).unwrap();
        assert_eq!(arrivals(&records), [Some(170_000), Some(50_195_000)]);
        assert_eq!((records[1].range.to_string().as_str(), notes), ("1720+8", Notes::default()));
    }

    #[test]
    fn errors_name_the_place() {
        let refuse = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
        assert!(refuse("fio version 1 iolog\n").contains("line 1, column 1: found \"fio version 1 iolog\""));
        assert!(refuse("fio version 2 iolog\nf rename 1 2\n").contains("line 2, column 3: found \"rename\""));
        assert!(refuse("fio version 2 iolog\nf read 1\n").contains("the end of the line, expected the size"));
        assert!(refuse("fio version 3 iolog\n5 f wait 1 0\n").contains("column 5: found \"wait\""));
        assert!(
            refuse("fio version 3 iolog\nf read 1 2\n").contains("column 1: found \"f\", expected the time")
        );
    }
}
