//! The file format of tables.
//!
//! The frame of `frame.rs` with `FBMIMIC\n` holds the drive's name (length u16, UTF-8), its sectors (u64), bytes a
//! sector (u32), the unit (u64 sectors), samples a distance (u32), the requests that probing took (u64) and their
//! time (u64 ns); and the table. The table has the metric (u8), the seed (u64), the index of the curve for each pair
//! (4 x u8) and the number of curves (u8). Each curve has its pair (u8), the number of distances (u64) and the first
//! distance (i64). Then follow, for each distance, its difference from the previous one, doubled, plus one if times
//! up to the next distance are interpolated (LEB128); and for each distance its times (u32 ns; 17 with the
//! probabilistic metric, 1 otherwise).

use crate::distance::Pair;
use crate::frame::{Broken, File, Reader, Writer};
use crate::search::{CurvePoint, DISTANCE_SECTORS_MAX, Knots, Place};
use crate::summary::{Metric, PARTS};
use crate::table::{Curve, NO_CURVE, Table};
use std::io::{Cursor, ErrorKind, Read, Seek};
use thiserror::Error;
use units::{Bytes, Duration, Sectors};

const MAGIC: [u8; 8] = *b"FBMIMIC\n";

/// The version of written files, and the only one that is read.
const VERSION: u32 = 1;

/// A table with the circumstances of its measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// The drive's name; cut at [`NAME_BYTES_MAX`](crate::NAME_BYTES_MAX) bytes when it is written.
    pub drive: String,
    /// The number of sectors of the drive.
    pub capacity: Sectors,
    /// The number of bytes in a sector.
    pub sector: Bytes,
    /// The grain of distances: probed distances are 1 + k x unit sectors.
    pub unit: Sectors,
    /// The number of samples of each distance.
    pub samples: u32,
    /// The number of requests that probing took.
    pub accesses: u64,
    /// The time that the requests of probing took.
    pub time: Duration,
    /// The table.
    pub table: Table,
}

/// The reason why the bytes of a file were refused; none of them is used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FileError {
    /// The bytes are not those of a table.
    #[error(
        "the file is no table of the Disk Mimic: the file does not begin with \"FBMIMIC\"; name a file that `mimic probe` wrote"
    )]
    NotATable,
    /// The file has a later or an invalid version.
    #[error("the table is of version {found}, this program reads version {VERSION}; probe the drive again")]
    Version {
        /// The version found.
        found: u32,
    },
    /// The bytes are cut off, or followed by more.
    #[error("the table is damaged: {found} bytes where there should be {expected}; probe the drive again")]
    Length {
        /// The number of bytes found.
        found: u64,
        /// The number of bytes that the file promises.
        expected: u64,
    },
    /// The bytes have changed.
    #[error("the table is damaged: its checksum is {found:08x}, not {expected:08x}; probe the drive again")]
    Checksum {
        /// The checksum of the bytes.
        found: u32,
        /// The checksum in the file.
        expected: u32,
    },
    /// The file cannot be read.
    #[error("the table cannot be read: {kind}; see that its file can be, or probe the drive again")]
    Unreadable {
        /// The system's error.
        kind: ErrorKind,
    },
    /// The bytes are whole, but their content is impossible.
    #[error("the table is impossible at byte {at}: {what}; probe the drive again")]
    Content {
        /// The offset of the impossible content, in bytes.
        at: u64,
        /// The reason why the content is impossible.
        what: &'static str,
    },
}

impl From<Broken> for FileError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Letters => Self::NotATable,
            Broken::Version(found) => Self::Version { found },
            Broken::Length { found, expected } => Self::Length { found, expected },
            Broken::Checksum { found, expected } => Self::Checksum { found, expected },
            Broken::Content { at, what } => Self::Content { at, what },
            Broken::Unreadable(kind) => Self::Unreadable { kind },
            Broken::NoRoom { .. } => Self::Unreadable { kind: ErrorKind::OutOfMemory },
        }
    }
}

impl Saved {
    /// Returns the bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Writer::new(MAGIC, VERSION, 512 + table_size(&self.table));
        out.name(&self.drive);
        out.u64(self.capacity.get());
        out.u32(self.sector.get() as u32);
        out.u64(self.unit.get());
        out.u32(self.samples);
        out.u64(self.accesses);
        out.u64(self.time.as_nanos());
        put_table(&self.table, &mut out);
        out.sealed()
    }

    /// Reads a table from the bytes of a file.
    ///
    /// # Errors
    /// The bytes were not written by [`to_bytes`](Self::to_bytes), or have changed since.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FileError> {
        Self::read(&mut Cursor::new(bytes))
    }

    /// Reads a table from a file, with no more than some kilobytes of it in memory beside the table.
    ///
    /// # Errors
    /// Those of [`from_bytes`](Self::from_bytes), and errors of reading the file.
    pub fn read(source: &mut (impl Read + Seek)) -> Result<Self, FileError> {
        let file = File::new(source);
        let mut read = Reader::open(&file, MAGIC, VERSION)?;
        let drive = read.name()?;
        let capacity = read.u64()?;
        let (sector, unit, samples) = (read.u32()?, read.u64()?, read.u32()?);
        if capacity == 0
            || capacity > DISTANCE_SECTORS_MAX.unsigned_abs()
            || unit == 0
            || unit > capacity
            || sector == 0
        {
            return Err(read.wrong("a drive without sectors").into());
        }
        let (accesses, time) = (read.u64()?, read.u64()?);
        let table = table(&mut read, u64::MAX)?;
        read.end()?;
        Ok(Self {
            drive,
            capacity: Sectors::new(capacity),
            sector: Bytes::new(u64::from(sector)),
            unit: Sectors::new(unit),
            samples,
            accesses,
            time: Duration::from_nanos(time),
            table,
        })
    }
}

/// Returns a bound on the bytes of [`put_table`]: seven for each difference of distances, as none exceeds 2^47.
pub(crate) fn table_size(table: &Table) -> usize {
    let each = if table.metric() == Metric::Probabilistic { PARTS + 1 } else { 1 };
    64 + 4 * 32 + table.len() * (7 + 4 * each)
}

/// Writes a table without the frame.
pub(crate) fn put_table(table: &Table, out: &mut Writer) {
    let mut putting = PutTable::begin(table, out);
    while !putting.go_on(table, usize::MAX, out) {}
}

/// A table that is written a part at a time.
#[derive(Debug)]
pub(crate) struct PutTable {
    curve: usize,
    next: Next,
}

/// The next part of a curve.
#[derive(Clone, Copy, Debug)]
enum Next {
    Head,
    /// The differences of distances, from this place of the curve on, with the distance before it; `None` for all.
    Ways(Option<(Place, i64)>),
    /// The times, from this place of the curve on; `None` for all.
    Times(Option<Place>),
}

impl PutTable {
    /// Writes the fields before the curves.
    pub fn begin(table: &Table, out: &mut Writer) -> Self {
        out.u8(table.metric().code());
        out.u64(table.seed());
        out.bytes(&table.answers());
        out.u8(table.curves().len() as u8);
        Self { curve: 0, next: Next::Head }
    }

    /// Writes at most `most` distances or times; returns whether the table is complete. Each call needs the same
    /// table.
    pub fn go_on(&mut self, table: &Table, most: usize, out: &mut Writer) -> bool {
        let Some(curve) = table.curves().get(self.curve) else { return true };
        self.next = match self.next {
            Next::Head => {
                out.u8(curve.pair().index() as u8);
                out.u64(curve.len() as u64);
                Next::Ways(None)
            }
            Next::Ways(from) => {
                let mut before = from.map(|(_, before)| before);
                let mut keys = curve.keys(from.map(|(place, _)| place));
                for (_, distance, joined) in keys.by_ref().take(most) {
                    if before.is_none() {
                        out.i64(distance);
                    }
                    out.way(distance.abs_diff(before.unwrap_or(distance)), joined);
                    before = Some(distance);
                }
                match (keys.next(), before) {
                    (Some((place, ..)), Some(before)) => Next::Ways(Some((place, before))),
                    _ => Next::Times(None),
                }
            }
            Next::Times(from) => {
                let mut places = curve.places(from);
                for place in places.by_ref().take(most) {
                    curve.times(place).for_each(|ns| out.u32(ns));
                }
                match places.next() {
                    Some(place) => Next::Times(Some(place)),
                    None => {
                        self.curve += 1;
                        Next::Head
                    }
                }
            }
        };
        self.curve >= table.curves().len()
    }
}

/// Reads a table that [`put_table`] wrote; refuses one that surely takes more than `most` bytes of memory.
pub(crate) fn table(read: &mut Reader<'_>, most: u64) -> Result<Table, Broken> {
    let metric = Metric::from_code(read.u8()?).ok_or_else(|| read.wrong("an unknown summary"))?;
    let seed = read.u64()?;
    let answers: [u8; 4] = read.take()?;
    let count = read.u8()?;
    if count > 4 || answers.iter().any(|curve| *curve >= count && *curve != NO_CURVE) {
        return Err(read.wrong("more curves than pairs, or an answer by a curve that does not exist"));
    }
    let mut curves: Vec<Curve> = Vec::new();
    for _ in 0..count {
        let curve = curve(read, metric, most)?;
        if curves.last().is_some_and(|before| before.pair() >= curve.pair()) {
            return Err(read.wrong("two curves for a pair"));
        }
        curves.push(curve);
    }
    Ok(Table::from_parts(metric, seed, curves, answers))
}

fn curve(read: &mut Reader<'_>, metric: Metric, most: u64) -> Result<Curve, Broken> {
    let pair = usize::from(read.u8()?);
    let pair = Pair::ALL.get(pair).copied().ok_or_else(|| read.wrong("a pair of no request types"))?;
    let each = if metric == Metric::Probabilistic { PARTS + 1 } else { 1 };
    // Each distance takes at least one byte for the difference and four for each time.
    let len = read.count(1, 1 + 4 * each, "more distances than there are bytes, or none")?;
    let least = Knots::least_memory(len as u64);
    if least > most {
        return Err(Broken::NoRoom { least });
    }
    let distance = read.i64()?;
    let ways = Ways { read: read.clone(), distance, first: true };
    let mut before = distance;
    for i in 0..len {
        (before, _) = read.after(before, i == 0, DISTANCE_SECTORS_MAX)?;
    }
    // All distances are now known to be valid; a second pass reads them again, so that they are not in memory twice.
    let own = Times { read: read.pass(len as u64 * each as u64 * 4)?, each };
    let points = ways.take(len).zip(own.clone());
    let knots = points.map(|((distance, joined), times)| CurvePoint { distance, joined, time: times[0] });
    let parts = own.filter(|_| each > 1);
    let curve = Curve::new(pair, knots, parts);
    // The second pass finds fewer points if the file has failed or changed since.
    if curve.len() == len { Ok(curve) } else { Err(Broken::Unreadable(ErrorKind::UnexpectedEof)) }
}

/// Iterates over the times of consecutive distances: one time for each, or the quantiles.
#[derive(Clone)]
struct Times<'a> {
    read: Reader<'a>,
    each: usize,
}

impl Iterator for Times<'_> {
    type Item = [u32; PARTS + 1];

    fn next(&mut self) -> Option<Self::Item> {
        let mut times = [0; PARTS + 1];
        for time in times.iter_mut().take(self.each) {
            *time = self.read.u32().ok()?;
        }
        Some(times)
    }
}

/// Iterates over valid distances, each with whether times up to the next distance are interpolated.
#[derive(Clone)]
struct Ways<'a> {
    read: Reader<'a>,
    distance: i64,
    first: bool,
}

impl Iterator for Ways<'_> {
    type Item = (i64, bool);

    fn next(&mut self) -> Option<(i64, bool)> {
        let (distance, joined) = self.read.after(self.distance, self.first, DISTANCE_SECTORS_MAX).ok()?;
        (self.distance, self.first) = (distance, false);
        Some((distance, joined))
    }
}
