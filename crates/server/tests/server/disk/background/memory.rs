//! Blocks that are read into memory before a client asks for them.

use super::*;

#[test]
fn a_declared_range_is_in_memory_before_it_is_read_and_is_given_out_once() {
    let (mut disk, _) = with_memory(1 << 20);
    let mut now = Instant::ZERO;
    disk.declare(now, 1, range(100, 200));
    assert_eq!(disk.in_memory(range(0, 400)), []);
    assert!(settle(&mut disk, &mut now).is_empty(), "a declaration has no answer");
    assert_eq!(sectors(&disk.in_memory(range(0, 400))), (100..300).collect::<Vec<_>>());
    // The answer exists at once, and the sectors that were given out are no longer in memory.
    disk.ask_in_background(now, read(7, 1, range(120, 64)));
    assert_eq!(disk.poll(now).unwrap().id, 7);
    let left: Vec<u64> = (100..120).chain(184..300).collect();
    assert_eq!(sectors(&disk.in_memory(range(0, 400))), left);
    let status = disk.status().background_requests.unwrap();
    assert_eq!(status.memory.given_bytes, 64 * 512);
    assert_eq!(disk.status().background.blocks, 200 / 32 + 1, "16 KiB each");
}

#[test]
fn a_declaration_of_any_size_is_read_and_a_read_of_what_is_not_made_yet_is_read_once() {
    let (mut disk, _) = with_memory(64 << 20);
    let mut now = Instant::ZERO;
    disk.declare(now, 1, range(0, CAPACITY));
    disk.declare(now, 1, range(0, CAPACITY));
    assert!(disk.status().background_requests.unwrap().memory.held_bytes < CAPACITY * 512);
    // The disk has not registered blocks at the end of the declared range yet.
    disk.ask_in_background(now, read(7, 1, range(CAPACITY - 64, 64)));
    assert!(settle(&mut disk, &mut now).contains_key(&7));
    let expected: Vec<u64> = (0..CAPACITY - 64).collect();
    assert_eq!(sectors(&disk.in_memory(range(0, CAPACITY))), expected);
    assert_eq!(disk.status().background.idle_bytes, CAPACITY * 512, "each sector is read once");
    // A second declaration covers the sectors that were given out and those that are in memory.
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
    // A declared range that is larger than the memory is cut.
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
fn declarations_of_a_client_that_is_gone_are_not_read_any_more() {
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

#[test]
fn twenty_four_disks_hold_no_more_together_than_the_bound_of_the_daemon_and_have_equal_shares() {
    const DISKS: u64 = 24;
    let (most, share) = (4 << 20, (4 << 20) / DISKS);
    let budget = ReadAheadBudget::of(Bytes::new(most));
    let mut disks: Vec<(Disk<Spy>, SharedTruth)> = (0..DISKS)
        .map(|seed| {
            let (mut disk, truth) = disk("sptf", seed);
            let memory = budget.for_disk(Bytes::new(1 << 20));
            disk.take_background_requests(BackgroundTerms { memory, ..BackgroundTerms::default() });
            (disk, truth)
        })
        .collect();
    // The first four disks fill the memory that all share before the others begin; no client reads
    // what was read ahead.
    for begun in [4, DISKS] {
        for s in 0..60 {
            for (disk, _) in disks.iter_mut().take(begun as usize) {
                if s % 5 == 0 {
                    disk.declare(second(60 * begun + s), 1, range(0, CAPACITY));
                }
                let until = second(60 * begun + s + 1);
                while let Some(at) = disk.next_event().filter(|at| *at <= until) {
                    disk.advance(at.max(second(60 * begun + s)));
                }
                let all = disk.status().background_requests.unwrap().memory.all_disks.unwrap();
                assert!(all.held_bytes <= all.most_bytes && all.most_bytes == most, "{all:?}");
            }
        }
        let held = |disk: &Disk<Spy>| disk.status().background_requests.unwrap().memory.held_bytes;
        let each = share.max(most / begun).min(1 << 20);
        for (disk, _) in disks.iter().take(begun as usize) {
            assert!(held(disk).abs_diff(each) <= 16 << 10, "{} of {each}", held(disk));
        }
    }
}
