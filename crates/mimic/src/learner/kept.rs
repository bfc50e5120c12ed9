//! What was learnt, kept in a file.
//!
//! In the frame of `frame.rs`, `FBLEARN\n`: the drive's name (length u16, UTF-8), its sectors (u64), the unit (u64), cells
//! of a pair (u64), the samples that make a distance known (u8), when ranges are interpolated (as its text is shown, length
//! u16); times observed (u64), those after a pause (u64), how often the drive was another (u32); what is known of errors
//! ([`Change`]); whether there is a table (u8), and the table; and for each of the four pairs how many cells hold
//! something (u64), the first distance (i64), and for each the way from the one before, doubled, plus one if it goes
//! straight to the next known one (LEB128), its samples (u8) and its mean (u32 ns).

use super::cell::Cell;
use super::change::Change;
use super::{Learner, LearnerConfig, LearnerError};
use crate::file;
use crate::frame::{Broken, Reader, Writer, cut};
use crate::search::FURTHEST;
use thiserror::Error;
use units::Sectors;

const LETTERS: [u8; 8] = *b"FBLEARN\n";

/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// Why nothing can be taken over from bytes. A learner that begins anew is all that is lost.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LearntError {
    /// A configuration that makes no learner.
    #[error(transparent)]
    Config(#[from] LearnerError),
    /// Something else.
    #[error(
        "this is nothing that a mimic has learnt: it does not begin with \"FBLEARN\"; begin anew without it"
    )]
    NotLearnt,
    /// A later or a wrong version.
    #[error(
        "what was learnt is of version {found}, this program reads version {VERSION}; begin anew without it"
    )]
    Version {
        /// The version found.
        found: u32,
    },
    /// Cut off, or with more after it.
    #[error(
        "what was learnt is damaged: {found} bytes where there should be {expected}; begin anew without it"
    )]
    Length {
        /// Bytes found.
        found: u64,
        /// Bytes promised.
        expected: u64,
    },
    /// Changed.
    #[error(
        "what was learnt is damaged: its checksum is {found:08x}, not {expected:08x}; begin anew without it"
    )]
    Checksum {
        /// Of the bytes.
        found: u32,
        /// As written.
        expected: u32,
    },
    /// Whole, but what it says cannot be.
    #[error("what was learnt says at byte {at} what cannot be: {what}; begin anew without it")]
    Content {
        /// Where.
        at: usize,
        /// What.
        what: &'static str,
    },
    /// Learnt of another drive.
    #[error(
        "it was learnt of {found:?} with {found_sectors} sectors, this is {drive:?} with {sectors}; begin anew without it"
    )]
    OtherDrive {
        /// The drive of which it was learnt.
        found: String,
        /// Its sectors.
        found_sectors: Sectors,
        /// The drive for which it is wanted.
        drive: String,
        /// Its sectors.
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
        }
    }
}

impl Learner {
    /// All that was learnt, for a file: a learner that is made of it predicts and goes on as this one. `drive` names the
    /// drive, by its serial number where it has one; 255 bytes of it count.
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
        let stats = self.stats();
        let mut out = Writer::new(LETTERS, VERSION, 4_096 + stats.known as usize * 8);
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
        if let Some(table) = &self.table {
            file::put_table(table, &mut out);
        }
        for side in &self.pairs {
            let held = || side.held(self.generation);
            out.u64(held().count() as u64);
            let mut before = None;
            for (i, cell) in held() {
                let distance = self.grid.distance(i);
                if before.is_none() {
                    out.i64(distance);
                }
                out.way(distance.abs_diff(before.unwrap_or(distance)), side.lines.is_straight(i));
                out.u8(cell.count());
                out.u32(cell.mean() as u32);
                before = Some(distance);
            }
        }
        out.sealed()
    }

    /// A learner that goes on from what [`save`](Self::save) wrote. What it was told may have changed: with more or less
    /// memory, or another unit, cells are put where their distances are now. Idle time draws its distances from the
    /// seed's beginning; those that are known it leaves out.
    ///
    /// # Errors
    /// A configuration that makes no learner; bytes that were cut or have changed, of another version, or learnt of another
    /// drive. Nothing is taken over then: make a [`new`](Self::new) one.
    pub fn load(config: LearnerConfig, drive: &str, bytes: &[u8]) -> Result<Self, LearntError> {
        let mut learner = Self::new(config, None)?;
        let mut read = Reader::open(bytes, LETTERS, VERSION)?;
        let found = read.name()?;
        let capacity = Sectors::new(read.u64()?);
        if found != cut(drive) || capacity != config.capacity {
            let (drive, sectors) = (cut(drive).to_owned(), config.capacity);
            return Err(LearntError::OtherDrive { found, found_sectors: capacity, drive, sectors });
        }
        let same = [read.u64()? == config.unit.get(), read.u64()? == learner.grid.cells() as u64];
        let known = read.u8()? == config.minimum_samples;
        let rule = read.name()? == config.check_points.to_string();
        learner.observed = read.u64()?;
        learner.after_pause = read.u64()?;
        learner.changes = read.u32()?;
        learner.change = Change::read(&mut read)?;
        learner.table = match read.u8()? {
            0 => None,
            1 => Some(file::table(&mut read)?),
            _ => return Err(read.wrong("neither a table nor none").into()),
        };
        let exact = same == [true; 2] && known && rule;
        for pair in 0..learner.pairs.len() {
            learner.read_side(pair, exact, &mut read)?;
        }
        read.end()?;
        Ok(learner)
    }

    fn read_side(&mut self, pair: usize, exact: bool, read: &mut Reader<'_>) -> Result<(), Broken> {
        // A byte for the way, one for the samples, four for the mean.
        let count = read.count(0, 6, "more distances than there are bytes")?;
        let (window, minimum) = (self.config.window, self.config.minimum_samples);
        let mut distance = if count > 0 { read.i64()? } else { 0 };
        let mut straight = Vec::new();
        for i in 0..count {
            let to_next;
            (distance, to_next) = read.after(distance, i == 0, FURTHEST)?;
            let (samples, mean) = (read.u8()?, read.u32()?);
            if samples == 0 {
                return Err(read.wrong("a time of no samples"));
            }
            let cell = self.grid.cell(distance);
            let slot = self.pairs[pair].touch(cell, self.generation);
            *slot = Cell::from_bits(*slot).joined(Cell::new(u64::from(mean), samples), window).bits();
            if exact && samples >= minimum {
                straight.push((cell, to_next));
            }
        }
        if exact {
            let lines = &mut self.pairs[pair].lines;
            straight.into_iter().for_each(|(cell, to_next)| lines.restore(cell, to_next));
        } else {
            self.relook(pair);
        }
        Ok(())
    }

    /// Looks at all gaps of a pair anew.
    fn relook(&mut self, pair: usize) {
        let minimum = self.config.minimum_samples;
        let held: Vec<(usize, Cell)> = self.pairs[pair].held(self.generation).collect();
        let side = &mut self.pairs[pair];
        for (i, _) in held.into_iter().filter(|(_, cell)| cell.count() >= minimum) {
            let (grid, cells) = (&self.grid, &side.cells);
            let points = |i: usize| (grid.distance(i), Cell::from_bits(cells[i]).mean());
            side.lines.known(i, points, &self.config.check_points);
        }
    }
}
