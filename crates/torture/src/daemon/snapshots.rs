//! The snapshots of a history, and their contents as far as these are known.

use super::contents::{Contents, Place};
use crate::failure::{Broken, Check, hold};
use server::manager::table::TaskState;
use units::LbnRange;

/// A snapshot. A sector that is written while it begins may have one of several contents, and has the same ever after.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The number of its task.
    pub id: u64,
    oldest: Vec<Place>,
    /// The newest contents at its beginning, when that is over.
    newest: Option<Vec<Place>>,
    /// The stamps that were read.
    read: Vec<Option<u64>>,
    /// When it ends by itself, in milliseconds since 1970.
    pub ends_unix_ms: Option<u64>,
    pub state: TaskState,
    /// Whether it was removed on request.
    pub removed: bool,
}

impl Snapshot {
    pub fn new(id: u64, contents: &Contents, all: LbnRange, ends_unix_ms: Option<u64>) -> Self {
        let (oldest, read) = (contents.known(all), vec![None; all.len().get() as usize]);
        Self { id, oldest, newest: None, read, ends_unix_ms, state: TaskState::Queued, removed: false }
    }

    /// Returns whether its instant has passed, durably.
    pub fn has_begun(&self) -> bool {
        self.newest.is_some()
    }

    /// Records that its instant has passed.
    pub fn begin(&mut self, contents: &Contents, all: LbnRange) {
        self.newest.get_or_insert_with(|| contents.newest(all));
    }

    /// Checks contents that a client has read from it.
    ///
    /// # Errors
    /// They are not those of its instant.
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
