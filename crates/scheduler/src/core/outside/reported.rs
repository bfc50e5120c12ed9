//! Writes that a drive reports from its buffer, and what a report shows about the write before.
//!
//! The host does not learn when such a write is on the medium. But the drive starts the next write only then, and a write that
//! arrives earlier waits: its report shows when the previous write was on the medium, as exactly as a completion from the medium.
//! If clients only write, this is the only way to find the platter's angle.

use super::clock::{difference, moved};
use super::forecast::{Predicted, Standing};
use super::record::{Came, Observation};
use super::{
    CONSISTENT_COMPLETIONS_MIN, ERROR_CHANCE_DIVISOR, ERROR_NOISE_DIVISOR, Order, Outside,
    SPEED_ERROR_PPM_MAX,
};
use crate::core::under_way::revolution;
use model::DriveModel;
use units::{Duration, Instant};

/// The number of reports that do not fit the platter's angle, without a completion that fits it in between, after which the
/// angle is searched again. If the drive reports from the medium after all, a report shows nothing about the write before.
const UNEXPLAINED_REPORTS_MAX: u32 = 24;

/// The observation that a report gives.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub seen: Observation,
    /// The arrival of the head at the write before, if known; the outer `None` if the reported write did not wait for the write
    /// before.
    pub before: Option<Option<Came>>,
}

impl Outside {
    /// Handles a write that was reported from the drive's buffer. The report shows when the drive came to this write: if a
    /// revolution more or less for the previous write explains the report much better, the previous write took that.
    pub(super) fn reported(
        &mut self,
        drive: &DriveModel,
        now: Instant,
        order: &Order,
        is_next: bool,
    ) -> Report {
        let revolution = revolution(drive).as_nanos() as i64;
        let heard = self.clock.platter(now);
        if is_next {
            self.learn_writing_through(drive, now, order);
        }
        let mut predicted = self.follow(drive, &self.base, order);
        let mut seen = Observation { error: 0, revolutions: 0, explained: true, predicted: true };
        let mut before = None;
        if self.buffered && is_next {
            if let Some(at) = self.waited_until(drive, now, order) {
                seen = self.on_medium(drive, at);
                let late = seen.explained && seen.revolutions > 0;
                before = Some(self.last_reported.map(|last| last.came(late)));
                predicted = self.follow(drive, &self.base, order);
            } else if self.config.overheads.overlap {
                let off = |predicted: &Predicted| difference(heard, predicted.forecast.heard).abs();
                for other in [1, -1] {
                    let base = Standing {
                        free: moved(self.base.free, other * revolution),
                        ready: moved(self.base.ready, other * revolution),
                        ..self.base
                    };
                    let moved = self.follow(drive, &base, order);
                    if off(&moved) + revolution / 2 < off(&predicted) {
                        (seen.revolutions, predicted) = (other, moved);
                    }
                }
                seen.error = seen.revolutions * revolution;
            }
        }
        self.base = predicted.after;
        self.buffered = true;
        self.last_reported = is_next.then_some(predicted.forecast);
        if !self.config.overheads.overlap {
            // The clock may have been corrected above, so the completion has another platter time.
            self.base.ready = self.clock.platter(now);
        }
        Report { seen, before }
    }

    /// Returns, on the host's clock, when the write before was on the medium, if this write has waited for that longer than
    /// the times of commands vary. `None` for a write that continues the one before, because a drive may receive its data at
    /// once.
    fn waited_until(&self, drive: &DriveModel, now: Instant, order: &Order) -> Option<Instant> {
        let range = order.command.range;
        if self.base.reported == Some(range.start()) {
            return None;
        }
        let none = Standing { free: Instant::ZERO, ready: Instant::ZERO, ..self.base };
        let at_once = self.follow(drive, &none, order).forecast.heard;
        let waited = difference(self.clock.platter(now), at_once);
        let overheads = &self.config.overheads;
        let own = overheads.bus_sector * range.len().get() + overheads.tail(order.command.op);
        (waited > self.clock.revolution() / ERROR_CHANCE_DIVISOR).then(|| now.checked_sub(own)).flatten()
    }

    /// Compares the end of the previous write on the medium, `at` on the host's clock, with its forecast, and corrects the
    /// clock and the state of the drive by it. Errors of the platter's angle beyond chance do not correct the clock, because a
    /// write may wait for other reasons.
    fn on_medium(&mut self, drive: &DriveModel, at: Instant) -> Observation {
        let revolution = revolution(drive).as_nanos() as i64;
        let predicted = self.base.free;
        let error = self.clock.error(at, predicted);
        let late = difference(self.clock.platter(at), predicted);
        let revolutions = (late + error + revolution / 2).div_euclid(revolution);
        let chance = revolution / ERROR_CHANCE_DIVISOR + self.clock.may_drift(at, SPEED_ERROR_PPM_MAX);
        let explained = error.abs() <= chance.min(revolution / ERROR_NOISE_DIVISOR);
        let mut left = 0;
        if explained {
            left = self.clock.correct(at, error, Duration::ZERO, self.config.resync);
            self.agrees();
        } else {
            self.agreeing = 0;
            self.reports_off += 1;
            if !self.known || self.reports_off == UNEXPLAINED_REPORTS_MAX {
                self.clock.restart(at, error);
                self.known = false;
                self.reports_off = 0;
            }
        }
        self.base.free = moved(self.clock.platter(at), left);
        self.base.ready = self.base.free;
        Observation { error: late, revolutions, explained, predicted: explained && revolutions == 0 }
    }

    /// Records that a completion fits the platter's angle.
    pub(super) fn agrees(&mut self) {
        self.agreeing += 1;
        (self.disagreeing, self.reports_off) = (0, 0);
        self.known |= self.agreeing >= CONSISTENT_COMPLETIONS_MIN;
    }
}
