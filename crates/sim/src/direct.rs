//! A load directly on a black box: the only scheduler is the device's own.

use crate::report::{BackgroundReport, ForegroundReport, HeadNanos, Report, Times};
use crate::rival::{Reader, Rival};
use drive::{BlackBox, Command, CommandError};
use std::collections::{BTreeMap, VecDeque};
use units::{Duration, Instant, Op, RequestId, Sectors};
use workload::{ClosedTask, Issuer, Request, Source};

/// A finished request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The request.
    pub request: Request,
    /// Its arrival.
    pub arrived: Instant,
    /// The instant at which it was sent to the device.
    pub sent: Instant,
    /// The instant at which the host received the completion.
    pub at: Instant,
}

/// A device and a load, whose requests are sent to the device in order of arrival, with a maximum of commands at a time.
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
    /// The maximum of commands at the device.
    most: usize,
    load: Issuer<S>,
    waiting: VecDeque<(Instant, ClosedTask, Request)>,
    sent: BTreeMap<RequestId, (Instant, Instant, ClosedTask, Request)>,
    next: u64,
    now: Instant,
    last_done: Instant,
    times: Times,
    rival: Option<Reader>,
    head: HeadNanos,
}

/// The number of a competing reader's read; foreground requests count from zero.
const RIVAL: RequestId = RequestId::new(u64::MAX);

impl<B: BlackBox, S: Source> Direct<B, S> {
    /// Returns a run that begins at instant zero. At most `most` commands (at least one) are at the device, and no more than
    /// its queue holds.
    pub fn new(device: B, most: usize, load: Issuer<S>) -> Self {
        let most = most.clamp(1, device.queue_depth().max(1));
        Self {
            device,
            most,
            load,
            waiting: VecDeque::new(),
            sent: BTreeMap::new(),
            next: 0,
            now: Instant::ZERO,
            last_done: Instant::ZERO,
            times: Times::new(),
            rival: None,
            head: HeadNanos::default(),
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
    /// A request that the device refuses.
    pub fn advance(&mut self, requests: u64, mut each: impl FnMut(Done)) -> Result<bool, CommandError> {
        let goal = self.times.requests().saturating_add(requests);
        while self.times.requests() < goal {
            let reader = self.rival_due();
            let next = self.device.next_event().into_iter().chain(self.load.due()).chain(reader).min();
            let Some(at) = next else { return Ok(false) };
            self.now = self.now.max(at);
            self.device.advance(self.now);
            while let Some((reply, breakdown)) = self.device.pop_explained() {
                if let Some(reader) = self.rival.as_mut().filter(|_| reply.id == RIVAL) {
                    reader.done();
                    continue;
                }
                let Some((arrived, sent, task, request)) = self.sent.remove(&reply.id) else { continue };
                if let Some(spent) = breakdown {
                    self.head.seek += spent.seek;
                    self.head.rotation += spent.latency;
                    self.head.transfer += spent.transfer;
                }
                let began = self.last_done.max(arrived);
                self.times.record(reply.at.since(arrived), reply.at.since(began));
                self.last_done = reply.at;
                self.load.complete(task, reply.at);
                each(Done { request, arrived, sent, at: reply.at });
            }
            self.send()?;
        }
        Ok(true)
    }

    fn send(&mut self) -> Result<(), CommandError> {
        while let Some(issued) = self.load.issue(self.now) {
            self.waiting.push_back((self.now, issued.task, issued.request));
        }
        while self.sent.len() < self.most && self.has_room() {
            let Some((arrived, task, request)) = self.waiting.pop_front() else { break };
            let id = RequestId::new(self.next);
            self.next += 1;
            self.device.submit(self.now, Command { id, op: request.op, range: request.range })?;
            self.sent.insert(id, (arrived, self.now, task, request));
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

    /// Returns the instant of the competing reader's next read; if the device is full, it waits for another event.
    fn rival_due(&self) -> Option<Instant> {
        let reader = self.rival.as_ref().filter(|_| self.has_room())?;
        let idle = self.sent.is_empty() && self.waiting.is_empty();
        reader.due(self.now, idle.then_some(self.last_done))
    }

    /// Returns the device.
    pub fn device(&self) -> &B {
        &self.device
    }

    /// Returns the virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the load's results so far.
    pub fn report(&self) -> ForegroundReport {
        self.times.report(self.ran())
    }

    /// Returns the background reader's rate in millions of bytes a second; 0 without one.
    pub fn rival_mb_per_s(&self) -> f64 {
        let sectors = self.rival.map_or(0, |reader| reader.sectors);
        let bytes = Sectors::new(sectors).bytes(self.device.sector_bytes());
        bytes.get() as f64 / 1e6 / self.ran().as_secs_f64()
    }

    /// Returns the results with the head's time for the load, as reported by the device. Its work after a command's
    /// completion counts for the command; reads of a competing reader are left out.
    pub fn whole_report(&self) -> Report {
        Report {
            foreground: self.report(),
            head_time: self.head.shares(self.ran()),
            background: BackgroundReport::default(),
            simulated: self.now.since(Instant::ZERO),
        }
    }

    /// Returns the number of finished requests.
    pub fn requests(&self) -> u64 {
        self.times.requests()
    }

    fn ran(&self) -> Duration {
        self.now.since(Instant::ZERO).max(Duration::from_nanos(1))
    }
}
