//! The state machine of the reorganiser.

use super::journal::{Fault, Journal, JournalHeader, Nvram, NvramLost};
use super::links::{BlockState, Links};
use super::options::{Options, Progress, RecoverError, ReorganizeStartError, Statistics, Trouble};
use super::plan::RelocationPlan;
use super::prepared::{Beginning, Prepared};
use super::staging::Staging;
use crate::sessions::{Application, Record, Sessions, Wanted};
use scheduler::{Priority, SessionError};
use std::collections::{BTreeMap, BTreeSet};
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, Sectors, SessionId};

/// A reorganisation under way: an [`Application`] of three sessions.
#[derive(Clone, Debug)]
pub struct Reorganizer<N> {
    pub(super) links: Links,
    pub(super) staging: Staging,
    pub(super) journal: Journal,
    pub(super) nvram: N,
    pub(super) sector: Bytes,
    pub(super) capacity: Sectors,
    /// Destinations that are no block's source: they hold no live data while the plan is under way.
    pub(super) free: Vec<(u64, u64)>,
    /// By block, the number of foreground writes under way to its source, which is not read meanwhile.
    pub(super) held: BTreeMap<u32, u32>,
    /// By the first LBN of a place, the number of foreground reads under way there. The place is not written
    /// meanwhile.
    pub(super) readers: BTreeMap<u64, u32>,
    /// By block that the foreground wrote, the first epoch whose reads return the new bytes. Epochs number
    /// the registrations of reads and the releases of blocks; a read has the epoch of its registration as parameter.
    pub(super) fences: BTreeMap<u32, u64>,
    pub(super) epoch: u64,
    /// Waiting blocks that are not registered to be read: the unread and the ready ones.
    pub(super) loose: [BTreeSet<u32>; 2],
    pub(super) halted: bool,
    pub(super) statistics: Statistics,
    /// Staged blocks whose write is to be registered.
    pub(super) unwritten: BTreeSet<u32>,
    header: JournalHeader,
    pub(super) faults: Vec<Fault>,
    pub(super) options: Options,
    pub(super) block: Sectors,
    /// The read-unwritable session (unread blocks) and the read-writable one (ready blocks).
    pub(super) readings: [SessionId; 2],
    pub(super) writing: SessionId,
    pub(super) suspended: [bool; 2],
    pub(super) paused: bool,
    closed: bool,
    pub(super) refused: Option<SessionError>,
    last_at: Option<Instant>,
    /// The registrations that remain to be made by a start in steps.
    pub(super) beginning: Option<Beginning>,
    /// Whether the read sessions stay suspended because a start in steps has not registered all blocks.
    pub(super) still: bool,
}

impl<N: Nvram> Reorganizer<N> {
    /// Starts `plan` on a drive with sectors of `sector` bytes; the contents of `nvram` are replaced.
    ///
    /// # Errors
    /// [`ReorganizeStartError`]; then no session is left open.
    pub fn start(
        plan: &RelocationPlan,
        options: Options,
        sector: Bytes,
        nvram: N,
        sessions: &mut dyn Sessions,
    ) -> Result<Self, ReorganizeStartError> {
        Self::at_once(Prepared::fresh(plan, options, sector)?, nvram, sessions)
    }

    /// Resumes `plan` from `state`, the contents of the non-volatile memory at the crash. `nvram` keeps the state
    /// from now on; it may be the memory that `state` was read from.
    ///
    /// # Errors
    /// [`RecoverError`]: then no session is left open, and `nvram` is unchanged.
    pub fn recover(
        plan: &RelocationPlan,
        state: &[u8],
        options: Options,
        sector: Bytes,
        nvram: N,
        sessions: &mut dyn Sessions,
    ) -> Result<Self, RecoverError> {
        let prepared = Prepared::recovered(plan, state, options, sector)?;
        Ok(Self::at_once(prepared, nvram, sessions)?)
    }

    fn at_once(
        prepared: Prepared,
        nvram: N,
        sessions: &mut dyn Sessions,
    ) -> Result<Self, ReorganizeStartError> {
        let mut machine = Self::open(prepared, false, nvram, sessions)?;
        machine.begin_some(sessions, usize::MAX)?;
        Ok(machine)
    }

    pub(super) fn open(
        prepared: Prepared,
        still: bool,
        nvram: N,
        sessions: &mut dyn Sessions,
    ) -> Result<Self, ReorganizeStartError> {
        let Prepared { from, header, free, block, capacity, sector, options, waiting } = prepared;
        let [unwritable, writable, writing] = open_all(sessions, options.priority)?;
        Ok(Self {
            free,
            links: from.links,
            staging: from.staging,
            faults: from.faults,
            journal: Journal::default(),
            header,
            nvram,
            sector,
            options,
            block,
            capacity,
            held: BTreeMap::new(),
            readers: BTreeMap::new(),
            fences: BTreeMap::new(),
            epoch: 0,
            loose: [BTreeSet::new(), BTreeSet::new()],
            unwritten: BTreeSet::new(),
            readings: [unwritable, writable],
            writing,
            suspended: [false; 2],
            paused: false,
            closed: false,
            halted: false,
            refused: None,
            last_at: None,
            statistics: Statistics::default(),
            beginning: Some(Beginning::of(waiting)),
            still,
        })
    }

    /// Closes all sessions. The volume stays readable and writable, and [`recover`](Self::recover) can resume the
    /// plan.
    pub fn close(&mut self, sessions: &mut dyn Sessions) {
        if !std::mem::replace(&mut self.closed, true) {
            for session in [self.readings[0], self.readings[1], self.writing] {
                // No other code closes these sessions, so an error changes nothing.
                let _ = sessions.close(session);
            }
        }
    }

    /// Tries refused registrations again. Call it after other clients' tasks have ended, if no record of these
    /// sessions is due.
    pub fn retry(&mut self, sessions: &mut dyn Sessions) {
        self.settle(sessions);
    }

    /// Returns the progress in blocks.
    pub fn progress(&self) -> Progress {
        Progress {
            blocks: self.links.len() as u64,
            waiting: self.links.waiting,
            staged: self.links.staged,
            unwritable: self.links.unwritable,
            done: self.links.done,
            stuck: self.links.stuck,
            kept: self.links.kept,
        }
    }

    /// Returns the counts since start or recovery.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Returns the bad sectors met since the plan's start.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Returns the reason for which the reorganisation makes no progress, if any.
    pub fn trouble(&self) -> Option<Trouble> {
        let links = &self.links;
        let writable = links.staged - links.unwritable;
        let full = links.staged >= self.usable();
        let readable = links.ready > 0 || links.unwritable < self.limit();
        if self.halted {
            Some(Trouble::Nvram(NvramLost))
        } else if let Some(error) = self.refused {
            Some(Trouble::Session(error))
        } else if !self.progress().is_finished() && writable == 0 && (full || !readable) {
            Some(Trouble::StagingExhausted { kept: links.kept, staging: self.options.staging })
        } else {
            None
        }
    }

    /// Returns the non-volatile memory that keeps the staging area.
    pub fn nvram(&self) -> &N {
        &self.nvram
    }

    /// Returns the non-volatile memory, for a host that makes appended bytes durable later. Until they are durable,
    /// the host must give the core no buffer for a write to a place that holds the only durable copy of a block.
    pub fn nvram_mut(&mut self) -> &mut N {
        &mut self.nvram
    }

    /// Suspends or resumes all three sessions. Blocks under way are still delivered.
    pub fn pause(&mut self, sessions: &mut dyn Sessions, paused: bool) {
        self.paused = paused;
        if self.closed || self.halted {
            return;
        }
        for class in [0, 1] {
            self.suspend_or_resume(sessions, class);
        }
        let done = if paused { sessions.suspend(self.writing) } else { sessions.resume(self.writing) };
        if let Err(error) = done {
            self.refused = Some(error);
        }
        if !paused {
            self.settle(sessions);
        }
    }

    /// Iterates over the blocks of the plan: the original place, and the current one (`None`: in the staging area).
    /// Once the reorganisation is [finished](Progress::is_finished), with or without bad sectors, this describes the
    /// medium.
    pub fn whereabouts(&self) -> impl Iterator<Item = (LbnRange, Option<Lbn>)> {
        (0..self.links.len() as u32).map(|b| {
            let block = self.links.block(b);
            let at = match self.links.state(b) {
                BlockState::Unread | BlockState::Ready | BlockState::Stuck => Some(block.source().start()),
                BlockState::Done => Some(block.destination().start()),
                BlockState::Staged | BlockState::Kept => None,
            };
            (block.source(), at)
        })
    }

    /// Returns the read-unwritable, the read-writable and the write session.
    pub fn sessions(&self) -> [SessionId; 3] {
        [self.readings[0], self.readings[1], self.writing]
    }

    pub(super) fn class(&self, b: u32) -> usize {
        self.links.class(b)
    }

    /// Brings sessions, registrations and non-volatile memory in line with the state; called after every event.
    pub(super) fn settle(&mut self, sessions: &mut dyn Sessions) {
        if self.halted || self.closed || self.beginning.is_some() {
            return;
        }
        if self.journal.due() && self.compact().is_err() {
            return self.halt(sessions);
        }
        self.refused = None;
        self.register_writes(sessions);
        for class in [0, 1] {
            self.suspend_or_resume(sessions, class);
            if !self.suspended[class] && !self.loose[class].is_empty() {
                self.register_reads(sessions, class);
            }
        }
        if self.progress().is_finished() {
            self.close(sessions);
        }
    }

    pub(super) fn compact(&mut self) -> Result<(), NvramLost> {
        self.journal.compact(&mut self.nvram, &self.header, &self.links, &self.staging, &self.faults)
    }

    /// Stops everything: the state in RAM may be ahead of the durable one, so no action may follow from it.
    pub(super) fn halt(&mut self, sessions: &mut dyn Sessions) {
        self.halted = true;
        self.close(sessions);
    }

    fn count(&mut self, now: Instant) {
        let statistics = &mut self.statistics;
        statistics.steps += 1;
        statistics.full_steps += u64::from(self.suspended[1]);
        if self.suspended[0] {
            statistics.unwritable_suspended_steps += 1;
            let since = self.last_at.map_or(Duration::ZERO, |at| now.saturating_since(at));
            statistics.unwritable_suspended += since;
        }
        self.last_at = Some(now);
    }
}

impl<N: Nvram> Application for Reorganizer<N> {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant) {
        if self.halted || self.closed {
            return;
        }
        self.count(now);
        let kept = match done.op {
            Op::Read if self.readings.contains(&done.session) => self.read(sessions, done, bytes),
            Op::Write if done.session == self.writing => self.written(sessions, done),
            _ => return,
        };
        match kept {
            Ok(()) => self.settle(sessions),
            Err(NvramLost) => self.halt(sessions),
        }
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let Some(b) = u32::try_from(wanted.parameter.0).ok().filter(|&b| (b as usize) < self.links.len())
        else {
            return false;
        };
        let destination = self.links.block(b).destination();
        let Some(ahead) = wanted.range.start().get().checked_sub(destination.start().get()) else {
            return false;
        };
        let Ok(offset) = usize::try_from(ahead.saturating_mul(self.sector.get())) else { return false };
        // A foreground read that began before the place was vacated must get the old bytes.
        !self.halted
            && !self.closed
            && wanted.session == self.writing
            && !self.readers.contains_key(&destination.start().get())
            && self.staging.give(b, offset, into)
    }
}

/// Opens three sessions, or none.
fn open_all(sessions: &mut dyn Sessions, priority: Priority) -> Result<[SessionId; 3], SessionError> {
    let mut open = Vec::with_capacity(3);
    loop {
        match (open.as_slice(), sessions.open(priority)) {
            (&[a, b], Ok(c)) => return Ok([a, b, c]),
            (_, Ok(session)) => open.push(session),
            (_, Err(error)) => {
                // Only this function has used the sessions, so an error cannot matter.
                for session in open {
                    let _ = sessions.close(session);
                }
                return Err(error);
            }
        }
    }
}
