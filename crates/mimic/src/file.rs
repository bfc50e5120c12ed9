//! The form in which a table is kept in a file.
//!
//! All numbers little-endian. `FBMIMIC\n`, version (u32), length of all that follows but the checksum (u64); then the
//! body; then its CRC-32 with everything before it (u32). The body: the drive's name (length u16, UTF-8), its sectors
//! (u64), bytes a sector (u32), the unit (u64 sectors), samples a distance (u32), requests that probing took (u64) and
//! their time (u64 ns); the metric (u8), the seed (u64), which curve answers for each pair (4 x u8), the number of curves
//! (u8); and for each curve its pair (u8), how many distances (u64), the first distance (i64), for each distance the way
//! from the one before, doubled, plus one if it is joined to the next (LEB128), and for each distance its times (u32 ns;
//! 17 with the probabilistic metric, 1 otherwise).

use crate::distance::Pair;
use crate::search::FURTHEST;
use crate::summary::{Metric, PARTS};
use crate::table::{Curve, NO_CURVE, Table};
use thiserror::Error;
use units::{Bytes, Duration, Sectors};

const MAGIC: [u8; 8] = *b"FBMIMIC\n";

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// Magic, version and length.
const HEAD: usize = 20;

/// Magic, version, length and checksum.
const FRAME: usize = HEAD + 4;

/// The longest name of a drive, in bytes.
pub const LONGEST_NAME: usize = 255;

/// A table with what it was made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Saved {
    /// The drive's name; cut at [`LONGEST_NAME`] bytes when it is written.
    pub drive: String,
    /// The drive's sectors.
    pub capacity: Sectors,
    /// Bytes a sector.
    pub sector: Bytes,
    /// The grain of distances.
    pub unit: Sectors,
    /// Samples of each distance.
    pub samples: u32,
    /// Requests that probing took.
    pub accesses: u64,
    /// The time that they took.
    pub time: Duration,
    /// The table.
    pub table: Table,
}

/// Why bytes are no table. None of it is used then.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FileError {
    /// Something else.
    #[error(
        "this is no table of the Disk Mimic: it does not begin with \"FBMIMIC\"; name a file that `mimic probe` wrote"
    )]
    NotATable,
    /// A later or a wrong version.
    #[error("the table is of version {found}, this program reads version {VERSION}; probe the drive again")]
    Version {
        /// The version found.
        found: u32,
    },
    /// Cut off, or with more after it.
    #[error("the table is damaged: {found} bytes where there should be {expected}; probe the drive again")]
    Length {
        /// Bytes found.
        found: u64,
        /// Bytes promised.
        expected: u64,
    },
    /// Changed.
    #[error("the table is damaged: its checksum is {found:08x}, not {expected:08x}; probe the drive again")]
    Checksum {
        /// Of the bytes.
        found: u32,
        /// As written.
        expected: u32,
    },
    /// Whole, but what it says cannot be.
    #[error("the table says at byte {at} what no table can: {what}; probe the drive again")]
    Content {
        /// Where.
        at: usize,
        /// What.
        what: &'static str,
    },
}

impl Saved {
    /// The bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.table.len() * 8);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&0u64.to_le_bytes());
        let mut cut = self.drive.len().min(LONGEST_NAME);
        while !self.drive.is_char_boundary(cut) {
            cut -= 1;
        }
        out.extend_from_slice(&(cut as u16).to_le_bytes());
        out.extend_from_slice(&self.drive.as_bytes()[..cut]);
        out.extend_from_slice(&self.capacity.get().to_le_bytes());
        out.extend_from_slice(&(self.sector.get() as u32).to_le_bytes());
        out.extend_from_slice(&self.unit.get().to_le_bytes());
        out.extend_from_slice(&self.samples.to_le_bytes());
        out.extend_from_slice(&self.accesses.to_le_bytes());
        out.extend_from_slice(&self.time.as_nanos().to_le_bytes());
        out.push(self.table.metric().code());
        out.extend_from_slice(&self.table.seed().to_le_bytes());
        out.extend_from_slice(&self.table.answers());
        out.push(self.table.curves().len() as u8);
        self.table.curves().iter().for_each(|curve| put_curve(curve, &mut out));
        let body = (out.len() - HEAD) as u64;
        if let Some(length) = out.get_mut(HEAD - 8..HEAD) {
            length.copy_from_slice(&body.to_le_bytes());
        }
        let sum = crc32fast::hash(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// From the bytes of a file.
    ///
    /// # Errors
    /// Anything that [`to_bytes`](Self::to_bytes) has not written, or that has changed since.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FileError> {
        if !bytes.starts_with(&MAGIC) {
            return Err(FileError::NotATable);
        }
        let found = bytes.len() as u64;
        let mut read = Reader { bytes, at: MAGIC.len() };
        let version = read.u32().map_err(|_| FileError::Length { found, expected: FRAME as u64 })?;
        if version != VERSION {
            return Err(FileError::Version { found: version });
        }
        let body = read.u64().map_err(|_| FileError::Length { found, expected: FRAME as u64 })?;
        let expected = body.saturating_add(FRAME as u64);
        if expected != found {
            return Err(FileError::Length { found, expected });
        }
        let (rest, sum) = bytes.split_at(bytes.len() - 4);
        let expected = sum.try_into().map(u32::from_le_bytes).unwrap_or_default();
        let found = crc32fast::hash(rest);
        if found != expected {
            return Err(FileError::Checksum { found, expected });
        }
        read.bytes = rest;
        let saved = read.saved()?;
        if read.at != rest.len() {
            return Err(read.wrong("something after its end"));
        }
        Ok(saved)
    }
}

fn put_curve(curve: &Curve, out: &mut Vec<u8>) {
    out.push(curve.pair().index() as u8);
    out.extend_from_slice(&(curve.len() as u64).to_le_bytes());
    let mut before = curve.key(0).0;
    out.extend_from_slice(&before.to_le_bytes());
    for i in 0..curve.len() {
        let (distance, joined) = curve.key(i);
        let mut way = u128::from(distance.abs_diff(before)) << 1 | u128::from(joined);
        before = distance;
        while way >= 1 << 7 {
            out.push(way as u8 | 1 << 7);
            way >>= 7;
        }
        out.push(way as u8);
    }
    curve.stored_times().iter().for_each(|ns| out.extend_from_slice(&ns.to_le_bytes()));
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn wrong(&self, what: &'static str) -> FileError {
        FileError::Content { at: self.at, what }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], FileError> {
        let end = self.at.checked_add(N).filter(|end| *end <= self.bytes.len());
        let found = end.and_then(|end| self.bytes[self.at..end].try_into().ok());
        let found = found.ok_or_else(|| self.wrong("nothing, where more must follow"))?;
        self.at += N;
        Ok(found)
    }

    fn u8(&mut self) -> Result<u8, FileError> {
        self.take::<1>().map(|[b]| b)
    }

    fn u32(&mut self) -> Result<u32, FileError> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, FileError> {
        self.take().map(u64::from_le_bytes)
    }

    fn saved(&mut self) -> Result<Saved, FileError> {
        let len = usize::from(self.take().map(u16::from_le_bytes)?);
        let name = self.bytes.get(self.at..self.at + len).filter(|_| len <= LONGEST_NAME);
        let drive = name
            .and_then(|name| std::str::from_utf8(name).ok())
            .ok_or_else(|| self.wrong("a drive's name that is no text"))?
            .to_owned();
        self.at += len;
        let capacity = self.u64()?;
        let (sector, unit, samples) = (self.u32()?, self.u64()?, self.u32()?);
        if capacity == 0 || capacity > 1 << 61 || unit == 0 || unit > capacity || sector == 0 {
            return Err(self.wrong("a drive without sectors"));
        }
        let (accesses, time) = (self.u64()?, self.u64()?);
        let metric = Metric::from_code(self.u8()?).ok_or_else(|| self.wrong("an unknown summary"))?;
        let seed = self.u64()?;
        let answers: [u8; 4] = self.take()?;
        let count = self.u8()?;
        if count > 4 || answers.iter().any(|curve| *curve >= count && *curve != NO_CURVE) {
            return Err(self.wrong("curves for pairs that there are not"));
        }
        let mut curves: Vec<Curve> = Vec::new();
        for _ in 0..count {
            let curve = self.curve(metric)?;
            if curves.last().is_some_and(|before| before.pair() >= curve.pair()) {
                return Err(self.wrong("two curves for a pair"));
            }
            curves.push(curve);
        }
        Ok(Saved {
            drive,
            capacity: Sectors::new(capacity),
            sector: Bytes::new(u64::from(sector)),
            unit: Sectors::new(unit),
            samples,
            accesses,
            time: Duration::from_nanos(time),
            table: Table::from_parts(metric, seed, curves, answers),
        })
    }

    fn curve(&mut self, metric: Metric) -> Result<Curve, FileError> {
        let pair = usize::from(self.u8()?);
        let pair = Pair::ALL.get(pair).copied().ok_or_else(|| self.wrong("a pair of no request types"))?;
        let each = if metric == Metric::Probabilistic { PARTS + 1 } else { 1 };
        let len = self.u64()?;
        // At least one byte for the way and four for each time: no more is believed than there is.
        let most = (self.bytes.len() - self.at) / (1 + 4 * each);
        let len = usize::try_from(len).ok().filter(|len| (1..=most).contains(len));
        let len = len.ok_or_else(|| self.wrong("more distances than there are bytes, or none"))?;
        let mut distance = self.take().map(i64::from_le_bytes)?;
        let mut keys = Vec::with_capacity(len);
        for i in 0..len {
            let way = self.way()?;
            let (way, joined) = (way >> 1, way & 1 == 1);
            let next = i64::try_from(way).ok().and_then(|way| distance.checked_add(way));
            let ascends = (i == 0) == (way == 0);
            distance = next
                .filter(|d| ascends && d.unsigned_abs() <= FURTHEST.unsigned_abs())
                .ok_or_else(|| self.wrong("distances that do not ascend, or leave every drive"))?;
            keys.push((distance, joined));
        }
        let mut times = Vec::with_capacity(len * each);
        for _ in 0..len * each {
            times.push(self.u32()?);
        }
        Ok(Curve::new(pair, keys, times))
    }

    /// A number in groups of seven bits.
    fn way(&mut self) -> Result<u128, FileError> {
        let mut way = 0u128;
        for shift in (0..70).step_by(7) {
            let byte = self.u8()?;
            way |= u128::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(way);
            }
        }
        Err(self.wrong("a number without an end"))
    }
}
