//! What a policy asks: how long would this request take from here?

use crate::foreground::{Pending, Request};
use model::{DriveModel, Position};
use std::any::Any;
use std::fmt;
use units::{Arc, Duration, FULL_TURN, Instant, Lbn, LbnRange, Op};

/// The parts of getting to a request's first sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positioning {
    /// Seek and head switch: what SSTF calls the seek.
    pub seek: Duration,
    /// Settling before a write, and rotational latency.
    pub rest: Duration,
}

impl Positioning {
    /// Both together: what SPTF calls the positioning time.
    #[inline]
    pub fn total(self) -> Duration {
        self.seek + self.rest
    }
}

/// Predicts positioning times from where the arm is and how the platter stands: for those who know the drive. Who does not
/// has a [`Mimic`].
pub trait Predictor {
    /// Time to get from `from` at `at` to `request`.
    fn positioning(&self, from: Position, at: Instant, request: &Pending) -> Positioning;
}

/// Exact knowledge: what a scheduler in the drive has. Of an unknown drive only which way is further: SPTF is SSTF there.
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
        // A zero-latency access that lands inside its sectors is done after one turn.
        let passed = Arc::from_parts(FULL_TURN) - wait;
        let wait = if self.zero_latency(op) && passed < span { Arc::TURN - span } else { wait };
        Positioning { seek, rest: ready - seek + self.rpm().time_within(wait) }
    }
}

/// The last access as a host saw it: all that a [`Mimic`] knows of where the head is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    /// Read or write.
    pub op: Op,
    /// Its last sector.
    pub lbn: Lbn,
}

impl Last {
    /// What `request` leaves behind.
    #[inline]
    pub fn of(request: &Request) -> Self {
        Self::after(request.op, request.range)
    }

    /// What an access to `range` leaves behind.
    #[inline]
    pub fn after(op: Op, range: LbnRange) -> Self {
        let before_end = range.end().get().saturating_sub(1);
        Self { op, lbn: Lbn::new(before_end.max(range.start().get())) }
    }
}

/// A request that has been carried out, as a host saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observed {
    /// What the drive did before.
    pub last: Last,
    /// The request.
    pub request: Request,
    /// How long the drive had nothing to do before it began: the platter has turned on meanwhile.
    pub pause: Duration,
    /// From then until the request was done.
    pub time: Duration,
}

/// Predicts times from nothing but what a host sees of a drive: the last request and this one (ATC'03, section 3). SMTF
/// asks it, and whoever carries requests out tells it what they took. In the drive that is the time at the head; outside,
/// where commands follow each other without a pause, from one completion to the next, whatever overlaps meanwhile.
pub trait Mimic: Any + fmt::Debug + Send + Sync {
    /// How long `request` takes after `last`, if that is known. `at` and the request's id tell one question from
    /// another where the answer is drawn by lot.
    fn time(&self, last: Last, at: Instant, request: &Request) -> Option<Duration>;

    /// The times of several requests after `last`, in their order, as [`time`](Self::time) has each: `times` holds them
    /// then, and nothing else. A large table is not in a processor's caches; whoever is asked for many at once can wait for
    /// all of them together.
    fn times(&self, last: Last, at: Instant, requests: &[Request], times: &mut Vec<Option<Duration>>) {
        times.clear();
        times.extend(requests.iter().map(|request| self.time(last, at, request)));
    }

    /// A request has been carried out.
    fn observe(&mut self, seen: &Observed);

    /// What it would have read in idle time, after `last`, to learn from how long that takes; nothing, unless it says so.
    fn wanted(&mut self, last: Last) -> Option<LbnRange> {
        let _ = last;
        None
    }

    /// Whether it may want something in idle time.
    fn uses_idle_time(&self) -> bool {
        false
    }

    /// A copy, for a core that is cloned.
    fn boxed_clone(&self) -> Box<dyn Mimic>;
}

impl Clone for Box<dyn Mimic> {
    fn clone(&self) -> Self {
        (**self).boxed_clone()
    }
}
