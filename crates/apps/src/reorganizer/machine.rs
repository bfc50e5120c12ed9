//! The state machine.

use super::journal::{self, Fault, FaultKind, Header, Journal, Nvram, NvramLost, Recovered, StateError};
use super::links::{Links, NONE, State};
use super::plan::Plan;
use super::ranges::{self, Span};
use super::staging::{Staging, Written};
use crate::sessions::{Application, Parameter, Record, Sessions, Wanted};
use scheduler::{Priority, SessionError};
use std::collections::{BTreeMap, BTreeSet};
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, Sectors, SessionId};

/// How a reorganiser works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most blocks in the staging area, at least 2.
    pub staging: u64,
    /// The most of them that may be unwritable, in percent; 50 in the paper. At least one block may be, and at least one
    /// always may not.
    pub threshold_percent: u8,
    /// Of all three sessions.
    pub priority: Priority,
}

impl Default for Options {
    /// 1024 blocks (8 MiB of the paper's 8 KiB blocks), half of them unwritable at most.
    fn default() -> Self {
        Self { staging: 1024, threshold_percent: 50, priority: Priority::default() }
    }
}

/// Why a reorganisation cannot start.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StartError {
    /// Too little room: one block would have to be written before it can be.
    #[error("a staging area of {0} blocks; give 2 or more, with fewer a cycle has no end")]
    Staging(u64),
    /// Not a percentage.
    #[error("a threshold of {0} %; give 1 to 100")]
    Threshold(u8),
    /// There is no room for its sessions, or for their tasks.
    #[error("reading cannot be registered: {0}")]
    Session(#[from] SessionError),
    /// The staging area's memory.
    #[error(transparent)]
    Nvram(#[from] NvramLost),
}

/// Why a reorganisation cannot go on after a crash.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RecoverError {
    /// The saved state.
    #[error(transparent)]
    State(#[from] StateError),
    /// The same as at a start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Why a reorganiser is not getting on.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Trouble {
    /// It halted. Nothing is lost; `recover` goes on.
    #[error(transparent)]
    Nvram(NvramLost),
    /// Some blocks are not registered. It is tried again at the next event.
    #[error("blocks are waiting to be registered: {0}")]
    Session(SessionError),
    /// Bad destinations left so many blocks in the staging area that there is no room to break a cycle.
    #[error("{kept} of {staging} staged blocks have no good place left; recover with a larger staging area")]
    StagingExhausted {
        /// Blocks that stay in staging.
        kept: u64,
        /// Blocks that it has room for.
        staging: u64,
    },
}

/// Where a reorganisation stands, in blocks. Nothing is counted twice: waiting + staged + kept + done + stuck = blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Of the plan.
    pub blocks: u64,
    /// Not read yet.
    pub waiting: u64,
    /// In the staging area, to be written.
    pub staged: u64,
    /// Of these, those that have to wait for another block to be read.
    pub unwritable: u64,
    /// Where they belong, or the best place that was left.
    pub done: u64,
    /// Where they were, because they cannot be read.
    pub stuck: u64,
    /// In the staging area, because there is no good place for them.
    pub kept: u64,
}

impl Progress {
    /// Whether nothing is left to do.
    pub fn is_finished(&self) -> bool {
        self.waiting == 0 && self.staged == 0
    }
}

/// What was done since start or recovery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Records handed over, reads and writes: the steps that the others are counted in.
    pub steps: u64,
    /// Blocks read into the staging area.
    pub staged: u64,
    /// Of these, those whose destination was still occupied: dependencies broken by staging.
    pub broken: u64,
    /// Blocks written to their destination.
    pub moved: u64,
    /// Blocks that came when there was no room for them any more; they are read again.
    pub dropped: u64,
    /// Writes done again because newer bytes had come meanwhile, or because someone else wrote there.
    pub rewritten: u64,
    /// Parts of foreground accesses that went to the staging area or to a block's new place.
    pub redirected: u64,
    /// The most blocks in the staging area at a time.
    pub most_staged: u64,
    /// Steps during which the read-unwritable session was suspended.
    pub unwritable_suspended_steps: u64,
    /// Steps during which both read sessions were suspended: the staging area was full.
    pub full_steps: u64,
    /// Time between records during which the read-unwritable session was suspended.
    pub unwritable_suspended: Duration,
}

/// A reorganisation under way: an [`Application`] of three sessions.
#[derive(Clone, Debug)]
pub struct Reorganizer<N> {
    pub(super) links: Links,
    pub(super) staging: Staging,
    pub(super) journal: Journal,
    pub(super) nvram: N,
    pub(super) sector: Bytes,
    pub(super) capacity: Sectors,
    /// Places that are no block's source: nothing lives there as long as the plan is under way.
    pub(super) free: Vec<(u64, u64)>,
    /// How many foreground writes are under way to a block's source. It is not read meanwhile.
    pub(super) held: BTreeMap<u32, u32>,
    /// How many foreground reads are under way, by the place's first LBN. It is not written meanwhile.
    pub(super) readers: BTreeMap<u64, u32>,
    /// Registrations before this one may bring bytes that are older than the foreground's.
    pub(super) fences: BTreeMap<u32, u64>,
    pub(super) epoch: u64,
    /// Waiting blocks that are not registered: unread and ready.
    pub(super) loose: [BTreeSet<u32>; 2],
    pub(super) halted: bool,
    pub(super) statistics: Statistics,
    /// Staged blocks to register for writing.
    unwritten: BTreeSet<u32>,
    header: Header,
    faults: Vec<Fault>,
    options: Options,
    block: Sectors,
    /// Of unread blocks, of ready ones: the read-unwritable and the read-writable session.
    readings: [SessionId; 2],
    writing: SessionId,
    suspended: [bool; 2],
    paused: bool,
    closed: bool,
    refused: Option<SessionError>,
    last_at: Option<Instant>,
}

impl<N: Nvram> Reorganizer<N> {
    /// Starts `plan` on a drive with sectors of `sector` bytes; what `nvram` held is replaced.
    ///
    /// # Errors
    /// [`StartError`]; then no session is left open.
    pub fn start(
        plan: &Plan,
        options: Options,
        sector: Bytes,
        nvram: N,
        sessions: &mut dyn Sessions,
    ) -> Result<Self, StartError> {
        let fresh = Recovered { links: Links::new(plan), staging: Staging::default(), faults: Vec::new() };
        Self::begin(plan, fresh, options, sector, nvram, sessions)
    }

    /// Goes on with `plan` from `state`, which is what the memory held when the crash came. `nvram` is where the state is
    /// kept from now on; it may be the same memory.
    ///
    /// # Errors
    /// [`RecoverError`]: then no session is left open, and `nvram` is as it was.
    pub fn recover(
        plan: &Plan,
        state: &[u8],
        options: Options,
        sector: Bytes,
        nvram: N,
        sessions: &mut dyn Sessions,
    ) -> Result<Self, RecoverError> {
        let recovered = journal::recover(plan, &Header::new(plan, sector, options.staging), state)?;
        Ok(Self::begin(plan, recovered, options, sector, nvram, sessions)?)
    }

    fn begin(
        plan: &Plan,
        from: Recovered,
        options: Options,
        sector: Bytes,
        nvram: N,
        sessions: &mut dyn Sessions,
    ) -> Result<Self, StartError> {
        if options.staging < 2 {
            return Err(StartError::Staging(options.staging));
        }
        if !(1..=100).contains(&options.threshold_percent) {
            return Err(StartError::Threshold(options.threshold_percent));
        }
        let [unwritable, writable, writing] = open_all(sessions, options.priority)?;
        let readings = [unwritable, writable];
        let mut machine = Self {
            free: free_places(plan),
            links: from.links,
            staging: from.staging,
            faults: from.faults,
            journal: Journal::default(),
            header: Header::new(plan, sector, options.staging),
            nvram,
            sector,
            options,
            block: plan.block(),
            capacity: plan.capacity(),
            held: BTreeMap::new(),
            readers: BTreeMap::new(),
            fences: BTreeMap::new(),
            epoch: 0,
            loose: [BTreeSet::new(), BTreeSet::new()],
            unwritten: BTreeSet::new(),
            readings,
            writing,
            suspended: [false; 2],
            paused: false,
            closed: false,
            halted: false,
            refused: None,
            last_at: None,
            statistics: Statistics::default(),
        };
        match machine.begin_all(sessions) {
            Ok(()) => Ok(machine),
            Err(error) => {
                machine.close(sessions);
                Err(error)
            }
        }
    }

    fn begin_all(&mut self, sessions: &mut dyn Sessions) -> Result<(), StartError> {
        for b in 0..self.links.len() as u32 {
            if self.links.waits(b) {
                self.loose[self.class(b)].insert(b);
            }
        }
        for class in [0, 1] {
            self.suspend_or_resume(sessions, class);
            self.rebuild(sessions, class);
        }
        if let Some(error) = self.refused {
            return Err(error.into());
        }
        // Last, so that a start that is refused leaves the memory as it was.
        self.compact()?;
        let staged: Vec<u32> = self.staging.iter().map(|(b, _)| b).collect();
        staged.into_iter().for_each(|b| self.offer(b));
        self.settle(sessions);
        Ok(())
    }

    /// Ends all sessions. The volume stays readable and writable, and [`recover`](Self::recover) goes on.
    pub fn close(&mut self, sessions: &mut dyn Sessions) {
        if !std::mem::replace(&mut self.closed, true) {
            for session in [self.readings[0], self.readings[1], self.writing] {
                // It was opened here and nobody else closes it.
                let _ = sessions.close(session);
            }
        }
    }

    /// Tries again to register what was refused, when other clients' tasks have ended and no record of ours is to come.
    pub fn retry(&mut self, sessions: &mut dyn Sessions) {
        self.settle(sessions);
    }

    /// Where it stands.
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

    /// What was done since start or recovery.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// What was bad, from the plan's start on.
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// What it suffers from, if anything.
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

    /// The memory under the staging area.
    pub fn nvram(&self) -> &N {
        &self.nvram
    }

    /// The same, for a host that carries out later what it was told to keep: until then it must give no buffer for a place
    /// whose block is not durable elsewhere.
    pub fn nvram_mut(&mut self) -> &mut N {
        &mut self.nvram
    }

    /// Stands still, or goes on: all three sessions. Blocks that are under way still come.
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

    /// Where each block of the plan was when it began, and where it is; `None`: in the staging area. What the medium holds
    /// when the reorganisation is [finished](Progress::is_finished), with bad sectors or without.
    pub fn whereabouts(&self) -> impl Iterator<Item = (LbnRange, Option<Lbn>)> {
        (0..self.links.len() as u32).map(|b| {
            let block = self.links.block(b);
            let at = match self.links.state(b) {
                State::Unread | State::Ready | State::Stuck => Some(block.source().start()),
                State::Done => Some(block.destination().start()),
                State::Staged | State::Kept => None,
            };
            (block.source(), at)
        })
    }

    /// The read-unwritable, the read-writable and the write session.
    pub fn sessions(&self) -> [SessionId; 3] {
        [self.readings[0], self.readings[1], self.writing]
    }

    fn class(&self, b: u32) -> usize {
        usize::from(self.links.state(b) == State::Ready)
    }

    /// Room for blocks that are on their way.
    fn usable(&self) -> u64 {
        self.options.staging.saturating_sub(self.links.kept)
    }

    /// The most unwritable blocks. There is always room for one that can be written: without it all would wait for a
    /// block that cannot be read.
    fn limit(&self) -> u64 {
        let usable = self.usable();
        let share = u128::from(usable) * u128::from(self.options.threshold_percent) / 100;
        (share as u64).max(1).min(usable.saturating_sub(1))
    }

    fn read(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8]) -> Result<(), NvramLost> {
        let Some(b) = self.links.at(done.range.start().get()) else { return Ok(()) };
        let source = self.links.block(b).source();
        let old = self.fences.get(&b).is_some_and(|&fence| done.parameter.0 < fence);
        if source != done.range || !self.links.waits(b) || self.held.contains_key(&b) || old {
            return Ok(());
        }
        let class = self.class(b);
        if let Some(bad) = done.bad {
            self.journal.bad(&mut self.nvram, b, bad, FaultKind::Source)?;
            self.withdraw(sessions, b);
            self.faults.push(Fault { block: source, bad, kind: FaultKind::Source });
            let touched = self.links.source_bad(b);
            self.touch(sessions, touched);
            return Ok(());
        }
        let unwritable = !self.links.clear(b);
        let may_stay = !unwritable || self.links.clears_staged(b) || self.links.unwritable < self.limit();
        if self.links.staged >= self.usable() || !may_stay || bytes.len() as u64 != self.size(source) {
            self.statistics.dropped += 1;
            self.loose[class].insert(b);
            return Ok(());
        }
        self.journal.staged(&mut self.nvram, b, bytes)?;
        if !self.loose[class].remove(&b) && done.session != self.readings[class] {
            // It came from the session it was withdrawn from, so the other need not read it again.
            let _ = sessions.abort_range(self.readings[class], source);
        }
        self.fences.remove(&b);
        self.staging.insert(b, bytes.to_vec());
        self.links.stage(b);
        self.statistics.staged += 1;
        self.statistics.broken += u64::from(unwritable);
        self.statistics.most_staged = self.statistics.most_staged.max(self.staging.len() as u64);
        self.offer(b);
        self.touch(sessions, [self.links.behind(b), self.links.ahead(b)]);
        Ok(())
    }

    fn written(&mut self, sessions: &mut dyn Sessions, done: &Record) -> Result<(), NvramLost> {
        let Some(b) = u32::try_from(done.parameter.0).ok().filter(|&b| (b as usize) < self.links.len())
        else {
            return Ok(());
        };
        let complete = self.staging.complete(b);
        if complete == Written::Unknown || self.links.block(b).destination() != done.range {
            return Ok(());
        }
        if let Some(bad) = done.bad {
            self.journal.bad(&mut self.nvram, b, bad, FaultKind::Destination)?;
            let block = self.links.block(b).source();
            self.faults.push(Fault { block, bad, kind: FaultKind::Destination });
            self.staging.set_writing(b, false);
            let touched = self.links.target_bad(b);
            self.offer(b);
            self.touch(sessions, touched);
        } else if complete == Written::Again {
            self.statistics.rewritten += 1;
            self.staging.set_writing(b, false);
            self.offer(b);
        } else {
            self.journal.written(&mut self.nvram, b)?;
            self.links.written(b);
            self.staging.remove(b);
            self.statistics.moved += 1;
        }
        Ok(())
    }

    /// Puts blocks whose neighbours have changed where they belong.
    fn touch(&mut self, sessions: &mut dyn Sessions, blocks: [u32; 2]) {
        for b in blocks.into_iter().filter(|&b| b != NONE) {
            if self.links.waits(b) {
                let before = self.class(b);
                if self.links.sort(b) && !self.held.contains_key(&b) {
                    if !self.loose[before].remove(&b) {
                        let _ = sessions.abort_range(self.readings[before], self.links.block(b).source());
                    }
                    self.loose[self.class(b)].insert(b);
                }
            } else if self.links.state(b) == State::Done {
                // A fault elsewhere made its own place its destination.
                self.withdraw(sessions, b);
            } else {
                self.offer(b);
            }
        }
    }

    /// Lets a staged block be written as soon as it can be.
    fn offer(&mut self, b: u32) {
        if self.links.state(b) == State::Staged && self.links.clear(b) && !self.staging.is_writing(b) {
            self.unwritten.insert(b);
        }
    }

    /// No session reads the block's source any more.
    pub(super) fn withdraw(&mut self, sessions: &mut dyn Sessions, b: u32) {
        let source = self.links.block(b).source();
        for class in [0, 1] {
            self.loose[class].remove(&b);
            // Of a session that is closed there is nothing to withdraw.
            let _ = sessions.abort_range(self.readings[class], source);
        }
    }

    /// A block is to be read (again) by a registration that is younger than now.
    pub(super) fn release(&mut self, b: u32) {
        if self.links.waits(b) {
            self.epoch += 1;
            self.fences.insert(b, self.epoch);
            self.loose[self.class(b)].insert(b);
        }
    }

    /// After every event: sessions, registrations and memory follow what the event changed.
    pub(super) fn settle(&mut self, sessions: &mut dyn Sessions) {
        if self.halted || self.closed {
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

    fn compact(&mut self) -> Result<(), NvramLost> {
        self.journal.compact(&mut self.nvram, &self.header, &self.links, &self.staging, &self.faults)
    }

    /// What is in memory may be ahead of what is durable: nothing may follow from it.
    pub(super) fn halt(&mut self, sessions: &mut dyn Sessions) {
        self.halted = true;
        self.close(sessions);
    }

    fn suspend_or_resume(&mut self, sessions: &mut dyn Sessions, class: usize) {
        let full = self.links.staged >= self.usable();
        let suspend = self.paused || full || (class == 0 && self.links.unwritable >= self.limit());
        if suspend != self.suspended[class] {
            let session = self.readings[class];
            let done = if suspend { sessions.suspend(session) } else { sessions.resume(session) };
            match done {
                Ok(()) => self.suspended[class] = suspend,
                Err(error) => self.refused = Some(error),
            }
        }
    }

    fn register_writes(&mut self, sessions: &mut dyn Sessions) {
        while let Some(&b) = self.unwritten.first() {
            let range = self.links.block(b).destination();
            match sessions.write(self.writing, range, range.len(), Parameter(b.into())) {
                Ok(_) => {
                    self.unwritten.remove(&b);
                    self.staging.set_writing(b, true);
                }
                Err(error) => {
                    self.refused = Some(error);
                    return;
                }
            }
        }
    }

    fn register_reads(&mut self, sessions: &mut dyn Sessions, class: usize) {
        let blocks: Vec<u32> = self.loose[class].iter().copied().collect();
        let spans = ranges::adjacent(&self.links, &blocks, self.block);
        if let Err(SessionError::TooManyTasks { .. }) = self.register(sessions, class, &blocks, &spans) {
            // Single blocks have come off large ranges; put them together again.
            if let Some(all) = ranges::everything(&self.links, self.capacity) {
                let _ = sessions.abort_range(self.readings[class], all);
            }
            self.loose[class] = (0..self.links.len() as u32)
                .filter(|&b| self.links.waits(b) && self.class(b) == class && !self.held.contains_key(&b))
                .collect();
            self.refused = None;
            self.rebuild(sessions, class);
        }
    }

    /// Registers all of a class when nothing of it is registered.
    fn rebuild(&mut self, sessions: &mut dyn Sessions, class: usize) {
        let blocks: Vec<u32> = self.loose[class].iter().copied().collect();
        let spans = ranges::bridged(&self.links, &blocks, self.block);
        // What was refused is kept as such, and its blocks as loose.
        let _ = self.register(sessions, class, &blocks, &spans);
    }

    fn register(
        &mut self,
        sessions: &mut dyn Sessions,
        class: usize,
        blocks: &[u32],
        spans: &[Span],
    ) -> Result<(), SessionError> {
        self.epoch += 1;
        let session = self.readings[class];
        for span in spans {
            let registered = sessions.read(session, span.range, self.block, Parameter(self.epoch));
            if let Err(error) = registered {
                self.refused = Some(error);
                return Err(error);
            }
            for unwanted in &span.unwanted {
                // What is not withdrawn is read in vain.
                let _ = sessions.abort_range(session, *unwanted);
            }
            for b in blocks.get(span.blocks.clone()).unwrap_or_default() {
                self.loose[class].remove(b);
            }
        }
        Ok(())
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

    fn size(&self, range: LbnRange) -> u64 {
        range.len().get().saturating_mul(self.sector.get())
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
        // A foreground read that began before the place was vacated is still to have the old bytes.
        !self.halted
            && !self.closed
            && wanted.session == self.writing
            && !self.readers.contains_key(&destination.start().get())
            && self.staging.give(b, offset, into)
    }
}

/// Three sessions, or none.
fn open_all(sessions: &mut dyn Sessions, priority: Priority) -> Result<[SessionId; 3], SessionError> {
    let mut open = Vec::with_capacity(3);
    loop {
        match (open.as_slice(), sessions.open(priority)) {
            (&[a, b], Ok(c)) => return Ok([a, b, c]),
            (_, Ok(session)) => open.push(session),
            (_, Err(error)) => {
                // They were opened here and hold nothing.
                for session in open {
                    let _ = sessions.close(session);
                }
                return Err(error);
            }
        }
    }
}

/// Destinations that are no block's source, in order, those that touch made one.
fn free_places(plan: &Plan) -> Vec<(u64, u64)> {
    let mut free: Vec<(u64, u64)> = plan
        .blocks()
        .iter()
        .zip(plan.ahead())
        .filter(|(_, ahead)| **ahead == NONE)
        .map(|(b, _)| (b.to, b.to + u64::from(b.sectors)))
        .collect();
    free.sort_unstable();
    free.dedup_by(|next, last| {
        let touches = next.0 == last.1;
        if touches {
            last.1 = next.1;
        }
        touches
    });
    free
}
