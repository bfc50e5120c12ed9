//! Whether writes are reported before they are on the medium, where nobody knows.
//!
//! Who has only read from a drive cannot say. Its host may have been told, and may not: where a disk does not tell, Linux writes down
//! that it writes through. Until completions say otherwise writes are taken to be reported from the buffer: where that is not so, the
//! arm is where it was foreseen to be all the same, and what is lost are gaps. Taken to write through, a drive that writes back
//! does nothing as foreseen, and clients pay for it. Where a write is foreseen to be reported at instants far enough from each other,
//! its report says from where it came.

use super::clock::difference;
use super::config::Overheads;
use super::{NOISE, Order, Outside};
use model::DriveModel;
use units::Instant;

/// So many writes more must have been reported from the medium than from the buffer. Of a drive that writes back some seem to be by
/// chance, where they are reported within an eighth of a turn of when the medium would have had them; most others are not.
const ENOUGH: i8 = 16;

/// What reports have said of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Through {
    told: Overheads,
    /// Reports from the medium beyond those from the buffer.
    score: i8,
}

impl Through {
    pub fn of(told: Overheads) -> Self {
        Self { told, score: 0 }
    }
}

impl Outside {
    /// A write was done that is taken to be reported from the buffer.
    pub(super) fn learn_writing_through(&mut self, drive: &DriveModel, now: Instant, order: &Order) {
        let Some(through) = self.config.overheads.writing_through().filter(|_| self.known) else { return };
        let heard = self.clock.platter(now);
        let [medium, buffer] = [&through, &self.config.overheads]
            .map(|overheads| self.follow_by(drive, overheads, &self.base, order).0.heard);
        let noise = self.clock.turn() / NOISE;
        let off = |foreseen| difference(heard, foreseen).abs();
        if difference(medium, buffer).abs() <= 2 * noise || off(medium).min(off(buffer)) >= noise {
            return;
        }
        let from_medium = off(medium) < off(buffer);
        self.through.score = (self.through.score + if from_medium { 1 } else { -1 }).clamp(-ENOUGH, ENOUGH);
        if self.through.score == ENOUGH {
            self.correction.tell(self.through.told.writing_through().unwrap_or(through));
        }
    }

    /// The drive may be another one from now on: nobody knows again.
    pub(super) fn doubt_writing_through(&mut self) {
        if std::mem::take(&mut self.through.score) == ENOUGH {
            self.correction.tell(self.through.told);
        }
    }
}
