//! A volume under any behaviour of its client, and the contents that the client may see.

mod bytes;
mod ledger;
mod refused;
mod world;

use proptest::prelude::*;
use units::{Duration, Lbn, LbnRange};
use world::{Plan, VolumeStep, World, plans, steps};

/// Runs a plan. Returns the violations, and the world at the end.
fn run(plan: &Plan, steps: &[VolumeStep]) -> (Vec<String>, World) {
    let mut world = World::new(plan);
    for step in steps {
        world.step(step);
        if !world.problems().is_empty() {
            break;
        }
    }
    if world.problems().is_empty()
        && let Err(problem) = world.finish()
    {
        world.ledger.borrow_mut().problem(problem);
    }
    let now = world.volume.now();
    let platters = world.volume.platters().clone();
    world.check_medium(&platters, now);
    (world.problems(), world)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(testing::sized(150, 400)))]

    #[test]
    fn a_client_sees_only_permitted_contents(plan in plans(false), steps in steps(false)) {
        let (problems, _) = run(&plan, &steps);
        prop_assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn a_client_sees_only_permitted_contents_under_every_fault(plan in plans(true), steps in steps(true)) {
        let (problems, _) = run(&plan, &steps);
        prop_assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    /// Promise 6: the same calls give the same completions at the same nanosecond, and the same bytes.
    #[test]
    fn the_same_calls_give_the_same_run(plan in plans(true), steps in steps(true)) {
        let [one, other] = [run(&plan, &steps), run(&plan, &steps)];
        prop_assert_eq!(&one.1.completions, &other.1.completions);
        prop_assert_eq!(one.1.volume.now(), other.1.volume.now());
        let all = LbnRange::new(Lbn::ZERO, one.1.drive.layout().capacity());
        let bytes = |world: &World| {
            let mut bytes = vec![0; all.len().bytes(world.drive.sector_bytes()).get() as usize];
            world.volume.platters().medium().read(all, &mut bytes).unwrap();
            bytes
        };
        prop_assert!(bytes(&one.1) == bytes(&other.1));
    }

    /// Promise 1, with writes in the gaps: the foreground is done at the same nanoseconds whatever sessions do. Promoted
    /// blocks are foreground work, and do cost time.
    #[test]
    fn background_writes_cost_the_foreground_nothing(plan in plans(false), steps in steps(false)) {
        let plan = Plan { idle: false, ..plan };
        let steps: Vec<VolumeStep> = steps.into_iter().filter(|step| !matches!(step, VolumeStep::Promote { .. })).collect();
        let times = |background: bool| {
            let mut world = World::new(&plan);
            for step in &steps {
                let foreground = matches!(step, VolumeStep::Foreground { .. } | VolumeStep::Run(_));
                if foreground || background {
                    world.step(step);
                }
            }
            world.run(Duration::from_secs(2));
            world.completions
        };
        prop_assert_eq!(times(true), times(false));
    }
}

/// A gap was found for a write and is used for a read, since no buffer was available: with negative settling a head is ready
/// to write earlier than to read.
#[test]
fn a_refused_write_does_not_leave_its_window_to_a_read() {
    let plan = Plan {
        policy: scheduler::policy::PolicyName::Sptf,
        ..plain(3_466_895_996_361_174_540, 334_137_979_908_438_385)
    };
    let fg = |start, len| VolumeStep::Foreground { write: false, start, len };
    let task = |write, start, len, block| VolumeStep::Task { write, session: 0, start, len, block };
    let steps = [
        VolumeStep::Run(8161),
        fg(1_544_837_710_854_872_494, 2),
        VolumeStep::Run(3168),
        VolumeStep::Open(1),
        VolumeStep::Run(5667),
        fg(39, 1),
        VolumeStep::Refuse(1),
        task(false, 2_945_557_395_943_177_790, 89, 23),
        task(false, 0, 91, 29),
        task(true, 41, 12, 6),
        fg(14_210_595_661_059_528_275, 9),
        VolumeStep::Run(8964),
    ];
    let (problems, _) = run(&plan, &steps);
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The foreground has overwritten the middle of a block, and two runs are left to be written; another task's writes
/// of the same sectors must not follow those runs in the next revolution.
#[test]
fn a_block_with_a_hole_is_not_written_twice() {
    let plan = plain(4_854_866_263_713_541_997, 15_815_721_008_053_078_935);
    let fg = |write, start, len| VolumeStep::Foreground { write, start, len };
    let task = |write, start, len, block| VolumeStep::Task { write, session: 0, start, len, block };
    let steps = [
        fg(false, 0, 1),
        fg(true, 40, 1),
        VolumeStep::Open(1),
        VolumeStep::Run(30_000),
        task(true, 0, 45, 1),
        task(true, 30, 12, 3),
        fg(true, 40, 1),
    ];
    for wait in 0..40 {
        let steps: Vec<VolumeStep> =
            std::iter::once(VolumeStep::Run(wait * 700)).chain(steps.iter().cloned()).collect();
        let (problems, _) = run(&plan, &steps);
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}

/// Returns a plan without faults and idle time.
fn plain(drive: u64, seed: u64) -> Plan {
    Plan {
        drive,
        policy: scheduler::policy::PolicyName::Fcfs,
        sharing: scheduler::Sharing::Lottery,
        idle: false,
        partials: 1 << 15,
        seed,
        lost_ppm: 0,
        late_ppm: 0,
        spoilt_ppm: 0,
    }
}
