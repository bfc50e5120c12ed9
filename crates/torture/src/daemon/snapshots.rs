//! The snapshots of a history on the daemon, and their permitted contents.

use super::contents::{Contents, Place};
use crate::failure::{Broken, Check, hold};
use server::manager::table::TaskState;
use units::LbnRange;

/// A snapshot. A sector that is written while the snapshot begins may have one of several contents in it, but after the first
/// read always the same one.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The number of the snapshot's task.
    pub id: u64,
    /// The place of each sector's oldest permitted stamp.
    oldest: Vec<Place>,
    /// The place of each sector's newest permitted stamp; `None` until the snapshot has begun.
    newest: Option<Vec<Place>>,
    /// The stamp of each sector that was read from the snapshot.
    read: Vec<Option<u64>>,
    /// The time at which the snapshot ends by itself, in milliseconds since 1970.
    pub ends_unix_ms: Option<u64>,
    pub state: TaskState,
    /// Whether a client has removed the snapshot.
    pub removed: bool,
}

impl Snapshot {
    pub fn new(id: u64, contents: &Contents, all: LbnRange, ends_unix_ms: Option<u64>) -> Self {
        let (oldest, read) = (contents.known(all), vec![None; all.len().get() as usize]);
        Self { id, oldest, newest: None, read, ends_unix_ms, state: TaskState::Queued, removed: false }
    }

    /// Returns whether the snapshot has begun: later writes do not change it.
    pub fn has_begun(&self) -> bool {
        self.newest.is_some()
    }

    /// Records that the snapshot has begun.
    pub fn begin(&mut self, contents: &Contents, all: LbnRange) {
        self.newest.get_or_insert_with(|| contents.newest(all));
    }

    /// Checks the stamps of sectors that a client has read from the snapshot.
    ///
    /// # Errors
    /// A stamp is not permitted.
    pub fn check(&mut self, range: LbnRange, stamps: &[u64], contents: &Contents) -> Result<(), Broken> {
        for (lbn, stamp) in (range.start().get()..).zip(stamps) {
            let at = lbn as usize;
            let newest = self.newest.as_ref().map_or(Place::MAX, |newest| newest[at]).min(contents.last(lbn));
            if contents.is_undefined(lbn, self.oldest[at]..=newest) {
                continue;
            }
            let fits = match self.read[at] {
                Some(before) => before == *stamp,
                None => contents.find(lbn, *stamp, self.oldest[at]..=newest).is_some(),
            };
            hold(fits, Check::Restored, || {
                let (id, before, oldest) = (self.id, self.read[at], self.oldest[at]);
                format!(
                    "snapshot {id} gives {stamp} for LBN {lbn}, of {}, from {oldest} to {newest}; before {before:?}",
                    contents.said(lbn)
                )
            })?;
            self.read[at] = Some(*stamp);
        }
        Ok(())
    }
}
