//! FAST'02, section 5.3: transactions on a busy drive, and a scan in their gaps, scheduled outside the drive or in it.

use crate::followed::Followed;
use crate::knowledge::{ATLAS, KnownDrive};
use crate::{LabError, Spread, spread};
use drive::Behaviour;
use scheduler::policy::{PolicyName, SeekWeight};
use scheduler::{Config, ErrorRecord, OutsideConfig, Overheads, PlannerStats, SearchBudget};
use sim::{Background, Direct, ForegroundReport, Inside, Nothing, Outside, Report};
use std::sync::Arc;
use units::{Duration, Instant, Sectors};
use workload::random::Share;
use workload::{Arrival, Issuer, Oltp, OltpConfig, Random, RandomConfig};

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

/// A way to schedule the foreground, and the background work in its gaps.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// The foreground's policy.
    pub policy: PolicyName,
    /// The differences between the drive and its profile.
    pub behaviour: Behaviour,
    /// Makes the configuration of a scheduler outside the drive from the costs of commands and the conservatism;
    /// `None` for the scheduler in the drive.
    pub outside: Option<fn(Overheads, Duration) -> OutsideConfig>,
    /// The time that the scheduler outside adds to each predicted move to a detour and back.
    pub conservatism: Duration,
    /// The limit of the planner's search for a detour.
    pub budget: SearchBudget,
    /// The number of the foreground's tasks, which is the multiprogramming level.
    pub tasks: u32,
    /// Whether tasks have no think time, so that the number of outstanding requests is constant.
    pub restless: bool,
    /// The share of requests that begin where the preceding request ended.
    pub followed: Share,
    /// Whether a scan of the drive runs in the gaps.
    pub scan: bool,
    /// The number of requests at which the run ends, unless a scan ends before.
    pub requests: u64,
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Measured {
    /// The report of the run.
    pub report: Report,
    /// The percentage of commands that ended within 50 us of the prediction.
    pub predicted: f64,
    /// The percentage of commands that took whole revolutions longer than predicted.
    pub late: f64,
    /// The net delay of foreground requests that detours caused, in percent of the foreground's time at the head.
    pub harm: f64,
    /// The counts of the search for detours.
    pub planner: PlannerStats,
}

impl Measured {
    /// Returns the scan's bandwidth, in millions of bytes a second.
    pub fn mb_per_s(&self) -> f64 {
        self.report.background.mb_per_s
    }

    /// Returns the foreground's mean response time.
    pub fn response_ms(&self) -> f64 {
        self.report.foreground.mean_response_ms
    }
}

/// Returns the behaviour of a drive exactly as in its profile, with the bus and the queue of FAST'02's drive, but
/// without read-ahead and with writes acknowledged from the medium.
pub fn exact() -> Behaviour {
    Behaviour {
        queue: Behaviour::fast02().queue,
        read_ahead: Some(false),
        write_back: Some(false),
        ..noiseless_bus()
    }
}

fn noiseless_bus() -> Behaviour {
    Behaviour { bus_sector: Behaviour::fast02().bus_sector, ..Behaviour::default() }
}

impl Trial {
    /// Returns the trial of the paper's scheduler, with a scan, over the black box with its default noise.
    pub fn paper(policy: PolicyName, conservatism: Duration, requests: u64) -> Self {
        Self {
            policy,
            behaviour: Behaviour::fast02(),
            outside: Some(OutsideConfig::paper),
            conservatism,
            budget: SearchBudget::default(),
            tasks: MPL,
            restless: false,
            followed: Share::NONE,
            scan: true,
            requests,
        }
    }

    /// Runs the trial on an Atlas 10K whose true profile the scheduler knows.
    ///
    /// # Errors
    /// The drive cannot have this load or scan.
    pub fn run(&self, seed: u64) -> Result<Measured, LabError> {
        self.run_on(&KnownDrive::truth(ATLAS)?, seed)
    }

    /// Runs the trial on a drive of which the scheduler has this knowledge.
    ///
    /// # Errors
    /// The drive cannot have this load or scan.
    pub fn run_on(&self, known_drive: &KnownDrive, seed: u64) -> Result<Measured, LabError> {
        let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new("an OLTP load", e);
        let arrival =
            if self.restless { Arrival::outstanding(self.tasks) } else { Arrival::oltp(self.tasks) };
        let foreground = load(known_drive, self.followed, arrival, seed)?;
        let scan = if self.scan { Background::Scan { block: BLOCK } } else { Background::None };
        let config = Config::default().with_policy(self.policy).with_budget(self.budget);
        let Some(outside) = self.outside else {
            let truth = Arc::clone(&known_drive.truth);
            let mut run = Inside::new(truth, config, foreground, scan).map_err(|e| failed(e.into()))?;
            run.advance_scan(self.requests, &mut Nothing).map_err(|e| failed(e.into()))?;
            let planner = run.planner_stats();
            return Ok(Measured { report: run.report(), predicted: 100.0, late: 0.0, harm: 0.0, planner });
        };
        let (drive, overheads) = known_drive.black_box(self.behaviour, seed)?;
        let outside = known_drive.believed(outside(overheads, self.conservatism));
        let config = config.with_outside(outside);
        let known = Arc::clone(&known_drive.known);
        let mut run = Outside::new(drive, known, config, foreground, scan).map_err(|e| failed(e.into()))?;
        run.advance_scan(self.requests, &mut Nothing).map_err(|e| failed(e.into()))?;
        let predicted = run.prediction_errors().within(ACCURATE_ERROR_MAX) * 100.0;
        let errors = run.prediction_errors();
        let late = 100.0 * errors.late() as f64 / errors.count().max(1) as f64;
        let harm = run.core().detour_harm().share() * 100.0;
        Ok(Measured { report: run.report(), predicted, late, harm, planner: run.planner_stats() })
    }
}

/// The error at which a prediction counts as accurate, for requests of 4 KB (FAST'02, figure 7).
pub const ACCURATE_ERROR_MAX: Duration = Duration::from_micros(50);

fn oltp(known_drive: &KnownDrive, arrival: Arrival, seed: u64) -> Result<Issuer<Followed<Oltp>>, LabError> {
    load(known_drive, Share::NONE, arrival, seed)
}

fn load(
    known_drive: &KnownDrive,
    followed: Share,
    arrival: Arrival,
    seed: u64,
) -> Result<Issuer<Followed<Oltp>>, LabError> {
    let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new("an OLTP load", e);
    let capacity = known_drive.truth.layout().capacity();
    let load = OltpConfig::new(capacity, known_drive.truth.sector_bytes());
    let load = Oltp::new(load, seed).map_err(|e| failed(e.into()))?;
    let load = Followed::new(load, followed, capacity, seed);
    Issuer::new(load, arrival, Instant::ZERO, seed).map_err(|e| failed(e.into()))
}

/// Measures how well the core itself predicts random requests of 4 KB (figure 7), first come first served, over the
/// default noise.
///
/// # Errors
/// The drive cannot have this load.
pub fn predicted(known_drive: &KnownDrive, requests: u64, seed: u64) -> Result<ErrorRecord, LabError> {
    let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new("a random load", e);
    let load = RandomConfig::new(known_drive.truth.layout().capacity(), known_drive.truth.sector_bytes());
    let load = Random::new(load, seed).map_err(|e| failed(e.into()))?;
    let load =
        Issuer::new(load, Arrival::outstanding(10), Instant::ZERO, seed).map_err(|e| failed(e.into()))?;
    let (drive, overheads) = known_drive.black_box(Behaviour::fast02(), seed)?;
    // The conservatism is zero, because it widens only the moves of detours, and no detours are made here.
    let outside = known_drive.believed(OutsideConfig::paper(overheads, Duration::ZERO));
    let config = Config::outside(outside);
    let known = Arc::clone(&known_drive.known);
    let mut run = Outside::new(drive, known, config, load, Background::None).map_err(|e| failed(e.into()))?;
    run.advance(requests, &mut Nothing).map_err(|e| failed(e.into()))?;
    Ok(run.prediction_errors().clone())
}

/// Runs the OLTP load with this number of requests outstanding, all of them at the drive, whose firmware chooses
/// their order (figure 8). The drive has its default noise.
///
/// # Errors
/// The drive cannot have this load.
pub fn by_the_firmware(
    known_drive: &KnownDrive,
    outstanding: u32,
    requests: u64,
    seed: u64,
) -> Result<ForegroundReport, LabError> {
    let (drive, _) = known_drive.black_box(Behaviour::fast02(), seed)?;
    let load = oltp(known_drive, Arrival::outstanding(outstanding), seed)?;
    let mut run = Direct::new(drive, outstanding as usize, load);
    run.advance(requests, |_| {}).map_err(|e| LabError::new("an OLTP load", e))?;
    Ok(run.report())
}

/// Runs the OLTP load with at most two requests in the drive, and this policy in front of it (figure 8).
///
/// # Errors
/// The drive cannot have this load.
pub fn in_front(
    policy: PolicyName,
    known_drive: &KnownDrive,
    outstanding: u32,
    requests: u64,
    seed: u64,
) -> Result<ForegroundReport, LabError> {
    let paper = Trial::paper(policy, Duration::ZERO, requests);
    let trial = Trial { tasks: outstanding, restless: true, scan: false, ..paper };
    Ok(trial.run_on(known_drive, seed)?.report.foreground)
}

/// Returns by how many percent the foreground's responses are longer than without a scan, seed by seed.
pub fn slower(with: &[Measured], without: &[Measured]) -> Spread {
    let pairs: Vec<(f64, f64)> =
        with.iter().zip(without).map(|(a, b)| (a.response_ms(), b.response_ms())).collect();
    spread(&pairs, |(with, without)| (with / without - 1.0) * 100.0)
}

/// Returns the quantity `of` in some runs as percent of that in others, seed by seed.
pub fn percent_of(part: &[Measured], whole: &[Measured], of: fn(&Measured) -> f64) -> Spread {
    let pairs: Vec<(f64, f64)> = part.iter().zip(whole).map(|(a, b)| (of(a), of(b))).collect();
    spread(&pairs, |(part, whole)| 100.0 * part / whole)
}

/// Returns the duration of this number of hundredths of a millisecond.
pub const fn hundredths(ms: u64) -> Duration {
    Duration::from_micros(ms * 10)
}
