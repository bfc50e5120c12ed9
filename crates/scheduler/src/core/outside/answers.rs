//! Whether arrivals depend on completions: in a closed loop, a request that takes longer delays later arrivals.
//!
//! The number of waiting requests at arrivals does not decide this ([`arrivals`](super::arrivals)): a paced source also sees
//! fewer than the mean, because its previous requests have just been served. The excess of a service time over the mean is
//! chance (the platter's angle), and independent of a paced source. It serves as an instrument (Angrist, Imbens and Rubin,
//! "Identification of causal effects using instrumental variables", Journal of the American Statistical Association 91(434),
//! 1996). In a span of time after a long service fewer requests complete; in a loop fewer arrive as well, in proportion to the
//! completions that a new request answers. Given the arrival times, the excess is drawn independently for each request, so the
//! error of the missing arrivals is that of independent draws, even if arrivals are clustered; and the error is small if
//! earlier arrivals predict later ones.

use super::neighbours::CHANCE_DEVIATIONS_MAX;
use alloc::collections::VecDeque;
#[cfg(not(feature = "std"))]
use units::Float as _;
use units::{Duration, Instant};

/// The shortest span of time after a request in which completions and arrivals are counted; each next span is twice as long. A
/// client of a loop returns after a few services, or after its think time.
const SPAN_MIN: Duration = Duration::from_millis(50);
const SPAN_LENGTHS: usize = 8;

/// The maximum of requests observed at once for each span, which bounds the memory; further ones are skipped.
const OBSERVED_REQUESTS_MAX: usize = 512;

/// The maximum of requests in the observations, which are kept in two periods of half that number; the older period is
/// discarded when the current one is full.
const REQUESTS_COUNTED_MAX: u32 = 8_192;
/// The minimum of requests for a result; with fewer the result is chance.
const REQUESTS_MIN: u32 = 256;

/// The largest number of requests to choose from for which a mean service time is kept; a larger number counts as this.
const DEPTH_REQUESTS_MAX: usize = 16;

/// The number of requests in a mean, which follows a drive that changes.
const MEAN_REQUESTS_MAX: f64 = 512.0;
/// The fewest requests of a mean that counts as known.
const MEAN_REQUESTS_MIN: f64 = 8.0;

/// A service time counts up to this many times the mean: during a longer one the drive did something else.
const STALL_SERVICE_RATIO_MIN: f64 = 4.0;

/// The length of the examined span in rounds of the loop; a round is the time from a client's request to its next one.
const LOOP_ROUNDS: f64 = 2.0;
/// The least ratio of missing arrivals to missing completions in the examined span that shows a loop. The ratio is at least
/// half in a busy loop, and at least a third with exponential think times.
const ARRIVAL_SHARE_MIN: f64 = 1.0 / 3.0;

/// The columns of an observation: the excess service time, the recent arrivals, and the arrivals and completions during a span,
/// each averaged over the span.
const EXCESS_COLUMN: usize = 0;
const RECENT_ARRIVALS_COLUMN: usize = 1;
const ARRIVALS_COLUMN: usize = 2;
const COMPLETIONS_COLUMN: usize = 3;

/// Sums of the columns, and of their products.
#[derive(Clone, Copy, Debug, Default)]
struct ColumnSums {
    of: u32,
    sums: [f64; 4],
    products: [[f64; 4]; 4],
}

impl ColumnSums {
    fn add(&mut self, seen: [f64; 4]) {
        self.of += 1;
        for (a, row) in self.products.iter_mut().enumerate() {
            self.sums[a] += seen[a];
            for (product, by) in row.iter_mut().zip(seen) {
                *product += seen[a] * by;
            }
        }
    }

    fn and(mut self, other: &Self) -> Self {
        self.of += other.of;
        for (a, row) in self.products.iter_mut().enumerate() {
            self.sums[a] += other.sums[a];
            for (product, by) in row.iter_mut().zip(other.products[a]) {
                *product += by;
            }
        }
        self
    }

    fn covariance(&self, a: usize, b: usize) -> f64 {
        let of = f64::from(self.of.max(1));
        self.products[a][b] / of - self.sums[a] / of * (self.sums[b] / of)
    }

    /// Returns whether arrivals do not depend on the excess service time.
    fn are_open(&self) -> bool {
        if self.of < REQUESTS_MIN {
            return false;
        }
        let (longer, lately) = (
            self.covariance(EXCESS_COLUMN, EXCESS_COLUMN),
            self.covariance(RECENT_ARRIVALS_COLUMN, RECENT_ARRIVALS_COLUMN),
        );
        let foretold = if lately > 0.0 {
            self.covariance(RECENT_ARRIVALS_COLUMN, ARRIVALS_COLUMN) / lately
        } else {
            0.0
        };
        let fewer = foretold * self.covariance(EXCESS_COLUMN, RECENT_ARRIVALS_COLUMN)
            - self.covariance(EXCESS_COLUMN, ARRIVALS_COLUMN);
        let chance = (self.covariance(ARRIVALS_COLUMN, ARRIVALS_COLUMN)
            - foretold * self.covariance(RECENT_ARRIVALS_COLUMN, ARRIVALS_COLUMN))
        .max(0.0);
        let error = (longer * chance / f64::from(self.of)).sqrt();
        fewer + CHANCE_DEVIATIONS_MAX * error
            < -self.covariance(EXCESS_COLUMN, COMPLETIONS_COLUMN) * ARRIVAL_SHARE_MIN
    }
}

/// The number of arrivals up to an instant, the number of requests that wait then, and the integrals of both over time in ns.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    at: Instant,
    came: u64,
    waiting: u64,
    came_time: u128,
    waiting_time: u128,
}

impl Counts {
    fn until(self, at: Instant) -> Self {
        let time = u128::from(at.saturating_since(self.at).as_nanos());
        Self {
            at: self.at.max(at),
            came_time: self.came_time + u128::from(self.came) * time,
            waiting_time: self.waiting_time + u128::from(self.waiting) * time,
            ..self
        }
    }

    /// Returns the increase of arrivals and of waiting requests since `then`, averaged over the time since then.
    fn more_since(&self, then: &Self) -> [f64; 2] {
        let time = self.at.saturating_since(then.at).as_nanos() as f64;
        let mean = |now: u128, then: u128| (now - then) as f64 / time;
        [
            mean(self.came_time, then.came_time) - then.came as f64,
            mean(self.waiting_time, then.waiting_time) - then.waiting as f64,
        ]
    }
}

/// An observed request.
#[derive(Clone, Copy, Debug)]
struct ObservedRequest {
    began: Counts,
    longer: f64,
    lately: f64,
}

/// The observations for spans of one length.
#[derive(Clone, Debug, Default)]
struct SpanObservations {
    watched: VecDeque<ObservedRequest>,
    /// The number of recent arrivals, with weights that decrease with their age.
    lately: f64,
    /// Sums of the current and of the previous period.
    sums: [ColumnSums; 2],
}

impl SpanObservations {
    /// Advances to `now`, before which no other request arrives.
    fn until(&mut self, counts: &Counts, now: Instant, length: Duration) {
        while let Some(watched) = self.watched.front().copied().filter(|of| of.began.at + length <= now) {
            self.watched.pop_front();
            let [came, waiting] = counts.until(watched.began.at + length).more_since(&watched.began);
            self.sums[0].add([watched.longer, watched.lately, came, came - waiting]);
            if self.sums[0].of >= REQUESTS_COUNTED_MAX / 2 {
                self.sums = [ColumnSums::default(), self.sums[0]];
            }
        }
        // An arrival's weight is halved after an eighth of the span's length.
        self.lately /=
            1.0 + now.saturating_since(counts.at).as_nanos() as f64 * 8.0 / length.as_nanos() as f64;
    }
}

/// The mean service time of requests that were chosen from one number of waiting requests.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    of: f64,
    seconds: f64,
}

impl Mean {
    /// Adds a service time to the mean, and returns its excess over the previous mean, if that is known.
    fn longer(&mut self, seconds: f64) -> Option<f64> {
        let known = self.of >= MEAN_REQUESTS_MIN;
        let seconds = if known { seconds.min(self.seconds * STALL_SERVICE_RATIO_MIN) } else { seconds };
        let longer = seconds - self.seconds;
        self.of = (self.of + 1.0).min(MEAN_REQUESTS_MAX);
        self.seconds += longer / self.of;
        known.then_some(longer)
    }
}

/// The observations after requests with excess service times.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    counts: Counts,
    spans: [SpanObservations; SPAN_LENGTHS],
    means: [Mean; DEPTH_REQUESTS_MAX],
}

impl Answers {
    fn lengths() -> impl Iterator<Item = Duration> {
        (0..SPAN_LENGTHS).map(|n| SPAN_MIN * (1 << n))
    }

    /// Advances to `now`, before which no other request arrives.
    pub fn until(&mut self, now: Instant) {
        for (span, length) in self.spans.iter_mut().zip(Self::lengths()) {
            span.until(&self.counts, now, length);
        }
        self.counts = self.counts.until(now);
    }

    /// Records the number of waiting requests from `at` on.
    pub fn wait(&mut self, at: Instant, waiting: usize) {
        self.until(at);
        self.counts.waiting = waiting as u64;
    }

    /// Records an arrival.
    pub fn come(&mut self, at: Instant) {
        self.until(at);
        self.counts.came += 1;
        self.counts.waiting += 1;
        self.spans.iter_mut().for_each(|span| span.lately += 1.0);
    }

    /// Records that the drive begins one of `from` waiting requests at `at`, and that its service takes `takes`.
    pub fn begin(&mut self, at: Instant, from: usize, takes: Duration) {
        self.until(at);
        let Some(mean) =
            from.checked_sub(1).map(|others| &mut self.means[others.min(DEPTH_REQUESTS_MAX - 1)])
        else {
            return;
        };
        let Some(longer) = mean.longer(takes.as_secs_f64()) else { return };
        for span in &mut self.spans {
            if span.watched.len() < OBSERVED_REQUESTS_MAX {
                span.watched.push_back(ObservedRequest { began: self.counts, longer, lately: span.lately });
            }
        }
    }

    /// Returns whether arrivals are known not to depend on completions, given that a client of a loop would return within
    /// `round` seconds.
    pub fn are_open(&self, round: f64) -> bool {
        let mut long = self.spans.iter().zip(Self::lengths());
        let span = long.find(|(_, length)| length.as_secs_f64() >= round * LOOP_ROUNDS);
        span.is_some_and(|(span, _)| span.sums[0].and(&span.sums[1]).are_open())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    /// Returns the number of events since `from`, averaged over a span of `length`.
    fn more(times: &[u64], from: u64, length: u64) -> f64 {
        let inside = times.iter().filter(|time| (from..from + length).contains(time));
        inside.map(|time| (from + length - time) as f64).sum::<f64>() / length as f64
    }

    proptest! {
        /// Compares with a naive model, which counts the arrivals and completions in each span after each request that was
        /// chosen from waiting ones.
        #[test]
        fn arrivals_and_completions_are_counted(
            requests in prop::collection::vec((0..20_000u64, 1_000..15_000u64), 20..400),
        ) {
            let arrived: Vec<u64> = requests.iter().scan(0, |time, (gap, _)| { *time += gap; Some(*time) }).collect();
            let (mut answers, mut done, mut watched) = (Answers::default(), Vec::new(), Vec::new());
            let mut heard = 0;
            for (n, (_, takes)) in requests.iter().enumerate() {
                let ends = heard.max(arrived[n]) + takes;
                let before = arrived[n..].iter().filter(|time| **time < heard).count();
                answers.wait(at(heard), before);
                answers.begin(at(heard), before, Duration::from_micros(ends - heard));
                if before > 0 {
                    watched.push((heard, before.min(DEPTH_REQUESTS_MAX)));
                }
                for time in arrived[n..].iter().filter(|time| (heard..ends).contains(*time)) {
                    answers.come(at(*time));
                }
                answers.until(at(ends));
                done.push(ends);
                heard = ends;
            }
            // The first requests that are chosen from a given number are not observed: their mean service time is still
            // unknown.
            let mut first = [0; DEPTH_REQUESTS_MAX + 1];
            watched.retain(|(_, from)| {
                first[*from] += 1;
                f64::from(first[*from]) > MEAN_REQUESTS_MIN
            });
            for (span, length) in answers.spans.iter().zip(Answers::lengths()) {
                let length = length.as_nanos() / 1_000;
                let ended = watched.iter().filter(|(began, _)| began + length <= heard);
                prop_assert_eq!(span.sums[0].of as usize, ended.clone().count());
                for (which, times) in [(ARRIVALS_COLUMN, &arrived), (COMPLETIONS_COLUMN, &done)] {
                    let counted: f64 = ended.clone().map(|(began, _)| more(times, *began, length)).sum();
                    // An observed request begins at the completion of another one, which the naive count includes.
                    let others = if which == COMPLETIONS_COLUMN { ended.clone().count() as f64 } else { 0.0 };
                    let off = span.sums[0].sums[which] - (counted - others);
                    prop_assert!(off.abs() < 1e-6 * (1.0 + counted), "{off} of {counted}");
                }
            }
        }
    }
}
