//! Whether the drive reports writes before they are on the medium, if the profile does not say.
//!
//! A probe that only reads cannot find out, and the host may not know: if a disk does not report its write cache, Linux
//! assumes write-through. Until completions show otherwise, writes are assumed to be cached. If that is wrong, the arm is still
//! at the predicted place, and only gaps are lost. The opposite error would make every prediction wrong, at the clients'
//! cost. If the reports predicted for the two cases are far enough apart, the time of a report shows which case holds.

use super::clock::difference;
use super::{ERROR_NOISE_DIVISOR, Order, Outside};
use crate::core::config::Overheads;
use model::DriveModel;
use units::Instant;

/// The number by which reports from the medium must exceed reports from the buffer until the drive counts as write-through. On a
/// drive that caches writes some reports seem to be from the medium by chance, within an eighth of a revolution of the
/// prediction; most do not.
const DECIDING_LEAD_REPORTS: i8 = 16;

/// The evidence from reports of writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Through {
    reported: Overheads,
    /// The number of reports from the medium less the number of reports from the buffer.
    score: i8,
}

impl Through {
    pub fn of(reported: Overheads) -> Self {
        Self { reported, score: 0 }
    }
}

impl Outside {
    /// Records the report of a write on a drive that is assumed to cache writes.
    pub(super) fn learn_writing_through(&mut self, drive: &DriveModel, now: Instant, order: &Order) {
        let Some(through) = self.config.overheads.writing_through().filter(|_| self.known) else { return };
        let heard = self.clock.platter(now);
        let [medium, buffer] = [&through, &self.config.overheads]
            .map(|overheads| self.follow_by(drive, overheads, &self.base, order).forecast.heard);
        let noise = self.clock.revolution() / ERROR_NOISE_DIVISOR;
        let off = |predicted| difference(heard, predicted).abs();
        if difference(medium, buffer).abs() <= 2 * noise || off(medium).min(off(buffer)) >= noise {
            return;
        }
        let from_medium = off(medium) < off(buffer);
        self.through.score = (self.through.score + if from_medium { 1 } else { -1 })
            .clamp(-DECIDING_LEAD_REPORTS, DECIDING_LEAD_REPORTS);
        if self.through.score == DECIDING_LEAD_REPORTS {
            self.correction.tell(self.through.reported.writing_through().unwrap_or(through));
        }
    }

    /// Discards the evidence, because the drive may have been replaced.
    pub(super) fn doubt_writing_through(&mut self) {
        if core::mem::take(&mut self.through.score) == DECIDING_LEAD_REPORTS {
            self.correction.tell(self.through.reported);
        }
    }
}
