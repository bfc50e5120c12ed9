//! Idle time: when the drive counts as idle, and how far background work may then go (FAST'04, section 5.2).
//!
//! Work in a rotational gap costs the foreground nothing. Idle time has an unknown end, and the request that ends it finds
//! the arm elsewhere or moving. In the drive, reads on the track under the head cost nothing, because they can end at any
//! instant. For other work the core estimates the harm: it compares the completion of each request that ends an idle period with
//! the completion that the request would have had if the head had stayed where the foreground left it. The difference is harm,
//! or gain.
//!
//! While the harm is well below its bound, the hardest blocks are read, near the innermost and outermost cylinders. Closer
//! to the bound, the blocks nearest to the middle of the foreground's requests are read: from there the next request is
//! nearest, so that the estimate falls. Above the bound only the track under the head is used, until the foreground has been
//! silent for a time called patience; then blocks near the middle again. Each request that such work delays doubles the
//! patience, so that few requests are late, however seldom they arrive.

use thiserror::Error;
use units::{Cylinder, Duration, Instant};

/// The initial silence after which work continues although the harm is above its bound: on a drive that is not used, background
/// work must make progress, whatever the last request's delay was.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);

/// The longest patience if the cost of idle work is unknown or not predicted. The estimate may then never fall, so that the
/// patience would grow without end, and work that needs many silences would make no progress.
const BOUNDED_PATIENCE_MAX: Duration = Duration::from_secs(320);

/// The longest patience: a year, which no host waits for and which instants can hold.
const PATIENCE_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);

/// The use of idle time.
///
/// The harm of idle work is bounded by [`harm_ppm`](Self::harm_ppm) of the foreground's time, plus the delays of a few requests:
/// the one that exceeds the bound, and those that are delayed by work above the bound. Such work begins after a silence of ten
/// seconds at first, and after a silence of twice the length for each request that it has delayed, until the estimate is back at
/// half of the bound: if no silence is longer than an hour, ten requests are delayed. If the cost is not predicted, as on a
/// drive of which only the size is known, 320 s of silence always suffice. So work continues on a drive that is not used, and
/// the rate of requests does not matter in the long run. With a few dozen requests a day, a harm below 2% is therefore not
/// promised; `freeblock lab run fast04-fig5` has loads down to a request an hour, in its full size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdleTime {
    /// The time without a request after which the drive counts as idle, 1 ns to an hour. Before that only the track under the
    /// head is read; outside the drive by commands of at most half a revolution, within the harm bound.
    pub threshold: Duration,
    /// Whether the time before the threshold is used.
    pub short: bool,
    /// The bound on harm, as a share of the foreground's time at the head, in millionths: 0 to 1,000,000. Outside the drive
    /// the bound is shared with [detours](crate::OutsideConfig::harm_ppm).
    pub harm_ppm: u32,
}

impl Default for IdleTime {
    /// Returns a threshold of 20 ms (FAST'04, section 5.2), with use of the time before it, and a bound of 1%.
    fn default() -> Self {
        Self { threshold: Duration::from_millis(20), short: true, harm_ppm: 10_000 }
    }
}

/// An invalid setting of idle time. The message names the field and its valid values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdleTimeError {
    /// The threshold is too long, or zero: with zero the next attempt would not be later than the last one.
    #[error("idle.threshold is {} ns; give 1 ns to 1 h, 20 ms is the default", .found.as_nanos())]
    Threshold {
        /// The given value.
        found: Duration,
    },
    /// The bound is more than all of the foreground's time.
    #[error("idle.harm_ppm is {found} millionths; give 0 to 1000000, 10000 for 1%")]
    Harm {
        /// The given value.
        found: u32,
    },
}

impl IdleTime {
    /// The longest [`threshold`](Self::threshold): an hour.
    pub const THRESHOLD_MAX: Duration = Duration::from_secs(3_600);

    /// Checks the settings.
    ///
    /// # Errors
    /// The invalid field and its valid values.
    ///
    /// ```
    /// use freeblock_scheduler::IdleTime;
    /// use freeblock_scheduler::units::Duration;
    /// let idle = IdleTime::default().with_threshold(Duration::ZERO);
    /// assert!(idle.check().unwrap_err().to_string().starts_with("idle.threshold is 0 ns; give 1 ns to 1 h"));
    /// ```
    pub fn check(&self) -> Result<(), IdleTimeError> {
        if self.threshold == Duration::ZERO || self.threshold > Self::THRESHOLD_MAX {
            return Err(IdleTimeError::Threshold { found: self.threshold });
        }
        if self.harm_ppm > 1_000_000 {
            return Err(IdleTimeError::Harm { found: self.harm_ppm });
        }
        Ok(())
    }
}

/// The allowed distance of background work from the head in idle time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Range {
    /// The track under the head only.
    Track,
    /// Near the likely cylinder of the next request.
    Middle(Cylinder),
    /// The innermost and outermost cylinders first.
    Hardest,
}

/// The foreground's delay by background work in idle time, or its lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Harm {
    /// The foreground's time at the head, all requests.
    pub foreground: Duration,
    /// The total delay of late requests: for idle time, of those that ended an idle period; for detours, of all.
    pub late: Duration,
    /// The total lead of early requests.
    pub early: Duration,
}

impl Harm {
    /// Returns the net delay as a share of the foreground's time; negative if the lead is greater.
    pub fn share(&self) -> f64 {
        let net = self.late.as_nanos() as f64 - self.early.as_nanos() as f64;
        net / (self.foreground.as_nanos() as f64).max(1.0)
    }

    /// Returns the harm since an earlier state of the same account.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            foreground: self.foreground.saturating_sub(earlier.foreground),
            late: self.late.saturating_sub(earlier.late),
            early: self.early.saturating_sub(earlier.early),
        }
    }

    /// Returns the net delay; zero if the lead is greater.
    pub(crate) fn net(&self) -> Duration {
        self.late.saturating_sub(self.early)
    }

    /// Returns the harm with the greater share: this one, at the head, or `client_harm`, in response times, which is scaled
    /// to the time at the head. The shares are compared separately, because otherwise the long response times of a long queue
    /// would offset revolutions that are lost with a short queue, and the other way round.
    pub(crate) fn or_client_harm(&self, client_harm: &Self) -> Self {
        if client_harm.foreground == Duration::ZERO {
            return *self;
        }
        let scaled = |time: Duration| {
            let nanos = u128::from(time.as_nanos()) * u128::from(self.foreground.as_nanos());
            Duration::from_nanos(
                u64::try_from(nanos / u128::from(client_harm.foreground.as_nanos())).unwrap_or(u64::MAX),
            )
        };
        let client_harm = Self {
            foreground: self.foreground,
            late: scaled(client_harm.late),
            early: scaled(client_harm.early),
        };
        if self.share() > client_harm.share() { *self } else { client_harm }
    }

    /// Records a delay in ns; negative means early.
    pub(crate) fn late_by(&mut self, nanos: i64) {
        let by = Duration::from_nanos(nanos.unsigned_abs());
        *if nanos < 0 { &mut self.early } else { &mut self.late } += by;
    }

    /// Returns the net delay as a share of the foreground's time in ppm; zero if the lead is greater.
    pub(crate) fn ppm(&self) -> u32 {
        let net = u128::from(self.net().as_nanos());
        let ppm = net * 1_000_000 / u128::from(self.foreground.as_nanos()).max(1);
        u32::try_from(ppm).unwrap_or(u32::MAX)
    }
}

/// The harm estimate of one core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    /// The harm at the head.
    pub head: Harm,
    /// The harm in response times; zero if it is not estimated, as in the drive.
    pub client_harm: Harm,
    /// The part of the bound, in ppm of the foreground's time, that other work under the same bound uses.
    pub beside_ppm: u32,
    /// The expected delay of clients by past work that has not occurred yet.
    pub owed: Duration,
    /// Whether idle work has costs that come too late to be observed; the harm then counts as above the bound.
    pub untold: bool,
    /// Whether the cost of idle work is not predicted, so that the estimate may stay above the bound for ever.
    pub unpredicted: bool,
    /// The start of the silence of the foreground.
    pub since: Instant,
    /// The arrival of the first foreground request.
    pub asked: Option<Instant>,
    /// The instant of the next attempt after a search for idle work that found nothing.
    pub not_before: Instant,
    /// The silence after which work continues although the harm is above its bound.
    patience: Duration,
    /// Whether idle work has moved the head from its track since the last request, although the harm was above its bound.
    relieved: bool,
    /// The estimated median cylinder of foreground requests.
    middle: u32,
    cylinders: u32,
}

impl Idle {
    pub fn new(cylinders: u32) -> Self {
        Self {
            head: Harm::default(),
            client_harm: Harm::default(),
            beside_ppm: 0,
            owed: Duration::ZERO,
            untold: false,
            unpredicted: false,
            since: Instant::ZERO,
            asked: None,
            not_before: Instant::ZERO,
            patience: FIRST_PATIENCE,
            relieved: false,
            middle: cylinders / 2,
            cylinders,
        }
    }

    /// Adapts to another model of the same drive, with the middle in the same part of the drive. An estimate within the bound
    /// begins anew: if the harm of two periods is within the bound in each, it is so in both together.
    pub fn lay_out(&mut self, cylinders: u32, before: Option<&IdleTime>) {
        if before.is_some_and(|config| self.level(config) != Level::High) {
            (self.head, self.client_harm) = (Harm::default(), Harm::default());
        }
        let middle = u64::from(self.middle) * u64::from(cylinders) / u64::from(self.cylinders.max(1));
        self.middle = u32::try_from(middle).unwrap_or(cylinders);
        self.cylinders = cylinders;
        self.not_before = Instant::ZERO;
    }

    /// Returns the harm.
    pub fn harm(&self) -> Harm {
        self.head.or_client_harm(&self.client_harm)
    }

    /// Records a foreground request at `cylinder`.
    pub fn visited(&mut self, cylinder: Cylinder) {
        // A step toward each request: at the median the steps cancel.
        let step = (self.cylinders / 256).max(1);
        self.middle = match cylinder.get() {
            c if c > self.middle => self.middle.saturating_add(step).min(c),
            c => self.middle.saturating_sub(step).max(c),
        };
    }

    /// Records that a request was done at `actual` and would have been done at `plain` without idle work.
    pub fn account(&mut self, plain: Instant, actual: Instant) {
        self.head.late += actual.saturating_since(plain);
        self.head.early += plain.saturating_since(actual);
        if core::mem::take(&mut self.relieved) && actual > plain {
            self.patience = (self.patience + self.patience).min(PATIENCE_MAX);
        }
    }

    /// Resets the patience if the estimate has fallen to half of the bound.
    pub fn settle(&mut self, config: &IdleTime) {
        if self.level(config) == Level::Low {
            self.patience = FIRST_PATIENCE;
        }
    }

    /// Returns the allowed distance of idle work from the head.
    pub fn range(&self, config: &IdleTime, now: Instant) -> Range {
        match self.level(config) {
            Level::Low => Range::Hardest,
            Level::High if now < self.relief() => Range::Track,
            Level::Middle | Level::High => Range::Middle(Cylinder::new(self.middle)),
        }
    }

    /// Returns when work above the bound continues if the foreground stays silent.
    pub fn relief(&self) -> Instant {
        let bounded = self.untold || self.unpredicted;
        self.since + if bounded { self.patience.min(BOUNDED_PATIENCE_MAX) } else { self.patience }
    }

    /// Records that the head has left its track in idle time.
    pub fn left(&mut self, config: &IdleTime) {
        self.relieved = self.level(config) == Level::High;
    }

    fn level(&self, config: &IdleTime) -> Level {
        if self.untold {
            return Level::High;
        }
        let soon = |harm: &Harm| Harm { late: harm.late + self.owed, ..*harm };
        let harm = soon(&self.head).or_client_harm(&soon(&self.client_harm));
        let net = harm.net().as_nanos();
        let harm_ppm = config.harm_ppm.saturating_sub(self.beside_ppm);
        let plain = harm.foreground.saturating_sub(harm.net());
        let bound = u128::from(plain.as_nanos()) * u128::from(harm_ppm) / 1_000_000;
        if u128::from(net) * 2 <= bound {
            Level::Low
        } else if u128::from(net) <= bound {
            Level::Middle
        } else {
            Level::High
        }
    }
}

/// The net harm relative to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// At most half of the bound.
    Low,
    /// At most the bound.
    Middle,
    /// Above the bound.
    High,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REQUEST: Duration = Duration::from_millis(9);
    const LATE_NS_MAX: u64 = 20_000_000;

    /// Records a silence, then a request that is late, or early, if the head has left its track.
    fn request(idle: &mut Idle, config: &IdleTime, silence: Duration, late: i64) {
        idle.settle(config);
        let now = idle.since + silence;
        if idle.range(config, now) != Range::Track {
            idle.left(config);
            let plain = now + REQUEST;
            let by = Duration::from_nanos(late.unsigned_abs());
            idle.account(
                plain,
                if late > 0 { plain + by } else { Instant::from_nanos(plain.as_nanos() - by.as_nanos()) },
            );
        }
        idle.head.foreground += REQUEST;
        idle.visited(Cylinder::new(0));
        idle.settle(config);
        idle.since = now + REQUEST;
    }

    proptest! {
        /// Draws any silences and any delays.
        #[test]
        fn harm_is_bounded_but_for_a_few_requests(
            requests in proptest::collection::vec((20u64..7_200_000, -(REQUEST.as_nanos() as i64)..LATE_NS_MAX as i64), 1..400),
        ) {
            let config = IdleTime::default();
            let mut idle = Idle::new(1_000);
            let mut longest = 10_000;
            for (silence_ms, late) in requests {
                longest = longest.max(silence_ms);
                request(&mut idle, &config, Duration::from_millis(silence_ms), late);
                // The request that exceeds the bound, and one for each doubling of ten seconds that fits into the longest
                // silence.
                let few = 2 + (longest / 10_000).ilog2();
                let net = idle.head.late.saturating_sub(idle.head.early).as_nanos();
                let bound = idle.head.foreground.as_nanos() / 100 + u64::from(few) * LATE_NS_MAX;
                prop_assert!(net <= bound, "{net} ns of {bound}, silences of {longest} ms at most");
            }
        }
    }

    #[test]
    fn after_a_long_silence_work_continues_above_the_bound() {
        let config = IdleTime { harm_ppm: 0, ..IdleTime::default() };
        let mut idle = Idle::new(1_000);
        for _ in 0..5 {
            request(&mut idle, &config, Duration::from_secs(100), 1_000_000);
        }
        // Five requests were late, the last four after work above the bound: 10 s doubled four times are 160 s.
        assert_eq!(idle.relief(), idle.since + Duration::from_secs(160));
        assert_eq!(idle.range(&config, idle.since + Duration::from_secs(159)), Range::Track);
        assert_ne!(idle.range(&config, idle.relief()), Range::Track);
        // An early request lowers the estimate, and work continues at once.
        request(&mut idle, &config, Duration::from_secs(160), -5_000_000);
        assert_eq!(idle.range(&config, idle.since + Duration::from_millis(20)), Range::Hardest);
    }

    #[test]
    fn an_estimate_that_never_recovers_does_not_make_work_wait_for_ever() {
        let config = IdleTime::default();
        let mut idle = Idle { unpredicted: true, ..Idle::new(1_000) };
        for _ in 0..100 {
            let silence = idle.relief().since(idle.since);
            request(&mut idle, &config, silence, 20_000_000);
        }
        assert_eq!(idle.range(&config, idle.since + Duration::from_secs(319)), Range::Track);
        assert_ne!(idle.range(&config, idle.since + Duration::from_secs(320)), Range::Track);
        // A core that predicts again must wait until its estimate has fallen.
        idle.unpredicted = false;
        assert_eq!(idle.range(&config, idle.since + Duration::from_secs(320)), Range::Track);
    }

    #[test]
    fn work_of_unknown_cost_waits_for_a_long_silence() {
        let config = IdleTime::default();
        let mut idle = Idle { untold: true, ..Idle::new(1_000) };
        assert_eq!(idle.range(&config, idle.since + Duration::from_secs(9)), Range::Track);
        // The silence doubles with each late request, without end.
        for _ in 0..3 {
            let silence = idle.relief().since(idle.since);
            assert_ne!(idle.range(&config, idle.relief()), Range::Track);
            request(&mut idle, &config, silence, 1_000);
            assert_eq!(idle.relief(), idle.since + silence + silence);
        }
        for _ in 0..10 {
            request(&mut idle, &config, Duration::from_secs(1_000), 1_000);
        }
        assert_eq!(idle.relief(), idle.since + Duration::from_secs(320));
        idle.untold = false;
        assert_ne!(idle.range(&config, idle.since), Range::Track);
    }
}
