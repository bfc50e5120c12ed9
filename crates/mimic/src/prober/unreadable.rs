//! The list of unreadable sectors, which is bounded, and prevents a second access to them.

use super::ProbeError;
use units::Lbn;

/// The most requests that may fail because of unreadable sectors: with more, the drive's data should be saved, and
/// the drive not probed.
pub(super) const FAILURES_MAX: usize = 256;

/// The most failures in a row: a drive that is gone fails everywhere.
const CONSECUTIVE_FAILURES_MAX: u64 = 48;

/// The sectors that could not be read so far.
#[derive(Debug)]
pub(super) struct Unreadable {
    /// The LBNs, ascending. The list has its full capacity from the beginning.
    lbns: Vec<u64>,
    failures: u64,
    in_a_row: u64,
}

impl Unreadable {
    pub fn new() -> Self {
        Self { lbns: Vec::with_capacity(FAILURES_MAX), failures: 0, in_a_row: 0 }
    }

    /// Returns the memory of the list, in bytes.
    pub fn memory(&self) -> usize {
        self.lbns.capacity() * size_of::<u64>()
    }

    /// Returns whether no sector of the range is known to be unreadable.
    pub fn spares(&self, first: u64, count: u64) -> bool {
        let at = self.lbns.partition_point(|lbn| *lbn < first);
        self.lbns.get(at).is_none_or(|lbn| *lbn >= first.saturating_add(count))
    }

    /// Records that a request succeeded.
    pub fn worked(&mut self) {
        self.in_a_row = 0;
    }

    /// Records that a request failed because of this sector.
    ///
    /// # Errors
    /// There are too many failures.
    pub fn found(&mut self, lbn: Lbn) -> Result<(), ProbeError> {
        self.failures += 1;
        self.in_a_row += 1;
        let (failures, in_a_row) = (self.failures, self.in_a_row);
        if failures > FAILURES_MAX as u64 || in_a_row > CONSECUTIVE_FAILURES_MAX {
            return Err(ProbeError::Unreadable { failures, in_a_row });
        }
        if let Err(place) = self.lbns.binary_search(&lbn.get()) {
            self.lbns.insert(place, lbn.get());
        }
        Ok(())
    }
}
