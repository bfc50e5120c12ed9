//! Everything that was measured, in order: the state from which a probe goes on.
//!
//! The probe draws its decisions from measured times and seeded dice alone. So its state is the list of its commands
//! and their times: fed the list, it comes to where it was, and goes on with the drive.

mod recorder;

pub(crate) use recorder::Recorder;

use crate::device::Timed;
use thiserror::Error;
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// First bytes of a state file; the last is the version of the format and of the order of measurements.
const MAGIC: &[u8; 8] = b"FBPROBE\x07";

/// Bytes before the entries: magic, capacity, sector size, seed, revolution, entries, attempts, whether it
/// ended with a part.
const HEADER: usize = 8 + 7 * 8;

/// Between the dice of one attempt and the next.
const OTHER_DICE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Bytes of an entry: LBN and direction, sectors, which of them could not be read, submitted, completed.
const ENTRY: usize = 8 + 4 + 4 + 8 + 8;

/// The top bit of an entry's LBN says that it was a write.
const WRITE: u64 = 1 << 63;

/// A saved state cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StateError {
    /// Not such a file, or one of another version.
    #[error("{file}: not a probe's state of this version; delete it and probe from the beginning")]
    Format {
        /// The file, as the caller names it.
        file: String,
    },
    /// Bytes are missing or changed.
    #[error("{file}: damaged: {problem}; delete it and probe from the beginning")]
    Damaged {
        /// The file, as the caller names it.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The state is of another drive or another set of options.
    #[error(
        "the state is of another probe: {problem}; give the drive and the options that it was begun with"
    )]
    Other {
        /// What differs.
        problem: String,
    },
}

/// Why a command's times say nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// This sector cannot be read, or written.
    Sector(Lbn),
    /// Of two commands the other one failed; what became of this one is not known.
    Lost,
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) timed: Timed,
    pub(crate) fault: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    op: Op,
    range: LbnRange,
    done: Done,
}

impl Entry {
    /// Which of its sectors could not be read, from 1 on; 0 where it is done.
    fn fault_code(&self) -> u32 {
        match self.done.fault {
            None => 0,
            Some(Fault::Sector(lbn)) => {
                lbn.get().saturating_sub(self.range.start().get()).saturating_add(1) as u32
            }
            Some(Fault::Lost) => u32::MAX,
        }
    }

    fn fault_of(code: u32, range: LbnRange) -> Option<Fault> {
        match code {
            0 => None,
            u32::MAX => Some(Fault::Lost),
            n => Some(Fault::Sector(Lbn::new(range.start().get().saturating_add(u64::from(n) - 1)))),
        }
    }
}

/// All commands of a probe with their times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journal {
    capacity: u64,
    sector_bytes: u64,
    seed: u64,
    /// Attempts before this one that ended with a part of the drive, and whether this one has.
    attempts: u64,
    ended_partial: bool,
    /// One turn in nanoseconds as the bits of a float, 0 while it is not known.
    revolution: u64,
    entries: Vec<Entry>,
}

impl Journal {
    /// An empty journal.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Commands so far.
    pub fn commands(&self) -> u64 {
        self.entries.len() as u64
    }

    /// From the first command to the last completion: drive time.
    pub fn drive_time(&self) -> Duration {
        match (self.entries.first(), self.entries.last()) {
            (Some(first), Some(last)) => {
                last.done.timed.completed.saturating_since(first.done.timed.submitted)
            }
            _ => Duration::ZERO,
        }
    }

    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    /// The seed of this attempt's dice.
    pub(crate) const fn dice(&self) -> u64 {
        self.seed ^ self.attempts.wrapping_mul(OTHER_DICE)
    }

    /// Attempts before this one that ended with a part of the drive.
    pub const fn attempts(&self) -> u64 {
        self.attempts
    }

    /// Begins another attempt if the last one ended with a part of the drive: the same readings would lead to the same end.
    pub(crate) fn begin_again_if_partial(&mut self) {
        if self.ended_partial {
            (self.entries, self.revolution, self.ended_partial) = (Vec::new(), 0, false);
            self.attempts = self.attempts.saturating_add(1);
        }
    }

    /// The bytes of a state file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + ENTRY * self.entries.len() + 4);
        out.extend_from_slice(MAGIC);
        let head = [
            self.capacity,
            self.sector_bytes,
            self.seed,
            self.revolution,
            self.entries.len() as u64,
            self.attempts,
            u64::from(self.ended_partial),
        ];
        head.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        for e in &self.entries {
            let lbn = e.range.start().get() | if e.op.is_write() { WRITE } else { 0 };
            out.extend_from_slice(&lbn.to_le_bytes());
            out.extend_from_slice(&(e.range.len().get() as u32).to_le_bytes());
            out.extend_from_slice(&e.fault_code().to_le_bytes());
            out.extend_from_slice(&e.done.timed.submitted.as_nanos().to_le_bytes());
            out.extend_from_slice(&e.done.timed.completed.as_nanos().to_le_bytes());
        }
        let sum = crc32fast::hash(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads a state file's bytes; `file` is what errors call it.
    ///
    /// # Errors
    /// [`StateError::Format`] for another kind of file, [`StateError::Damaged`] for one with wrong bytes.
    pub fn from_bytes(bytes: &[u8], file: &str) -> Result<Self, StateError> {
        let damaged =
            |problem: &str| StateError::Damaged { file: file.to_owned(), problem: problem.to_owned() };
        if !bytes.starts_with(MAGIC) {
            return Err(StateError::Format { file: file.to_owned() });
        }
        let Some((body, sum)) = bytes.split_last_chunk::<4>() else {
            return Err(damaged("it ends early"));
        };
        if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
            return Err(damaged("its checksum does not match"));
        }
        let mut left = body.get(MAGIC.len()..).unwrap_or_default();
        let mut number = || take::<8>(&mut left).map(u64::from_le_bytes);
        let mut journal = Self::default();
        let count = (|| {
            journal.capacity = number()?;
            journal.sector_bytes = number()?;
            journal.seed = number()?;
            journal.revolution = number()?;
            let count = number()?;
            journal.attempts = number()?;
            journal.ended_partial = number()? != 0;
            Some(count)
        })();
        let count = count.ok_or_else(|| damaged("it ends early"))?;
        if count.checked_mul(ENTRY as u64) != Some(left.len() as u64) {
            return Err(damaged("its length is not that of its entries"));
        }
        let mut now = Instant::ZERO;
        while !left.is_empty() {
            let entry = (|| {
                let lbn = u64::from_le_bytes(take(&mut left)?);
                let len = u64::from(u32::from_le_bytes(take(&mut left)?));
                let code = u32::from_le_bytes(take(&mut left)?);
                let submitted = Instant::from_nanos(u64::from_le_bytes(take(&mut left)?));
                let completed = Instant::from_nanos(u64::from_le_bytes(take(&mut left)?));
                let op = if lbn & WRITE == 0 { Op::Read } else { Op::Write };
                let range = LbnRange::new(Lbn::new(lbn & !WRITE), Sectors::new(len));
                let timed = Timed { submitted, completed };
                Some(Entry { op, range, done: Done { timed, fault: Entry::fault_of(code, range) } })
            })()
            .ok_or_else(|| damaged("it ends early"))?;
            let Timed { submitted, completed } = entry.done.timed;
            let fits = match entry.done.fault {
                Some(Fault::Sector(lbn)) => entry.range.contains(lbn),
                _ => true,
            };
            let inside = fits && entry.range.checked_end().is_some_and(|end| end.get() <= journal.capacity);
            if submitted < now || completed < submitted || !inside || entry.range.is_empty() {
                return Err(damaged("a command lies outside the drive or before the last one"));
            }
            now = completed;
            journal.entries.push(entry);
        }
        Ok(journal)
    }
}

fn take<const N: usize>(left: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = left.split_first_chunk::<N>()?;
    *left = tail;
    Some(*head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal() -> Journal {
        let entry = |n: u64| Entry {
            op: if n.is_multiple_of(3) { Op::Write } else { Op::Read },
            range: LbnRange::new(Lbn::new(n * 7), Sectors::new(1 + n % 5)),
            done: Done {
                timed: Timed {
                    submitted: Instant::from_nanos(n * 1_000),
                    completed: Instant::from_nanos(n * 1_000 + 999),
                },
                fault: match n % 7 {
                    5 => Some(Fault::Sector(Lbn::new(n * 7 + n % 5))),
                    6 => Some(Fault::Lost),
                    _ => None,
                },
            },
        };
        Journal {
            capacity: 1_000,
            sector_bytes: 512,
            seed: 3,
            attempts: 2,
            ended_partial: true,
            revolution: 6e6f64.to_bits(),
            entries: (0..100).map(entry).collect(),
        }
    }

    #[test]
    fn what_is_saved_comes_back() {
        let journal = journal();
        assert_eq!(Journal::from_bytes(&journal.to_bytes(), "a.state").unwrap(), journal);
    }

    #[test]
    fn a_damaged_state_is_refused_by_name() {
        let bytes = journal().to_bytes();
        for i in 0..bytes.len() {
            let mut bad = bytes.clone();
            bad[i] ^= 0x10;
            let error = Journal::from_bytes(&bad, "a.state").unwrap_err();
            assert!(error.to_string().starts_with("a.state: "), "{error}");
        }
        for end in 0..bytes.len() {
            assert!(Journal::from_bytes(&bytes[..end], "a.state").is_err());
        }
    }
}
