//! The reorganiser with a staging area that survives power cuts: after cuts at any instant, repeatedly, every block
//! reaches the plan's destination.

use super::world::{range, worlds};
use freeblock_apps::reorganizer::{Memory, Options, RelocationPlan, Reorganizer};
use freeblock_apps::sessions::{Application, Record, Sessions, Wanted};
use proptest::prelude::*;
use sim::Platters;
use units::{Duration, Instant, LbnRange, Sectors};

/// The reorganiser, which begins once its volume is running.
#[derive(Default)]
struct HostedReorganizer(Option<Reorganizer<Memory>>);

impl Application for HostedReorganizer {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant) {
        if let Some(app) = &mut self.0 {
            app.done(sessions, done, bytes, now);
        }
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        self.0.as_mut().is_some_and(|app| app.buffer(wanted, into))
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_reorganisation_outlives_power_cuts(
        world in worlds(),
        circular in any::<bool>(),
        block in 1..12u64,
        staging in prop_oneof![Just(2u64), 3..30u64],
        cuts in prop::collection::vec(1..3_000_000u64, 0..12),
    ) {
        let drive = world.drive();
        let (sector, capacity) = (drive.sector_bytes(), drive.layout().capacity());
        let blocks = (capacity.get() / block).min(60);
        prop_assume!(blocks >= 4);
        let region = range(0, blocks * block);
        let mut chance = workload::random::Stream::new(world.seed, "plan");
        let mut below = |n| chance.below(n);
        let plan = match circular {
            true => RelocationPlan::circular(region, Sectors::new(block), capacity, blocks / 2, &mut below),
            false => RelocationPlan::random(region, Sectors::new(block), capacity, blocks / 2, &mut below),
        }.unwrap();
        let mut platters = Platters::blank(&drive);
        for lbn in 0..capacity.get() {
            let bytes: Vec<u8> = (0..sector.get()).map(|i| (lbn * 31 + i) as u8).collect();
            platters.medium_mut().write(range(lbn, 1), &bytes).unwrap();
        }
        let bytes = |platters: &Platters, range: LbnRange| {
            let mut bytes = vec![0; range.len().bytes(sector).get() as usize];
            platters.medium().read(range, &mut bytes).unwrap();
            bytes
        };
        let before = platters.clone();
        let options = Options { staging, ..Options::default() };
        let (mut now, mut nvram) = (Instant::ZERO, None::<Vec<u8>>);
        let mut cuts = cuts.into_iter();
        for life in 0.. {
            let mut volume = world.start(platters, now, life);
            world.load(&mut volume, false);
            let app = volume.host(HostedReorganizer::default());
            volume.call(app, |app, sessions| {
                app.0 = Some(match &nvram {
                    None => Reorganizer::start(&plan, options, sector, Memory::default(), sessions).unwrap(),
                    Some(state) => {
                        let memory = Memory(state.clone());
                        Reorganizer::recover(&plan, state, options, sector, memory, sessions).unwrap()
                    }
                });
            }).unwrap();
            let cut = cuts.next().map(|micros| now + Duration::from_micros(micros));
            let end = now + Duration::from_secs(8_000);
            loop {
                let progress = volume.app(app).unwrap().0.as_ref().unwrap().progress();
                let next = volume.now() + Duration::from_millis(200);
                if progress.is_finished() || cut.is_some_and(|cut| cut <= next) {
                    break;
                }
                prop_assert!(volume.now() < end, "no end: {progress:?}");
                volume.run_until(next).unwrap();
            }
            if let Some(cut) = cut {
                volume.run_until(cut).unwrap();
            }
            let host = volume.app(app).unwrap().0.as_ref().unwrap();
            let finished = host.progress().is_finished();
            prop_assert!(host.statistics().most_staged <= staging);
            nvram = Some(host.nvram().0.clone());
            now = volume.now();
            platters = volume.power_cut().unwrap();
            if finished {
                break;
            }
        }
        for moved in plan.moves() {
            let to = LbnRange::new(moved.to, moved.from.len());
            prop_assert!(bytes(&platters, to) == bytes(&before, moved.from), "{} to {to}", moved.from);
        }
    }
}
