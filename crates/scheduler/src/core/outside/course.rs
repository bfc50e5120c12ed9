//! The head's course from one command to the next: forecasts of the commands at the drive and of those behind them, and the
//! correction of these forecasts by completions.

use super::Overheads;
use super::clock::{self, moved};
use super::decide::DECISION_LEAD;
use super::forecast::{Forecast, Predicted, Standing};
use super::predict::forecast;
use super::record::Observation;
use super::transfer::Transfer;
use super::{
    ERROR_CHANCE_DIVISOR, ERROR_NOISE_DIVISOR, Order, Outside, PREDICTED_COMMANDS_MAX, SPEED_ERROR_PPM_MAX,
    UNEXPLAINED_COMPLETIONS_MAX, Work,
};
use crate::core::under_way::revolution;
use model::DriveModel;
use units::{Duration, Instant, Op};

impl Outside {
    /// Returns the state of the drive when all chosen commands are done.
    pub(super) fn standing(&self, drive: &DriveModel) -> Standing {
        self.walk(drive, &[], |_| {})
    }

    /// Forecasts all chosen commands and `more` commands behind them, and passes the forecasts of the latter to `each`. Returns
    /// the state of the drive when all are done.
    pub(super) fn walk(
        &self,
        drive: &DriveModel,
        more: &[Transfer],
        mut each: impl FnMut(&Forecast),
    ) -> Standing {
        let decided = self.device.iter().chain(&self.queue);
        let decided = decided.map(|order| (order.sent, order.command.transfer(), false));
        let mut at = self.base;
        // A command is sent when there is room for it: when an earlier one, by the depth of the queue, has left the drive.
        let room = self.at_drive().min(PREDICTED_COMMANDS_MAX);
        let mut left = [Instant::ZERO; PREDICTED_COMMANDS_MAX];
        let destaged = self.destaged().filter(|_| room > 1).map(|at| self.clock.platter(at));
        left[0] = destaged.unwrap_or_default();
        let before = usize::from(destaged.is_some());
        for (i, (sent, what, new)) in decided.chain(more.iter().map(|what| (None, *what, true))).enumerate() {
            let slot = (before + i) % room;
            let sent = sent.map_or(self.decided.max(left[slot]), |sent| self.clock.platter(sent));
            let Predicted { forecast, after } =
                forecast(drive, &self.config.overheads, &at, sent, self.held_back, what);
            left[slot] = self.left(what.op, &forecast);
            at = after;
            if new {
                each(&forecast);
            }
        }
        at
    }

    /// Returns the platter time at which the second of two commands that are chosen now can be sent.
    pub(super) fn second_sent(&self, drive: &DriveModel) -> Instant {
        let destaged = self.destaged().map(|at| self.clock.platter(at)).filter(|at| self.decided < *at);
        if usize::from(destaged.is_some()) + self.device.len() + 1 < self.at_drive() {
            return self.decided;
        }
        let mut left = self.decided.max(destaged.unwrap_or_default());
        let mut at = self.base;
        for order in &self.device {
            let Predicted { forecast, after } = self.follow(drive, &at, order);
            at = after;
            left = left.max(self.left(order.command.op, &forecast));
        }
        left
    }

    /// Returns the maximum of commands at the drive.
    pub(super) fn at_drive(&self) -> usize {
        usize::from(self.config.at_drive).max(1)
    }

    /// Returns whether the drive reports a command with this operation from its buffer.
    pub(super) fn reports(&self, op: Op) -> bool {
        op.is_write() && self.config.overheads.write_back
    }

    /// Returns, on the host's clock, when the drive has written the last cached write. Until then the drive has that write
    /// besides the commands that were sent, and may reorder commands if several wait. If forecasts are not trusted, or only
    /// one command may be at the drive, returns `None`.
    pub(super) fn destaged(&self) -> Option<Instant> {
        let beside = self.buffered && self.config.overheads.overlap && self.at_drive() > 1;
        (beside && self.predicts()).then(|| self.clock.host(self.base.free) + DECISION_LEAD)
    }

    /// Returns the platter time at which a command has left the drive, as far as the host can know.
    fn left(&self, op: Op, forecast: &Forecast) -> Instant {
        if self.reports(op) && self.config.overheads.overlap {
            forecast.heard_at_latest.max(forecast.end + DECISION_LEAD)
        } else {
            forecast.heard_at_latest
        }
    }

    pub(super) fn follow(&self, drive: &DriveModel, from: &Standing, order: &Order) -> Predicted {
        self.follow_by(drive, &self.config.overheads, from, order)
    }

    /// Forecasts a command that follows `from`, for given costs of commands.
    pub(super) fn follow_by(
        &self,
        drive: &DriveModel,
        overheads: &Overheads,
        from: &Standing,
        order: &Order,
    ) -> Predicted {
        let sent = order.sent.map_or(self.decided, |sent| self.clock.platter(sent));
        forecast(drive, overheads, from, sent, self.held_back, order.command.transfer())
    }

    /// Forecasts a command that is chosen now and follows `from`.
    pub(super) fn forecast_behind(&self, drive: &DriveModel, from: &Standing, what: Transfer) -> Forecast {
        forecast(drive, &self.config.overheads, from, self.decided, self.held_back, what).forecast
    }

    /// Forecasts all commands at the drive again.
    pub(super) fn predict(&mut self, drive: &DriveModel) {
        let mut at = self.base;
        for i in 0..self.device.len() {
            let Predicted { forecast, after } = self.follow(drive, &at, &self.device[i]);
            self.device[i].forecast = forecast;
            at = after;
        }
    }

    /// Forecasts the next foreground request with a detour as if it had none, from the current position of the head, unless a
    /// part of the detour is already done.
    pub(super) fn predict_plain(&mut self, drive: &DriveModel) {
        let (overheads, held_back) = (self.config.overheads, self.held_back);
        let base = Standing { bus: self.base.bus.checked_sub(self.on_bus).unwrap_or_default(), ..self.base };
        let is_detour = |order: &Order| matches!(order.work, Work::Detour);
        let ahead = self.device.iter().chain(&self.queue).take_while(|order| is_detour(order)).count();
        let next = self.device.iter_mut().chain(&mut self.queue).find(|order| !is_detour(order));
        let Some(Order { command, work: Work::Foreground { plain: Some(plain), .. }, .. }) = next else {
            return;
        };
        let merged = command.foreground.is_some_and(|asked| asked != command.range);
        // A part of the request's detour is already done (a drive may reorder): a new forecast would hide its cost.
        if ahead + usize::from(merged) < plain.detour as usize {
            return;
        }
        let what = Transfer::new(command.op, command.foreground.unwrap_or(command.range));
        plain.predict(drive, &overheads, &base, held_back, what);
    }

    /// Records that a detour has met unreadable sectors: the request behind it waited for the drive's retries.
    pub(super) fn detour_failed(&mut self) {
        let plain = self.device.iter_mut().chain(&mut self.queue).find_map(|order| match &mut order.work {
            Work::Foreground { plain, .. } => Some(plain),
            _ => None,
        });
        if let Some(Some(plain)) = plain {
            plain.failed = true;
        }
    }

    /// Returns the platter time at which the data of a read had crossed the bus, given the completion at the host. The overhead
    /// of the completion after that does not delay the data of other commands.
    pub(super) fn crossed(&self, heard: Instant) -> Instant {
        heard.checked_sub(self.config.overheads.after_bus()).unwrap_or_default()
    }

    /// Compares a completion with its forecast, and corrects the clock and the state of the drive by it.
    pub(super) fn resync(
        &mut self,
        drive: &DriveModel,
        now: Instant,
        order: &Order,
        is_next: bool,
    ) -> Observation {
        let overheads = self.config.overheads;
        let op = order.command.op;
        let predicted = order.forecast;
        let Predicted { forecast: own, after } = self.follow(drive, &self.base, order);
        self.buffered = false;
        let revolution = revolution(drive).as_nanos() as i64;
        // The pass of the last sector, on the host's clock.
        let tail = predicted.heard.saturating_since(predicted.end);
        let ended = now.checked_sub(tail).unwrap_or_default();
        let error = self.clock.error(ended, predicted.end);
        let late = clock::difference(self.clock.platter(ended), predicted.end);
        // `error` is the distance of the platter past its assumed angle, so that the rest is whole revolutions.
        let revolutions = (late + error + revolution / 2).div_euclid(revolution);
        let plausible = error.abs() <= revolution / ERROR_NOISE_DIVISOR && is_next;
        // A completion that is later than noise explains may have waited for the bus: the head is then at the predicted place.
        // After repeated cases the platter's angle must be wrong instead.
        let bus = overheads.bus_sector * order.command.range.len().get();
        let once = self.known && self.disagreeing + 1 < UNEXPLAINED_COMPLETIONS_MAX;
        let on_bus = self.config.late_bus && once && is_next && !op.is_write();
        let held_up = on_bus
            && !plausible
            && late > 0
            && late <= clock::nanos(bus).min(revolution - revolution / ERROR_NOISE_DIVISOR);
        let revolutions = if held_up { 0 } else { revolutions };
        let chance = revolution / ERROR_CHANCE_DIVISOR + self.clock.may_drift(ended, SPEED_ERROR_PPM_MAX);
        let mut left = 0;
        if plausible {
            let late = if op.is_write() {
                Duration::ZERO
            } else {
                self.held_back.of(overheads.bus_sector * order.command.range.len().get())
            };
            left = self.clock.correct(ended, error, late, self.config.resync);
            self.agrees();
        } else {
            self.agreeing = 0;
            self.disagreeing += 1;
            if !self.known || self.disagreeing >= UNEXPLAINED_COMPLETIONS_MAX {
                self.clock.restart(ended, error);
                self.known = false;
                self.disagreeing = 0;
            }
        }
        let explained = plausible || held_up;
        // A completion that is early and does not fit the angle was not from the medium: the head has not moved.
        if !explained && late < 0 && self.known {
            self.base.free = self.base.free.max(self.clock.platter(ended));
            self.base.behind = None;
        } else {
            let ended = match (held_up, explained) {
                (true, _) => predicted.end,
                (false, true) => moved(self.clock.platter(ended), left),
                (false, false) => self.clock.platter(ended),
            };
            self.base = after.shifted(clock::difference(ended, own.end));
        }
        let heard = self.clock.platter(now);
        self.base.ready = if overheads.overlap { self.base.free } else { heard };
        // The data of a write cross the bus before the write is on the medium; those of the next write may already be in the
        // buffer.
        self.base.bus = if op.is_write() { after.bus.min(heard) } else { self.crossed(heard) };
        if self.config.late_bus && explained && revolutions == 0 && !op.is_write() {
            let late = Duration::from_nanos(late.max(0).unsigned_abs());
            self.held_back.learn(&overheads, order.command.range.len().get(), late);
        }
        let held_up_by = if op.is_write() { 0 } else { clock::nanos(bus) };
        let off = late - revolutions * revolution;
        let in_time = -chance <= off && off <= chance + held_up_by;
        Observation {
            error: late,
            revolutions,
            explained,
            predicted: explained && revolutions == 0 && in_time,
        }
    }
}
