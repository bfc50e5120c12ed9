//! Readers of traces, a file each, and the one record that they all give.
//!
//! [`read`] finds out the format and reads it. Text formats may end their lines with LF or CRLF, and have blank
//! lines and lines that begin with `#`. Addresses and sizes that do not fall on 512-byte sectors are widened to
//! the sectors that enclose them, and counted.
//!
//! ```
//! use freeblock_workload::trace::{self, TraceFormat};
//! let trace = trace::read(b"R Hit 4583176 4 663.0 45422.0\nW Hit 4583180 4 607.0 34200.0\n")?;
//! assert_eq!(trace.format, TraceFormat::Validate);
//! assert_eq!(trace.records[1].range.to_string(), "4583180+4");
//!
//! let error = trace::read(b"R Hit 4583176 4 663.0 45422.0\nR Hit -7 4 607.0 34200.0\n").unwrap_err();
//! assert_eq!(error.to_string(), "line 2, column 7: found \"-7\", expected the first LBN, a whole number");
//! # Ok::<(), trace::TraceError>(())
//! ```

pub mod ascii;
mod detect;
pub mod fio;
pub mod msr;
pub mod spc;
pub mod srt;
mod text;
pub mod validate;

pub use detect::detect;

use crate::error::ConfigError;
use std::collections::BTreeMap;
use std::fmt;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// Bytes in a sector of every trace format.
pub const SECTOR_BYTES: u64 = 512;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// When it arrived, since the trace's own zero.
    pub arrival: Option<Instant>,
    /// The drive it went to, in the trace's own numbers; 0 where a format knows only one.
    pub device: u32,
    /// Read or write.
    pub op: Op,
    /// Its 512-byte sectors, at least one.
    pub range: LbnRange,
    /// How long the traced drive took.
    pub service: Option<Duration>,
    /// The pause between its completion and the issue of the next request.
    pub think: Option<Duration>,
}

impl TraceRecord {
    /// A request to device 0 without any times.
    pub const fn new(op: Op, range: LbnRange) -> Self {
        Self { arrival: None, device: 0, op, range, service: None, think: None }
    }
}

/// A trace as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The format it was in.
    pub format: TraceFormat,
    /// Its requests, in the file's order.
    pub records: Vec<TraceRecord>,
    /// What was left out or changed.
    pub notes: Notes,
}

/// What a reader left out of a trace or changed in it, as counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Records that the tracer itself marked as suspect; left out.
    pub suspect: u64,
    /// Records that are no reads or writes (flushes, trims, other kinds); left out.
    pub other: u64,
    /// Requests of no bytes; left out.
    pub empty: u64,
    /// Requests that did not begin and end on 512-byte sectors; widened to those that enclose them.
    pub widened: u64,
}

impl Trace {
    /// The devices and how many requests each has, in the order of their numbers.
    pub fn devices(&self) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        for record in &self.records {
            *counts.entry(record.device).or_default() += 1;
        }
        counts
    }

    /// The device with the most requests; of equals the one with the smallest number.
    pub fn busiest_device(&self) -> Option<u32> {
        self.devices().into_iter().max_by_key(|&(device, n)| (n, std::cmp::Reverse(device))).map(|(d, _)| d)
    }

    /// Leaves only the requests to `device`.
    pub fn retain_device(&mut self, device: u32) {
        self.records.retain(|record| record.device == device);
    }

    /// Turns the 512-byte sectors of the records into a drive's of `sector` bytes. A request that does not fall
    /// on them is widened to those that enclose it, and counted.
    ///
    /// # Errors
    /// A sector that is not a multiple of 512 bytes.
    pub fn convert_to(&mut self, sector: Bytes) -> Result<(), ConfigError> {
        let factor = sector.get() / SECTOR_BYTES;
        if factor == 0 || !sector.get().is_multiple_of(SECTOR_BYTES) {
            let mend = "give a drive whose sectors are 512 bytes or a multiple";
            return Err(ConfigError::field("sector", sector, mend));
        }
        for record in &mut self.records {
            let (start, end) = (record.range.start().get(), record.range.end().get());
            let first = start / factor;
            record.range = LbnRange::new(Lbn::new(first), Sectors::new(end.div_ceil(factor) - first));
            let widened = !start.is_multiple_of(factor) || !end.is_multiple_of(factor);
            self.notes.widened += u64::from(widened);
        }
        Ok(())
    }
}

/// The formats that [`read`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceFormat {
    /// DiskSim's "validate": `R|W action LBN blocks service_us think_us`.
    Validate,
    /// DiskSim's "ascii": `arrival_ms device LBN blocks flags`.
    Ascii,
    /// Hewlett-Packard's SRT: an ASCII header, then big-endian words.
    HpSrt,
    /// The Storage Performance Council's: `ASU,LBA,bytes,opcode,seconds`.
    Spc,
    /// Microsoft Research Cambridge's: `timestamp,host,disk,type,offset,bytes,response`.
    Msr,
    /// fio's I/O log, versions 2 and 3.
    Fio,
}

impl TraceFormat {
    /// All of them, in the order in which [`detect()`] tries them.
    pub const ALL: [Self; 6] = [Self::HpSrt, Self::Fio, Self::Validate, Self::Ascii, Self::Msr, Self::Spc];

    /// How this format looks, in a few words.
    pub const fn shape(self) -> &'static str {
        match self {
            Self::Validate => "lines of `R|W action LBN blocks service_us think_us`",
            Self::Ascii => "lines of `arrival_ms device LBN blocks flags`",
            Self::HpSrt => {
                "a header that begins with `$$TR_IOREC` and ends with a form feed, then binary records"
            }
            Self::Spc => "lines of `ASU,LBA,bytes,R|W,seconds`",
            Self::Msr => "lines of `timestamp,host,disk,Read|Write,offset,bytes,response`",
            Self::Fio => "a first line `fio version 2 iolog`, or 3",
        }
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Validate => "DiskSim validate",
            Self::Ascii => "DiskSim ascii",
            Self::HpSrt => "HP SRT",
            Self::Spc => "SPC",
            Self::Msr => "MSR Cambridge CSV",
            Self::Fio => "fio iolog",
        })
    }
}

/// Why a trace cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// There is no request in it.
    #[error("the trace has no requests; expected {expected}")]
    Empty {
        /// What a trace of this format has.
        expected: &'static str,
    },
    /// A place in a text.
    #[error("line {line}, column {column}: found {found}, expected {expected}")]
    Text {
        /// The line, counted from 1.
        line: usize,
        /// The byte in the line, counted from 1.
        column: usize,
        /// What stands there.
        found: String,
        /// What should.
        expected: &'static str,
    },
    /// A place in a binary file.
    #[error("byte {offset}: found {found}, expected {expected}")]
    Binary {
        /// The byte in the file, counted from 0.
        offset: usize,
        /// What stands there.
        found: String,
        /// What should.
        expected: &'static str,
    },
    /// No format that is known.
    #[error("not a trace in a known format: it begins with {found}; tried {tried}")]
    UnknownFormat {
        /// How the file begins.
        found: String,
        /// The formats, and how each would look.
        tried: String,
    },
    /// A compressed file.
    #[error("the trace is compressed with {with}; unpack it first")]
    Compressed {
        /// The program that made it.
        with: &'static str,
    },
}

/// Reads a trace in whichever format it is.
///
/// # Errors
/// An unknown format; a place that does not follow the format; a trace without requests.
pub fn read(bytes: &[u8]) -> Result<Trace, TraceError> {
    read_as(detect(bytes)?, bytes)
}

/// Reads a trace in a given format.
///
/// # Errors
/// A place that does not follow the format; a trace without requests.
pub fn read_as(format: TraceFormat, bytes: &[u8]) -> Result<Trace, TraceError> {
    let (records, notes) = match format {
        TraceFormat::Validate => (validate::read(bytes)?, Notes::default()),
        TraceFormat::Ascii => (ascii::read(bytes)?, Notes::default()),
        TraceFormat::HpSrt => srt::read(bytes)?,
        TraceFormat::Spc => spc::read(bytes)?,
        TraceFormat::Msr => msr::read(bytes)?,
        TraceFormat::Fio => fio::read(bytes)?,
    };
    if records.is_empty() {
        return Err(TraceError::Empty { expected: format.shape() });
    }
    Ok(Trace { format, records, notes })
}

/// The sectors that enclose `bytes` bytes from byte `offset` on, and whether they are more than was asked for;
/// `None` when they end past the largest number. `bytes` is not 0.
fn enclosing(offset: u64, bytes: u64) -> Option<(LbnRange, bool)> {
    let end = offset.checked_add(bytes)?;
    let first = offset / SECTOR_BYTES;
    let sectors = end.div_ceil(SECTOR_BYTES) - first;
    let widened = !offset.is_multiple_of(SECTOR_BYTES) || !end.is_multiple_of(SECTOR_BYTES);
    Some((LbnRange::new(Lbn::new(first), Sectors::new(sectors)), widened))
}
