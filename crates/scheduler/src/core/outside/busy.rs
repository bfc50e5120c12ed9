//! For how long the head is busy with a write of which its client has heard.
//!
//! Who comes meanwhile waits for that as for a request that is not done: a drive that reports writes from its buffer is as busy as another, and
//! what its head loses goes from one to the next as there. Taken for idle from the report on, it was rehearsed to lose next to nothing
//! ([`rehearsal`](super::rehearsal)). Where a drive is foreseen, so is this. Elsewhere a write that takes longer than those do which come to an idle
//! drive has waited for the one before, and says when that was on the medium; of the rest it is taken to be as long as of those, but no
//! longer than until the next began.

use super::Outside;
use units::{Duration, Instant, Op};

/// A write that takes no longer than this beyond what those take which come to an idle drive did not wait.
const SLACK: Duration = Duration::from_micros(500);

/// A mean is of so many, and of fewer than the second number nothing is known, but where so many writes have not told more.
const MEAN_OF: u64 = 64;
const TOO_FEW: u64 = 8;
const WRITES: u64 = 2_048;

/// When the head is free behind a request that is done.
#[derive(Clone, Copy, Debug)]
pub(super) enum Frees {
    At(Instant),
    /// Some time after its report, which takes so long if nothing is waited for.
    Later {
        own: Duration,
    },
    /// Nobody knows yet whether that was reported from the buffer.
    Unknown,
}

/// What is known of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    free: Instant,
    /// When the last request was reported, if it is not known when the head was free behind it.
    reported: Option<Instant>,
    /// For how long it is busy behind reports that others have waited behind.
    mean: Duration,
    seen: u64,
    writes: u64,
}

impl Busy {
    /// A request is done that came at `arrived`, behind work of idle time or not: when the head was free behind the last one.
    pub fn done(&mut self, now: Instant, arrived: Instant, frees: Frees, behind_idle: bool) -> Instant {
        if let Some(reported) = self.reported.take() {
            let usual = reported + self.mean;
            self.free = match frees {
                Frees::Later { own } => {
                    let begun = arrived.max(reported);
                    let waited = now.checked_sub(own).filter(|free| *free > begun + SLACK && !behind_idle);
                    if let Some(free) = waited {
                        self.seen = (self.seen + 1).min(MEAN_OF);
                        self.mean =
                            (self.mean * (self.seen - 1) + free.saturating_since(reported)) / self.seen;
                    }
                    waited.unwrap_or(usual.min(begun))
                }
                // What it took itself nobody knows.
                Frees::At(_) | Frees::Unknown => usual.min(now),
            };
        }
        let before = self.free;
        match frees {
            Frees::At(free) => self.free = free.max(now),
            Frees::Later { .. } => self.reported = Some(now),
            Frees::Unknown => self.free = now,
        }
        let at_medium = matches!(frees, Frees::At(_));
        self.writes = self.writes.saturating_add(u64::from(!at_medium));
        before
    }

    /// Whether it is known when the head is free behind such a request.
    pub fn knows(&self, frees: Frees) -> bool {
        match frees {
            Frees::At(_) => true,
            Frees::Later { .. } => self.seen >= TOO_FEW || self.writes >= WRITES,
            Frees::Unknown => self.writes >= WRITES,
        }
    }

    /// Nobody has looked for a while.
    pub fn forget(&mut self) {
        (self.free, self.reported) = (Instant::ZERO, None);
    }
}

impl Outside {
    /// When the head is free behind a foreground request that is done.
    pub(super) fn frees(&self, now: Instant, op: Op) -> Frees {
        if self.foresees() {
            let writes = self.reports(op) && self.buffered;
            return Frees::At(if writes { self.clock.host(self.base.free).max(now) } else { now });
        }
        let alone = &self.alone[usize::from(op.is_write())];
        let may_report = self.blind || self.reports(op);
        match alone.steady().filter(|_| op.is_write()) {
            Some(own) => Frees::Later { own },
            None if op.is_write() && may_report && alone.usual().is_none() => Frees::Unknown,
            None => Frees::At(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Duration = Duration::from_micros(300);

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    fn writes(of: &[(u64, u64)]) -> Vec<Instant> {
        let mut busy = Busy::default();
        of.iter()
            .map(|&(came, done)| busy.done(at(done), at(came), Frees::Later { own: OWN }, false))
            .collect()
    }

    #[test]
    fn who_waits_says_when_the_head_was_free() {
        let free = writes(&[(0, 300), (1_000, 9_300), (30_000, 30_300), (34_000, 36_300)]);
        // The third waits for nothing: as long as the first, of which alone something is known.
        assert_eq!(free[1..], [at(9_000), at(18_000), at(36_000)]);
    }

    #[test]
    fn nobody_is_waited_for_longer_than_until_the_next_begins() {
        let free = writes(&[(0, 300), (1_000, 9_300), (12_000, 12_300)]);
        assert_eq!(free[2], at(12_000));
    }

    #[test]
    fn what_is_done_at_the_medium_frees_the_head() {
        let mut busy = Busy::default();
        let mut read = |came, done| busy.done(at(done), at(came), Frees::At(at(done)), false);
        read(0, 8_000);
        assert_eq!(read(1_000, 16_000), at(8_000));
    }
}
