//! The requests of the audit's windows, and the differences between paired windows of two kinds.

use super::sequence::{Interval, Sequence};
use super::unaccounted::Uncharged;
use units::{Duration, Instant};

/// The minimum of pairs for a report. With fewer than about ten the confidence interval is unbounded.
pub(super) const PAIRS_MIN: u64 = 16;

/// The largest residual in either direction, in revolutions: a rare long delay would hide all others.
const RESIDUAL_REVOLUTIONS_MAX: i64 = 2;

/// A completed foreground request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub arrived: Instant,
    pub heard: Instant,
    /// The earliest arrival among this request and those that are still outstanding.
    pub since: Instant,
    /// The host's time at which the last foreground request was done.
    pub last: Instant,
    /// The completion at the host as forecast without background work; `None` if the drive chose the order.
    pub forecast: Option<Instant>,
    /// The number of requests that were outstanding, this one included.
    pub outstanding: usize,
    /// The part of the response time, in ns, that the harm estimate charges to background work.
    pub charged: i64,
}

impl Served {
    pub fn begun(&self) -> Instant {
        self.last.max(self.since).min(self.heard)
    }

    fn head(&self) -> Duration {
        self.heard.saturating_since(self.begun())
    }

    /// Returns the head time less its forecast, in ns; the head time itself without a forecast.
    fn residual(&self, revolution: Duration) -> i64 {
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let Some(forecast) = self.forecast else { return nanos(self.head()) };
        let late = nanos(self.heard.saturating_since(forecast));
        let early = nanos(forecast.saturating_since(self.heard));
        let most = nanos(revolution) * RESIDUAL_REVOLUTIONS_MAX;
        (late - early).clamp(-most, most)
    }
}

/// Sums over the requests of windows of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    windows: u64,
    pub requests: u64,
    head: Duration,
    response: Duration,
    residual_nanos: i64,
    charged_nanos: i64,
    /// The requests in the first half of a window, and the sum of their residuals.
    first_requests: u64,
    first_residual_nanos: i64,
}

impl Sums {
    /// Returns the sums of a window that begins.
    pub fn window() -> Self {
        Self { windows: 1, ..Self::default() }
    }

    pub fn note(&mut self, served: &Served, revolution: Duration, half: u64) {
        let residual = served.residual(revolution);
        if self.requests < half {
            self.first_requests += 1;
            self.first_residual_nanos += residual;
        }
        self.requests += 1;
        self.head += served.head();
        self.response += served.heard.saturating_since(served.arrived);
        self.residual_nanos = self.residual_nanos.saturating_add(residual);
        self.charged_nanos = self.charged_nanos.saturating_add(served.charged);
    }

    pub fn add(&mut self, other: &Self) {
        self.windows += other.windows;
        self.requests += other.requests;
        self.head += other.head;
        self.response += other.response;
        self.residual_nanos = self.residual_nanos.saturating_add(other.residual_nanos);
        self.charged_nanos = self.charged_nanos.saturating_add(other.charged_nanos);
    }

    /// Returns the means, in revolutions, of head time, of response time, of the residual, and of response time less the harm
    /// that the estimate charges.
    pub fn means(&self, revolution: Duration) -> [f64; 4] {
        let all = (self.requests.max(1) as f64) * revolution.as_nanos() as f64;
        let [head, response] = [self.head, self.response].map(|time| time.as_nanos() as f64);
        let uncharged = response - self.charged_nanos as f64;
        [head, response, self.residual_nanos as f64, uncharged].map(|nanos| nanos / all)
    }

    /// Returns the mean residuals of the first and the second half of a window, in revolutions, and the weight of this pair of
    /// halves.
    pub fn halves(&self, revolution: Duration) -> Option<([f64; 2], f64)> {
        let second = self.requests - self.first_requests;
        let weight = weight(self.first_requests, second, self.requests)?;
        let mean = |nanos: i64, requests: u64| nanos as f64 / requests as f64 / revolution.as_nanos() as f64;
        let first = mean(self.first_residual_nanos, self.first_requests);
        Some(([first, mean(self.residual_nanos - self.first_residual_nanos, second)], weight))
    }

    pub fn arm(&self) -> AuditArm {
        let mean = |time: Duration| time.as_millis_f64() / self.requests.max(1) as f64;
        AuditArm {
            windows: self.windows,
            requests: self.requests,
            head_ms: mean(self.head),
            response_ms: mean(self.response),
        }
    }
}

/// Returns the harmonic mean of the numbers of requests in two windows, divided by the `usual` number. This weight is inversely
/// proportional to the variance of the windows' difference, and does not change if the windows are exchanged.
fn weight(first: u64, second: u64, usual: u64) -> Option<f64> {
    let (first, second) = (first as f64, second as f64);
    (first > 0.0 && second > 0.0).then(|| 2.0 * first * second / (first + second) / usual.max(1) as f64)
}

/// A comparison of pairs of windows: the differences are the treated window (with background work, or with scheduling) less the
/// untreated one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Comparison {
    pub treated: Sums,
    pub untreated: Sums,
    pub head: Sequence,
    pub response: Sequence,
    pub residual: Sequence,
    pub uncharged: Uncharged,
}

impl Comparison {
    /// Adds a pair whose windows have `usual` requests.
    pub fn add(&mut self, treated: &Sums, untreated: &Sums, usual: u64, revolution: Duration) {
        self.uncharged.fade();
        let Some(weight) = weight(treated.requests, untreated.requests, usual) else { return };
        self.treated.add(treated);
        self.untreated.add(untreated);
        let (with, without) = (treated.means(revolution), untreated.means(revolution));
        let sequences = [&mut self.head, &mut self.response, &mut self.residual];
        for (sequence, (with, without)) in sequences.into_iter().zip(with.into_iter().zip(without)) {
            sequence.add(with - without, weight);
        }
        self.uncharged.add(with[3] - without[3], without[1], weight);
    }

    pub fn pairs_missing(&self) -> u64 {
        PAIRS_MIN.saturating_sub(self.head.pairs())
    }

    /// Returns the confidence interval of a sequence as a part of `base` revolutions.
    pub fn interval(&self, sequence: &Sequence, alpha: f64, reach: f64, base: f64) -> Option<Interval> {
        if self.pairs_missing() > 0 || base <= 0.0 {
            return None;
        }
        sequence.interval(alpha, reach).map(|interval| interval.times(1.0 / base))
    }
}

/// Means over those windows of one kind that are in pairs with another kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct AuditArm {
    /// The number of windows.
    pub windows: u64,
    /// The number of requests that arrived and were done in the windows.
    pub requests: u64,
    /// Mean head time, in milliseconds.
    pub head_ms: f64,
    /// Mean response time, in milliseconds.
    pub response_ms: f64,
}
