//! Background requests of clients on virtual time, beside foreground requests.

mod content;
mod floor;
mod memory;
mod waits;
mod writes;

use super::{CAPACITY, core, disk, nameless, range, spy};
use device::{Ask, BackgroundRequest, Device, Emulated, Failure};
use model::Profile;
use scheduler::{Application, Config, Record, Sessions};
use server::{BackgroundTerms, Disk, DiskHooks, Floor, NoApp, ReadAheadBudget, WaitStatus};
use spy::{SharedTruth, Spy, stamped, stamps};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use units::{Bytes, Duration, Instant, LbnRange};

fn read(id: u64, client: u64, range: LbnRange) -> BackgroundRequest {
    BackgroundRequest { id, client, range, ask: Ask::Read, snapshot: None }
}

fn write(id: u64, range: LbnRange, stamp: u64) -> BackgroundRequest {
    let bytes = stamped(stamp).repeat(range.len().get() as usize);
    BackgroundRequest { id, client: 1, range, ask: Ask::Write { bytes, through: false }, snapshot: None }
}

/// Returns a disk that uses no idle time. Without foreground requests its background work gets no time
/// at all.
fn without_time(floor: Option<Floor>) -> Disk<Emulated> {
    without_time_beside(floor)
}

/// Returns the disk of [`without_time`], with an application.
fn without_time_beside<A: DiskHooks>(floor: Option<Floor>) -> Disk<Emulated, A> {
    let profile = Profile::from_toml(super::PROFILE, "small.toml").unwrap();
    let (model, config) = core("sptf", 1);
    let drive = Emulated::new(&profile, Default::default(), 1, nameless()).unwrap();
    let mut disk = Disk::new(drive, model, config.with_idle(None)).unwrap();
    disk.take_background_requests(BackgroundTerms { floor, ..BackgroundTerms::default() });
    disk
}

/// Runs until an instant; returns the numbers and times of the answers.
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

fn ids(answers: &[(u64, Instant)]) -> Vec<u64> {
    answers.iter().map(|(id, _)| *id).collect()
}

/// Lets a disk without requests run until no work is left; returns the answers.
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

fn with_memory(bytes: u64) -> (Disk<Spy>, SharedTruth) {
    let (mut disk, truth) = disk("sptf", 1);
    disk.take_background_requests(BackgroundTerms {
        memory: ReadAheadBudget::of(Bytes::new(bytes)),
        ..BackgroundTerms::default()
    });
    (disk, truth)
}

fn sectors(ranges: &[LbnRange]) -> Vec<u64> {
    ranges.iter().flat_map(|range| range.start().get()..range.end().get()).collect()
}

#[test]
fn many_requests_at_a_time_are_answered_in_an_order_of_less_travel_than_that_of_arrival() {
    let (mut disk, _) = with_memory(0);
    let starts: Vec<u64> = (0..64).map(|nth| nth * 1_237 % 3_400).collect();
    for (id, start) in (0..).zip(&starts) {
        disk.ask_in_background(Instant::ZERO, read(id, 1, range(*start, 8)));
    }
    let (mut now, mut order) = (Instant::ZERO, Vec::new());
    while let Some(at) = disk.next_event() {
        now = now.max(at);
        disk.advance(now);
        order.extend(std::iter::from_fn(|| disk.poll(now)).map(|answer| starts[answer.id as usize]));
    }
    let travel = |order: &[u64]| order.windows(2).map(|two| two[0].abs_diff(two[1])).sum::<u64>();
    assert_eq!(order.len(), starts.len());
    assert!(travel(&order) * 4 < travel(&starts), "{order:?}");
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

/// An application with a fence around the first hundred sectors: the number says whether it is open
/// (0), waiting (1) or closed (else).
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
