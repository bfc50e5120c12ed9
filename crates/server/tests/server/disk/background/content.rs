//! Random overlapping requests of both exports, compared with the true content of the medium.

use super::super::{CAPACITY, any_range, disk_with, range, spy};
use super::read;
use device::{Ask, BackgroundRequest, Device};
use proptest::prelude::*;
use scheduler::IdleTime;
use server::{BackgroundTerms, Disk, Floor, ReadAheadBudget};
use spy::{SharedTruth, Spy, stamped, stamps};
use std::collections::BTreeMap;
use units::{Bytes, Duration, Instant, LbnRange};

#[derive(Clone, Debug)]
enum ContentStep {
    /// A background read by one of four clients.
    Ask(u64, LbnRange),
    /// The next read of one of two clients that read sequentially.
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

fn step() -> impl Strategy<Value = ContentStep> {
    prop_oneof![
        4 => (0u64..4, any_range(120)).prop_map(|(client, range)| ContentStep::Ask(client, range)),
        6 => (0u64..2, 1u64..60).prop_map(|(reader, len)| ContentStep::Next(reader, len)),
        2 => (0u64..4, any_range(300)).prop_map(|(client, range)| ContentStep::Declare(client, range)),
        6 => any_range(40).prop_map(ContentStep::Write),
        4 => (0u64..4, any_range(40), any::<bool>())
            .prop_map(|(client, range, through)| ContentStep::WriteInBackground(client, range, through)),
        2 => any_range(40).prop_map(ContentStep::Read),
        5 => (0u64..30_000).prop_map(ContentStep::Wait),
        1 => (0u64..4).prop_map(ContentStep::Leave),
    ]
}

enum ContentRequest {
    /// A background read, with the last write to each sector that was acknowledged before the read arrived.
    InBackground(LbnRange, Vec<u64>),
    /// A write, and whether it is answered only after it is on the medium.
    Write(LbnRange, bool),
    /// A foreground read, with the last write to each sector that arrived before the read.
    Read(LbnRange, Vec<u64>),
}

struct ContentWorld {
    disk: Disk<Spy>,
    truth: SharedTruth,
    now: Instant,
    next: u64,
    asked: BTreeMap<u64, ContentRequest>,
    clients: BTreeMap<u64, u64>,
    /// The last acknowledged write of each sector. Writes are numbered in order of arrival.
    acknowledged: Vec<u64>,
    /// The last write to each sector that has arrived, by either export.
    newest: Vec<u64>,
    /// The position of each sequential reader.
    readers: [u64; 2],
}

impl ContentWorld {
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

    fn step(&mut self, step: ContentStep) {
        self.next += 1;
        let id = self.next;
        match step {
            ContentStep::Next(reader, len) => {
                let at = &mut self.readers[reader as usize];
                let start = if *at + len > CAPACITY { 0 } else { *at };
                *at = start + len;
                self.step(ContentStep::Ask(reader, range(start, len)));
            }
            ContentStep::Declare(client, range) => self.disk.declare(self.now, client, range),
            ContentStep::Ask(client, range) => {
                let before = self.acknowledged[Self::lbns(range)].to_vec();
                self.asked.insert(id, ContentRequest::InBackground(range, before));
                self.clients.insert(id, client);
                self.disk.ask_in_background(self.now, read(id, client, range));
            }
            ContentStep::Write(range) => {
                self.asked.insert(id, ContentRequest::Write(range, false));
                self.newest[Self::lbns(range)].fill(id);
                let bytes = stamped(id).repeat(range.len().get() as usize);
                self.disk.ask(self.now, id, range, Ask::Write { bytes, through: false });
            }
            ContentStep::WriteInBackground(client, range, through) => {
                self.asked.insert(id, ContentRequest::Write(range, through));
                self.newest[Self::lbns(range)].fill(id);
                let ask = Ask::Write { bytes: stamped(id).repeat(range.len().get() as usize), through };
                let request = BackgroundRequest { id, client, range, ask, snapshot: None };
                self.disk.ask_in_background(self.now, request);
            }
            ContentStep::Read(range) => {
                self.asked.insert(id, ContentRequest::Read(range, self.newest[Self::lbns(range)].to_vec()));
                self.disk.ask(self.now, id, range, Ask::Read);
            }
            ContentStep::Wait(us) => self.run_until(self.now + Duration::from_micros(us)),
            ContentStep::Leave(client) => {
                let expected: Vec<u64> =
                    self.clients.iter().filter(|(_, of)| **of == client).map(|(id, _)| *id).collect();
                // Answers that exist already are taken before the client leaves.
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
                ContentRequest::InBackground(range, before) => {
                    for ((lbn, found), before) in Self::lbns(range).zip(stamps(&bytes)).zip(before) {
                        let there = self.truth.get().sectors[lbn];
                        let fits = (before..=self.next).contains(&found);
                        assert!(fits, "LBN {lbn} holds {found}, older than {before}; the medium has {there}");
                    }
                }
                ContentRequest::Write(range, through) => {
                    let truth = self.truth.get();
                    let volatile = Self::lbns(range).find(|lbn| truth.volatile.contains_key(&(*lbn as u64)));
                    assert!(!through || volatile.is_none(), "LBN {volatile:?} is not on the medium");
                    drop(truth);
                    for last in &mut self.acknowledged[Self::lbns(range)] {
                        *last = (*last).max(answer.id);
                    }
                }
                ContentRequest::Read(range, newest) => assert!(stamps(&bytes) == newest, "{range}"),
            }
        }
    }

    /// Ends a history without idle time. Foreground requests must wait for no background request, except for writes
    /// of the same sectors.
    fn finish_without_idle_time(&mut self) {
        (0..4).for_each(|client| self.step(ContentStep::Leave(client)));
        self.step(ContentStep::Read(range(0, CAPACITY)));
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
        // The disk also finishes reading ahead of the sequential readers.
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
        let memory = ReadAheadBudget::of(Bytes::new(memory));
        let mut world = ContentWorld::new(seed, BackgroundTerms { floor, memory, write: true }, idle_time);
        for step in steps {
            world.step(step);
        }
        if !idle {
            world.finish_without_idle_time();
        }
        world.finish();
    }
}
