//! The host: client, cache, core and mechanics on one virtual clock.

use apps::cache::{
    Action, Cache, CallError, CallId, Config as CacheConfig, HeadTime, RequestError, StartError, Tally,
};
use apps::sessions::{Application, Wanted};
use drive::Mechanics;
use model::{DriveModel, Location, Position};
use scheduler::{
    Buffers, Config, Core, Parameter, Pending, Predictor, Priority, Purpose, Request, SessionError, Sessions,
    SubmitError,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, Sectors, SessionId};
use workload::{ConfigError, Random, RandomConfig, Source};

/// Why a run cannot begin or go on.
#[derive(Debug, Error)]
pub(crate) enum HostError {
    #[error(transparent)]
    Cache(#[from] StartError),
    #[error(transparent)]
    Load(#[from] ConfigError),
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
    #[error("the core says that the head is free at {predicted}, the mechanics say {actual}")]
    Mispredicted { predicted: Instant, actual: Instant },
    #[error("nothing is under way at {0}, and nothing will come; every client waits for the cache")]
    Stuck(Instant),
}

/// What was counted up to an instant.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub at: Instant,
    /// Reads of the client that had to wait.
    pub waited: u64,
    /// The sum of their response times.
    pub response: Duration,
    pub cache: Tally,
    /// Sectors written in gaps.
    pub in_gaps: u64,
    /// Sectors written in the foreground.
    pub in_foreground: u64,
    /// Bytes that the scrubber has read.
    pub scrubbed: u64,
}

/// So many calls at all times.
struct Client {
    load: Random,
    outstanding: usize,
    calls: BTreeMap<CallId, (Op, Instant)>,
    waited: u64,
    response: Duration,
}

/// Reads every block of the drive once.
struct Scrubber {
    session: SessionId,
    sectors: u64,
    finished: bool,
}

/// One client, one cache, one core in one drive, and perhaps a scrubber.
pub(crate) struct Host {
    drive: Arc<DriveModel>,
    core: Core,
    mechanics: Mechanics,
    cache: Cache,
    client: Client,
    scrubber: Option<Scrubber>,
    /// Of the cache, under way.
    requests: BTreeMap<RequestId, Request>,
    now: Instant,
    /// When the head is done with what it does.
    until: Option<Instant>,
    /// Where it will be then.
    last: Lbn,
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

/// What the core's predictor says to SPTF-Evict.
struct FromHere<'a> {
    drive: &'a DriveModel,
    position: Position,
    /// When the head is there.
    from: Instant,
    lbn: Lbn,
}

impl HeadTime for FromHere<'_> {
    fn lbn(&self) -> Lbn {
        self.lbn
    }

    fn positioning(&self, now: Instant, range: LbnRange) -> Duration {
        let layout = self.drive.layout();
        let Some(piece) = layout.pieces(range).next() else { return Duration::MAX };
        let request = Request { id: RequestId::new(0), op: Op::Write, range };
        let track = layout.track(piece.track);
        let pending = Pending { request, arrived: now, sequence: 0, piece, track, promoted: None };
        let from = self.from.max(now);
        from.since(now) + self.drive.positioning(self.position, from, &pending).total()
    }
}

impl Host {
    /// An empty cache at instant zero; the client has not called yet.
    pub fn new(
        drive: &Arc<DriveModel>,
        scheduler: Config,
        cache: CacheConfig,
        (load, outstanding): (RandomConfig, usize),
        seed: u64,
    ) -> Result<Self, HostError> {
        let mut core = Core::new(Arc::clone(drive), scheduler);
        let cache = Cache::new(cache, &mut core, Instant::ZERO)?;
        let client = Client {
            load: Random::new(load, seed)?,
            outstanding,
            calls: BTreeMap::new(),
            waited: 0,
            response: Duration::ZERO,
        };
        Ok(Self {
            core,
            mechanics: Mechanics::new(Arc::clone(drive)),
            drive: Arc::clone(drive),
            cache,
            client,
            scrubber: None,
            requests: BTreeMap::new(),
            now: Instant::ZERO,
            until: None,
            last: Lbn::ZERO,
            in_gaps: 0,
            in_foreground: 0,
        })
    }

    /// From now on every block of the drive is read once. What is written meanwhile is read all the same: a scrubber
    /// wants to know what the medium has.
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

    /// Dirty buffers.
    pub fn dirty(&self) -> usize {
        self.cache.dirty()
    }

    /// Whether the scrubber has read everything.
    pub fn is_scrubbed(&self) -> bool {
        self.scrubber.as_ref().is_some_and(|s| s.finished)
    }

    /// So far.
    pub fn counts(&self) -> Counts {
        Counts {
            at: self.now,
            waited: self.client.waited,
            response: self.client.response,
            cache: self.cache.tally(),
            in_gaps: self.in_gaps,
            in_foreground: self.in_foreground,
            scrubbed: self.scrubber.as_ref().map_or(0, |s| s.sectors * self.drive.sector_bytes().get()),
        }
    }

    /// The next thing that happens, and all that follows from it at the same instant.
    pub fn step(&mut self) -> Result<(), HostError> {
        if self.now == Instant::ZERO && self.until.is_none() {
            self.settle()?;
        }
        let next = [self.until, self.cache.wake()].into_iter().flatten().min();
        self.now = next.ok_or(HostError::Stuck(self.now))?.max(self.now);
        if self.until.take_if(|until| *until <= self.now).is_some() {
            self.core.completed(self.now);
        }
        self.settle()
    }

    /// Lets everybody act who can act now.
    fn settle(&mut self) -> Result<(), HostError> {
        let drive = Arc::clone(&self.drive);
        loop {
            self.call()?;
            // What is under way ends at the mechanics' position.
            let head = FromHere {
                drive: &drive,
                position: self.mechanics.position(),
                from: self.until.unwrap_or(self.now),
                lbn: self.last,
            };
            let mut answered = false;
            while let Some(action) = self.cache.poll(&mut self.core, &head, self.now) {
                match action {
                    Action::Submit(request) => {
                        self.requests.insert(request.id, request);
                        self.core.submit(self.now, request)?;
                    }
                    Action::Answer { call, .. } => {
                        answered = true;
                        self.client.answered(call, self.now);
                    }
                    // The medium is good.
                    Action::WriteFailed { .. } => {}
                }
            }
            if answered {
                continue;
            }
            match self.core.poll_with(self.now, &mut Held(&mut self.cache)) {
                None => return Ok(()),
                Some(scheduler::Action::Execute) => self.execute()?,
                Some(scheduler::Action::Completed(id)) => self.completed(id)?,
                Some(scheduler::Action::Deliver(record)) => match &mut self.scrubber {
                    Some(scrubber) if scrubber.session == record.session => {
                        scrubber.sectors += record.range.len().get();
                        scrubber.finished |= record.last;
                    }
                    _ => self.cache.done(&mut self.core, &record, &[], self.now),
                },
                // Neither idle time nor bad sectors.
                Some(
                    scheduler::Action::Cut | scheduler::Action::Send(_) | scheduler::Action::Failed { .. },
                ) => {}
            }
        }
    }

    /// The client has as many calls under way as it may.
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

    /// Moves the head as the core asks.
    fn execute(&mut self) -> Result<(), HostError> {
        let mut at = self.now;
        for access in self.core.accesses() {
            let track = self.drive.layout().track(access.track);
            let ready = self.mechanics.seek_to(at, Position::from(track), access.op);
            let from = ready.max(access.not_before);
            (_, at) = self.mechanics.wait_and_transfer(from, track, access.sector, access.sectors);
            let sectors = u64::from(access.sectors);
            match (access.purpose, access.op) {
                (Purpose::Foreground, Op::Write) => self.in_foreground += sectors,
                (Purpose::Background { .. }, Op::Write) => self.in_gaps += sectors,
                _ => {}
            }
            let location = Location { track: access.track, sector: access.sector };
            self.last = self.drive.layout().lbn_at(location).unwrap_or(self.last);
        }
        // In the drive the core knows to the nanosecond.
        match self.core.busy_until() {
            Some(predicted) if predicted != at => Err(HostError::Mispredicted { predicted, actual: at }),
            _ => {
                self.until = Some(at);
                Ok(())
            }
        }
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
