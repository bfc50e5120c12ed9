//! Arrivals that are switched on and off: a Poisson process in periods of constant length.

use crate::error::ConfigError;
use crate::random::Stream;
use crate::request::later;
use units::{Duration, Instant};

/// Poisson arrivals while the load is on, and none while it is off. The periods on and off have constant lengths; the
/// first is on.
#[derive(Clone, Debug)]
pub(crate) struct OnOff {
    stream: Stream,
    /// The mean pause between arrivals while on.
    gap: Duration,
    on: Duration,
    off: Duration,
    start: Instant,
    /// The time for which the load was on before the next arrival.
    passed: Duration,
}

impl OnOff {
    /// Creates the process; `rate` is the mean over all time.
    pub(crate) fn new(
        rate: f64,
        on: Duration,
        off: Duration,
        start: Instant,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        if on == Duration::ZERO {
            return Err(ConfigError::field("on", "0 s", "give a length above zero"));
        }
        let share = on.as_secs_f64() / (on.as_secs_f64() + off.as_secs_f64());
        let gap = Duration::from_nanos((1e9 * share / rate).round() as u64);
        if gap == Duration::ZERO {
            let found = format!("{on} at {rate} requests a second with {off} between");
            return Err(ConfigError::field("on", found, "give a longer time or a lower rate"));
        }
        let mut stream = Stream::new(seed, "workload.onoff");
        let passed = stream.exponential_time(gap);
        Ok(Self { stream, gap, on, off, start, passed })
    }

    /// Returns the next arrival.
    #[inline]
    pub(crate) fn next(&self) -> Instant {
        let periods = self.passed.as_nanos() / self.on.as_nanos();
        let off = self.off.as_nanos().saturating_mul(periods);
        later(later(self.start, self.passed), Duration::from_nanos(off))
    }

    /// Advances from the next arrival to the one after it.
    pub(crate) fn step(&mut self) {
        let wait = self.stream.exponential_time(self.gap);
        self.passed = Duration::from_nanos(self.passed.as_nanos().saturating_add(wait.as_nanos()));
    }
}
