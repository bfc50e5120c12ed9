//! Clients that each send several requests one after another and then pause for a constant time, as an editor that saves or
//! a camera that delivers its data: they drift into a pattern without collisions, and one delay breaks it. They are served as by
//! the daemon, and compared with the disk alone.

use super::responses::{Pairs, served_of_load};
use drive::Behaviour;
use scheduler::IdleTime;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use units::{CacheOps, Duration, Instant};
use workload::random::Stream;
use workload::{Arrival, ClosedTask, Issued, Issuer, Random, Request, Script, Share, Source};

/// The number of requests in each run, and the seeds: one late request changes the pattern for a long time.
const REQUESTS: u64 = 120_000;
const SEEDS: std::ops::Range<u64> = 42..48;

/// The number of clients, the requests of a session, and the pause in ms.
type Crew = (u32, u32, u64);

/// The maximal variation of varying pauses in ms.
const PAUSE_VARIATION_MS_MAX: u64 = 5;

struct Asks {
    drawn: Random,
    ready: BinaryHeap<Reverse<(Instant, u64, u32)>>,
    /// The number of requests that each client sends before its pause.
    left: Vec<u32>,
    known: u64,
    crew: Crew,
    varies: Option<Stream>,
}

impl Asks {
    fn new(drawn: Random, crew: Crew, varies: Option<Stream>) -> Self {
        let (clients, session, _) = crew;
        Self {
            drawn,
            ready: BinaryHeap::new(),
            left: vec![session; clients as usize],
            known: 0,
            crew,
            varies,
        }
    }

    fn come(&mut self, at: Instant, client: u32) {
        self.ready.push(Reverse((at, self.known, client)));
        self.known += 1;
    }
}

impl Source for Asks {
    fn next_request(&mut self) -> Option<Request> {
        None
    }

    fn script(&self) -> Option<&dyn Script> {
        Some(self)
    }

    fn script_mut(&mut self) -> Option<&mut dyn Script> {
        Some(self)
    }
}

impl Script for Asks {
    fn start(&mut self, at: Instant) {
        let (clients, _, pause) = self.crew;
        for client in 0..clients {
            let from = Duration::from_millis(pause) * u64::from(client) / u64::from(clients);
            self.come(at + from, client);
        }
    }

    fn due(&self) -> Option<Instant> {
        self.ready.peek().map(|Reverse((at, ..))| *at)
    }

    fn issue(&mut self, now: Instant) -> Option<Issued> {
        let Reverse((at, _, client)) = *self.ready.peek().filter(|Reverse((at, ..))| *at <= now)?;
        self.ready.pop();
        Some(Issued {
            at,
            task: ClosedTask::new(client),
            request: self.drawn.next_request()?,
            cache: CacheOps::default(),
        })
    }

    fn complete(&mut self, task: ClosedTask, now: Instant) {
        let (_, session, pause) = self.crew;
        let left = &mut self.left[task.get() as usize];
        *left -= 1;
        let varies =
            self.varies.as_mut().map_or(0.0, |stream| stream.unit() * PAUSE_VARIATION_MS_MAX as f64 * 1e6);
        let pause = Duration::from_millis(pause) + Duration::from_nanos(varies as u64);
        let pause = if *left == 0 { pause } else { Duration::ZERO };
        if *left == 0 {
            *left = session;
        }
        self.come(now + pause, task.get());
    }

    fn is_done(&self) -> bool {
        false
    }
}

/// Checks that crews with constant or varying pauses are served as by the disk alone.
fn bounded(crew: Crew, vary: bool, (drive, behaviour): (&str, Behaviour), idle: Option<IdleTime>) {
    let pairs = Pairs::of(SEEDS, |seed| {
        let load = |drawn| {
            let asks = Asks::new(drawn, crew, vary.then(|| Stream::new(seed, "pauses")));
            Issuer::new(asks, Arrival::Scripted, Instant::ZERO, seed).unwrap()
        };
        served_of_load((drive, behaviour), idle, (Share::TWO_THIRDS, load), (REQUESTS, seed))
    });
    let (clients, session, pause) = crew;
    let background = if idle.is_some() { "gaps and idle time" } else { "gaps" };
    let pauses = if vary { "vary" } else { "are constant" };
    pairs.assert_bounded(&format!(
        "{clients} clients that ask {session} times and pause {pause} ms, which {pauses}, {background}, {drive}"
    ));
}

const ATLAS: (&str, fn() -> Behaviour) = ("quantum-atlas-10k", Behaviour::fast02);
const NEARLINE: (&str, fn() -> Behaviour) = ("nearline-20tb", Behaviour::modern);

#[test]
fn the_harm_of_detours_to_crews_is_bounded() {
    for (drive, behaviour) in [ATLAS, NEARLINE] {
        bounded((10, 5, 500), false, (drive, behaviour()), None);
    }
}

#[test]
fn the_harm_of_detours_to_many_crews_is_bounded() {
    for (drive, behaviour) in [ATLAS, NEARLINE] {
        bounded((20, 5, 1_000), false, (drive, behaviour()), None);
    }
}

#[test]
fn the_harm_of_idle_time_to_crews_is_bounded() {
    // Delays by idle work shift clients toward the arrivals of others.
    for (drive, behaviour) in [ATLAS, NEARLINE] {
        for crew in [(10, 5, 500), (4, 10, 500)] {
            bounded(crew, false, (drive, behaviour()), Some(IdleTime::default()));
        }
    }
}

#[test]
fn the_harm_of_detours_to_crews_with_varying_pauses_is_bounded() {
    for (drive, behaviour) in [ATLAS, NEARLINE] {
        bounded((20, 5, 1_000), true, (drive, behaviour()), None);
    }
}

#[test]
fn the_harm_of_idle_time_to_crews_with_varying_pauses_is_bounded() {
    for (drive, behaviour) in [ATLAS, NEARLINE] {
        bounded((4, 10, 500), true, (drive, behaviour()), Some(IdleTime::default()));
    }
}
