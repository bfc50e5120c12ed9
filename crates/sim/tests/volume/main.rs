//! A volume under anything that a client may do: what it may see, and what it may not.

#![allow(clippy::unwrap_used)] // helpers of tests stand outside test functions

mod ledger;
mod world;

use proptest::prelude::*;
use world::{Plan, Step, World, plans, steps};

/// Runs it; what was wrong, and what came of it.
fn run(plan: &Plan, steps: &[Step]) -> (Vec<String>, World) {
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
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_client_sees_only_what_it_may(plan in plans(false), steps in steps(false)) {
        let (problems, _) = run(&plan, &steps);
        prop_assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn a_client_sees_only_what_it_may_when_all_goes_wrong(plan in plans(true), steps in steps(true)) {
        let (problems, _) = run(&plan, &steps);
        prop_assert!(problems.is_empty(), "{}", problems.join("\n"));
    }
}
