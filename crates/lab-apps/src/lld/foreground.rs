//! The foreground cleaner: the log's client waits for it.

use super::ids::{SegmentIndex, Sequence};
use super::log::{CopyError, Log, Who, WriteError};
use super::victim;
use std::collections::{BTreeSet, VecDeque};
use thiserror::Error;
use units::{Instant, LbnRange};

/// The way in which the foreground cleaner reads live blocks. OSDI'00 does not say how LLD reads them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// One live block at a time.
    Block,
    /// A run of adjacent live blocks at a time.
    #[default]
    Run,
    /// All slots from the first live block to the last at once.
    Segment,
}

/// The next step of a cleaner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read these LBNs, and pass their bytes to [`deliver`](ForegroundCleaner::deliver).
    Read(LbnRange),
    /// Carry out the log's pending writes.
    WriteOut,
    /// Nothing is left to do: the threshold is met.
    Done,
}

/// The reason for which cleaning cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CleanError {
    /// Every segment is full of live data.
    #[error("{free} segments are free and cleaning would gain nothing; trim some blocks")]
    NothingToGain {
        /// The number of segments that are free, or will be when the segments in memory are written out.
        free: u32,
    },
    /// A block cannot be moved. Its segment is skipped from now on; call again to clean others.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The delivered bytes were not requested.
    #[error("LBNs {0} were not asked for; deliver the LBNs of the last Step::Read")]
    NotAsked(LbnRange),
}

/// Counts of a foreground cleaner's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForegroundTally {
    /// Reads requested.
    pub reads: u64,
    /// Blocks read, including dead ones between live ones.
    pub blocks_read: u64,
    /// Live blocks copied.
    pub copied: u64,
    /// Segments cleaned.
    pub victims: u64,
}

#[derive(Clone, Debug)]
struct CleanedSegment {
    segment: SegmentIndex,
    /// The sequence of the segment when it was chosen: if the segment was freed and written again meanwhile, none of
    /// its slots are wanted.
    writing: Sequence,
    /// Slots to read: the first, and their number.
    runs: VecDeque<(u32, u32)>,
    /// Slots that were read, and are not all copied yet.
    read: Option<Arrived>,
}

#[derive(Clone, Debug)]
struct Arrived {
    next: u32,
    end: u32,
    first: u32,
    bytes: Vec<u8>,
}

/// LLD's cleaner: if fewer segments are free than the threshold, it cleans one segment after the other until the
/// threshold is met.
///
/// If [`Log::needs_cleaning`], the host calls [`step`](Self::step), carries out the step that it returns, and calls
/// again until that is [`Step::Done`].
#[derive(Clone, Debug, Default)]
pub struct ForegroundCleaner {
    reads: Reads,
    victim: Option<CleanedSegment>,
    asked: Option<LbnRange>,
    /// Segments with a block that cannot be moved.
    bad: BTreeSet<SegmentIndex>,
    tally: ForegroundTally,
}

impl ForegroundCleaner {
    /// Creates a cleaner that reads in this way.
    pub fn new(reads: Reads) -> Self {
        Self { reads, ..Self::default() }
    }

    /// Returns whether a segment is being cleaned.
    pub fn at_work(&self) -> bool {
        self.victim.is_some()
    }

    /// Returns the counts of the cleaner's work.
    pub fn tally(&self) -> ForegroundTally {
        self.tally
    }

    /// Works until the host must carry out a step, and returns that step.
    ///
    /// # Errors
    /// [`CleanError`]; the log is unharmed.
    pub fn step(&mut self, log: &mut Log, now: Instant) -> Result<Step, CleanError> {
        loop {
            // Writing out comes first: it frees memory, and the segments that were cleaned last.
            if log.pending_write().is_some() {
                return Ok(Step::WriteOut);
            }
            if self.victim.as_ref().is_some_and(|v| log.writing_of(v.segment) != Some(v.writing)) {
                (self.victim, self.asked) = (None, None);
            }
            if let Some(range) = self.asked {
                return Ok(Step::Read(range));
            }
            let Some(victim) = &mut self.victim else {
                if !log.needs_cleaning() {
                    return Ok(Step::Done);
                }
                self.begin(log, now)?;
                continue;
            };
            let segment = victim.segment;
            if let Some(arrived) = &mut victim.read {
                match copy_all(log, segment, arrived) {
                    Ok(copied) => {
                        self.tally.copied += copied;
                        victim.read = None;
                    }
                    Err(CopyError::NoRoom(WriteError::WriteOut)) => return Ok(Step::WriteOut),
                    Err(error) => return self.give_up(segment, error),
                }
            } else if let Some((first, count)) = victim.runs.pop_front() {
                // If all blocks of the run have died meanwhile, it is not read.
                if (first..first + count).any(|slot| log.is_live(segment, slot)) {
                    self.asked = Some(log.geometry().slot_range(segment, first, count));
                    self.tally.reads += 1;
                    self.tally.blocks_read += u64::from(count);
                }
            } else {
                match log.carry_tombstones(segment, Who::Cleaner) {
                    Ok(()) => {
                        self.victim = None;
                        self.tally.victims += 1;
                    }
                    Err(WriteError::WriteOut) => return Ok(Step::WriteOut),
                    Err(error) => return self.give_up(segment, error.into()),
                }
            }
        }
    }

    /// Takes the bytes of the last [`Step::Read`].
    ///
    /// # Errors
    /// The range is not that of the last read.
    pub fn deliver(&mut self, log: &Log, range: LbnRange, bytes: &[u8]) -> Result<(), CleanError> {
        let geometry = log.geometry();
        let blocks = range.len().get() / geometry.block_sectors().get();
        let asked = self.asked == Some(range) && bytes.len() as u64 == blocks * geometry.block_bytes() as u64;
        match (&mut self.victim, geometry.slot_at(range.start())) {
            (Some(victim), Some((_, first))) if asked => {
                let end = first + blocks as u32;
                victim.read = Some(Arrived { next: first, end, first, bytes: bytes.to_vec() });
                self.asked = None;
                Ok(())
            }
            _ => Err(CleanError::NotAsked(range)),
        }
    }

    fn begin(&mut self, log: &Log, now: Instant) -> Result<(), CleanError> {
        let bad = |segment| self.bad.contains(&segment);
        let chosen = victim::choose(log, now, bad);
        let Some((segment, writing)) = chosen.and_then(|s| Some((s, log.writing_of(s)?))) else {
            return Err(CleanError::NothingToGain { free: log.soon_free_segments() });
        };
        let runs = runs(log.live_slots(segment).into_iter().map(|(slot, _)| slot), self.reads);
        self.victim = Some(CleanedSegment { segment, writing, runs, read: None });
        Ok(())
    }

    fn give_up(&mut self, segment: SegmentIndex, error: CopyError) -> Result<Step, CleanError> {
        if matches!(error, CopyError::Corrupt { .. }) {
            self.bad.insert(segment);
            self.victim = None;
        }
        Err(error.into())
    }
}

/// Copies the live blocks among the slots read, beginning where the last call stopped; returns their number.
fn copy_all(log: &mut Log, segment: SegmentIndex, arrived: &mut Arrived) -> Result<u64, CopyError> {
    let block = log.geometry().block_bytes();
    let mut copied = 0;
    while arrived.next < arrived.end {
        let at = (arrived.next - arrived.first) as usize * block;
        let data = arrived.bytes.get(at..at + block).unwrap_or_default();
        copied += u64::from(log.copy((segment, arrived.next), data, Who::Cleaner)?);
        arrived.next += 1;
    }
    Ok(copied)
}

/// Groups ascending slots into runs `(first, count)`.
pub(super) fn runs(slots: impl Iterator<Item = u32>, reads: Reads) -> VecDeque<(u32, u32)> {
    let mut runs: VecDeque<(u32, u32)> = VecDeque::new();
    for slot in slots {
        match runs.back_mut() {
            Some((first, count))
                if reads == Reads::Segment || (reads == Reads::Run && *first + *count == slot) =>
            {
                *count = slot + 1 - *first;
            }
            _ => runs.push_back((slot, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_read_singly_in_runs_or_from_first_to_last() {
        let slots = [1, 2, 3, 7, 9, 10];
        let of = |reads| Vec::from(runs(slots.into_iter(), reads));
        assert_eq!(of(Reads::Block), [(1, 1), (2, 1), (3, 1), (7, 1), (9, 1), (10, 1)]);
        assert_eq!(of(Reads::Run), [(1, 3), (7, 1), (9, 2)]);
        assert_eq!(of(Reads::Segment), [(1, 10)]);
    }
}
