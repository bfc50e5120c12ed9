//! The file format of learnt times.
//!
//! The frame of `frame.rs` with `FBLEARN\n` holds the drive's name (length u16, UTF-8), its sectors (u64), the unit
//! (u64), the number of cells of a pair (u64), the samples that make a distance known (u8), and the rule of
//! interpolation (its text, length u16). Then follow the number of times observed (u64), that of times ignored after a
//! pause (u64), the number of detected changes (u32), the state of the detection ([`Change`]), whether there is a table
//! (u8), and the table. For each of the four pairs the cells with samples follow in groups of at most 512: the number
//! of cells in the group (u16), and for each its distance, its samples (u8) and its mean (u32 ns). The first distance
//! of a pair is written before it (i64); each distance is the difference from the previous one, doubled, plus one if
//! times up to the next known cell are interpolated (LEB128). A group of 0 cells ends a pair. In this format a file can
//! be written a part at a time.

use super::cell::Cell;
use super::change::Change;
use super::{Learner, LearnerConfig, LearnerError, PAGE_CELLS, Side};
use crate::file::{self, PutTable};
use crate::frame::{Broken, File, HEAD_BYTES, Reader, Writer, cut};
use crate::search::DISTANCE_SECTORS_MAX;
use std::io::{Cursor, ErrorKind, Read, Seek};
use thiserror::Error;
use units::{Bytes, Sectors};

const MAGIC: [u8; 8] = *b"FBLEARN\n";

/// The version of written files, and the only one that is read.
const VERSION: u32 = 2;

/// The reason why the bytes of a file were refused. The only loss is that a learner must begin anew.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LearntError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] LearnerError),
    /// The bytes are not those of a learner.
    #[error(
        "the file holds no learner's state: the file does not begin with \"FBLEARN\"; begin anew without it"
    )]
    NotLearnt,
    /// The file has a later or an invalid version.
    #[error(
        "the learner's saved state has version {found}, this program reads version {VERSION}; begin anew without it"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// The bytes are cut off, or followed by more.
    #[error(
        "the learner's saved state is damaged: {found} bytes where there should be {expected}; begin anew without it"
    )]
    Length {
        /// The number of bytes found.
        found: u64,
        /// The number of bytes that the file promises.
        expected: u64,
    },
    /// The bytes have changed.
    #[error(
        "the learner's saved state is damaged: its checksum is {found:08x}, not {expected:08x}; begin anew without it"
    )]
    Checksum {
        /// The checksum of the bytes.
        found: u32,
        /// The checksum in the file.
        expected: u32,
    },
    /// The file cannot be read.
    #[error(
        "the learner's saved state cannot be read: {kind}; make its file readable, or begin anew without it"
    )]
    Unreadable {
        /// The system's error.
        kind: ErrorKind,
    },
    /// The bytes are whole, but their content is impossible.
    #[error("the learner's saved state is impossible at byte {at}: {what}; begin anew without it")]
    Content {
        /// The offset of the impossible content, in bytes.
        at: u64,
        /// The reason why the content is impossible.
        what: &'static str,
    },
    /// The times are those of another drive.
    #[error(
        "the knowledge is of {found:?} with {found_sectors} sectors, the drive is {drive:?} with {sectors}; begin anew without it"
    )]
    OtherDrive {
        /// The drive from which the times are.
        found: String,
        /// The number of sectors of the drive from which the times are.
        found_sectors: Sectors,
        /// The drive for which the times were to be used.
        drive: String,
        /// The number of sectors of the drive for which the times were to be used.
        sectors: Sectors,
    },
}

impl From<Broken> for LearntError {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Letters => Self::NotLearnt,
            Broken::Version(found) => Self::Version { found },
            Broken::Length { found, expected } => Self::Length { found, expected },
            Broken::Checksum { found, expected } => Self::Checksum { found, expected },
            Broken::Content { at, what } => Self::Content { at, what },
            Broken::Unreadable(kind) => Self::Unreadable { kind },
            Broken::NoRoom { .. } => Self::Unreadable { kind: ErrorKind::OutOfMemory },
        }
    }
}

/// A save in progress ([`Learner::begin_saving`]).
#[derive(Debug)]
pub struct Saving {
    out: Writer,
    generation: u32,
    /// The part of the table that remains to be written.
    table: Option<PutTable>,
    /// The next pair of request types to write, and the next page of its cells.
    pair: usize,
    page: usize,
    /// The distance of the last cell written of this pair.
    before: Option<i64>,
}

/// The next part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SavedPart {
    /// Bytes to append to the file; more follow.
    Part(Vec<u8>),
    /// The last bytes of the file, and its beginning, which is known only now and replaces the first bytes returned.
    Last {
        /// The last bytes of the file.
        bytes: Vec<u8>,
        /// The first bytes of the file.
        beginning: [u8; HEAD_BYTES],
    },
    /// The learner has detected another drive and forgotten everything: the save must begin anew.
    Forgotten,
}

impl Saving {
    /// Encodes the next part of the file: at most `cells` distances or times of the table, or those of `cells` cells
    /// (rounded up to a page) that have samples. Each takes some nanoseconds, and about seven bytes. The learner must
    /// be the one with which the save began.
    pub fn go_on(&mut self, learner: &Learner, cells: usize) -> SavedPart {
        if self.generation != learner.generation {
            return SavedPart::Forgotten;
        }
        let putting = self.table.as_mut().zip(learner.table.as_ref());
        if let Some((putting, table)) = putting {
            if putting.go_on(table, cells.max(1), &mut self.out) {
                self.table = None;
            }
            return SavedPart::Part(self.out.take());
        }
        let pages = cells.div_ceil(PAGE_CELLS).max(1);
        for _ in 0..pages {
            let Some(side) = learner.pairs.get(self.pair) else {
                let nothing = Writer::new(MAGIC, VERSION, 0);
                let (bytes, beginning) = std::mem::replace(&mut self.out, nothing).end();
                return SavedPart::Last { bytes, beginning };
            };
            let held = || side.held_in(self.page, self.generation);
            let count = held().count();
            if count > 0 {
                self.out.u16(count as u16);
            }
            for (i, cell) in held() {
                let distance = learner.grid.distance(i);
                if self.before.is_none() {
                    self.out.i64(distance);
                }
                let way = distance.abs_diff(self.before.unwrap_or(distance));
                self.out.way(way, side.lines.is_straight(i));
                self.out.u8(cell.count());
                self.out.u32(cell.mean() as u32);
                self.before = Some(distance);
            }
            self.page += 1;
            if self.page >= side.pages.len() {
                self.out.u16(0);
                (self.pair, self.page, self.before) = (self.pair + 1, 0, None);
            }
        }
        SavedPart::Part(self.out.take())
    }
}

impl Learner {
    /// Returns everything that was learnt as the bytes of a file: a learner loaded from it predicts and learns as this
    /// one would. `drive` is the drive's name, preferably with its serial number; the first 255 bytes count.
    ///
    /// ```
    /// use mimic::{Distance, Learner, LearnerConfig, LearntError, Pair};
    /// use units::{Duration, Op, Sectors};
    /// let config = LearnerConfig::new(Sectors::new(1_000_000), Sectors::new(8));
    /// let (reads, time) = (Pair::new(Op::Read, Op::Read), Duration::from_micros(2_300));
    /// let mut learner = Learner::new(config, None)?;
    /// learner.learn(reads, Distance::new(801), time);
    /// let mut bytes = learner.save("a drive");
    /// assert_eq!(Learner::load(config, "a drive", &bytes)?.time_at(reads, Distance::new(801), 0), Some(time));
    /// bytes[30] ^= 1;
    /// let refused = Learner::load(config, "a drive", &bytes).unwrap_err();
    /// assert!(matches!(refused, LearntError::Checksum { .. }) && refused.to_string().ends_with("begin anew without it"));
    /// # Ok::<(), LearntError>(())
    /// ```
    pub fn save(&self, drive: &str) -> Vec<u8> {
        let (mut saving, mut all) = (self.begin_saving(drive), Vec::new());
        loop {
            match saving.go_on(self, usize::MAX) {
                SavedPart::Part(bytes) => all.extend(bytes),
                SavedPart::Last { bytes, beginning } => {
                    all.extend(bytes);
                    if let Some(first) = all.get_mut(..HEAD_BYTES) {
                        first.copy_from_slice(&beginning);
                    }
                    return all;
                }
                // The learner cannot forget during this call.
                SavedPart::Forgotten => (saving, all) = (self.begin_saving(drive), Vec::new()),
            }
        }
    }

    /// Begins to [`save`](Self::save) a part at a time, for callers that must not block for long, or have no memory for
    /// the whole file beside the learner. Times learnt while the save is in progress may or may not be included.
    ///
    /// ```
    /// # use mimic::{Distance, Learner, LearnerConfig, LearntError, Pair, SavedPart};
    /// # use units::{Duration, Op, Sectors};
    /// # let mut learner = Learner::new(LearnerConfig::new(Sectors::new(1_000_000), Sectors::new(8)), None)?;
    /// let mut saving = learner.begin_saving("a drive");
    /// // Usually a file.
    /// let mut file = Vec::new();
    /// loop {
    ///     match saving.go_on(&learner, 4_096) {
    ///         SavedPart::Part(bytes) => {
    ///             file.extend(bytes);
    ///             learner.learn(Pair::ALL[0], Distance::new(801), Duration::from_micros(2_300));
    ///         }
    ///         SavedPart::Last { bytes, beginning } => {
    ///             file.extend(bytes);
    ///             file[..beginning.len()].copy_from_slice(&beginning);
    ///             break;
    ///         }
    ///         SavedPart::Forgotten => {
    ///             file.clear();
    ///             saving = learner.begin_saving("a drive");
    ///         }
    ///     }
    /// }
    /// assert!(Learner::load(*learner.config(), "a drive", &file).is_ok());
    /// # Ok::<(), LearntError>(())
    /// ```
    pub fn begin_saving(&self, drive: &str) -> Saving {
        let mut out = Writer::new(MAGIC, VERSION, 4_096);
        out.name(drive);
        out.u64(self.config.capacity.get());
        out.u64(self.config.unit.get());
        out.u64(self.grid.cells() as u64);
        out.u8(self.config.minimum_samples);
        out.name(&self.config.check_points.to_string());
        out.u64(self.observed);
        out.u64(self.after_pause);
        out.u32(self.changes);
        self.change.put(&mut out);
        out.u8(u8::from(self.table.is_some()));
        let table = self.table.as_ref().map(|table| PutTable::begin(table, &mut out));
        Saving { out, table, generation: self.generation, pair: 0, page: 0, before: None }
    }

    /// Creates a learner from bytes of [`save`](Self::save). The configuration may have changed: with more or less
    /// memory, or another unit, times are put into the new cells of their distances. The random numbers for probes in
    /// idle time start again from the seed; known distances are not probed again.
    ///
    /// # Errors
    /// The configuration is invalid; or the bytes are damaged, of another version, or of another drive. In these cases
    /// create a [`new`](Self::new) learner.
    pub fn load(config: LearnerConfig, drive: &str, bytes: &[u8]) -> Result<Self, LearntError> {
        Self::read(config, drive, &mut Cursor::new(bytes))
    }

    /// Creates a learner from a file. Only some kilobytes of the file are in memory beside the configured memory.
    ///
    /// # Errors
    /// Those of [`load`](Self::load), and errors of reading the file.
    pub fn read(
        config: LearnerConfig,
        drive: &str,
        source: &mut (impl Read + Seek),
    ) -> Result<Self, LearntError> {
        // An invalid configuration must not be reported as a fault of the bytes.
        config.check()?;
        let file = File::new(source);
        let mut read = Reader::open(&file, MAGIC, VERSION)?;
        let found = read.name()?;
        let capacity = Sectors::new(read.u64()?);
        if found != cut(drive) || capacity != config.capacity {
            let (drive, sectors) = (cut(drive).to_owned(), config.capacity);
            return Err(LearntError::OtherDrive { found, found_sectors: capacity, drive, sectors });
        }
        let (unit, cells) = (read.u64()?, read.u64()?);
        let known = read.u8()? == config.minimum_samples;
        let rule = read.name()? == config.check_points.to_string();
        let (observed, after_pause, changes) = (read.u64()?, read.u64()?, read.u32()?);
        let change = Change::read(&mut read)?;
        let table = match read.u8()? {
            0 => None,
            1 => Some(file::table(&mut read, config.memory.get()).map_err(|broken| {
                match broken {
                    Broken::NoRoom { least } => {
                        LearnerError::BesideTable { bytes: config.memory, table: Bytes::new(least), capacity }
                            .into()
                    }
                    other => LearntError::from(other),
                }
            })?),
            _ => return Err(read.wrong("neither a table nor none").into()),
        };
        let new = Self::new(config, table)?;
        let mut learner = Self { observed, after_pause, changes, change, ..new };
        let same = [unit == config.unit.get(), cells == learner.grid.cells() as u64];
        let exact = same == [true; 2] && known && rule;
        for pair in 0..learner.pairs.len() {
            learner.read_side(pair, exact, &mut read)?;
        }
        read.end()?;
        Ok(learner)
    }

    fn read_side(&mut self, pair: usize, exact: bool, read: &mut Reader<'_>) -> Result<(), Broken> {
        let (window, minimum) = (self.config.window, self.config.minimum_samples);
        let (mut distance, mut first) = (0, true);
        let mut left = read.u16()?;
        if left > 0 {
            distance = read.i64()?;
        }
        while left > 0 {
            let to_next;
            (distance, to_next) = read.after(distance, first, DISTANCE_SECTORS_MAX)?;
            first = false;
            let (samples, mean) = (read.u8()?, read.u32()?);
            if samples == 0 {
                return Err(read.wrong("a time of no samples"));
            }
            let cell = self.grid.cell(distance);
            let slot = self.pairs[pair].touch(cell, self.generation);
            *slot = Cell::from_bits(*slot).joined(Cell::new(u64::from(mean), samples), window).bits();
            if exact && samples >= minimum {
                self.pairs[pair].lines.restore(cell, to_next);
            }
            left -= 1;
            if left == 0 {
                left = read.u16()?;
            }
        }
        if !exact {
            self.relook(pair);
        }
        Ok(())
    }

    /// Decides anew, for all gaps between known cells of a pair of request types, whether times in them are
    /// interpolated.
    fn relook(&mut self, pair: usize) {
        let minimum = self.config.minimum_samples;
        let Side { cells, pages, lines } = &mut self.pairs[pair];
        let current = |i: usize| pages.get(i / PAGE_CELLS) == Some(&self.generation);
        let counts = |i: usize, cell: Cell| current(i) && cell != Cell::EMPTY && cell.count() >= minimum;
        for (i, bits) in cells.iter().enumerate() {
            if counts(i, Cell::from_bits(*bits)) {
                let points = |i: usize| (self.grid.distance(i), Cell::from_bits(cells[i]).mean());
                lines.known(i, points, &self.config.check_points);
            }
        }
    }
}
