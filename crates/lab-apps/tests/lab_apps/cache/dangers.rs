//! A test for each danger, in its smallest form.

use super::host::{Registry, range, stamp};
use super::rig::{CacheRig, STEP, block};
use lab_apps::cache::*;
use scheduler::Sessions;
use units::{Bytes, Duration, Lbn, LbnRange, Op, Sectors};

#[test]
fn a_buffer_dirtied_during_its_write_stays_dirty() {
    let mut rig = CacheRig::small(4, |_| {});
    rig.write(block(1));
    assert!(rig.begin(block(1)));
    rig.write(range(5, 1));
    rig.finish();
    assert_eq!((rig.on_medium(5), rig.cache.dirty()), (1, 1));
    // Only those sectors are registered again that are newer than the medium's.
    assert_eq!((rig.tasks(block(1)), rig.tasks(range(5, 1))), (1, 1));
    assert!(rig.begin(range(5, 1)));
    rig.finish();
    assert_eq!((rig.on_medium(5), rig.cache.dirty()), (2, 0));
    assert_eq!((rig.cache.tally().free, rig.cache.tally().still_dirty), (2, 1));
}

#[test]
fn dirtied_again_between_its_two_halves() {
    let mut rig = CacheRig::small(4, |_| {});
    rig.write(block(1));
    assert!(rig.begin(range(4, 2)));
    rig.write(range(4, 1));
    rig.write(range(7, 1));
    let task = rig.host.registry.tasks[0].range;
    assert_eq!(task, block(1), "a task whose bytes are out stays");
    let at = 0;
    assert!(rig.host.begin_part(&mut rig.cache, at, range(6, 2)));
    rig.finish();
    assert_eq!((rig.on_medium(4), rig.on_medium(6), rig.on_medium(7)), (1, 1, 3));
    assert_eq!((rig.cache.dirty(), rig.tasks(range(4, 1)), rig.tasks(range(5, 3))), (1, 1, 0));
}

#[test]
fn written_past_the_task_while_its_bytes_are_out_and_flushed() {
    // Sector 4 was dirty before bytes were taken for a write, is not among these bytes, and is dirtied again. The
    // second flush covers the older version of the sector, but must wait for the second write all the same.
    let mut rig = CacheRig::small(4, |config| config.cleaner = None);
    rig.write(range(5, 2));
    rig.flush();
    rig.write(range(4, 1));
    let flush = rig.flush().unwrap();
    rig.host.begin_request(&mut rig.cache);
    rig.write(block(1));
    rig.finish();
    assert!(!rig.answers.contains(&flush));
    rig.foreground();
    assert!(rig.answers.contains(&flush) && rig.on_medium(4) >= 2);
}

#[test]
fn evicted_while_it_is_written_for_free() {
    let mut rig = CacheRig::small(1, |_| {});
    rig.write(block(1));
    assert!(rig.begin(block(1)));
    let read = rig.read(block(2)).unwrap();
    assert_eq!(rig.queued(Op::Read), 0, "the buffer is not given away while its bytes are out");
    assert_eq!(rig.queued(Op::Write), 0, "nor written a second time");
    rig.finish();
    assert_eq!((rig.on_medium(4), rig.queued(Op::Read)), (1, 1));
    rig.foreground();
    assert!(rig.answers.contains(&read));
    assert_eq!((rig.cache.tally().free, rig.cache.tally().evicted), (1, 1));
}

#[test]
fn a_flush_waits_for_a_write_whose_bytes_are_out() {
    for force in [Force::Promote, Force::Submit] {
        let mut rig = CacheRig::small(4, |config| config.force = force);
        rig.write(block(1));
        assert!(rig.begin(block(1)));
        let flush = rig.flush().unwrap();
        assert_eq!(rig.queued(Op::Write), 0, "one write of a place at a time");
        assert!(!rig.answers.contains(&flush));
        rig.finish();
        assert!(rig.answers.contains(&flush));
        // The free write took its bytes before the flush forced the write.
        assert_eq!((rig.cache.tally().free, rig.cache.tally().flush), (1, 0));
    }
}

#[test]
fn promoted_when_half_of_it_is_written() {
    let mut rig = CacheRig::small(4, |_| {});
    rig.write(block(1));
    assert!(rig.begin(range(4, 2)));
    rig.finish();
    let flush = rig.flush().unwrap();
    assert!(rig.promoted(block(1)), "the other half may never find a gap");
    assert!(rig.host.begin_part(&mut rig.cache, 0, range(6, 2)));
    rig.finish();
    assert!(rig.answers.contains(&flush));
    assert_eq!((rig.cache.tally().free, rig.cache.tally().flush), (0, 1));
}

#[test]
fn trimmed_while_it_is_written_and_written_anew() {
    let mut rig = CacheRig::small(4, |_| {});
    rig.write(block(1));
    assert!(rig.begin(block(1)));
    rig.trim(block(1));
    rig.write(block(1));
    assert_eq!(rig.tasks(block(1)), 1, "old bytes are on their way: nothing else is registered");
    rig.finish();
    assert_eq!((rig.on_medium(4), rig.cache.dirty()), (1, 1));
    rig.clean_for_free(1);
    assert_eq!((rig.on_medium(4), rig.cache.dirty()), (2, 0));
}

#[test]
fn a_dead_buffer_is_not_written() {
    let mut rig = CacheRig::small(4, |_| {});
    rig.write(block(1));
    rig.write(block(2));
    rig.trim(block(1));
    assert_eq!((rig.tasks(block(1)), rig.tasks(block(2)), rig.cache.dirty()), (0, 1, 1));
    // If a part of a dirty block is trimmed, only the rest is written.
    rig.trim(range(8, 2));
    assert_eq!((rig.tasks(range(8, 2)), rig.tasks(range(10, 2))), (0, 1));
    assert_eq!((rig.cache.tally().died, rig.cache.tally().aborted), (1, 2));
}

#[test]
fn a_locked_buffer_says_not_now() {
    let mut rig = CacheRig::small(4, |_| {});
    rig.write(range(4, 2));
    rig.pin(Lbn::new(4));
    assert!(!rig.begin(range(4, 2)));
    rig.unpin();
    rig.read(block(1));
    assert!(!rig.begin(range(4, 2)), "it is being read");
    rig.foreground();
    assert!(rig.begin(range(4, 2)));
    assert_eq!(rig.cache.tally().not_now, 2);
}

#[test]
fn a_pinned_buffer_stays() {
    let mut rig = CacheRig::small(1, |config| config.force = Force::Submit);
    rig.write(block(1));
    rig.pin(Lbn::new(7));
    let (read, flush) = (rig.read(block(2)).unwrap(), rig.flush().unwrap());
    assert!(rig.host.queue.is_empty());
    rig.unpin();
    rig.foreground();
    assert!(rig.answers.contains(&read) && rig.answers.contains(&flush));
    assert_eq!(rig.on_medium(4), 1);
}

#[test]
fn a_failed_write_stays_dirty_and_is_reported() {
    let mut rig = CacheRig::small(4, |config| config.retry = Duration::from_secs(5));
    rig.write(block(1));
    rig.host.bad.insert(6);
    rig.model.ever_bad.insert(6);
    rig.flush();
    assert!(rig.begin(block(1)));
    // The refused write ends the flush, with an error.
    rig.finish();
    assert_eq!((rig.write_failures, rig.cache.dirty(), rig.cache.calls()), (1, 1, 0));
    assert_eq!(rig.tasks(block(1)), 0, "the core has no task for the failed block");
    assert_eq!(rig.cache.wake(), Some(rig.host.now + Duration::from_secs(5)));
    rig.wait(Duration::from_secs(5));
    assert_eq!(rig.tasks(block(1)), 1, "and tried again");
    rig.host.bad.clear();
    rig.flush();
    assert!(rig.begin(block(1)));
    rig.finish();
    assert_eq!((rig.on_medium(7), rig.cache.dirty(), rig.cache.calls()), (1, 0, 0));
}

#[test]
fn a_flush_tries_failed_writes_again() {
    let mut rig = CacheRig::small(4, |_| {});
    rig.write(block(1));
    rig.host.bad.insert(4);
    rig.model.ever_bad.insert(4);
    rig.clean_for_free(1);
    assert_eq!(rig.tasks(block(1)), 0);
    let flush = rig.flush().unwrap();
    assert!(!rig.answers.contains(&flush) && rig.promoted(block(1)));
    rig.host.bad.clear();
    rig.clean_for_free(1);
    assert!(rig.answers.contains(&flush));
}

#[test]
fn a_bad_sector_fails_only_calls_for_it() {
    let mut rig = CacheRig::small(4, |_| {});
    rig.host.bad.insert(5);
    rig.model.ever_bad.insert(5);
    rig.read(range(6, 2));
    rig.read(range(4, 2));
    rig.read(range(4, 1));
    rig.foreground();
    // The model accepts the error only for reads of sector 5; all reads are answered.
    assert_eq!(rig.cache.calls(), 0);
    // After a write over the bad sector, reads come from the cache.
    rig.write(range(5, 1));
    rig.read(block(1));
    rig.foreground();
    assert_eq!(rig.cache.calls(), 0);
}

#[test]
fn no_room_for_any_call_is_an_error_and_not_a_hang() {
    let mut rig = CacheRig::small(2, |_| {});
    for lbn in [4, 8] {
        rig.host.bad.insert(lbn);
        rig.model.ever_bad.insert(lbn);
    }
    rig.write(block(1));
    rig.write(block(2));
    let read = rig.read(block(3)).unwrap();
    rig.run(|rig| rig.cache.calls() == 0);
    assert!(rig.answers.contains(&read));
    assert_eq!(rig.cache.dirty(), 2, "nothing acknowledged is lost");
    rig.trim(block(1));
    let read = rig.read(block(3)).unwrap();
    rig.foreground();
    assert!(rig.answers.contains(&read));
}

#[test]
fn a_partial_write_of_an_absent_block_reads_nothing() {
    let mut rig = CacheRig::small(4, |_| {});
    rig.write(range(4, 1));
    rig.write(range(6, 2));
    // The two runs of dirty sectors take two write-backs, one after the other: the sectors in between were never
    // read.
    for _ in 0..2 {
        let of = rig.host.registry.tasks[0].range;
        assert!(rig.begin(of));
        rig.finish();
    }
    assert_eq!((rig.on_medium(4), rig.on_medium(5), rig.on_medium(7)), (1, 0, 2));
    assert_eq!((rig.cache.tally().reads, rig.cache.dirty()), (0, 0));
    // Valid sectors between two dirty runs join them into one write-back.
    rig.read(block(2));
    rig.foreground();
    rig.write(range(8, 1));
    rig.write(range(11, 1));
    assert_eq!(rig.host.registry.tasks[0].range, block(2));
}

#[test]
fn a_flush_does_not_wait_for_later_writes() {
    let mut rig = CacheRig::small(8, |_| {});
    rig.write(block(1));
    let flush = rig.flush().unwrap();
    for _ in 0..2 {
        rig.write(block(2));
        assert!(rig.begin(block(1)));
        rig.write(block(1));
        rig.finish();
    }
    assert!(rig.answers.contains(&flush));
    assert_eq!(rig.cache.dirty(), 2);
    assert!(!rig.promoted(block(1)), "nor is what was written later in a hurry");
}

#[test]
fn a_waiting_call_gets_its_place_although_the_victim_is_written_all_the_time() {
    for force in [Force::Promote, Force::Submit] {
        let mut rig = CacheRig::small(1, |config| config.force = force);
        rig.write(block(1));
        let read = rig.read(block(2)).unwrap();
        for _ in 0..60 {
            rig.write(block(1));
            rig.step();
        }
        assert!(rig.answers.contains(&read), "{force:?}");
        rig.settle();
    }
}

#[test]
fn refused_buffers_are_written_once_they_are_forced() {
    let mut rig = CacheRig::small(4, |_| {});
    rig.host.registry.most_tasks = 1;
    rig.write(block(1));
    rig.write(block(2));
    assert_eq!((rig.tasks(block(2)), rig.cache.tally().refused > 0), (0, true));
    rig.clean_for_free(1);
    assert_eq!(rig.tasks(block(2)), 1, "registered as soon as there is room");
    rig.write(block(3));
    rig.flush();
    assert_eq!(rig.queued(Op::Write), 1);
    rig.foreground();
    rig.clean_for_free(2);
    assert_eq!((rig.cache.dirty(), rig.cache.calls()), (0, 0));
}

#[test]
fn contents_that_survived_a_crash_are_written() {
    let mut rig = CacheRig::small(4, |_| {});
    rig.write(range(5, 2));
    rig.write(range(10, 4));
    assert!(rig.begin(range(5, 2)));
    rig.crash();
    assert_eq!(rig.cache.dirty(), 3);
    rig.read(range(4, 12));
    rig.foreground();
    assert_eq!(rig.cache.calls(), 0);
    rig.settle();
    assert_eq!((rig.on_medium(6), rig.on_medium(13)), (1, 2));
}

#[test]
fn contents_that_do_not_fit_are_refused_by_name() {
    let mut rig = CacheRig::small(2, |_| {});
    let now = rig.host.now;
    let start = |config: Config, kept: &[(LbnRange, &[u8])], registry: &mut Registry| {
        Cache::recover(config, kept.iter().copied(), registry, now).map(|_| ()).unwrap_err().to_string()
    };
    let good = rig.config;
    let with = |change: fn(&mut Config)| {
        let mut config = good;
        change(&mut config);
        config
    };
    let registry = &mut rig.host.registry;
    for (config, error) in [
        (with(|c| c.volume = range(5, 0)), "volume 5+0 is empty"),
        (with(|c| c.block = Sectors::new(129)), "a block of 129 sectors"),
        (with(|c| c.sector = Bytes::new(1 << 20)), "sectors of 1048576 bytes"),
        (with(|c| c.buffers = 0), "0 buffers"),
        (with(|c| c.watermarks.high = 0), "watermarks 0 and 0"),
        (with(|c| c.syncer = Some(Syncer { age: STEP, every: Duration::ZERO })), "every 0 ns"),
        (with(|c| c.daemon_outstanding = 0), "daemon_outstanding is 0"),
        (with(|c| c.nearest_of = 0), "nearest_of is 0"),
    ] {
        let said = start(config, &[], registry);
        assert!(said.contains(error), "{said}");
    }
    let bytes = [0; 64];
    assert!(start(good, &[(range(60, 8), &bytes)], registry).contains("does not fit this volume"));
    assert!(start(good, &[(range(0, 3), &bytes)], registry).contains("does not fit this volume"));
    let many = [(block(0), &bytes[..]), (block(1), &bytes), (block(2), &bytes)];
    assert!(start(good, &many, registry).contains("more than 2 buffers"));
}

#[test]
fn a_call_that_cannot_be_is_refused_by_name() {
    let mut rig = CacheRig::small(2, |config| config.most_calls = 2);
    let (now, cache) = (rig.host.now, &mut rig.cache);
    assert_eq!(cache.read(range(3, 0), now), Err(CallError::Empty(Lbn::new(3))));
    assert!(matches!(cache.read(range(63, 2), now), Err(CallError::Outside { .. })));
    assert!(matches!(cache.trim(range(u64::MAX, 2)), Err(CallError::Outside { .. })));
    assert!(matches!(
        cache.write(range(0, 2), vec![0; 31], now),
        Err(CallError::Length { expected: 32, .. })
    ));
    assert_eq!(cache.pin(Lbn::new(3)), Err(CallError::NotThere(Lbn::new(3))));
    assert_eq!(cache.unpin(Lbn::new(64)), Err(CallError::NotThere(Lbn::new(64))));
    cache.read(range(0, 1), now).unwrap();
    cache.read(range(4, 1), now).unwrap();
    assert_eq!(cache.flush(), Err(CallError::Full { most: 2 }));
    let unknown = units::RequestId::new(9);
    assert_eq!(cache.completed(unknown, Ok(&[]), now), Err(RequestError::Unknown(unknown)));
    let id = units::RequestId::new(1);
    while cache.poll(&mut rig.host.registry, &NoHead, now).is_some() {}
    assert!(matches!(cache.completed(id, Ok(&[0]), now), Err(RequestError::Length { .. })));
    assert!(matches!(cache.bytes(id, range(0, 4), &mut [0; 64]), Err(RequestError::Unknown(_))));
    cache.completed(id, Ok(&stamp(0, 0).repeat(4)), now).unwrap();
}

#[test]
fn without_contents_only_the_timing_is_simulated() {
    let mut rig = CacheRig::small(4, |_| {});
    let mut config = rig.config;
    config.sector = Bytes::ZERO;
    let (registry, now) = (&mut rig.host.registry, rig.host.now);
    let mut cache = Cache::new(config, registry, now).unwrap();
    let call = cache.read(block(1), now).unwrap();
    let Some(Action::Submit(request)) = cache.poll(registry, &NoHead, now) else { panic!("a miss") };
    cache.completed(request.id, Ok(&[]), now).unwrap();
    let answer = Action::Answer { call, result: Ok(Vec::new()) };
    assert_eq!(cache.poll(registry, &NoHead, now), Some(answer));
    cache.write(block(1), Vec::new(), now).unwrap();
    while cache.poll(registry, &NoHead, now).is_some() {}
    rig.cache = cache;
    let mut bytes = [7; 64];
    let task = rig.host.registry.tasks[0].clone();
    assert!(rig.host.begin_part(&mut rig.cache, 0, task.range));
    bytes.fill(0);
    assert_eq!(rig.cache.dirty(), 1);
}

#[test]
fn the_same_calls_give_the_same_actions() {
    let run = || {
        let mut rig = CacheRig::small(5, |config| config.syncer = Some(Syncer { age: STEP, every: STEP }));
        for _ in 0..400 {
            rig.act(true, false);
        }
        (rig.cache.tally(), rig.host.medium.clone(), rig.answers.clone())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_closed_session_leaves_nothing_behind() {
    let mut rig = CacheRig::small(4, |_| {});
    rig.write(block(1));
    rig.settle();
    let session = rig.cache.session().unwrap();
    assert_eq!(rig.host.registry.close(session), Ok(0));
    assert!(rig.host.registry.tasks.is_empty());
}

#[test]
fn a_victim_that_is_written_in_two_parts_is_forced_twice() {
    let mut rig = CacheRig::small(1, |_| {});
    rig.write(range(4, 1));
    rig.write(range(6, 1));
    let read = rig.read(block(2)).unwrap();
    for part in [range(4, 1), range(6, 1)] {
        assert!(rig.promoted(part));
        assert!(rig.begin(part));
        rig.finish();
    }
    rig.foreground();
    assert!(rig.answers.contains(&read));
}

#[test]
fn a_read_and_a_write_of_one_block_end_each_for_itself() {
    let mut rig = CacheRig::small(4, |config| config.cleaner = None);
    rig.write(range(4, 1));
    let flush = rig.flush().unwrap();
    let read = rig.read(block(1)).unwrap();
    let at = rig.host.queue.iter().position(|r| r.op == Op::Read).unwrap();
    let later = rig.host.queue.remove(at);
    rig.foreground();
    assert!(rig.answers.contains(&flush) && !rig.answers.contains(&read));
    rig.host.queue.push(later);
    rig.foreground();
    assert!(rig.answers.contains(&read));
}
