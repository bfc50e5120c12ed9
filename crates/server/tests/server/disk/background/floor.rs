//! The wait of background requests, and the floor: the least service that bounds the wait.

use super::*;
use std::num::NonZeroU64;

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

#[test]
fn a_reader_with_one_request_at_a_time_gets_the_rate_of_the_floor() {
    let rate = NonZeroU64::new(64 * 512).unwrap();
    let mut disk = without_time(Some(Floor::BytesPerSecond(rate)));
    let mut at = Instant::ZERO;
    for id in 1..=200 {
        disk.ask_in_background(at, read(id, 1, range(id * 977 % 3_400, 64)));
        while ids(&run(&mut disk, at)) != [id] {
            at = disk.next_event().unwrap();
        }
        let due = second(id);
        assert!(at >= due && at < due + Duration::from_millis(200), "{id} at {at:?}");
    }
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
    // The floor counts all clients together, so the second client's request waits while the first
    // client is served at the floor's rate.
    assert_eq!(disk.status().background_requests.unwrap().promoted.requests, 0);
    assert_eq!(ids(&run(&mut disk, second(8))), [100]);
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

/// An application that has work at an instant at which nothing else happens.
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
