//! A log-structured disk in the plain part of the drive, with one cleaner in gaps and one in the foreground. A read must
//! return the last write, and exactly the durable writes must survive a power cut.

use super::seat::Seat;
use super::{House, Part, Whose, refused};
use crate::dice::Dice;
use crate::failure::{Broken, Check, hold};
use lab_apps::lld::{
    Data, ForegroundCleaner, FreeCleanError, FreeCleaner, FreeConfig, Log, LogConfig, LogicalBlock, Reads,
    SegmentIndex, Sequence, Step, Taken, WriteError, recover,
};
use scheduler::{Application, Priority, Record, Sessions, Wanted};
use sim::{Completion, Place, Platters, Volume};
use std::collections::{BTreeMap, VecDeque};
use units::{Instant, LbnRange};

/// The application: the log, and its cleaner in gaps.
pub(super) struct Disk {
    log: Log,
    free: FreeCleaner,
    failed: Option<FreeCleanError>,
    /// The number of blocks that were read in gaps and copied.
    copied: u64,
}

impl Application for Disk {
    fn done(&mut self, _: &mut dyn Sessions, done: &Record, bytes: &[u8], _: Instant) {
        match self.free.record(&mut self.log, done, bytes) {
            Ok(taken) => self.copied += u64::from(taken == Taken::Moved),
            Err(error) => self.failed = Some(error),
        }
    }

    fn buffer(&mut self, _: &Wanted, _: &mut [u8]) -> bool {
        false
    }
}

/// A call of a client to the log; calls are served one after another.
#[derive(Clone, Debug)]
enum LogCall {
    /// A write of a block, or, without content, a trim.
    Change(u32, Content),
    Read(u32),
    /// A sync, which makes all earlier writes durable.
    Sync,
}

/// The data of a block, different for each write; `None` after a trim.
type Content = Option<Vec<u8>>;

/// A write or trim that the log has accepted, and the sequence number with which it becomes durable.
#[derive(Clone, Debug)]
struct Done {
    block: u32,
    content: Content,
    sequence: Sequence,
}

/// The purpose of the log's request in progress; there is only one at a time.
#[derive(Clone, Copy, Debug)]
enum Busy {
    Segment(SegmentIndex),
    Clean(LbnRange),
    Read(u32),
}

pub(super) struct Logged {
    place: Place<Seat<Disk>>,
    config: LogConfig,
    reads: Reads,
    priority: Priority,
    cleaner: ForegroundCleaner,
    /// The unanswered calls. The first one is being served.
    calls: VecDeque<LogCall>,
    /// The time at which the service of the first call began.
    begun: Instant,
    busy: Option<Busy>,
    /// Whether all waiting segments must be written before the first call continues.
    writing: bool,
    /// Whether the foreground cleaner must finish before the first call continues.
    cleaning: bool,
    /// The number of foreground cleanings that are not yet in the history's counts.
    cleaned: u64,
    /// Whether the session of the cleaner in gaps is suspended.
    suspended: bool,
    /// The durable data of each block at the last power cut.
    base: BTreeMap<u32, Vec<u8>>,
    /// The changes since the last power cut.
    done: Vec<Done>,
    stamps: u64,
}

/// Draws the parameters of a log from a generator of its own, so that the histories of volumes without a log do not change.
/// Returns `None` if the range is too small.
fn drawn(range: LbnRange, sector_bytes: usize, seed: u64) -> Option<(LogConfig, Reads, Priority)> {
    let mut dice = Dice::new(seed.rotate_left(17));
    let (most, blocks_per_segment, sectors_per_block) =
        [(12, 6, 1), (20, 4, 1), (30, 3, 1), (9, 8, 2)][dice.below(4) as usize];
    let room = range.len().get() / (blocks_per_segment * sectors_per_block);
    let segments = most.min(room) as u32;
    let slots = segments * (blocks_per_segment as u32 - 1);
    let config = LogConfig {
        identity: dice.next(),
        start: range.start(),
        segments,
        blocks_per_segment: blocks_per_segment as u32,
        sectors_per_block: sectors_per_block as u32,
        sector_bytes: sector_bytes as u32,
        // Either more blocks than the log has room for, or exactly as many.
        logical_blocks: if dice.one_in(2) { 2 * slots } else { slots },
        minimum_free: 2,
        most_waiting: dice.range(1, 2) as u32,
    };
    let reads = [Reads::Block, Reads::Run, Reads::Segment][dice.below(3) as usize];
    let priority = Priority::new(dice.range(1, 100) as u8).unwrap_or_default();
    Log::new(config).is_ok().then_some((config, reads, priority))
}

impl Logged {
    /// Starts a log in a part of the drive. Returns `None` if the part is too small.
    pub fn new(
        volume: &mut Volume,
        range: LbnRange,
        sector: usize,
        seed: u64,
    ) -> Result<Option<Self>, Broken> {
        let Some((config, reads, priority)) = drawn(range, sector, seed) else { return Ok(None) };
        let mut logged = Self {
            place: volume.host(Seat(None)),
            config,
            reads,
            priority,
            cleaner: ForegroundCleaner::new(reads),
            calls: VecDeque::new(),
            begun: volume.now(),
            busy: None,
            writing: false,
            cleaning: false,
            cleaned: 0,
            suspended: false,
            base: BTreeMap::new(),
            done: Vec::new(),
            stamps: 0,
        };
        logged.begin(volume, Log::new(config).map_err(refused)?)?;
        Ok(Some(logged))
    }

    pub fn drawn(&self) -> String {
        format!("{:?} {:?} {:?}", self.config, self.reads, self.priority)
    }

    fn begin(&mut self, volume: &mut Volume, log: Log) -> Result<(), Broken> {
        let config = FreeConfig { start_below: 6, victims: 3, priority: self.priority };
        let free = FreeCleaner::new(config, &log).map_err(refused)?;
        let disk = Disk { log, free, failed: None, copied: 0 };
        volume.call(self.place, |seat, _| seat.0 = Some(disk));
        self.look_around(volume)
    }

    fn disk<'a>(&self, volume: &'a Volume) -> Option<&'a Disk> {
        volume.app(self.place)?.0.as_ref()
    }

    fn with<R>(
        &self,
        volume: &mut Volume,
        call: impl FnOnce(&mut Disk, &mut dyn Sessions) -> R,
    ) -> Result<R, Broken> {
        let reported =
            volume.call(self.place, |seat, sessions| seat.0.as_mut().map(|disk| call(disk, sessions)));
        reported.flatten().ok_or_else(|| refused("there is no log"))
    }

    /// Lets the cleaner in gaps react to a change of the log.
    fn look_around(&self, volume: &mut Volume) -> Result<(), Broken> {
        let now = volume.now();
        let reported = self.with(volume, |disk, sessions| {
            let stepped = disk.free.step(&mut disk.log, sessions, now);
            disk.failed.take().map_or(stepped, Err)
        })?;
        reported.map_err(refused)
    }

    /// Returns the number of unanswered calls.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns the time at which the service of the current call began.
    pub fn oldest(&self) -> Option<Instant> {
        (!self.calls.is_empty()).then_some(self.begun)
    }

    pub fn suspend(&mut self, volume: &mut Volume, on: bool) -> Result<(), Broken> {
        self.suspended = on;
        let reported = self.with(volume, |disk, sessions| match (disk.free.session(), on) {
            (None, _) => Ok(()),
            (Some(session), true) => sessions.suspend(session),
            (Some(session), false) => sessions.resume(session),
        })?;
        reported.map_err(refused)
    }

    fn ask(&mut self, call: LogCall, now: Instant) {
        if self.calls.is_empty() {
            self.begun = now;
        }
        self.calls.push_back(call);
    }

    fn answered(&mut self, now: Instant) {
        self.calls.pop_front();
        self.begun = now;
    }

    /// Serves calls until a request is needed or no call is left. Returns the request, and whether anything was done.
    fn go_on(&mut self, volume: &mut Volume) -> Result<(Option<Wish>, bool), Broken> {
        let mut did = false;
        while self.busy.is_none() {
            let now = volume.now();
            if self.writing {
                did = true;
                let next = self.with(volume, |disk, _| {
                    disk.log.pending_write().map(|w| (w.segment, w.range, w.bytes.to_vec()))
                })?;
                let Some((segment, range, bytes)) = next else {
                    self.writing = false;
                    continue;
                };
                self.busy = Some(Busy::Segment(segment));
                return Ok((Some(Wish::Write(range, bytes)), true));
            }
            if self.cleaning {
                did = true;
                let Self { cleaner, place, .. } = &mut *self;
                let step = volume
                    .call(*place, |seat, _| seat.0.as_mut().map(|disk| cleaner.step(&mut disk.log, now)));
                match step.flatten().ok_or_else(|| refused("there is no log"))?.map_err(refused)? {
                    Step::Read(range) => {
                        self.busy = Some(Busy::Clean(range));
                        return Ok((Some(Wish::Read(range)), true));
                    }
                    Step::WriteOut => self.writing = true,
                    Step::Done => {
                        self.cleaning = false;
                        self.cleaned += 1;
                        self.look_around(volume)?;
                    }
                }
                continue;
            }
            let Some(call) = self.calls.front().cloned() else { break };
            did = true;
            if let Some(range) = self.serve(volume, call, now)? {
                return Ok((Some(Wish::Read(range)), true));
            }
        }
        Ok((None, did))
    }

    /// Continues the first call. Returns the range that must be read for the call, if any.
    fn serve(
        &mut self,
        volume: &mut Volume,
        call: LogCall,
        now: Instant,
    ) -> Result<Option<LbnRange>, Broken> {
        match call {
            LogCall::Change(block, content) => self.change(volume, block, content, now)?,
            LogCall::Read(block) => {
                let found = self.with(volume, |disk, _| {
                    disk.log.read(LogicalBlock::new(block)).map(|data| match data {
                        Data::Nothing => Ok(None),
                        Data::Memory(data) => Ok(Some(data.to_vec())),
                        Data::Medium { range, .. } => Err(range),
                    })
                })?;
                match found.map_err(refused)? {
                    Ok(found) => {
                        self.check_read(block, found.as_deref())?;
                        self.answered(now);
                    }
                    Err(range) => {
                        self.busy = Some(Busy::Read(block));
                        return Ok(Some(range));
                    }
                }
            }
            LogCall::Sync => {
                let sealed = self.with(volume, |disk, _| disk.log.seal())?;
                let waits = self.with(volume, |disk, _| disk.log.pending_write().is_some())?;
                match sealed {
                    Ok(_) if !waits => self.answered(now),
                    Ok(_) | Err(WriteError::WriteOut) => self.writing = true,
                    Err(error) => return Err(refused(error)),
                }
            }
        }
        Ok(None)
    }

    fn change(
        &mut self,
        volume: &mut Volume,
        block: u32,
        content: Content,
        now: Instant,
    ) -> Result<(), Broken> {
        let logical = LogicalBlock::new(block);
        let changed = self.with(volume, |disk, _| match &content {
            Some(data) => disk.log.write(logical, data, now),
            None => disk.log.trim(logical),
        })?;
        match changed {
            Ok(sequence) => self.done.push(Done { block, content, sequence }),
            Err(WriteError::WriteOut) => {
                self.writing = true;
                return Ok(());
            }
            Err(WriteError::NeedsCleaning { .. }) => {
                self.cleaning = true;
                return Ok(());
            }
            Err(WriteError::Full { capacity }) => {
                let mapped = self.with(volume, |disk, _| disk.log.mapped())?;
                hold(mapped == capacity, Check::Refusal, || {
                    format!("the log is full with {mapped} blocks of {capacity}")
                })?;
            }
            Err(error) => return Err(refused(error)),
        }
        self.answered(now);
        self.look_around(volume)?;
        self.cleaning = self.with(volume, |disk, _| disk.log.needs_cleaning())?;
        Ok(())
    }

    /// Returns the current content of a block.
    fn now_in(&self, block: u32) -> Option<&[u8]> {
        match self.done.iter().rev().find(|done| done.block == block) {
            Some(done) => done.content.as_deref(),
            None => self.base.get(&block).map(Vec::as_slice),
        }
    }

    fn check_read(&self, block: u32, found: Option<&[u8]>) -> Result<(), Broken> {
        hold(found == self.now_in(block), Check::Stale, || {
            format!("block {block} of the log does not read as it was written last")
        })
    }

    /// Handles the completion of the log's request.
    fn completed(&mut self, volume: &mut Volume, done: &Completion) -> Result<(), Broken> {
        match self.busy.take() {
            None => Err((Check::Once, "the log is answered, and has asked for nothing".into())),
            Some(Busy::Segment(segment)) => {
                let reported = self.with(volume, |disk, _| disk.log.written(segment))?;
                reported.map_err(|_| refused("the log does not know what it had written"))?;
                self.look_around(volume)
            }
            Some(Busy::Clean(range)) => {
                let Self { cleaner, place, .. } = &mut *self;
                let reported = volume.call(*place, |seat, _| {
                    seat.0.as_ref().map(|disk| cleaner.deliver(&disk.log, range, &done.bytes))
                });
                reported.flatten().unwrap_or(Ok(())).map_err(refused)
            }
            Some(Busy::Read(block)) => {
                self.check_read(block, Some(&done.bytes))?;
                let now = volume.now();
                self.answered(now);
                Ok(())
            }
        }
    }

    /// Computes the data that must survive a power cut: the result of all changes up to the sequence number `durable`.
    fn owed(&mut self, durable: Sequence) {
        for done in self.done.drain(..).filter(|done| done.sequence <= durable) {
            match done.content {
                Some(data) => self.base.insert(done.block, data),
                None => self.base.remove(&done.block),
            };
        }
    }

    /// Checks after a power cut that every block has the required content on the medium.
    fn check_owed(&self, platters: &Platters, log: &Log) -> Result<(), Broken> {
        for block in 0..self.config.logical_blocks {
            let found = match log.read(LogicalBlock::new(block)).map_err(refused)? {
                Data::Medium { range, .. } => Some(raw(platters, &self.config, range)?),
                Data::Memory(_) | Data::Nothing => None,
            };
            hold(found.as_ref() == self.base.get(&block), Check::Flushed, || {
                format!("after a power cut block {block} of the log differs from its durable bytes")
            })?;
        }
        Ok(())
    }
}

/// A request that the log needs.
enum Wish {
    Read(LbnRange),
    Write(LbnRange, Vec<u8>),
}

fn raw(platters: &Platters, config: &LogConfig, range: LbnRange) -> Result<Vec<u8>, Broken> {
    let mut bytes = vec![0; range.len().get() as usize * config.sector_bytes as usize];
    platters.medium().read(range, &mut bytes).map_err(refused)?;
    Ok(bytes)
}

/// The log's sequence numbers before a power cut: the last durable one, and that of the segment being filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    durable: Sequence,
    filling: Sequence,
}

impl House {
    /// Returns whether a log-structured disk occupies this part of the drive.
    pub(super) fn is_logged(&self, part: Part) -> bool {
        part == Part::Plain && self.logged.is_some()
    }

    /// Adds calls of a client to the log, one for each sector of a range of the plain part.
    pub(super) fn ask_log(&mut self, what: LogOperation, range: LbnRange) {
        let (now, first) = (self.now(), self.range_of(Part::Plain).start());
        let Some(logged) = &mut self.logged else { return };
        for sector in 0..range.len().get() {
            let blocks = u64::from(logged.config.logical_blocks);
            let block = ((range.start().since(first).get() + sector) % blocks) as u32;
            let call = match what {
                LogOperation::Read => LogCall::Read(block),
                LogOperation::Trim => LogCall::Change(block, None),
                LogOperation::Write => {
                    logged.stamps += 1;
                    let stamp = [logged.stamps.to_le_bytes(), u64::from(block).to_le_bytes()].concat();
                    let bytes = (logged.config.sectors_per_block * logged.config.sector_bytes) as usize;
                    LogCall::Change(block, Some(stamp.into_iter().cycle().take(bytes).collect()))
                }
            };
            logged.ask(call, now);
        }
    }

    /// Adds a sync to the calls of the log.
    pub(super) fn sync_log(&mut self) {
        let now = self.now();
        if let Some(logged) = &mut self.logged {
            logged.ask(LogCall::Sync, now);
        }
    }

    /// Lets the log serve its calls. Returns whether anything was done.
    pub(super) fn poll_log(&mut self) -> Result<bool, Broken> {
        let Self { logged: Some(logged), volume, requests, counts, .. } = self else { return Ok(false) };
        let reported = logged.go_on(volume);
        counts.cleaned += std::mem::take(&mut logged.cleaned);
        counts.copied += logged.with(volume, |disk, _| std::mem::take(&mut disk.copied))?;
        let (wish, did) = reported?;
        let request = match wish {
            None => return Ok(did),
            Some(Wish::Read(range)) => volume.submit_read(range),
            Some(Wish::Write(range, bytes)) => volume.submit_write(range, bytes),
        };
        requests.insert(request.map_err(refused)?, Whose::Log);
        Ok(true)
    }

    pub(super) fn log_completed(&mut self, done: &Completion) -> Result<(), Broken> {
        let Self { logged: Some(logged), volume, counts, .. } = self else { return Ok(()) };
        counts.logged += 1;
        logged.completed(volume, done)
    }

    pub(super) fn suspend_log(&mut self, on: bool) -> Result<(), Broken> {
        let Self { logged: Some(logged), volume, .. } = self else { return Ok(()) };
        logged.suspend(volume, on)
    }

    /// Returns the log's sequence numbers, before a power cut.
    pub(super) fn log_known(&self) -> Option<Known> {
        let disk = self.logged.as_ref()?.disk(&self.volume)?;
        Some(Known { durable: disk.log.durable(), filling: disk.log.filling() })
    }

    /// Recovers the log after a power cut, and checks that it has exactly the durable data.
    pub(super) fn log_restarts(&mut self, known: Option<Known>) -> Result<(), Broken> {
        let Self { logged: Some(logged), volume, .. } = self else { return Ok(()) };
        let config = logged.config;
        let reported =
            recover(config, |range| raw(volume.platters(), &config, range).map_err(|(_, what)| what));
        let log = reported.map_err(|error| refused(format!("{error:?}")))?.log;
        let durable = log.durable();
        let right = known.is_none_or(|known| (known.durable..=known.filling).contains(&durable));
        hold(right, Check::Flushed, || {
            format!("after a power cut the log is durable up to {durable:?}: {known:?}")
        })?;
        logged.owed(durable);
        logged.check_owed(volume.platters(), &log)?;
        logged.calls.clear();
        (logged.busy, logged.writing, logged.cleaning, logged.suspended) = (None, false, false, false);
        logged.cleaner = ForegroundCleaner::new(logged.reads);
        logged.place = volume.host(Seat(None));
        logged.begin(volume, log)
    }

    pub(super) fn log_calls(&self) -> usize {
        self.logged.as_ref().map_or(0, Logged::calls)
    }
}

/// The operation of a client on the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogOperation {
    Read,
    Write,
    Trim,
}
