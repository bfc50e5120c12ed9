//! A host with the core inside the drive, on the true mechanics.

use crate::cache_report::{CacheReport, without_transfer};
use crate::head::Head;
use crate::observer::{Finished, Observer, SetupError};
use crate::report::{BackgroundReport, HeadNanos, Report, RunningScan, ScanProgress};
use crate::statistics::{Ended, Statistics};
use model::DriveModel;
use scheduler::{
    AnyCore, Config, Harm, HeadWork, InDrive, Output, Parameter, PlannerStats, Priority, Request,
};
use std::collections::VecDeque;
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, RequestId, Sectors};
use workload::{ClosedTask, Issued, Issuer, Source};

/// The background work of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Background {
    /// No background work.
    None,
    /// A scan, which reads every block of the drive once, in any order.
    Scan {
        /// Sectors in a block.
        block: Sectors,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct InFlight {
    pub request: Request,
    pub task: ClosedTask,
    pub arrived: Instant,
}

/// A drive, a core in it, a foreground load, and perhaps a scan.
///
/// ```
/// use freeblock_sim::{Background, Inside, Nothing};
/// use model::{DriveModel, builtin};
/// use scheduler::Config;
/// use std::sync::Arc;
/// use units::{Instant, Sectors};
/// use workload::{Arrival, Issuer, Oltp, OltpConfig};
///
/// let drive = Arc::new(DriveModel::from_profile(&builtin::find("quantum-atlas-10k")?)?);
/// let load = Oltp::new(OltpConfig::new(drive.layout().capacity(), drive.sector_bytes()), 42)?;
/// let foreground = Issuer::new(load, Arrival::oltp(10), Instant::ZERO, 42)?;
/// let scan = Background::Scan { block: Sectors::new(8) };
/// let mut run = Inside::new(drive, Config::default(), foreground, scan)?;
/// run.advance(1_000, &mut Nothing)?;
/// let report = run.report();
/// assert_eq!(report.foreground.requests, 1_000);
/// assert!(report.background.mb_per_s > 5.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Inside<S> {
    core: InDrive,
    foreground: Issuer<S>,
    /// The unfinished requests; the index is the request's number less `first_in_flight`.
    in_flight: VecDeque<Option<InFlight>>,
    first_in_flight: u64,
    now: Instant,
    /// The beginning and the end of the head's work under way.
    busy: Option<(Instant, Instant)>,
    head: Head,
    /// How the head spent its time before the measured stretch, and the instant up to which that was counted.
    head_before: (HeadNanos, Instant),
    statistics: Statistics,
    cache: CacheReport,
    completed: u64,
    scan: Option<RunningScan>,
}

/// Registers the background work at instant zero.
pub(crate) fn begin_scan(
    core: &mut dyn AnyCore,
    background: Background,
) -> Result<Option<RunningScan>, SetupError> {
    let Background::Scan { block } = background else { return Ok(None) };
    let all = LbnRange::new(Lbn::ZERO, core.drive().layout().capacity());
    let session = core.open(Priority::default())?;
    core.read(session, all, block, Parameter::default())?;
    let blocks = core.undelivered(session).unwrap_or(0);
    Ok(Some(RunningScan::new(blocks, Instant::ZERO)))
}

impl<S: Source> Inside<S> {
    /// Returns a run that begins at instant zero with the head at cylinder 0.
    ///
    /// # Errors
    /// An invalid block size of the scan, or invalid settings of idle time.
    pub fn new(
        drive: Arc<DriveModel>,
        config: Config,
        foreground: Issuer<S>,
        background: Background,
    ) -> Result<Self, SetupError> {
        let mut core = InDrive::try_new(Arc::clone(&drive), config)?;
        let scan = begin_scan(&mut core, background)?;
        Ok(Self {
            core,
            statistics: Statistics::new(drive.sector_bytes(), Instant::ZERO),
            cache: CacheReport::default(),
            completed: 0,
            head_before: (HeadNanos::default(), Instant::ZERO),
            head: Head::new(drive),
            foreground,
            in_flight: VecDeque::new(),
            first_in_flight: 0,
            now: Instant::ZERO,
            busy: None,
            scan,
        })
    }

    /// Runs until `requests` more foreground requests are done or the load has ended. Returns whether the load continues.
    ///
    /// # Errors
    /// A request of the load that is invalid for the drive.
    pub fn advance(&mut self, requests: u64, observer: &mut impl Observer) -> Result<bool, SetupError> {
        self.go_on(requests, false, observer)
    }

    /// Runs like [`advance`](Self::advance), but at most to the end of the scan. Returns whether the load and the
    /// scan continue.
    ///
    /// # Errors
    /// A request of the load that is invalid for the drive.
    pub fn advance_scan(&mut self, requests: u64, observer: &mut impl Observer) -> Result<bool, SetupError> {
        Ok(self.go_on(requests, true, observer)? && !self.is_scanned())
    }

    /// Processes every event before `end`, idle work included.
    ///
    /// # Errors
    /// A request of the load that is invalid for the drive.
    pub fn advance_to(&mut self, end: Instant, observer: &mut impl Observer) -> Result<(), SetupError> {
        while self.next_event().is_some_and(|at| at < end) {
            self.step(observer)?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    /// Returns the instant of the next event.
    fn next_event(&self) -> Option<Instant> {
        let head = self.busy.map(|(_, until)| until).or_else(|| self.core.wake_at());
        [head, self.foreground.due()].into_iter().flatten().min()
    }

    /// Returns whether the scan has delivered every block; false without a scan.
    pub fn is_scanned(&self) -> bool {
        self.scan.is_some_and(|s| s.finished.is_some())
    }

    fn go_on(
        &mut self,
        requests: u64,
        to_scan_end: bool,
        observer: &mut impl Observer,
    ) -> Result<bool, SetupError> {
        let goal = self.completed.saturating_add(requests);
        while self.completed < goal && !(to_scan_end && self.is_scanned()) {
            if !self.step(observer)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the core, for sessions opened before and between calls of [`advance`](Self::advance).
    pub fn core_mut(&mut self) -> &mut InDrive {
        &mut self.core
    }

    /// Returns the core.
    pub fn core(&self) -> &InDrive {
        &self.core
    }

    /// Returns the number of finished foreground requests.
    pub fn requests(&self) -> u64 {
        self.completed
    }

    /// Discards the results so far: [`report`](Self::report) covers the time from now on. Requests that wait or are in
    /// service stay, and so does the scan's progress.
    pub fn measure_from_now(&mut self) {
        self.statistics.restart(self.now);
        self.cache = CacheReport::default();
        self.head_before = (self.head.spent, self.counted());
        if let Some(scan) = &mut self.scan {
            scan.restart(self.now);
        }
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the progress of the scan.
    pub fn scan_progress(&self) -> Option<ScanProgress> {
        self.scan.as_ref().map(RunningScan::progress)
    }

    /// Returns the head's time so far in nanoseconds, up to the end of the work under way.
    pub fn head(&self) -> HeadNanos {
        self.head.spent
    }

    /// Returns the statistics of the foreground.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the flushes and discards so far. They take no time, because a completed write is on the medium here.
    pub fn cache_report(&self) -> CacheReport {
        self.cache
    }

    /// Returns the planner's counters.
    pub fn planner_stats(&self) -> PlannerStats {
        self.core.planner_stats()
    }

    /// Returns the core's estimate of the foreground's delay by background work in idle time.
    pub fn harm(&self) -> Harm {
        self.core.harm()
    }

    /// Returns the instant up to which the head's time is counted: the end of the work under way.
    fn counted(&self) -> Instant {
        self.busy.map_or(self.now, |(_, until)| until.max(self.now))
    }

    /// Returns the result so far.
    pub fn report(&self) -> Report {
        // The work under way is counted up to its end, so the run is measured up to there.
        let end = self.counted();
        let (before, from) = self.head_before;
        let spent = self.head.spent.since(&before);
        let run = end.saturating_since(from);
        Report {
            foreground: self.statistics.report(end),
            head_time: spent.shares(run),
            background: match self.scan {
                Some(scan) => scan.report(self.now, spent.potential_used()),
                None => BackgroundReport::default(),
            },
            simulated: run,
        }
    }

    /// Processes one event: the head's, an arrival, or idle time. Returns false without a further event.
    fn step(&mut self, observer: &mut impl Observer) -> Result<bool, SetupError> {
        let due = self.foreground.due();
        match (self.busy, due) {
            // At one instant the completion comes before arrivals, because it may make the next request due.
            (Some((began, until)), due) if due.is_none_or(|due| until <= due) => {
                self.now = until;
                self.busy = None;
                self.head.account_idle(self.core.accesses(), until.since(began));
                self.core.completed(until);
                self.drain(began, observer)?;
            }
            (_, due) => {
                let wake = self.core.wake_at().filter(|wake| due.is_none_or(|due| *wake < due));
                match (wake, due) {
                    (Some(wake), _) => self.now = wake,
                    (None, Some(due)) => {
                        self.now = self.now.max(due);
                        self.issue(observer)?;
                    }
                    (None, None) => return Ok(false),
                }
                self.drain(self.now, observer)?;
            }
        }
        Ok(true)
    }

    /// Submits every request that is due.
    fn issue(&mut self, observer: &mut impl Observer) -> Result<(), SetupError> {
        while let Some(Issued { task, request, cache, .. }) = self.foreground.issue(self.now) {
            let id = RequestId::new(self.first_in_flight + self.in_flight.len() as u64);
            let request = Request { id, op: request.op, range: request.range };
            if let Some(served) = without_transfer(cache, request.range) {
                self.in_flight.push_back(None);
                self.forget_finished();
                self.cache.add(served, Duration::ZERO);
                self.completed += 1;
                let done = Finished::of(request, self.now, self.now, self.now);
                observer.finished(&Finished { served: Some(served), ..done });
                self.foreground.complete(task, self.now);
                continue;
            }
            self.in_flight.push_back(Some(InFlight { request, task, arrived: self.now }));
            self.statistics.arrived(self.now);
            observer.arrived(request, self.now);
            self.core.submit(self.now, request)?;
        }
        Ok(())
    }

    fn forget_finished(&mut self) {
        while let Some(None) = self.in_flight.front() {
            self.in_flight.pop_front();
            self.first_in_flight += 1;
        }
    }

    /// Handles the core's outputs. A request that the core reports as completed was begun at `began`.
    fn drain(&mut self, began: Instant, observer: &mut impl Observer) -> Result<(), SetupError> {
        while let Some(output) = self.core.poll(self.now) {
            match output {
                Output::Do(HeadWork::Execute) => {
                    let until = self.execute();
                    self.busy = Some((self.now, until));
                }
                Output::Do(HeadWork::Cut) => {
                    if let (Some(busy), Some(until)) = (&mut self.busy, self.core.busy_until()) {
                        busy.1 = until;
                    }
                }
                Output::Completed(id) | Output::Failed { id, .. } => {
                    let slot = (id.get() - self.first_in_flight) as usize;
                    let Some(done) = self.in_flight.get_mut(slot).and_then(Option::take) else { continue };
                    self.forget_finished();
                    let InFlight { request, task, arrived } = done;
                    let HeadNanos { seek, rotation, transfer, .. } = self.head.last;
                    let access = self.now.since(began);
                    let (op, sectors) = (request.op, request.range.len());
                    self.statistics.completed(Ended { op, sectors, arrived, access }, self.now);
                    self.completed += 1;
                    observer.completed(request, arrived, self.now);
                    let done = Finished::of(request, arrived, began, self.now);
                    observer.finished(&Finished { seek, rotation, transfer, ..done });
                    self.foreground.complete(task, self.now);
                    // The next request of a client task without a think time is in the core's pool before the core
                    // chooses again.
                    self.issue(observer)?;
                }
                Output::Deliver(record) => {
                    if let Some(scan) = &mut self.scan {
                        let sector = self.core.drive().sector_bytes();
                        let potential_used = self.head.spent.potential_used();
                        scan.delivered(record.range.len().bytes(sector), self.now, potential_used);
                    }
                    observer.delivered(&mut self.core, record, self.now);
                }
            }
        }
        Ok(())
    }

    /// Carries out the core's accesses and returns their end.
    fn execute(&mut self) -> Instant {
        let until = self.head.execute(self.now, self.core.accesses());
        debug_assert_eq!(
            Some(until),
            self.core.busy_until(),
            "the core's prediction inside the drive is exact"
        );
        until
    }
}

/// The calls of an array, whose event loop runs over all of its drives.
impl<S: Source> Inside<S> {
    /// Returns the instant of the next event.
    pub(crate) fn next_instant(&self) -> Option<Instant> {
        self.next_event()
    }

    /// Processes one event. Returns false without a further event.
    pub(crate) fn advance_once(&mut self, observer: &mut impl Observer) -> Result<bool, SetupError> {
        self.step(observer)
    }

    /// Returns the load.
    pub(crate) fn load(&self) -> &Issuer<S> {
        &self.foreground
    }

    /// Returns the load, which takes the array's commands.
    pub(crate) fn load_mut(&mut self) -> &mut Issuer<S> {
        &mut self.foreground
    }
}
