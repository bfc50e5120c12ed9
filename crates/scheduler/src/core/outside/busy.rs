//! The time for which the head is busy with a write that has been reported from the drive's buffer.
//!
//! Requests that arrive meanwhile wait for it as for one that is not done, and a delay of the head reaches them all. If the
//! head counted as idle from the report on, the rehearsed clients ([`rehearsal`](super::rehearsal)) would hardly collide. On
//! a predictable drive this time is predicted. Elsewhere a write that takes longer than those to an idle drive has waited
//! for the one before, and its report shows when that was on the medium. Every other write is assumed to take as long as
//! those, but to end before the next began.

use super::Outside;
use units::{Duration, Instant, Op};

/// A write that takes at most this much longer than those to an idle drive did not wait.
const SLACK: Duration = Duration::from_micros(500);

/// The number of waits in a mean, and the minimum before the mean is known; after `WRITES` writes fewer suffice.
const MEAN_OF: u64 = 64;
const TOO_FEW: u64 = 8;
const WRITES: u64 = 2_048;

/// The end of the head's work for a request that was reported.
#[derive(Clone, Copy, Debug)]
pub(super) enum Frees {
    At(Instant),
    /// A while after the report, which takes this long if the write waits for nothing.
    Later {
        own: Duration,
    },
    /// Unknown, because it is unknown whether the write was reported from the buffer.
    Unknown,
}

/// The knowledge of the busy times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Busy {
    free: Instant,
    /// The report of the last request, if the end of the head's work for it is unknown.
    reported: Option<Instant>,
    /// The mean busy time after reports behind which others have waited.
    mean: Duration,
    seen: u64,
    writes: u64,
}

impl Busy {
    /// Records the completion of a request that arrived at `arrived`, after idle work or not. Returns the instant at which
    /// the head was free after the request before.
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
                // Its own service time is unknown.
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

    /// Returns whether the end of the head's work for such a request is known.
    pub fn knows(&self, frees: Frees) -> bool {
        match frees {
            Frees::At(_) => true,
            Frees::Later { .. } => self.seen >= TOO_FEW || self.writes >= WRITES,
            Frees::Unknown => self.writes >= WRITES,
        }
    }

    /// Discards the state after a time without observation.
    pub fn forget(&mut self) {
        (self.free, self.reported) = (Instant::ZERO, None);
    }
}

impl Outside {
    /// Returns when the head is free after a finished foreground request.
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
    fn a_waiting_write_shows_when_the_head_was_free() {
        let free = writes(&[(0, 300), (1_000, 9_300), (30_000, 30_300), (34_000, 36_300)]);
        // The third write waits for nothing, so it takes as long as the first, the only known one.
        assert_eq!(free[1..], [at(9_000), at(18_000), at(36_000)]);
    }

    #[test]
    fn a_head_is_busy_no_longer_than_until_the_next_command_begins() {
        let free = writes(&[(0, 300), (1_000, 9_300), (12_000, 12_300)]);
        assert_eq!(free[2], at(12_000));
    }

    #[test]
    fn a_completion_from_the_medium_frees_the_head() {
        let mut busy = Busy::default();
        let mut read = |came, done| busy.done(at(done), at(came), Frees::At(at(done)), false);
        read(0, 8_000);
        assert_eq!(read(1_000, 16_000), at(8_000));
    }
}
