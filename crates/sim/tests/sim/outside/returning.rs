//! Clients with a constant think time: delayed clients return with the same delay, and together, so that one loss delays
//! many rounds.

use super::responses::{Pairs, pair_of};
use drive::Behaviour;
use scheduler::IdleTime;
use scheduler::policy::PolicyName;
use units::Duration;
use workload::{Arrival, Closed, Share, Think};

/// The number of requests in each run, and the seeds: one late request changes the pattern for a long time.
const REQUESTS: u64 = 40_000;
const SEEDS: std::ops::Range<u64> = 42..48;

fn bounded(tasks: u32, pause: u64, behaviour: Behaviour, idle: Option<IdleTime>) {
    let think = Think::Constant(Duration::from_millis(pause));
    let arrival = Arrival::Closed(Closed { tasks, think });
    let pairs = Pairs::enough(SEEDS, |seed| {
        let how = (PolicyName::Fcfs, idle);
        pair_of(("quantum-atlas-10k", behaviour), how, (arrival, Share::TWO_THIRDS), (REQUESTS, seed))
    });
    let background = if idle.is_some() { "gaps and idle time" } else { "gaps" };
    pairs.assert_bounded(&format!("{tasks} who think {pause} ms, {background}, {behaviour:?}"));
}

#[test]
fn the_harm_to_clients_with_constant_think_times_is_bounded() {
    // A loss has effects after the queue was empty.
    for (tasks, pause) in testing::some(1, [(10, 100), (20, 200), (40, 400), (100, 1_000)]) {
        bounded(tasks, pause, Behaviour::fast02(), None);
    }
}

#[test]
fn the_harm_of_idle_time_to_constant_think_times_is_bounded() {
    for (tasks, pause) in testing::some(1, [(10, 100), (40, 400)]) {
        bounded(tasks, pause, Behaviour::fast02(), Some(IdleTime::default()));
    }
}

#[test]
fn the_harm_to_constant_think_times_is_bounded_on_a_drive_that_caches_writes() {
    let behaviour = Behaviour { write_back: Some(true), ..Behaviour::fast02() };
    for (idle, (tasks, pause)) in
        testing::some(1, [(Some(IdleTime::default()), (10, 100)), (None, (20, 200))])
    {
        bounded(tasks, pause, behaviour, idle);
    }
}

#[test]
fn the_harm_to_constant_think_times_is_bounded_for_writes_alone() {
    // Only a write that waits for another shows when that was on the medium; without it the platter's angle stays unknown.
    let behaviour = Behaviour { write_back: Some(true), ..Behaviour::fast02() };
    for (tasks, pause) in testing::some(1, [(4, 50), (30, 300)]) {
        let think = Think::Constant(Duration::from_millis(pause));
        let arrival = Arrival::Closed(Closed { tasks, think });
        let pairs = Pairs::enough(SEEDS, |seed| {
            let how = (PolicyName::Fcfs, Some(IdleTime::default()));
            pair_of(("quantum-atlas-10k", behaviour), how, (arrival, Share::NONE), (REQUESTS, seed))
        });
        let what = format!("{tasks} who think {pause} ms and write");
        assert!(pairs.trusted() > 0.9, "{what}: {pairs}");
        pairs.assert_bounded(&what);
    }
}

#[test]
fn the_harm_of_idle_time_to_constant_think_times_is_bounded_before_the_rehearsal() {
    // On slow arms the estimate must not be too low before the clients are rehearsed.
    let think = Think::Constant(Duration::from_millis(250));
    let arrival = Arrival::Closed(Closed { tasks: 20, think });
    let how = (PolicyName::Fcfs, Some(IdleTime::default()));
    let load = (arrival, Share::TWO_THIRDS);
    let pairs =
        Pairs::of(42..58, |seed| pair_of(("nearline-4tb", Behaviour::fast02()), how, load, (10_000, seed)));
    pairs.assert_bounded("twenty who think 250 ms, the first 10,000 requests");
}

#[test]
fn the_harm_of_idle_time_to_constant_think_times_is_bounded_in_the_long_run() {
    // The reserve of the bound is needed here.
    let arrival = Arrival::Closed(Closed { tasks: 10, think: Think::Constant(Duration::from_millis(150)) });
    let how = (PolicyName::Fcfs, Some(IdleTime::default()));
    let load = (arrival, Share::TWO_THIRDS);
    let pairs =
        Pairs::of(1..9, |seed| pair_of(("nearline-4tb", Behaviour::fast02()), how, load, (60_000, seed)));
    // Without an allowance for chance: the mean itself.
    assert!(pairs.slower() < 1.0, "{pairs}");
    pairs.assert_bounded("ten who think 150 ms, 60,000 requests");
}
