//! The state of a scheduler outside the drive in a result, under the names of a daemon's status.

use crate::caution::{MISTRUSTED, unused_because};
use crate::measured::measured;
use crate::tables::{grouped, percent, span};
use scheduler::{Caution, ErrorRecord, Harm, OutsideDrive, PlannerStats};
use serde::Serialize;
use server::Measured;
use sim::Trust;
use std::collections::BTreeMap;
use units::Duration;

/// The state of a scheduler after a run.
#[derive(Clone, Debug)]
pub(crate) struct SchedulerState {
    trust: Trust,
    foresight: ErrorRecord,
    gaps: PlannerStats,
    detours: Harm,
    idle: Harm,
    measured: Option<Measured>,
    /// The bound on the harm of detours, in millionths of the foreground's time at the head; `None`: no bound.
    harm_ppm: Option<u32>,
}

/// The JSON output for scripts; its names are stable, and equal to those in a daemon's status.
#[derive(Debug, Serialize)]
pub(crate) struct OutsideJson {
    caution: Option<&'static str>,
    /// The simulated seconds during which gaps stayed unused, by the reason (caution).
    caution_s: BTreeMap<&'static str, f64>,
    mistrusted: bool,
    foresight: PredictionStatus,
    gaps: Gaps,
    detours: HarmStatus,
    idle: HarmStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
    harm_percent: Option<f64>,
}

#[derive(Debug, Serialize)]
struct PredictionStatus {
    commands: u64,
    late: u64,
    early: u64,
    unexplained: u64,
    within_100us: f64,
}

#[derive(Debug, Serialize)]
struct Gaps {
    seen: u64,
    used: u64,
    extra_revolutions: u64,
}

#[derive(Debug, Serialize)]
struct HarmStatus {
    foreground_us: f64,
    lost_us: f64,
    share: f64,
}

impl HarmStatus {
    fn of(harm: Harm) -> Self {
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        Self { foreground_us: us(harm.foreground), lost_us: us(harm.late), share: harm.share() }
    }
}

const ACCURATE_ERROR_MAX: Duration = Duration::from_micros(100);

impl SchedulerState {
    /// Returns the present state.
    pub(crate) fn of(core: &OutsideDrive, trust: Trust, harm_ppm: Option<u32>) -> Self {
        Self {
            trust,
            foresight: core.prediction_errors().clone(),
            gaps: core.planner_stats(),
            detours: core.detour_harm(),
            idle: core.harm(),
            measured: core.audit_report().map(Measured::from),
            harm_ppm,
        }
    }

    fn harm_percent(&self) -> Option<f64> {
        self.harm_ppm.map(|ppm| f64::from(ppm) / 1e4)
    }

    pub(crate) fn json(&self) -> OutsideJson {
        let Self { trust, foresight, gaps, detours, idle, .. } = self;
        let lasted = |caution: Caution| (caution.name(), trust.lasted(caution).as_secs_f64());
        OutsideJson {
            caution: trust.caution().map(Caution::name),
            caution_s: Caution::ALL.into_iter().map(lasted).collect(),
            mistrusted: trust.is_mistrusted(),
            foresight: PredictionStatus {
                commands: foresight.count(),
                late: foresight.late(),
                early: foresight.early(),
                unexplained: foresight.unexplained(),
                within_100us: foresight.within(ACCURATE_ERROR_MAX),
            },
            gaps: Gaps { seen: gaps.gaps, used: gaps.detours, extra_revolutions: gaps.extra_revolutions },
            detours: HarmStatus::of(*detours),
            idle: HarmStatus::of(*idle),
            measured: self.measured,
            harm_percent: self.harm_percent(),
        }
    }

    /// Returns the state as lines of a page; figures of background work are omitted if there is none.
    pub(crate) fn lines(&self, background: bool) -> Vec<(&'static str, String)> {
        let Self { trust, foresight, gaps, detours, idle, .. } = self;
        let mut lines = Vec::new();
        if foresight.count() > 0 {
            let (within, commands) =
                (percent(foresight.within(ACCURATE_ERROR_MAX)), grouped(foresight.count()));
            lines.push(("predicted", format!("{within} of {commands} commands within 0.1 ms")));
        }
        if background {
            let (used, extra_revolutions) = (grouped(gaps.detours), grouped(gaps.extra_revolutions));
            let extra_revolutions = if gaps.extra_revolutions > 0 {
                format!(", {extra_revolutions} of them with one more revolution")
            } else {
                String::new()
            };
            lines.push(("gaps", format!("{used} of {} used{extra_revolutions}", grouped(gaps.gaps))));
        }
        let lasted = Caution::ALL.map(|caution| (caution, trust.lasted(caution)));
        let lasted: Vec<String> = lasted
            .into_iter()
            .filter(|(_, time)| *time > Duration::ZERO)
            .map(|(caution, time)| format!("{} {}", caution.name(), span(time.as_secs_f64())))
            .collect();
        if !lasted.is_empty() {
            lines.push(("gaps unused", lasted.join(", ")));
        }
        if let Some(why) = trust.caution().and_then(|caution| unused_because(caution.name())) {
            lines.push(("unused now", why.to_owned()));
        }
        if trust.is_mistrusted() {
            lines.push(("MISTRUSTED", MISTRUSTED.to_owned()));
        }
        if background {
            let share = |harm: &Harm| harm.share() * 100.0;
            let most = match self.harm_percent() {
                Some(most) => format!("bound {most}%"),
                None => "no bound".to_owned(),
            };
            let (detours, idle) = (share(detours), share(idle));
            lines.push(("harm", format!("detours {detours:.2}%, idle time {idle:.2}%; {most}")));
            let reported = self.measured.and_then(|reported| serde_json::to_value(reported).ok());
            lines.extend(reported.and_then(|reported| measured(&reported)).map(|line| ("measured", line)));
        }
        lines
    }
}
