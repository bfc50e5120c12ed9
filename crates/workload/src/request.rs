//! What a load asks for, and where it comes from.

use crate::script::Script;
use units::{Duration, Instant, LbnRange, Op};

/// One request of the foreground, without its timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Read or write.
    pub op: Op,
    /// The sectors it covers; never empty.
    pub range: LbnRange,
}

/// A sequence of requests: generated, or read from a trace.
///
/// A source says what is asked for; an [`Issuer`](crate::Issuer) says when. The order of a source's requests
/// depends on nothing but the source, so the same requests are issued whatever the drive does meanwhile. The exception are sources that keep
/// their own times: see [`Script`].
pub trait Source {
    /// The next request, or `None` when there are no more; then `None` for ever.
    fn next_request(&mut self) -> Option<Request>;

    /// The recorded pause between the completion of the request given last and the issue of the next.
    fn recorded_think(&self) -> Option<Duration> {
        None
    }

    /// The recorded arrival of the request given last, counted from the first one's.
    fn recorded_arrival(&self) -> Option<Instant> {
        None
    }

    /// What every request of this source has recorded beside itself.
    fn recorded(&self) -> Recorded {
        Recorded::default()
    }

    /// The source as a load that keeps its own times, if it is one. [`next_request`](Self::next_request) of such a
    /// source gives its requests as if each were served in no time.
    fn script(&self) -> Option<&dyn Script> {
        None
    }

    /// The same, to go on with.
    fn script_mut(&mut self) -> Option<&mut dyn Script> {
        None
    }
}

/// Which timings a source has recorded, for all of its requests.
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
    /// The first `requests` of `source`.
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
