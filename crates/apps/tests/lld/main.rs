//! The log-structured disk loses nothing and invents nothing, whatever happens to it.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests stand outside test functions

mod rig;

use freeblock_apps::lld::{LogConfig, Reads};
use proptest::prelude::*;
use rig::{Event, Rig, configs, events};

fn reads() -> impl Strategy<Value = Reads> {
    prop_oneof![Just(Reads::Block), Just(Reads::Run), Just(Reads::Segment)]
}

fn run(config: LogConfig, reads: Reads, free: bool, percent: u32, events: &[Event]) -> Rig {
    let mut rig = Rig::new(config, reads, free);
    rig.fill(percent);
    rig.check();
    for (i, event) in events.iter().enumerate() {
        // Blocks as the events name them lie within the largest log.
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
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn foreground_cleaning_loses_nothing_up_to_95_percent(
        config in configs(), reads in reads(), percent in 0..=95u32,
        events in prop::collection::vec(events(800, false), 0..1_500),
    ) {
        run(config, reads, false, percent, &events);
    }

    #[test]
    fn free_cleaning_in_any_order_loses_nothing_up_to_95_percent(
        config in configs(), reads in reads(), percent in 0..=95u32,
        events in prop::collection::vec(events(800, false), 0..1_500),
    ) {
        run(config, reads, true, percent, &events);
    }

    #[test]
    fn what_was_durable_survives_every_crash(
        config in configs(), reads in reads(), free in any::<bool>(), percent in 0..=95u32,
        events in prop::collection::vec(events(800, true), 0..1_500),
    ) {
        let mut rig = run(config, reads, free, percent, &events);
        rig.crash();
        rig.crash();
    }
}
