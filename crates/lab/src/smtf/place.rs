//! A drive with the profile of a real one and with noise, and the schedulers to run on it.

use super::{Bare, Bench, Chooser, FromProfile, Real, Scheduler, SmtfHost, SmtfTally, probed};
use crate::LabError;
use drive::Behaviour;
use mimic::{CheckPoints, Learner, LearnerConfig, Metric, Pair, ProbePlan, ProbeReport, Table};
use model::{DriveModel, Profile, builtin};
use std::sync::Arc;
use units::{Bytes, Instant, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig};

/// The number of outstanding requests.
const WAITING_REQUESTS: u32 = 20;
/// The commands after which the prober of a profile gives up: ten times the usual number.
const PROBING_COMMANDS_MAX: u64 = 300_000;
/// The number of samples of each distance in a table of all distances.
const SAMPLES: u32 = 20;
/// The bytes at the start of a drive that a local load uses.
const LOCAL_BYTES: u64 = 100_000_000;

/// A drive with noise, and the part of the drive that requests use.
pub(crate) struct Place {
    pub(crate) profile: Profile,
    pub(crate) area: Sectors,
    pub(crate) block: Sectors,
    pub(crate) behaviour: Behaviour,
}

impl Place {
    pub(crate) fn new(name: &str, local: bool) -> Result<Self, LabError> {
        let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new(format!("drive {name}"), e);
        let profile = builtin::find(name).map_err(|e| failed(e.into()))?;
        let model = DriveModel::from_profile(&profile).map_err(|e| failed(e.into()))?;
        let (sector, capacity) = (model.sector_bytes().get(), model.layout().capacity());
        let area = if local { capacity.min(Sectors::new(LOCAL_BYTES / sector)) } else { capacity };
        Ok(Self {
            profile,
            area,
            block: Sectors::new((4_096 / sector).max(1)),
            behaviour: Behaviour::fast02(),
        })
    }

    pub(crate) fn drive(&self, seed: u64) -> Result<Real, LabError> {
        Real::new(&self.profile, self.behaviour, seed)
    }

    pub(crate) fn load(&self, seed: u64) -> Result<Issuer<Random>, LabError> {
        let failed = |e| LabError::new("random requests", e);
        let sector = Bytes::new(u64::from(self.profile.sector_bytes));
        let load = Random::new(RandomConfig::new(self.area, sector), seed).map_err(failed)?;
        Issuer::new(load, Arrival::outstanding(WAITING_REQUESTS), Instant::ZERO, seed).map_err(failed)
    }

    /// Returns the mean time that requests spend at the drive, over the last tenth of this number of requests, ms.
    pub(crate) fn run(&self, chooser: impl Chooser, requests: u64, seed: u64) -> Result<f64, LabError> {
        let mut host = SmtfHost::new(self.drive(seed)?, self.load(seed)?, chooser);
        host.advance(requests - requests / 10)?;
        Ok(mean_ms(&host.advance(requests / 10)?))
    }

    /// Returns how much slower SMTF is than greedy-optimal without noise and electronics, with every distance probed,
    /// in percent. This loss remains because times depend on more than the distance.
    pub(crate) fn every_distance(&self, requests: u64, seed: u64) -> Result<f64, LabError> {
        let failed = |e| LabError::new(format!("drive {}", self.profile.name), e);
        let disk = Arc::new(DriveModel::from_profile(&self.profile).map_err(failed)?);
        let bench = Bench::new(&disk, SAMPLES, seed).within(self.area);
        let run = |scheduler| {
            let mut host =
                SmtfHost::new(Bare::new(Arc::clone(&disk)), self.load(seed)?, bench.chooser(scheduler));
            Ok::<_, LabError>(mean_ms(&host.advance(requests)?))
        };
        Ok(slower(run(Scheduler::Smtf(Metric::Mean))?, run(Scheduler::GreedyOptimal)?))
    }

    pub(crate) fn sptf(&self, seed: u64) -> Result<FromProfile, LabError> {
        FromProfile::true_to(&self.profile, self.behaviour, self.block, seed)
    }

    /// Returns SPTF by a probed profile, and whether the probe succeeded with noise; if not, the drive is probed
    /// without noise.
    pub(crate) fn probed_sptf(&self, seed: u64) -> Result<(FromProfile, bool), LabError> {
        let noisy = self.drive(seed)?.probed_profile(PROBING_COMMANDS_MAX)?;
        let through_noise = noisy.is_some();
        let found = match noisy {
            Some(profile) => Some(profile),
            None => {
                Real::new(&self.profile, Behaviour::default(), seed)?.probed_profile(PROBING_COMMANDS_MAX)?
            }
        };
        let none =
            || LabError::new("probing the drive", format!("{PROBING_COMMANDS_MAX} commands were not enough"));
        Ok((FromProfile::by(&found.ok_or_else(none)?)?, through_noise))
    }

    /// Returns the default plan of `freeblock mimic probe`.
    pub(crate) fn plan(&self, accesses: u64, seed: u64) -> ProbePlan {
        ProbePlan {
            most_accesses: accesses,
            check_points: CheckPoints::CAREFUL,
            seed,
            ..ProbePlan::new(self.area, self.block)
        }
    }

    pub(crate) fn table(&self, accesses: u64, seed: u64) -> Result<(Table, ProbeReport), LabError> {
        probed(&mut self.drive(seed)?, self.plan(accesses, seed))
    }

    /// Returns a table of all pairs of reads and writes. Each pair is probed with the number of requests that
    /// [`table`](Self::table) spends on reads after reads.
    pub(crate) fn table_of_all_kinds(&self, accesses: u64, seed: u64) -> Result<Table, LabError> {
        let pairs = Pair::ALL.to_vec();
        let accesses = accesses.saturating_mul(pairs.len() as u64);
        let plan = ProbePlan { pairs, ..self.plan(accesses, seed) };
        Ok(probed(&mut self.drive(seed)?, plan)?.0)
    }

    pub(crate) fn learner(
        &self,
        notice_change: bool,
        table: Option<Table>,
        seed: u64,
    ) -> Result<Learner, LabError> {
        let config = LearnerConfig { notice_change, seed, ..LearnerConfig::new(self.area, self.block) };
        Learner::new(config, table).map_err(|e| LabError::new("the learner", e))
    }
}

pub(crate) fn mean_ms(tally: &SmtfTally) -> f64 {
    tally.busy.as_millis_f64() / tally.requests as f64
}

/// Returns how much slower `a` is than `b`, in percent.
pub(crate) fn slower(a: f64, b: f64) -> f64 {
    (a / b - 1.0) * 100.0
}

/// Returns the distances interpolated without confirmation, in percent of all distances of the table.
pub(crate) fn unconfirmed(report: &ProbeReport) -> f64 {
    report.unconfirmed as f64 / report.distances.max(1) as f64 * 100.0
}
