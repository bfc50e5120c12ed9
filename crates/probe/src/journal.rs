//! All measurements in order: the state from which a probe resumes.
//!
//! The probe's decisions depend only on measured times and seeded random numbers. So the list of its commands and their
//! times is its whole state: given the list, a probe repeats its decisions, and continues with the drive.

mod recorder;

pub(crate) use recorder::Recorder;

use crate::device::Timed;
use crate::error::StateError;
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// The first bytes of a state file; the last of them is the version of the format and of the order of measurements.
const MAGIC: &[u8; 8] = b"FBPROBE\x08";

/// The bytes before the entries: magic, capacity, sector size, seed, revolution, number of entries, attempts, whether
/// the attempt ended with a part of the drive, whether the buffer was switched off.
const HEADER_BYTES: usize = 8 + 8 * 8;

/// The multiplier that gives each attempt a seed of its own.
const OTHER_DICE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The bytes of an entry: LBN and flags, sectors, the failed sector, submitted, completed.
const ENTRY_BYTES: usize = 8 + 4 + 4 + 8 + 8;

/// The top bit of an entry's LBN marks a write.
const WRITE_FLAG: u64 = 1 << 63;

/// The next lower bit marks a command before which the arm was moved back, because the drive had served another host.
const RETURNED_FLAG: u64 = 1 << 62;

/// The reason why a command's times are not usable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// This sector cannot be read, or written.
    Sector(Lbn),
    /// The other one of two commands failed; the result of this command is unknown.
    Lost,
}

/// The result of a command.
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
    /// Whether the drive had served another host since the previous command, so that the arm was first moved back.
    returned: bool,
}

impl Entry {
    /// Returns the position in the range, from 1, of the sector that failed; 0 for a completed command, `u32::MAX` for
    /// a lost one.
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
    /// The number of earlier attempts that ended with a part of the drive, and whether this attempt has.
    attempts: u64,
    ended_partial: bool,
    /// Whether the drive's buffer was switched off; `None` while that was not tried.
    buffer_off: Option<bool>,
    /// The revolution in nanoseconds as the bits of a float; 0 while it is unknown.
    revolution: u64,
    entries: Vec<Entry>,
}

impl Journal {
    /// Returns an empty journal.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Returns the number of commands so far.
    pub fn commands(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Returns the drive time: from the first command to the last completion.
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

    /// Returns the seed of this attempt, which differs from that of every earlier one.
    pub(crate) const fn dice(&self) -> u64 {
        self.seed ^ self.attempts.wrapping_mul(OTHER_DICE)
    }

    /// Returns the number of earlier attempts that ended with a part of the drive.
    pub const fn attempts(&self) -> u64 {
        self.attempts
    }

    /// Begins another attempt with another seed if the last one ended with a part of the drive: the same readings would
    /// lead to the same end.
    pub(crate) fn begin_again_if_partial(&mut self) {
        if self.ended_partial {
            (self.entries, self.revolution, self.ended_partial) = (Vec::new(), 0, false);
            self.buffer_off = None;
            self.attempts = self.attempts.saturating_add(1);
        }
    }

    /// Returns the bytes of a state file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + ENTRY_BYTES * self.entries.len() + 4);
        out.extend_from_slice(MAGIC);
        let head = [
            self.capacity,
            self.sector_bytes,
            self.seed,
            self.revolution,
            self.entries.len() as u64,
            self.attempts,
            u64::from(self.ended_partial),
            self.buffer_off.map_or(0, |off| 1 + u64::from(off)),
        ];
        head.iter().for_each(|n| out.extend_from_slice(&n.to_le_bytes()));
        for e in &self.entries {
            let marks = [(e.op.is_write(), WRITE_FLAG), (e.returned, RETURNED_FLAG)];
            let lbn =
                marks.iter().fold(e.range.start().get(), |lbn, (on, bit)| lbn | if *on { *bit } else { 0 });
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

    /// Decodes the bytes of a state file; `file` is its name for errors.
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
            return Err(damaged("the file ends early"));
        };
        if crc32fast::hash(body) != u32::from_le_bytes(*sum) {
            return Err(damaged("the file's checksum does not match"));
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
            journal.buffer_off = number()?.checked_sub(1).map(|off| off != 0);
            Some(count)
        })();
        let count = count.ok_or_else(|| damaged("the file ends early"))?;
        if count.checked_mul(ENTRY_BYTES as u64) != Some(left.len() as u64) {
            return Err(damaged("the file's length is not that of its entries"));
        }
        let mut now = Instant::ZERO;
        while !left.is_empty() {
            let entry = (|| {
                let lbn = u64::from_le_bytes(take(&mut left)?);
                let len = u64::from(u32::from_le_bytes(take(&mut left)?));
                let code = u32::from_le_bytes(take(&mut left)?);
                let submitted = Instant::from_nanos(u64::from_le_bytes(take(&mut left)?));
                let completed = Instant::from_nanos(u64::from_le_bytes(take(&mut left)?));
                let op = if lbn & WRITE_FLAG == 0 { Op::Read } else { Op::Write };
                let range = LbnRange::new(Lbn::new(lbn & !(WRITE_FLAG | RETURNED_FLAG)), Sectors::new(len));
                let timed = Timed { submitted, completed };
                let done = Done { timed, fault: Entry::fault_of(code, range) };
                Some(Entry { op, range, done, returned: lbn & RETURNED_FLAG != 0 })
            })()
            .ok_or_else(|| damaged("the file ends early"))?;
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
            returned: n.is_multiple_of(4),
        };
        Journal {
            capacity: 1_000,
            sector_bytes: 512,
            seed: 3,
            attempts: 2,
            ended_partial: true,
            buffer_off: Some(true),
            revolution: 6e6f64.to_bits(),
            entries: (0..100).map(entry).collect(),
        }
    }

    #[test]
    fn a_saved_journal_is_read_back() {
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
