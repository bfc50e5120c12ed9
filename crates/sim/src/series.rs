//! The foreground's results interval by interval.

use crate::observer::{Finished, Observer};
use crate::report::ForegroundReport;
use crate::statistics::{Ended, Statistics};
use drive::Served;
use scheduler::Request;
use thiserror::Error;
use units::{Bytes, Duration, Instant};

/// The most intervals of a series; each takes some hundred bytes.
pub const INTERVALS_MAX: usize = 100_000;

/// The results of one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The beginning of the interval.
    pub from: Instant,
    /// The end of the interval; the last interval of a run may be shorter than the others.
    pub to: Instant,
    /// The results of the requests that were completed in the interval.
    pub foreground: ForegroundReport,
}

/// The reason why a series cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SeriesError {
    /// The intervals have no length.
    #[error("the interval has length 0; give more than 0 seconds")]
    NoLength,
    /// There are too many intervals.
    #[error("more than {INTERVALS_MAX} intervals of {every}; give longer ones")]
    TooMany {
        /// The length of an interval.
        every: Duration,
    },
}

/// Collects a time series. A series is the [`Observer`] of a run from the run's beginning; at the end
/// [`finish`](Self::finish) returns the intervals, the last one cut off at the end of the run.
///
/// ```
/// use freeblock_sim::{Background, Inside, Series};
/// use model::{DriveModel, builtin};
/// use scheduler::Config;
/// use std::sync::Arc;
/// use units::{Duration, Instant};
/// use workload::{Arrival, Issuer, Random, RandomConfig};
///
/// let drive = Arc::new(DriveModel::from_profile(&builtin::find("quantum-atlas-10k")?)?);
/// let load = Random::new(RandomConfig::new(drive.layout().capacity(), drive.sector_bytes()), 7)?;
/// let load = Issuer::new(load, Arrival::outstanding(1), Instant::ZERO, 7)?;
/// let mut series = Series::new(Duration::from_secs(1), drive.sector_bytes())?;
/// let mut run = Inside::new(drive, Config::default(), load, Background::None)?;
/// run.advance(500, &mut series)?;
/// let intervals = series.finish(run.now())?;
/// assert_eq!(intervals.iter().map(|interval| interval.foreground.requests).sum::<u64>(), 500);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Series {
    every: Duration,
    statistics: Statistics,
    intervals: Vec<Interval>,
    overflowed: bool,
}

impl Series {
    /// Makes a series that begins at instant zero, for a drive with sectors of this size.
    ///
    /// # Errors
    /// Intervals of no length.
    pub fn new(every: Duration, sector: Bytes) -> Result<Self, SeriesError> {
        if every == Duration::ZERO {
            return Err(SeriesError::NoLength);
        }
        let statistics = Statistics::new(sector, Instant::ZERO);
        Ok(Self { every, statistics, intervals: Vec::new(), overflowed: false })
    }

    /// Discards the intervals so far; the first one begins at this instant.
    pub fn restart(&mut self, at: Instant) {
        self.statistics.restart(at);
        self.intervals.clear();
        self.overflowed = false;
    }

    /// Returns whether there are too many intervals, so that [`finish`](Self::finish) will fail.
    pub fn is_full(&self) -> bool {
        self.overflowed
    }

    /// Ends the series at this instant.
    ///
    /// # Errors
    /// More than [`INTERVALS_MAX`] intervals.
    pub fn finish(mut self, at: Instant) -> Result<Vec<Interval>, SeriesError> {
        self.close_until(at);
        if self.statistics.from() < at || self.statistics.requests() > 0 {
            self.close(at);
        }
        if self.overflowed { Err(SeriesError::TooMany { every: self.every }) } else { Ok(self.intervals) }
    }

    /// Closes every interval that has ended before this instant. An event at the end of an interval belongs to that
    /// interval.
    fn close_until(&mut self, at: Instant) {
        while !self.overflowed && at.saturating_since(self.statistics.from()) > self.every {
            self.close(self.statistics.from() + self.every);
        }
    }

    fn close(&mut self, to: Instant) {
        if self.intervals.len() >= INTERVALS_MAX {
            self.overflowed = true;
            return;
        }
        let foreground = self.statistics.report(to);
        self.intervals.push(Interval { from: self.statistics.from(), to, foreground });
        self.statistics.restart(to);
    }
}

impl Observer for Series {
    fn arrived(&mut self, _: Request, at: Instant) {
        self.close_until(at);
        self.statistics.arrived(at);
    }

    fn finished(&mut self, done: &Finished) {
        self.close_until(done.at);
        // The results of an interval are those of reads and writes only.
        if matches!(done.served, Some(Served::Flushed | Served::Discarded)) {
            return;
        }
        let Finished { request, arrived, started, at, .. } = *done;
        let ended = Ended {
            op: request.op,
            sectors: request.range.len(),
            arrived,
            access: at.saturating_since(started),
        };
        self.statistics.completed(ended, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Lbn, LbnRange, Op, RequestId, Sectors};

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn series(every_ms: u64) -> Series {
        Series::new(Duration::from_millis(every_ms), Bytes::new(512)).unwrap()
    }

    /// Lets a read of eight sectors arrive and complete at these milliseconds.
    fn read(series: &mut Series, arrived: u64, done: u64) {
        let range = LbnRange::new(Lbn::ZERO, Sectors::new(8));
        let request = Request { id: RequestId::new(0), op: Op::Read, range };
        series.arrived(request, at(arrived));
        series.finished(&Finished::of(request, at(arrived), at(arrived), at(done)));
    }

    #[test]
    fn a_request_counts_where_it_is_completed_and_waits_in_every_interval() {
        let mut series = series(10);
        read(&mut series, 5, 25);
        let found = series.finish(at(40)).unwrap();
        let of = |get: fn(&ForegroundReport) -> f64| -> Vec<f64> {
            found.iter().map(|interval| get(&interval.foreground)).collect()
        };
        assert_eq!(of(|f| f.requests as f64), [0.0, 0.0, 1.0, 0.0]);
        assert_eq!(of(|f| f.queue_length), [0.5, 1.0, 0.5, 0.0]);
        assert_eq!(of(|f| f.mean_response_ms), [0.0, 0.0, 20.0, 0.0]);
        let bounds: Vec<_> = found.iter().map(|interval| (interval.from, interval.to)).collect();
        assert_eq!(bounds, [0, 10, 20, 30].map(|from| (at(from), at(from + 10))));
    }

    #[test]
    fn the_last_interval_ends_with_the_run() {
        let mut series = series(10);
        read(&mut series, 1, 3);
        read(&mut series, 11, 14);
        let found = series.finish(at(14)).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!((found[1].from, found[1].to), (at(10), at(14)));
        // One request in four milliseconds.
        assert_eq!(found[1].foreground.iops, 250.0);
    }

    #[test]
    fn a_restart_moves_the_beginning() {
        let mut series = series(10);
        read(&mut series, 1, 3);
        series.restart(at(5));
        read(&mut series, 6, 14);
        let found = series.finish(at(15)).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].from, found[0].to, found[0].foreground.requests), (at(5), at(15), 1));
    }

    #[test]
    fn intervals_that_do_not_fit_in_memory_are_refused() {
        assert_eq!(Series::new(Duration::ZERO, Bytes::new(512)).unwrap_err(), SeriesError::NoLength);
        let mut series = series(1);
        read(&mut series, 1, 3);
        read(&mut series, 100_000_000, 100_000_001);
        let every = Duration::from_millis(1);
        assert_eq!(series.finish(at(100_000_001)).unwrap_err(), SeriesError::TooMany { every });
    }
}
