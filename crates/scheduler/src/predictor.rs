//! What a policy asks: how long would this request take from here?

use crate::foreground::Pending;
use model::{DriveModel, Position};
use units::{Arc, Duration, FULL_TURN, Instant, Op};

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

/// Predicts positioning times. One implementation knows the drive; the Disk Mimic is another.
pub trait Predictor {
    /// Time to get from `from` at `at` to `request`.
    fn positioning(&self, from: Position, at: Instant, request: &Pending) -> Positioning;
}

/// Exact knowledge: what a scheduler in the drive has.
impl Predictor for DriveModel {
    #[inline]
    fn positioning(&self, from: Position, at: Instant, request: &Pending) -> Positioning {
        let op = request.request.op;
        let to = request.position();
        let ready = self.move_time(from, to, op);
        let seek = self.move_time(from, to, Op::Read).min(ready);
        let now = self.rpm().earliest_angle(at + ready);
        let wait = now.until(request.track.sector_angle(request.piece.sector));
        let span = request.track.arc(request.piece.sector, request.piece.len);
        // A zero-latency access that lands inside its sectors is done after one turn.
        let passed = Arc::from_parts(FULL_TURN) - wait;
        let wait = if self.zero_latency(op) && passed < span { Arc::TURN - span } else { wait };
        Positioning { seek, rest: ready - seek + self.rpm().time_within(wait) }
    }
}
