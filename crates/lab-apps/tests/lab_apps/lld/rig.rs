//! A host for a log on a medium of bytes that can lose power, beside a model of the client's data.

use lab_apps::lld::{
    CleanError, Data, ForegroundCleaner, FreeCleaner, FreeConfig, Log, LogConfig, LogicalBlock, Reads,
    SegmentIndex, Sequence, State, Step, Taken, WriteError, recover,
};
use proptest::prelude::*;
use scheduler::{Record, SessionCall, SessionError, Sessions};
use std::collections::BTreeMap;
use std::convert::Infallible;
use units::{Instant, LbnRange, Op, SessionId, TaskId};

/// The content of a client's block; `None` if it has none.
pub type Content = Option<Vec<u8>>;

/// An event in the history of a log.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    Write(u32),
    Trim(u32),
    Seal,
    WriteOut,
    /// A step of the free cleaner.
    Step,
    /// The scheduler reads a block of its choice, and delivers it at once or later.
    Read {
        choice: u32,
        at_once: bool,
    },
    /// A record read before is delivered, even if its task was aborted meanwhile.
    Deliver {
        choice: u32,
    },
    /// Power fails after this number of further writes, in the next one; of that write, the sectors in the mask
    /// arrive.
    FailIn {
        writes: u8,
        arrive: u64,
    },
}

pub fn events(blocks: u32, crashes: bool) -> impl Strategy<Value = Event> {
    prop_oneof![
        10 => (0..blocks).prop_map(Event::Write),
        // A few hot blocks, so that segments age unevenly.
        6 => (0..blocks.div_ceil(8)).prop_map(Event::Write),
        3 => (0..blocks).prop_map(Event::Trim),
        1 => Just(Event::Seal),
        1 => Just(Event::WriteOut),
        2 => Just(Event::Step),
        8 => (any::<u32>(), any::<bool>()).prop_map(|(choice, at_once)| Event::Read { choice, at_once }),
        4 => any::<u32>().prop_map(|choice| Event::Deliver { choice }),
        u32::from(crashes) => (0..4u8, tears()).prop_map(|(writes, arrive)| Event::FailIn { writes, arrive }),
    ]
}

/// Returns the sectors of a torn write that arrive: any, none, all, all but one.
fn tears() -> impl Strategy<Value = u64> {
    prop_oneof![any::<u64>(), Just(0), Just(u64::MAX), (0..64u32).prop_map(|i| !(1 << i))]
}

/// Sizes of logs: 60 segments of 8 blocks and others, blocks of one sector and of two.
pub fn configs() -> impl Strategy<Value = LogConfig> {
    let sizes =
        [(60, 8, 1), (60, 8, 2), (20, 4, 1), (12, 20, 1), (30, 2, 1), (9, 33, 2), (4, 5, 1), (120, 3, 1)];
    (proptest::sample::select(sizes.to_vec()), 1..3u32, any::<bool>(), 2..4u32).prop_map(
        |((segments, blocks_per_segment, sectors_per_block), most_waiting, wide, minimum_free)| LogConfig {
            identity: 0x1D,
            start: units::Lbn::new(5),
            segments,
            blocks_per_segment,
            sectors_per_block,
            // More logical blocks than there is room for, or exactly that number.
            logical_blocks: segments * (blocks_per_segment - 1) * if wide { 2 } else { 1 },
            most_waiting,
            minimum_free: if segments < 9 { 2 } else { minimum_free },
            ..LogConfig::default()
        },
    )
}

/// The power failed, and the rig has recovered.
#[derive(Debug)]
struct PowerFailed;

/// A change by the client, and the sequence with which it becomes durable.
pub struct Done {
    pub block: u32,
    pub content: Content,
    pub sequence: Sequence,
}

pub struct LogRig {
    pub config: LogConfig,
    pub log: Log,
    pub medium: Vec<u8>,
    foreground: ForegroundCleaner,
    reads: Reads,
    free: Option<(FreeCleaner, FakeSessions)>,
    free_config: FreeConfig,
    /// The content when the log was opened, and the changes since.
    base: BTreeMap<u32, Vec<u8>>,
    done: Vec<Done>,
    fail_in: Option<(u8, u64)>,
    now: u64,
    /// Whether the free cleaner's steps run; a record can reach it between two of them.
    pub steps: bool,
    pub crashes: u32,
    pub free_copies: u64,
    pub foreground_copies: u64,
}

impl LogRig {
    pub fn new(config: LogConfig, reads: Reads, free: bool) -> Self {
        let log = Log::new(config).unwrap();
        let bytes = log.geometry().range().end().get() * u64::from(config.sector_bytes);
        let free_config =
            FreeConfig { start_below: config.minimum_free + 3, victims: 3, ..FreeConfig::default() };
        let mut rig = Self {
            config,
            log,
            medium: vec![0; bytes as usize],
            foreground: ForegroundCleaner::new(reads),
            reads,
            free: None,
            free_config,
            base: BTreeMap::new(),
            done: Vec::new(),
            fail_in: None,
            now: 0,
            steps: true,
            crashes: 0,
            free_copies: 0,
            foreground_copies: 0,
        };
        if free {
            rig.free = Some((FreeCleaner::new(free_config, &rig.log).unwrap(), FakeSessions::default()));
        }
        rig
    }

    /// Writes blocks from 0 on until `percent` of all slots have data, or the most that the log allows.
    pub fn fill(&mut self, percent: u32) {
        let slots = self.config.segments * (self.config.blocks_per_segment - 1);
        let blocks = (slots * percent / 100).min(self.log.geometry().capacity());
        for block in 0..blocks {
            self.happen(Event::Write(block));
        }
    }

    /// Returns the number of blocks with data.
    pub fn live(&self) -> u32 {
        self.log.mapped()
    }

    pub fn happen(&mut self, event: Event) {
        self.now += 1_000;
        let outcome = match event {
            Event::Write(block) => {
                let content = self.new_content(block);
                self.change(block, Some(content))
            }
            Event::Trim(block) => self.change(block, None),
            Event::Seal => match self.log.seal() {
                Err(WriteError::WriteOut) => self.write_out(),
                other => other.map(|_| ()).map_err(|error| panic!("{error}")),
            },
            Event::WriteOut => self.write_out(),
            Event::Step => Ok(()),
            Event::Read { choice, at_once } => {
                self.read_for_free(choice, at_once);
                Ok(())
            }
            Event::Deliver { choice } => {
                self.deliver(choice);
                Ok(())
            }
            Event::FailIn { writes, arrive } => {
                self.fail_in = Some((writes, arrive));
                Ok(())
            }
        };
        if outcome.is_ok()
            && self.steps
            && let Some((free, sessions)) = &mut self.free
        {
            free.step(&mut self.log, sessions, Instant::from_nanos(self.now)).unwrap();
        }
    }

    /// Writes or trims a block, and does all that the log demands of its host.
    fn change(&mut self, block: u32, content: Content) -> Result<(), PowerFailed> {
        loop {
            let (logical, now) = (LogicalBlock::new(block), Instant::from_nanos(self.now));
            let outcome = match &content {
                Some(data) => self.log.write(logical, data, now),
                None => self.log.trim(logical),
            };
            match outcome {
                Ok(sequence) => {
                    self.done.push(Done { block, content, sequence });
                    break;
                }
                Err(WriteError::WriteOut) => self.write_out()?,
                Err(WriteError::NeedsCleaning { .. }) => {
                    assert!(self.log.needs_cleaning(), "cleaning is asked for and not needed");
                    self.clean()?;
                }
                Err(WriteError::Full { capacity }) => {
                    assert_eq!(self.log.mapped(), capacity);
                    assert!(self.expected(block).is_none());
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        if self.log.needs_cleaning() {
            self.clean()?;
        }
        Ok(())
    }

    fn clean(&mut self) -> Result<(), PowerFailed> {
        let before = self.foreground.tally().copied;
        let mut steps = 0u32;
        loop {
            steps += 1;
            assert!(steps < 100_000, "the foreground cleaner does not come to an end");
            match self.foreground.step(&mut self.log, Instant::from_nanos(self.now)) {
                Ok(Step::Read(range)) => {
                    let bytes = self.medium[self.at(range)].to_vec();
                    self.foreground.deliver(&self.log, range, &bytes).unwrap();
                    // The drive also uses the gaps of the foreground cleaner's reads for the free cleaner.
                    for gap in 0..3 {
                        self.read_for_free(steps.wrapping_mul(0x9E37).wrapping_add(gap), true);
                    }
                }
                Ok(Step::WriteOut) => self.write_out()?,
                Ok(Step::Done) => break,
                Err(error @ CleanError::NothingToGain { .. }) => panic!("{error}\n{}", self.describe()),
                Err(error) => panic!("{error}"),
            }
        }
        self.foreground_copies += self.foreground.tally().copied - before;
        Ok(())
    }

    /// Carries out every pending write; the power may fail in any.
    fn write_out(&mut self) -> Result<(), PowerFailed> {
        while let Some(write) = self.log.pending_write() {
            let at = self.at(write.range);
            let sector = self.config.sector_bytes as usize;
            let (segment, bytes) = (write.segment, write.bytes);
            assert_eq!(bytes.len(), at.len());
            let arrive = match &mut self.fail_in {
                Some((0, arrive)) => Some(*arrive),
                Some((writes, _)) => {
                    *writes -= 1;
                    None
                }
                None => None,
            };
            let Some(mask) = arrive else {
                self.medium[at].copy_from_slice(bytes);
                self.log.written(segment).unwrap();
                self.check_superseded();
                continue;
            };
            for (i, (to, from)) in self.medium[at].chunks_mut(sector).zip(bytes.chunks(sector)).enumerate() {
                if mask >> (i % 64) & 1 == 1 {
                    to.copy_from_slice(from);
                }
            }
            self.crash();
            return Err(PowerFailed);
        }
        Ok(())
    }

    /// Loses the memory and opens the log again; checks that the log has exactly the durable state.
    pub fn crash(&mut self) {
        self.crashes += 1;
        self.fail_in = None;
        let (was_durable, in_flight) = (self.log.durable(), self.log.filling());
        let recovered =
            recover(self.config, |range| Ok::<_, Infallible>(self.medium[self.at(range)].to_vec())).unwrap();
        self.log = recovered.log;
        let durable = self.log.durable();
        assert!(durable >= was_durable, "{was_durable} was durable, {durable} came back");
        assert!(durable <= in_flight);
        for done in std::mem::take(&mut self.done) {
            if done.sequence <= durable {
                match done.content {
                    Some(data) => self.base.insert(done.block, data),
                    None => self.base.remove(&done.block),
                };
            }
        }
        self.foreground = ForegroundCleaner::new(self.reads);
        if self.free.is_some() {
            self.free =
                Some((FreeCleaner::new(self.free_config, &self.log).unwrap(), FakeSessions::default()));
        }
        self.check();
    }

    /// Checks that every block reads back the last data written, and that every count is right.
    pub fn check(&self) {
        let mut live = vec![0; self.config.segments as usize];
        let mut mapped = 0;
        for block in 0..self.config.logical_blocks {
            let logical = LogicalBlock::new(block);
            let data = match self.log.read(logical).unwrap() {
                Data::Nothing => None,
                Data::Memory(data) => Some(data),
                Data::Medium { range, checksum } => {
                    let data = &self.medium[self.at(range)];
                    assert_eq!(crc32fast::hash(data), checksum, "block {block}: not what was written");
                    Some(data)
                }
            };
            assert!(data == self.expected(block).map(Vec::as_slice), "block {block}: other data");
            let slot = self.log.slot_of(logical);
            assert_eq!(slot.is_some(), data.is_some());
            if let Some((segment, _)) = slot {
                live[segment.get() as usize] += 1;
                mapped += 1;
            }
        }
        assert_eq!(self.log.mapped(), mapped);
        let mut free = 0;
        for (i, live) in (0u32..).zip(live) {
            let info = self.log.segment(SegmentIndex::new(i)).unwrap();
            assert_eq!(info.live, live, "{} counts wrong", info.segment);
            free += u32::from(info.state == State::Free);
            if !matches!(info.state, State::Open | State::Waiting | State::Written) {
                assert_eq!((live, info.tombstones), (0, 0), "{} is {}", info.segment, info.state);
            }
            if info.state == State::Written {
                assert_eq!(self.log.live_slots(info.segment).len() as u32, live);
                assert!(live > 0 || info.tombstones > 0, "{} holds nothing and is not let go", info.segment);
            }
        }
        assert_eq!(self.log.free_segments(), free);
        self.check_free_may_be_overwritten();
    }

    /// Checks that free segments may have any content: a crash now loses nothing durable, and restores nothing
    /// trimmed.
    fn check_free_may_be_overwritten(&self) {
        let mut medium = self.medium.clone();
        for segment in self.log.geometry().segments() {
            if self.log.segment(segment).unwrap().state == State::Free {
                let slots = self.log.geometry().slots();
                medium[self.at(self.log.geometry().prefix_range(segment, slots))].fill(0xA5);
            }
        }
        let recovered =
            recover(self.config, |range| Ok::<_, Infallible>(medium[self.at(range)].to_vec())).unwrap();
        let mut durable = self.base.clone();
        for done in self.done.iter().filter(|done| done.sequence <= self.log.durable()) {
            match &done.content {
                Some(data) => durable.insert(done.block, data.clone()),
                None => durable.remove(&done.block),
            };
        }
        for block in 0..self.config.logical_blocks {
            let data = match recovered.log.read(LogicalBlock::new(block)).unwrap() {
                Data::Medium { range, .. } => Some(&medium[self.at(range)]),
                _ => None,
            };
            let owed = durable.get(&block).map(Vec::as_slice);
            assert!(data == owed, "block {block}: not what was durable, once free segments are overwritten");
        }
    }

    /// Checks that recovery from a crash now, which loses the memory between two writes, reaches the log's durable
    /// sequence.
    fn check_superseded(&self) {
        if !self.log.durable().get().is_multiple_of(7) {
            return;
        }
        let recovered =
            recover(self.config, |range| Ok::<_, Infallible>(self.medium[self.at(range)].to_vec())).unwrap();
        assert_eq!(recovered.log.durable(), self.log.durable());
    }

    /// Returns the number of blocks that the free cleaner has registered and not received.
    pub fn wanted_for_free(&self) -> usize {
        self.free.as_ref().map_or(0, |(_, sessions)| sessions.wanted.len())
    }

    /// Lets the scheduler read a block and keep it; returns its segment, slot and content.
    pub fn read_and_keep(&mut self) -> Option<(SegmentIndex, u32, Vec<u8>)> {
        self.read_for_free(0, false);
        let (record, bytes) = self.free.as_ref()?.1.under_way.last()?;
        let (segment, slot) = self.log.geometry().slot_at(record.range.start())?;
        Some((segment, slot, bytes.clone()))
    }

    /// Returns the data of a slot if it is live.
    pub fn live_bytes(&self, segment: SegmentIndex, slot: u32) -> Option<&[u8]> {
        let live = self.log.live_slots(segment).iter().any(|&(live, _)| live == slot);
        live.then(|| &self.medium[self.at(self.log.geometry().slot_range(segment, slot, 1))])
    }

    /// Asserts that no registered read is of a block that has moved or died.
    pub fn assert_wanted_are_live(&self) {
        for record in self.free.iter().flat_map(|(_, sessions)| &sessions.wanted) {
            let (segment, slot) = self.log.geometry().slot_at(record.range.start()).unwrap();
            let live = self.log.live_slots(segment).iter().any(|&(live, _)| live == slot);
            assert!(live, "slot {slot} of {segment} is dead and still to be read");
        }
    }

    fn expected(&self, block: u32) -> Option<&Vec<u8>> {
        match self.done.iter().rev().find(|done| done.block == block) {
            Some(done) => done.content.as_ref(),
            None => self.base.get(&block),
        }
    }

    /// Returns data that no other write has, so that a mix-up is detected.
    fn new_content(&self, block: u32) -> Vec<u8> {
        let stamp = [self.now.to_le_bytes(), u64::from(block).to_le_bytes()].concat();
        stamp.into_iter().cycle().take(self.log.geometry().block_bytes()).collect()
    }

    fn read_for_free(&mut self, choice: u32, at_once: bool) {
        let Some((free, sessions)) = &mut self.free else { return };
        let Some(record) = sessions.pick(choice) else { return };
        let sector = self.config.sector_bytes as usize;
        let at = record.range.start().get() as usize * sector..record.range.end().get() as usize * sector;
        let bytes = self.medium[at].to_vec();
        if at_once {
            let taken = free.record(&mut self.log, &record, &bytes).unwrap();
            self.free_copies += u64::from(taken == Taken::Moved);
        } else {
            sessions.under_way.push((record, bytes));
        }
    }

    fn deliver(&mut self, choice: u32) {
        let Some((free, sessions)) = &mut self.free else { return };
        if sessions.under_way.is_empty() {
            return;
        }
        let i = choice as usize % sessions.under_way.len();
        let (record, bytes) = sessions.under_way.swap_remove(i);
        let taken = free.record(&mut self.log, &record, &bytes).unwrap();
        self.free_copies += u64::from(taken == Taken::Moved);
        // The record comes a second time: a block that has moved is not moved again.
        let again = free.record(&mut self.log, &record, &bytes).unwrap();
        assert_eq!(again, Taken::Dropped);
    }

    fn at(&self, range: LbnRange) -> std::ops::Range<usize> {
        let sector = self.config.sector_bytes as usize;
        range.start().get() as usize * sector..range.end().get() as usize * sector
    }

    fn describe(&self) -> String {
        let rows = (0..self.config.segments).map(|i| {
            let info = self.log.segment(SegmentIndex::new(i)).unwrap();
            format!("{i}: {}, {} live, {} tombstones", info.state, info.live, info.tombstones)
        });
        rows.collect::<Vec<_>>().join("\n")
    }
}

/// A scheduler that reads registered blocks in any order.
#[derive(Default)]
pub struct FakeSessions {
    next: u64,
    wanted: Vec<Record>,
    /// Blocks read but not delivered, with the bytes at the time of the read; also those of tasks aborted since.
    under_way: Vec<(Record, Vec<u8>)>,
}

impl FakeSessions {
    fn pick(&mut self, choice: u32) -> Option<Record> {
        (!self.wanted.is_empty()).then(|| self.wanted.swap_remove(choice as usize % self.wanted.len()))
    }
}

impl Sessions for FakeSessions {
    fn call(&mut self, call: SessionCall) -> Result<u64, SessionError> {
        match call {
            SessionCall::Open { .. } => Ok(1),
            SessionCall::Register { session, op, range, block, parameter } => {
                assert_eq!(op, Op::Read, "the free cleaner writes nothing");
                self.next += 1;
                let task = TaskId::new(self.next);
                let mut start = range.start();
                while start < range.end() {
                    let once = self.wanted.iter().all(|r| r.range.start() != start);
                    assert!(once, "a block is wanted twice at once");
                    let range = LbnRange::new(start, block);
                    let (bad, last) = (None, false);
                    self.wanted.push(Record { session, task, range, op, parameter, bad, last });
                    start += block;
                }
                Ok(self.next)
            }
            SessionCall::Abort { task } => {
                let of_task = |record: &Record| record.task == task;
                let known = self.wanted.iter().any(of_task) || self.under_way.iter().any(|(r, _)| of_task(r));
                if !known {
                    return Err(SessionError::NoTask(task));
                }
                self.wanted.retain(|record| !of_task(record));
                Ok(0)
            }
            other => panic!("the free cleaner makes no such call: {other:?}"),
        }
    }

    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        let under_way = self.under_way.iter().filter(|(record, _)| record.session == session);
        Ok((self.wanted.len() + under_way.count()) as u64)
    }
}
