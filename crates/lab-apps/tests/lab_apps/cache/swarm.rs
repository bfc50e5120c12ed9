//! Random histories: every read returns the newest bytes, nothing promised is lost, everything ends.

use super::host::range;
use super::rig::{CacheRig, STEP};
use lab_apps::cache::{Config, Force, Replacement, Syncer, Watermarks};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use units::{Bytes, Duration, Sectors};

fn steps(n: u64) -> Duration {
    Duration::from_nanos(STEP.as_nanos() * n)
}

fn configs() -> impl Strategy<Value = Config> {
    let shape = (0u64..4, 3u64..60, 1u64..9, 1usize..9);
    let replacement =
        prop_oneof![Just(Replacement::Lru), Just(Replacement::SptfEvict), Just(Replacement::FreeClean)];
    let syncer = proptest::option::of((0u64..60, 1u64..60));
    let force = prop_oneof![Just(Force::Promote), Just(Force::Submit)];
    let limits = (prop_oneof![Just(1usize), Just(3), Just(usize::MAX)], 1usize..5, 1u64..60, 2usize..20);
    (shape, replacement, (0usize..8, 0usize..8), syncer, any::<bool>(), force, limits).prop_map(
        |((start, len, block, buffers), replacement, (low, high), syncer, cleaner, force, limits)| {
            let volume = range(start, len);
            let mut config = Config::new(volume, Sectors::new(block), Bytes::new(16), buffers);
            config.replacement = replacement;
            let high = 1 + high % (buffers + 1);
            config.watermarks = Watermarks { low: low % high, high };
            config.syncer = syncer.map(|(age, every)| Syncer { age: steps(age), every: steps(every) });
            if !cleaner {
                config.cleaner = None;
            }
            config.force = force;
            config.daemon_outstanding = limits.0;
            config.nearest_of = limits.1;
            config.retry = steps(limits.2);
            config.most_calls = limits.3;
            config
        },
    )
}

#[derive(Clone, Debug)]
struct World {
    survives: bool,
    errors: bool,
    crashes: bool,
    coalesces: bool,
    most_tasks: usize,
    most_promoted: Option<usize>,
    free_percent: u64,
    odd_percent: u64,
    /// The percentage of steps that are the host's; the others are the client's.
    host_percent: u64,
    seed: u64,
}

fn worlds() -> impl Strategy<Value = World> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    let most_tasks = prop_oneof![Just(0usize), Just(1), Just(3), Just(usize::MAX), Just(usize::MAX)];
    let percents = (prop_oneof![Just(0u64), Just(30), Just(100)], 0u64..60, 20u64..95);
    let most_promoted = proptest::option::of(1usize..3);
    (flags, (most_tasks, most_promoted), percents, any::<u64>()).prop_map(|(flags, most, percents, seed)| {
        World {
            survives: flags.0,
            errors: flags.1,
            crashes: flags.2,
            coalesces: flags.3,
            most_tasks: most.0,
            most_promoted: most.1,
            free_percent: percents.0,
            odd_percent: percents.1,
            host_percent: percents.2,
            seed,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 4000,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/lab_apps/cache/failures.txt"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn nothing_is_lost_and_reads_are_right_whatever_happens(
        config in configs(),
        world in worlds(),
        length in 1u64..400,
    ) {
        let mut rig = CacheRig::new(config, world.survives, world.seed);
        rig.host.coalesces = world.coalesces;
        rig.host.registry.most_tasks = world.most_tasks;
        rig.host.most_promoted = world.most_promoted;
        rig.host.free_percent = world.free_percent;
        rig.host.odd_percent = world.odd_percent;
        rig.lazy_percent = world.odd_percent;
        for _ in 0..length {
            if rig.host.chance(world.host_percent) {
                rig.step();
            } else {
                rig.act(world.errors, world.crashes);
            }
        }
        rig.settle();
        if world.crashes {
            rig.crash();
        }
    }
}
