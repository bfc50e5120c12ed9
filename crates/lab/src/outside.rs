//! FAST'02, section 5.3: transactions on a busy drive, and a scan in their gaps, scheduled outside the drive or in it.

use crate::set_up::{self, ATLAS_10K};
use crate::{LabError, Spread, spread};
use drive::Behaviour;
use model::{DriveModel, builtin};
use scheduler::policy::{PolicyName, SeekWeight};
use scheduler::{Config, OutsideConfig, Overheads, Place};
use sim::{Background, Inside, Nothing, Outside, Report, black_box};
use std::sync::Arc;
use units::{Duration, Instant, Sectors};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

/// The paper's multiprogramming level.
pub const MPL: u32 = 10;

/// Sectors of 512 bytes in the scan's block of 4 KB.
const BLOCK: Sectors = Sectors::new(8);

/// The three foreground schedulers of the paper.
pub const POLICIES: [(PolicyName, &str); 3] = [
    (PolicyName::Sptf, "SPTF"),
    (PolicyName::SptfSw(SeekWeight::percent(60)), "SPTF-SW60%"),
    (PolicyName::Sstf, "SSTF"),
];

/// How the foreground is scheduled, and what is done in its gaps.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The foreground's policy.
    pub policy: PolicyName,
    /// In what the drive differs from its profile.
    pub behaviour: Behaviour,
    /// The scheduler outside, told what commands cost; `None` for the one in the drive.
    pub outside: Option<fn(Overheads, Duration) -> OutsideConfig>,
    /// Its conservatism.
    pub conservatism: Duration,
    /// Whether there is a scan.
    pub scan: bool,
    /// The run ends after so many requests, a scan's at its end if that comes sooner.
    pub requests: u64,
}

/// What came out of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The report.
    pub report: Report,
    /// Of all commands, those done within 50 us of the prediction, in percent.
    pub foreseen: f64,
    /// What detours that were back too late cost the foreground at most, in percent of its time.
    pub harm: f64,
}

impl Measured {
    /// The scan's bandwidth, in millions of bytes a second.
    pub fn mb_per_s(&self) -> f64 {
        self.report.background.mb_per_s
    }

    /// The foreground's mean response time.
    pub fn response_ms(&self) -> f64 {
        self.report.foreground.mean_response_ms
    }
}

/// An ideal drive for commands: exact, two at a time, nothing read ahead, no time but the medium's.
pub fn exact() -> Behaviour {
    Behaviour {
        queue: Behaviour::noisy().queue,
        read_ahead: Some(false),
        write_back: Some(false),
        ..noiseless_bus()
    }
}

fn noiseless_bus() -> Behaviour {
    Behaviour { bus_sector: Behaviour::noisy().bus_sector, ..Behaviour::default() }
}

/// The scheduler without the paper's restrictions, at a constant conservatism: a model of what could be had in the drive
/// with this conservatism.
pub fn unrestricted(overheads: Overheads, conservatism: Duration) -> OutsideConfig {
    OutsideConfig {
        on_source: true,
        on_destination: true,
        both_sides: true,
        merge_after: true,
        ..OutsideConfig::paper(overheads, conservatism)
    }
}

impl Trial {
    /// The paper's scheduler over the black box with its default noise, with a scan.
    pub fn paper(policy: PolicyName, conservatism: Duration, requests: u64) -> Self {
        Self {
            policy,
            behaviour: Behaviour::noisy(),
            outside: Some(OutsideConfig::paper),
            conservatism,
            scan: true,
            requests,
        }
    }

    /// Runs it.
    ///
    /// # Errors
    /// A load or a scan that the drive cannot have.
    pub fn run(&self, seed: u64) -> Result<Measured, LabError> {
        let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new("an OLTP load", e);
        let profile = builtin::find(ATLAS_10K).map_err(|e| failed(e.into()))?;
        let model: Arc<DriveModel> = set_up::drive(ATLAS_10K)?;
        let load = OltpConfig::new(model.layout().capacity(), model.sector_bytes());
        let load = Oltp::new(load, seed).map_err(|e| failed(e.into()))?;
        let arrival = Arrival::oltp(MPL);
        let foreground = Issuer::new(load, arrival, Instant::ZERO, seed).map_err(|e| failed(e.into()))?;
        let scan = if self.scan { Background::Scan { block: BLOCK } } else { Background::None };
        let config = Config { policy: self.policy, ..Config::default() };
        let Some(outside) = self.outside else {
            let mut run = Inside::new(model, config, foreground, scan).map_err(|e| failed(e.into()))?;
            run.advance_scan(self.requests, &mut Nothing).map_err(|e| failed(e.into()))?;
            return Ok(Measured { report: run.report(), foreseen: 100.0, harm: 0.0 });
        };
        let (drive, overheads) = black_box(&profile, self.behaviour, seed).map_err(|e| failed(e.into()))?;
        let place = Place::Outside(outside(overheads, self.conservatism));
        let config = Config { place, ..config };
        let mut run = Outside::new(drive, model, config, foreground, scan).map_err(|e| failed(e.into()))?;
        run.advance_scan(self.requests, &mut Nothing).map_err(|e| failed(e.into()))?;
        let foreseen = run.prediction_errors().map_or(0.0, |e| e.within(Duration::from_micros(50)) * 100.0);
        let harm = run.core_mut().detour_harm().map_or(0.0, |harm| harm.share() * 100.0);
        Ok(Measured { report: run.report(), foreseen, harm })
    }
}

/// By how many percent the foreground's responses are longer than without a scan, seed by seed.
pub fn slower(with: &[Measured], without: &[Measured]) -> Spread {
    let pairs: Vec<(f64, f64)> =
        with.iter().zip(without).map(|(a, b)| (a.response_ms(), b.response_ms())).collect();
    spread(&pairs, |(with, without)| (with / without - 1.0) * 100.0)
}

/// One as percent of the other, seed by seed.
pub fn percent_of(part: &[Measured], whole: &[Measured], of: fn(&Measured) -> f64) -> Spread {
    let pairs: Vec<(f64, f64)> = part.iter().zip(whole).map(|(a, b)| (of(a), of(b))).collect();
    spread(&pairs, |(part, whole)| 100.0 * part / whole)
}

/// Milliseconds, in hundredths.
pub const fn hundredths(ms: u64) -> Duration {
    Duration::from_micros(ms * 10)
}
