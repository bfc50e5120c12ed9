//! The audit: a switchback experiment that measures what background work costs the foreground.
//!
//! Time is divided into windows, and the windows into pairs (Bojinov, Simchi-Levi, Zhao, "Design and analysis of switchback
//! experiments", Management Science 69(7), 2023). A seeded draw gives a pair one of three forms:
//! - Both windows are *on*: background work is done as the bound on harm permits. Most pairs have this form.
//! - One window is on and one is *plain*, in random order. In a plain window requests are scheduled as in an on window, but no
//!   background work is done. The difference is the cost of background work.
//! - One window is plain and one is *through*, in random order. In a through window requests are passed to the drive as they
//!   come, and the drive orders them. The difference is the cost of scheduling from outside the drive.
//!
//! A window begins with a request; while a disk has no requests, its background work continues. Each window yields means over
//! its requests, which the host can measure without a model:
//! - head time: from the later of the last completion and the first arrival among the outstanding requests until the
//!   completion. The sum of all head times is the time in which a request was outstanding.
//! - response time: from arrival until completion.
//!
//! On and plain windows are compared by the residual, which is head time less its forecast without background work, clamped to
//! two revolutions. The forecast begins where the last foreground request left the head, so it does not depend on the kind of
//! the window, and its errors affect both windows equally. A through window has no forecast, because the drive chooses the
//! order. Such a window is compared by head time and response time themselves, which takes longer.
//!
//! A [confidence sequence](super::sequence) over the pairs' differences gives the interval.
//!
//! In an on window the harm estimate limits background work, and the audit decides how much of the bound the estimate may use:
//! the increase of response times that the estimate does not contain is subtracted. The estimate contains a part of the cost of
//! background work, and nothing of the cost of scheduling from outside.

use super::amplify::{Change, Queue};
use super::compare::{AuditArm, Comparison, PAIRS_MIN, Served, Sums};
use super::sequence::{Interval, Sequence};
use super::unaccounted::{Increase, WHOLE_PPM};
use crate::core::config::AuditConfig;
use crate::lottery::Lottery;
use units::{Duration, Instant};

/// The requests of a window, unless time ends it. Up to a utilisation of nine tenths, a busy period that a lost revolution
/// prolongs has only a few requests, so few of them are in the next window.
const WINDOW_REQUESTS: u64 = 64;

/// The shortest window, so that bursts are not compared with pauses.
const WINDOW_TIME_MIN: Duration = Duration::from_secs(1);

/// The longest window. If requests stop, background work must not wait longer than this.
const WINDOW_TIME_MAX: Duration = Duration::from_secs(30);

/// The number of times that the comparison of halves may double the number of requests in a window.
const DOUBLINGS_MAX: u32 = 6;

/// The audited time in which more windows exclude background work, so that first results come soon.
const DENSE_AUDIT_TIME: Duration = Duration::from_secs(300);

/// The probability that the true value is ever outside of a reported interval.
const MISS_PROBABILITY: f64 = 0.05;

/// The largest distance, in revolutions, of the end of an interval of residuals from the mean. Residuals are clamped to two
/// revolutions, so no two differences between windows are farther apart.
const RESIDUAL_REACH_REVOLUTIONS: f64 = 8.0;

/// The largest distance, in revolutions, of the end of an interval of unclamped times from the mean: half a minute on most
/// drives, the length of the longest window.
const MEASURED_REACH_REVOLUTIONS: f64 = 4_096.0;

/// The kinds of the audit's time windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditWindow {
    /// Background work is done as the bound on harm permits.
    #[default]
    On,
    /// Requests are scheduled, and no background work is done.
    Plain,
    /// Requests are passed to the drive as they come, and no background work is done.
    Through,
}

/// The pair of windows that is not complete.
#[derive(Clone, Copy, Debug)]
struct Open {
    kinds: [AuditWindow; 2],
    /// The index of the current window in the pair.
    place: usize,
    /// When the window began; `None` until a request comes.
    began: Option<Instant>,
    first: Sums,
    sums: Sums,
}

/// The audit of one core.
#[derive(Clone, Debug)]
pub(super) struct Audit {
    config: AuditConfig,
    draws: Lottery,
    revolution: Duration,
    /// Whether requests can be passed through to the drive.
    through: bool,
    open: Option<Open>,
    /// The audited time before the current window, and the time in which a request was outstanding.
    audited: Duration,
    busy: Duration,
    requests: u64,
    /// The number of requests when the first interval was known.
    known_since: Option<u64>,
    outstanding_max: usize,
    background: Comparison,
    assistance: Comparison,
    /// The differences between the first and the second half of plain windows.
    halves: Sequence,
    doublings: u32,
    unaccounted: Option<Increase>,
}

impl Audit {
    /// Returns an audit without measurements. `through` tells whether requests can be passed through to the drive.
    pub fn new(config: AuditConfig, revolution: Duration, through: bool) -> Self {
        Self {
            config,
            draws: Lottery::new(config.seed),
            revolution,
            through,
            open: None,
            audited: Duration::ZERO,
            busy: Duration::ZERO,
            requests: 0,
            known_since: None,
            outstanding_max: 0,
            background: Comparison::default(),
            assistance: Comparison::default(),
            halves: Sequence::default(),
            doublings: 0,
            unaccounted: None,
        }
    }

    /// Returns the kind of the current window.
    pub fn window(&self) -> AuditWindow {
        self.open.filter(|open| open.began.is_some()).map_or(AuditWindow::On, |open| open.kinds[open.place])
    }

    /// Returns the instant at which the current window ends if no more requests come.
    pub fn ends_at(&self) -> Option<Instant> {
        self.open?.began.map(|began| began + WINDOW_TIME_MAX)
    }

    /// Ends the current window if it is over, and begins the next one if a request is `present`: without requests there is
    /// nothing to compare, and background work need not wait. If no background work is `wanted`, there is nothing to compare
    /// either, and an incomplete pair is dropped.
    pub fn advance(&mut self, now: Instant, wanted: bool, present: bool) {
        if !wanted {
            if let Some(began) = self.open.take().and_then(|open| open.began) {
                self.audited += now.saturating_since(began);
            }
            return;
        }
        if let Some(open) = &mut self.open
            && let Some(began) = open.began
        {
            let age = now.saturating_since(began);
            let enough = open.sums.requests >= WINDOW_REQUESTS << self.doublings && age >= WINDOW_TIME_MIN;
            if !enough && age < WINDOW_TIME_MAX {
                return;
            }
            self.audited += age;
            open.began = None;
            let done = core::mem::replace(&mut open.sums, Sums::window());
            if open.place == 0 {
                (open.place, open.first) = (1, done);
            } else {
                let (kinds, first) = (open.kinds, open.first);
                self.open = None;
                self.compare(kinds, [first, done]);
            }
        }
        if !present {
            return;
        }
        let open = self.open.unwrap_or_else(|| Open {
            kinds: self.draw(),
            place: 0,
            began: None,
            first: Sums::window(),
            sums: Sums::window(),
        });
        self.open = Some(Open { began: Some(now), ..open });
    }

    /// Returns the random kinds of the next pair's windows. Half of the windows without background work are in pairs with an on
    /// window, and half in pairs of a plain with a through window.
    fn draw(&mut self) -> [AuditWindow; 2] {
        let early = self.audited < DENSE_AUDIT_TIME;
        let share = if early { self.config.off_first_ppm } else { self.config.off_ppm };
        let share = u64::from(share).min(WHOLE_PPM / 2);
        let (plain, through) = if self.through { (share, share / 2) } else { (share * 2, 0) };
        let ticket = self.draws.below(WHOLE_PPM);
        let mut kinds = match ticket {
            ticket if ticket < plain => [AuditWindow::On, AuditWindow::Plain],
            ticket if ticket < plain + through => [AuditWindow::Plain, AuditWindow::Through],
            _ => return [AuditWindow::On; 2],
        };
        if self.draws.below(2) == 1 {
            kinds.swap(0, 1);
        }
        kinds
    }

    /// Adds a complete pair of windows to the comparison of its two kinds.
    fn compare(&mut self, kinds: [AuditWindow; 2], sums: [Sums; 2]) {
        use AuditWindow::{On, Plain, Through};
        for (_, window) in kinds.iter().zip(&sums).filter(|(kind, _)| **kind == Plain) {
            if let Some(([first, second], weight)) = window.halves(self.revolution) {
                self.halves.add(first - second, weight);
            }
        }
        let revolution = self.revolution;
        match kinds {
            [On, Plain] => self.background.add(&sums[0], &sums[1], WINDOW_REQUESTS, revolution),
            [Plain, On] => self.background.add(&sums[1], &sums[0], WINDOW_REQUESTS, revolution),
            [Plain, Through] => self.assistance.add(&sums[0], &sums[1], WINDOW_REQUESTS, revolution),
            [Through, Plain] => self.assistance.add(&sums[1], &sums[0], WINDOW_REQUESTS, revolution),
            _ => return,
        }
        if self.known_since.is_none() && self.background.pairs_missing() == 0 {
            self.known_since = Some(self.requests);
        }
        self.check_halves();
        // After a restart of the comparisons the last result stays until there are enough pairs again.
        self.unaccounted = self.not_in_the_account().or(self.unaccounted);
    }

    /// Returns the increase of response times that the harm estimate does not contain: the part of background work's cost that
    /// the estimate does not charge, and all of the cost of scheduling from outside.
    fn not_in_the_account(&self) -> Option<Increase> {
        let known = |of: &Comparison| of.uncharged.increase().filter(|_| of.pairs_missing() == 0);
        let background = known(&self.background)?;
        Some(if self.through { background.and(known(&self.assistance)?) } else { background })
    }

    /// Returns the part of a bound on harm that the harm estimate may use, in ppm.
    pub fn left_of(&self, bound_ppm: u32) -> u32 {
        self.unaccounted.map_or(bound_ppm, |unaccounted| unaccounted.off(bound_ppm))
    }

    /// Doubles the windows and restarts the comparisons if requests in the first half of a plain window are later than in the
    /// second half: then the effect of the window before lasts longer than the requests that are left out.
    fn check_halves(&mut self) {
        if self.doublings == DOUBLINGS_MAX || self.halves.pairs() < PAIRS_MIN {
            return;
        }
        if self
            .halves
            .interval(MISS_PROBABILITY, RESIDUAL_REACH_REVOLUTIONS)
            .is_some_and(|interval| interval.low > 0.0)
        {
            self.doublings += 1;
            self.halves = Sequence::default();
            (self.background, self.assistance) = (Comparison::default(), Comparison::default());
            self.known_since = None;
        }
    }

    /// Records a completed foreground request. The request counts for the current window if it arrived after the window's
    /// beginning; the request with which the window began may have met earlier background work.
    pub fn served(&mut self, served: &Served) {
        let half = (WINDOW_REQUESTS << self.doublings) / 2;
        self.outstanding_max = self.outstanding_max.max(served.outstanding);
        let Some(open) = &mut self.open else { return };
        let Some(began) = open.began else { return };
        self.requests += 1;
        self.busy += served.heard.saturating_since(served.begun().max(began));
        if served.arrived > began {
            open.sums.note(served, self.revolution, half);
        }
    }

    /// Returns the state of the queue over the audited time.
    fn queue(&self, now: Instant) -> Queue {
        let began = self.open.and_then(|open| open.began);
        let open = began.map_or(Duration::ZERO, |began| now.saturating_since(began));
        let all = (self.audited + open).as_nanos().max(1) as f64;
        let [head, response, ..] = self.background.untreated.means(self.revolution);
        Queue {
            busy_share: (self.busy.as_nanos() as f64 / all).min(1.0),
            outstanding_max: self.outstanding_max,
            head_over_response: if response > 0.0 { head / response } else { 1.0 },
        }
    }

    /// Returns the results so far.
    pub fn report(&self, now: Instant) -> AuditReport {
        let Comparison { untreated, .. } = self.background;
        let [head, response, ..] = untreated.means(self.revolution);
        let [through_head, through_response, ..] = self.assistance.untreated.means(self.revolution);
        let relative = |sequence: &Sequence, base: f64| Change {
            mean: if base > 0.0 { sequence.mean() / base } else { 0.0 },
            error: if base > 0.0 { sequence.error() / base } else { f64::INFINITY },
        };
        let amplification = self.queue(now).posterior(
            relative(&self.background.residual, head),
            relative(&self.background.response, response),
        );
        let (background, assistance) = (&self.background, &self.assistance);
        let at = |alpha: f64| {
            (
                background.interval(&background.residual, alpha, RESIDUAL_REACH_REVOLUTIONS, head),
                assistance.interval(
                    &assistance.response,
                    alpha,
                    MEASURED_REACH_REVOLUTIONS,
                    through_response,
                ),
            )
        };
        let (background_head, assistance_response) = at(MISS_PROBABILITY);
        let promise = self.known_since.and_then(|since| {
            // Two sequences are reported, so each may miss the true value with half of the probability.
            let (of_background, of_assistance) =
                at(if self.through { MISS_PROBABILITY / 2.0 } else { MISS_PROBABILITY });
            let amplified = of_background?.high.max(0.0) * amplification;
            let assisted = if self.through { of_assistance?.high } else { 0.0 };
            let bound = (amplified + assisted).max(0.0);
            let base = if self.through { through_response } else { response };
            Some(Promise {
                since_requests: since,
                bound,
                bound_ms: bound * base * self.revolution.as_millis_f64(),
                against: if self.through { AuditWindow::Through } else { AuditWindow::Plain },
            })
        });
        let mut plain = untreated;
        plain.add(&assistance.treated);
        AuditReport {
            window: self.window(),
            requests: self.requests,
            window_requests: WINDOW_REQUESTS << self.doublings,
            on: background.treated.arm(),
            plain: plain.arm(),
            through: assistance.untreated.arm(),
            pairs_missing: [
                background.pairs_missing(),
                if self.through { assistance.pairs_missing() } else { 0 },
            ],
            background_head,
            background_response: background.interval(
                &background.response,
                MISS_PROBABILITY,
                MEASURED_REACH_REVOLUTIONS,
                response,
            ),
            assistance_head: assistance.interval(
                &assistance.head,
                MISS_PROBABILITY,
                MEASURED_REACH_REVOLUTIONS,
                through_head,
            ),
            assistance_response,
            amplification,
            promise,
            unaccounted: self.unaccounted.map(|unaccounted| unaccounted.mean),
        }
    }
}

/// The bound on the increase of the mean response time that the audit has found.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Promise {
    /// The number of audited requests after which the first bound was known.
    pub since_requests: u64,
    /// The largest mean delay of requests, as a part of the mean response time.
    pub bound: f64,
    /// The largest mean delay of requests, in milliseconds.
    pub bound_ms: f64,
    /// The kind of windows against which the delay is measured.
    pub against: AuditWindow,
}

/// The results of an audit. The probability is 95% that an interval contains the true value at all times, so the interval may be
/// read at any time. It is missing until enough pairs of windows have been compared.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AuditReport {
    /// The kind of the current window.
    pub window: AuditWindow,
    /// The number of requests while background work was wanted.
    pub requests: u64,
    /// The number of requests in a window, unless time ends it.
    pub window_requests: u64,
    /// The means over on windows that are in a pair with a plain one.
    pub on: AuditArm,
    /// The means over plain windows.
    pub plain: AuditArm,
    /// The means over through windows.
    pub through: AuditArm,
    /// The number of pairs of windows that are missing until there is an interval: pairs of an on and a plain window, and pairs
    /// of a plain and a through window (zero if the audit has no through windows).
    pub pairs_missing: [u64; 2],
    /// The head time that background work costs, as a part of the mean head time in plain windows.
    pub background_head: Option<Interval>,
    /// The response time that background work costs, as a part of the mean response time in plain windows.
    pub background_response: Option<Interval>,
    /// The head time that scheduling from outside costs, as a part of the mean head time in through windows.
    pub assistance_head: Option<Interval>,
    /// The response time that scheduling from outside costs, as a part of the mean response time in through windows.
    pub assistance_response: Option<Interval>,
    /// The percentage by which the mean response time grows if the mean head time grows by one percent.
    pub amplification: f64,
    /// The bound on response time, if one is known.
    pub promise: Option<Promise>,
    /// The increase of response time that the harm estimate does not contain, as a part of the mean. The bound on harm is
    /// reduced by this increase, the more the better it is known.
    pub unaccounted: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const REVOLUTION: Duration = Duration::from_micros(8_333);
    const HALF_OFF: AuditConfig = AuditConfig { seed: 1, off_ppm: 500_000, off_first_ppm: 500_000 };

    /// A simulated queue in order of arrival, in which background work costs some requests a revolution.
    #[derive(Clone, Copy, Debug)]
    struct QueueLoad {
        /// The share of the time in which the drive is busy.
        utilisation: f64,
        /// The error of the forecast head time, as a fraction.
        wrong: f64,
        noise: Noise,
        /// In on windows, the share of requests that lose a revolution.
        lost: f64,
        /// After a revolution that background work costs, the number of following requests that lose one, too, even in the next
        /// window.
        lingers: u32,
    }

    #[derive(Clone, Copy, Debug)]
    enum Noise {
        /// Random delays of up to a tenth of a millisecond.
        Small,
        /// One request in twenty loses a revolution without background work.
        LostRevolutions,
        /// Delays with a Pareto tail of exponent 1.5, which has no finite variance.
        Pareto,
        /// The delay stays the same for runs of about a hundred requests.
        Runs,
    }

    const OPEN: QueueLoad =
        QueueLoad { utilisation: 0.5, wrong: 0.0, noise: Noise::Small, lost: 0.02, lingers: 0 };

    struct Simulated {
        audit: Audit,
        now: Instant,
        /// The head time that a request of an on window loses on average, as a part of the mean head time.
        truth: f64,
    }

    fn uniform(lottery: &mut Lottery) -> f64 {
        (lottery.below(1 << 53) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn simulate(load: QueueLoad, config: AuditConfig, requests: u32, seed: u64) -> Simulated {
        let mut lottery = Lottery::new(seed.wrapping_add(1_000_003));
        let mut audit = Audit::new(config, REVOLUTION, false);
        let ms = |time: f64| Duration::from_nanos((time.max(0.0) * 1e6) as u64);
        let revolution = REVOLUTION.as_millis_f64();
        let (mut arrived, mut last) = (Instant::ZERO, Instant::ZERO);
        let (mut run, mut lingers) = (0.0, 0);
        let (mut lost, mut plain) = (0.0, 0.0);
        for _ in 0..requests {
            // A mean head time of 4 + 8 ms.
            arrived += ms(-12.0 / load.utilisation * uniform(&mut lottery).ln());
            let begun = last.max(arrived);
            audit.advance(begun, true, true);
            let head = 4.0 + 16.0 * uniform(&mut lottery);
            let noise = match load.noise {
                Noise::Small => 0.1 * uniform(&mut lottery),
                Noise::LostRevolutions if uniform(&mut lottery) < 0.05 => revolution,
                Noise::LostRevolutions => 0.0,
                Noise::Pareto => 0.1 * uniform(&mut lottery).powf(-1.0 / 1.5),
                Noise::Runs => {
                    run = if uniform(&mut lottery) < 0.01 { 3.0 * uniform(&mut lottery) } else { run };
                    run
                }
            };
            let loses = audit.window() == AuditWindow::On && uniform(&mut lottery) < load.lost;
            lingers = if loses { load.lingers + 1 } else { lingers };
            let extra = if lingers > 0 { revolution } else { 0.0 };
            lingers = lingers.saturating_sub(1);
            let clamped = |late: f64| late.clamp(-2.0 * revolution, 2.0 * revolution);
            lost += load.lost * (clamped(noise + revolution) - clamped(noise));
            plain += head + noise;
            let heard = begun + ms(head + noise + extra);
            let forecast = Some(begun + ms(head * (1.0 + load.wrong)));
            audit.served(&Served {
                arrived,
                heard,
                since: arrived,
                last,
                forecast,
                outstanding: 1,
                charged: 0,
            });
            last = heard;
        }
        Simulated { audit, now: last, truth: lost / plain }
    }

    fn loads() -> Vec<QueueLoad> {
        let noises = [Noise::Small, Noise::LostRevolutions, Noise::Pareto, Noise::Runs];
        let of = |utilisation: f64| noises.map(|noise| QueueLoad { utilisation, noise, ..OPEN });
        [0.1, 0.5, 0.8].into_iter().flat_map(of).collect()
    }

    impl Audit {
        /// Returns an audit that has found an increase of response times by `mean` percent.
        pub(in super::super) fn of(mean: f64) -> Self {
            let unaccounted = Some(Increase { mean: mean / 100.0, error: 0.0 });
            Self { unaccounted, ..Self::new(HALF_OFF, REVOLUTION, true) }
        }
    }

    #[test]
    fn on_twelve_loads_the_interval_holds_the_true_cost_in_95_of_100_runs() {
        for load in loads() {
            let held = (0..200).filter(|&seed| {
                let config = AuditConfig { seed, ..HALF_OFF };
                let Simulated { audit, now, truth } = simulate(load, config, 3_000, seed);
                audit.report(now).background_head.is_some_and(|interval| interval.holds(truth))
            });
            let held = held.count();
            assert!(held >= 190, "{load:?}: {held} of 200");
        }
    }

    #[test]
    fn a_forecast_that_is_wrong_by_5_percent_does_not_move_the_interval() {
        for load in loads() {
            let of = |wrong: f64| {
                let Simulated { audit, now, truth } =
                    simulate(QueueLoad { wrong, ..load }, HALF_OFF, 20_000, 7);
                (audit.report(now).background_head.unwrap(), truth)
            };
            let (right, truth) = of(0.0);
            for wrong in [-0.05, 0.05] {
                let (interval, _) = of(wrong);
                assert!(interval.holds(truth), "{load:?}: {interval:?} against {truth}");
                let half = (right.high - right.low) / 2.0;
                let moved = (interval.mean - right.mean).abs();
                assert!(moved < half / 2.0, "{load:?}: {interval:?} against {right:?}");
            }
        }
    }

    #[test]
    fn without_background_cost_the_interval_holds_nothing_and_the_promise_is_near_it() {
        let Simulated { audit, now, .. } = simulate(QueueLoad { lost: 0.0, ..OPEN }, HALF_OFF, 50_000, 3);
        let report = audit.report(now);
        assert!(report.background_head.unwrap().holds(0.0));
        let promise = report.promise.unwrap();
        assert!(promise.bound < 0.01, "{promise:?}");
        assert!(promise.since_requests > 0 && promise.since_requests < report.requests);
    }

    #[test]
    fn one_window_in_four_is_off_in_the_first_minutes_and_one_in_sixteen_after_that() {
        let (mut audit, mut now) = (Audit::new(AuditConfig::new(5), REVOLUTION, true), Instant::ZERO);
        let mut of = |minutes: u64| {
            let (mut seen, mut off, end) = (0u32, 0u32, now + Duration::from_secs(60 * minutes));
            while now < end {
                audit.advance(now, true, true);
                seen += 1;
                off += u32::from(audit.window() != AuditWindow::On);
                now += WINDOW_TIME_MAX;
            }
            f64::from(off) / f64::from(seen)
        };
        // One seed has only ten windows in the first five minutes, too few for a share.
        of(5);
        let later = of(60 * 24 * 30);
        assert!((later - 1.0 / 16.0).abs() < 0.005, "{later}");
        let early = (0..2_000).filter(|&seed| {
            let mut audit = Audit::new(AuditConfig::new(seed), REVOLUTION, true);
            audit.advance(Instant::ZERO, true, true);
            audit.window() != AuditWindow::On
        });
        let early = early.count() as f64 / 2_000.0;
        assert!((early - 0.25).abs() < 0.05, "{early}");
    }

    #[test]
    fn the_same_seed_draws_the_same_windows() {
        let of = |seed| {
            let mut audit = Audit::new(AuditConfig::new(seed), REVOLUTION, true);
            let at = |n: u64| Instant::ZERO + WINDOW_TIME_MAX * n;
            let windows = (0..100).map(|n| {
                audit.advance(at(n), true, true);
                audit.window()
            });
            windows.collect::<Vec<_>>()
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn a_pair_during_which_nothing_was_wanted_counts_for_nothing() {
        let mut audit = Audit::new(HALF_OFF, REVOLUTION, false);
        let at = |seconds: u64| Instant::ZERO + Duration::from_secs(seconds);
        audit.advance(at(0), true, true);
        audit.advance(at(10), false, false);
        assert_eq!((audit.window(), audit.ends_at()), (AuditWindow::On, None));
        audit.advance(at(20), true, true);
        audit.advance(at(50), true, true);
        assert_eq!(audit.open.unwrap().place, 1);
        assert_eq!(audit.report(at(50)).plain.windows, 0);
    }

    #[test]
    fn a_window_waits_for_a_request_and_until_then_background_work_goes_on() {
        let at = |seconds: u64| Instant::ZERO + Duration::from_secs(seconds);
        // A seed whose first pair is a plain window, then an on window.
        let plain_first = |seed: &u64| {
            let mut audit = Audit::new(AuditConfig { seed: *seed, ..HALF_OFF }, REVOLUTION, false);
            audit.advance(at(0), true, true);
            audit.window() == AuditWindow::Plain
        };
        let seed = (0..64).find(plain_first).unwrap();
        let mut audit = Audit::new(AuditConfig { seed, ..HALF_OFF }, REVOLUTION, false);
        audit.advance(at(0), true, false);
        assert_eq!((audit.window(), audit.ends_at()), (AuditWindow::On, None));
        audit.advance(at(7), true, true);
        assert_eq!((audit.window(), audit.ends_at()), (AuditWindow::Plain, Some(at(37))));
        audit.advance(at(37), true, false);
        assert_eq!((audit.window(), audit.ends_at()), (AuditWindow::On, None));
    }

    #[test]
    fn windows_are_doubled_where_a_cost_lingers_into_the_next_window() {
        let lingering = QueueLoad { lost: 0.05, lingers: 20, ..OPEN };
        let doublings = |load| simulate(load, HALF_OFF, 60_000, 11).audit.doublings;
        assert_eq!(doublings(OPEN), 0);
        assert!(doublings(lingering) > 0);
    }
}
