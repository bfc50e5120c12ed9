//! A trace as a source of requests.

mod fit;
mod streamed;

pub use fit::Fit;
use fit::Placing;
pub use streamed::{Devices, ReplayAccount, ReplayError, Streamed, StreamedConfig};

use crate::error::ConfigError;
use crate::request::{Recorded, Request, Source};
use crate::trace::TraceRecord;
use units::{Duration, Instant, Sectors};

/// A replay of the records of a trace, in their order.
///
/// With [`Arrival::Recorded`](crate::Arrival::Recorded) they arrive at their recorded times, counted from the
/// first record's; in a closed loop each task takes the next record when its last one is complete, after the
/// recorded pause with [`Think::Recorded`](crate::Think::Recorded).
///
/// ```
/// use freeblock_workload::{Arrival, Fit, Issuer, Replay, trace};
/// use units::{Bytes, Instant, Sectors};
/// let mut trace = trace::read(b"100.0 3 64 8 1\n100.5 4 0 8 1\n102.0 3 128 16 0\n")?;
/// trace.retain_device(trace.busiest_device().unwrap());
/// trace.convert_to(Bytes::new(512))?; // the drive's sectors
/// let replay = Replay::new(trace.records, Sectors::new(1_000), Fit::Refuse)?;
/// let mut foreground = Issuer::new(replay, Arrival::Recorded { scale: 1.0 }, Instant::ZERO, 1)?;
/// assert_eq!(foreground.issue(Instant::ZERO).unwrap().request.range.to_string(), "64+8");
/// assert_eq!(foreground.due(), Some(Instant::from_nanos(2_000_000)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Replay {
    records: Vec<TraceRecord>,
    given: usize,
    origin: Instant,
    recorded: Recorded,
}

impl Replay {
    /// Replays `records` on a drive of `capacity` sectors. Records with arrival times are sorted by them if necessary;
    /// equal times keep their order.
    ///
    /// # Errors
    /// There are no records; a record has no sectors; a record does not fit on the drive.
    pub fn new(mut records: Vec<TraceRecord>, capacity: Sectors, fit: Fit) -> Result<Self, ConfigError> {
        if records.is_empty() {
            return Err(ConfigError::field("records", "empty", "give a trace with at least one request"));
        }
        let longest = records.iter().map(|record| record.range.len()).max().unwrap_or_default();
        let past =
            |record: &TraceRecord| record.range.checked_end().is_none_or(|end| end.get() > capacity.get());
        // A trace that fits is not changed.
        let fit = if records.iter().any(past) { fit } else { Fit::Refuse };
        let mut placing = Placing::new(capacity, longest, fit);
        for (index, record) in records.iter_mut().enumerate() {
            record.range = placing.place(record.range, index as u64 + 1)?;
        }
        let recorded = Recorded {
            arrivals: records.iter().all(|r| r.arrival.is_some()),
            thinks: records.iter().all(|r| r.think.is_some()),
        };
        if recorded.arrivals && !records.is_sorted_by_key(|r| r.arrival) {
            records.sort_by_key(|r| r.arrival);
        }
        let origin = records.first().and_then(|r| r.arrival).unwrap_or(Instant::ZERO);
        Ok(Self { records, given: 0, origin, recorded })
    }

    /// Returns the number of requests of the whole replay.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns whether the replay has no requests; never true, by construction.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the records in the order of the replay.
    pub fn records(&self) -> &[TraceRecord] {
        &self.records
    }

    fn last(&self) -> Option<&TraceRecord> {
        self.records.get(self.given.checked_sub(1)?)
    }
}

impl Source for Replay {
    #[inline]
    fn next_request(&mut self) -> Option<Request> {
        let record = self.records.get(self.given)?;
        self.given += 1;
        Some(Request { op: record.op, range: record.range })
    }

    #[inline]
    fn recorded_think(&self) -> Option<Duration> {
        self.last()?.think
    }

    #[inline]
    fn recorded_arrival(&self) -> Option<Instant> {
        let since = self.last()?.arrival?.saturating_since(self.origin);
        Some(Instant::from_nanos(since.as_nanos()))
    }

    fn recorded(&self) -> Recorded {
        self.recorded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Lbn, LbnRange, Op};

    fn record(start: u64, len: u64, arrival: Option<u64>) -> TraceRecord {
        TraceRecord {
            arrival: arrival.map(Instant::from_nanos),
            ..TraceRecord::new(Op::Read, LbnRange::new(Lbn::new(start), Sectors::new(len)))
        }
    }

    #[test]
    fn a_record_past_the_end_is_refused_by_its_number() {
        let records = vec![record(0, 8, None), record(96, 8, None)];
        let message = Replay::new(records, Sectors::new(100), Fit::Refuse).unwrap_err().to_string();
        assert!(message.starts_with("record 2 (96+8) ends past the drive's 100 sectors"), "{message}");
    }

    #[test]
    fn arrivals_count_from_the_first_and_are_put_in_order() {
        let records = vec![record(1, 1, Some(70)), record(2, 1, Some(50)), record(3, 1, Some(70))];
        let mut replay = Replay::new(records, Sectors::new(100), Fit::Refuse).unwrap();
        let seen: Vec<_> = std::iter::from_fn(|| {
            let request = replay.next_request()?;
            Some((request.range.start().get(), replay.recorded_arrival().unwrap().as_nanos()))
        })
        .collect();
        assert_eq!(seen, [(2, 0), (1, 20), (3, 20)]);
    }

    #[test]
    fn a_trace_without_records_is_refused() {
        assert!(Replay::new(Vec::new(), Sectors::new(100), Fit::Wrap).is_err());
        assert!(Replay::new(vec![record(1, 0, None)], Sectors::new(100), Fit::Wrap).is_err());
    }
}
