//! The host: client, cache, core and drive on one virtual clock.

use crate::gaps::Gaps;
use crate::head::{Head, HeadError, Outer, Passed, Rest, Whose};
use apps::sessions::{Application, Wanted};
use lab_apps::cache::{
    Action, Cache, CacheTally, CallError, CallId, Config as CacheConfig, HeadTime, RequestError, StartError,
};
use model::DriveModel;
use scheduler::{
    Buffers, Config, IdleTimeError, Parameter, Pending, Predictor, Priority, Request, SessionError,
    SubmitError,
};
use sim::PlacedCore;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId};
use workload::{ConfigError, Random, RandomConfig, Source};

/// The reason why a run cannot begin or go on.
#[derive(Debug, Error)]
pub(crate) enum HostError {
    #[error(transparent)]
    Cache(#[from] StartError),
    #[error(transparent)]
    Load(#[from] ConfigError),
    #[error(transparent)]
    Config(#[from] IdleTimeError),
    #[error(transparent)]
    Session(#[from] SessionError),
    #[error(transparent)]
    Submit(#[from] SubmitError),
    #[error(transparent)]
    Call(#[from] CallError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("the core finishes {0}, which the cache has not submitted")]
    Unknown(RequestId),
    #[error(transparent)]
    Head(#[from] HeadError),
    #[error("the run is stuck at {0}: no event is pending and every client waits for the cache")]
    Stuck(Instant),
}

/// The host's counts from its start up to an instant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub at: Instant,
    /// Reads of the client that had to wait.
    pub waited: u64,
    /// The sum of the response times of the reads counted in `waited`.
    pub response: Duration,
    pub cache: CacheTally,
    /// Sectors that write-backs wrote in gaps.
    pub in_gaps: u64,
    /// Sectors that write-backs wrote in the foreground.
    pub in_foreground: u64,
    /// Bytes that the scrubber has read.
    pub scrubbed: u64,
    pub gaps: Gaps,
}

/// A client with a constant number of calls in progress.
struct Client {
    load: Random,
    outstanding: usize,
    calls: BTreeMap<CallId, (Op, Instant)>,
    waited: u64,
    response: Duration,
}

/// An application that reads every block of the drive once.
struct Scrubber {
    session: SessionId,
    sectors: u64,
    finished: bool,
}

/// One client, one cache, one core in one drive or outside, and possibly a scrubber.
pub(crate) struct CacheHost {
    drive: Arc<DriveModel>,
    core: PlacedCore,
    head: Head,
    cache: Cache,
    client: Client,
    scrubber: Option<Scrubber>,
    /// The cache's requests in flight.
    requests: BTreeMap<RequestId, Request>,
    now: Instant,
    begun: bool,
    in_gaps: u64,
    in_foreground: u64,
}

/// The cache's buffers, which have no contents here.
struct Held<'a>(&'a mut Cache);

impl Buffers for Held<'_> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        self.0.buffer(wanted, &mut [])
    }
}

/// The positioning times that the cache's replacement policy SPTF-Evict asks for, from the core's predictor.
struct FromHere<'a> {
    drive: &'a DriveModel,
    rest: Rest,
}

impl HeadTime for FromHere<'_> {
    fn lbn(&self) -> Lbn {
        self.rest.lbn
    }

    fn positioning(&self, now: Instant, range: LbnRange) -> Duration {
        let layout = self.drive.layout();
        let Some(piece) = layout.pieces(range).next() else { return Duration::MAX };
        let request = Request { id: RequestId::new(0), op: Op::Write, range };
        let track = layout.track(piece.track);
        let pending =
            Pending { request, arrived: now, sequence: 0, piece, track, promoted: None, follows: false };
        let from = self.rest.from.max(now);
        from.since(now) + self.drive.positioning(self.rest.position, from, &pending).total()
    }
}

impl CacheHost {
    /// Makes a host with an empty cache at instant zero, before the client's first call. The core is outside the
    /// drive if `outside` is given, otherwise in the drive.
    pub fn new(
        drive: &Arc<DriveModel>,
        outside: Option<Outer<'_>>,
        scheduler: Config,
        cache: CacheConfig,
        (load, outstanding): (RandomConfig, usize),
        seed: u64,
    ) -> Result<Self, HostError> {
        let (head, mut core) = match outside {
            Some(outer) => {
                let (head, outside) = Head::outside(outer, drive, scheduler.seed)?;
                (head, PlacedCore::outside(Arc::clone(drive), scheduler.with_outside(outside))?)
            }
            None => (Head::inside(drive), PlacedCore::in_drive(Arc::clone(drive), scheduler)?),
        };
        let cache = Cache::new(cache, &mut *core, Instant::ZERO)?;
        let client = Client {
            load: Random::new(load, seed)?,
            outstanding,
            calls: BTreeMap::new(),
            waited: 0,
            response: Duration::ZERO,
        };
        Ok(Self {
            core,
            head,
            drive: Arc::clone(drive),
            cache,
            client,
            scrubber: None,
            requests: BTreeMap::new(),
            now: Instant::ZERO,
            begun: false,
            in_gaps: 0,
            in_foreground: 0,
        })
    }

    /// Starts a scrubber that reads every block of the drive once. A write by the foreground does not count as a
    /// read, because a scrubber checks the medium.
    pub fn scrub(&mut self, block: Sectors, priority: Priority) -> Result<(), HostError> {
        let session = self.core.open(priority)?;
        self.core.serve_reads_by_writes(session, false)?;
        let whole = LbnRange::new(Lbn::ZERO, self.drive.layout().capacity());
        self.core.read(session, whole, block, Parameter::default())?;
        self.scrubber = Some(Scrubber { session, sectors: 0, finished: false });
        Ok(())
    }

    pub fn now(&self) -> Instant {
        self.now
    }

    /// Returns the number of dirty buffers.
    pub fn dirty(&self) -> usize {
        self.cache.dirty()
    }

    /// Returns whether the scrubber has read all blocks.
    pub fn is_scrubbed(&self) -> bool {
        self.scrubber.as_ref().is_some_and(|s| s.finished)
    }

    /// Returns the counts so far.
    pub fn counts(&self) -> Counts {
        Counts {
            at: self.now,
            waited: self.client.waited,
            response: self.client.response,
            cache: self.cache.tally(),
            in_gaps: self.in_gaps,
            in_foreground: self.in_foreground,
            scrubbed: self.scrubber.as_ref().map_or(0, |s| s.sectors * self.drive.sector_bytes().get()),
            gaps: self.head.gaps(),
        }
    }

    /// Handles the next event, and all that follows from it at the same instant.
    pub fn step(&mut self) -> Result<(), HostError> {
        if !self.begun {
            self.begun = true;
            self.settle()?;
        }
        let next = [self.head.next_at(), self.cache.wake()].into_iter().flatten().min();
        self.now = next.ok_or(HostError::Stuck(self.now))?.max(self.now);
        let mut reported = false;
        while self.tell()? {
            reported = true;
            self.settle()?;
        }
        if reported { Ok(()) } else { self.settle() }
    }

    /// Reports a completion to the core; returns whether there was one.
    fn tell(&mut self) -> Result<bool, HostError> {
        let (in_gaps, in_foreground) = (&mut self.in_gaps, &mut self.in_foreground);
        Ok(self.head.tell(&mut self.core, self.now, |Passed { whose, op, sectors }| match (whose, op) {
            (Whose::Foreground, Op::Write) => *in_foreground += sectors,
            (Whose::Gap, Op::Write) => *in_gaps += sectors,
            _ => {}
        })?)
    }

    /// Lets the client, the cache and the core act as far as they can now.
    fn settle(&mut self) -> Result<(), HostError> {
        let drive = Arc::clone(&self.drive);
        loop {
            self.call()?;
            let head = FromHere { drive: &drive, rest: self.head.rest(self.now) };
            let mut answered = false;
            while let Some(action) = self.cache.poll(&mut *self.core, &head, self.now) {
                match action {
                    Action::Submit(request) => {
                        self.requests.insert(request.id, request);
                        self.core.submit(self.now, request)?;
                    }
                    Action::Answer { call, .. } => {
                        answered = true;
                        self.client.answered(call, self.now);
                    }
                    // The medium has no errors.
                    Action::WriteFailed { .. } => {}
                }
            }
            if answered {
                continue;
            }
            match self.core.poll_with(self.now, &mut Held(&mut self.cache)) {
                None => return Ok(()),
                Some(scheduler::Output::Do(work)) => self.head.work(&self.core, work, self.now)?,
                Some(scheduler::Output::Completed(id)) => self.completed(id)?,
                Some(scheduler::Output::Deliver(record)) => match &mut self.scrubber {
                    Some(scrubber) if scrubber.session == record.session => {
                        scrubber.sectors += record.range.len().get();
                        scrubber.finished |= record.last;
                    }
                    _ => self.cache.done(&mut *self.core, &record, &[], self.now),
                },
                // The medium has no bad sectors.
                Some(scheduler::Output::Failed { .. }) => {}
            }
        }
    }

    /// Makes calls until the client has its constant number of calls in progress.
    fn call(&mut self) -> Result<(), HostError> {
        let Client { load, outstanding, calls, .. } = &mut self.client;
        while calls.len() < *outstanding
            && let Some(request) = load.next_request()
        {
            let call = match request.op {
                Op::Read => self.cache.read(request.range, self.now)?,
                Op::Write => self.cache.write(request.range, Vec::new(), self.now)?,
            };
            calls.insert(call, (request.op, self.now));
        }
        Ok(())
    }

    fn completed(&mut self, id: RequestId) -> Result<(), HostError> {
        let Request { op, range, .. } = self.requests.remove(&id).ok_or(HostError::Unknown(id))?;
        if op.is_write() {
            self.cache.bytes(id, range, &mut [])?;
        }
        Ok(self.cache.completed(id, Ok(&[]), self.now)?)
    }
}

impl Client {
    fn answered(&mut self, call: CallId, now: Instant) {
        if let Some((Op::Read, began)) = self.calls.remove(&call)
            && now > began
        {
            self.waited += 1;
            self.response += now.since(began);
        }
    }
}
