//! A replay that does not hold its trace.

use super::fit::{Fit, Placing};
use crate::error::ConfigError;
use crate::request::{Recorded, Request, Source};
use crate::trace::{SECTOR_BYTES, TraceError, TraceRecord};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;
use units::{Bytes, CacheOps, Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// The most requests that are read ahead to bring a trace into the order of its arrivals: 16 MiB, so that a replay of
/// a trace packed with zstd's largest window stays below 64 MiB (docs/BENCHMARKS.md).
const WINDOW_RECORDS: usize = 1 << 19;
const _: () = assert!(WINDOW_RECORDS * size_of::<Waiting>() <= 16 << 20);

/// The devices of a trace that are replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Devices {
    /// The device of the first request; a request to another is an error.
    Only,
    /// Only this device; requests to others are left out.
    One(u32),
    /// These devices, on one drive: each begins at the given sector of 512 bytes.
    Concatenated(BTreeMap<u32, u64>),
}

/// The drive that a trace is replayed on, and the treatment of requests.
#[derive(Clone, Debug)]
pub struct StreamedConfig {
    /// The devices to replay.
    pub devices: Devices,
    /// The bytes of a sector of the drive.
    pub sector: Bytes,
    /// The sectors of the drive.
    pub capacity: Sectors,
    /// The treatment of requests past the end of the drive.
    pub fit: Fit,
    /// The longest request in sectors of 512 bytes, if it is known.
    pub longest: Option<Sectors>,
    /// The times that all requests have recorded. Requests that are sorted by their arrivals lose their think times.
    pub recorded: Recorded,
    /// Whether requests come in the order of their arrivals.
    pub sorted: bool,
}

/// The counts of a replay so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayAccount {
    /// The requests that were replayed.
    pub requests: u64,
    /// The requests that were placed elsewhere because they lay past the end of the drive.
    pub wrapped: u64,
    /// The requests that were widened to whole sectors of the drive.
    pub widened: u64,
    /// The requests that stand further behind their place in the order of arrivals than the 524,288 requests read
    /// ahead: each is replayed at the time of the request before it.
    pub late: u64,
    /// The reason why the replay ended before its trace did.
    pub error: Option<ReplayError>,
}

/// The reason why a replay ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The rest of the trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A request does not fit on the drive.
    #[error(transparent)]
    Place(#[from] ConfigError),
    /// The trace has a second device.
    #[error("request {record} is to device {found}, and those before it to device {expected}")]
    OtherDevice {
        /// The number of the request in the trace, from 1.
        record: u64,
        /// The device of that request.
        found: u32,
        /// The device of the requests before.
        expected: u32,
    },
}

/// The longest request where it is not known: 32 MiB in sectors of 512 bytes.
const REQUEST_SECTORS_MAX: Sectors = Sectors::new(1 << 16);

/// Replays the records of an iterator, such as a [`Reader`](crate::trace::Reader), in memory that does not grow with the
/// trace.
///
/// The [`account`](Self::account) stays readable while a host owns the source, and has the error that ended the
/// replay early.
///
/// ```
/// use freeblock_workload::{Arrival, Devices, Fit, Issuer, Recorded, Streamed, StreamedConfig, Source};
/// use freeblock_workload::trace::{Options, Reader};
/// use units::{Bytes, Instant, Sectors};
/// let text = b"100.0 3 64 8 1\n102.0 3 128 16 0\n101.0 3 0 8 1\n";
/// let config = StreamedConfig {
///     devices: Devices::Only,
///     sector: Bytes::new(512),
///     capacity: Sectors::new(1_000),
///     fit: Fit::Refuse,
///     longest: None,
///     recorded: Recorded { arrivals: true, thinks: false },
///     sorted: false,
/// };
/// let replay = Streamed::new(Reader::new(&Options::default(), &text[..])?, config)?;
/// let account = replay.account();
/// let mut foreground = Issuer::new(replay, Arrival::Recorded { scale: 1.0 }, Instant::ZERO, 1)?;
/// let at: Vec<u64> = std::iter::from_fn(|| foreground.issue(Instant::MAX)).map(|r| r.at.as_nanos() / 1_000_000).collect();
/// assert_eq!(at, [0, 1, 2]);
/// assert_eq!((account.borrow().requests, &account.borrow().error), (3, &None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Streamed<I> {
    records: I,
    config: StreamedConfig,
    placing: Placing,
    /// Sectors of 512 bytes in a sector of the drive.
    factor: u64,
    window: BinaryHeap<Waiting>,
    read: u64,
    ended: bool,
    /// The device of the first request.
    first_device: Option<u32>,
    origin: Option<Instant>,
    last: Option<TraceRecord>,
    account: Rc<RefCell<ReplayAccount>>,
}

/// A trace record that was read ahead, in few bytes; the earliest record compares as the greatest.
#[derive(Debug, PartialEq, Eq)]
struct Waiting {
    arrival: Instant,
    /// The number of the record, and in the bits below it whether it is a write, and the orders for the cache.
    number_and_bits: u64,
    range: LbnRange,
}

impl Waiting {
    fn new(number: u64, record: &TraceRecord) -> Self {
        let arrival = record.arrival.unwrap_or_default();
        let CacheOps { flush, forced, discard } = record.cache;
        let bits = [record.op.is_write(), flush, forced, discard];
        let number_and_bits = bits.into_iter().fold(number, |all, bit| all << 1 | u64::from(bit));
        Self { arrival, number_and_bits, range: record.range }
    }

    const fn record(&self) -> TraceRecord {
        let bits = self.number_and_bits;
        let op = if bits & 8 != 0 { Op::Write } else { Op::Read };
        let cache = CacheOps { flush: bits & 4 != 0, forced: bits & 2 != 0, discard: bits & 1 != 0 };
        TraceRecord { arrival: Some(self.arrival), cache, ..TraceRecord::new(op, self.range) }
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (other.arrival, other.number_and_bits).cmp(&(self.arrival, self.number_and_bits))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<I: Iterator<Item = Result<TraceRecord, TraceError>>> Streamed<I> {
    /// Replays `records`.
    ///
    /// # Errors
    /// The sector is not a multiple of 512 bytes.
    pub fn new(records: I, config: StreamedConfig) -> Result<Self, ConfigError> {
        let factor = config.sector.get() / SECTOR_BYTES;
        if factor == 0 || !config.sector.get().is_multiple_of(SECTOR_BYTES) {
            let mend = "give a drive whose sectors are 512 bytes or a multiple";
            return Err(ConfigError::field("sector", config.sector, mend));
        }
        // A request that does not begin on a sector of the drive may need one more.
        let longest = config.longest.unwrap_or(REQUEST_SECTORS_MAX).get().div_ceil(factor).saturating_add(1);
        let placing = Placing::new(config.capacity, Sectors::new(longest), config.fit);
        // All memory is reserved at once: a heap that grows leaves its earlier, smaller allocations unused in the
        // process.
        let sorts = config.recorded.arrivals && !config.sorted;
        let window = BinaryHeap::with_capacity(if sorts { WINDOW_RECORDS } else { 0 });
        Ok(Self {
            records,
            config,
            placing,
            factor,
            window,
            read: 0,
            ended: false,
            first_device: None,
            origin: None,
            last: None,
            account: Rc::default(),
        })
    }

    /// Returns the account, which stays up to date while the replay goes on.
    pub fn account(&self) -> Rc<RefCell<ReplayAccount>> {
        Rc::clone(&self.account)
    }

    /// Returns the next record of the file on a replayed device, placed on the drive.
    fn read(&mut self) -> Result<Option<TraceRecord>, ReplayError> {
        loop {
            let Some(record) = self.records.next().transpose()? else { return Ok(None) };
            self.read += 1;
            let start = match &self.config.devices {
                Devices::Only => {
                    let expected = *self.first_device.get_or_insert(record.device);
                    if expected != record.device {
                        return Err(ReplayError::OtherDevice {
                            record: self.read,
                            found: record.device,
                            expected,
                        });
                    }
                    0
                }
                Devices::One(device) if *device == record.device => 0,
                Devices::One(_) => continue,
                Devices::Concatenated(starts) => match starts.get(&record.device) {
                    Some(start) => *start,
                    None => continue,
                },
            };
            if record.range.is_empty() && record.cache.flush {
                // A flush alone gets the first sector of its device.
                let range = LbnRange::new(Lbn::new(start / self.factor), Sectors::ZERO);
                return Ok(Some(TraceRecord { range, ..record }));
            }
            let range = self.on_drive(record.range, start)?;
            return Ok(Some(TraceRecord { range, ..record }));
        }
    }

    fn on_drive(&mut self, range: LbnRange, start: u64) -> Result<LbnRange, ConfigError> {
        let [first, end] = [range.start(), range.end()].map(|lbn| lbn.get().checked_add(start));
        let (Some(first), Some(end)) = (first, end) else {
            return Err(ConfigError::RecordPastEnd {
                record: self.read,
                range,
                capacity: self.config.capacity,
            });
        };
        let widened = !first.is_multiple_of(self.factor) || !end.is_multiple_of(self.factor);
        self.account.borrow_mut().widened += u64::from(widened);
        let sectors = end.div_ceil(self.factor) - first / self.factor;
        let range = LbnRange::new(Lbn::new(first / self.factor), Sectors::new(sectors));
        self.placing.place(range, self.read)
    }

    /// Returns the next record in the order of the replay.
    fn advance(&mut self) -> Result<Option<TraceRecord>, ReplayError> {
        if !self.config.recorded.arrivals || self.config.sorted {
            return self.read();
        }
        while self.window.len() < WINDOW_RECORDS && !self.ended {
            match self.read()? {
                Some(record) => self.window.push(Waiting::new(self.read, &record)),
                None => self.ended = true,
            }
        }
        Ok(self.window.pop().map(|waiting| waiting.record()))
    }
}

impl<I: Iterator<Item = Result<TraceRecord, TraceError>>> Source for Streamed<I> {
    fn next_request(&mut self) -> Option<Request> {
        if self.account.borrow().error.is_some() {
            return None;
        }
        let next = self.advance();
        let mut account = self.account.borrow_mut();
        let mut record = match next {
            Ok(record) => record?,
            Err(error) => {
                account.error = Some(error);
                return None;
            }
        };
        if let (Some(arrival), Some(last)) = (record.arrival, self.last.and_then(|last| last.arrival)) {
            account.late += u64::from(arrival < last && self.config.recorded.arrivals);
            record.arrival = Some(arrival.max(last));
        }
        self.origin = self.origin.or(record.arrival);
        self.last = Some(record);
        account.requests += 1;
        account.wrapped = self.placing.wrapped;
        Some(Request { op: record.op, range: record.range })
    }

    fn recorded_think(&self) -> Option<Duration> {
        self.last?.think
    }

    fn cache_ops(&self) -> CacheOps {
        self.last.map_or_else(CacheOps::default, |last| last.cache)
    }

    fn recorded_arrival(&self) -> Option<Instant> {
        let since = self.last?.arrival?.saturating_since(self.origin?);
        Some(Instant::from_nanos(since.as_nanos()))
    }

    fn recorded(&self) -> Recorded {
        self.config.recorded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fit, Replay};
    use proptest::prelude::*;

    fn record((start, len, ms, device): (u64, u64, u64, u32)) -> TraceRecord {
        let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
        let arrival = Some(Instant::from_nanos(ms * 1_000_000));
        TraceRecord { arrival, device, ..TraceRecord::new(Op::Read, range) }
    }

    fn config(devices: Devices) -> StreamedConfig {
        StreamedConfig {
            devices,
            sector: Bytes::new(512),
            capacity: Sectors::new(10_000),
            fit: Fit::Refuse,
            longest: None,
            recorded: Recorded { arrivals: true, thinks: false },
            sorted: false,
        }
    }

    fn replayed(mut source: impl Source) -> Vec<(String, u64)> {
        std::iter::from_fn(|| {
            let request = source.next_request()?;
            Some((request.range.to_string(), source.recorded_arrival()?.as_nanos()))
        })
        .collect()
    }

    proptest! {
        #[test]
        fn a_streamed_replay_has_the_requests_of_a_replay_in_memory(
            records in prop::collection::vec((0..20_000u64, 1..99u64, 0..900u64, 0..1u32), 1..200),
        ) {
            let records: Vec<_> = records.into_iter().map(record).collect();
            let longest = records.iter().map(|record| record.range.len()).max();
            let whole = Replay::new(records.clone(), Sectors::new(10_000), Fit::Wrap).unwrap();
            let needed = records.iter().any(|record| record.range.end().get() > 10_000);
            let fit = if needed { Fit::Wrap } else { Fit::Refuse };
            let config = StreamedConfig { fit, longest: longest.map(|l| l - Sectors::new(1)), ..config(Devices::Only) };
            let streamed = Streamed::new(records.into_iter().map(Ok), config).unwrap();
            prop_assert_eq!(replayed(streamed), replayed(whole));
        }
    }

    #[test]
    fn devices_are_chosen_concatenated_or_refused() {
        let records = [(8, 8, 0, 1), (16, 8, 1, 2), (24, 8, 2, 1)].map(record);
        let run = |devices| {
            let replay = Streamed::new(records.into_iter().map(Ok), config(devices)).unwrap();
            let account = replay.account();
            let ranges: Vec<_> = replayed(replay).into_iter().map(|(range, _)| range).collect();
            let error = account.borrow().error.as_ref().map(ToString::to_string);
            (ranges.join(" "), error)
        };
        assert_eq!(run(Devices::One(2)), ("16+8".to_owned(), None));
        let starts = BTreeMap::from([(1, 0), (2, 2_048)]);
        assert_eq!(run(Devices::Concatenated(starts)), ("8+8 2064+8 24+8".to_owned(), None));
        let (ranges, error) = run(Devices::Only);
        assert_eq!(ranges, "", "an unsorted replay reads ahead");
        assert_eq!(error.unwrap(), "request 2 is to device 2, and those before it to device 1");
    }

    #[test]
    fn an_error_ends_the_replay_and_is_kept() {
        let records = vec![Ok(record((8, 8, 0, 0))), Err(TraceError::Empty { expected: "more" })];
        let config = StreamedConfig { sorted: true, ..config(Devices::Only) };
        let mut replay = Streamed::new(records.into_iter(), config).unwrap();
        let account = replay.account();
        assert!(replay.next_request().is_some());
        assert!(replay.next_request().is_none() && replay.next_request().is_none());
        assert!(matches!(account.borrow().error, Some(ReplayError::Trace(_))));
    }

    #[test]
    fn a_request_behind_the_window_is_late_and_counted() {
        let late = WINDOW_RECORDS as u64 + 10;
        let records = (0..late).map(|n| (8, 8, 1_000 + n, 0)).chain([(8, 8, 5, 0)]).map(record).map(Ok);
        let mut replay = Streamed::new(records, config(Devices::Only)).unwrap();
        let account = replay.account();
        let mut last = Instant::ZERO;
        while replay.next_request().is_some() {
            let arrival = replay.recorded_arrival().unwrap();
            assert!(arrival >= last);
            last = arrival;
        }
        assert_eq!((account.borrow().requests, account.borrow().late), (late + 1, 1));
    }
}
