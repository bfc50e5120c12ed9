//! Background requests of clients on virtual time, beside writes of the foreground.

use super::{CAPACITY, any_range, core, disk, disk_with, nameless, range, spy};
use device::{Ask, BackgroundRequest, Device, Emulated, Failure};
use model::Profile;
use proptest::prelude::*;
use scheduler::{Application, Config, IdleTime, Record, Sessions};
use server::{BackgroundTerms, Disk, DiskHooks, Floor, NoApp};
use spy::{Shared, Spy, stamped, stamps};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use units::{Bytes, Duration, Instant, LbnRange};

fn read(id: u64, client: u64, range: LbnRange) -> BackgroundRequest {
    BackgroundRequest { id, client, range, ask: Ask::Read, snapshot: None }
}

#[derive(Clone, Debug)]
enum Step {
    /// A background read by one of four clients.
    Ask(u64, LbnRange),
    /// The next read of one of two sequential readers, which are clients, too.
    Next(u64, u64),
    /// A declaration by one of four clients.
    Declare(u64, LbnRange),
    Write(LbnRange),
    /// A background write by one of four clients, through to the medium or not.
    WriteInBackground(u64, LbnRange, bool),
    Read(LbnRange),
    Wait(u64),
    Leave(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0u64..4, any_range(120)).prop_map(|(client, range)| Step::Ask(client, range)),
        6 => (0u64..2, 1u64..60).prop_map(|(reader, len)| Step::Next(reader, len)),
        2 => (0u64..4, any_range(300)).prop_map(|(client, range)| Step::Declare(client, range)),
        6 => any_range(40).prop_map(Step::Write),
        4 => (0u64..4, any_range(40), any::<bool>())
            .prop_map(|(client, range, through)| Step::WriteInBackground(client, range, through)),
        2 => any_range(40).prop_map(Step::Read),
        5 => (0u64..30_000).prop_map(Step::Wait),
        1 => (0u64..4).prop_map(Step::Leave),
    ]
}

enum Asked {
    /// A background read: for each sector the last write that was acknowledged before.
    InBackground(LbnRange, Vec<u64>),
    /// A write, and whether it is answered from the medium.
    Write(LbnRange, bool),
    /// A read of the foreground: for each sector the last write that arrived before.
    Read(LbnRange, Vec<u64>),
}

struct World {
    disk: Disk<Spy>,
    truth: Shared,
    now: Instant,
    next: u64,
    asked: BTreeMap<u64, Asked>,
    clients: BTreeMap<u64, u64>,
    /// The last acknowledged write of each sector. Writes are numbered in order of arrival.
    acknowledged: Vec<u64>,
    /// The last write of each sector that has arrived, at either door.
    newest: Vec<u64>,
    /// The place of each sequential reader.
    readers: [u64; 2],
}

impl World {
    fn new(seed: u64, terms: BackgroundTerms, idle: Option<IdleTime>) -> Self {
        let (mut disk, truth) = disk_with("sptf", seed, idle);
        disk.take_background_requests(terms);
        let acknowledged = vec![0; disk.size().get() as usize / spy::SECTOR];
        let newest = acknowledged.clone();
        let (asked, clients) = (BTreeMap::new(), BTreeMap::new());
        Self {
            disk,
            truth,
            now: Instant::ZERO,
            next: 0,
            asked,
            clients,
            acknowledged,
            newest,
            readers: [0, 1_000],
        }
    }

    fn lbns(range: LbnRange) -> std::ops::Range<usize> {
        range.start().get() as usize..range.end().get() as usize
    }

    fn step(&mut self, step: Step) {
        self.next += 1;
        let id = self.next;
        match step {
            Step::Next(reader, len) => {
                let at = &mut self.readers[reader as usize];
                let start = if *at + len > CAPACITY { 0 } else { *at };
                *at = start + len;
                self.step(Step::Ask(reader, range(start, len)));
            }
            Step::Declare(client, range) => self.disk.declare(self.now, client, range),
            Step::Ask(client, range) => {
                let before = self.acknowledged[Self::lbns(range)].to_vec();
                self.asked.insert(id, Asked::InBackground(range, before));
                self.clients.insert(id, client);
                self.disk.ask_in_background(self.now, read(id, client, range));
            }
            Step::Write(range) => {
                self.asked.insert(id, Asked::Write(range, false));
                self.newest[Self::lbns(range)].fill(id);
                let bytes = stamped(id).repeat(range.len().get() as usize);
                self.disk.ask(self.now, id, range, Ask::Write { bytes, through: false });
            }
            Step::WriteInBackground(client, range, through) => {
                self.asked.insert(id, Asked::Write(range, through));
                self.newest[Self::lbns(range)].fill(id);
                let ask = Ask::Write { bytes: stamped(id).repeat(range.len().get() as usize), through };
                let request = BackgroundRequest { id, client, range, ask, snapshot: None };
                self.disk.ask_in_background(self.now, request);
            }
            Step::Read(range) => {
                self.asked.insert(id, Asked::Read(range, self.newest[Self::lbns(range)].to_vec()));
                self.disk.ask(self.now, id, range, Ask::Read);
            }
            Step::Wait(us) => self.run_until(self.now + Duration::from_micros(us)),
            Step::Leave(client) => {
                let expected: Vec<u64> =
                    self.clients.iter().filter(|(_, of)| **of == client).map(|(id, _)| *id).collect();
                // Answers that exist already are still taken.
                self.take();
                let mut left = self.disk.leave(self.now, client);
                left.sort_unstable();
                for id in &left {
                    assert!(expected.contains(id) && self.asked.remove(id).is_some(), "{id} of {expected:?}");
                    self.clients.remove(id);
                }
            }
        }
        self.take();
    }

    fn run_until(&mut self, until: Instant) {
        while let Some(at) = self.disk.next_event().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.disk.advance(self.now);
            self.take();
        }
        self.now = until;
    }

    fn take(&mut self) {
        while let Some(answer) = self.disk.poll(self.now) {
            self.clients.remove(&answer.id);
            let asked = self.asked.remove(&answer.id).expect("an answer to a request that was not dropped");
            let bytes = answer.result.unwrap();
            match asked {
                Asked::InBackground(range, before) => {
                    for ((lbn, found), before) in Self::lbns(range).zip(stamps(&bytes)).zip(before) {
                        let there = self.truth.get().sectors[lbn];
                        let fits = (before..=self.next).contains(&found);
                        assert!(fits, "LBN {lbn} holds {found}, older than {before}; the medium has {there}");
                    }
                }
                Asked::Write(range, through) => {
                    let truth = self.truth.get();
                    let volatile = Self::lbns(range).find(|lbn| truth.volatile.contains_key(&(*lbn as u64)));
                    assert!(!through || volatile.is_none(), "LBN {volatile:?} is not on the medium");
                    drop(truth);
                    for last in &mut self.acknowledged[Self::lbns(range)] {
                        *last = (*last).max(answer.id);
                    }
                }
                Asked::Read(range, newest) => assert!(stamps(&bytes) == newest, "{range}"),
            }
        }
    }

    /// Ends a history without idle time: the requests of the foreground wait for no background request, except writes
    /// for their sectors.
    fn finish_without_idle_time(&mut self) {
        (0..4).for_each(|client| self.step(Step::Leave(client)));
        self.step(Step::Read(range(0, CAPACITY)));
        let mut left = 400_000;
        while !self.asked.is_empty() {
            let at = self.disk.next_event().unwrap_or_else(|| panic!("{} wait", self.asked.len()));
            self.now = self.now.max(at);
            self.disk.advance(self.now);
            self.take();
            left -= 1;
            assert!(left > 0, "the foreground waits: {:?}", self.disk.status());
        }
    }

    fn finish(&mut self) {
        let mut left = 400_000;
        while !self.asked.is_empty() {
            let at = self.disk.next_event().unwrap_or_else(|| panic!("{} are forgotten", self.asked.len()));
            self.now = self.now.max(at);
            self.disk.advance(self.now);
            self.take();
            left -= 1;
            assert!(left > 0, "it never ends: {:?}", self.disk.status());
        }
        // The disk also finishes the blocks that it reads ahead of the readers.
        while let Some(at) = self.disk.next_event() {
            self.now = self.now.max(at);
            self.disk.advance(self.now);
        }
        assert!(
            self.truth.get().sectors == self.newest,
            "overlapping writes are not done in order of arrival"
        );
        let status = self.disk.status();
        assert_eq!(status.background.parts_kept, 0, "parts of blocks of dropped requests");
        let background = status.background_requests.unwrap();
        assert_eq!((background.waiting, background.failed), (0, 0));
        assert!(background.memory.held_bytes <= background.memory.most_bytes, "{background:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_background_read_holds_every_write_that_was_acknowledged_before(
        seed in 0u64..1_000,
        floor in prop::option::of(1u64..200),
        memory in prop::sample::select(vec![0u64, 64 << 10, 300_000, 64 << 20]),
        idle in any::<bool>(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        let floor = floor.map(|ms| Floor::Within(Duration::from_millis(ms)));
        let idle_time = idle.then(IdleTime::default);
        let mut world = World::new(seed, BackgroundTerms { floor, memory: Bytes::new(memory) }, idle_time);
        for step in steps {
            world.step(step);
        }
        if !idle {
            world.finish_without_idle_time();
        }
        world.finish();
    }
}

/// Returns a disk whose background has no time at all: it uses no idle time, and there is no foreground.
fn without_time(floor: Option<Floor>) -> Disk<Emulated> {
    without_time_beside(floor)
}

/// Returns the same disk for an application.
fn without_time_beside<A: DiskHooks>(floor: Option<Floor>) -> Disk<Emulated, A> {
    let profile = Profile::from_toml(super::PROFILE, "small.toml").unwrap();
    let (model, config) = core("sptf", 1);
    let drive = Emulated::new(&profile, Default::default(), 1, nameless()).unwrap();
    let mut disk = Disk::new(drive, model, Config { idle: None, ..config }).unwrap();
    disk.take_background_requests(BackgroundTerms { floor, ..BackgroundTerms::default() });
    disk
}

/// Runs until this instant; returns the answers' numbers and times.
fn run<A: DiskHooks>(disk: &mut Disk<Emulated, A>, until: Instant) -> Vec<(u64, Instant)> {
    let mut answers = Vec::new();
    while let Some(at) = disk.next_event().filter(|at| *at <= until) {
        disk.advance(at);
        answers.extend(std::iter::from_fn(|| disk.poll(at)).map(|answer| (answer.id, answer.at)));
    }
    disk.advance(until);
    answers
}

fn second(s: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(s)
}

#[test]
fn without_a_floor_a_request_waits_as_long_as_there_is_no_time_and_the_status_says_how_long() {
    let mut disk = without_time(None);
    disk.ask_in_background(Instant::ZERO, read(1, 1, range(0, 64)));
    assert_eq!(run(&mut disk, second(3_600)), []);
    let status = disk.status().background_requests.unwrap();
    assert_eq!((status.waiting, status.oldest_wait_us, status.floor), (1, 3.6e9, None));
}

#[test]
fn a_request_that_waits_longer_than_the_floor_becomes_foreground_work_and_is_counted() {
    let mut disk = without_time(Some(Floor::Within(Duration::from_secs(2))));
    disk.ask_in_background(Instant::ZERO, read(1, 1, range(0, 64)));
    assert_eq!(run(&mut disk, second(1)), []);
    disk.ask_in_background(second(1), read(2, 1, range(3_000, 64)));
    let answers = run(&mut disk, second(4));
    let within = |at: Instant, s: u64| at >= second(s) && at < second(s) + Duration::from_millis(200);
    assert!(matches!(answers[..], [(1, one), (2, two)] if within(one, 2) && within(two, 3)), "{answers:?}");
    let status = disk.status().background_requests.unwrap();
    assert_eq!((status.reads.count, status.waiting), (2, 0));
    assert_eq!((status.promoted.requests, status.promoted.bytes), (2, 2 * 64 * 512));
    assert!((1e3..400e3).contains(&status.promoted.device_us), "{status:?}");
    assert_eq!(disk.status().reads.count, 0, "they are no foreground requests");
}

#[test]
fn a_floor_in_bytes_a_second_is_kept_on_average_and_not_exceeded() {
    let rate = NonZeroU64::new(64 * 512).unwrap();
    let mut disk = without_time(Some(Floor::BytesPerSecond(rate)));
    (1..=10).for_each(|id| disk.ask_in_background(Instant::ZERO, read(id, 1, range(id * 300, 64))));
    let answers = run(&mut disk, second(30));
    assert_eq!(answers.len(), 10);
    for (nth, (_, at)) in answers.iter().enumerate() {
        let due = second(nth as u64 + 1);
        assert!(*at >= due && *at < due + Duration::from_millis(200), "{answers:?}");
    }
    assert_eq!(disk.status().background_requests.unwrap().promoted.requests, 10);
}

fn write(id: u64, range: LbnRange, stamp: u64) -> BackgroundRequest {
    let bytes = stamped(stamp).repeat(range.len().get() as usize);
    BackgroundRequest { id, client: 1, range, ask: Ask::Write { bytes, through: false }, snapshot: None }
}

#[test]
fn a_write_without_time_waits_until_a_request_for_its_sectors_or_the_floor_makes_it_foreground_work() {
    let mut disk = without_time(None);
    disk.ask_in_background(Instant::ZERO, write(1, range(0, 64), 7));
    disk.ask_in_background(Instant::ZERO, write(2, range(500, 64), 8));
    disk.ask(Instant::ZERO, 3, range(2_000, 8), Ask::Read);
    assert_eq!(run(&mut disk, second(60)).into_iter().map(|(id, _)| id).collect::<Vec<_>>(), [3]);
    assert_eq!(disk.outstanding(), 0, "background writes are no requests of the foreground");
    disk.ask(second(60), 4, range(28, 8), Ask::Read);
    let answers = run(&mut disk, second(61));
    assert_eq!(answers.into_iter().map(|(id, _)| id).collect::<Vec<_>>(), [1, 4]);
    let status = disk.status();
    assert_eq!((status.writes.count, status.reads.count), (0, 2));
    let background = status.background_requests.unwrap();
    assert_eq!((background.writes.count, background.written_bytes, background.waiting), (1, 64 * 512, 1));

    let mut disk = without_time(Some(Floor::Within(Duration::from_secs(2))));
    disk.ask_in_background(Instant::ZERO, write(1, range(0, 64), 7));
    assert_eq!(run(&mut disk, second(1)), []);
    assert_eq!(run(&mut disk, second(3)).len(), 1);
}

fn ids(answers: &[(u64, Instant)]) -> Vec<u64> {
    answers.iter().map(|(id, _)| *id).collect()
}

#[test]
fn a_request_waits_for_no_background_write_without_bound_also_through_another_one() {
    let mut disk = without_time(None);
    for (id, start) in (1..=8).zip((0..).step_by(32)) {
        disk.ask_in_background(Instant::ZERO, write(id, range(start, 64), id));
    }
    assert_eq!(run(&mut disk, second(60)), []);
    // It overlaps the last of them alone, and that one overlaps the one before.
    disk.ask(second(60), 20, range(280, 8), Ask::Read);
    assert!(ids(&run(&mut disk, second(61))).contains(&20));
    // Of each of them one block was awaited.
    let promoted = disk.status().background_requests.unwrap().promoted;
    assert!(promoted.bytes <= 8 * 32 * 512, "{promoted:?}");
}

#[test]
fn only_the_blocks_of_a_background_write_that_are_awaited_become_foreground_work() {
    let mut disk = without_time(None);
    disk.ask_in_background(Instant::ZERO, write(1, range(0, 3_200), 7));
    assert_eq!(run(&mut disk, second(60)), []);
    for (id, start) in [(2, 1_000), (3, 1_004), (4, 2_000)] {
        let from = second(60 * id);
        disk.ask(from, id, range(start, 8), Ask::Read);
        let answers = run(&mut disk, from + Duration::from_secs(10));
        assert_eq!(ids(&answers), [id]);
    }
    let background = disk.status().background_requests.unwrap();
    assert_eq!((background.waiting, background.promoted.bytes), (1, 2 * 32 * 512));
}

#[test]
fn the_rest_of_a_background_write_of_which_a_part_was_awaited_is_kept_by_the_floor() {
    let mut disk = without_time(Some(Floor::Within(Duration::from_secs(30))));
    disk.ask_in_background(Instant::ZERO, write(1, range(0, 320), 7));
    disk.ask(second(1), 2, range(100, 8), Ask::Read);
    assert_eq!(ids(&run(&mut disk, second(29))), [2]);
    assert_eq!(ids(&run(&mut disk, second(40))), [1]);
}

#[test]
fn bytes_from_memory_count_for_the_floor() {
    let rate = NonZeroU64::new(64 * 512).unwrap();
    let mut disk = without_time(Some(Floor::BytesPerSecond(rate)));
    disk.declare(Instant::ZERO, 1, range(0, 640));
    disk.ask(Instant::ZERO, 1, range(0, 640), Ask::Read);
    assert_eq!(ids(&run(&mut disk, second(1))), [1]);
    assert_eq!(sectors(&disk.in_memory(range(0, CAPACITY))).len(), 640);
    disk.ask_in_background(second(1), read(100, 2, range(3_000, 64)));
    for nth in 2..12 {
        let at = second(1) + Duration::from_millis(500 * (nth - 2));
        disk.ask_in_background(at, read(nth, 1, range((nth - 2) * 64, 64)));
        assert_eq!(ids(&run(&mut disk, at + Duration::from_millis(499))), [nth]);
    }
    // The other request got nothing meanwhile, and the floor is of all of them.
    assert_eq!(disk.status().background_requests.unwrap().promoted.requests, 0);
    assert_eq!(ids(&run(&mut disk, second(8))), [100]);
}

/// An application that holds writes until its copies are made, and shows how urgent these are.
#[derive(Clone, Default)]
struct Copier(Arc<std::sync::Mutex<Copied>>);

#[derive(Default)]
struct Copied {
    made: bool,
    later: usize,
    urgent: usize,
}

impl Application for Copier {
    fn done(&mut self, _: &mut dyn Sessions, _: &Record, _: &[u8], _: Instant) {}
}

impl DiskHooks for Copier {
    fn hold(&mut self, _: &mut dyn Sessions, _: LbnRange) -> bool {
        let mut copied = self.0.lock().unwrap();
        copied.urgent += 1;
        !copied.made
    }

    fn hold_later(&mut self, _: &mut dyn Sessions, _: LbnRange) -> bool {
        let mut copied = self.0.lock().unwrap();
        copied.later += 1;
        !copied.made
    }
}

#[test]
fn the_copy_under_a_background_write_is_urgent_only_when_the_write_is() {
    for floor in [Some(Floor::Within(Duration::from_secs(2))), None] {
        let mut disk = without_time_beside(floor);
        let copier = Copier::default();
        disk.host(copier.clone());
        let urgent = || copier.0.lock().unwrap().urgent > 0;
        disk.ask_in_background(Instant::ZERO, write(1, range(0, 64), 7));
        disk.ask_in_background(Instant::ZERO, write(2, range(32, 64), 7));
        assert_eq!(run(&mut disk, second(1)), []);
        assert!(!urgent() && copier.0.lock().unwrap().later > 0);
        if floor.is_none() {
            disk.ask(second(1), 3, range(64, 8), Ask::Read);
            assert!(urgent(), "a request of the foreground waits for it, through another one");
        }
        assert_eq!(run(&mut disk, second(3)), []);
        assert!(urgent());
        copier.0.lock().unwrap().made = true;
        disk.call(second(3), |_, _| ()).unwrap();
        let answers = ids(&run(&mut disk, second(4)));
        match floor {
            Some(_) => assert_eq!(answers, [1, 2], "the floor is kept for both"),
            None => assert!(answers.contains(&3), "{answers:?}"),
        }
    }
}

/// An application that has work at an instant which nothing else brings.
struct Timed {
    at: Option<Instant>,
    done: Vec<Instant>,
}

impl Application for Timed {
    fn done(&mut self, _: &mut dyn Sessions, _: &Record, _: &[u8], _: Instant) {}
}

impl DiskHooks for Timed {
    fn due(&self) -> Option<Instant> {
        self.at
    }

    fn do_due(&mut self, _: &mut dyn Sessions, now: Instant) -> bool {
        self.at = None;
        self.done.push(now);
        false
    }
}

#[test]
fn an_application_works_at_the_instant_at_which_it_is_due() {
    let mut disk = without_time_beside(None);
    disk.host(Timed { at: Some(second(5)), done: Vec::new() });
    assert_eq!(disk.next_event(), Some(second(5)));
    run(&mut disk, second(60));
    assert_eq!(disk.app().unwrap().done, [second(5)]);
}

/// A flush covers the background writes that were acknowledged; one that never wrote has nothing to flush.
#[test]
fn a_flush_of_the_background_puts_its_writes_on_the_medium() {
    let (mut disk, truth) = disk::<NoApp>("sptf", 1);
    disk.take_background_requests(BackgroundTerms::default());
    let flush = |id| BackgroundRequest { id, client: 1, range: range(0, 0), ask: Ask::Flush, snapshot: None };
    let mut now = Instant::ZERO;
    disk.ask_in_background(now, flush(1));
    assert!(settle(&mut disk, &mut now).contains_key(&1));
    assert_eq!(truth.get().flushes, 0);
    disk.ask_in_background(now, write(2, range(0, 64), 7));
    assert!(settle(&mut disk, &mut now).contains_key(&2));
    assert!(truth.get().volatile.contains_key(&0));
    disk.ask_in_background(now, flush(3));
    assert!(settle(&mut disk, &mut now).contains_key(&3));
    assert!(truth.get().volatile.is_empty() && truth.get().of(range(0, 64)) == [7; 64]);

    // A discard is a change, too.
    let (mut disk, truth) = super::disk("sptf", 1);
    disk.take_background_requests(BackgroundTerms::default());
    let discard =
        BackgroundRequest { id: 4, client: 1, range: range(0, 64), ask: Ask::Discard, snapshot: None };
    disk.ask_in_background(now, discard);
    assert!(settle(&mut disk, &mut now).contains_key(&4));
    disk.ask_in_background(now, flush(5));
    assert!(settle(&mut disk, &mut now).contains_key(&5));
    assert_eq!(truth.get().flushes, 1);
}

#[test]
fn idle_time_answers_requests_without_any_floor_and_nothing_is_promoted() {
    let (mut disk, _) = disk::<NoApp>("sptf", 1);
    let floor = Some(Floor::Within(Duration::from_secs(60)));
    disk.take_background_requests(BackgroundTerms { floor, ..BackgroundTerms::default() });
    disk.ask_in_background(Instant::ZERO, read(1, 1, range(0, CAPACITY)));
    let mut now = Instant::ZERO;
    let answer = loop {
        now = now.max(disk.next_event().unwrap());
        disk.advance(now);
        if let Some(answer) = disk.poll(now) {
            break answer;
        }
    };
    assert_eq!(answer.result.unwrap().len() as u64, CAPACITY * 512);
    let status = disk.status();
    assert_eq!(status.background_requests.unwrap().promoted.requests, 0);
    assert_eq!(status.background.idle_bytes, CAPACITY * 512);
}

#[test]
fn requests_of_a_client_that_is_gone_are_dropped_with_their_blocks() {
    let mut disk = without_time(Some(Floor::Within(Duration::from_secs(2))));
    (1..=3).for_each(|id| disk.ask_in_background(Instant::ZERO, read(id, id % 2, range(id * 300, 64))));
    assert_eq!(disk.leave(second(1), 1), [1, 3]);
    let answers = run(&mut disk, second(60));
    assert!(matches!(answers[..], [(2, _)]), "{answers:?}");
    assert_eq!(disk.status().background.blocks, 2, "16 KiB each, of the request that is left");
}

#[test]
fn a_bad_sector_fails_the_read_that_has_it_and_no_other() {
    let (mut disk, truth) = disk::<NoApp>("sptf", 1);
    disk.take_background_requests(BackgroundTerms::default());
    truth.get().bad.insert(700);
    disk.ask_in_background(Instant::ZERO, read(1, 1, range(640, 256)));
    disk.ask_in_background(Instant::ZERO, read(2, 1, range(1_000, 256)));
    let (mut now, mut results) = (Instant::ZERO, BTreeMap::new());
    while results.len() < 2 {
        now = now.max(disk.next_event().unwrap());
        disk.advance(now);
        results.extend(std::iter::from_fn(|| disk.poll(now)).map(|answer| (answer.id, answer.result)));
    }
    assert!(matches!(results[&1], Err(Failure::Medium(lbn)) if lbn.get() == 700), "{:?}", results[&1]);
    assert!(results[&2].is_ok());
    assert_eq!(disk.status().background_requests.unwrap().failed, 1);
}

/// Lets an idle disk run until it has nothing more to do; returns the answers.
fn settle(disk: &mut Disk<Spy>, now: &mut Instant) -> BTreeMap<u64, Vec<u64>> {
    let mut answers = BTreeMap::new();
    while let Some(at) = disk.next_event() {
        *now = (*now).max(at);
        disk.advance(*now);
        let each = std::iter::from_fn(|| disk.poll(*now));
        answers.extend(each.map(|answer| (answer.id, stamps(&answer.result.unwrap()))));
    }
    answers
}

fn with_memory(bytes: u64) -> (Disk<Spy>, Shared) {
    let (mut disk, truth) = disk("sptf", 1);
    disk.take_background_requests(BackgroundTerms { floor: None, memory: Bytes::new(bytes) });
    (disk, truth)
}

#[test]
fn a_declared_range_is_in_memory_before_it_is_read_and_is_given_out_once() {
    let (mut disk, _) = with_memory(1 << 20);
    let mut now = Instant::ZERO;
    disk.declare(now, 1, range(100, 200));
    assert_eq!(disk.in_memory(range(0, 400)), []);
    assert!(settle(&mut disk, &mut now).is_empty(), "a declaration has no answer");
    assert_eq!(sectors(&disk.in_memory(range(0, 400))), (100..300).collect::<Vec<_>>());
    // The answer exists at once, and what was given is gone.
    disk.ask_in_background(now, read(7, 1, range(120, 64)));
    assert_eq!(disk.poll(now).unwrap().id, 7);
    let left: Vec<u64> = (100..120).chain(184..300).collect();
    assert_eq!(sectors(&disk.in_memory(range(0, 400))), left);
    let status = disk.status().background_requests.unwrap();
    assert_eq!(status.memory.given_bytes, 64 * 512);
    assert_eq!(disk.status().background.blocks, 200 / 32 + 1, "16 KiB each");
}

fn sectors(ranges: &[LbnRange]) -> Vec<u64> {
    ranges.iter().flat_map(|range| range.start().get()..range.end().get()).collect()
}

#[test]
fn a_declaration_of_any_size_is_read_and_a_read_of_what_is_not_made_yet_is_read_once() {
    let (mut disk, _) = with_memory(64 << 20);
    let mut now = Instant::ZERO;
    disk.declare(now, 1, range(0, CAPACITY));
    disk.declare(now, 1, range(0, CAPACITY));
    assert!(disk.status().background_requests.unwrap().memory.held_bytes < CAPACITY * 512);
    // The blocks of its end are not made yet.
    disk.ask_in_background(now, read(7, 1, range(CAPACITY - 64, 64)));
    assert!(settle(&mut disk, &mut now).contains_key(&7));
    let expected: Vec<u64> = (0..CAPACITY - 64).collect();
    assert_eq!(sectors(&disk.in_memory(range(0, CAPACITY))), expected);
    assert_eq!(disk.status().background.idle_bytes, CAPACITY * 512, "each sector is read once");
    // The blocks that are gone and those that are there are declared again.
    disk.declare(now, 1, range(0, CAPACITY));
    settle(&mut disk, &mut now);
    assert_eq!(sectors(&disk.in_memory(range(0, CAPACITY))), (0..CAPACITY).collect::<Vec<_>>());
}

#[test]
fn a_write_drops_the_sectors_in_memory_that_it_covers() {
    let (mut disk, _) = with_memory(1 << 20);
    let mut now = Instant::ZERO;
    disk.declare(now, 1, range(100, 64));
    settle(&mut disk, &mut now);
    disk.ask(now, 1, range(110, 10), Ask::Write { bytes: stamped(5).repeat(10), through: false });
    settle(&mut disk, &mut now);
    let left: Vec<u64> = (100..110).chain(120..164).collect();
    assert_eq!(sectors(&disk.in_memory(range(0, 400))), left);
    disk.ask_in_background(now, read(2, 1, range(100, 64)));
    let found = &settle(&mut disk, &mut now)[&2];
    assert!((0..64).all(|at| found[at] == if (10..20).contains(&at) { 5 } else { 0 }), "{found:?}");
}

#[test]
fn the_memory_holds_what_was_declared_last_and_never_more_than_its_bound() {
    let (mut disk, _) = with_memory(64 << 10);
    let mut now = Instant::ZERO;
    for start in [0, 96, 500, 1_000] {
        disk.declare(now, 1, range(start, 96));
        let held = disk.status().background_requests.unwrap().memory.held_bytes;
        assert!(held <= 64 << 10, "{held} bytes");
        settle(&mut disk, &mut now);
    }
    let here = sectors(&disk.in_memory(range(0, CAPACITY)));
    assert!((1_000..1_096).all(|lbn| here.contains(&lbn)), "{here:?}");
    assert!(here.len() <= 128 && !here.contains(&0), "{here:?}");
    // A range that is larger than the memory is cut.
    disk.declare(now, 1, range(2_000, 1_000));
    settle(&mut disk, &mut now);
    assert_eq!(sectors(&disk.in_memory(range(0, CAPACITY))), (2_000..2_128).collect::<Vec<_>>());
    assert!(disk.status().background_requests.unwrap().memory.unread_bytes > 0);
}

#[test]
fn a_sequential_reader_is_read_ahead_of_and_then_waits_for_nothing() {
    let (mut disk, _) = with_memory(1 << 20);
    let mut now = Instant::ZERO;
    let mut at_once = 0;
    for nth in 0..100u64 {
        disk.ask_in_background(now, read(nth, 1, range(nth * 32, 32)));
        if disk.poll(now).is_some_and(|answer| answer.id == nth) {
            at_once += 1;
            continue;
        }
        settle(&mut disk, &mut now);
    }
    assert!(at_once > 90, "{at_once} of 100 reads had no wait");
    assert!(disk.status().background_requests.unwrap().memory.given_bytes > 90 * 32 * 512);
}

#[test]
fn what_a_client_that_is_gone_has_declared_is_not_read_any_more() {
    let (mut disk, _) = with_memory(1 << 20);
    let mut now = Instant::ZERO;
    disk.declare(now, 1, range(0, 1_000));
    disk.declare(now, 2, range(2_000, 32));
    disk.leave(now, 1);
    settle(&mut disk, &mut now);
    let here = sectors(&disk.in_memory(range(0, CAPACITY)));
    assert!(here.contains(&2_000) && here.len() < 200, "only what was under way: {here:?}");
    let held = disk.status().background_requests.unwrap().memory.held_bytes;
    assert_eq!(held, here.len() as u64 * 512);
}

#[test]
fn a_bad_sector_that_was_read_ahead_fails_only_the_read_that_asks_for_it() {
    let (mut disk, truth) = with_memory(1 << 20);
    truth.get().bad.insert(120);
    disk.declare(Instant::ZERO, 1, range(96, 64));
    disk.ask_in_background(Instant::ZERO, read(1, 1, range(96, 16)));
    disk.ask_in_background(Instant::ZERO, read(2, 1, range(118, 4)));
    let (mut now, mut results) = (Instant::ZERO, BTreeMap::new());
    while results.len() < 2 {
        now = now.max(disk.next_event().unwrap());
        disk.advance(now);
        results.extend(std::iter::from_fn(|| disk.poll(now)).map(|answer| (answer.id, answer.result)));
    }
    assert!(results[&1].is_ok(), "{:?}", results[&1]);
    assert!(matches!(results[&2], Err(Failure::Medium(lbn)) if lbn.get() == 120), "{:?}", results[&2]);
}

/// An application that fences the first hundred sectors, open, waiting, or closed.
struct Fenced(Arc<AtomicU8>);

impl Application for Fenced {
    fn done(&mut self, _: &mut dyn Sessions, _: &Record, _: &[u8], _: Instant) {}
}

impl DiskHooks for Fenced {
    fn fenced(&self, place: LbnRange) -> server::Fence {
        match self.0.load(Ordering::Relaxed) {
            _ if !place.overlaps(range(0, 100)) => server::Fence::Open,
            0 => server::Fence::Open,
            1 => server::Fence::Wait,
            _ => server::Fence::Closed,
        }
    }
}

#[test]
fn a_background_read_waits_at_a_fence_and_is_refused_at_a_closed_one() {
    let (mut disk, _) = disk("sptf", 1);
    disk.take_background_requests(BackgroundTerms::default());
    let state = Arc::new(AtomicU8::new(1));
    disk.host(Fenced(Arc::clone(&state)));
    disk.ask_in_background(Instant::ZERO, read(1, 1, range(90, 64)));
    disk.ask_in_background(Instant::ZERO, read(2, 1, range(200, 64)));
    let mut now = Instant::ZERO;
    let mut until = |disk: &mut Disk<Spy, Fenced>, seconds: u64| {
        let mut answers = Vec::new();
        while let Some(at) = disk.next_event().filter(|at| *at <= second(seconds)) {
            now = now.max(at);
            disk.advance(now);
            answers.extend(
                std::iter::from_fn(|| disk.poll(now)).map(|answer| (answer.id, answer.result.is_ok())),
            );
        }
        answers
    };
    assert_eq!(until(&mut disk, 10), [(2, true)]);
    state.store(0, Ordering::Relaxed);
    disk.call(second(10), |_, _| ());
    assert_eq!(until(&mut disk, 20), [(1, true)]);
    state.store(2, Ordering::Relaxed);
    disk.ask_in_background(second(20), read(3, 1, range(90, 64)));
    assert_eq!(until(&mut disk, 30), [(3, false)]);
}
