//! The free cleaner: live blocks are read in the gaps of the foreground.

use super::foreground::{Reads, runs};
use super::ids::{SegmentIndex, Sequence};
use super::log::{CopyError, Log, Who};
use super::victim;
use scheduler::{Parameter, Priority, Record, SessionError, Sessions};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thiserror::Error;
use units::{Instant, SessionId, TaskId};

/// When a free cleaner works, and on how much at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeConfig {
    /// It takes up segments while fewer than this are free; more than [`LogConfig::minimum_free`](super::LogConfig).
    pub start_below: u32,
    /// Segments it cleans at once. More give the scheduler more to choose from.
    pub victims: u32,
    /// Of its session.
    pub priority: Priority,
}

impl Default for FreeConfig {
    /// OSDI'00 gives no numbers ("a certain threshold", "several segments").
    fn default() -> Self {
        Self { start_below: 16, victims: 8, priority: Priority::default() }
    }
}

/// Why a free cleaner cannot be, or cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FreeCleanError {
    /// It would never start before the foreground cleaner.
    #[error("start_below is {start_below}; give more than minimum_free, {minimum_free}")]
    StartsTooLate {
        /// What was given.
        start_below: u32,
        /// The log's minimum.
        minimum_free: u32,
    },
    /// It would clean nothing.
    #[error("victims is 0; give at least 1")]
    NoVictims,
    /// The scheduler refuses its reads.
    #[error("the scheduler refused a cleaning read: {0}")]
    Session(#[from] SessionError),
    /// A block cannot be moved. Its segment is left alone from now on.
    #[error(transparent)]
    Copy(#[from] CopyError),
}

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It is copied.
    Moved,
    /// It is kept until there is room.
    Kept,
    /// Its block does not count any more, or is not the cleaner's.
    Dropped,
}

/// Counts of what a free cleaner did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeTally {
    /// Blocks asked for; those asked for again after an abort not counted.
    pub registered: u64,
    /// Blocks that came.
    pub delivered: u64,
    /// Of these, copied.
    pub copied: u64,
    /// Tasks taken back because a block in them died.
    pub aborted: u64,
    /// Segments taken up.
    pub victims: u64,
    /// Segments in which nothing counts any more, whoever moved the last block.
    pub cleaned: u64,
}

/// A segment under cleaning.
#[derive(Clone, Debug)]
struct Victim {
    /// Which writing of the segment was taken up.
    writing: Sequence,
    /// Live slots when it was last looked at.
    live: u32,
    /// What still has to come.
    tasks: BTreeSet<TaskId>,
}

/// A run of live blocks that lie side by side.
#[derive(Clone, Debug)]
struct Run {
    segment: SegmentIndex,
    wanted: BTreeSet<u32>,
}

/// A block that came while there was no room for it.
#[derive(Clone, Debug)]
struct Kept {
    segment: SegmentIndex,
    slot: u32,
    writing: Sequence,
    bytes: Vec<u8>,
}

/// OSDI'00, section 5.1: an application over the scheduler's sessions. It takes up several segments, has their live
/// blocks read in free bandwidth in whatever order they pass, and copies each as it comes into the open segment; so it
/// costs the foreground the room there, but no read.
///
/// The host hands it every [`Record`] of its session with the bytes ([`record`](Self::record)), and calls
/// [`step`](Self::step) after every call that changes the log. When free segments run out all the same
/// ([`Log::needs_cleaning`]) the host runs the [`ForegroundCleaner`](super::ForegroundCleaner); what that moves, this
/// one finds gone at its next step. Blocks that wait in memory for room are at most those of `victims` segments.
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
    /// A cleaner for this log.
    ///
    /// # Errors
    /// A threshold at which it would never start, or no segments at once.
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

    /// Its session, once it has begun.
    pub fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Segments under cleaning.
    pub fn at_work(&self) -> usize {
        self.victims.len()
    }

    /// What it did.
    pub fn tally(&self) -> FreeTally {
        self.tally
    }

    /// A block of its session has come, with these bytes.
    ///
    /// # Errors
    /// The bytes are not what was written; the block stays where it is.
    pub fn record(&mut self, log: &mut Log, record: &Record, bytes: &[u8]) -> Result<Taken, FreeCleanError> {
        let Some(slot) = self.expected(log, record) else { return Ok(Taken::Dropped) };
        let (segment, slot, writing) = slot;
        self.tally.delivered += 1;
        if log.writing_of(segment) != Some(writing) {
            return Ok(Taken::Dropped);
        }
        // Room is given in the order of coming.
        if !self.kept.is_empty() && log.is_live(segment, slot) {
            self.kept.push_back(Kept { segment, slot, writing, bytes: bytes.to_vec() });
            return Ok(Taken::Kept);
        }
        match log.copy((segment, slot), bytes, Who::Client) {
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

    /// Copies what waits, takes back reads of what died, lets go of segments that are done, takes up others.
    ///
    /// # Errors
    /// The scheduler refuses, or a block that waited cannot be moved.
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

    /// Takes all reads back and forgets what waits. The log is not touched: nothing is lost.
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

    /// The slot that a record brings, if it is waited for; it is not any more then.
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
                match log.copy((kept.segment, kept.slot), &kept.bytes, Who::Client) {
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

    /// Looks at a victim again: what died in it is not to be read, and when all is gone it is done.
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
            // Without room for the tombstones, at the next step.
            if !ground || self.bad.contains(&segment) || log.carry_tombstones(segment, Who::Client).is_ok() {
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
        // A victim from here on, so that what was registered is found again if the scheduler refuses the rest.
        let victim = self.victims.entry(segment).or_insert(Victim { writing, live, tasks: BTreeSet::new() });
        register(log, sessions, session, segment, slots.into_iter(), &mut victim.tasks, &mut self.runs)
    }
}

/// The session, opened when first needed.
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

/// Registers slots as tasks, those that lie side by side as one.
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
