//! A load directly on a black box: the only scheduler is the device's own.

use crate::cache_report::{CacheReport, without_transfer};
use crate::observer::{Observer, SetupError, explained};
use crate::report::{BackgroundReport, ForegroundReport, HeadNanos, Report};
use crate::rival::{Reader, Rival};
use crate::statistics::{Ended, Statistics};
use drive::{BlackBox, Breakdown, Command, Served};
use scheduler::SubmitError;
use std::collections::{BTreeMap, VecDeque};
use units::{CacheOps, Duration, Instant, Op, RequestId, Sectors};
use workload::{ClosedTask, Issued, Issuer, Request, Source};

/// A finished request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The request.
    pub request: Request,
    /// The instant of arrival.
    pub arrived: Instant,
    /// The instant at which the request was sent to the device.
    pub sent: Instant,
    /// The instant at which the host received the completion.
    pub at: Instant,
    /// The parts of the request's time, if the device reports them.
    pub breakdown: Option<Breakdown>,
}

/// The most requests that wait in the host. A load with more waiting requests is permanently faster than the device.
const WAITING_REQUESTS_MAX: usize = 65_536;

/// The receiver of a run's events.
trait Watch {
    /// A request has arrived.
    fn arrived(&mut self, id: RequestId, request: Request, at: Instant);

    /// A request is done.
    fn done(&mut self, id: RequestId, done: Done);
}

/// A function that is called with each finished request.
struct Each<F>(F);

impl<F: FnMut(Done)> Watch for Each<F> {
    fn arrived(&mut self, _: RequestId, _: Request, _: Instant) {}

    fn done(&mut self, _: RequestId, done: Done) {
        (self.0)(done);
    }
}

/// Passes events to an [`Observer`], as the hosts with a core do.
struct Observed<'a, O>(&'a mut O);

/// Returns the request in the scheduler's form.
fn numbered(id: RequestId, request: Request) -> scheduler::Request {
    scheduler::Request { id, op: request.op, range: request.range }
}

impl<O: Observer> Watch for Observed<'_, O> {
    fn arrived(&mut self, id: RequestId, request: Request, at: Instant) {
        self.0.arrived(numbered(id, request), at);
    }

    fn done(&mut self, id: RequestId, done: Done) {
        let (request, Done { arrived, sent, at, breakdown, .. }) = (numbered(id, done.request), done);
        let without = |of: Breakdown| matches!(of.served, Served::Flushed | Served::Discarded);
        if !breakdown.is_some_and(without) {
            self.0.completed(request, arrived, at);
        }
        let mut finished = explained(request, arrived, at, breakdown);
        finished.started = finished.started.max(sent);
        self.0.finished(&finished);
    }
}

/// A device and a load, whose requests are sent to the device in order of arrival, a limited number at a time.
///
/// ```
/// use drive::{Behaviour, Drive, Rules};
/// use freeblock_sim::Direct;
/// use units::Instant;
/// use workload::{Arrival, Issuer, Random, RandomConfig};
///
/// let profile = model::builtin::find("quantum-atlas-10k")?;
/// let drive = Drive::with_behaviour(&profile, Rules::HARDWARE, Behaviour::fast02(), 7)?;
/// let layout = drive.model().layout();
/// let load = Random::new(RandomConfig::new(layout.capacity(), drive.model().sector_bytes()), 7)?;
/// let load = Issuer::new(load, Arrival::outstanding(8), Instant::ZERO, 7)?;
/// let mut run = Direct::new(drive, 2, load);
/// run.advance(100, |_| {})?;
/// assert_eq!(run.report().requests, 100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Direct<B, S> {
    device: B,
    /// The maximum number of commands at the device.
    most: usize,
    load: Issuer<S>,
    waiting: VecDeque<(RequestId, Pending)>,
    /// The requests at the device, with the instants at which they were sent.
    sent: BTreeMap<RequestId, (Instant, Pending)>,
    next: u64,
    now: Instant,
    last_done: Instant,
    statistics: Statistics,
    cache: CacheReport,
    completed: u64,
    rival: Option<Reader>,
    head: HeadNanos,
    /// How the head spent its time before the measured stretch.
    head_before: HeadNanos,
}

/// A request that has arrived and is not complete.
#[derive(Clone, Copy, Debug)]
struct Pending {
    arrived: Instant,
    task: ClosedTask,
    request: Request,
    cache: CacheOps,
}

/// The id of a read of the competing reader; foreground requests count from zero.
const RIVAL: RequestId = RequestId::new(u64::MAX);

impl<B: BlackBox, S: Source> Direct<B, S> {
    /// Returns a run that begins at instant zero. At most `most` commands (at least one) are at the device, and no more than
    /// its queue holds.
    pub fn new(device: B, most: usize, load: Issuer<S>) -> Self {
        let most = most.clamp(1, device.queue_depth().max(1));
        Self {
            statistics: Statistics::new(device.sector_bytes(), Instant::ZERO),
            cache: CacheReport::default(),
            completed: 0,
            device,
            most,
            load,
            waiting: VecDeque::new(),
            sent: BTreeMap::new(),
            next: 0,
            now: Instant::ZERO,
            last_done: Instant::ZERO,
            rival: None,
            head: HeadNanos::default(),
            head_before: HeadNanos::default(),
        }
    }

    /// Adds a background reader that also sends its reads directly to the device.
    #[must_use]
    pub fn beside(mut self, rival: Rival) -> Self {
        self.rival = Some(Reader::new(rival, self.device.capacity()));
        self
    }

    /// Runs until `requests` more are done or the load has ended, and calls `each` with every one. Returns whether the load
    /// continues.
    ///
    /// # Errors
    /// A request that the device refuses, or more than 65,536 waiting requests.
    pub fn advance(&mut self, requests: u64, each: impl FnMut(Done)) -> Result<bool, SetupError> {
        self.go_on(requests, &mut Each(each))
    }

    /// Runs like [`advance`](Self::advance), and reports arrivals and completions as the hosts with a core do.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub fn advance_observed(
        &mut self,
        requests: u64,
        observer: &mut impl Observer,
    ) -> Result<bool, SetupError> {
        self.go_on(requests, &mut Observed(observer))
    }

    /// Processes every event before `end`.
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub fn advance_to(&mut self, end: Instant, observer: &mut impl Observer) -> Result<(), SetupError> {
        let watch = &mut Observed(observer);
        while let Some(at) = self.next_event().filter(|at| *at < end) {
            self.step(at, watch)?;
        }
        self.now = self.now.max(end);
        Ok(())
    }

    fn go_on(&mut self, requests: u64, watch: &mut impl Watch) -> Result<bool, SetupError> {
        let goal = self.completed.saturating_add(requests);
        while self.completed < goal {
            let Some(at) = self.next_event() else { return Ok(false) };
            self.step(at, watch)?;
        }
        Ok(true)
    }

    fn next_event(&self) -> Option<Instant> {
        let reader = self.rival_due();
        self.device.next_event().into_iter().chain(self.load.due()).chain(reader).min()
    }

    /// Processes the events of an instant.
    fn step(&mut self, at: Instant, watch: &mut impl Watch) -> Result<(), SetupError> {
        self.now = self.now.max(at);
        self.device.advance(self.now);
        while let Some((reply, breakdown)) = self.device.pop_explained() {
            if let Some(reader) = self.rival.as_mut().filter(|_| reply.id == RIVAL) {
                reader.done();
                continue;
            }
            let Some((sent, pending)) = self.sent.remove(&reply.id) else { continue };
            let Pending { arrived, task, request, cache } = pending;
            if let Some(spent) = breakdown {
                self.head.seek += spent.seek;
                self.head.rotation += spent.latency;
                self.head.transfer += spent.transfer;
            }
            let access = reply.at.since(self.last_done.max(arrived));
            let (op, sectors) = (request.op, request.range.len());
            match without_transfer(cache, request.range) {
                None => self.statistics.completed(Ended { op, sectors, arrived, access }, reply.at),
                Some(served) => self.cache.add(served, reply.at.since(arrived)),
            }
            self.completed += 1;
            self.last_done = reply.at;
            self.load.complete(task, reply.at);
            watch.done(reply.id, Done { request, arrived, sent, at: reply.at, breakdown });
        }
        self.send(watch)
    }

    fn send(&mut self, watch: &mut impl Watch) -> Result<(), SetupError> {
        while let Some(issued) = self.load.issue(self.now) {
            let id = RequestId::new(self.next);
            if self.waiting.len() >= WAITING_REQUESTS_MAX {
                return Err(SubmitError::Full { id, most: WAITING_REQUESTS_MAX }.into());
            }
            self.next += 1;
            let Issued { task, request, cache, .. } = issued;
            let pending = Pending { arrived: self.now, task, request, cache };
            if without_transfer(cache, request.range).is_none() {
                self.statistics.arrived(self.now);
                watch.arrived(id, request, self.now);
            }
            self.waiting.push_back((id, pending));
        }
        while self.sent.len() < self.most && self.has_room() {
            let Some((id, pending)) = self.waiting.pop_front() else { break };
            let Pending { request, cache, .. } = pending;
            self.device.submit_with(self.now, Command { id, op: request.op, range: request.range }, cache)?;
            self.sent.insert(id, (self.now, pending));
        }
        if self.has_room()
            && self.rival_due().is_some_and(|due| due <= self.now)
            && let Some(reader) = &mut self.rival
        {
            let range = reader.begin();
            self.device.submit(self.now, Command { id: RIVAL, op: Op::Read, range })?;
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.device.outstanding() < self.device.queue_depth()
    }

    /// Returns the instant of the competing reader's next read; `None` if the device is full.
    fn rival_due(&self) -> Option<Instant> {
        let reader = self.rival.as_ref().filter(|_| self.has_room())?;
        let idle = self.sent.is_empty() && self.waiting.is_empty();
        reader.due(self.now, idle.then_some(self.last_done))
    }

    /// Returns the load.
    pub(crate) fn load(&self) -> &Issuer<S> {
        &self.load
    }

    /// Returns the load, which takes an array's commands.
    pub(crate) fn load_mut(&mut self) -> &mut Issuer<S> {
        &mut self.load
    }

    /// Returns the instant of the next event.
    pub(crate) fn next_instant(&self) -> Option<Instant> {
        self.next_event()
    }

    /// Processes the next event. Returns false without one.
    pub(crate) fn advance_once(&mut self, observer: &mut impl Observer) -> Result<bool, SetupError> {
        let Some(at) = self.next_event() else { return Ok(false) };
        self.step(at, &mut Observed(observer)).map(|()| true)
    }

    /// Returns the device.
    pub fn device(&self) -> &B {
        &self.device
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Discards the results so far: [`report`](Self::report) and [`whole_report`](Self::whole_report) cover the time from
    /// now on. Requests that wait or are in service stay. The rate of a competing reader stays that of the whole run.
    pub fn measure_from_now(&mut self) {
        self.statistics.restart(self.now);
        self.cache = CacheReport::default();
        self.head_before = self.head;
    }

    /// Returns the statistics of the foreground.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Returns the flushes and discards so far.
    pub fn cache_report(&self) -> CacheReport {
        self.cache
    }

    /// Returns the load's results so far.
    pub fn report(&self) -> ForegroundReport {
        self.statistics.report(self.now)
    }

    /// Returns the background reader's rate in millions of bytes a second; 0 without one.
    pub fn rival_mb_per_s(&self) -> f64 {
        let sectors = self.rival.map_or(0, |reader| reader.sectors);
        let bytes = Sectors::new(sectors).bytes(self.device.sector_bytes());
        bytes.get() as f64 / 1e6 / self.ran().as_secs_f64()
    }

    /// Returns the results with the head's time for the load, as reported by the device. The head's work after a
    /// command's completion counts for that command; reads of a competing reader are left out.
    pub fn whole_report(&self) -> Report {
        let run = self.now.saturating_since(self.statistics.from());
        Report {
            foreground: self.report(),
            head_time: self.head.since(&self.head_before).shares(run),
            background: BackgroundReport::default(),
            simulated: run,
        }
    }

    /// Returns the number of finished requests.
    pub fn requests(&self) -> u64 {
        self.completed
    }

    fn ran(&self) -> Duration {
        self.now.since(Instant::ZERO).max(Duration::from_nanos(1))
    }
}
