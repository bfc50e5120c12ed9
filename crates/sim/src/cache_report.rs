//! The flushes and the discards of a run.

use drive::Served;
use std::ops::AddAssign;
use units::{CacheOps, Duration, LbnRange};

/// The flushes and the discards of a run. A foreground's report does not contain them, only reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheReport {
    /// The flushes without sectors. The time of a flush that comes with a write is a part of that write's
    /// response time.
    pub flushes: CacheCommands,
    /// The discards.
    pub discards: CacheCommands,
}

/// The response times of commands without a transfer, from arrival to completion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCommands {
    /// The number of completed commands.
    pub requests: u64,
    /// The sum of the response times.
    pub total: Duration,
    /// The longest response time.
    pub longest: Duration,
}

impl AddAssign for CacheReport {
    fn add_assign(&mut self, other: Self) {
        for (all, of) in [(&mut self.flushes, other.flushes), (&mut self.discards, other.discards)] {
            all.requests += of.requests;
            all.total += of.total;
            all.longest = all.longest.max(of.longest);
        }
    }
}

impl CacheReport {
    /// Adds a flush or a discard, by the way in which it was served.
    pub(crate) fn add(&mut self, served: Served, response: Duration) {
        let kind = if served == Served::Discarded { &mut self.discards } else { &mut self.flushes };
        kind.add(response);
    }
}

/// Returns how a request with these cache operations is served if it transfers no sectors; `None` for a read or a
/// write.
pub(crate) fn without_transfer(cache: CacheOps, range: LbnRange) -> Option<Served> {
    match (cache.transfers(), range.is_empty()) {
        (false, _) => Some(Served::Discarded),
        (true, true) => Some(Served::Flushed),
        (true, false) => None,
    }
}

impl CacheCommands {
    fn add(&mut self, response: Duration) {
        self.requests += 1;
        self.total += response;
        self.longest = self.longest.max(response);
    }

    /// Returns the mean response time; zero without commands.
    pub fn mean(&self) -> Duration {
        Duration::from_nanos(self.total.as_nanos() / self.requests.max(1))
    }
}
