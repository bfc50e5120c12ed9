//! The free cleaner: live blocks are read in the gaps of the foreground.

use super::foreground::{Reads, runs};
use super::ids::{SegmentIndex, Sequence};
use super::log::{CopyError, Log, Who};
use super::victim;
use scheduler::{Parameter, Priority, Record, SessionError, Sessions};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thiserror::Error;
use units::{Instant, SessionId, TaskId};

/// The configuration of a free cleaner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeConfig {
    /// The number of free segments below which the cleaner begins; it must be above
    /// [`LogConfig::minimum_free`](super::LogConfig).
    pub start_below: u32,
    /// The number of segments cleaned at once. More of them give the scheduler more blocks to choose from.
    pub victims: u32,
    /// The priority of the cleaner's session.
    pub priority: Priority,
}

impl Default for FreeConfig {
    /// Returns values of our own: OSDI'00 gives no numbers ("a certain threshold", "several segments").
    fn default() -> Self {
        Self { start_below: 16, victims: 8, priority: Priority::default() }
    }
}

/// The reason for which a free cleaner cannot begin, or cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FreeCleanError {
    /// The cleaner would never begin before the foreground cleaner.
    #[error("start_below is {start_below}; give more than minimum_free, {minimum_free}")]
    StartsTooLate {
        /// The configured number.
        start_below: u32,
        /// The log's `minimum_free`.
        minimum_free: u32,
    },
    /// The cleaner would clean nothing.
    #[error("victims is 0; give at least 1")]
    NoVictims,
    /// The scheduler refused a read of the cleaner.
    #[error("the scheduler refused a cleaning read: {0}")]
    Session(#[from] SessionError),
    /// A block cannot be moved. Its segment is skipped from now on.
    #[error(transparent)]
    Copy(#[from] CopyError),
}

/// The result of passing a record to the cleaner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The block was copied.
    Moved,
    /// The block is kept in memory until there is room.
    Kept,
    /// The block is not live any more, or the record is not the cleaner's.
    Dropped,
}

/// Counts of a free cleaner's work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeTally {
    /// Blocks registered, without those registered again after an abort.
    pub registered: u64,
    /// Blocks delivered.
    pub delivered: u64,
    /// Delivered blocks that were copied.
    pub copied: u64,
    /// Tasks aborted because a block in them died.
    pub aborted: u64,
    /// Segments chosen.
    pub victims: u64,
    /// Segments without any live block left, regardless of what moved the last one.
    pub cleaned: u64,
}

/// A segment under cleaning.
#[derive(Clone, Debug)]
struct Victim {
    /// The sequence of the segment when it was chosen.
    writing: Sequence,
    /// The number of live slots at the last check.
    live: u32,
    /// The tasks that have not ended.
    tasks: BTreeSet<TaskId>,
}

/// A run of adjacent live blocks.
#[derive(Clone, Debug)]
struct Run {
    segment: SegmentIndex,
    wanted: BTreeSet<u32>,
}

/// A block that was delivered while there was no room for it.
#[derive(Clone, Debug)]
struct Kept {
    segment: SegmentIndex,
    slot: u32,
    writing: Sequence,
    bytes: Vec<u8>,
}

/// A cleaner in free bandwidth (OSDI'00, section 5.1): an application over the scheduler's sessions. The cleaner
/// chooses several segments, has their live blocks read in any order, and copies each on delivery into the open
/// segment. So it costs the foreground room in that segment, but no read.
///
/// The host passes every [`Record`] of the cleaner's session with its bytes to [`record`](Self::record), and calls
/// [`step`](Self::step) after every call that changes the log. If free segments run out all the same
/// ([`Log::needs_cleaning`]), the host runs the [`ForegroundCleaner`](super::ForegroundCleaner); the next step of
/// this cleaner drops the blocks that the foreground cleaner has moved. Blocks that wait in memory for room are at
/// most those of `victims` segments.
#[derive(Clone, Debug)]
pub struct FreeCleaner {
    config: FreeConfig,
    session: Option<SessionId>,
    victims: BTreeMap<SegmentIndex, Victim>,
    runs: BTreeMap<TaskId, Run>,
    kept: VecDeque<Kept>,
    /// Segments with a block that cannot be moved.
    bad: BTreeSet<SegmentIndex>,
    tally: FreeTally,
}

impl FreeCleaner {
    /// Creates a cleaner for this log.
    ///
    /// # Errors
    /// The threshold is too low for it ever to begin, or `victims` is 0.
    pub fn new(config: FreeConfig, log: &Log) -> Result<Self, FreeCleanError> {
        let minimum_free = log.geometry().config().minimum_free;
        if config.start_below <= minimum_free {
            return Err(FreeCleanError::StartsTooLate { start_below: config.start_below, minimum_free });
        }
        if config.victims == 0 {
            return Err(FreeCleanError::NoVictims);
        }
        Ok(Self {
            config,
            session: None,
            victims: BTreeMap::new(),
            runs: BTreeMap::new(),
            kept: VecDeque::new(),
            bad: BTreeSet::new(),
            tally: FreeTally::default(),
        })
    }

    /// Returns the cleaner's session, once it is open.
    pub fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Returns the number of segments under cleaning.
    pub fn at_work(&self) -> usize {
        self.victims.len()
    }

    /// Returns the counts of the cleaner's work.
    pub fn tally(&self) -> FreeTally {
        self.tally
    }

    /// Takes a delivered block of the cleaner's session.
    ///
    /// # Errors
    /// The bytes do not have their checksum; the block stays where it is.
    pub fn record(&mut self, log: &mut Log, record: &Record, bytes: &[u8]) -> Result<Taken, FreeCleanError> {
        let Some(slot) = self.expected(log, record) else { return Ok(Taken::Dropped) };
        let (segment, slot, writing) = slot;
        self.tally.delivered += 1;
        if log.writing_of(segment) != Some(writing) {
            return Ok(Taken::Dropped);
        }
        // Blocks that wait for room get it in the order of delivery.
        if !self.kept.is_empty() && log.is_live(segment, slot) {
            self.kept.push_back(Kept { segment, slot, writing, bytes: bytes.to_vec() });
            return Ok(Taken::Kept);
        }
        match log.copy((segment, slot), bytes, Who::FreeCleaner) {
            Ok(true) => {
                self.tally.copied += 1;
                Ok(Taken::Moved)
            }
            Ok(false) => Ok(Taken::Dropped),
            Err(CopyError::NoRoom(_)) => {
                self.kept.push_back(Kept { segment, slot, writing, bytes: bytes.to_vec() });
                Ok(Taken::Kept)
            }
            Err(error) => {
                self.bad.insert(segment);
                Err(error.into())
            }
        }
    }

    /// Copies blocks that wait, aborts reads of dead blocks, ends cleaned segments, and chooses others.
    ///
    /// # Errors
    /// The scheduler refuses a call, or a block that waited cannot be moved.
    pub fn step(
        &mut self,
        log: &mut Log,
        sessions: &mut (impl Sessions + ?Sized),
        now: Instant,
    ) -> Result<(), FreeCleanError> {
        self.copy_kept(log)?;
        for segment in self.victims.keys().copied().collect::<Vec<_>>() {
            self.look_after(log, sessions, segment)?;
        }
        while self.victims.len() < self.config.victims as usize
            && log.soon_free_segments() < self.config.start_below
        {
            let barred = |segment| self.victims.contains_key(&segment) || self.bad.contains(&segment);
            let Some(segment) = victim::choose(log, now, barred) else { break };
            self.take_up(log, sessions, segment)?;
        }
        Ok(())
    }

    /// Aborts all reads and drops the blocks that wait. The log is unchanged: nothing is lost.
    ///
    /// # Errors
    /// The scheduler does not know a task.
    pub fn stop(&mut self, sessions: &mut (impl Sessions + ?Sized)) -> Result<(), FreeCleanError> {
        self.victims.clear();
        self.kept.clear();
        for task in std::mem::take(&mut self.runs).into_keys() {
            sessions.abort(task)?;
        }
        Ok(())
    }

    /// Returns the slot that a record delivers, if it is expected, and marks it as delivered.
    fn expected(&mut self, log: &Log, record: &Record) -> Option<(SegmentIndex, u32, Sequence)> {
        let run = self.runs.get_mut(&record.task)?;
        let (segment, slot) = log.geometry().slot_at(record.range.start())?;
        if segment != run.segment || !run.wanted.remove(&slot) {
            return None;
        }
        let ended = run.wanted.is_empty();
        if ended {
            self.runs.remove(&record.task);
        }
        let victim = self.victims.get_mut(&segment)?;
        if ended {
            victim.tasks.remove(&record.task);
        }
        Some((segment, slot, victim.writing))
    }

    fn copy_kept(&mut self, log: &mut Log) -> Result<(), FreeCleanError> {
        while let Some(kept) = self.kept.front() {
            if log.writing_of(kept.segment) == Some(kept.writing) {
                match log.copy((kept.segment, kept.slot), &kept.bytes, Who::FreeCleaner) {
                    Ok(copied) => self.tally.copied += u64::from(copied),
                    Err(CopyError::NoRoom(_)) => return Ok(()),
                    Err(error) => {
                        self.bad.insert(kept.segment);
                        self.kept.pop_front();
                        return Err(error.into());
                    }
                }
            }
            self.kept.pop_front();
        }
        Ok(())
    }

    /// Checks a victim again: aborts the reads of dead blocks, and ends the cleaning of a segment without live
    /// blocks.
    fn look_after(
        &mut self,
        log: &mut Log,
        sessions: &mut (impl Sessions + ?Sized),
        segment: SegmentIndex,
    ) -> Result<(), FreeCleanError> {
        let Some(victim) = self.victims.get_mut(&segment) else { return Ok(()) };
        let ground = log.writing_of(segment) == Some(victim.writing);
        let live = log.segment(segment).map_or(0, |info| info.live);
        if !ground || live == 0 || self.bad.contains(&segment) {
            for task in std::mem::take(&mut victim.tasks) {
                self.runs.remove(&task);
                sessions.abort(task)?;
                self.tally.aborted += 1;
            }
            // If there is no room for the tombstones, the next step tries again.
            if !ground
                || self.bad.contains(&segment)
                || log.carry_tombstones(segment, Who::FreeCleaner).is_ok()
            {
                self.victims.remove(&segment);
                self.tally.cleaned += u64::from(!self.bad.contains(&segment));
            }
            return Ok(());
        }
        if live == victim.live {
            return Ok(());
        }
        victim.live = live;
        let dead = |slot: &u32| !log.is_live(segment, *slot);
        let stale: Vec<TaskId> = victim
            .tasks
            .iter()
            .copied()
            .filter(|task| self.runs.get(task).is_some_and(|run| run.wanted.iter().any(dead)))
            .collect();
        for task in stale {
            victim.tasks.remove(&task);
            sessions.abort(task)?;
            self.tally.aborted += 1;
            let left = self.runs.remove(&task).map(|run| run.wanted).unwrap_or_default();
            let left = left.into_iter().filter(|slot| log.is_live(segment, *slot));
            let session = open_once(&mut self.session, sessions, self.config.priority)?;
            register(log, sessions, session, segment, left, &mut victim.tasks, &mut self.runs)?;
        }
        Ok(())
    }

    fn take_up(
        &mut self,
        log: &Log,
        sessions: &mut (impl Sessions + ?Sized),
        segment: SegmentIndex,
    ) -> Result<(), FreeCleanError> {
        let Some(writing) = log.writing_of(segment) else { return Ok(()) };
        let session = open_once(&mut self.session, sessions, self.config.priority)?;
        let slots: Vec<u32> = log.live_slots(segment).into_iter().map(|(slot, _)| slot).collect();
        let live = slots.len() as u32;
        self.tally.registered += u64::from(live);
        self.tally.victims += 1;
        // The segment counts as a victim from here on: if the scheduler refuses some of its tasks, those registered
        // before are found again.
        let victim = self.victims.entry(segment).or_insert(Victim { writing, live, tasks: BTreeSet::new() });
        register(log, sessions, session, segment, slots.into_iter(), &mut victim.tasks, &mut self.runs)
    }
}

/// Returns the session; opens it at the first call.
fn open_once(
    session: &mut Option<SessionId>,
    sessions: &mut (impl Sessions + ?Sized),
    priority: Priority,
) -> Result<SessionId, SessionError> {
    match *session {
        Some(id) => Ok(id),
        None => Ok(*session.insert(sessions.open(priority)?)),
    }
}

/// Registers slots as tasks, adjacent ones as one task.
fn register(
    log: &Log,
    sessions: &mut (impl Sessions + ?Sized),
    session: SessionId,
    segment: SegmentIndex,
    slots: impl Iterator<Item = u32>,
    tasks: &mut BTreeSet<TaskId>,
    all: &mut BTreeMap<TaskId, Run>,
) -> Result<(), FreeCleanError> {
    let geometry = log.geometry();
    for (first, count) in runs(slots, Reads::Run) {
        let range = geometry.slot_range(segment, first, count);
        let task = sessions.read(session, range, geometry.block_sectors(), Parameter::default())?;
        tasks.insert(task);
        all.insert(task, Run { segment, wanted: (first..first + count).collect() });
    }
    Ok(())
}
