//! Clients with a constant think time: delayed clients return with the same delay, and together, so that one loss delays
//! many rounds. They are served as by the daemon, and compared with the disk alone.

use super::responses::{Pairs, served_of_load};
use drive::Behaviour;
use scheduler::IdleTime;
use units::{Duration, Instant};
use workload::{Arrival, Closed, Issuer, Share, Think};

/// The number of requests in each run: one late request changes the pattern for a long time.
const REQUESTS: u64 = 40_000;

/// Checks the bound with 4 seeds in the short tier and 16 in the long one.
fn bounded(crew: (u32, u64), drive: (&str, Behaviour), reads: Share, idle: Option<IdleTime>) {
    bounded_of(testing::sized(4, 16), crew, drive, reads, idle);
}

fn bounded_of(
    seeds: u64,
    (tasks, pause): (u32, u64),
    (drive, behaviour): (&str, Behaviour),
    reads: Share,
    idle: Option<IdleTime>,
) {
    let think = Think::Constant(Duration::from_millis(pause));
    let arrival = Arrival::Closed(Closed { tasks, think });
    let pairs = Pairs::of(42..42 + seeds, |seed| {
        let load = |drawn| Issuer::new(drawn, arrival, Instant::ZERO, seed).unwrap();
        served_of_load((drive, behaviour), idle, (reads, load), (REQUESTS, seed))
    });
    let background = if idle.is_some() { "gaps and idle time" } else { "gaps" };
    pairs.assert_bounded(&format!(
        "{tasks} clients that think {pause} ms, {background}, {drive}, {behaviour:?}"
    ));
}

#[test]
fn the_harm_to_clients_with_constant_think_times_is_bounded() {
    for crew in testing::some(1, [(20, 200), (10, 100), (40, 400), (100, 1_000)]) {
        bounded(crew, ("quantum-atlas-10k", Behaviour::fast02()), Share::TWO_THIRDS, None);
    }
}

#[test]
fn the_harm_of_idle_time_to_constant_think_times_is_bounded() {
    for crew in testing::some(1, [(20, 200), (10, 100), (40, 400)]) {
        bounded_of(
            testing::sized(8, 16),
            crew,
            ("quantum-atlas-10k", Behaviour::fast02()),
            Share::TWO_THIRDS,
            Some(IdleTime::default()),
        );
    }
}

#[test]
fn the_harm_to_constant_think_times_is_bounded_on_a_drive_that_caches_writes() {
    let behaviour = Behaviour { write_back: Some(true), ..Behaviour::fast02() };
    for crew in testing::some(1, [(20, 200), (10, 100)]) {
        bounded_of(testing::sized(8, 16), crew, ("quantum-atlas-10k", behaviour), Share::TWO_THIRDS, None);
    }
}

#[test]
fn the_harm_of_idle_time_to_constant_think_times_is_bounded_on_a_drive_that_caches_writes() {
    let behaviour = Behaviour { write_back: Some(true), ..Behaviour::fast02() };
    for crew in [(10, 100), (20, 200)] {
        bounded(crew, ("quantum-atlas-10k", behaviour), Share::TWO_THIRDS, Some(IdleTime::default()));
    }
}

#[test]
fn the_harm_to_constant_think_times_is_bounded_on_drives_of_today() {
    for (crew, drive) in testing::some(
        1,
        [((20, 400), "nearline-20tb"), ((10, 100), "nearline-20tb"), ((20, 250), "nearline-4tb")],
    ) {
        let seeds = testing::sized(3, 16);
        bounded_of(seeds, crew, (drive, Behaviour::modern()), Share::TWO_THIRDS, Some(IdleTime::default()));
    }
}

#[test]
fn the_harm_to_constant_think_times_is_bounded_for_writes_alone() {
    let behaviour = Behaviour { write_back: Some(true), ..Behaviour::fast02() };
    for crew in testing::some(1, [(4, 50), (30, 300)]) {
        bounded(crew, ("quantum-atlas-10k", behaviour), Share::NONE, Some(IdleTime::default()));
    }
}
