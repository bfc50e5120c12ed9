//! Readers of traces, and the record type that they all return.
//!
//! A [`Reader`] detects the format and returns one request after another; [`read`] collects them. Lines of text formats
//! may end with LF or CRLF; blank lines and lines that begin with `#` are ignored. Addresses and sizes that do not fall
//! on 512-byte sectors are widened to the sectors that enclose them, and counted.
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
mod binary;
mod blkparse;
mod csv;
mod detect;
mod fio;
mod input;
mod lists;
mod msr;
mod parser;
mod reader;
mod spc;
mod srt;
mod survey;
mod text;
pub mod validate;

pub use csv::{Column, Columns, Length, Start};
use detect::Detected;
pub use detect::detect;
pub use reader::{Options, Reader};
pub use survey::{DeviceSurvey, Survey, common_divisor};

use crate::error::ConfigError;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::str::FromStr;
use units::{Bytes, CacheOps, Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// Bytes in a sector of every trace format.
pub const SECTOR_BYTES: u64 = 512;

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// The time of arrival by the clock of the trace.
    pub arrival: Option<Instant>,
    /// The number of the drive in the trace; 0 if a format has only one.
    pub device: u32,
    /// Read or write.
    pub op: Op,
    /// The 512-byte sectors of the request; empty only for a flush alone.
    pub range: LbnRange,
    /// The time that the traced drive took for the request.
    pub service: Option<Duration>,
    /// The pause between the request's completion and the issue of the next request.
    pub think: Option<Duration>,
    /// The orders for the drive's cache.
    pub cache: CacheOps,
}

impl TraceRecord {
    /// Returns a request to device 0 without any times.
    pub const fn new(op: Op, range: LbnRange) -> Self {
        Self {
            arrival: None,
            device: 0,
            op,
            range,
            service: None,
            think: None,
            cache: CacheOps { flush: false, forced: false, discard: false },
        }
    }
}

/// A trace in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The format of the file.
    pub format: TraceFormat,
    /// The requests, in the order of the file.
    pub records: Vec<TraceRecord>,
    /// Counts of the records that were left out or changed.
    pub notes: Notes,
}

/// Counts of the records that a reader left out of a trace or changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// Records that the tracer itself marked as suspect; left out.
    pub suspect: u64,
    /// Records that are neither reads nor writes, of other kinds than those below; left out.
    pub other: u64,
    /// Requests of no bytes; left out.
    pub empty: u64,
    /// Requests that did not begin and end on 512-byte sectors; widened to the sectors that enclose them.
    pub widened: u64,
    /// Flushes of the drive's cache, alone or before a write, in a block trace; left out unless
    /// [`Options::cache_ops`] keeps them.
    pub flushes: u64,
    /// Discards in a block trace; left out unless [`Options::cache_ops`] keeps them.
    pub discards: u64,
    /// Writes with forced unit access in a block trace; plain writes unless [`Options::cache_ops`] keeps this.
    pub forced: u64,
}

impl Trace {
    /// Returns the devices and their numbers of requests, in the order of device numbers.
    pub fn devices(&self) -> BTreeMap<u32, usize> {
        let mut counts = BTreeMap::new();
        for record in &self.records {
            *counts.entry(record.device).or_default() += 1;
        }
        counts
    }

    /// Returns the device with the most requests; of several, the one with the smallest number.
    pub fn busiest_device(&self) -> Option<u32> {
        self.devices().into_iter().max_by_key(|&(device, n)| (n, std::cmp::Reverse(device))).map(|(d, _)| d)
    }

    /// Removes all requests except those to `device`.
    pub fn retain_device(&mut self, device: u32) {
        self.records.retain(|record| record.device == device);
    }

    /// Converts the 512-byte sectors of the records into sectors of `sector` bytes. A request that does not begin and
    /// end on these is widened to the sectors that enclose it, and counted.
    ///
    /// # Errors
    /// The sector is not a multiple of 512 bytes.
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

/// The event of a block trace that counts as the arrival of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Event {
    /// The request enters the block layer: before the kernel's scheduler.
    #[default]
    Queue,
    /// The request is sent to the driver: after the kernel's scheduler, in its order and with its merges.
    Dispatch,
}

impl Event {
    /// Returns the letter that blkparse prints.
    pub const fn letter(self) -> &'static str {
        match self {
            Self::Queue => "Q",
            Self::Dispatch => "D",
        }
    }

    /// Returns the number of the event in a binary trace.
    const fn number(self) -> u32 {
        match self {
            Self::Queue => 1,
            Self::Dispatch => 7,
        }
    }
}

/// A unit of time in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeUnit {
    /// `s`
    Seconds,
    /// `ms`
    Milliseconds,
    /// `us`
    Microseconds,
    /// `100ns`, the unit of Windows' file times
    HundredNanoseconds,
    /// `ns`
    Nanoseconds,
}

impl TimeUnit {
    /// All units and their names.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::Seconds, "s"),
        (Self::Milliseconds, "ms"),
        (Self::Microseconds, "us"),
        (Self::HundredNanoseconds, "100ns"),
        (Self::Nanoseconds, "ns"),
    ];

    /// Returns the nanoseconds in the unit.
    pub const fn nanoseconds(self) -> u64 {
        match self {
            Self::Seconds => 1_000_000_000,
            Self::Milliseconds => 1_000_000,
            Self::Microseconds => 1_000,
            Self::HundredNanoseconds => 100,
            Self::Nanoseconds => 1,
        }
    }
}

impl FromStr for TimeUnit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, name)| *name == text);
        found.map(|(unit, _)| *unit).ok_or_else(|| {
            format!("the unit of time {} is none of s, ms, us, 100ns and ns", text::shown(text))
        })
    }
}

/// The formats that a [`Reader`] supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TraceFormat {
    /// DiskSim's "validate": `R|W action LBN blocks service_us think_us`.
    Validate,
    /// DiskSim's "ascii": `arrival_ms device LBN blocks flags`.
    Ascii,
    /// The format of MQSim and SSDSim: `arrival_ns device LBN blocks flags`.
    MqSim,
    /// Hewlett-Packard's SRT: an ASCII header, then big-endian words.
    HpSrt,
    /// The format of the Storage Performance Council: `ASU,LBA,bytes,opcode,seconds`.
    Spc,
    /// The format of Microsoft Research Cambridge: `timestamp,host,disk,type,offset,bytes,response`.
    Msr,
    /// The format of a virtual desktop installation: `timestamp,response,type,LUN,offset,bytes`.
    Systor17,
    /// The format of Alibaba Cloud: `device,opcode,offset,bytes,timestamp`.
    Alibaba,
    /// The format of Tencent Cloud: `timestamp,LBN,sectors,type,volume`.
    Tencent,
    /// CloudPhysics' format as CSV: `ts,op,lbn,len`.
    CloudPhysics,
    /// VMware's vscsi, versions 1 and 2: the format of CloudPhysics' traces.
    Vscsi,
    /// libCacheSim's oracleGeneral.
    OracleGeneral,
    /// The format of Florida International University: `ns pid process LBN sectors R|W major minor hash`.
    Fiu,
    /// The output of biosnoop.
    Biosnoop,
    /// The text of blkparse.
    Blkparse,
    /// The kernel's binary block trace.
    Blktrace,
    /// fio's I/O log, versions 2 and 3.
    Fio,
    /// Lines of columns that the user names; never detected.
    Csv,
}

impl TraceFormat {
    /// All formats.
    pub const ALL: [Self; 18] = [
        Self::HpSrt,
        Self::Fio,
        Self::Validate,
        Self::Ascii,
        Self::MqSim,
        Self::Msr,
        Self::Spc,
        Self::Systor17,
        Self::Alibaba,
        Self::Tencent,
        Self::CloudPhysics,
        Self::Vscsi,
        Self::OracleGeneral,
        Self::Fiu,
        Self::Biosnoop,
        Self::Blkparse,
        Self::Blktrace,
        Self::Csv,
    ];

    /// Returns the name of the format on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Validate => "disksim-validate",
            Self::Ascii => "disksim",
            Self::MqSim => "mqsim",
            Self::HpSrt => "hp-srt",
            Self::Spc => "spc",
            Self::Msr => "msr",
            Self::Systor17 => "systor17",
            Self::Alibaba => "alibaba",
            Self::Tencent => "tencent",
            Self::CloudPhysics => "cloudphysics",
            Self::Vscsi => "vscsi",
            Self::OracleGeneral => "oracle-general",
            Self::Fiu => "fiu",
            Self::Biosnoop => "biosnoop",
            Self::Blkparse => "blkparse",
            Self::Blktrace => "blktrace",
            Self::Fio => "fio",
            Self::Csv => "csv",
        }
    }

    /// Returns a short description of the format.
    pub const fn shape(self) -> &'static str {
        match self {
            Self::Validate => "lines of `R|W action LBN blocks service_us think_us`",
            Self::Ascii => "lines of `arrival_ms device LBN blocks flags`",
            Self::MqSim => "lines of `arrival_ns device LBN blocks flags`",
            Self::HpSrt => {
                "a header that begins with `$$TR_IOREC` and ends with a form feed, then binary records"
            }
            Self::Spc => "lines of `ASU,LBA,bytes,R|W,seconds`",
            Self::Msr => "lines of `timestamp,host,disk,Read|Write,offset,bytes,response`",
            Self::Systor17 => "lines of `timestamp,response,R|W,LUN,offset,bytes`",
            Self::Alibaba => "lines of `device,R|W,offset,bytes,timestamp_us`",
            Self::Tencent => "lines of `timestamp_s,LBN,sectors,0|1,volume`",
            Self::CloudPhysics => "a heading `ts,op,lbn,len`, then its lines",
            Self::Vscsi => "binary records of 32 or 40 bytes",
            Self::OracleGeneral => "binary records of 24 bytes",
            Self::Fiu => "lines of `time_ns pid process LBN sectors R|W major minor hash`",
            Self::Biosnoop => "lines of `TIME COMM PID DISK T SECTOR BYTES LAT`",
            Self::Blkparse => {
                "lines of `major,minor cpu sequence time pid event rwbs LBN + sectors [process]`"
            }
            Self::Blktrace => "binary events that begin with 0x65617407",
            Self::Fio => "a first line `fio version 2 iolog`, or 3",
            Self::Csv => "lines of the columns that were named",
        }
    }
}

impl FromStr for TraceFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("{} is no format of traces; the formats are {names}", text::shown(text))
        })
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Validate => "DiskSim validate",
            Self::Ascii => "DiskSim ascii",
            Self::MqSim => "MQSim",
            Self::HpSrt => "HP SRT",
            Self::Spc => "SPC",
            Self::Msr => "MSR Cambridge CSV",
            Self::Systor17 => "SYSTOR'17",
            Self::Alibaba => "Alibaba",
            Self::Tencent => "Tencent",
            Self::CloudPhysics => "CloudPhysics CSV",
            Self::Vscsi => "vscsi",
            Self::OracleGeneral => "oracleGeneral",
            Self::Fiu => "FIU",
            Self::Biosnoop => "biosnoop",
            Self::Blkparse => "blkparse",
            Self::Blktrace => "blktrace",
            Self::Fio => "fio iolog",
            Self::Csv => "CSV",
        })
    }
}

/// The reason for which a trace cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The trace has no request.
    #[error("the trace has no requests; expected {expected}")]
    Empty {
        /// A description of the format.
        expected: &'static str,
    },
    /// A place in a text does not follow the format.
    #[error("line {line}, column {column}: found {found}, expected {expected}")]
    Text {
        /// The line, counted from 1.
        line: usize,
        /// The byte in the line, counted from 1.
        column: usize,
        /// The text at that place.
        found: String,
        /// The expected text.
        expected: &'static str,
    },
    /// A place in a binary file does not follow the format.
    #[error("byte {offset}: found {found}, expected {expected}")]
    Binary {
        /// The byte in the file, counted from 0.
        offset: usize,
        /// The value at that byte.
        found: String,
        /// The expected value.
        expected: &'static str,
    },
    /// The format is unknown.
    #[error("not a trace in a known format: it begins with {found}; tried {tried}")]
    UnknownFormat {
        /// The beginning of the file.
        found: String,
        /// The formats that were tried, each with its shape.
        tried: String,
    },
    /// The source of the bytes failed.
    #[error("byte {offset}: cannot read on: {found}")]
    Read {
        /// The byte in the unpacked trace, counted from 0.
        offset: u64,
        /// The error of the source.
        found: String,
    },
    /// The trace has so large a number of devices that a column was probably taken for the device by mistake.
    #[error("the trace has more than {most} devices; is a column taken for another?")]
    TooManyDevices {
        /// The most devices.
        most: usize,
    },
    /// [`TraceFormat::Csv`] was given no columns.
    #[error("the format csv needs its columns, such as csv:time=5,unit=us,op=2,offset=3,size=4,device=1")]
    NoColumns,
    /// A column is not in the heading.
    #[error("there is no column {name:?}; the first line is {found}")]
    NoColumn {
        /// The name that was given.
        name: String,
        /// The first line of the file.
        found: String,
    },
    /// The file is compressed.
    #[error("the trace is compressed with {with}; unpack it first")]
    Compressed {
        /// The program that compressed the file.
        with: &'static str,
    },
}

/// Reads a trace in any format.
///
/// # Errors
/// The format is unknown; a place does not follow the format; the trace has no requests.
pub fn read(bytes: &[u8]) -> Result<Trace, TraceError> {
    read_with(&Options::default(), bytes)
}

/// Reads a trace in a given format.
///
/// # Errors
/// A place does not follow the format; the trace has no requests.
pub fn read_as(format: TraceFormat, bytes: &[u8]) -> Result<Trace, TraceError> {
    read_with(&Options { format: Some(format), ..Options::default() }, bytes)
}

/// Reads a trace by these options, all of it into memory.
///
/// # Errors
/// A place does not follow the format; the source failed; the trace has no requests.
pub fn read_with(options: &Options, source: impl Read) -> Result<Trace, TraceError> {
    let mut reader = Reader::new(options, source)?;
    let mut records = reader.by_ref().collect::<Result<Vec<_>, _>>()?;
    if records.iter().any(|record| record.arrival.is_some()) {
        // Requests without an arrival are those before the first wait of an fio log.
        records.iter_mut().for_each(|record| record.arrival = record.arrival.or(Some(Instant::ZERO)));
    }
    let format = reader.format();
    if records.is_empty() {
        return Err(TraceError::Empty { expected: format.shape() });
    }
    Ok(Trace { format, records, notes: reader.notes() })
}

/// Returns the sectors that enclose `bytes` bytes from byte `offset` on, and whether they are more than these bytes;
/// `None` if they end past the largest number. `bytes` is not 0.
fn enclosing(offset: u64, bytes: u64) -> Option<(LbnRange, bool)> {
    let end = offset.checked_add(bytes)?;
    let first = offset / SECTOR_BYTES;
    let sectors = end.div_ceil(SECTOR_BYTES) - first;
    let widened = !offset.is_multiple_of(SECTOR_BYTES) || !end.is_multiple_of(SECTOR_BYTES);
    Some((LbnRange::new(Lbn::new(first), Sectors::new(sectors)), widened))
}
