//! The log-structured disk with both its cleaners: after every power cut exactly the durable data are back, and reads
//! find the last data written.

use super::world::{World, worlds};
use crate::lld::rig::{Content, Done};
use lab_apps::lld::{
    Data, ForegroundCleaner, FreeCleanError, FreeCleaner, FreeConfig, Log, LogConfig, LogicalBlock, Reads,
    Sequence, Step, Taken, WriteError, recover,
};
use proptest::prelude::*;
use scheduler::policy::PolicyName;
use scheduler::{Application, Record, Sessions};
use sim::{Completion, Place, Platters, Volume};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::num::NonZeroU64;
use units::{Duration, Instant, Lbn, LbnRange};
use workload::random::Stream;

/// The log and its free cleaner, as the core's application.
struct Disk {
    log: Log,
    free: FreeCleaner,
    copied: u64,
    failed: Option<FreeCleanError>,
}

#[derive(Default)]
struct HostedLog(Option<Disk>);

impl Application for HostedLog {
    fn done(&mut self, _: &mut dyn Sessions, done: &Record, bytes: &[u8], _: Instant) {
        let Some(disk) = &mut self.0 else { return };
        match disk.free.record(&mut disk.log, done, bytes) {
            Ok(taken) => disk.copied += u64::from(taken == Taken::Moved),
            Err(error) => disk.failed = Some(error),
        }
    }
}

/// A call of the client.
#[derive(Clone, Copy, Debug)]
enum LogCall {
    Write(u32),
    Trim(u32),
    Read(u32),
    /// Makes everything written so far durable.
    Sync,
}

fn calls() -> impl Strategy<Value = LogCall> {
    prop_oneof![
        8 => any::<u32>().prop_map(LogCall::Write),
        // A few hot blocks, so that segments age unevenly.
        6 => (0..6u32).prop_map(LogCall::Write),
        2 => any::<u32>().prop_map(LogCall::Trim),
        3 => any::<u32>().prop_map(LogCall::Read),
        1 => Just(LogCall::Sync),
    ]
}

/// The reason for which a life ends early: the power failed, or the test did.
#[derive(Debug)]
enum Interruption {
    Cut,
    Failed(TestCaseError),
}

impl From<TestCaseError> for Interruption {
    fn from(error: TestCaseError) -> Self {
        Self::Failed(error)
    }
}

/// One life of a drive, from power-on to power cut.
struct Life {
    config: LogConfig,
    volume: Volume,
    place: Place<HostedLog>,
    foreground: ForegroundCleaner,
    cut: Option<Instant>,
    base: BTreeMap<u32, Vec<u8>>,
    done: Vec<Done>,
    stamps: u64,
}

fn config(world: &World, shape: (u32, u32, u32), wide: bool) -> LogConfig {
    let (segments, blocks_per_segment, sectors_per_block) = shape;
    LogConfig {
        identity: world.seed,
        start: Lbn::new(3),
        segments,
        blocks_per_segment,
        sectors_per_block,
        sector_bytes: world.drive().sector_bytes().get() as u32,
        // More logical blocks than there is room for, or exactly that number.
        logical_blocks: segments * (blocks_per_segment - 1) * if wide { 2 } else { 1 },
        minimum_free: 2,
        most_waiting: 2,
    }
}

impl Life {
    fn new(world: &World, config: LogConfig, log: Log, reads: Reads, mut volume: Volume) -> Self {
        world.load(&mut volume, false);
        let free = FreeConfig { start_below: 6, victims: 3, ..FreeConfig::default() };
        let free = FreeCleaner::new(free, &log).unwrap();
        let place = volume.host(HostedLog(Some(Disk { log, free, copied: 0, failed: None })));
        Self {
            config,
            volume,
            place,
            foreground: ForegroundCleaner::new(reads),
            cut: None,
            base: BTreeMap::new(),
            done: Vec::new(),
            stamps: 0,
        }
    }

    fn disk<R>(&mut self, call: impl FnOnce(&mut Disk, &mut dyn Sessions) -> R) -> R {
        self.volume.call(self.place, |host, sessions| call(host.0.as_mut().unwrap(), sessions)).unwrap()
    }

    fn log<R>(&mut self, call: impl FnOnce(&mut Log) -> R) -> R {
        self.disk(|disk, _| call(&mut disk.log))
    }

    fn look_around(&mut self) -> Result<(), Interruption> {
        let now = self.volume.now();
        let stepped = self.disk(|disk, sessions| disk.free.step(&mut disk.log, sessions, now));
        let failed = self.disk(|disk, _| disk.failed.take());
        prop_stop(stepped.is_ok() && failed.is_none(), || format!("{stepped:?} {failed:?}"))
    }

    fn pass(&mut self, time: Duration) -> Result<(), Interruption> {
        let until = self.volume.now() + time;
        if let Some(cut) = self.cut.filter(|cut| *cut <= until) {
            self.volume.run_until(cut).unwrap();
            return Err(Interruption::Cut);
        }
        self.volume.run_until(until).unwrap();
        Ok(())
    }

    /// Runs until the log's only request is done.
    fn wait(&mut self) -> Result<Completion, Interruption> {
        let end = self.volume.now() + Duration::from_secs(600);
        loop {
            if let Some(done) = self.volume.completion() {
                prop_stop(done.bad.is_none(), || format!("the medium is good, and {done:?}"))?;
                return Ok(done);
            }
            let next = self.volume.next_at();
            prop_stop(next.is_some_and(|at| at < end), || "a request that is never done".into())?;
            if let Some(cut) = self.cut.filter(|cut| next.is_some_and(|at| at > *cut)) {
                self.volume.run_until(cut).unwrap();
                return Err(Interruption::Cut);
            }
            self.volume.step().unwrap();
        }
    }

    fn read(&mut self, range: LbnRange) -> Result<Vec<u8>, Interruption> {
        self.volume.submit_read(range).unwrap();
        self.wait().map(|done| done.bytes)
    }

    fn write_out(&mut self) -> Result<(), Interruption> {
        while let Some((segment, range, bytes)) =
            self.log(|log| log.pending_write().map(|w| (w.segment, w.range, w.bytes.to_vec())))
        {
            self.volume.submit_write(range, bytes).unwrap();
            self.wait()?;
            self.log(|log| log.written(segment)).unwrap();
            self.look_around()?;
        }
        Ok(())
    }

    fn clean(&mut self) -> Result<(), Interruption> {
        for _ in 0..10_000 {
            let now = self.volume.now();
            let Self { foreground, volume, place, .. } = self;
            let step = volume.call(*place, |host, _| foreground.step(&mut host.0.as_mut().unwrap().log, now));
            match step.unwrap() {
                Ok(Step::Read(range)) => {
                    let bytes = self.read(range)?;
                    let Self { foreground, volume, place, .. } = self;
                    let taken = volume.call(*place, |host, _| {
                        foreground.deliver(&host.0.as_ref().unwrap().log, range, &bytes)
                    });
                    prop_stop(taken.unwrap().is_ok(), || format!("{range} was not asked for"))?;
                }
                Ok(Step::WriteOut) => self.write_out()?,
                Ok(Step::Done) => return self.look_around(),
                Err(error) => return prop_stop(false, || error.to_string()),
            }
        }
        prop_stop(false, || "the foreground cleaner does not come to an end".into())
    }

    fn change(&mut self, block: u32, content: Content) -> Result<(), Interruption> {
        loop {
            let (logical, now) = (LogicalBlock::new(block), self.volume.now());
            let changed = self.log(|log| match &content {
                Some(data) => log.write(logical, data, now),
                None => log.trim(logical),
            });
            match changed {
                Ok(sequence) => {
                    self.done.push(Done { block, content, sequence });
                    break;
                }
                Err(WriteError::WriteOut) => self.write_out()?,
                Err(WriteError::NeedsCleaning { .. }) => self.clean()?,
                Err(WriteError::Full { capacity }) => {
                    let mapped = self.log(|log| log.mapped());
                    prop_stop(mapped == capacity, || format!("full with {mapped} of {capacity}"))?;
                    break;
                }
                Err(error) => return prop_stop(false, || error.to_string()),
            }
        }
        self.look_around()?;
        if self.log(|log| log.needs_cleaning()) { self.clean() } else { Ok(()) }
    }

    fn call(&mut self, call: LogCall) -> Result<(), Interruption> {
        let block = |block: u32| block % self.config.logical_blocks;
        match call {
            LogCall::Write(at) => {
                let at = block(at);
                self.stamps += 1;
                let stamp = [self.stamps.to_le_bytes(), u64::from(at).to_le_bytes()].concat();
                let bytes = self.log(|log| log.geometry().block_bytes());
                self.change(at, Some(stamp.into_iter().cycle().take(bytes).collect()))
            }
            LogCall::Trim(at) => self.change(block(at), None),
            LogCall::Read(at) => self.read_back(block(at)),
            LogCall::Sync => {
                while let Err(WriteError::WriteOut) = self.log(Log::seal) {
                    self.write_out()?;
                }
                self.write_out()
            }
        }
    }

    /// Reads a block as a client does, from memory or the medium, and checks its content.
    fn read_back(&mut self, block: u32) -> Result<(), Interruption> {
        let owned = |data: Data<'_>| match data {
            Data::Nothing => Err(None),
            Data::Memory(data) => Err(Some(data.to_vec())),
            Data::Medium { range, .. } => Ok(range),
        };
        let found = match self.log(|log| owned(log.read(LogicalBlock::new(block)).unwrap())) {
            Ok(range) => Some(self.read(range)?),
            Err(found) => found,
        };
        let written = match self.done.iter().rev().find(|done| done.block == block) {
            Some(done) => done.content.as_ref(),
            None => self.base.get(&block),
        };
        prop_stop(found.as_ref() == written, || format!("block {block} reads as something else"))
    }
}

fn prop_stop(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Interruption> {
    if holds { Ok(()) } else { Err(TestCaseError::fail(otherwise()).into()) }
}

/// Returns the content that must be there after a power cut: all changes up to the durable sequence.
fn owed(mut base: BTreeMap<u32, Vec<u8>>, done: Vec<Done>, durable: Sequence) -> BTreeMap<u32, Vec<u8>> {
    for done in done.into_iter().filter(|done| done.sequence <= durable) {
        match done.content {
            Some(data) => base.insert(done.block, data),
            None => base.remove(&done.block),
        };
    }
    base
}

/// Reads a block straight from the medium.
fn on_the_medium(platters: &Platters, log: &Log, block: u32) -> Content {
    let Data::Medium { range, checksum } = log.read(LogicalBlock::new(block)).unwrap() else { return None };
    let bytes = raw(platters, log.geometry().config(), range);
    assert_eq!(crc32fast::hash(&bytes), checksum);
    Some(bytes)
}

fn raw(platters: &Platters, config: &LogConfig, range: LbnRange) -> Vec<u8> {
    let mut bytes = vec![0; range.len().get() as usize * config.sector_bytes as usize];
    platters.medium().read(range, &mut bytes).unwrap();
    bytes
}

/// Counts of a run, which show that it exercised the cleaners.
#[derive(Clone, Copy, Debug, Default)]
struct Tried {
    for_free: u64,
    by_foreground: u64,
    torn: u64,
    detours: u64,
}

/// Runs the client's calls in several lives of a drive; all but the last end in a power cut.
fn live(
    world: &World,
    (config, reads): (LogConfig, Reads),
    lives: &[(u64, Vec<LogCall>)],
    think: Duration,
) -> Result<Tried, TestCaseError> {
    let mut tried = Tried::default();
    let (mut log, mut base, mut stamps) = (Log::new(config).unwrap(), BTreeMap::new(), 0);
    let (mut platters, mut now) = (Platters::blank(&world.drive()), Instant::ZERO);
    for (n, (cut, calls)) in (0..).zip(lives) {
        let volume = world.start(platters, now, n);
        let mut life = Life { base, stamps, ..Life::new(world, config, log, reads, volume) };
        life.cut = Some(now + Duration::from_micros(*cut)).filter(|_| n as usize + 1 < lives.len());
        let mut lived = life.look_around();
        for call in calls {
            lived = lived.and_then(|()| life.call(*call)).and_then(|()| life.pass(think));
        }
        match lived {
            Err(Interruption::Failed(error)) => return Err(error),
            // If the calls end before the power cut, the drive keeps power until then.
            Ok(()) => _ = life.pass(Duration::from_secs(2)),
            Err(Interruption::Cut) => {}
        }
        let was_durable = life.log(|log| log.durable());
        let filling = life.log(|log| log.filling());
        tried.for_free += life.disk(|disk, _| disk.copied);
        tried.by_foreground += life.foreground.tally().copied;
        tried.detours += life.volume.planner_stats().detours;
        stamps = life.stamps;
        now = life.volume.now();
        let Life { volume, done, base: before, .. } = life;
        platters = volume.power_cut().unwrap();
        let read = |range| Ok::<_, Infallible>(raw(&platters, &config, range));
        let recovered = recover(config, read).unwrap();
        let durable = recovered.log.durable();
        prop_assert!(was_durable <= durable && durable <= filling, "{was_durable} {durable} {filling}");
        base = owed(before, done, durable);
        tried.torn += u64::from(recovered.log.pending_write().is_some());
        for block in 0..config.logical_blocks {
            let found = on_the_medium(&platters, &recovered.log, block);
            prop_assert!(found.as_ref() == base.get(&block), "block {block} is not what was durable");
        }
        log = recovered.log;
    }
    Ok(tried)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_log_outlives_power_cuts_beside_its_cleaners(
        world in worlds(),
        shape in proptest::sample::select(vec![(12, 6, 1), (20, 4, 1), (30, 3, 1), (9, 8, 2)]),
        wide in any::<bool>(),
        reads in prop_oneof![Just(Reads::Block), Just(Reads::Run), Just(Reads::Segment)],
        lives in prop::collection::vec((1..3_000_000u64, prop::collection::vec(calls(), 0..200)), 1..5),
        think in 0..20_000u64,
    ) {
        let config = config(&world, shape, wide);
        let end = Log::new(config).unwrap().geometry().range().end();
        prop_assume!(end.get() <= world.drive().layout().capacity().get());
        live(&world, (config, reads), &lives, Duration::from_micros(think))?;
    }
}

/// Uses a log that is nearly full, on drives that lose answers: the core puts the free cleaner's reads into gaps, in
/// the drive and outside it, and some work remains for the foreground cleaner.
#[test]
fn gaps_clean_a_log_in_the_drive_and_outside() {
    for outside in [false, true] {
        let mut all = Tried::default();
        for seed in 4..7 {
            let world = World {
                drive: 3 + seed,
                seed,
                policy: PolicyName::Sptf,
                greedy: false,
                idle: false,
                partials: 1 << 15,
                tasks: 2,
                think_us: 3_000,
                lost_ppm: 2_000,
                late_ppm: 2_000,
                outside,
            };
            let config = config(&world, (20, 4, 1), false);
            let mut chance = Stream::new(seed, "blocks");
            let blocks = NonZeroU64::new(44).unwrap();
            let calls: Vec<_> = (0..2_000).map(|_| LogCall::Write(chance.below(blocks) as u32)).collect();
            let lives: Vec<_> = (0..3).map(|n| (12_000_000 + n * 137_000, calls.clone())).collect();
            let tried = live(&world, (config, Reads::Run), &lives, Duration::from_millis(5)).unwrap();
            all.for_free += tried.for_free;
            all.by_foreground += tried.by_foreground;
            all.torn += tried.torn;
            all.detours += tried.detours;
        }
        assert!(
            all.for_free > 1_000 && all.by_foreground > 20 && all.detours > 500,
            "outside: {outside}, {all:?}"
        );
    }
}
