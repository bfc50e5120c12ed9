//! Reports of a core outside the drive about itself.

use super::command::Passed;
use super::{AuditReport, Caution, CommandId, ErrorRecord};
use crate::core::Core;
use crate::idle::Harm;
use units::{Duration, Instant};

impl Core {
    /// Returns, outside the drive, the record of prediction errors.
    pub fn prediction_errors(&self) -> Option<&ErrorRecord> {
        self.outside.as_ref().map(|o| &o.record)
    }

    /// Returns, outside the drive, the reason why gaps are not used, if they are not.
    pub fn caution(&self) -> Option<Caution> {
        let outside = self.outside.as_ref()?;
        outside.caution().or_else(|| outside.most_come_from_buffer().then_some(Caution::Buffered))
    }

    /// Returns, outside the drive, the harm of detours. Its share of the foreground's time at the head is the added response
    /// time of clients as a share of their response time.
    pub fn detour_harm(&self) -> Option<Harm> {
        self.outside.as_ref().map(|o| o.guard.harm())
    }

    /// Returns the bound on the harm of detours and idle time together, in ppm of the foreground's time; `None` if neither has a
    /// bound. It is the smaller one of [`IdleTime::harm_ppm`](crate::IdleTime::harm_ppm) and
    /// [`OutsideConfig::harm_ppm`](crate::OutsideConfig::harm_ppm).
    pub fn harm_bound_ppm(&self) -> Option<u32> {
        let idle = self.config.idle.map(|idle| idle.harm_ppm);
        let detours = self.outside.as_ref().and_then(|outside| outside.config.harm_ppm);
        idle.into_iter().chain(detours).min()
    }

    /// Returns, outside the drive, the cost of background work from windows without it, if it is
    /// [measured](crate::OutsideConfig::audit).
    pub fn audit_report(&self) -> Option<AuditReport> {
        self.outside.as_ref()?.cost.as_ref().map(|cost| cost.report(self.now))
    }

    /// Returns, outside the drive, the current margin of a detour's move over `distance` cylinders.
    pub fn conservatism(&self, distance: u32) -> Option<Duration> {
        self.outside.as_ref().map(|o| o.margin(distance))
    }

    /// Returns, outside the drive, the corrections of moves to read and to write against the drive model, in ns
    /// ([`OutsideConfig::correct_moves`](crate::OutsideConfig::correct_moves)).
    pub fn moves_longer_by(&self) -> Option<[i64; 2]> {
        self.outside.as_ref().map(|o| o.correction.moves())
    }

    /// Returns, outside the drive, the number of commands that were sent and are not done.
    pub fn at_drive(&self) -> usize {
        self.outside.as_ref().map_or(0, |o| o.device.len())
    }

    /// Returns, outside the drive, the predicted completion of a command at the host; `None` for an unknown drive, and for a
    /// command that is passed through beside others.
    pub fn predicted(&self, id: CommandId) -> Option<Instant> {
        let outside = self.outside.as_ref().filter(|outside| !outside.blind)?;
        let order = outside.device.iter().find(|o| o.command.id == id)?;
        if order.passed == Some(Passed::BesideOthers) {
            return None;
        }
        Some(outside.clock.host(order.forecast.heard))
    }
}
