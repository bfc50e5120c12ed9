//! Requests and their sources.

use std::fmt;
use units::{CacheOps, Duration, Instant, LbnRange, Op};

/// One request of the foreground, without its timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Read or write.
    pub op: Op,
    /// The sectors; empty only for a flush alone, of a source that has [`cache_ops`](Source::cache_ops).
    pub range: LbnRange,
}

/// A task of a closed loop, counted from 0. Open arrivals have no tasks: their requests all have task 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClosedTask(u32);

impl ClosedTask {
    /// Wraps the number.
    pub const fn new(n: u32) -> Self {
        Self(n)
    }

    /// Returns the number.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for ClosedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.0)
    }
}

/// A request and the time of its issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issued {
    /// The time of the issue.
    pub at: Instant,
    /// The task; pass it to `complete` at the completion.
    pub task: ClosedTask,
    /// The request.
    pub request: Request,
    /// The orders for the drive's cache that came with the request.
    pub cache: CacheOps,
}

/// A load that determines the times of its requests itself, because they wait for each other: a transaction's second
/// read for its first, a page's reader for another that already reads it.
///
/// An [`Issuer`](crate::Issuer) with [`Arrival::Scripted`](crate::Arrival::Scripted) passes the host's calls on. Each
/// task has one request at the drive at most. The requests may depend on the order of completions, as with any real
/// program: they may differ between two policies, but never between two runs of one policy.
pub trait Script {
    /// Begins at this instant; called once, before anything else.
    fn start(&mut self, at: Instant);

    /// Returns the time for the next call of [`issue`](Self::issue); `None` while all tasks wait for completions, and
    /// after the end.
    fn due(&self) -> Option<Instant>;

    /// Advances to `now`, and returns the next request that is due by then. Call this until it returns `None`, which
    /// the first call may do already: an event may be due that needs no request.
    fn issue(&mut self, now: Instant) -> Option<Issued>;

    /// Records that the request of `task` completed at `now`.
    fn complete(&mut self, task: ClosedTask, now: Instant);

    /// Returns whether nothing more will come, whatever completes.
    fn is_done(&self) -> bool;
}

/// Returns `at + pause`, or the largest instant.
#[inline]
pub(crate) fn later(at: Instant, pause: Duration) -> Instant {
    Instant::from_nanos(at.as_nanos().saturating_add(pause.as_nanos()))
}

/// A sequence of requests: generated, or read from a trace.
///
/// A source gives requests; an [`Issuer`](crate::Issuer) gives their times. The requests of a source depend on
/// nothing else, so the same requests are issued however the drive behaves. Sources that keep their own times are an
/// exception: see [`Script`].
pub trait Source {
    /// Returns the next request; `None` after the last one, at every call.
    fn next_request(&mut self) -> Option<Request>;

    /// Returns the recorded pause between the completion of the last request returned and the issue of the next.
    fn recorded_think(&self) -> Option<Duration> {
        None
    }

    /// Returns the recorded arrival of the last request returned, relative to that of the first.
    fn recorded_arrival(&self) -> Option<Instant> {
        None
    }

    /// Returns the orders for the drive's cache that came with the last request returned.
    fn cache_ops(&self) -> CacheOps {
        CacheOps::default()
    }

    /// Returns the times that every request of this source has recorded.
    fn recorded(&self) -> Recorded {
        Recorded::default()
    }

    /// Returns the source as a load that keeps its own times, if it is one. [`next_request`](Self::next_request) of
    /// such a source returns its requests as if each were served in no time.
    fn script(&self) -> Option<&dyn Script> {
        None
    }

    /// Returns the source as a load that keeps its own times, mutably, if it is one.
    fn script_mut(&mut self) -> Option<&mut dyn Script> {
        None
    }
}

/// The times that a source has recorded for all of its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recorded {
    /// Arrival times.
    pub arrivals: bool,
    /// Think times.
    pub thinks: bool,
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn next_request(&mut self) -> Option<Request> {
        (**self).next_request()
    }

    fn recorded_think(&self) -> Option<Duration> {
        (**self).recorded_think()
    }

    fn recorded_arrival(&self) -> Option<Instant> {
        (**self).recorded_arrival()
    }

    fn cache_ops(&self) -> CacheOps {
        (**self).cache_ops()
    }

    fn recorded(&self) -> Recorded {
        (**self).recorded()
    }

    fn script(&self) -> Option<&dyn Script> {
        (**self).script()
    }

    fn script_mut(&mut self) -> Option<&mut dyn Script> {
        (**self).script_mut()
    }
}

/// A source that ends after a number of requests.
#[derive(Clone, Debug)]
pub struct Limited<S> {
    pub(crate) source: S,
    pub(crate) left: u64,
}

impl<S: Source> Limited<S> {
    /// Returns the first `requests` requests of `source`.
    pub const fn new(source: S, requests: u64) -> Self {
        Self { source, left: requests }
    }
}

impl<S: Source> Source for Limited<S> {
    #[inline]
    fn next_request(&mut self) -> Option<Request> {
        self.left = self.left.checked_sub(1)?;
        self.source.next_request()
    }

    fn recorded_think(&self) -> Option<Duration> {
        self.source.recorded_think()
    }

    fn recorded_arrival(&self) -> Option<Instant> {
        self.source.recorded_arrival()
    }

    fn cache_ops(&self) -> CacheOps {
        self.source.cache_ops()
    }

    fn recorded(&self) -> Recorded {
        self.source.recorded()
    }

    fn script(&self) -> Option<&dyn Script> {
        self.source.script().is_some().then_some(self as &dyn Script)
    }

    fn script_mut(&mut self) -> Option<&mut dyn Script> {
        self.source.script().is_some().then_some(self as &mut dyn Script)
    }
}
