//! The host of a core inside the drive: simulates time, head, medium, clients and foreground requests, and checks the core.

mod idle;
mod reports;
mod steps;
mod under_way;

use crate::calls::{Calls, goes_on, taken};
use crate::clients::Clients;
use crate::counts::Counts;
use crate::dice::Dice;
use crate::exec::{Exec, Held};
use crate::failure::{Broken, Check, hold};
use crate::hash::Hash;
use crate::medium::VersionedMedium;
use crate::mine::{Mine, Mining};
use crate::polled;
use crate::scrub::{Scrubbing, Scrubs};
use crate::setup::Setup;
use crate::troubles::Troubles;
use crate::twin::{Alone, Before, Twin};
use drive::Mechanics;
use model::{DriveModel, Position};
use scheduler::{AnyCore, Config, Harm, HeadEnd, HeadWork, InDrive, Input, Output, Refused, Request};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId};

/// The number of polls at one instant that counts as an endless loop.
const POLLS_PER_INSTANT_MAX: u32 = 1 << 20;

/// An unfinished foreground request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreground {
    pub op: Op,
    pub range: LbnRange,
    /// The number of the event at which the request was submitted.
    pub submitted: u64,
    pub arrived: Instant,
    /// The version that a write gives its sectors.
    pub version: u64,
    /// Whether no other foreground request waited when this one arrived.
    pub alone: bool,
}

/// The core's answer to a poll, and the core's state before the poll.
pub(crate) struct Said {
    output: Option<Output<HeadWork>>,
    /// The buffers that the host gave the core during the poll.
    held: Vec<Held>,
    /// The harm that the core reported before the poll.
    harm: Harm,
    /// The number of waiting foreground requests before the poll.
    waiting: usize,
    /// The number of waiting promoted requests before the poll.
    promoted: usize,
}

pub(crate) struct World {
    pub setup: Setup,
    config: Config,
    pub drive: Arc<DriveModel>,
    mechanics: Mechanics,
    pub core: InDrive,
    pub medium: VersionedMedium,
    pub clients: Clients,
    pub now: Instant,
    /// The number of events so far; events are compared by their numbers.
    pub sequence: u64,
    versions: u64,
    exec: Option<Exec>,
    /// A lost foreground command, which the core must repeat before other work.
    retry: Option<Exec>,
    /// The event number and the bad sectors of the last finished work.
    last: (u64, Vec<Lbn>),
    pub requests: BTreeMap<RequestId, Foreground>,
    next_request: u64,
    pub troubles: Troubles,
    /// Whether the last poll returned `None`, so that no output is left.
    drained: bool,
    /// Whether the host polls once more after each `None`.
    pub once_more: bool,
    pub twin: Twin,
    /// The time of the last event of a foreground request.
    since: Instant,
    patience: idle::Patience,
    /// The last finished foreground work: a request, or promoted work.
    before: Before,
    /// A request that arrived at an idle drive: its times, and the harm that the core reported before and after it chose
    /// the request.
    alone: Option<(RequestId, Alone, Harm, Harm)>,
    /// The hash of the events.
    pub hash: Hash,
    pub counts: Counts,
    pub dice: Dice,
    scrubs: Scrubs,
    mine: Option<Mine>,
}

impl World {
    pub fn new(setup: &Setup) -> Result<Self, Broken> {
        let drive = setup.drive.build().map_err(|e| (Check::Panic, e))?;
        let drive = Arc::new(drive);
        let config = setup.config();
        Ok(Self {
            setup: setup.clone(),
            config,
            mechanics: Mechanics::new(Arc::clone(&drive)),
            core: setup.in_drive(Arc::clone(&drive), config),
            medium: VersionedMedium::new(drive.layout().capacity().get(), !setup.writes_serve_writes),
            clients: Clients::default(),
            now: Instant::from_nanos(setup.start_ns),
            sequence: 0,
            versions: 0,
            exec: None,
            retry: None,
            last: (0, Vec::new()),
            requests: BTreeMap::new(),
            next_request: 1,
            troubles: Troubles::NONE,
            drained: true,
            once_more: false,
            twin: Twin::new(setup, &drive, config),
            since: Instant::ZERO,
            patience: idle::Patience::default(),
            before: Before::default(),
            alone: None,
            hash: Hash::default(),
            counts: Counts::default(),
            dice: Dice::new(setup.seed),
            scrubs: Scrubs::new(drive.layout().capacity().get()),
            mine: None,
            drive,
        })
    }

    pub fn version(&mut self) -> u64 {
        self.versions += 1;
        self.versions
    }

    /// Gives the core and the twin an input.
    fn input(&mut self, input: Input<HeadEnd<'_>>) -> Result<Result<u64, Refused>, Broken> {
        let reported = self.core.input(input);
        self.twin.input(input, reported)?;
        Ok(reported)
    }

    /// Polls until `None`, or until the limit that a step has set.
    pub fn drain(&mut self) -> Result<(), Broken> {
        self.drained = false;
        for polled in 0..self.troubles.polls.unwrap_or(u32::MAX) {
            hold(polled < POLLS_PER_INSTANT_MAX, Check::Endless, || "polls give outputs without end".into())?;
            if !self.poll()? {
                self.drained = true;
                if self.once_more {
                    polled::nothing_more(&mut self.core, self.now, &self.clients, self.troubles.at_hand)?;
                }
                self.check_goes_on()?;
                return self.twin.in_step(self.now, self.exec.as_ref());
            }
        }
        Ok(())
    }

    /// Polls once and handles the output. Returns false if there was none, or if the head has begun work.
    fn poll(&mut self) -> Result<bool, Broken> {
        let said = self.ask()?;
        self.act(said)
    }

    /// Polls the core once.
    fn ask(&mut self) -> Result<Said, Broken> {
        let (waiting, promoted) = (self.requests_waiting(), self.core.promoted_pending());
        let harm = self.core.harm();
        let at_hand = self.troubles.at_hand;
        let (output, held) =
            polled::poll(&mut self.core, self.now, &self.clients, at_hand, &mut self.versions)?;
        Ok(Said { output, held, harm, waiting, promoted })
    }

    fn act(&mut self, said: Said) -> Result<bool, Broken> {
        let Some(output) = said.output else { return Ok(false) };
        match output {
            Output::Do(HeadWork::Execute) => {
                self.execute(said)?;
                return Ok(false);
            }
            Output::Do(HeadWork::Cut) => self.cut()?,
            Output::Completed(id) | Output::Failed { id, .. } => {
                return Err((Check::Request, format!("{id} is reported as done, but no work had ended")));
            }
            Output::Deliver(record) => self.delivered(&record)?,
        }
        Ok(true)
    }

    /// Cuts the power at this instant and restores it: a new core starts with the surviving medium.
    pub fn power_cut(&mut self) -> Result<(), Broken> {
        self.counts.power_cuts += 1;
        self.sequence += 1;
        if let Some(exec) = self.exec.take() {
            let done = exec.passes.partition_point(|p| p.at <= self.now);
            let job = self.candidates(&exec).first().copied();
            self.apply(&exec, done, job, None)?;
        }
        self.medium.check_acknowledged()?;
        self.requests.clear();
        self.scrub_stops();
        let mining = self.mining_stops();
        self.core = self.setup.in_drive(Arc::clone(&self.drive), self.config);
        self.twin = Twin::new(&self.setup, &self.drive, self.config);
        self.mechanics.place(Position::default());
        self.retry = None;
        (self.troubles.fate, self.troubles.late) = (None, Duration::ZERO);
        (self.before, self.alone) = (Before::default(), None);
        (self.since, self.patience) = (Instant::ZERO, idle::Patience::default());
        self.sequence += 1;
        self.clients.restart(&mut self.core, self.now, self.sequence)?;
        self.scrub_goes_on()?;
        self.mining_begins_again(mining)?;
        self.last = (self.sequence, Vec::new());
        self.twin.on &= self.twin.is_lockstep() || self.troubles.polls.is_none();
        self.drain()
    }

    /// Checks the conditions that hold after every step.
    pub fn check_all(&self) -> Result<(), Broken> {
        self.clients.check_counts(&self.core, self.drained)?;
        let pending = self.core.pending();
        let (most, promoted) = (self.setup.most_pending, self.core.promoted_pending());
        hold(pending - promoted <= most + 1 && promoted <= most, Check::Bound, || {
            format!("{pending} requests wait, {promoted} of them promoted, and {most} of each may")
        })?;
        if self.drained {
            let is_request = |e: &Exec| !e.foreground.is_empty() && !e.promoted;
            let under_way = usize::from(self.exec.as_ref().is_some_and(is_request));
            let lost = usize::from(self.retry.as_ref().is_some_and(|e| e.promoted));
            let waiting = self.requests.len().saturating_sub(under_way) + lost;
            hold(pending - promoted == waiting, Check::Bound, || {
                format!("{waiting} requests wait, and the core says {}", pending - promoted)
            })?;
        }
        self.medium.check_acknowledged()
    }

    /// Checks that the core has not forgotten work: if it has no more outputs, either the head is at work, or no request
    /// waits and a wake-up is set for wanted blocks.
    fn check_goes_on(&self) -> Result<(), Broken> {
        if self.exec.is_some() {
            return Ok(());
        }
        goes_on(&self.core, &self.clients, &self.setup, self.requests.len())
    }

    /// Returns the number of waiting foreground requests in the core, including lost ones.
    fn requests_waiting(&self) -> usize {
        self.core.pending() - self.core.promoted_pending()
    }
}

impl Scrubbing for World {
    fn medium(&self) -> &VersionedMedium {
        &self.medium
    }

    fn scrubs(&self) -> &Scrubs {
        &self.scrubs
    }

    fn scrubs_mut(&mut self) -> &mut Scrubs {
        &mut self.scrubs
    }

    fn counts_mut(&mut self) -> &mut Counts {
        &mut self.counts
    }
}

impl Mining for World {
    fn mine(&mut self) -> &mut Option<Mine> {
        &mut self.mine
    }
}

impl Calls for World {
    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn capacity(&self) -> u64 {
        self.drive.layout().capacity().get()
    }

    fn clients(&self) -> &Clients {
        &self.clients
    }

    fn both(&mut self) -> (&mut dyn AnyCore, &mut Clients) {
        (&mut self.core, &mut self.clients)
    }

    fn clock(&self) -> (Instant, u64) {
        (self.now, self.sequence)
    }

    fn event(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn dice(&mut self) -> &mut Dice {
        &mut self.dice
    }

    /// After a promotion, ends the comparison with a twin on its own clock, because the twin does not do the promoted work.
    fn promoted(&mut self) {
        if self.setup.idle.is_some() && self.core.promoted_pending() > 0 {
            self.twin.on = false;
        }
    }

    fn outstanding(&self) -> usize {
        self.requests.len()
    }

    fn newest(&self) -> RequestId {
        RequestId::new(self.next_request - 1)
    }

    fn waits(&self, request: RequestId) -> bool {
        self.requests.contains_key(&request)
    }

    fn longest_rest_s(&self) -> u64 {
        self.patience.seconds()
    }

    fn submit(&mut self, op: Op, range: LbnRange) -> Result<bool, Broken> {
        self.sequence += 1;
        let id = RequestId::new(self.next_request);
        let request = Request { id, op, range };
        let was_idle = self.exec.as_ref().is_some_and(Exec::is_idle);
        self.twin.advance(self.now);
        let reported = self.input(Input::Submit { at: self.now, request })?;
        let taken = taken(reported, request, &self.core, self.setup.most_pending)?;
        if taken {
            self.next_request += 1;
            self.since = self.now;
            let (version, submitted) = (self.version(), self.sequence);
            let (alone, arrived) = (self.requests.is_empty(), self.now);
            self.requests.insert(id, Foreground { op, range, submitted, arrived, version, alone });
        }
        // A request cuts idle work short; even a host that polls slowly polls for that.
        if was_idle && taken {
            self.poll()?;
        }
        self.drain()?;
        Ok(taken)
    }

    fn advance(&mut self, by: Duration) -> Result<(), Broken> {
        let until = self.now + by;
        self.drain()?;
        loop {
            let due = self.exec.as_ref().map(|e| e.due);
            let wake = self.core.wake_at().filter(|_| self.drained);
            if let Some(wake) = wake {
                hold(wake > self.now, Check::Endless, || "a wake-up that has passed".into())?;
            }
            let Some(next) = due.into_iter().chain(wake).min().filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            self.twin.advance(self.now);
            if due == Some(next) {
                self.due()?;
            }
            self.drain()?;
        }
        self.now = until;
        self.twin.advance(until);
        Ok(())
    }
}
