//! The log-structured disk loses no data and restores no trimmed ones, under random operations and crashes.
//!
//! Planted bugs, and the tests that caught them:
//!
//! | bug | caught by |
//! |---|---|
//! | a trimmed block gets no tombstone; a torn segment is believed; its summary is not wiped | `durable_data_survive_every_crash` |
//! | cleaning drops tombstones | all three property tests |
//! | summaries are not counted as mentioning blocks; a dead block is copied | all three property tests |
//! | the client may take the last free segment | `free_cleaning_in_any_order_loses_nothing_up_to_95_percent` |
//! | the summary's checksum is ignored | `no_single_changed_byte_passes` (unit test) |
//! | reads of dead blocks are not aborted | `reads_of_blocks_that_died_are_taken_back` |
//! | a segment is freed before the copies of its blocks are durable | all three property tests: free segments are overwritten before a crash |
//! | the cleaner in gaps may use room in the last free segment while the foreground cleaner fills it | `blocks_from_gaps_leave_the_last_segment_to_the_foreground_cleaner` |
//! | a record of an earlier writing of a segment is accepted | `a_record_of_a_segments_earlier_contents_is_dropped` |

pub mod rig;

use lab_apps::lld::{LogConfig, Reads};
use proptest::prelude::*;
use rig::{Event, LogRig, configs, events};

fn reads() -> impl Strategy<Value = Reads> {
    prop_oneof![Just(Reads::Block), Just(Reads::Run), Just(Reads::Segment)]
}

/// Fill levels in percent: half of them are 95, the highest.
fn percents() -> impl Strategy<Value = u32> {
    prop_oneof![0..=95u32, Just(95)]
}

fn run(config: LogConfig, reads: Reads, free: bool, percent: u32, events: &[Event]) -> LogRig {
    let mut rig = LogRig::new(config, reads, free);
    rig.fill(percent);
    rig.check();
    for (i, event) in events.iter().enumerate() {
        // The events' block numbers are those of the largest log.
        let blocks = config.logical_blocks;
        rig.happen(match *event {
            Event::Write(block) => Event::Write(block % blocks),
            Event::Trim(block) => Event::Trim(block % blocks),
            other => other,
        });
        if i % 16 == 0 {
            rig.check();
        }
    }
    rig.check();
    rig
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::sized(32, 96)))]

    #[test]
    fn foreground_cleaning_loses_nothing_up_to_95_percent(
        config in configs(), reads in reads(), percent in percents(),
        events in prop::collection::vec(events(800, false), 0..1_500),
    ) {
        run(config, reads, false, percent, &events);
    }

    #[test]
    fn free_cleaning_in_any_order_loses_nothing_up_to_95_percent(
        config in configs(), reads in reads(), percent in percents(),
        events in prop::collection::vec(events(800, false), 0..1_500),
    ) {
        run(config, reads, true, percent, &events);
    }

    #[test]
    fn durable_data_survive_every_crash(
        config in configs(), reads in reads(), free in any::<bool>(), percent in percents(),
        events in prop::collection::vec(events(800, true), 0..1_500),
    ) {
        let mut rig = run(config, reads, free, percent, &events);
        rig.crash();
        rig.crash();
    }
}

/// The hardest load: every block live, overwritten in scattered order, with and without the free cleaner.
#[test]
fn a_log_that_is_95_percent_full_goes_on() {
    for (free, reads) in [(false, Reads::Run), (true, Reads::Block), (true, Reads::Segment)] {
        let config = LogConfig {
            segments: 120,
            blocks_per_segment: 9,
            sectors_per_block: 1,
            logical_blocks: 120 * 8,
            minimum_free: 2,
            ..LogConfig::default()
        };
        let mut rig = LogRig::new(config, reads, free);
        rig.fill(95);
        let live = rig.live();
        assert!(live * 100 >= 120 * 8 * 95, "{live} blocks are live");
        for i in 0..3_000u32 {
            rig.happen(Event::Write(i * 389 % live));
        }
        assert_eq!(rig.live(), live);
        rig.check();
    }
}

/// If blocks from several segments shared the last free one, none of those segments would become empty.
#[test]
fn blocks_from_gaps_leave_the_last_segment_to_the_foreground_cleaner() {
    for reads in [Reads::Block, Reads::Run, Reads::Segment] {
        let config = LogConfig {
            segments: 9,
            blocks_per_segment: 8,
            sectors_per_block: 1,
            logical_blocks: 9 * 7,
            minimum_free: 2,
            ..LogConfig::default()
        };
        let mut rig = LogRig::new(config, reads, true);
        rig.fill(100);
        let live = rig.live();
        assert_eq!(live, rig.log.geometry().capacity());
        for i in 0..2_000u32 {
            rig.happen(Event::Write(i * 389 % live));
        }
        assert!(rig.free_copies > 100 && rig.foreground_copies > 100, "both cleaners copy blocks");
        rig.check();
    }
}

#[test]
fn reads_of_blocks_that_died_are_taken_back() {
    let config = LogConfig {
        segments: 20,
        blocks_per_segment: 8,
        sectors_per_block: 1,
        logical_blocks: 200,
        ..LogConfig::default()
    };
    let mut rig = LogRig::new(config, Reads::Run, true);
    rig.fill(80);
    for block in (0..112).step_by(2) {
        rig.happen(Event::Write(block));
    }
    assert!(rig.wanted_for_free() > 0);
    for block in 0..112 {
        rig.happen(Event::Write(block));
        rig.assert_wanted_are_live();
    }
    rig.check();
}

/// Guards against a segment that is never cleaned again: the checksum of the old record would differ, and the segment
/// would count as damaged.
#[test]
fn a_record_of_a_segments_earlier_contents_is_dropped() {
    let config = LogConfig {
        segments: 20,
        blocks_per_segment: 8,
        sectors_per_block: 1,
        logical_blocks: 200,
        ..LogConfig::default()
    };
    let mut rig = LogRig::new(config, Reads::Run, true);
    rig.fill(80);
    for block in (0..112).step_by(2) {
        rig.happen(Event::Write(block));
    }
    let (segment, slot, before) = rig.read_and_keep().unwrap();
    // The block dies, and the segment gets other data before the record arrives.
    rig.steps = false;
    let anew = (0..10_000u32).find(|i| {
        rig.happen(Event::Write(i * 37 % 112));
        rig.live_bytes(segment, slot).is_some_and(|now| now != before)
    });
    assert!(anew.is_some(), "{segment} was not written anew");
    rig.happen(Event::Deliver { choice: 0 });
    rig.steps = true;
    rig.happen(Event::Step);
    rig.check();
}

#[test]
fn the_events_reach_both_cleaners_and_crashes() {
    let config = LogConfig {
        segments: 60,
        blocks_per_segment: 8,
        sectors_per_block: 1,
        logical_blocks: 420,
        ..LogConfig::default()
    };
    let events: Vec<Event> = (0..4_000u32)
        .map(|i| match i % 7 {
            0 => Event::Read { choice: i / 3, at_once: i % 2 == 0 },
            1 => Event::Deliver { choice: i },
            2 if i % 301 == 2 => Event::FailIn { writes: (i % 3) as u8, arrive: u64::from(i) * 0x9E37 },
            _ => Event::Write(i * 37 % 399),
        })
        .collect();
    let rig = run(config, Reads::Run, true, 95, &events);
    assert!(rig.crashes > 2 && rig.free_copies > 20 && rig.foreground_copies > 20);
}
