//! The cost at the head of each foreground command, as input of the audit.

use super::super::command::Passed;
use super::super::forecast::Standing;
use super::super::predict::forecast;
use super::super::transfer::Transfer;
use super::super::{Order, Outcome, Outside, Work};
use super::audit::{Audit, AuditReport, AuditWindow};
use super::compare::Served;
use crate::core::Core;
use crate::core::config::AuditConfig;
use crate::core::under_way::revolution;
use model::DriveModel;
use units::Instant;

/// The audit, and the state in which the last foreground command left the drive.
#[derive(Clone, Debug)]
pub(in super::super) struct Cost {
    audit: Audit,
    from: Standing,
    /// The host's times at which the last foreground command was done, and the one before it.
    heard: [Instant; 2],
}

impl Cost {
    /// Returns an audit of a drive in the state `from`; `through` tells whether requests can be passed through to the drive.
    pub fn new(config: AuditConfig, drive: &DriveModel, from: Standing, through: bool) -> Self {
        Self { audit: Audit::new(config, revolution(drive), through), from, heard: [Instant::ZERO; 2] }
    }

    /// Returns the kind of the current window.
    pub fn window(&self) -> AuditWindow {
        self.audit.window()
    }

    /// Returns the part of a bound on harm that the harm estimate may use, in ppm.
    pub fn left_of(&self, bound_ppm: u32) -> u32 {
        self.audit.left_of(bound_ppm)
    }

    /// Returns the results of the audit so far.
    pub fn report(&self, now: Instant) -> AuditReport {
        self.audit.report(now)
    }
}

impl Outside {
    /// Returns whether the audit's current window excludes background work.
    pub(in super::super) fn is_off(&self) -> bool {
        self.cost.as_ref().is_some_and(|cost| cost.window() != AuditWindow::On)
    }

    /// Returns whether the audit's current window passes requests to the drive as they come, for comparison.
    pub(in super::super) fn is_through(&self) -> bool {
        self.cost.as_ref().is_some_and(|cost| cost.window() == AuditWindow::Through)
    }

    /// Returns the instant at which the audit's window ends if no more requests come.
    pub(in super::super) fn window_ends_at(&self) -> Option<Instant> {
        self.cost.as_ref().and_then(|cost| cost.audit.ends_at())
    }
}

impl Core {
    /// Begins the audit's next window if the current one is over.
    pub(in super::super) fn advance_audit(&self, outside: &mut Outside, now: Instant) {
        let present = !self.pool.is_empty() || outside.foreground_commands().next().is_some();
        let wanted = !self.background.is_idle() || outside.readings.are_wanted();
        if let Some(cost) = &mut outside.cost {
            cost.audit.advance(now, wanted, present);
        }
    }

    /// Reports a finished foreground command to the audit, when the drive's state after it is known. The time of a command
    /// that failed is added to the next one's.
    pub(in super::super) fn audit(&self, outside: &mut Outside, order: &Order, outcome: Outcome<'_>) {
        let Some(mut cost) = outside.cost.take() else { return };
        if let (Work::Foreground { job, .. }, Outcome::Done) = (&order.work, outcome) {
            let pending = &job.pending;
            let charged =
                if pending.promoted.is_none() { core::mem::take(&mut outside.charged_nanos) } else { 0 };
            let asked = order.command.foreground.unwrap_or(order.command.range);
            let others = || self.pool.iter().chain(outside.foreground_commands());
            let served = Served {
                arrived: pending.arrived,
                heard: self.now,
                since: others().map(|other| other.arrived).fold(pending.arrived, Instant::min),
                last: cost.heard[0],
                // The drive chose the order: no single command is forecast.
                forecast: (!outside.blind && order.passed != Some(Passed::BesideOthers)).then(|| {
                    // Without background work the request would have been sent when the last command but one was done.
                    let sent = outside.clock.platter(pending.arrived.max(cost.heard[1]));
                    let what = Transfer::new(order.command.op, asked);
                    let overheads = &outside.config.overheads;
                    let plain = forecast(&self.drive, overheads, &cost.from, sent, outside.held_back, what);
                    outside.clock.host(plain.forecast.heard)
                }),
                outstanding: others().count() + 1,
                charged,
            };
            if pending.promoted.is_none() {
                cost.audit.served(&served);
            }
            cost.heard = [self.now, cost.heard[0]];
            cost.from = outside.base;
        }
        outside.cost = Some(cost);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OutsideConfig, Overheads};
    use model::builtin;

    #[test]
    fn harm_found_by_the_audit_is_taken_off_the_bounds_of_detours_and_of_streams() {
        let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
        let config = OutsideConfig::beyond(Overheads::default()).serving();
        let config = OutsideConfig { audit: Some(AuditConfig::new(1)), ..config };
        let mut outside = Outside::new(&drive, config);
        let bounds = |outside: &Outside| [outside.detour_bound().unwrap(), outside.bound_of_streams(10_000)];
        let [detours, streams] = bounds(&outside);
        assert_eq!(streams, 10_000);
        outside.cost.as_mut().unwrap().audit = Audit::of(0.4);
        assert_eq!(bounds(&outside), [detours * 6 / 10, 6_000]);
    }
}
