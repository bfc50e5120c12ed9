//! The only reader of the machine's clock.

use std::time;
use units::{Duration, Instant};

/// The time since the clock's start, in the type that the core and the drives use.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: time::Instant,
}

impl Clock {
    /// Starts the clock now.
    pub fn start() -> Self {
        Self { zero: time::Instant::now() }
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        let since = self.zero.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// Converts an instant to the machine's clock, for [`Ring::wait`](crate::Ring::wait).
    pub fn at(&self, instant: Instant) -> time::Instant {
        let since: Duration = instant.since(Instant::ZERO);
        self.zero + time::Duration::from_nanos(since.as_nanos())
    }
}
