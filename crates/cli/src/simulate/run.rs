//! A run of the simulator, until a number of requests or the scan is done.

use super::outside::SchedulerState;
use super::watch::RunWatch;
use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use crate::progress::Progress;
use crate::values::Warmup;
use drive::{CommandError, Drive};
use mimic::Learner;
use model::DriveModel;
use scheduler::policy::ForeignPolicy;
use scheduler::{Config, SubmitError};
use sim::{
    Array, Background, CacheReport, Direct, Inside, Member, Observer, Outside, Report, ScanProgress,
    SetupError, Statistics,
};
use std::sync::Arc;
use units::Instant;
use workload::{Issuer, Source};

/// The event that ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    /// This number of foreground requests is done.
    Requests(u64),
    /// The scan has read every block.
    ScanDone,
}

/// The number of requests between two updates of the progress.
const STRIDE_REQUESTS: u64 = 2_000;

/// The number of requests without progress after which a scan counts as stuck.
const STUCK_REQUESTS: u64 = 10_000_000;

/// Bounds the virtual time to 100 years, so that no stride reaches the 584 years at which an `Instant` overflows.
const VIRTUAL_TIME_MAX: Instant = Instant::from_nanos(100 * 365 * 86_400 * 1_000_000_000);

/// The host of a simulation, by where the scheduler core runs.
enum Host<S> {
    Inside(Box<Inside<S>>),
    Outside(Box<Outside<S>>),
    /// No core: the drive serves the load alone.
    Device(Box<Direct<Drive, S>>),
    /// Several drives, each with a core inside it, outside it, or without one.
    Array(Box<Array<S>>),
}

/// Evaluates an expression for every kind of host.
macro_rules! every {
    ($host:expr, $run:ident => $of:expr) => {
        match $host {
            Host::Inside($run) => $of,
            Host::Outside($run) => $of,
            Host::Device($run) => $of,
            Host::Array($run) => $of,
        }
    };
}

/// Evaluates one expression for a host with one scheduler core, and another for a host with none or several.
macro_rules! with_core {
    ($host:expr, $run:ident => $of:expr, $else:expr) => {
        match $host {
            Host::Inside($run) => $of,
            Host::Outside($run) => $of,
            Host::Device(_) | Host::Array(_) => $else,
        }
    };
}

/// The number of time slices of a warm-up, between which a run can be ended.
const WARMUP_SLICES: u64 = 100;

/// A simulation under way.
pub(crate) struct Run<S> {
    host: Host<S>,
    /// The number of blocks that the scan had read at its last progress, and the number of requests done then.
    yielded: (u64, u64),
}

impl<S: Source> Run<S> {
    /// Sets up a simulation with the core inside the drive.
    ///
    /// # Errors
    /// The core refuses the background work.
    pub(crate) fn new(
        drive: Arc<DriveModel>,
        config: Config,
        foreground: Issuer<S>,
        background: Background,
    ) -> Result<Self, Problem> {
        let inside = Inside::new(drive, config, foreground, background).map_err(problem)?;
        Ok(Self { host: Host::Inside(Box::new(inside)), yielded: (0, 0) })
    }

    /// Sets up a simulation with the core outside the drive.
    ///
    /// # Errors
    /// The core refuses the background work.
    pub(crate) fn outside(
        device: Drive,
        known: Arc<DriveModel>,
        config: Config,
        foreground: Issuer<S>,
        background: Background,
    ) -> Result<Self, Problem> {
        let outside = Outside::new(device, known, config, foreground, background).map_err(problem)?;
        Ok(Self { host: Host::Outside(Box::new(outside)), yielded: (0, 0) })
    }

    /// Sets up a drive that serves the load alone.
    pub(crate) fn device(device: Drive, foreground: Issuer<S>) -> Self {
        let direct = Direct::new(device, usize::MAX, foreground);
        Self { host: Host::Device(Box::new(direct)), yielded: (0, 0) }
    }

    /// Puts a load on several drives.
    pub(crate) fn array(array: Array<S>) -> Self {
        Self { host: Host::Array(Box::new(array)), yielded: (0, 0) }
    }

    /// Runs until the goal is reached, the load has ended, a calling program ends the run, or Ctrl-C does if it is
    /// [watched](interrupt::watch). Returns whether the run ended by itself.
    ///
    /// # Errors
    /// As [`stride`](Self::stride), and the log or the time series cannot go on.
    pub(super) fn advance(
        &mut self,
        goal: Goal,
        label: &str,
        watch: &mut RunWatch<'_, '_>,
        console: &Console,
    ) -> Result<bool, Problem> {
        let mut progress = self.progress(goal, label, console);
        loop {
            let more = self.stride(goal, watch)?;
            watch.check()?;
            if !more {
                return Ok(true);
            }
            progress.at(self.position(goal));
            if interrupt::came() || console.is_stopped() {
                return Ok(false);
            }
        }
    }

    /// Runs the warm-up, which the results leave out.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub(super) fn warm_up(
        &mut self,
        warmup: Option<Warmup>,
        watch: &mut RunWatch<'_, '_>,
        console: &Console,
    ) -> Result<(), Problem> {
        match warmup {
            None => {}
            Some(Warmup::Requests(requests)) => {
                self.advance(Goal::Requests(requests), "warming up", watch, console)?;
            }
            Some(Warmup::Time(time)) => {
                for slice in 1..=WARMUP_SLICES {
                    let end = Instant::ZERO + (time - time / WARMUP_SLICES * (WARMUP_SLICES - slice));
                    self.advance_to(end, watch)?;
                    if interrupt::came() || console.is_stopped() {
                        break;
                    }
                }
            }
        }
        every!(&mut self.host, run => run.measure_from_now());
        watch.measure_from(self.now());
        Ok(())
    }

    /// Processes every event before `end`.
    ///
    /// # Errors
    /// As [`stride`](Self::stride).
    pub(crate) fn advance_to(&mut self, end: Instant, observer: &mut impl Observer) -> Result<(), Problem> {
        every!(&mut self.host, run => run.advance_to(end, observer)).map_err(problem)
    }

    /// Returns the virtual time.
    pub(crate) fn now(&self) -> Instant {
        every!(&self.host, run => run.now())
    }

    /// Returns a progress bar up to the goal.
    pub(crate) fn progress(&self, goal: Goal, label: &str, console: &Console) -> Progress {
        let whole = match goal {
            Goal::Requests(requests) => requests,
            Goal::ScanDone => self.scan_progress().map_or(0, |scan| scan.blocks),
        };
        Progress::new(console, label, whole)
    }

    /// Returns the progress toward the goal.
    pub(crate) fn position(&self, goal: Goal) -> u64 {
        match goal {
            Goal::Requests(_) => self.requests(),
            Goal::ScanDone => self.delivered(),
        }
    }

    /// Runs some thousand requests at most. Returns whether there is more to do.
    ///
    /// # Errors
    /// The drive cannot keep up with the load, a scan is stuck, or a hundred simulated years are over.
    pub(crate) fn stride(&mut self, goal: Goal, observer: &mut impl Observer) -> Result<bool, Problem> {
        let stride = match goal {
            Goal::Requests(requests) => STRIDE_REQUESTS.min(requests.saturating_sub(self.requests())),
            Goal::ScanDone => STRIDE_REQUESTS,
        };
        let scan = goal == Goal::ScanDone;
        let more = match &mut self.host {
            Host::Inside(run) if scan => run.advance_scan(stride, observer),
            Host::Inside(run) => run.advance(stride, observer),
            Host::Outside(run) if scan => run.advance_scan(stride, observer),
            Host::Outside(run) => run.advance(stride, observer),
            Host::Array(run) if scan => run.advance_scan(stride, observer),
            Host::Array(run) => run.advance(stride, observer),
            Host::Device(run) => run.advance_observed(stride, observer),
        };
        let more = more.map_err(problem)?;
        let (done, delivered) = (self.requests(), self.delivered());
        if !more || matches!(goal, Goal::Requests(requests) if done >= requests) {
            return Ok(false);
        }
        if delivered > self.yielded.0 {
            self.yielded = (delivered, done);
        } else if goal == Goal::ScanDone && done - self.yielded.1 >= STUCK_REQUESTS {
            return Err(Problem::failed(format!(
                "the scan has got {delivered} blocks and no more in the last {STUCK_REQUESTS} requests"
            ))
            .help("give smaller blocks, another policy, or --requests to end the run there"));
        }
        if self.now() > VIRTUAL_TIME_MAX {
            return Err(Problem::failed(format!(
                "a hundred years have been simulated after {done} requests"
            ))
            .help("give fewer requests, or shorter pauses between them"));
        }
        Ok(true)
    }

    /// Returns the number of the scan's blocks that were delivered, and of all its blocks; `None` without a scan.
    pub(crate) fn scan_progress(&self) -> Option<ScanProgress> {
        match &self.host {
            Host::Inside(run) => run.scan_progress(),
            Host::Outside(run) => run.scan_progress(),
            Host::Array(run) => run.scan_progress(),
            Host::Device(_) => None,
        }
    }

    fn delivered(&self) -> u64 {
        self.scan_progress().map_or(0, |scan| scan.delivered)
    }

    /// Returns the number of foreground requests done.
    pub(crate) fn requests(&self) -> u64 {
        every!(&self.host, run => run.requests())
    }

    /// Sets a calling program's policy in place of that of `--policy`.
    pub(crate) fn set_policy(&mut self, policy: Option<Box<dyn ForeignPolicy>>) {
        if let Some(policy) = policy {
            with_core!(&mut self.host, run => run.core_mut().set_policy(policy), ());
        }
    }

    /// Sets the mimic of SMTF.
    pub(crate) fn set_mimic(&mut self, learner: Option<Learner>) {
        let mimic = learner.map(|learner| Box::new(learner) as _);
        with_core!(&mut self.host, run => drop(run.core_mut().set_mimic(mimic)), ());
    }

    /// Returns the mimic in its present state.
    pub(crate) fn learner(&self) -> Option<&Learner> {
        with_core!(&self.host, run => run.core().mimic(), None)
    }

    /// Returns the state of a core outside the drive, with the bound on harm in millionths.
    pub(crate) fn scheduler_state(&self, harm_ppm: Option<u32>) -> Option<SchedulerState> {
        match &self.host {
            Host::Inside(_) | Host::Device(_) | Host::Array(_) => None,
            Host::Outside(run) => Some(SchedulerState::of(run.core(), *run.trust(), harm_ppm)),
        }
    }

    /// Returns the results.
    pub(crate) fn report(&self) -> Report {
        match &self.host {
            Host::Inside(run) => run.report(),
            Host::Outside(run) => run.report(),
            Host::Array(run) => run.report(),
            Host::Device(run) => run.whole_report(),
        }
    }

    /// Returns the flushes and discards of the load.
    pub(crate) fn cache_report(&self) -> CacheReport {
        every!(&self.host, run => run.cache_report())
    }

    /// Returns the statistics of the foreground.
    pub(crate) fn statistics(&self) -> &Statistics {
        every!(&self.host, run => run.statistics())
    }

    /// Returns the drives of an array; none if there is only one drive.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Member> {
        let array = match &self.host {
            Host::Array(run) => Some(run),
            _ => None,
        };
        array.into_iter().flat_map(|array| array.drives())
    }
}

fn problem(error: SetupError) -> Problem {
    match error {
        SetupError::Foreground(SubmitError::Full { most, .. }) => {
            Problem::failed(format!("{most} requests wait at the drive: it cannot keep up with the load"))
                .help(
                    "lower --rate, raise --scale of a trace, or replay it without its times by --outstanding",
                )
        }
        SetupError::Drive(CommandError::TooLong { .. }) => {
            Problem::failed(error).help("give a load or a trace whose requests are shorter")
        }
        other => Problem::failed(other),
    }
}
