//! Background writes, and the requests that have to wait for them.

use super::*;

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

#[test]
fn a_request_waits_for_no_background_write_without_bound_also_through_another_one() {
    let mut disk = without_time(None);
    for (id, start) in (1..=8).zip((0..).step_by(32)) {
        disk.ask_in_background(Instant::ZERO, write(id, range(start, 64), id));
    }
    assert_eq!(run(&mut disk, second(60)), []);
    // The read overlaps only the last of the writes, but each write overlaps the one before.
    disk.ask(second(60), 20, range(280, 8), Ask::Read);
    assert!(ids(&run(&mut disk, second(61))).contains(&20));
    // Of each write, only the block that overlaps the next one was awaited.
    let promoted = disk.status().background.promoted_bytes;
    assert!((1..=8 * 32 * 512).contains(&promoted), "{promoted}");
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
    let status = disk.status();
    let background = status.background_requests.unwrap();
    assert_eq!((background.waiting, status.background.promoted_bytes), (1, 2 * 32 * 512));
    let promoted = background.promoted;
    assert_eq!((promoted.requests, promoted.bytes, promoted.device_us), (0, 0, 0.0), "no cost of a floor");
}

/// An application that holds writes until it has copied the old content, and counts the disk's urgent
/// and other calls of the hook that holds a write.
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

fn flush(id: u64) -> BackgroundRequest {
    BackgroundRequest { id, client: 1, range: range(0, 0), ask: Ask::Flush, snapshot: None }
}

/// The writes of a killed daemon may be acknowledged and not flushed, so the first flush is not skipped.
#[test]
fn where_background_writes_are_allowed_the_first_flush_goes_to_the_device_too() {
    let (mut disk, truth) = disk::<NoApp>("sptf", 1);
    disk.take_background_requests(BackgroundTerms { write: true, ..BackgroundTerms::default() });
    let mut now = Instant::ZERO;
    disk.ask_in_background(now, flush(1));
    assert!(settle(&mut disk, &mut now).contains_key(&1));
    assert_eq!(truth.get().flushes, 1);
}

/// A background flush covers the background's acknowledged writes. Without a write before it, it does
/// nothing.
#[test]
fn a_flush_of_the_background_puts_its_writes_on_the_medium() {
    let (mut disk, truth) = disk::<NoApp>("sptf", 1);
    disk.take_background_requests(BackgroundTerms::default());
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

    // A discard is a change that has to be flushed, too.
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
