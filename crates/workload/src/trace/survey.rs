//! One pass over a trace before its replay.

use super::{TraceError, TraceRecord};
use std::collections::BTreeMap;
use units::{Duration, Instant, Lbn, LbnRange, Sectors};

/// The most devices of a trace: more mean that a column was taken for the device by mistake.
const DEVICES_MAX: usize = 1 << 16;

/// The requests of a trace to one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceSurvey {
    /// The number of requests.
    pub requests: u64,
    /// The end of the last sector that a request touches, in sectors of 512 bytes.
    pub end: Lbn,
    /// The longest request, in sectors of 512 bytes.
    pub longest: Sectors,
    /// The greatest common divisor of all addresses and sizes, in sectors of 512 bytes.
    pub grain: Sectors,
    /// The first request that ends past the limit of the survey: its number among the device's requests, from 1.
    pub past_limit: Option<(u64, LbnRange)>,
}

/// A summary of a trace: its devices, its times, and the order of its requests.
///
/// ```
/// use freeblock_workload::trace::{self, Survey};
/// use units::Sectors;
/// let trace = trace::read(b"0.0 3 64 8 1\n9.0 4 0 8 1\n5.0 3 128 16 0\n")?;
/// let mut survey = Survey::new(Sectors::new(100));
/// trace.records.iter().try_for_each(|record| survey.add(record))?;
/// assert_eq!((survey.busiest_device(), survey.out_of_order), (Some(3), 1));
/// assert_eq!(survey.devices[&3].past_limit.unwrap().0, 2);
/// # Ok::<(), trace::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    limit: Sectors,
    /// The devices.
    pub devices: BTreeMap<u32, DeviceSurvey>,
    /// The number of requests to all devices.
    pub requests: u64,
    /// Whether every request has an arrival time.
    pub arrivals: bool,
    /// Whether every request has a think time.
    pub thinks: bool,
    /// The sum of the think times, in nanoseconds.
    pub think_ns: u128,
    /// The earliest and the latest arrival.
    pub span: Option<(Instant, Instant)>,
    /// The number of requests that arrived before an earlier one of the file.
    pub out_of_order: u64,
}

impl Survey {
    /// Creates a survey that notes the first request past `limit` sectors of 512 bytes on each device.
    pub const fn new(limit: Sectors) -> Self {
        Self {
            limit,
            devices: BTreeMap::new(),
            requests: 0,
            arrivals: true,
            thinks: true,
            think_ns: 0,
            span: None,
            out_of_order: 0,
        }
    }

    /// Adds a request.
    ///
    /// # Errors
    /// The trace has more than 65,536 devices.
    pub fn add(&mut self, record: &TraceRecord) -> Result<(), TraceError> {
        if self.devices.len() >= DEVICES_MAX && !self.devices.contains_key(&record.device) {
            return Err(TraceError::TooManyDevices { most: DEVICES_MAX });
        }
        let device = self.devices.entry(record.device).or_default();
        device.requests += 1;
        let end = record.range.end();
        device.end = device.end.max(end);
        if record.cache.transfers() {
            device.longest = device.longest.max(record.range.len());
        }
        let numbers = [record.range.start().get(), record.range.len().get()];
        device.grain = Sectors::new(numbers.into_iter().fold(device.grain.get(), common_divisor));
        if device.past_limit.is_none() && end.get() > self.limit.get() {
            device.past_limit = Some((device.requests, record.range));
        }
        self.requests += 1;
        self.arrivals &= record.arrival.is_some();
        self.thinks &= record.think.is_some();
        self.think_ns += u128::from(record.think.map_or(0, Duration::as_nanos));
        if let Some(arrival) = record.arrival {
            let (first, last) = self.span.unwrap_or((arrival, arrival));
            self.out_of_order += u64::from(arrival < last);
            self.span = Some((first.min(arrival), last.max(arrival)));
        }
        Ok(())
    }

    /// Returns the device with the most requests; of several, the one with the smallest number.
    pub fn busiest_device(&self) -> Option<u32> {
        let busiest =
            self.devices.iter().max_by_key(|(number, device)| (device.requests, std::cmp::Reverse(**number)));
        busiest.map(|(number, _)| *number)
    }

    /// Returns the time from the first arrival to the last.
    pub fn length(&self) -> Duration {
        self.span.map_or(Duration::ZERO, |(first, last)| last.saturating_since(first))
    }

    /// Returns the first sector of each device if the devices lie one behind the other, each on a whole megabyte, and
    /// the end of the last.
    pub fn concatenated(&self) -> (BTreeMap<u32, u64>, Option<u64>) {
        const MEGABYTE_SECTORS: u64 = 2048;
        let mut next = Some(0u64);
        let starts = self.devices.iter().map(|(&number, device)| {
            let start = next.unwrap_or(u64::MAX);
            next = next
                .and_then(|at| at.checked_add(device.end.get())?.checked_next_multiple_of(MEGABYTE_SECTORS));
            (number, start)
        });
        let starts = starts.collect();
        (starts, next)
    }
}

/// Returns the greatest common divisor; 0 and a number give the number.
pub const fn common_divisor(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Op;

    #[test]
    fn a_survey_is_what_the_records_say() {
        let mut survey = Survey::new(Sectors::new(1_000));
        for (device, start, len, ms) in [(7, 16, 8, 5), (3, 64, 24, 2), (7, 4_096, 64, 9), (3, 8, 8, 9)] {
            let range = LbnRange::new(Lbn::new(start), Sectors::new(len));
            let arrival = Some(Instant::from_nanos(ms * 1_000_000));
            survey.add(&TraceRecord { arrival, device, ..TraceRecord::new(Op::Read, range) }).unwrap();
        }
        let seven = survey.devices[&7];
        assert_eq!(
            (seven.requests, seven.end.get(), seven.longest.get(), seven.grain.get()),
            (2, 4_160, 64, 8)
        );
        assert_eq!(seven.past_limit.map(|(number, _)| number), Some(2));
        assert_eq!(
            (survey.busiest_device(), survey.out_of_order, survey.length()),
            (Some(3), 1, Duration::from_millis(7))
        );
        let (starts, end) = survey.concatenated();
        assert_eq!((starts[&3], starts[&7], end), (0, 2_048, Some(8_192)));
        assert!(survey.arrivals && !survey.thinks);
    }

    #[test]
    fn devices_are_bounded() {
        let mut survey = Survey::new(Sectors::new(1));
        let record = |device| TraceRecord {
            device,
            ..TraceRecord::new(Op::Read, LbnRange::new(Lbn::ZERO, Sectors::new(1)))
        };
        let error = (0..=DEVICES_MAX as u32).find_map(|device| survey.add(&record(device)).err()).unwrap();
        assert!(error.to_string().contains("65536 devices"), "{error}");
    }
}
