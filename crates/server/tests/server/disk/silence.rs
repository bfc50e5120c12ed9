//! Commands that are answered late, or never.

use super::{PROFILE, core, nameless, range, recording, spy};
use device::{Ask, Device, Emulated, Failure, Faults, Faulty};
use model::Profile;
use scheduler::{Application, Parameter, Priority, Record, Sessions, Wanted};
use server::{Disk, DiskHooks, Recorder, TIMEOUT};
use spy::{SECTOR, stamped, stamps};
use std::collections::{BTreeMap, BTreeSet};
use units::{Duration, Instant, LbnRange, Op, Sectors};
use workload::random::Stream;

/// An application that reads or writes blocks of eight sectors, and counts them.
#[derive(Default)]
struct Blocks {
    delivered: BTreeMap<u64, u64>,
    bad: u64,
    done: bool,
}

const BACKGROUND: u64 = 1 << 63;

impl Blocks {
    fn start(&mut self, sessions: &mut dyn Sessions, op: Op, all: LbnRange) {
        let session = sessions.open(Priority::default()).unwrap();
        let (block, parameter) = (Sectors::new(8), Parameter::default());
        match op {
            Op::Read => sessions.read(session, all, block, parameter).unwrap(),
            Op::Write => sessions.write(session, all, block, parameter).unwrap(),
        };
    }
}

impl DiskHooks for Blocks {}

impl Application for Blocks {
    fn done(&mut self, _: &mut dyn Sessions, record: &Record, _: &[u8], _: Instant) {
        *self.delivered.entry(record.range.start().get()).or_default() += 1;
        self.bad += u64::from(record.bad.is_some());
        self.done |= record.last;
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let sectors = into.chunks_mut(SECTOR).zip(wanted.range.start().get()..);
        sectors.for_each(|(sector, lbn)| sector.copy_from_slice(&stamped(BACKGROUND | lbn)));
        true
    }
}

struct SilenceWorld {
    disk: Disk<Faulty<Emulated>, Blocks>,
    recording: recording::Memory,
    now: Instant,
    next: u64,
    /// Answers that the test has not taken yet.
    answers: BTreeMap<u64, Result<Vec<u8>, Failure>>,
}

impl SilenceWorld {
    fn new(faults: Faults) -> Self {
        let (model, config) = core("sptf", faults.seed);
        let profile = Profile::from_toml(PROFILE, "small.toml").unwrap();
        let drive = Emulated::new(&profile, Default::default(), faults.seed, nameless()).unwrap();
        let mut disk = Disk::new(Faulty::new(drive, faults.clone()), model, config).unwrap();
        let recording = recording::Memory::default();
        let setup = serde_json::json!({ "policy": "sptf", "seed": faults.seed });
        disk.record(Recorder::new(recording.clone(), &setup).unwrap());
        disk.host(Blocks::default());
        Self { disk, recording, now: Instant::ZERO, next: 0, answers: BTreeMap::new() }
    }

    fn start(&mut self, op: Op, all: LbnRange) {
        self.disk.call(self.now, |app, sessions| app.start(sessions, op, all)).unwrap();
    }

    fn ask(&mut self, range: LbnRange, ask: Ask) -> u64 {
        self.next += 1;
        self.disk.ask(self.now, self.next, range, ask);
        self.take();
        self.next
    }

    fn take(&mut self) {
        while let Some(answer) = self.disk.poll(self.now) {
            assert!(
                self.answers.insert(answer.id, answer.result).is_none(),
                "{} is answered twice",
                answer.id
            );
        }
    }

    /// Handles the next event; returns whether there was one.
    fn step(&mut self) -> bool {
        let Some(at) = self.disk.next_event() else { return false };
        self.now = self.now.max(at);
        self.disk.advance(self.now);
        self.take();
        true
    }

    fn answer(&mut self, id: u64) -> Result<Vec<u8>, Failure> {
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            assert!(self.step(), "{id} is forgotten");
        }
    }

    fn background(&self) -> &Blocks {
        self.disk.app().unwrap()
    }

    /// Checks that a replay of the recording makes the same decisions.
    fn replays(mut self) {
        self.disk.end_recording().unwrap();
        let reported = recording::again(&self.recording.bytes()).unwrap_or_else(|error| panic!("{error}"));
        assert!(!reported.cut_off && reported.commands > 0);
    }
}

fn is_silent(answer: &Result<Vec<u8>, Failure>) -> bool {
    matches!(answer, Err(Failure::Silent { after }) if *after >= TIMEOUT)
}

#[test]
fn a_command_without_an_answer_fails_its_request_and_releases_its_blocks() {
    let counts = (0..6).map(lose);
    let (silent, lost) = counts.fold((0, 0), |(s, l), (silent, lost)| (s + silent, l + lost));
    assert!(silent > 0 && lost > silent, "{silent} of {lost}");
}

/// Loses one command in a hundred; returns the numbers of failed requests and of lost commands.
fn lose(seed: u64) -> (u64, u64) {
    let mut world = SilenceWorld::new(Faults { seed, lost: 10, ..Faults::default() });
    world.start(Op::Read, range(0, 3_200));
    let mut chance = Stream::new(seed, "client");
    let (mut waiting, mut good, mut silent) = (Vec::new(), 0, 0);
    for _ in 0..300 {
        let lbn = chance.next_u64() % 3_500;
        waiting.push(world.ask(range(lbn, 8), Ask::Read));
        if waiting.len() < 3 {
            continue;
        }
        let answer = world.answer(waiting.remove(0));
        silent += u64::from(is_silent(&answer));
        good += u64::from(answer.is_ok());
    }
    for id in waiting {
        let answer = world.answer(id);
        silent += u64::from(is_silent(&answer));
        good += u64::from(answer.is_ok());
    }
    while !world.background().done {
        assert!(world.step(), "the background is forgotten");
    }
    assert_eq!(good + silent, 300, "each request is answered, well or in time");
    let status = world.disk.status();
    let lost = world.disk.device().lost();
    assert!(lost < 16, "{lost}: more than a device may lose");
    assert_eq!((status.timed_out, status.unanswered as u64), (lost, lost));
    assert_eq!(status.failing, (lost > 0).then_some("the disk does not answer"));
    let background = world.background();
    assert_eq!(background.bad, 0, "no sector is to blame");
    assert!(background.delivered.len() == 400 && background.delivered.values().all(|n| *n == 1));
    world.replays();
    (silent, lost)
}

#[test]
fn a_silent_device_gets_a_bounded_number_of_commands_and_all_requests_fail() {
    let mut world = SilenceWorld::new(Faults { seed: 1, lost: 1000, ..Faults::default() });
    world.start(Op::Read, range(0, 800));
    let ids: Vec<u64> = (0..40).map(|i| world.ask(range(i * 80, 8), Ask::Read)).collect();
    let flush = world.ask(range(0, 0), Ask::Flush);
    for id in ids.into_iter().chain([flush]) {
        let answer = world.answer(id);
        assert!(is_silent(&answer), "{answer:?}");
    }
    let status = world.disk.status();
    let lost = world.disk.device().lost();
    assert_eq!(status.unanswered as u64, lost, "{status:?}");
    assert!((16..20).contains(&lost), "{lost}: commands that the device had when the 16th was given up");
    assert_eq!(status.outstanding, 0);
    assert_eq!(world.background().delivered.len(), 0, "blocks that were not read are still wanted");
    world.replays();
}

#[test]
fn a_late_write_never_overwrites_a_newer_one() {
    for seed in 0..8 {
        let by = Duration::from_secs(100);
        let mut world = SilenceWorld::new(Faults { seed, late: 120, by, ..Faults::default() });
        world.start(Op::Write, range(1_000, 800));
        let mut chance = Stream::new(seed, "client");
        // The possible contents of each sector, as the client knows them from the answers.
        let mut may: Vec<BTreeSet<u64>> = vec![BTreeSet::from([0]); 64];
        let (mut silent, mut good) = (0, 0);
        for stamp in 1..=250 {
            let (lbn, len) = (chance.next_u64() % 56, 1 + chance.next_u64() % 8);
            let (at, write) = (range(lbn, len), chance.next_u64().is_multiple_of(3));
            let ask = match write {
                false => Ask::Write { bytes: stamped(stamp).repeat(len as usize), through: stamp % 4 == 0 },
                true => Ask::Read,
            };
            let id = world.ask(at, ask);
            let answer = world.answer(id);
            silent += u64::from(is_silent(&answer));
            good += u64::from(answer.is_ok());
            let sectors = &mut may[lbn as usize..(lbn + len) as usize];
            match (write, answer) {
                (false, Ok(_)) => sectors.iter_mut().for_each(|may| *may = [stamp].into()),
                (false, Err(_)) => sectors.iter_mut().for_each(|may| _ = may.insert(stamp)),
                (true, Ok(bytes)) => {
                    for (found, may) in stamps(&bytes).iter().zip(sectors) {
                        assert!(may.contains(found), "seed {seed}: {found} at {at}, not one of {may:?}");
                    }
                }
                (true, Err(_)) => {}
            }
        }
        assert!(silent > 2 && good > 150, "{silent} and {good}");
        while !world.background().done || world.disk.status().unanswered > 0 {
            assert!(world.step(), "it is forgotten");
        }
        let status = world.disk.status();
        assert!(status.timed_out >= silent && status.failing.is_none(), "{status:?}");
        let read = |world: &mut SilenceWorld, at: LbnRange| loop {
            let id = world.ask(at, Ask::Read);
            if let Ok(bytes) = world.answer(id) {
                break stamps(&bytes);
            }
        };
        for (found, may) in read(&mut world, range(0, 64)).iter().zip(&may) {
            assert!(may.contains(found), "seed {seed}: {found}, not one of {may:?}");
        }
        let written: Vec<u64> = (1_000..1_800).map(|lbn| BACKGROUND | lbn).collect();
        assert_eq!(read(&mut world, range(1_000, 800)), written);
        let background = world.background();
        assert!(background.bad == 0 && background.delivered.len() == 100);
        assert!(background.delivered.values().all(|n| *n == 1));
        world.replays();
    }
}
