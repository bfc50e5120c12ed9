//! The syncer, the buffer daemon, and the choice of victims.

use super::host::At;
use super::rig::{CacheRig, block};
use lab_apps::cache::*;
use units::{Duration, Instant, Op};

#[test]
fn the_syncer_leaves_nothing_dirty_for_longer_than_it_may() {
    let syncer = Syncer::default();
    let mut rig = CacheRig::small(8, |config| config.syncer = Some(syncer));
    rig.wait(Duration::from_millis(700));
    rig.write(block(1));
    rig.wait(Duration::from_secs(10));
    rig.write(block(2));
    // Block 1 is dirtied again, but its age counts from the first write.
    rig.write(block(1));
    rig.wait(Duration::from_secs(18));
    assert!(!rig.promoted(block(1)));
    rig.wait(Duration::from_secs(2));
    assert!(rig.promoted(block(1)) && !rig.promoted(block(2)));
    rig.clean_for_free(1);
    assert_eq!((rig.cache.tally().syncer, rig.cache.tally().free), (1, 0));
    // The host is woken in time, and not earlier.
    assert_eq!(rig.cache.wake(), Some(Instant::from_nanos(39_700_000_000)));
    rig.clean_for_free(2);
    assert_eq!((rig.cache.wake(), rig.cache.tally().free), (None, 1));
}

#[test]
fn a_syncer_that_looks_seldom_looks_ahead() {
    let syncer = Syncer { age: Duration::from_secs(30), every: Duration::from_secs(7) };
    let mut rig = CacheRig::small(8, |config| config.syncer = Some(syncer));
    rig.wait(Duration::from_secs(1));
    rig.write(block(1));
    rig.wait(Duration::from_secs(2));
    rig.write(block(2));
    rig.wait(Duration::from_secs(28));
    assert!(rig.promoted(block(1)));
    rig.wait(Duration::from_secs(2));
    assert!(rig.promoted(block(2)), "30 s after it was dirtied");
}

#[test]
fn a_buffer_dirtied_again_during_its_write_is_young() {
    let mut rig = CacheRig::small(8, |config| config.syncer = Some(Syncer::default()));
    rig.write(block(1));
    rig.wait(Duration::from_secs(20));
    assert!(rig.begin(block(1)));
    rig.write(block(1));
    rig.finish();
    rig.wait(Duration::from_secs(20));
    assert!(!rig.promoted(block(1)), "its oldest bytes that are not on the medium are 20 s old");
    rig.wait(Duration::from_secs(10));
    assert!(rig.promoted(block(1)));
}

#[test]
fn the_buffer_daemon_cleans_from_high_to_low() {
    let mut rig = CacheRig::small(8, |config| config.watermarks = Watermarks { low: 2, high: 5 });
    for n in 1..5 {
        rig.write(block(n));
    }
    rig.write(block(1));
    assert_eq!(rig.cache.tally().promoted, 0);
    rig.write(block(5));
    let promoted: Vec<bool> = (1..6).map(|n| rig.promoted(block(n))).collect();
    assert_eq!(promoted, [false, true, true, true, false], "the least recently used");
    for n in 2..5 {
        rig.clean_for_free(n);
    }
    assert_eq!((rig.cache.dirty(), rig.cache.tally().watermark), (2, 3));
    rig.write(block(6));
    rig.write(block(7));
    assert_eq!(rig.cache.tally().promoted, 3, "nothing until the high watermark is met again");
}

#[test]
fn a_daemon_that_forces_one_at_a_time_goes_on_to_the_low_watermark() {
    let mut rig = CacheRig::small(8, |config| {
        config.watermarks = Watermarks { low: 1, high: 4 };
        config.daemon_outstanding = 1;
    });
    for n in 1..5 {
        rig.write(block(n));
    }
    for n in 1..4 {
        assert!(rig.promoted(block(n)) && !rig.promoted(block(n + 1)));
        rig.clean_for_free(n);
    }
    assert!(!rig.promoted(block(4)));
}

#[test]
fn sptf_evict_cleans_the_buffer_nearest_to_the_head() {
    let mut rig = CacheRig::small(8, |config| {
        config.replacement = Replacement::SptfEvict;
        config.watermarks = Watermarks { low: 2, high: 4 };
        config.daemon_outstanding = 1;
    });
    for n in [2, 6, 9] {
        rig.write(block(n));
    }
    let now = rig.host.now;
    rig.cache.write(block(13), vec![0; 64], now).unwrap();
    while rig.cache.poll(&mut rig.host.registry, &At(35), now).is_some() {}
    let promoted: Vec<u64> = [2, 6, 9, 13].into_iter().filter(|&n| rig.promoted(block(n))).collect();
    assert_eq!(promoted, [9], "one at a time, so that each is the nearest when it is chosen");
}

#[test]
fn a_dirty_victim_is_the_oldest_under_lru_and_the_nearest_under_sptf_evict() {
    for (replacement, victim) in [(Replacement::Lru, 2), (Replacement::SptfEvict, 9)] {
        let mut rig = CacheRig::small(3, |config| {
            config.replacement = replacement;
            config.cleaner = None;
        });
        let now = rig.host.now;
        for n in [2, 9, 6] {
            rig.cache.write(block(n), vec![0; 64], now).unwrap();
        }
        rig.cache.read(block(12), now).unwrap();
        let action = rig.cache.poll(&mut rig.host.registry, &At(35), now);
        let first = std::iter::successors(action, |_| rig.cache.poll(&mut rig.host.registry, &At(35), now))
            .find_map(|action| match action {
                Action::Submit(request) => Some(request.range),
                _ => None,
            });
        assert_eq!(first, Some(block(victim)), "{replacement:?}");
    }
}

#[test]
fn free_clean_takes_buffers_written_for_free_and_lru_the_oldest() {
    for (replacement, gone) in [(Replacement::Lru, 1), (Replacement::FreeClean, 3)] {
        let mut rig = CacheRig::small(4, |config| config.replacement = replacement);
        rig.read(block(1));
        rig.foreground();
        for n in [2, 3, 4] {
            rig.write(block(n));
        }
        rig.clean_for_free(3);
        rig.read(block(5));
        rig.foreground();
        let misses = rig.cache.tally().read_misses;
        for n in [1, 3] {
            rig.read(block(n));
            let missed = rig.cache.tally().read_misses > misses;
            assert_eq!(missed, n == gone, "{replacement:?}");
            if missed {
                break;
            }
        }
    }
}

#[test]
fn free_clean_without_a_gift_is_lru() {
    let mut rig = CacheRig::small(2, |config| config.replacement = Replacement::FreeClean);
    rig.write(block(1));
    rig.read(block(2));
    rig.foreground();
    rig.read(block(3));
    assert!(rig.promoted(block(1)) && rig.queued(Op::Read) == 0, "not the clean one: it is no gift");
}
