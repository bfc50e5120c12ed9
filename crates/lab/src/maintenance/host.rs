//! The host: time, the head, the load, the applications.

use super::foreground::{AccessKind, Job, Noted, Region, Runs, Way, places};
use super::hosted_apps::{ApplicationTally, Guests, HostedApp, HostedAppId};
use super::visits::Visits;
use crate::LabError;
use crate::gaps::Gaps;
use crate::head::{Head, Outer, Passed, Whose as For};
use apps::reorganizer::{AccessError, AccessPlace};
use apps::snapshot::{Step, Volume, WriteError, WriteProgress};
use lab_apps::cache::{Action, NoHead};
use model::DriveModel;
use scheduler::{Config, Harm, Output, Request, Sessions};
use sim::PlacedCore;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use units::{Duration, Instant, LbnRange, Op, RequestId, Sectors};
use workload::{Issued, Issuer, Source};

/// The longest virtual time of a run. A run that takes longer is reported as stuck.
const RUN_TIME_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The response times of the load's requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ResponseTotals {
    pub requests: u64,
    pub total: Duration,
    /// Writes that were refused because the volume had no room for them.
    pub refused: u64,
    /// Requests to blocks that were free at the reorganiser's start. Such blocks belong to the reorganiser, so each of
    /// these requests was moved to the next block that was not free.
    pub shifted: u64,
}

impl ResponseTotals {
    pub fn mean_ms(&self) -> f64 {
        self.total.as_secs_f64() * 1e3 / (self.requests as f64).max(1.0)
    }

    pub fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            total: self.total.saturating_sub(earlier.total),
            refused: self.refused - earlier.refused,
            shifted: self.shifted - earlier.shifted,
        }
    }
}

/// The sectors that the head passed over.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Accessed {
    /// Sectors passed over for the background in gaps, those between wanted ones included.
    pub gaps: u64,
    /// Sectors passed over for the background in idle time, those between wanted ones included.
    pub idle: u64,
    /// Accesses for the background in idle time, or commands if the core is outside.
    pub idle_accesses: u64,
}

/// A drive with the core in it or outside, a load, and applications.
pub(crate) struct MaintenanceHost {
    drive: Arc<DriveModel>,
    core: PlacedCore,
    head: Head,
    issuer: Issuer<Box<dyn Source>>,
    regions: Vec<Region>,
    hosted_apps: Guests,
    now: Instant,
    jobs: BTreeMap<u64, Job>,
    next_job: u64,
    /// The foreground requests at the core, with their owners.
    requests: BTreeMap<RequestId, RequestOwner>,
    next_request: u64,
    /// Jobs that wait because another one is writing their block.
    waiting: Vec<u64>,
    /// The instant of the last completion of a foreground request, and the ranges of all requests completed then. If
    /// a background record at that instant overlaps one of these ranges, its block came with the foreground's access.
    completed: (Instant, Vec<LbnRange>),
    zeros: Vec<u8>,
    scratch: Vec<u8>,
    responses: ResponseTotals,
    accessed: Accessed,
    visits: Visits,
    noted: Option<Noted>,
}

#[derive(Clone, Copy, Debug)]
enum RequestOwner {
    Job(u64, LbnRange),
    Cache(HostedAppId, Request),
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> LabError {
    LabError::new("a host of maintenance applications", error)
}

impl MaintenanceHost {
    /// Makes a host with a drive at rest. The core is outside if an outer drive is given, otherwise in the drive; the
    /// outer drive's noise is drawn from the core's seed.
    pub fn new(
        drive: &Arc<DriveModel>,
        outside: Option<Outer<'_>>,
        config: Config,
        issuer: Issuer<Box<dyn Source>>,
    ) -> Result<Self, LabError> {
        let (head, core) = match outside {
            Some(outer) => {
                let (head, outside) = Head::outside(outer, drive, config.seed).map_err(failed)?;
                (head, PlacedCore::outside(Arc::clone(drive), config.with_outside(outside)))
            }
            None => (Head::inside(drive), PlacedCore::in_drive(Arc::clone(drive), config)),
        };
        Ok(Self {
            core: core.map_err(failed)?,
            head,
            drive: Arc::clone(drive),
            issuer,
            regions: Vec::new(),
            hosted_apps: Guests::default(),
            now: Instant::ZERO,
            jobs: BTreeMap::new(),
            next_job: 0,
            requests: BTreeMap::new(),
            next_request: 0,
            waiting: Vec::new(),
            completed: (Instant::ZERO, Vec::new()),
            zeros: Vec::new(),
            scratch: Vec::new(),
            responses: ResponseTotals::default(),
            accessed: Accessed::default(),
            visits: Visits::default(),
            noted: None,
        })
    }

    /// Sets how a part of the drive is served from here on; other parts are served directly.
    pub fn serve(&mut self, range: LbnRange, way: Way) {
        self.regions.push(Region { range, way });
    }

    /// Records from here on the LBNs to which a reorganiser maps each request.
    pub fn note_places(&mut self) -> Noted {
        Rc::clone(self.noted.insert(Noted::default()))
    }

    /// Starts an application.
    pub fn start<E: std::error::Error + Send + Sync + 'static>(
        &mut self,
        start: impl FnOnce(&mut dyn Sessions, Instant) -> Result<HostedApp, E>,
    ) -> Result<HostedAppId, LabError> {
        let now = self.now;
        let id = self.hosted_apps.start(&mut *self.core, |sessions| start(sessions, now)).map_err(failed)?;
        self.drain()?;
        Ok(id)
    }

    pub fn hosted_app(&self, id: HostedAppId) -> Option<&HostedApp> {
        self.hosted_apps.get(id)
    }

    pub fn tally(&self, id: HostedAppId) -> ApplicationTally {
        self.hosted_apps.tally(id)
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    pub fn responses(&self) -> ResponseTotals {
        self.responses
    }

    pub fn accessed(&self) -> Accessed {
        self.accessed
    }

    /// Returns the use of the foreground's gaps.
    pub fn gaps(&self) -> Gaps {
        self.head.gaps()
    }

    /// Returns where the foreground moved the head.
    pub fn visits(&self) -> &Visits {
        &self.visits
    }

    pub fn harm(&self) -> Harm {
        self.core.harm()
    }

    /// Runs until `done` returns true.
    ///
    /// # Errors
    /// No event is left before that, or the run takes more than a week of virtual time.
    pub fn run_until(&mut self, done: impl Fn(&Self) -> bool) -> Result<(), LabError> {
        while !done(self) {
            let goes_on = self.step()?;
            if !goes_on || self.now.since(Instant::ZERO) > RUN_TIME_MAX {
                let why = if goes_on { "a week of virtual time has passed" } else { "no event is pending" };
                return Err(LabError::new(format!("the run is stuck at {}", self.now), why));
            }
        }
        Ok(())
    }

    /// Handles one event: the head's, an arrival, idle time, or a cache's. Returns false if there is none.
    fn step(&mut self) -> Result<bool, LabError> {
        let wake = self.core.wake_at().into_iter().chain(self.cache_wakes());
        let next = self.head.next_at().into_iter().chain(self.issuer.due()).chain(wake).min();
        let Some(at) = next else { return Ok(false) };
        self.now = self.now.max(at);
        // Completions are handled before arrivals of the same instant, because a completion may make the task's next
        // request due.
        let mut reported = false;
        while self.tell()? {
            reported = true;
            self.drain()?;
        }
        if !reported {
            self.issue()?;
            self.drain()?;
        }
        Ok(true)
    }

    fn cache_wakes(&self) -> Option<Instant> {
        let caches = self.regions.iter().filter_map(|region| match region.way {
            Way::Cached(id) => self.hosted_apps.get(id),
            _ => None,
        });
        caches
            .filter_map(
                |hosted_app| if let HostedApp::Cache(cache) = hosted_app { cache.wake() } else { None },
            )
            .min()
    }

    /// Reports a completion to the core; returns whether there was one.
    fn tell(&mut self) -> Result<bool, LabError> {
        let accessed = &mut self.accessed;
        let reported =
            self.head.tell(&mut self.core, self.now, |Passed { whose, sectors, .. }| match whose {
                For::Foreground => {}
                For::Gap => accessed.gaps += sectors,
                For::Idle => {
                    accessed.idle += sectors;
                    accessed.idle_accesses += 1;
                }
            });
        reported.map_err(failed)
    }

    fn issue(&mut self) -> Result<(), LabError> {
        while let Some(issued) = self.issuer.issue(self.now) {
            self.begin(issued)?;
        }
        Ok(())
    }

    /// Executes the decisions of the core and the requests of the caches.
    fn drain(&mut self) -> Result<(), LabError> {
        loop {
            self.poll_caches()?;
            let sector = self.drive.sector_bytes();
            let mut asker = self.hosted_apps.asker(sector, &mut self.scratch);
            let Some(output) = self.core.poll_with(self.now, &mut asker) else { return Ok(()) };
            match output {
                Output::Do(work) => self.head.work(&self.core, work, self.now).map_err(failed)?,
                Output::Completed(id) => self.request_done(id)?,
                Output::Failed { id, bad } => {
                    return Err(LabError::new(
                        format!("{id} failed at {bad}"),
                        "the medium has no bad sectors",
                    ));
                }
                Output::Deliver(record) => {
                    let size = record.range.len().bytes(sector);
                    let with_foreground = self.completed.0 == self.now
                        && self.completed.1.iter().any(|range| range.overlaps(record.range));
                    let bytes = if record.op == Op::Read { size.get() as usize } else { 0 };
                    let bytes = zeros(&mut self.zeros, bytes);
                    self.hosted_apps.done(&mut *self.core, &record, bytes, size, with_foreground, self.now);
                }
            }
        }
    }

    fn submit(&mut self, op: Op, range: LbnRange, whose: RequestOwner) -> Result<(), LabError> {
        let id = RequestId::new(self.next_request);
        self.next_request += 1;
        self.requests.insert(id, whose);
        self.visits.note(&self.drive, range.start());
        self.core.submit(self.now, Request { id, op, range }).map_err(failed)
    }

    /// Begins a request of the load.
    fn begin(&mut self, issued: Issued) -> Result<(), LabError> {
        let Issued { task, request, .. } = issued;
        let region = self.regions.iter().find(|region| region.range.contains(request.range.start()));
        let (op, mut range) = (request.op, request.range);
        if let Some(region) = region {
            // A request that crosses the end of its part of the drive is cut there, because parts are served
            // separately.
            let end = range.end().min(region.range.end());
            range = LbnRange::new(range.start(), end.since(range.start()));
        }
        let id = self.next_job;
        self.next_job += 1;
        let mut job = Job { task, range, arrived: self.now, left: 0, kind: AccessKind::Plain };
        let mut runs = vec![range];
        match region.map(|region| region.way.clone()) {
            None => {}
            Some(Way::Snapshots(volume)) if op.is_write() => {
                job.kind = AccessKind::Waiting(volume);
                self.jobs.insert(id, job);
                return self.begin_steps(id);
            }
            Some(Way::Snapshots(volume)) => runs = places(&volume.borrow(), range),
            Some(Way::Reorganized(hosted_app)) => {
                (job.kind, runs) = self.begin_access(hosted_app, op, range)?;
                if let Some(noted) = &self.noted {
                    noted.borrow_mut().push_back(runs.clone());
                }
            }
            Some(Way::Noted(noted)) => runs = noted.borrow_mut().pop_front().unwrap_or(runs),
            Some(Way::Cached(hosted_app)) => {
                let now = self.now;
                let call =
                    self.hosted_apps.call(&mut *self.core, hosted_app, |hosted_app, _| match hosted_app {
                        HostedApp::Cache(cache) if op.is_write() => Some(cache.write(range, Vec::new(), now)),
                        HostedApp::Cache(cache) => Some(cache.read(range, now)),
                        _ => None,
                    });
                let call =
                    call.flatten().ok_or_else(|| LabError::new("a cached request", "there is no cache"))?;
                job.kind = AccessKind::Call(hosted_app, call.map_err(failed)?);
                self.jobs.insert(id, job);
                return Ok(());
            }
        }
        job.left = runs.len() as u32;
        let nothing_to_do = runs.is_empty();
        self.jobs.insert(id, job);
        for run in runs {
            self.submit(op, run, RequestOwner::Job(id, run))?;
        }
        if nothing_to_do { self.end(id) } else { Ok(()) }
    }

    /// Begins an access to a part that is reorganised. Blocks that were free at the start belong to the reorganiser,
    /// and no file system would access them, so a request to such a block is moved to the next block that was not
    /// free.
    fn begin_access(
        &mut self,
        hosted_app: HostedAppId,
        op: Op,
        range: LbnRange,
    ) -> Result<(AccessKind, Vec<LbnRange>), LabError> {
        let sector = self.drive.sector_bytes();
        let capacity = self.drive.layout().capacity().get();
        let mut at = range;
        // Every block is tried: from the range to the end of the drive, then from the beginning of the drive to its
        // end.
        for _ in 0..2 * (capacity / 8 + 1) {
            let bytes = zeros(&mut self.zeros, at.len().bytes(sector).get() as usize);
            let mut begun = None;
            self.hosted_apps.call(&mut *self.core, hosted_app, |hosted_app, sessions| {
                if let HostedApp::Reorganizer(reorganizer) = hosted_app {
                    begun = Some(if op.is_write() {
                        reorganizer.begin_write(sessions, at, bytes)
                    } else {
                        reorganizer.begin_read(at, bytes)
                    });
                }
            });
            match begun {
                Some(Ok(access)) => {
                    let mut runs = Runs::default();
                    for piece in access.pieces() {
                        if let AccessPlace::Medium(lbn) = piece.place {
                            runs.push(lbn, piece.logical.len());
                        }
                    }
                    return Ok((AccessKind::Access(hosted_app, access), runs.0));
                }
                Some(Err(AccessError::Free(_))) => {
                    self.responses.shifted += u64::from(at == range);
                    let next = at.start().get() + 8;
                    let next = if next + at.len().get() > capacity { 0 } else { next };
                    at = LbnRange::new(units::Lbn::new(next), at.len());
                }
                Some(Err(error)) => return Err(failed(error)),
                None => return Err(LabError::new("a reorganised request", "there is no reorganiser")),
            }
        }
        Err(LabError::new("a reorganised request", "every place on the drive is free"))
    }

    /// Begins a write to a volume with snapshots, which is done step by step; the write waits if another one is
    /// writing its block.
    fn begin_steps(&mut self, id: u64) -> Result<(), LabError> {
        let Some(job) = self.jobs.get_mut(&id) else { return Ok(()) };
        let AccessKind::Waiting(volume) = &job.kind else { return Ok(()) };
        let volume: Rc<RefCell<Volume>> = Rc::clone(volume);
        let begun = volume.borrow_mut().write(job.range);
        match begun {
            Ok(write) => {
                job.kind = AccessKind::Steps(volume, write);
                self.next_step(id)
            }
            Err(WriteError::Busy(_)) => {
                self.waiting.push(id);
                Ok(())
            }
            Err(WriteError::Full { .. }) => {
                self.responses.refused += 1;
                self.end(id)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Submits the next step of a write, or ends the write. A step that only records takes no time here: the records
    /// are assumed to go to memory that survives a crash, or to another drive.
    fn next_step(&mut self, id: u64) -> Result<(), LabError> {
        let Some(job) = self.jobs.get_mut(&id) else { return Ok(()) };
        let AccessKind::Steps(volume, write) = &job.kind else { return Ok(()) };
        let write = *write;
        let volume = Rc::clone(volume);
        loop {
            let step = volume.borrow().step(write);
            let (op, range) = match step {
                Some(Step::Read(range)) => (Op::Read, range),
                Some(Step::Write { to, .. }) => (Op::Write, to),
                Some(Step::Record(_)) => {
                    if volume.borrow_mut().done(write) == WriteProgress::Complete {
                        break;
                    }
                    continue;
                }
                None => break,
            };
            job.left = 1;
            return self.submit(op, range, RequestOwner::Job(id, range));
        }
        self.end(id)?;
        for waiting in std::mem::take(&mut self.waiting) {
            self.begin_steps(waiting)?;
        }
        Ok(())
    }

    fn request_done(&mut self, id: RequestId) -> Result<(), LabError> {
        let Some(whose) = self.requests.remove(&id) else { return Ok(()) };
        let range = match whose {
            RequestOwner::Job(_, range) => range,
            RequestOwner::Cache(_, request) => request.range,
        };
        if self.completed.0 != self.now {
            self.completed = (self.now, Vec::new());
        }
        self.completed.1.push(range);
        match whose {
            RequestOwner::Job(id, _) => {
                let Some(job) = self.jobs.get_mut(&id) else { return Ok(()) };
                job.left = job.left.saturating_sub(1);
                if job.left > 0 {
                    return Ok(());
                }
                if let AccessKind::Steps(volume, write) = &job.kind {
                    // The next step shows whether the write is complete.
                    let _ = volume.borrow_mut().done(*write);
                    return self.next_step(id);
                }
                self.end(id)
            }
            RequestOwner::Cache(hosted_app, request) => {
                let now = self.now;
                let done =
                    self.hosted_apps.call(&mut *self.core, hosted_app, |hosted_app, _| match hosted_app {
                        HostedApp::Cache(cache) => {
                            // A write gets its bytes from the cache when it is executed: none, because the cache has
                            // no contents here.
                            let asked = match request.op {
                                Op::Write => cache.bytes(request.id, request.range, &mut []),
                                Op::Read => Ok(()),
                            };
                            asked.and_then(|()| cache.completed(request.id, Ok(&[]), now)).err()
                        }
                        _ => None,
                    });
                done.flatten().map_or(Ok(()), |error| Err(failed(error)))
            }
        }
    }

    /// Ends a request of the load.
    fn end(&mut self, id: u64) -> Result<(), LabError> {
        let Some(job) = self.jobs.remove(&id) else { return Ok(()) };
        if let AccessKind::Access(hosted_app, access) = job.kind {
            self.hosted_apps.call(&mut *self.core, hosted_app, |hosted_app, sessions| {
                if let HostedApp::Reorganizer(reorganizer) = hosted_app {
                    reorganizer.end(sessions, access);
                }
            });
        }
        self.responses.requests += 1;
        self.responses.total += self.now.since(job.arrived);
        self.issuer.complete(job.task, self.now);
        // A task without think time must have its next request in the pool before the core chooses again.
        self.issue()
    }

    fn poll_caches(&mut self) -> Result<(), LabError> {
        for at in 0..self.regions.len() {
            let Some(Way::Cached(hosted_app)) = self.regions.get(at).map(|region| &region.way) else {
                continue;
            };
            let hosted_app = *hosted_app;
            loop {
                let now = self.now;
                let output =
                    self.hosted_apps.call(
                        &mut *self.core,
                        hosted_app,
                        |hosted_app, sessions| match hosted_app {
                            HostedApp::Cache(cache) => cache.poll(sessions, &NoHead, now),
                            _ => None,
                        },
                    );
                match output.flatten() {
                    Some(Action::Submit(request)) => {
                        self.submit(request.op, request.range, RequestOwner::Cache(hosted_app, request))?;
                    }
                    Some(Action::Answer { call, .. }) => {
                        let job = self.jobs.iter().find_map(|(id, job)| match job.kind {
                            AccessKind::Call(of, number) if (of, number) == (hosted_app, call) => Some(*id),
                            _ => None,
                        });
                        if let Some(id) = job {
                            self.end(id)?;
                        }
                    }
                    Some(Action::WriteFailed { .. }) => {}
                    None => break,
                }
            }
        }
        Ok(())
    }
}

/// Returns this number of zeros.
fn zeros(store: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if store.len() < bytes {
        store.resize(bytes, 0);
    }
    &mut store[..bytes]
}

/// Returns sectors as millions of bytes.
pub(crate) fn megabytes(drive: &DriveModel, sectors: u64) -> f64 {
    Sectors::new(sectors).bytes(drive.sector_bytes()).get() as f64 / 1e6
}
