//! Idle time: when the drive counts as idle, and how far background work may then go (FAST'04, section 5.2).
//!
//! What is done in a rotational gap costs the foreground nothing. Idle time is different: nobody knows when it ends, and
//! a request that comes then finds the arm elsewhere, or moving. On the track under the head that costs nothing either,
//! since what is read there can be left at any instant. Elsewhere the core keeps account: for every request that ends an
//! idle period it knows when it is done, and when it would have been had the head stayed where the foreground left it.
//! The difference is harm, or gain. While harm is well below its bound the hardest blocks are read, those near the
//! innermost and outermost cylinders. Above that, those nearest to the middle of what the foreground asks for: the
//! place from which the next request is least far, so that the account recovers. Above the bound, only the track under
//! the head, until the foreground has been silent for as long as the core is patient; then those in the middle again.
//! Each request that is late for it makes the core twice as patient: so few are, however seldom requests come.

use thiserror::Error;
use units::{Cylinder, Duration, Instant};

/// Silence after which work above the bound on harm goes on at first: background work on a drive that nobody uses must
/// go on, whatever the last request paid.
const FIRST_PATIENCE: Duration = Duration::from_secs(10);

/// The longest such silence where the cost of work cannot be told or is not predicted. There the account may never recover,
/// and with it the patience would never end: work that needs many silences would not get on in any of them.
const MOST_PATIENCE: Duration = Duration::from_secs(320);

/// Doubling ends here: longer silences than a year are not told apart, and an instant beyond the end of time is none.
const LONGEST_PATIENCE: Duration = Duration::from_secs(365 * 24 * 3_600);

/// How idle time is used.
///
/// What it costs the foreground in all is held to [`harm_ppm`](Self::harm_ppm) of the foreground's time, and what a few
/// requests may be late: the one with which the bound was passed, and those that were late for work above it. Such work
/// begins only after a silence, of ten seconds first and of twice as long after each request that was late for it, until
/// the account is back at half of the bound: if no silence is longer than an hour, that is ten requests. Where the cost is
/// not predicted, as of a drive of which only the size is known, 320 s of silence are always enough. So work goes on
/// on a drive that nobody uses, and how often requests come changes nothing in the long run. Less
/// than 2% is therefore not promised to a few dozen requests a day; `freeblock lab run fast04-fig5` has loads down to a
/// request an hour, in its full size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleTime {
    /// The drive is idle when nothing came for so long, 1 ns to an hour; until then only the track under the head is read;
    /// outside the drive by commands shorter than half a turn, as far as the account allows.
    pub threshold: Duration,
    /// Whether the time until then is used.
    pub short: bool,
    /// The most that the foreground's time at the head may grow by, in millionths: 0 to 1,000,000. Outside the drive
    /// shared with [detours](crate::OutsideConfig::harm_ppm).
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
    /// By how much requests that ended an idle period were late; of detours, all requests.
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

    /// What was lost in all; nothing where more was gained.
    pub(crate) fn net(&self) -> Duration {
        self.late.saturating_sub(self.early)
    }

    /// Of this at the head and what clients `felt` in their responses, what is worse, as time at the head: the same share of
    /// it that they felt, or what it lost itself. Where many wait and then few, the long responses of the many would pay for
    /// turns that the few lose, and the other way round where the few come first.
    pub(crate) fn or_felt(&self, felt: &Self) -> Self {
        if felt.foreground == Duration::ZERO {
            return *self;
        }
        let scaled = |time: Duration| {
            let nanos = u128::from(time.as_nanos()) * u128::from(self.foreground.as_nanos());
            Duration::from_nanos(
                u64::try_from(nanos / u128::from(felt.foreground.as_nanos())).unwrap_or(u64::MAX),
            )
        };
        let felt = Self { foreground: self.foreground, late: scaled(felt.late), early: scaled(felt.early) };
        if self.share() > felt.share() { *self } else { felt }
    }

    /// Something was so many nanoseconds late; early where that is less than nothing.
    pub(crate) fn late_by(&mut self, nanos: i64) {
        let by = Duration::from_nanos(nanos.unsigned_abs());
        *if nanos < 0 { &mut self.early } else { &mut self.late } += by;
    }

    /// The same in millionths, and no gains.
    pub(crate) fn ppm(&self) -> u32 {
        let net = u128::from(self.net().as_nanos());
        let ppm = net * 1_000_000 / u128::from(self.foreground.as_nanos()).max(1);
        u32::try_from(ppm).unwrap_or(u32::MAX)
    }
}

/// The account of one core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Idle {
    /// At the head.
    pub head: Harm,
    /// What clients have waited, and by how much longer; nothing where nobody counts that, as in the drive.
    pub felt: Harm,
    /// The millionths of its bound that other work has, which is bounded together with this.
    pub beside_ppm: u32,
    /// What clients are thought to be late by yet for what was done.
    pub owed: Duration,
    /// What work costs is felt for longer than anybody can tell: it is taken to be above the bound.
    pub untold: bool,
    /// The cost of work is not predicted: the account is an estimate, which may stay above the bound for ever.
    pub unpredicted: bool,
    /// Since when the foreground has asked for nothing.
    pub since: Instant,
    /// When it asked for something first.
    pub asked: Option<Instant>,
    /// Nothing could be done in idle time; not before this instant again.
    pub not_before: Instant,
    /// Silence after which work goes on above the bound.
    patience: Duration,
    /// The head has left its track above the bound, and no request has come since.
    relieved: bool,
    /// An estimate of the median cylinder of foreground requests.
    middle: u32,
    cylinders: u32,
}

impl Idle {
    pub fn new(cylinders: u32) -> Self {
        Self {
            head: Harm::default(),
            felt: Harm::default(),
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

    /// What it has cost.
    pub fn harm(&self) -> Harm {
        self.head.or_felt(&self.felt)
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
        self.head.late += actual.saturating_since(plain);
        self.head.early += plain.saturating_since(actual);
        if std::mem::take(&mut self.relieved) && actual > plain {
            self.patience = (self.patience + self.patience).min(LONGEST_PATIENCE);
        }
    }

    /// A core whose account has recovered is as patient as at first.
    pub fn settle(&mut self, config: &IdleTime) {
        if self.level(config) == Level::Low {
            self.patience = FIRST_PATIENCE;
        }
    }

    /// How far work may go.
    pub fn range(&self, config: &IdleTime, now: Instant) -> Range {
        match self.level(config) {
            Level::Low => Range::Hardest,
            Level::High if now < self.relief() => Range::Track,
            Level::Middle | Level::High => Range::Middle(Cylinder::new(self.middle)),
        }
    }

    /// When work above the bound goes on, if the foreground stays silent.
    pub fn relief(&self) -> Instant {
        let bounded = self.untold || self.unpredicted;
        self.since + if bounded { self.patience.min(MOST_PATIENCE) } else { self.patience }
    }

    /// The head has left its track in idle time.
    pub fn left(&mut self, config: &IdleTime) {
        self.relieved = self.level(config) == Level::High;
    }

    fn level(&self, config: &IdleTime) -> Level {
        if self.untold {
            return Level::High;
        }
        let soon = |harm: &Harm| Harm { late: harm.late + self.owed, ..*harm };
        let harm = soon(&self.head).or_felt(&soon(&self.felt));
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

/// How the net harm stands to its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    /// Not above half of it.
    Low,
    /// Not above it.
    Middle,
    /// Above it.
    High,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REQUEST: Duration = Duration::from_millis(9);
    const MOST: u64 = 20_000_000;

    /// A silence, then a request that is so late, or early, if the head has left its track.
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
        /// However long the silences and whatever a request costs.
        #[test]
        fn harm_is_bounded_but_for_a_few_requests(
            requests in proptest::collection::vec((20u64..7_200_000, -(REQUEST.as_nanos() as i64)..MOST as i64), 1..400),
        ) {
            let config = IdleTime::default();
            let mut idle = Idle::new(1_000);
            let mut longest = 10_000;
            for (silence_ms, late) in requests {
                longest = longest.max(silence_ms);
                request(&mut idle, &config, Duration::from_millis(silence_ms), late);
                // The one that passed the bound, and one for each doubling of ten seconds that fits.
                let few = 2 + (longest / 10_000).ilog2();
                let net = idle.head.late.saturating_sub(idle.head.early).as_nanos();
                let bound = idle.head.foreground.as_nanos() / 100 + u64::from(few) * MOST;
                prop_assert!(net <= bound, "{net} ns of {bound}, silences of {longest} ms at most");
            }
        }
    }

    #[test]
    fn silence_is_enough_whatever_requests_paid() {
        let config = IdleTime { harm_ppm: 0, ..IdleTime::default() };
        let mut idle = Idle::new(1_000);
        for _ in 0..5 {
            request(&mut idle, &config, Duration::from_secs(100), 1_000_000);
        }
        // Late at 0 s, and after 10, 20, 40 and 80 s of silence: the next after 160 s.
        assert_eq!(idle.relief(), idle.since + Duration::from_secs(160));
        assert_eq!(idle.range(&config, idle.since + Duration::from_secs(159)), Range::Track);
        assert_ne!(idle.range(&config, idle.relief()), Range::Track);
        // One that is early pays back, and work goes on at once.
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
        // A core that predicts again has an account to wait for.
        idle.unpredicted = false;
        assert_eq!(idle.range(&config, idle.since + Duration::from_secs(320)), Range::Track);
    }

    #[test]
    fn what_nobody_can_tell_the_cost_of_waits_for_a_long_silence() {
        let config = IdleTime::default();
        let mut idle = Idle { untold: true, ..Idle::new(1_000) };
        assert_eq!(idle.range(&config, idle.since + Duration::from_secs(9)), Range::Track);
        // Twice as long after each that was late, for as long as that lasts.
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
