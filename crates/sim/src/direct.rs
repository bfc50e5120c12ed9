//! A load straight on a black box: no scheduler but the device's own.

use crate::report::{ForegroundReport, Times};
use drive::{BlackBox, Command, CommandError};
use std::collections::{BTreeMap, VecDeque};
use units::{Duration, Instant, RequestId};
use workload::{ClosedTask, Issuer, Request, Source};

/// A request that a device is done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// What was asked.
    pub request: Request,
    /// When it came.
    pub arrived: Instant,
    /// When it was sent to the device.
    pub sent: Instant,
    /// When the host learned that it was done.
    pub at: Instant,
}

/// One device and one load, whose requests go to the device in the order in which they come, so many at a time.
///
/// ```
/// use drive::{Behaviour, Drive, Rules};
/// use freeblock_sim::Direct;
/// use units::Instant;
/// use workload::{Arrival, Issuer, Random, RandomConfig};
///
/// let profile = model::builtin::find("quantum-atlas-10k")?;
/// let drive = Drive::with_behaviour(&profile, Rules::HARDWARE, Behaviour::noisy(), 7)?;
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
    /// Commands at the device at a time.
    most: usize,
    load: Issuer<S>,
    waiting: VecDeque<(Instant, ClosedTask, Request)>,
    sent: BTreeMap<RequestId, (Instant, Instant, ClosedTask, Request)>,
    next: u64,
    now: Instant,
    last_done: Instant,
    times: Times,
}

impl<B: BlackBox, S: Source> Direct<B, S> {
    /// A run that begins at instant zero. No more than `most` commands (at least one) are at the device, and no more
    /// than it takes.
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
        }
    }

    /// Goes on until so many more requests are done or the load has ended; tells `each` of every one. Whether the
    /// load goes on.
    ///
    /// # Errors
    /// A request that the device refuses.
    pub fn advance(&mut self, requests: u64, mut each: impl FnMut(Done)) -> Result<bool, CommandError> {
        let goal = self.times.requests().saturating_add(requests);
        while self.times.requests() < goal {
            let next = self.device.next_event().into_iter().chain(self.load.due()).min();
            let Some(at) = next else { return Ok(false) };
            self.now = self.now.max(at);
            self.device.advance(self.now);
            while let Some(reply) = self.device.pop_reply() {
                let Some((arrived, sent, task, request)) = self.sent.remove(&reply.id) else { continue };
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
        while self.sent.len() < self.most {
            let Some((arrived, task, request)) = self.waiting.pop_front() else { break };
            let id = RequestId::new(self.next);
            self.next += 1;
            self.device.submit(self.now, Command { id, op: request.op, range: request.range })?;
            self.sent.insert(id, (arrived, self.now, task, request));
        }
        Ok(())
    }

    /// The device.
    pub fn device(&self) -> &B {
        &self.device
    }

    /// Virtual time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What the load saw so far.
    pub fn report(&self) -> ForegroundReport {
        self.times.report(self.now.since(Instant::ZERO).max(Duration::from_nanos(1)))
    }
}
