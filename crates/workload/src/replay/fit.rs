//! The place of a record on the drive.

use crate::error::ConfigError;
use units::{Lbn, LbnRange, Sectors};

/// The treatment of records that lie past the end of the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// The trace is refused.
    #[default]
    Refuse,
    /// Addresses wrap around the end of the drive: every address of the trace keeps one place, and its alignment. A
    /// record larger than the drive is refused all the same.
    Wrap,
}

/// Returns the alignment in sectors that wrapped addresses keep: the largest of a megabyte, a page and a sector (with
/// sectors of 512 bytes) that fits sixteen times on a drive of `capacity` sectors.
const fn alignment(capacity: u64) -> u64 {
    const PLACES_MIN: u64 = 16;
    if capacity >= 2048 * PLACES_MIN {
        2048
    } else if capacity >= 8 * PLACES_MIN {
        8
    } else {
        1
    }
}

/// The places of records on a drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Placing {
    capacity: Sectors,
    /// The number of addresses before they repeat; `None` if records past the end are refused.
    period: Option<u64>,
    /// The number of records whose addresses were changed.
    pub(crate) wrapped: u64,
}

impl Placing {
    /// Places records of at most `longest` sectors. Without [`Fit::Wrap`] nothing is changed.
    pub(crate) fn new(capacity: Sectors, longest: Sectors, fit: Fit) -> Self {
        let (sectors, longest) = (capacity.get(), longest.get());
        // If all records are short, the longest one's size is reserved at the end, so that none crosses it.
        let room = if longest <= sectors / 16 { sectors - longest } else { sectors };
        let period = (room / alignment(room) * alignment(room)).max(1);
        Self { capacity, period: (fit == Fit::Wrap).then_some(period), wrapped: 0 }
    }

    /// Returns the place of a record, the `record`th from 1.
    ///
    /// # Errors
    /// The record has no sectors, or does not fit.
    pub(crate) fn place(&mut self, range: LbnRange, record: u64) -> Result<LbnRange, ConfigError> {
        if range.is_empty() {
            let mend = "drop the record, or give it at least 1 sector";
            let found = format_args!("{range} in record {record}");
            return Err(ConfigError::field("a record's range", found, mend));
        }
        let past = range.checked_end().is_none_or(|end| end.get() > self.capacity.get());
        let refused = ConfigError::RecordPastEnd { record, range, capacity: self.capacity };
        let Some(period) = self.period else { return if past { Err(refused) } else { Ok(range) } };
        if range.len() > self.capacity {
            return Err(refused);
        }
        let wrapped = range.start().get() % period;
        // A long record that would cross the end is moved back to end there.
        let start = wrapped.min(self.capacity.get() - range.len().get());
        self.wrapped += u64::from(start != range.start().get());
        Ok(LbnRange::new(Lbn::new(start), range.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, len: u64) -> LbnRange {
        LbnRange::new(Lbn::new(start), Sectors::new(len))
    }

    #[test]
    fn a_wrapped_block_has_one_place_whatever_the_requests_length() {
        let mut placing = Placing::new(Sectors::new(17_938_986), Sectors::new(64), Fit::Wrap);
        let starts: Vec<u64> = [8, 16, 64]
            .map(|len| placing.place(range(1_600_000_000, len), 1).unwrap().start().get())
            .to_vec();
        assert!(starts.iter().all(|start| *start == starts[0] && start % 8 == 0), "{starts:?}");
        let next = placing.place(range(1_600_000_008, 8), 1).unwrap().start().get();
        assert_eq!((next - starts[0], placing.wrapped), (8, 4), "neighbours stay neighbours");
    }

    #[test]
    fn long_records_end_at_the_end() {
        let mut placing = Placing::new(Sectors::new(100), Sectors::new(100), Fit::Wrap);
        let starts = [(92, 8), (93, 8), (u64::MAX, 8), (5, 100)];
        let starts = starts.map(|(start, len)| placing.place(range(start, len), 1).unwrap().start().get());
        assert_eq!((starts, placing.wrapped), ([92, 92, u64::MAX % 100, 0], 3));
        assert!(placing.place(range(0, 101), 1).is_err());
    }

    #[test]
    fn without_wrapping_a_record_past_the_end_is_refused() {
        let mut placing = Placing::new(Sectors::new(100), Sectors::new(8), Fit::Refuse);
        assert_eq!(placing.place(range(92, 8), 1), Ok(range(92, 8)));
        let message = placing.place(range(93, 8), 7).unwrap_err().to_string();
        assert!(message.starts_with("record 7 (93+8) ends past the drive's 100 sectors"), "{message}");
    }
}
