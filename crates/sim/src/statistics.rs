//! Response times, rates and queue lengths of the foreground.

use crate::report::{ForegroundReport, ResponseReport};
use hdrhistogram::Histogram;
use units::{Bytes, Duration, Instant, Op, Sectors};

/// The statistics of a foreground over a stretch of virtual time, in memory that does not grow with its requests.
///
/// Percentiles are exact to three digits; every other figure is exact. Call [`arrived`](Self::arrived) and
/// [`completed`](Self::completed) in order of time.
///
/// ```
/// use freeblock_sim::{Ended, Statistics};
/// use units::{Bytes, Duration, Instant, Op, Sectors};
///
/// let ms = |ms| Instant::ZERO + Duration::from_millis(ms);
/// let mut statistics = Statistics::new(Bytes::new(512), Instant::ZERO);
/// statistics.arrived(ms(10));
/// let read = Ended { op: Op::Read, sectors: Sectors::new(8), arrived: ms(10), access: Duration::from_millis(10) };
/// statistics.completed(read, ms(20));
/// let report = statistics.report(ms(40));
/// assert_eq!((report.requests, report.mean_response_ms), (1, 10.0));
/// // One request in a quarter of the time.
/// assert_eq!((report.queue_length, report.utilisation), (0.25, 0.25));
/// ```
#[derive(Clone, Debug)]
pub struct Statistics {
    sector: Bytes,
    from: Instant,
    reads: Responses,
    writes: Responses,
    access: u128,
    /// The present number of requests that have arrived and are not completed, and the largest of the stretch.
    level: u64,
    level_max: u64,
    /// The integral of `level` over time, in requests times nanoseconds.
    level_ns: u128,
    /// The time with at least one request.
    busy_ns: u128,
    last: Instant,
}

/// A completed request, as far as statistics need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Read or write.
    pub op: Op,
    /// The length of the request.
    pub sectors: Sectors,
    /// The instant of arrival.
    pub arrived: Instant,
    /// The time at the head: from the end of the preceding request, or from the arrival at an idle drive, to the
    /// completion.
    pub access: Duration,
}

impl Statistics {
    /// Makes statistics that begin at an instant with an empty queue, for a drive with sectors of this size.
    pub fn new(sector: Bytes, from: Instant) -> Self {
        Self {
            sector,
            from,
            reads: Responses::new(),
            writes: Responses::new(),
            access: 0,
            level: 0,
            level_max: 0,
            level_ns: 0,
            busy_ns: 0,
            last: from,
        }
    }

    /// Discards everything before this instant except the requests that are waiting or in service.
    pub fn restart(&mut self, at: Instant) {
        self.settle(at);
        self.from = at;
        self.reads.clear();
        self.writes.clear();
        (self.access, self.level_max, self.level_ns, self.busy_ns) = (0, self.level, 0, 0);
    }

    /// Returns the beginning of the stretch.
    pub fn from(&self) -> Instant {
        self.from
    }

    /// Returns the number of completed requests.
    pub fn requests(&self) -> u64 {
        self.reads.requests + self.writes.requests
    }

    /// Adds a request to the queue.
    pub fn arrived(&mut self, at: Instant) {
        self.settle(at);
        self.level += 1;
        self.level_max = self.level_max.max(self.level);
    }

    /// Removes a request from the queue, and counts it.
    pub fn completed(&mut self, request: Ended, at: Instant) {
        self.settle(at);
        self.level = self.level.saturating_sub(1);
        self.access += u128::from(request.access.as_nanos());
        let kind = if request.op.is_write() { &mut self.writes } else { &mut self.reads };
        kind.record(at.saturating_since(request.arrived), request.sectors);
    }

    /// Adds the requests of another drive, which may be measured over another stretch of time. Queue lengths and busy
    /// times are not added.
    pub fn add_requests(&mut self, other: &Self) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        self.access += other.access;
    }

    /// Extends the integrals to this instant.
    fn settle(&mut self, at: Instant) {
        let (ns, end) = self.settled(at);
        self.level_ns += u128::from(self.level) * ns;
        self.busy_ns += if self.level > 0 { ns } else { 0 };
        self.last = end;
    }

    /// Returns the time since the last event, and the later of both instants.
    fn settled(&self, at: Instant) -> (u128, Instant) {
        (u128::from(at.saturating_since(self.last).as_nanos()), self.last.max(at))
    }

    /// Returns the statistics from the beginning of the stretch to `end`.
    pub fn report(&self, end: Instant) -> ForegroundReport {
        let ran = end.saturating_since(self.from).max(Duration::from_nanos(1));
        let ran_ns = ran.as_nanos() as f64;
        let (ns, _) = self.settled(end);
        let level_ns = self.level_ns + u128::from(self.level) * ns;
        let busy_ns = self.busy_ns + if self.level > 0 { ns } else { 0 };
        let of = |kind: &Responses| kind.report(ran, self.sector);
        let (reads, writes) = (of(&self.reads), of(&self.writes));
        let whole = match (reads.requests, writes.requests) {
            (_, 0) => reads,
            (0, _) => writes,
            _ => {
                let mut all = self.reads.clone();
                all.add(&self.writes);
                of(&all)
            }
        };
        ForegroundReport {
            requests: whole.requests,
            mean_response_ms: whole.mean_ms,
            mean_access_ms: self.access as f64 / self.requests().max(1) as f64 / 1e6,
            p50_ms: whole.p50_ms,
            p90_ms: whole.p90_ms,
            p95_ms: whole.p95_ms,
            p99_response_ms: whole.p99_ms,
            p999_ms: whole.p999_ms,
            max_ms: whole.max_ms,
            sd_ms: whole.sd_ms,
            iops: whole.iops,
            mb_per_s: whole.mb_per_s,
            queue_length: level_ns as f64 / ran_ns,
            queue_length_max: self.level_max,
            utilisation: busy_ns as f64 / ran_ns,
            reads,
            writes,
        }
    }
}

/// The response times of reads or of writes.
#[derive(Clone, Debug)]
struct Responses {
    requests: u64,
    sectors: u128,
    total_ns: u128,
    max: Duration,
    /// Mean and sum of squared deviations in milliseconds, by Welford's method: a difference of two sums of squares would
    /// lose all digits of a small deviation.
    mean_ms: f64,
    squares_ms: f64,
    /// The response times, in nanoseconds.
    histogram: Histogram<u64>,
}

impl Responses {
    fn new() -> Self {
        // Three digits are within the bounds that the histogram accepts, so this cannot fail.
        let histogram = Histogram::new(3).unwrap_or_else(|e| unreachable!("{e}"));
        Self {
            requests: 0,
            sectors: 0,
            total_ns: 0,
            max: Duration::ZERO,
            mean_ms: 0.0,
            squares_ms: 0.0,
            histogram,
        }
    }

    fn clear(&mut self) {
        // An empty histogram would take as long to reset as a full one, so it is left as it is.
        if self.requests > 0 {
            self.histogram.reset();
        }
        (self.requests, self.sectors, self.total_ns, self.max) = (0, 0, 0, Duration::ZERO);
        (self.mean_ms, self.squares_ms) = (0.0, 0.0);
    }

    fn record(&mut self, response: Duration, sectors: Sectors) {
        self.requests += 1;
        self.sectors += u128::from(sectors.get());
        self.total_ns += u128::from(response.as_nanos());
        self.max = self.max.max(response);
        let ms = response.as_millis_f64();
        let off = ms - self.mean_ms;
        self.mean_ms += off / self.requests as f64;
        self.squares_ms += off * (ms - self.mean_ms);
        // The histogram grows as needed; a value it could not take would only be missing from the percentiles.
        let _ = self.histogram.record(response.as_nanos());
    }

    /// Adds the response times of other requests (Chan, Golub and LeVeque 1979).
    fn add(&mut self, other: &Self) {
        let (own, more) = (self.requests as f64, other.requests as f64);
        if other.requests > 0 {
            let off = other.mean_ms - self.mean_ms;
            self.mean_ms += off * more / (own + more);
            self.squares_ms += other.squares_ms + off * off * own * more / (own + more);
        }
        self.requests += other.requests;
        self.sectors += other.sectors;
        self.total_ns += other.total_ns;
        self.max = self.max.max(other.max);
        // The other histogram has the same digits, and this one grows as needed.
        let _ = self.histogram.add(&other.histogram);
    }

    fn report(&self, ran: Duration, sector: Bytes) -> ResponseReport {
        if self.requests == 0 {
            return ResponseReport::default();
        }
        let seconds = ran.as_secs_f64().max(1e-9);
        // A bucket's upper end may lie above the largest value in it.
        let at =
            |quantile: f64| self.histogram.value_at_quantile(quantile).min(self.max.as_nanos()) as f64 / 1e6;
        let freedom = self.requests.saturating_sub(1).max(1) as f64;
        ResponseReport {
            requests: self.requests,
            mean_ms: self.total_ns as f64 / self.requests as f64 / 1e6,
            sd_ms: (self.squares_ms / freedom).sqrt(),
            p50_ms: at(0.5),
            p90_ms: at(0.9),
            p95_ms: at(0.95),
            p99_ms: at(0.99),
            p999_ms: at(0.999),
            max_ms: self.max.as_millis_f64(),
            iops: self.requests as f64 / seconds,
            mb_per_s: self.sectors as f64 * sector.get() as f64 / 1e6 / seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn ended(op: Op, sectors: u64, arrived: u64) -> Ended {
        Ended { op, sectors: Sectors::new(sectors), arrived: at(arrived), access: Duration::from_millis(1) }
    }

    /// Arrivals at 0 (a read) and 5 ms (a write), completions at 10 and 25 ms, the end at 50 ms: two requests for 5 ms, one
    /// for 20, none for 25.
    fn two() -> Statistics {
        let mut statistics = Statistics::new(Bytes::new(512), Instant::ZERO);
        statistics.arrived(at(0));
        statistics.arrived(at(5));
        statistics.completed(ended(Op::Read, 1_000, 0), at(10));
        statistics.completed(ended(Op::Write, 3_000, 5), at(25));
        statistics
    }

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-9, "{a} is not {b}");
    }

    #[test]
    fn the_queue_length_is_weighted_by_time() {
        let report = two().report(at(50));
        near(report.queue_length, (2.0 * 5.0 + 1.0 * 20.0) / 50.0);
        near(report.utilisation, 25.0 / 50.0);
        assert_eq!(report.queue_length_max, 2);
        // By Little's law the queue length is the rate times the mean response time.
        near(report.queue_length, report.iops * report.mean_response_ms / 1e3);
    }

    #[test]
    fn reads_and_writes_are_apart_and_together() {
        let report = two().report(at(50));
        assert_eq!((report.requests, report.reads.requests, report.writes.requests), (2, 1, 1));
        near(report.reads.mean_ms, 10.0);
        near(report.writes.mean_ms, 20.0);
        near(report.mean_response_ms, 15.0);
        // The deviation of 10 and 20 with one degree of freedom.
        near(report.sd_ms, 50.0_f64.sqrt());
        near(report.reads.sd_ms, 0.0);
        near(report.mb_per_s, 4_000.0 * 512.0 / 1e6 / 0.05);
        near(report.writes.mb_per_s, 3_000.0 * 512.0 / 1e6 / 0.05);
    }

    #[test]
    fn percentiles_are_of_the_sorted_responses_to_three_digits() {
        let mut statistics = Statistics::new(Bytes::new(512), Instant::ZERO);
        for n in (1..=1_000).rev() {
            statistics.arrived(at(0));
            statistics.completed(ended(Op::Read, 8, 0), at(0) + Duration::from_millis(n));
        }
        let report = statistics.report(at(1_000));
        for (found, expected) in [
            (report.p50_ms, 500.0),
            (report.p90_ms, 900.0),
            (report.p95_ms, 950.0),
            (report.p99_response_ms, 990.0),
            (report.p999_ms, 999.0),
        ] {
            assert!((found - expected).abs() <= expected * 1e-3, "{found} is not {expected}");
        }
        near(report.max_ms, 1_000.0);
        assert!(report.p999_ms <= report.max_ms);
        // The deviation of 1 to n is the root of n (n + 1) / 12.
        near(report.sd_ms, (1_000.0 * 1_001.0 / 12.0_f64).sqrt());
    }

    #[test]
    fn a_small_deviation_of_long_responses_keeps_its_digits() {
        let mut statistics = Statistics::new(Bytes::new(512), Instant::ZERO);
        let long = Duration::from_secs(100_000);
        for ns in [0, 1_000] {
            statistics.arrived(at(0));
            statistics.completed(ended(Op::Read, 8, 0), at(0) + long + Duration::from_nanos(ns));
        }
        let found = statistics.report(at(1)).sd_ms;
        let expected = 0.001 / 2.0_f64.sqrt();
        assert!((found / expected - 1.0).abs() < 1e-3, "{found} {expected}");
    }

    #[test]
    fn a_restart_keeps_the_queue_and_nothing_else() {
        let mut statistics = two();
        statistics.arrived(at(30));
        statistics.restart(at(50));
        let empty = statistics.report(at(50));
        assert_eq!((empty.requests, empty.max_ms, empty.mb_per_s), (0, 0.0, 0.0));
        statistics.completed(ended(Op::Read, 8, 30), at(60));
        let report = statistics.report(at(70));
        assert_eq!((report.requests, report.queue_length_max, report.iops), (1, 1, 50.0));
        near(report.queue_length, 0.5);
        // The response includes the time before the restart.
        near(report.mean_response_ms, 30.0);
    }
}
