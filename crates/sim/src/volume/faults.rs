//! Seeded faults in a volume.

use std::num::NonZeroU64;
use units::{Duration, Instant, Lbn, Sectors};
use workload::random::Stream;

/// The frequencies of faults, in millionths of the head's orders. None by default.
///
/// Power is cut by [`Volume::power_cut`](super::Volume::power_cut), and sectors are spoilt one by one with
/// [`Platters::spoil`](super::Platters::spoil), at any instant that the caller likes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The seed of the random choices of faults.
    pub seed: u64,
    /// Lost completions: the host does not learn whether all, nothing, or the sectors before some instant were done. The
    /// core gets the report of the loss after [`timeout`](Self::timeout).
    pub lost_ppm: u32,
    /// The time after which a completion counts as lost.
    pub timeout: Duration,
    /// Completions that are late, each by a random time up to [`late`](Self::late).
    pub late_ppm: u32,
    /// The largest delay of a late completion.
    pub late: Duration,
    /// Orders after which a random sector of the drive becomes bad, until it is written.
    pub spoilt_ppm: u32,
}

impl Default for Faults {
    fn default() -> Self {
        Self {
            seed: 1,
            lost_ppm: 0,
            timeout: Duration::from_millis(500),
            late_ppm: 0,
            late: Duration::from_millis(50),
            spoilt_ppm: 0,
        }
    }
}

/// The outcome of one order of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The completion is late by this time.
    Reported(Duration),
    /// The completion never comes, and only the sectors that passed before this instant were done.
    Lost(Instant),
}

#[derive(Clone, Debug)]
pub(super) struct Chance {
    faults: Faults,
    stream: Stream,
}

impl Chance {
    pub fn new(faults: Faults) -> Self {
        Self { faults, stream: Stream::new(faults.seed, "faults") }
    }

    pub fn timeout(&self) -> Duration {
        self.faults.timeout
    }

    fn happens(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        NonZeroU64::new(bound).map_or(0, |bound| self.stream.below(bound))
    }

    pub fn fate(&mut self, began: Instant, until: Instant) -> Fate {
        if self.happens(self.faults.lost_ppm) {
            // The order is not carried out, fully carried out, or carried out up to some instant.
            let took = until.since(began).as_nanos();
            let done = (self.below(2 * took + 2)).saturating_sub(took / 2).min(took);
            return Fate::Lost(began + Duration::from_nanos(done));
        }
        if self.happens(self.faults.late_ppm) {
            return Fate::Reported(Duration::from_nanos(self.below(self.faults.late.as_nanos() + 1)));
        }
        Fate::Reported(Duration::ZERO)
    }

    pub fn spoilt(&mut self, capacity: Sectors) -> Option<Lbn> {
        self.happens(self.faults.spoilt_ppm).then(|| Lbn::new(self.below(capacity.get())))
    }
}
