//! Arrivals in bursts: an interrupted Poisson process.

use crate::error::ConfigError;
use crate::random::Stream;
use crate::request::later;
use units::{Duration, Instant};

/// Poisson arrivals during bursts, and none in the silences between them. The lengths of bursts and silences are
/// exponentially distributed.
#[derive(Clone, Debug)]
pub(crate) struct Bursts {
    stream: Stream,
    /// The mean pause between arrivals in a burst.
    gap: Duration,
    burst: Duration,
    silence: Duration,
    /// The time that is left of the burst after the next arrival.
    left: Duration,
    next: Instant,
}

/// The most bursts for each arrival, on average: with more, most bursts are empty, and each costs a draw.
const EMPTY_BURSTS_MAX: u64 = 1_000;

impl Bursts {
    /// Creates the process; `rate` is the mean over bursts and silences. A burst begins at `start`.
    pub(crate) fn new(
        rate: f64,
        burst: Duration,
        silence: Duration,
        start: Instant,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        if burst == Duration::ZERO {
            return Err(ConfigError::field("burst", "0 s", "give a mean length above zero"));
        }
        let share = burst.as_secs_f64() / (burst.as_secs_f64() + silence.as_secs_f64());
        let gap = Duration::from_nanos((1e9 * share / rate).round() as u64);
        if gap.as_nanos() / EMPTY_BURSTS_MAX > burst.as_nanos() {
            let found = format!("{burst} at {rate} requests a second");
            return Err(ConfigError::field("burst", found, "give longer bursts or a higher rate"));
        }
        let mut stream = Stream::new(seed, "workload.bursts");
        let left = stream.exponential_time(burst);
        let mut bursts = Self { stream, gap, burst, silence, left, next: start };
        bursts.step();
        Ok(bursts)
    }

    #[inline]
    pub(crate) const fn next(&self) -> Instant {
        self.next
    }

    /// Advances from the next arrival to the one after it.
    pub(crate) fn step(&mut self) {
        let mut wait = self.stream.exponential_time(self.gap);
        while wait > self.left {
            wait = wait.saturating_sub(self.left);
            let silence = self.stream.exponential_time(self.silence);
            self.next = later(later(self.next, self.left), silence);
            self.left = self.stream.exponential_time(self.burst);
        }
        self.left = self.left.saturating_sub(wait);
        self.next = later(self.next, wait);
    }
}
