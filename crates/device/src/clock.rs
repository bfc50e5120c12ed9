//! The one place where time is read.

use std::time;
use units::{Duration, Instant};

/// Time since some beginning, as the core and the drives want it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    zero: time::Instant,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        Self { zero: time::Instant::now() }
    }

    /// Now.
    pub fn now(&self) -> Instant {
        let since = self.zero.elapsed().as_nanos();
        Instant::from_nanos(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// When that is by the machine's clock, for [`Ring::wait`](crate::Ring::wait).
    pub fn at(&self, instant: Instant) -> time::Instant {
        let since: Duration = instant.since(Instant::ZERO);
        self.zero + time::Duration::from_nanos(since.as_nanos())
    }
}
