//! A run: continuous reading in LBN order over one or more tracks, of a request's sectors and then of read-ahead.
//!
//! A run is evaluated only at events: when a command arrives, or when a request needs its sectors. All times of a run are
//! computed from [`Pass`]es, so that they do not depend on the number of evaluations.

use crate::mechanics::{Mechanics, Pass};
use crate::spindle::Platter;
use model::{DriveModel, Piece};
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// A run of reading from an LBN on. A sector has *landed* when it has been read from the medium into the buffer.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The index of the segment that the run fills.
    pub(crate) segment: usize,
    /// The first LBN that has not landed.
    pub(crate) next: Lbn,
    /// The LBN before which the run ends.
    pub(crate) limit: Lbn,
    /// The LBN up to which a new command does not stop the run.
    pub(crate) least: Lbn,
    /// If the whole track goes into the buffer: the first LBN of the track, and the end of the revolution in which it is
    /// read.
    pub(crate) around: Option<(Lbn, Instant)>,
    /// The time of the move before the first sector.
    pub(crate) first_seek: Duration,
    /// The rotational latency of the first sector.
    pub(crate) first_latency: Duration,
    /// The time at which the head is ready on the track of `pass`.
    arrival: Instant,
    pass: Pass,
    pass_lbn: Lbn,
}

/// The activity of a run when it was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Moving,
    Waiting,
    Reading,
}

fn piece(model: &DriveModel, from: Lbn, limit: Lbn) -> Option<Piece> {
    (from < limit).then(|| model.layout().pieces(LbnRange::new(from, limit.since(from))).next()).flatten()
}

impl Run {
    /// Starts the arm for the LBN `from` at `at`. The head is ready at `ready` at the earliest. Returns `None` if the run
    /// would be empty.
    pub(crate) fn start(
        mechanics: &mut Mechanics,
        segment: usize,
        at: Instant,
        ready: Instant,
        from: Lbn,
        limit: Lbn,
    ) -> Option<Self> {
        let piece = piece(mechanics.model(), from, limit)?;
        let track = mechanics.model().layout().track(piece.track);
        let arrival = mechanics.seek_to(at, track.into(), Op::Read).max(ready);
        let pass = mechanics.pass(arrival, track, piece.sector, piece.len);
        Some(Self {
            segment,
            next: from,
            limit,
            least: from,
            around: None,
            first_seek: arrival.since(at),
            first_latency: pass.start(mechanics.spindle()).since(arrival),
            arrival,
            pass,
            pass_lbn: from,
        })
    }

    /// Returns the time at which the head was ready on the current track.
    pub(crate) fn arrival(&self) -> Instant {
        self.arrival
    }

    /// Returns the pass in progress.
    pub(crate) fn pass(&self) -> &Pass {
        &self.pass
    }

    fn pass_end_lbn(&self) -> Lbn {
        self.pass_lbn + Sectors::new(u64::from(self.pass.count))
    }

    /// Continues with the next piece before the limit. Returns false if the run has reached the limit.
    fn follow(&mut self, mechanics: &mut Mechanics) -> bool {
        let from = self.pass_end_lbn();
        let Some(piece) = piece(mechanics.model(), from, self.limit) else { return false };
        let track = mechanics.model().layout().track(piece.track);
        let end = self.pass.end(mechanics.spindle());
        self.pass = match self.pass.next(track, piece.sector, piece.len) {
            Some(next) => next,
            None => {
                self.arrival = mechanics.seek_to(end, track.into(), Op::Read);
                mechanics.pass(self.arrival, track, piece.sector, piece.len)
            }
        };
        self.pass_lbn = from;
        true
    }

    /// Advances the run to `now`. Returns the time at which the run ended, or `None` if it goes on.
    pub(crate) fn advance(&mut self, mechanics: &mut Mechanics, now: Instant) -> Option<Instant> {
        loop {
            let done = self.pass.done_by(mechanics.spindle(), now);
            self.next = self.next.max(self.pass_lbn + Sectors::new(u64::from(done)));
            if done < self.pass.count {
                return None;
            }
            if !self.follow(mechanics) {
                let end = self.pass.end(mechanics.spindle());
                return match self.around {
                    Some((_, whole)) if whole > now => None,
                    Some((_, whole)) => Some(end.max(whole)),
                    None => Some(end),
                };
            }
        }
    }

    /// Advances the run to `end`. Calls `each` with the landing time of every sector on the way.
    pub(crate) fn land(&mut self, mechanics: &mut Mechanics, end: Lbn, mut each: impl FnMut(Instant)) {
        while self.next < end {
            if self.next >= self.pass_end_lbn() {
                if !self.follow(mechanics) {
                    return;
                }
                continue;
            }
            let k = self.next.since(self.pass_lbn).get() as u32 + 1;
            each(self.pass.done(mechanics.spindle(), k));
            self.next += Sectors::new(1);
        }
    }

    /// Returns the time at which the sector before `next` landed.
    pub(crate) fn landed_at(&self, platter: &impl Platter) -> Instant {
        self.pass.done(platter, self.next.since(self.pass_lbn).get() as u32)
    }

    /// Returns the head's activity at `now`, and the time at which this activity ends.
    pub(crate) fn doing(&self, platter: &impl Platter, now: Instant) -> (Doing, Instant) {
        if now < self.arrival {
            return (Doing::Moving, self.arrival);
        }
        let start = self.pass.start(platter);
        if now < start {
            return (Doing::Waiting, start);
        }
        let k = self.pass.done_by(platter, now) + 1;
        (Doing::Reading, self.pass.done(platter, k.min(self.pass.count)))
    }
}
