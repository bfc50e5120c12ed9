//! fio's I/O log, versions 2 and 3.
//!
//! The first line is `fio version N iolog`; then `file add|open|close` and `file action offset bytes`, in version 3
//! with a timestamp before them, in microseconds since the run began (fio 3.33 measured; its manual names no
//! unit). Files become devices in the order in which they are first named, from 0. Syncs and trims are counted and
//! left out.
//!
//! Version 2 has `wait` instead of timestamps: the next request arrives that many milliseconds after the job began
//! (fio 3.33 measured: waits of 500, 700 and 3000 were issued at 0.41, 0.60 and 2.90 s; its manual says
//! microseconds after the preceding wait). A log without any wait, which is what fio itself writes, has no
//! arrivals.

use super::parser::LineParser;
use super::text::{Fields, Names, byte_range};
use super::{Notes, TraceError, TraceRecord};
use units::{Instant, Op};

const ACTIONS: &str = "add, open, close, read, write, sync, datasync, trim or, in version 2, wait";
const ACTION_WORDS: [&str; 9] = ["add", "open", "close", "read", "write", "sync", "datasync", "trim", "wait"];
/// Nanoseconds in a unit of a wait.
const WAIT_NS: u64 = 1_000_000;

/// The parser of a line.
#[derive(Debug)]
pub(super) struct Fio {
    files: Names,
    version: Version,
    now: Instant,
    /// Nanoseconds in a unit of the times of version 3.
    unit_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// The first line has not been read.
    Unknown,
    /// Version 2, with or without waits.
    Two { waits: bool },
    /// Version 3.
    Three,
}

impl Fio {
    /// Creates a parser of a log that begins with `sample`, which shows whether a log of version 2 has waits.
    pub(super) fn new(sample: &[u8], unit_ns: u64) -> Self {
        let two = sample.starts_with(b"fio version 2 iolog");
        let waits = sample.windows(6).any(|window| window == b" wait ");
        let version = if two { Version::Two { waits } } else { Version::Unknown };
        Self { files: Names::default(), version, now: Instant::ZERO, unit_ns }
    }

    fn request(
        &mut self,
        op: Op,
        device: u32,
        fields: &mut Fields<'_>,
        notes: &mut Notes,
    ) -> Result<Option<TraceRecord>, TraceError> {
        let offset = fields.field("the offset in bytes, a whole number")?;
        let bytes = fields.field("the size in bytes, a whole number")?;
        let arrival = (self.version != Version::Two { waits: false }).then_some(self.now);
        let range = byte_range(offset, bytes, notes)?;
        Ok(range.map(|range| TraceRecord { arrival, device, ..TraceRecord::new(op, range) }))
    }
}

impl LineParser for Fio {
    fn heading(&mut self, fields: &Fields<'_>) -> Result<bool, TraceError> {
        let first = fields.whole();
        self.version = match (first.text, self.version) {
            ("fio version 2 iolog", Version::Two { waits }) => Version::Two { waits },
            ("fio version 2 iolog", _) => Version::Two { waits: false },
            ("fio version 3 iolog", _) => Version::Three,
            _ => return Err(first.error("`fio version 2 iolog` or `fio version 3 iolog`")),
        };
        Ok(true)
    }

    fn line(&mut self, mut fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError> {
        let timed = self.version == Version::Three;
        if timed {
            let expected = "the time in microseconds, 0 or more";
            self.now = fields.field(expected)?.arrival(self.unit_ns, expected)?;
        }
        let mut rest = fields.clone();
        let name = rest.field("a file name")?;
        let mut action = rest.field("an action such as read or write")?;
        let all = fields.clone().rest();
        // A file name may have blanks in it; the action stands before the last fields.
        let known = |place: &usize| all.get(*place).is_some_and(|field| ACTION_WORDS.contains(&field.text));
        let places = [3, 1, 2].iter().filter_map(|behind| all.len().checked_sub(*behind));
        if let Some(place) = places.filter(|place| *place > 0).find(known) {
            action = all[place];
            rest = fields.clone();
            for _ in 0..=place {
                rest.optional();
            }
        }
        let device = self.files.number(fields.between(&name, &action))?;
        let mut fields = rest;
        let record = match action.text {
            "add" | "open" | "close" => None,
            "read" => self.request(Op::Read, device, &mut fields, notes)?,
            "write" => self.request(Op::Write, device, &mut fields, notes)?,
            "wait" if !timed => {
                let expected = "a time in milliseconds, a whole number";
                let at = fields.field(expected)?.arrival(WAIT_NS, expected)?;
                self.now = self.now.max(at);
                self.version = Version::Two { waits: true };
                fields.optional();
                None
            }
            "sync" | "datasync" | "trim" => {
                notes.other += 1;
                // Skips the offset and the length, which some lines have.
                fields.optional();
                fields.optional();
                None
            }
            _ => return Err(action.error(ACTIONS)),
        };
        fields.end()?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceFormat;

    fn read(text: &[u8]) -> Result<(Vec<TraceRecord>, Notes), TraceError> {
        let trace = crate::trace::read_as(TraceFormat::Fio, text)?;
        Ok((trace.records, trace.notes))
    }

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
        assert_eq!(arrivals(&records), [Some(0), Some(150_000_000)]);
        assert_eq!((notes.widened, notes.other, records.len()), (1, 2, 2));
    }

    #[test]
    fn version_2_without_waits_has_no_arrivals() {
        let (records, _) = read(b"fio version 2 iolog\n/dev/a read 0 512\n/dev/a read 512 512\n").unwrap();
        assert_eq!(arrivals(&records), [None, None]);
    }

    #[test]
    fn waits_count_from_the_beginning_of_the_job() {
        let text = b"fio version 2 iolog\na wait 500 0\na read 0 512\na wait 700 0\na read 8 512\n\
            a wait 600 0\na read 16 512\na wait 3000\na read 24 512\n";
        let ms = |ms: u64| Some(ms * 1_000_000);
        assert_eq!(arrivals(&read(text).unwrap().0), [ms(500), ms(700), ms(700), ms(3_000)]);
    }

    #[test]
    fn a_file_name_may_have_blanks_and_the_name_of_an_action() {
        let text = b"fio version 3 iolog\n1 /a b/read add\n2 /a b/read read 0 512\n3 read write 8 512\n\
            4 /a b/read close\n";
        let (records, _) = read(text).unwrap();
        let found: Vec<_> = records.iter().map(|r| (r.device, r.op.is_write())).collect();
        assert_eq!(found, [(0, false), (1, true)]);
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
