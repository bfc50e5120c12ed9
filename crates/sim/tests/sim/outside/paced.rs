//! Paced arrivals, as of a film player: such requests meet fewer waiting requests than the mean, but a lost
//! revolution delays all of them until the queue is empty.

use super::responses::{Pairs, pair_of, pair_of_load};
use drive::Behaviour;
use scheduler::policy::PolicyName;
use scheduler::{IdleTime, OutsideConfig};
use std::ops::Range;
use units::Instant;
use workload::random::Stream;
use workload::{Arrival, Issuer, Random, Recorded, Request, Share, Source};

/// A source with a rate per second, a number of requests at once, and a jitter as a part of the interval.
#[derive(Clone, Copy)]
struct Pace {
    rate: f64,
    at_once: u64,
    jitter: f64,
}

const fn constant(rate: f64) -> Pace {
    Pace { rate, at_once: 1, jitter: 0.0 }
}

/// Random requests of several paced sources.
struct Paced {
    drawn: Random,
    times: std::vec::IntoIter<Instant>,
    at: Instant,
}

impl Paced {
    fn new(drawn: Random, paces: &[Pace], requests: u64, seed: u64) -> Self {
        let mut stream = Stream::new(seed, "paces");
        let mut times = Vec::new();
        for &Pace { rate, at_once, jitter } in paces {
            let from = 1.0 + stream.unit();
            for round in 0..requests / at_once {
                let at = (round as f64 + from + jitter * (2.0 * stream.unit() - 1.0)) / rate;
                times.extend((0..at_once).map(|_| Instant::from_nanos((at * 1e9) as u64)));
            }
        }
        times.sort_unstable();
        Self { drawn, times: times.into_iter(), at: Instant::ZERO }
    }
}

impl Source for Paced {
    fn next_request(&mut self) -> Option<Request> {
        self.at = self.times.next()?;
        self.drawn.next_request()
    }

    fn recorded_arrival(&self) -> Option<Instant> {
        Some(self.at)
    }

    fn recorded(&self) -> Recorded {
        Recorded { arrivals: true, thinks: false }
    }
}

fn bounded(what: &str, paces: &[Pace], of: (u64, u64)) {
    bounded_by(what, paces, (PolicyName::Fcfs, None), of);
}

/// Checks the bound under a policy, with idle time or in gaps alone.
fn bounded_by(what: &str, paces: &[Pace], how: (PolicyName, Option<IdleTime>), of: (u64, u64)) {
    pairs_of(paces, how, of).assert_bounded(what);
}

fn pairs_of(paces: &[Pace], how: (PolicyName, Option<IdleTime>), (requests, seeds): (u64, u64)) -> Pairs {
    Pairs::of(42..42 + seeds, |seed| {
        let load = |drawn| {
            let paced = Paced::new(drawn, paces, requests + 1, seed);
            Issuer::new(paced, Arrival::Recorded { scale: 1.0 }, Instant::ZERO, seed).unwrap()
        };
        let drive = ("quantum-atlas-10k", Behaviour::fast02());
        pair_of_load(drive, how, OutsideConfig::beyond, (Share::TWO_THIRDS, load), (requests, seed))
    })
}

#[test]
fn paced_arrivals_are_bounded() {
    // Paced arrivals must not be taken for a closed loop of few clients; the drive serves 117 requests a second.
    for (rate, requests) in [(100.0, 60_000), (105.0, 120_000)] {
        bounded(&format!("{rate} a second"), &[constant(rate)], (requests, 8));
    }
}

#[test]
fn paced_arrivals_near_saturation_are_bounded() {
    // One lost revolution delays hundreds of requests, so that only a very long run shows a result.
    bounded("110 a second", &[constant(110.0)], (400_000, 24));
}

#[test]
fn paced_batches_that_hardly_find_the_drive_idle_are_bounded() {
    // The drive serves 117 requests a second, and 112 arrive. A source that sends again after seconds is not a client
    // of a closed loop.
    let paces = [Pace { at_once: 4, ..constant(28.0) }];
    bounded("28 times four a second", &paces, (200_000, 12));
}

#[test]
fn poisson_arrivals_near_saturation_are_bounded() {
    // Near saturation (117 a second) the queue of open arrivals looks like that of a closed loop for a part of the
    // time.
    poisson(110.0, 42..74).assert_bounded("110 a second by Poisson");
}

#[test]
fn poisson_arrivals_that_hardly_find_the_drive_idle_are_bounded() {
    poisson(112.0, 42..50).assert_bounded("112 a second by Poisson");
}

fn poisson(rate: f64, seeds: Range<u64>) -> Pairs {
    let load = (Arrival::Poisson { rate }, Share::TWO_THIRDS);
    let drive = ("quantum-atlas-10k", Behaviour::fast02());
    Pairs::of(seeds, |seed| pair_of(drive, (PolicyName::Fcfs, None), load, (200_000, seed)))
}

#[test]
fn paced_arrivals_with_jitter_are_bounded() {
    bounded("105 a second, by a fifth", &[Pace { jitter: 0.2, ..constant(105.0) }], (120_000, 6));
}

#[test]
fn paced_batches_are_bounded() {
    bounded(
        "25 times four a second",
        &[Pace { at_once: 4, ..constant(25.0) }],
        (testing::sized(30_000, 60_000), 4),
    );
}

#[test]
fn several_paces_are_bounded() {
    bounded("30, 37 and 38 a second", &[30.0, 37.0, 38.0].map(constant), (80_000, 4));
}

#[test]
fn the_harm_of_idle_time_to_batches_is_bounded_under_every_policy() {
    // After idle work the next request is chosen near the head's new place, so the short move to it must not count as
    // a gain.
    let some = |at_once, rate| [Pace { rate, at_once, jitter: 0.0 }];
    let cases = [
        (some(5, 2.0), PolicyName::Sptf),
        (some(10, 1.0), PolicyName::Sptf),
        (some(20, 1.0), PolicyName::Sptf),
        (some(10, 1.0), PolicyName::Sstf),
    ];
    for (paces, policy) in testing::some(1, cases) {
        let what = format!("{} at once by {policy}, with idle time", paces[0].at_once);
        bounded_by(&what, &paces, (policy, Some(IdleTime::default())), (10_000, testing::sized(6, 24)));
    }
}
