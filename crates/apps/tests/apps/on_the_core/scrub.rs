//! The scrubber: bad sectors on a medium are found, through lost completions and power cuts with rarely saved
//! progress.

use super::world::{range, worlds};
use freeblock_apps::scrub::{Finding, ScrubPlan, Scrubber};
use freeblock_apps::sessions::{Application, Priority, Record, Sessions};
use proptest::prelude::*;
use sim::{Cure, Platters};
use std::collections::BTreeSet;
use units::{Duration, Instant, Lbn, Sectors};

#[derive(Default)]
struct HostedScrubber(Option<Scrubber<()>>);

impl Application for HostedScrubber {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant) {
        if let Some(app) = &mut self.0 {
            app.done(sessions, done, bytes, now);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_scrub_finds_every_bad_sector_through_power_cuts(
        world in worlds(),
        block in 1..40u64,
        bad in prop::collection::btree_set(any::<u16>(), 0..6),
        cuts in prop::collection::vec((1..3_000_000u64, any::<bool>()), 0..8),
    ) {
        let drive = world.drive();
        let capacity = drive.layout().capacity().get();
        let plan = ScrubPlan {
            range: range(0, capacity),
            block: Sectors::new(block),
            sector_bytes: drive.sector_bytes().get() as usize,
        };
        let mut platters = Platters::blank(&drive);
        let bad: BTreeSet<Lbn> = bad.into_iter().map(|lbn| Lbn::new(u64::from(lbn) % capacity)).collect();
        for &lbn in &bad {
            platters.spoil(lbn, Cure::None);
        }
        let (mut now, mut saved) = (Instant::ZERO, None::<Vec<u8>>);
        let mut cuts = cuts.into_iter();
        let findings = loop {
            let mut volume = world.start(platters, now, now.as_nanos());
            world.load(&mut volume, true);
            let app = volume.host(HostedScrubber::default());
            volume.call(app, |app, sessions| {
                let priority = Priority::default();
                app.0 = Some(match &saved {
                    None => Scrubber::start(plan, (), sessions, priority, now).unwrap(),
                    Some(saved) => Scrubber::resume(plan, saved, (), sessions, priority, now).unwrap().unwrap(),
                });
            }).unwrap();
            let cut = cuts.next().map(|(micros, save)| (now + Duration::from_micros(micros), save));
            let end = now + Duration::from_secs(8_000);
            loop {
                let next = volume.now() + Duration::from_millis(200);
                if volume.app(app).unwrap().0.as_ref().unwrap().is_done() || cut.is_some_and(|cut| cut.0 <= next) {
                    break;
                }
                prop_assert!(volume.now() < end, "it does not come to an end");
                volume.run_until(next).unwrap();
            }
            if let Some((cut, _)) = cut {
                volume.run_until(cut).unwrap();
            }
            let scrub = volume.app(app).unwrap().0.as_ref().unwrap();
            if scrub.is_done() {
                break scrub.findings().to_vec();
            }
            // Progress is saved at some cuts only: blocks judged since are read again.
            if cut.is_some_and(|cut| cut.1) {
                saved = Some(scrub.progress());
            }
            now = volume.now();
            platters = volume.power_cut().unwrap();
        };
        // The scrubber continues behind the first bad sector of a block until it has found all.
        let mut found = findings;
        found.sort_unstable();
        let want: Vec<Finding> = bad.iter().map(|lbn| Finding::Medium(*lbn)).collect();
        prop_assert_eq!(found, want);
    }
}
