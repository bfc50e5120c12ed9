//! Idle time: when the drive counts as idle, and how far background work may then go (FAST'04, section 5.2).
//!
//! What is done in a rotational gap costs the foreground nothing. Idle time is different: nobody knows when it ends, and
//! a request that comes then finds the arm elsewhere, or moving. On the track under the head that costs nothing either,
//! since what is read there can be left at any instant. Elsewhere the core keeps account: for every request that ends an
//! idle period it knows when it is done, and when it would have been had the head stayed where the foreground left it.
//! The difference is harm, or gain. While harm is well below its bound the hardest blocks are read, those near the
//! innermost and outermost cylinders. Above that, those nearest to the middle of what the foreground asks for: the
//! place from which the next request is least far, so that the account recovers. Above the bound, only the track under
//! the head, until the foreground has been silent for so long that it must be asleep.

use thiserror::Error;
use units::{Cylinder, Duration, Instant};

/// Silence after which the bound on harm waits for the foreground to wake: one late request in so long a time is
/// nothing, and background work on a drive that nobody uses must go on.
const ASLEEP: Duration = Duration::from_secs(10);

/// How idle time is used.
///
/// What it costs the foreground is held to [`harm_ppm`](Self::harm_ppm) while requests come within ten seconds of each
/// other. After ten seconds of silence the bound waits: background work on a drive that nobody uses must go on, and goes
/// to the hardest blocks, so that the next request is late by what the way back from there takes, a part of one request in
/// more than ten seconds. On an Atlas 10K that is a foreground of less than some 0.1% of the drive's time; less than 2% is
/// not promised to it. With a request in 30 s the mean response was 8.71%
/// longer (`freeblock lab run fast04-fig5 --quick`, its note).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTime {
    /// The drive is idle when nothing came for so long, 1 ns to an hour; until then only the track under the head is read.
    pub threshold: Duration,
    /// Whether the time until then is used.
    pub short: bool,
    /// The most that the foreground's time at the head may grow by, in millionths: 0 to 1,000,000.
    pub harm_ppm: u32,
}

impl Default for IdleTime {
    /// 20 ms (FAST'04, section 5.2), all of it, and 1%.
    fn default() -> Self {
        Self { threshold: Duration::from_millis(20), short: true, harm_ppm: 10_000 }
    }
}

/// What idle time cannot be used with. The message names the field and what it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IdleTimeError {
    /// No threshold, after which nothing would ever be tried again, or one that never comes.
    #[error("idle.threshold is {} ns; give 1 ns to an hour, 20 ms where nothing is known", .found.as_nanos())]
    Threshold {
        /// What was given.
        found: Duration,
    },
    /// More than all of the foreground's time.
    #[error("idle.harm_ppm is {found} millionths; give 0 to 1000000, 10000 for 1%")]
    Harm {
        /// What was given.
        found: u32,
    },
}

impl IdleTime {
    /// The longest [`threshold`](Self::threshold): an hour.
    pub const LONGEST_THRESHOLD: Duration = Duration::from_secs(3_600);

    /// Whether a core can be told this.
    ///
    /// # Errors
    /// Which field cannot be, and what it may be.
    ///
    /// ```
    /// use freeblock_scheduler::IdleTime;
    /// use units::Duration;
    /// let idle = IdleTime { threshold: Duration::ZERO, ..IdleTime::default() };
    /// assert!(idle.check().unwrap_err().to_string().starts_with("idle.threshold is 0 ns; give 1 ns to an hour"));
    /// ```
    pub fn check(&self) -> Result<(), IdleTimeError> {
        if self.threshold == Duration::ZERO || self.threshold > Self::LONGEST_THRESHOLD {
            return Err(IdleTimeError::Threshold { found: self.threshold });
        }
        if self.harm_ppm > 1_000_000 {
            return Err(IdleTimeError::Harm { found: self.harm_ppm });
        }
        Ok(())
    }
}

/// How far from the head background work may go in idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// Not off the track.
    Track,
    /// Where the foreground is likely to come next.
    Middle(Cylinder),
    /// The innermost and outermost cylinders first.
    Hardest,
}

/// What background work in idle time has cost the foreground, or saved it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Harm {
    /// Time of the foreground at the head, all requests.
    pub foreground: Duration,
    /// By how much requests that ended an idle period were late.
    pub late: Duration,
    /// By how much they were early.
    pub early: Duration,
}

impl Harm {
    /// What was lost in all, as a part of the foreground's time; negative where more was gained.
    pub fn share(&self) -> f64 {
        let net = self.late.as_nanos() as f64 - self.early.as_nanos() as f64;
        net / (self.foreground.as_nanos() as f64).max(1.0)
    }
}

/// The account of one core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    pub harm: Harm,
    /// Since when the foreground has asked for nothing.
    pub since: Instant,
    /// Nothing could be done in idle time; not before this instant again.
    pub not_before: Instant,
    /// An estimate of the median cylinder of foreground requests.
    middle: u32,
    cylinders: u32,
}

impl Idle {
    pub fn new(cylinders: u32) -> Self {
        Self {
            harm: Harm::default(),
            since: Instant::ZERO,
            not_before: Instant::ZERO,
            middle: cylinders / 2,
            cylinders,
        }
    }

    /// A foreground request was at `cylinder`.
    pub fn visited(&mut self, cylinder: Cylinder) {
        // A step toward each: where as many come from either side, the steps cancel.
        let step = (self.cylinders / 256).max(1);
        self.middle = match cylinder.get() {
            c if c > self.middle => self.middle.saturating_add(step).min(c),
            c => self.middle.saturating_sub(step).max(c),
        };
    }

    /// A request is done at `actual` that would have been done at `plain`.
    pub fn account(&mut self, plain: Instant, actual: Instant) {
        self.harm.late += actual.saturating_since(plain);
        self.harm.early += plain.saturating_since(actual);
    }

    /// How far work may go.
    pub fn range(&self, config: &IdleTime, now: Instant) -> Range {
        if now.saturating_since(self.since) >= ASLEEP {
            return Range::Hardest;
        }
        let net = self.harm.late.saturating_sub(self.harm.early).as_nanos();
        let bound = u128::from(self.harm.foreground.as_nanos()) * u128::from(config.harm_ppm) / 1_000_000;
        if u128::from(net) * 2 <= bound {
            Range::Hardest
        } else if u128::from(net) <= bound {
            Range::Middle(Cylinder::new(self.middle))
        } else {
            Range::Track
        }
    }
}
