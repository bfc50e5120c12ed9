//! Windows of time in which sectors pass.

use model::{DriveModel, Track, Window};
use units::{Arc, Instant};

/// A window of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeWindow {
    pub begin: Instant,
    pub end: Instant,
}

impl TimeWindow {
    #[inline]
    pub fn is_empty(self) -> bool {
        self.begin >= self.end
    }

    /// Returns the last revolution of a window that is longer than a revolution; all sectors pass in that time. A gap can be
    /// longer if the head is ready to read before it has settled to write, or if two seeks are shorter than one.
    #[inline]
    pub fn last_revolution(self, drive: &DriveModel) -> Self {
        Self { begin: self.begin.max(revolution_before(drive, self.end)), ..self }
    }

    /// Returns the sectors of a track that pass whole in the last revolution of the window.
    #[inline]
    pub fn passing(self, drive: &DriveModel, track: &Track) -> Window {
        track.passing(drive.rpm(), self.last_revolution(drive).begin, self.end)
    }
}

/// Returns the instant one revolution before `end`.
#[inline]
pub(crate) fn revolution_before(drive: &DriveModel, end: Instant) -> Instant {
    end.checked_sub(drive.rpm().time_within(Arc::REVOLUTION)).unwrap_or_default()
}
