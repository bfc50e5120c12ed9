//! The results of a simulation as JSON, in the form of `freeblock simulate --json`. The names are stable; docs/SIMULATE.md has
//! their meanings and units.

use serde::Serialize;
use sim::{ForegroundReport, Report, ResponseReport};

/// The results of a run: shares are fractions of 1, units are in the names.
///
/// ```
/// use model::{DriveModel, builtin};
/// use units::Instant;
/// use workload::{Arrival, Issuer, Oltp, OltpConfig};
/// let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k")?)?;
/// let load = Oltp::new(OltpConfig::new(drive.layout().capacity(), drive.sector_bytes()), 1)?;
/// let load = Issuer::new(load, Arrival::oltp(10), Instant::ZERO, 1)?;
/// let mut run = sim::Inside::new(drive.into(), scheduler::Config::default(), load, sim::Background::None)?;
/// run.advance(100, &mut sim::Nothing)?;
/// let json = serde_json::to_value(freeblock_demo::results::Results::from(&run.report()))?;
/// assert_eq!(json["foreground"]["requests"], 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Serialize)]
pub struct Results {
    foreground: Foreground,
    head_time: HeadTime,
    background: Background,
    simulated_s: f64,
}

impl From<&Report> for Results {
    fn from(report: &Report) -> Self {
        Self {
            foreground: (&report.foreground).into(),
            head_time: (&report.head_time).into(),
            background: (&report.background).into(),
            simulated_s: report.simulated.as_secs_f64(),
        }
    }
}

/// The results of the foreground.
#[derive(Debug, Serialize)]
pub struct Foreground {
    requests: u64,
    mean_response_ms: f64,
    mean_access_ms: f64,
    sd_ms: f64,
    p50_ms: f64,
    p90_ms: f64,
    p95_ms: f64,
    p99_response_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    iops: f64,
    mb_per_s: f64,
    queue_length: f64,
    queue_length_max: u64,
    utilisation: f64,
    reads: Responses,
    writes: Responses,
}

/// The results of the foreground's reads, or of its writes.
#[derive(Debug, Serialize)]
pub struct Responses {
    requests: u64,
    mean_ms: f64,
    sd_ms: f64,
    p50_ms: f64,
    p90_ms: f64,
    p95_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
    max_ms: f64,
    iops: f64,
    mb_per_s: f64,
}

/// The parts of the head's time, as shares of the run.
#[derive(Debug, Serialize)]
pub struct HeadTime {
    seek: f64,
    rotation: f64,
    transfer: f64,
    free_transfer: f64,
    extra_seek: f64,
    idle: f64,
}

/// The results of the background.
#[derive(Debug, Serialize)]
pub struct Background {
    blocks: u64,
    mb_per_s: f64,
    scans_per_day: f64,
    potential_used: f64,
    last5_time_share: Option<f64>,
    done: bool,
}

impl From<&ForegroundReport> for Foreground {
    fn from(report: &ForegroundReport) -> Self {
        Self {
            requests: report.requests,
            mean_response_ms: report.mean_response_ms,
            mean_access_ms: report.mean_access_ms,
            sd_ms: report.sd_ms,
            p50_ms: report.p50_ms,
            p90_ms: report.p90_ms,
            p95_ms: report.p95_ms,
            p99_response_ms: report.p99_response_ms,
            p999_ms: report.p999_ms,
            max_ms: report.max_ms,
            iops: report.iops,
            mb_per_s: report.mb_per_s,
            queue_length: report.queue_length,
            queue_length_max: report.queue_length_max,
            utilisation: report.utilisation,
            reads: (&report.reads).into(),
            writes: (&report.writes).into(),
        }
    }
}

impl From<&ResponseReport> for Responses {
    fn from(report: &ResponseReport) -> Self {
        Self {
            requests: report.requests,
            mean_ms: report.mean_ms,
            sd_ms: report.sd_ms,
            p50_ms: report.p50_ms,
            p90_ms: report.p90_ms,
            p95_ms: report.p95_ms,
            p99_ms: report.p99_ms,
            p999_ms: report.p999_ms,
            max_ms: report.max_ms,
            iops: report.iops,
            mb_per_s: report.mb_per_s,
        }
    }
}

impl From<&sim::HeadTime> for HeadTime {
    fn from(time: &sim::HeadTime) -> Self {
        Self {
            seek: time.seek,
            rotation: time.rotation,
            transfer: time.transfer,
            free_transfer: time.free_transfer,
            extra_seek: time.extra_seek,
            idle: time.idle,
        }
    }
}

impl From<&sim::BackgroundReport> for Background {
    fn from(report: &sim::BackgroundReport) -> Self {
        Self {
            blocks: report.blocks,
            mb_per_s: report.mb_per_s,
            scans_per_day: report.scans_per_day,
            potential_used: report.potential_used,
            last5_time_share: report.last5_time_share,
            done: report.done,
        }
    }
}
