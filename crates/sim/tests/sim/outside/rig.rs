//! A host with a noiseless drive, a medium with bad sectors, and a naive model of the sessions' wanted blocks.

use drive::Drive;
use model::profile::{ReadAhead, WriteBack};
use model::random_profile::{Size, random_profile};
use model::{DriveModel, Profile, builtin};
use proptest::prelude::*;
use scheduler::{
    Buffers, Command, Config, Outcome, Output, OutsideConfig, OutsideDrive, Overheads, Parameter, Priority,
    Purpose, Record, Request, SessionError, Sessions, Wanted,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId, TaskId, TrackIndex};

/// Returns a random drive behind its interface: without read-ahead and buffer, so that every command goes to the medium.
pub fn profile(seed: u64, size: Size) -> Profile {
    let mut profile = random_profile(seed, size);
    let mut firmware = builtin::find("seagate-cheetah-18lp").unwrap().firmware.unwrap();
    firmware.queue_depth = 2;
    firmware.cache.enabled = false;
    firmware.cache.read_ahead = ReadAhead::None;
    firmware.cache.write_back = WriteBack::None;
    profile.firmware = Some(firmware);
    profile
}

pub fn paper(profile: &Profile, conservatism: Duration) -> OutsideConfig {
    let model = DriveModel::from_profile(profile).unwrap();
    let overheads = Overheads::of(profile.firmware.as_ref().unwrap(), &model, false);
    OutsideConfig::paper(overheads, conservatism)
}

/// A registered task of which a client has not yet received all blocks.
#[derive(Clone, Debug)]
struct Owed {
    op: Op,
    range: LbnRange,
    block: u64,
    /// The number of commands that were done when the task was registered.
    since: u64,
    blocks: BTreeSet<u64>,
}

pub struct Rig {
    pub core: OutsideDrive,
    drive: Drive,
    model: Arc<DriveModel>,
    pub now: Instant,
    capacity: u64,
    sent: BTreeMap<u64, Command>,
    asked: BTreeMap<u64, (LbnRange, Op)>,
    next_id: u64,
    owed: BTreeMap<TaskId, Owed>,
    pub sessions: Vec<SessionId>,
    /// The number of the last command that read or wrote each LBN.
    touched: Vec<[u64; 2]>,
    done: u64,
    pub bad: BTreeSet<u64>,
    /// Whether a failed command reports only its first bad sector.
    pub stops: bool,
    /// Whether a failed command returns no data at all.
    pub loses_data: bool,
    /// The host gives up on one command in this number.
    pub loses_commands: Option<u64>,
    /// Requests whose commands were lost.
    lost: BTreeSet<u64>,
    /// Whether each completion must come as predicted.
    pub exact: bool,
    /// Buffers are available in this number of eight cases.
    pub ready: u64,
    asked_buffers: u64,
    pub log: Vec<String>,
    pub most_at_drive: usize,
    pub merged: u64,
    pub detours: u64,
    /// Whether detours are as in the paper: before a foreground request, on neither its track nor that of the
    /// preceding command.
    pub as_in_the_paper: bool,
    /// The last track of the last command, and the track of a detour whose request is not sent yet.
    source: Option<TrackIndex>,
    detour: Option<TrackIndex>,
}

struct Desk {
    ready: u64,
    asked: u64,
}

impl Buffers for Desk {
    fn ready(&mut self, _: &Wanted) -> bool {
        self.asked += 1;
        self.asked.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 61 < self.ready
    }
}

impl Rig {
    pub fn new(profile: &Profile, config: Config) -> Self {
        Self::over(profile, DriveModel::from_profile(profile).unwrap(), config)
    }

    /// Returns a rig whose core knows only the drive's size.
    pub fn blind(profile: &Profile, config: Config) -> Self {
        let truth = DriveModel::from_profile(profile).unwrap();
        let known = DriveModel::unknown(truth.layout().capacity(), truth.sector_bytes()).unwrap();
        Self { exact: false, ..Self::over(profile, known, config) }
    }

    fn over(profile: &Profile, model: DriveModel, config: Config) -> Self {
        let model = Arc::new(model);
        let capacity = model.layout().capacity().get();
        let mut core = OutsideDrive::new(Arc::clone(&model), config);
        let sessions =
            vec![core.open(Priority::default()).unwrap(), core.open(Priority::new(70).unwrap()).unwrap()];
        Self {
            core,
            drive: Drive::new(profile).unwrap(),
            model,
            now: Instant::ZERO,
            capacity,
            sent: BTreeMap::new(),
            asked: BTreeMap::new(),
            next_id: 0,
            owed: BTreeMap::new(),
            sessions,
            touched: vec![[0; 2]; capacity as usize],
            done: 0,
            bad: BTreeSet::new(),
            stops: false,
            loses_data: false,
            loses_commands: None,
            lost: BTreeSet::new(),
            exact: true,
            ready: 8,
            asked_buffers: 0,
            log: Vec::new(),
            most_at_drive: 0,
            merged: 0,
            detours: 0,
            as_in_the_paper: false,
            source: None,
            detour: None,
        }
    }

    pub fn range(&self, at: u64, len: u64) -> LbnRange {
        let len = len.clamp(1, self.capacity);
        LbnRange::new(Lbn::new(at % (self.capacity - len + 1)), Sectors::new(len))
    }

    pub fn submit(&mut self, op: Op, range: LbnRange) -> Result<(), TestCaseError> {
        let id = RequestId::new(self.next_id);
        self.next_id += 1;
        self.core.submit(self.now, Request { id, op, range }).unwrap();
        self.asked.insert(id.get(), (range, op));
        self.poll()
    }

    pub fn register(&mut self, session: usize, op: Op, range: LbnRange, block: u64) -> TaskId {
        let session = self.sessions[session % self.sessions.len()];
        let size = Sectors::new(block);
        let task = match op {
            Op::Read => self.core.read(session, range, size, Parameter(7)),
            Op::Write => self.core.write(session, range, size, Parameter(7)),
        }
        .unwrap();
        let blocks = (0..range.len().get().div_ceil(block)).collect();
        self.owed.insert(task, Owed { op, range, block, since: self.done, blocks });
        task
    }

    pub fn abort(&mut self, nth: usize) -> Result<(), TestCaseError> {
        let Some(&task) = self.owed.keys().nth(nth % self.owed.len().max(1)) else { return Ok(()) };
        let owed = self.owed.remove(&task).unwrap();
        match self.core.abort(task) {
            Ok(left) => prop_assert_eq!(left, owed.blocks.len() as u64),
            Err(error) => prop_assert!(owed.blocks.is_empty(), "{} {:?}", error, SessionError::NoTask(task)),
        }
        Ok(())
    }

    /// Loses everything at the drive, which is replaced by another.
    pub fn lose(&mut self, profile: &Profile) -> Result<(), TestCaseError> {
        self.drive = Drive::new(profile).unwrap();
        self.drive.advance(self.now);
        self.sent.clear();
        self.exact = false;
        // The position of another drive's head is unknown.
        self.as_in_the_paper = false;
        self.core.lost(self.now);
        self.poll()
    }

    /// Processes the next completion or wake-up. Returns false without one.
    pub fn step(&mut self) -> Result<bool, TestCaseError> {
        let next = [self.drive.next_event(), self.core.wake_at()].into_iter().flatten().min();
        let Some(at) = next else { return Ok(false) };
        self.wait_until(at)?;
        Ok(true)
    }

    pub fn wait_until(&mut self, until: Instant) -> Result<(), TestCaseError> {
        loop {
            let next = [self.drive.next_event(), self.core.wake_at()].into_iter().flatten().min();
            let at = next.filter(|at| *at <= until);
            self.now = self.now.max(at.unwrap_or(until));
            self.drive.advance(self.now);
            while let Some(done) = self.drive.pop_completion() {
                let command = self.sent.remove(&done.id.get());
                prop_assert!(command.is_some(), "a completion of a command that was not sent");
                self.complete(command.unwrap(), done.at)?;
            }
            self.poll()?;
            if at.is_none_or(|at| at == until) {
                return Ok(());
            }
        }
    }

    fn complete(&mut self, command: Command, at: Instant) -> Result<(), TestCaseError> {
        if self.exact {
            prop_assert_eq!(self.core.predicted(command.id), Some(at), "{:?}", command);
        }
        self.done += 1;
        if self.loses_commands.is_some_and(|many| self.done.is_multiple_of(many)) {
            // Whether the drive has carried out the command is unknown, and the core must assume neither. The
            // position of the head is unknown, too.
            self.source = None;
            self.lost.extend(command.request.map(RequestId::get));
            self.core.command_done(at, command.id, Outcome::Lost);
            return Ok(());
        }
        let inside: Vec<u64> =
            self.bad.range(command.range.start().get()..command.range.end().get()).copied().collect();
        let stop = inside.first().copied().filter(|_| self.stops);
        for lbn in command.range.start().get()..stop.unwrap_or(command.range.end().get()) {
            if !self.bad.contains(&lbn) && (inside.is_empty() || !self.loses_data) {
                self.touched[lbn as usize][usize::from(command.op.is_write())] = self.done;
            }
        }
        let bad: Vec<Lbn> = inside.iter().map(|&lbn| Lbn::new(lbn)).collect();
        let outcome = match stop {
            Some(lbn) => Outcome::StoppedAt(Lbn::new(lbn)),
            None if bad.is_empty() => Outcome::Done,
            None if self.loses_data => Outcome::NoData(bad[0]),
            None => Outcome::Bad(&bad),
        };
        if outcome != Outcome::Done {
            // The position of the head after a failure is unknown, too.
            self.source = None;
        }
        self.core.command_done(at, command.id, outcome);
        Ok(())
    }

    fn poll(&mut self) -> Result<(), TestCaseError> {
        loop {
            let mut desk = Desk { ready: self.ready, asked: self.asked_buffers };
            let output = self.core.poll_with(self.now, &mut desk);
            self.asked_buffers = desk.asked;
            let Some(output) = output else { return Ok(()) };
            self.log.push(format!("{} {output:?}", self.now));
            match output {
                Output::Do(command) => self.send(command)?,
                Output::Completed(id) => {
                    let asked = self.asked.remove(&id.get());
                    prop_assert!(asked.is_some(), "{} twice or never asked", id);
                    let (range, _) = asked.unwrap();
                    let bad = self.bad.range(range.start().get()..range.end().get()).next();
                    prop_assert_eq!(bad, None);
                    prop_assert!(!self.lost.contains(&id.get()), "{} is not known to be done", id);
                }
                Output::Failed { id, bad } => {
                    let asked = self.asked.remove(&id.get());
                    prop_assert!(asked.is_some(), "{} twice or never asked", id);
                    let (range, _) = asked.unwrap();
                    if self.lost.remove(&id.get()) {
                        continue;
                    }
                    let first = self.bad.range(range.start().get()..range.end().get()).next();
                    prop_assert_eq!(first, Some(&bad.get()));
                }
                Output::Deliver(record) => self.delivered(&record)?,
            }
        }
    }

    fn send(&mut self, command: Command) -> Result<(), TestCaseError> {
        let to_drive =
            drive::Command { id: RequestId::new(command.id.get()), op: command.op, range: command.range };
        let refused = self.drive.submit(self.now, to_drive).err();
        prop_assert_eq!(refused, None);
        self.sent.insert(command.id.get(), command.clone());
        prop_assert_eq!(self.sent.len(), self.core.at_drive());
        self.most_at_drive = self.most_at_drive.max(self.sent.len());
        if let Some(asked) = command.foreground {
            prop_assert_eq!(command.purpose, Purpose::Foreground);
            prop_assert_eq!(asked.end(), command.range.end(), "merged in front, or not at all");
            prop_assert!(command.range.covers(asked));
            if asked != command.range {
                self.merged += 1;
                let track = |lbn| self.model.layout().locate(lbn).unwrap().track;
                prop_assert_eq!(track(asked.start()), track(command.range.start()));
            }
        }
        let is_detour = command.foreground.is_none() && matches!(command.purpose, Purpose::Background { .. });
        let tracks: Vec<TrackIndex> =
            self.model.layout().pieces(command.range).map(|piece| piece.track).collect();
        if let Some(detour) = self.detour.take().filter(|_| self.as_in_the_paper) {
            prop_assert!(command.foreground.is_some(), "{:?} between a detour and its request", command);
            prop_assert!(!tracks.contains(&detour), "{} on the destination track", detour);
        }
        if is_detour {
            self.detours += 1;
            prop_assert!(tracks.iter().all(|track| *track == tracks[0]), "on one track");
            let on_source = self.as_in_the_paper && self.source == Some(tracks[0]);
            prop_assert!(!on_source, "{:?} on the source track", command);
            self.detour = Some(tracks[0]);
        }
        self.source = tracks.last().copied();
        Ok(())
    }

    fn delivered(&mut self, record: &Record) -> Result<(), TestCaseError> {
        let Some(owed) = self.owed.get_mut(&record.task) else {
            return Err(TestCaseError::fail(format!("{record:?} of no task")));
        };
        prop_assert_eq!(owed.op, record.op);
        let offset = record.range.start().since(owed.range.start()).get();
        prop_assert_eq!(offset % owed.block, 0);
        let len = owed.block.min(owed.range.len().get() - offset);
        prop_assert_eq!(record.range.len().get(), len);
        prop_assert!(owed.blocks.remove(&(offset / owed.block)), "{:?} a second time", record);
        match record.bad {
            Some(bad) => {
                prop_assert!(record.range.contains(bad) && self.bad.contains(&bad.get()), "{:?}", record);
            }
            None => {
                for lbn in record.range.start().get()..record.range.end().get() {
                    let [read, written] = self.touched[lbn as usize];
                    let last = if record.op.is_write() { written } else { read.max(written) };
                    prop_assert!(last > owed.since, "{:?}: LBN {} was not touched", record, lbn);
                }
            }
        }
        Ok(())
    }

    /// Runs to the last event; then every block must have been delivered.
    pub fn finish(&mut self) -> Result<(), TestCaseError> {
        self.ready = 8;
        for &session in &self.sessions {
            self.core.resume(session).unwrap();
        }
        let mut rounds = 0;
        self.poll()?;
        while self.step()? {
            rounds += 1;
            prop_assert!(
                rounds < 1_500,
                "it does not come to an end: bad {:?} {:?}",
                self.bad,
                self.log.iter().rev().take(6).collect::<Vec<_>>()
            );
        }
        prop_assert!(self.asked.is_empty(), "never done: {:?}", self.asked);
        for owed in self.owed.values() {
            prop_assert!(owed.blocks.is_empty(), "never delivered: {:?}", owed);
        }
        prop_assert_eq!(self.core.at_drive(), 0);
        Ok(())
    }
}

pub fn outside(config: OutsideConfig) -> Config {
    Config::outside(config)
}
