//! Reports of a core outside the drive about itself.

use super::command::Passed;
use super::{AuditReport, Caution, CommandId, ErrorRecord, OutsideDrive};
use crate::idle::Harm;
use units::{Duration, Instant};

impl OutsideDrive {
    /// Returns the record of prediction errors.
    pub fn prediction_errors(&self) -> &ErrorRecord {
        &self.outside.record
    }

    /// Returns the reason why gaps are not used, if they are not.
    pub fn caution(&self) -> Option<Caution> {
        let outside = &self.outside;
        outside.caution().or_else(|| outside.most_come_from_buffer().then_some(Caution::Buffered))
    }

    /// Returns the harm of detours, as time at the head. The [share](Harm::share) is that of the added response time in the
    /// clients' response times, if that is greater than the head's.
    pub fn detour_harm(&self) -> Harm {
        self.outside.guard.harm()
    }

    /// Returns the bound on the harm of detours and idle time together, in ppm of the foreground's time: the smaller one of
    /// [`IdleTime::harm_ppm`](crate::IdleTime::harm_ppm) and [`OutsideConfig::harm_ppm`](crate::OutsideConfig::harm_ppm); `None`
    /// if neither is set.
    pub fn harm_bound_ppm(&self) -> Option<u32> {
        let idle = self.config.idle.map(|idle| idle.harm_ppm);
        idle.into_iter().chain(self.outside.config.harm_ppm).min()
    }

    /// Returns the results of the [audit](crate::OutsideConfig::audit) of background work's cost; `None` without an audit.
    pub fn audit_report(&self) -> Option<AuditReport> {
        self.outside.cost.as_ref().map(|cost| cost.report(self.now))
    }

    /// Returns the current margin of a detour's move over `distance` cylinders.
    pub fn conservatism(&self, distance: u32) -> Duration {
        self.outside.margin(distance)
    }

    /// Returns the corrections of moves to read and to write against the drive model, in ns
    /// ([`OutsideConfig::correct_moves`](crate::OutsideConfig::correct_moves)).
    pub fn moves_longer_by(&self) -> [i64; 2] {
        self.outside.correction.moves()
    }

    /// Returns the number of commands that were sent and are not done.
    pub fn at_drive(&self) -> usize {
        self.outside.device.len()
    }

    /// Returns whether a command was sent and is not done.
    pub fn is_at_drive(&self, id: CommandId) -> bool {
        self.outside.order(id).is_some()
    }

    /// Returns the predicted completion of a command at the host; `None` for an unknown drive, and for a
    /// command that is passed through beside others.
    pub fn predicted(&self, id: CommandId) -> Option<Instant> {
        let outside = &self.outside;
        let order = outside.order(id)?;
        if outside.blind || order.passed == Some(Passed::BesideOthers) {
            return None;
        }
        Some(outside.clock.host(order.forecast.heard))
    }
}
