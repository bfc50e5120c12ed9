//! What a core outside the drive tells of itself.

use super::command::Passed;
use super::{AuditReport, Caution, CommandId, ErrorRecord};
use crate::core::Core;
use crate::idle::Harm;
use units::{Duration, Instant};

impl Core {
    /// Outside the drive: how well its times were foreseen.
    pub fn prediction_errors(&self) -> Option<&ErrorRecord> {
        self.outside.as_ref().map(|o| &o.record)
    }

    /// Outside the drive: why the gaps are left alone, if they are.
    pub fn caution(&self) -> Option<Caution> {
        let outside = self.outside.as_ref()?;
        outside.caution().or_else(|| outside.most_come_from_buffer().then_some(Caution::Buffered))
    }

    /// Outside the drive: what detours have cost the foreground. Its share of the foreground's time at the head is that by
    /// which clients have waited longer, of all that they waited.
    pub fn detour_harm(&self) -> Option<Harm> {
        self.outside.as_ref().map(|o| o.guard.harm())
    }

    /// Outside the drive: what background work costs the foreground, as windows without it have shown, if that is
    /// [measured](crate::OutsideConfig::audit).
    pub fn audit_report(&self) -> Option<AuditReport> {
        self.outside.as_ref()?.cost.as_ref().map(|cost| cost.report(self.now))
    }

    /// Outside the drive: by how much a detour's move over so many cylinders is widened now.
    pub fn conservatism(&self, distance: u32) -> Option<Duration> {
        self.outside.as_ref().map(|o| o.margin(distance))
    }

    /// Outside the drive: by how many nanoseconds moves to read, and to write, are taken to be longer than the drive model says,
    /// from completions ([`OutsideConfig::correct_moves`](crate::OutsideConfig::correct_moves)).
    pub fn moves_longer_by(&self) -> Option<[i64; 2]> {
        self.outside.as_ref().map(|o| o.correction.moves())
    }

    /// Outside the drive: commands that were sent and are not done.
    pub fn at_drive(&self) -> usize {
        self.outside.as_ref().map_or(0, |o| o.device.len())
    }

    /// Outside the drive: when the host will hear that a command is done, as the core predicts it; of an unknown drive
    /// nothing is predicted, nor of a command that is passed through beside others.
    pub fn predicted(&self, id: CommandId) -> Option<Instant> {
        let outside = self.outside.as_ref().filter(|outside| !outside.blind)?;
        let order = outside.device.iter().find(|o| o.command.id == id)?;
        if order.passed == Some(Passed::BesideOthers) {
            return None;
        }
        Some(outside.clock.host(order.forecast.heard))
    }
}
