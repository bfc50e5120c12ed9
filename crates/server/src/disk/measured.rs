//! The measured cost of background work, as the status shows it.

use scheduler::{AuditArm, AuditReport, AuditWindow, Interval};
use serde::Serialize;

/// The requests in all time windows of one kind, for example of those with background work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MeasuredArm {
    /// The number of windows.
    pub windows: u64,
    /// The requests that arrived and were done in these windows.
    pub requests: u64,
    /// The mean response time of these requests, in milliseconds.
    pub response_ms: f64,
}

impl MeasuredArm {
    fn of(arm: AuditArm) -> Self {
        Self { windows: arm.windows, requests: arm.requests, response_ms: arm.response_ms }
    }
}

/// An increase of the mean response time, as a share of that mean, with the ends of its 95% confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeasuredShare {
    /// The lower end of the interval.
    pub low: f64,
    /// The estimate.
    pub mean: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl From<Interval> for MeasuredShare {
    fn from(Interval { low, mean, high, .. }: Interval) -> Self {
        Self { low, mean, high }
    }
}

/// The cost of background work to clients, measured by comparing windows of time ([`AuditReport`]): in some windows no
/// background work is done, and in some of these the drive gets each request at once. A share is missing until enough
/// windows have been compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Measured {
    /// The requests that arrived while background work was wanted.
    pub requests: u64,
    /// Windows with background work.
    pub on: MeasuredArm,
    /// Windows without background work.
    pub plain: MeasuredArm,
    /// Windows of the disk alone: without background work, and with requests in the drive's own order.
    pub through: MeasuredArm,
    /// The number of window pairs that must still be compared before `background` is known, and before `order` is.
    pub pairs_missing: [u64; 2],
    /// The increase by background work: `on` against `plain`.
    pub background: Option<MeasuredShare>,
    /// The increase by the order in which requests are sent: `plain` against `through`.
    pub order: Option<MeasuredShare>,
    /// The upper bound on the increase of the mean response time, with 95% confidence at all times since a bound was
    /// first known.
    pub bound: Option<f64>,
    /// The increase of the mean response time that the estimate of harm does not include. It is subtracted from the
    /// bound on harm.
    pub unaccounted: Option<f64>,
    /// The kind of the current window: `on`, `plain` or `through`.
    pub window: &'static str,
}

impl From<AuditReport> for Measured {
    fn from(report: AuditReport) -> Self {
        Self {
            requests: report.requests,
            on: MeasuredArm::of(report.on),
            plain: MeasuredArm::of(report.plain),
            through: MeasuredArm::of(report.through),
            pairs_missing: report.pairs_missing,
            background: report.background_response.map(MeasuredShare::from),
            order: report.assistance_response.map(MeasuredShare::from),
            bound: report.promise.map(|promise| promise.bound),
            unaccounted: report.unaccounted,
            window: match report.window {
                AuditWindow::Plain => "plain",
                AuditWindow::Through => "through",
                _ => "on",
            },
        }
    }
}
