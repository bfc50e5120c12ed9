//! Predictors: the time that a request would take from the current state of the drive.

use crate::foreground::{Pending, Request};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use model::{DriveModel, Position};
use units::{Arc, Duration, FULL_REVOLUTION, Instant, Lbn, LbnRange, Op};

/// The parts of the time until a request's first sector passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positioning {
    /// Seek and head switch: SSTF's seek.
    pub seek: Duration,
    /// Settling before a write, and rotational latency.
    pub rest: Duration,
}

impl Positioning {
    /// Returns the sum of both parts: SPTF's positioning time.
    #[inline]
    pub fn total(self) -> Duration {
        self.seek + self.rest
    }
}

/// A predictor of positioning times from the positions of arm and platter, for a scheduler that knows the drive. A scheduler
/// that does not uses a [`Mimic`].
pub trait Predictor {
    /// Returns the positioning time of `request` for a head that leaves `from` at `at`.
    fn positioning(&self, from: Position, at: Instant, request: &Pending) -> Positioning;
}

/// Predicts exactly, as in the drive. If only the drive's size is known, the rest is zero, so that SPTF is SSTF.
impl Predictor for DriveModel {
    #[inline]
    fn positioning(&self, from: Position, at: Instant, request: &Pending) -> Positioning {
        let op = request.request.op;
        let to = request.position();
        let ready = self.move_time(from, to, op);
        let seek = self.move_time(from, to, Op::Read).min(ready);
        if !self.is_known() {
            return Positioning { seek, rest: Duration::ZERO };
        }
        let now = self.rpm().earliest_angle(at + ready);
        let wait = now.until(request.track.sector_angle(request.piece.sector));
        let span = request.track.arc(request.piece.sector, request.piece.len);
        // A zero-latency access that arrives within its sectors is done after one revolution.
        let passed = Arc::from_parts(FULL_REVOLUTION) - wait;
        let wait = if self.zero_latency(op) && passed < span { Arc::REVOLUTION - span } else { wait };
        Positioning { seek, rest: ready - seek + self.rpm().time_within(wait) }
    }
}

/// The last access as a host observes it: all that a [`Mimic`] knows about the head's position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    /// Whether the access read or wrote.
    pub op: Op,
    /// The last sector of the access.
    pub lbn: Lbn,
}

impl Last {
    /// Returns `request` as the last access.
    #[inline]
    pub fn of(request: &Request) -> Self {
        Self::after(request.op, request.range)
    }

    /// Returns an access to `range` as the last access.
    #[inline]
    pub fn after(op: Op, range: LbnRange) -> Self {
        let before_end = range.end().get().saturating_sub(1);
        Self { op, lbn: Lbn::new(before_end.max(range.start().get())) }
    }
}

/// A finished request, as a host observes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The access before the request.
    pub last: Last,
    /// The request.
    pub request: Request,
    /// The time for which the drive was idle before the request; the platter has kept rotating.
    pub pause: Duration,
    /// The time from the end of the pause to the completion.
    pub time: Duration,
}

/// A predictor of times from a host's view of a drive: from the last request and the next one (ATC'03, section 3). SMTF queries
/// the mimic, and the core reports the time of each request to it. In the drive that is the time at the head; outside, where
/// commands follow each other without a pause, it is the time from one completion to the next.
pub trait Mimic: Any + fmt::Debug + Send + Sync {
    /// Returns the time of `request` after `last`, if it is known. A mimic with random answers uses `at` and the request's id
    /// as the seed of an answer.
    fn time(&self, last: Last, at: Instant, request: &Request) -> Option<Duration>;

    /// Puts the times of several requests after `last`, as [`time`](Self::time) returns them, into `times` in the order of the
    /// requests. A large table is not in a processor's caches; one call for many requests can wait for all cache lines together.
    fn times(&self, last: Last, at: Instant, requests: &[Request], times: &mut Vec<Option<Duration>>) {
        times.clear();
        times.extend(requests.iter().map(|request| self.time(last, at, request)));
    }

    /// Reports a finished request.
    fn observe(&mut self, seen: &Observed);

    /// Returns the range that the mimic wants to read in idle time, after `last`, to learn the time of that read; `None` by
    /// default.
    fn wanted(&mut self, last: Last) -> Option<LbnRange> {
        let _ = last;
        None
    }

    /// Returns whether the mimic may want reads in idle time.
    fn uses_idle_time(&self) -> bool {
        false
    }

    /// Returns a copy, for a core that is cloned.
    fn boxed_clone(&self) -> Box<dyn Mimic>;
}

impl Clone for Box<dyn Mimic> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}
