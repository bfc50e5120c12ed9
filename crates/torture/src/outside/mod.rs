//! The host of a core outside the drive. Commands go to a black box; their completions come as predicted, late, in another
//! order, or never.
//!
//! The black box decides when a command is done. The contents of the medium are kept in the host, as a version number for
//! each sector. As every host of such a core must, this one sends no command that overlaps a command at the drive if either
//! writes. So the effect of a command does not depend on the order in which the drive serves commands.

mod adopted;
mod boxed;
mod command;
mod readings;
mod reports;

use crate::calls::{Calls, goes_on, taken};
use crate::clients::Clients;
use crate::counts::Counts;
use crate::dice::Dice;
use crate::exec::Held;
use crate::failure::{Broken, Check, hold};
use crate::hash::Hash;
use crate::medium::{Health, VersionedMedium};
use crate::mine::{Mine, Mining};
use crate::misuse::{misuse, refuse};
use crate::polled;
use crate::scrub::{Scrubbing, Scrubs};
use crate::setup::{Mimicry, Setup};
use crate::stage::{Doors, Outcome, Stage};
use crate::step::Step;
use crate::troubles::Troubles;
use boxed::Boxed;
use command::SentCommand;
use model::DriveModel;
use readings::Readings;
use scheduler::{AnyCore, Caution, Config, Core, Input, Output, OutsideDrive, Request};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId, TaskId};

/// The number of polls at one instant that counts as an endless loop.
const POLLS_PER_INSTANT_MAX: u32 = 1 << 20;

/// The longest time in seconds for which idle work may rest when it has reached its harm bound.
const REST_S_MAX: u64 = 700;

/// An unfinished foreground request.
#[derive(Clone, Debug)]
struct PendingRequest {
    op: Op,
    range: LbnRange,
    /// The number of the event at which the request was submitted.
    submitted: u64,
    version: u64,
    /// The group of commands in which the request was first sent to the drive.
    group: Option<u64>,
    /// The sectors that commands have read or written for the request, or reported as bad.
    passed: BTreeSet<Lbn>,
    /// The bad sectors among `passed`.
    bad: BTreeSet<Lbn>,
    /// Whether the host gave up on a command of the request.
    given_up: bool,
}

/// The parts of a background block that commands have read or written, before the core delivers the block.
#[derive(Clone, Debug, Default)]
struct Kept {
    /// The sectors that commands have read or written for the block.
    there: BTreeSet<Lbn>,
    /// The sectors of the block that commands reported as bad.
    bad: BTreeSet<Lbn>,
    /// The last group of commands for the block.
    group: u64,
}

/// A completed command that the host has not reported to the core yet.
struct Reply {
    at: Instant,
    sent: SentCommand,
}

pub(crate) struct Front {
    setup: Setup,
    config: Config,
    known: Arc<DriveModel>,
    capacity: u64,
    boxed: Boxed,
    /// The most commands that may be at the drive, by any of the configurations that the core has had.
    most_at_drive: usize,
    core: OutsideDrive,
    medium: VersionedMedium,
    clients: Clients,
    now: Instant,
    sequence: u64,
    versions: u64,
    requests: BTreeMap<RequestId, PendingRequest>,
    next_request: u64,
    troubles: Troubles,
    /// Whether the last poll returned `None`, so that no output is left.
    drained: bool,
    /// Whether the host polls once more after each `None`.
    once_more: bool,
    /// The commands that wait because they overlap another one, in order.
    waiting: Vec<SentCommand>,
    /// The commands at the drive, by number.
    at_drive: BTreeMap<u64, SentCommand>,
    /// The completed commands that have not been reported.
    replies: Vec<Reply>,
    /// The data of background writes that was given to the core.
    held: Vec<Held>,
    /// The ranges of lost promoted work, each with the group in which it was first sent.
    lost_promoted: Vec<(LbnRange, u64)>,
    /// The parts of undelivered blocks that commands have read or written, by task and first LBN.
    kept: BTreeMap<(TaskId, Lbn), Kept>,
    /// The number of the last group of commands.
    group: u64,
    /// The purpose of the last group.
    group_for: command::For,
    /// The core's reason not to use gaps when it chose the last group.
    caution: Option<Caution>,
    /// For each suspended session, the last group before its suspension.
    suspended_after: BTreeMap<u32, u64>,
    /// The time of the last event of a foreground request.
    since: Instant,
    harm: command::Account,
    hash: Hash,
    counts: Counts,
    dice: Dice,
    scrubs: Scrubs,
    mine: Option<Mine>,
    /// The host's own readings.
    readings: Readings,
}

impl Scrubbing for Front {
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

impl Mining for Front {
    fn mine(&mut self) -> &mut Option<Mine> {
        &mut self.mine
    }
}

impl Stage for Front {
    fn open(setup: &Setup) -> Result<Self, Broken> {
        let defect = |e: String| (Check::Panic, e);
        let now = Instant::from_nanos(setup.start_ns);
        let boxed = Boxed::new(setup, now).map_err(defect)?;
        let drive = boxed.model();
        let known = setup.outside.known(boxed.profile(), &drive).map_err(defect)?;
        let outside = setup.outside.config(boxed.overheads);
        let config = setup.config().with_outside(outside);
        let capacity = drive.layout().capacity().get();
        Ok(Self {
            core: setup.outside_drive(Arc::clone(&known), config),
            setup: setup.clone(),
            most_at_drive: setup.outside.most_at_drive(),
            config,
            known,
            capacity,
            boxed,
            medium: VersionedMedium::new(capacity, !setup.writes_serve_writes),
            clients: Clients::default(),
            now,
            sequence: 0,
            versions: 0,
            requests: BTreeMap::new(),
            next_request: 1,
            troubles: Troubles::NONE,
            drained: true,
            once_more: false,
            waiting: Vec::new(),
            at_drive: BTreeMap::new(),
            replies: Vec::new(),
            held: Vec::new(),
            lost_promoted: Vec::new(),
            kept: BTreeMap::new(),
            group: 0,
            group_for: command::For::Nothing,
            caution: None,
            suspended_after: BTreeMap::new(),
            since: Instant::ZERO,
            harm: command::Account::default(),
            hash: Hash::default(),
            counts: Counts::default(),
            dice: Dice::new(setup.seed),
            scrubs: Scrubs::new(capacity),
            mine: None,
            readings: Readings::default(),
        })
    }

    fn step(&mut self, step: &Step) -> Result<(), Broken> {
        self.sequence += 1;
        if let Step::Suspend { session } = *step {
            self.suspended_after.entry(session).or_insert(self.group);
        }
        if let Step::Resume { session } | Step::Close { session } = *step {
            self.suspended_after.remove(&session);
        }
        if let Some(called) = self.call(step) {
            return called;
        }
        match *step {
            Step::Polls { most } => {
                self.troubles.polls = most.map(|n| n.max(1));
                self.drain()
            }
            Step::Bad { lbn, stuck } => {
                self.spoil(lbn, if stuck { Health::Stuck } else { Health::Bad });
                Ok(())
            }
            Step::Mend { lbn } => {
                self.spoil(lbn, Health::Good);
                Ok(())
            }
            Step::Rot { lbn } => {
                let lbn = Lbn::new(lbn % self.capacity);
                self.medium.rot(lbn);
                self.note_for_scrub(std::iter::once(lbn));
                Ok(())
            }
            Step::Scrub { priority, block } => self.start_scrub(priority, block),
            Step::Save => {
                self.save_scrub();
                Ok(())
            }
            Step::Mine { priority, start, pages, scans, permille } => {
                self.start_mining(priority, (start, pages), (scans, permille))
            }
            Step::Readings { on } => self.want_readings(on),
            Step::Adopt { knowledge } => self.adopt(knowledge),
            Step::PowerCut => self.power_cut(),
            Step::Misuse { kind } => misuse(&mut self.core, &self.clients, self.now, kind),
            Step::Settle { hog } => self.settle(hog),
            // All other steps set troubles, or are for other hosts.
            _ => {
                self.troubles.take(step);
                Ok(())
            }
        }
    }

    fn check(&mut self) -> Result<(), Broken> {
        self.clients.check_counts(&self.core, self.drained)?;
        let (most, reported) = (self.most_at_drive, self.core.at_drive());
        let here = self.at_drive.len() + self.waiting.len() + self.replies.len();
        hold(reported == here && here <= most, Check::Bound, || {
            format!("{here} commands are at the drive, the core says {reported}, and {most} may be")
        })?;
        let (pending, promoted) = (self.core.pending(), self.core.promoted_pending());
        let room = self.setup.most_pending;
        // After a loss, even a full pool also takes the requests of the lost commands.
        hold(pending - promoted <= room + 2 * most && promoted <= room, Check::Bound, || {
            format!("{pending} requests wait, {promoted} of them promoted, and {room} of each may")
        })?;
        self.medium.check_acknowledged()
    }

    fn polls_once_more(&mut self) {
        // A probing learner draws a random number for each query, so an additional poll would change its state.
        self.once_more = self.setup.mimic != Mimicry::Probing;
    }

    fn bad_call(&mut self, kind: Option<u32>) -> Result<(), Broken> {
        kind.map_or(Ok(()), |kind| refuse(&mut self.core, &self.clients, self.now, kind))
    }

    fn core(&self) -> &Core {
        &self.core
    }

    fn doors(&self) -> Doors {
        let core = &self.core;
        Doors { wake: core.wake_at(), busy: None, waiting: core.pending(), at_drive: core.at_drive() }
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn outcome(&self) -> Outcome {
        Outcome { counts: self.counts, hash: self.hash.get() }
    }
}

impl Front {
    fn spoil(&mut self, lbn: u64, health: Health) {
        let lbn = Lbn::new(lbn % self.capacity);
        self.medium.set_health(lbn, health);
        self.boxed.set_health(lbn, health);
        self.note_for_scrub(std::iter::once(lbn));
    }

    /// Polls until `None`, or until the limit that a step has set.
    fn drain(&mut self) -> Result<(), Broken> {
        self.drained = false;
        for polled in 0..self.troubles.polls.unwrap_or(u32::MAX) {
            hold(polled < POLLS_PER_INSTANT_MAX, Check::Endless, || "polls give outputs without end".into())?;
            if !self.poll()? {
                self.drained = true;
                if self.once_more {
                    polled::nothing_more(&mut self.core, self.now, &self.clients, self.troubles.at_hand)?;
                }
                self.check_goes_on()?;
                return self.read();
            }
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<bool, Broken> {
        let (caution, at_hand) = (self.core.caution(), self.troubles.at_hand);
        let (output, held) =
            polled::poll(&mut self.core, self.now, &self.clients, at_hand, &mut self.versions)?;
        self.held.extend(held);
        let Some(output) = output else { return Ok(false) };
        match output {
            Output::Do(command) => self.send(command, caution)?,
            Output::Completed(id) | Output::Failed { id, .. } => self.answered(id, output)?,
            Output::Deliver(record) => self.delivered(&record)?,
        }
        Ok(true)
    }

    /// Checks that the core has not forgotten work when no command is at the drive.
    fn check_goes_on(&self) -> Result<(), Broken> {
        if !(self.at_drive.is_empty() && self.waiting.is_empty() && self.replies.is_empty()) {
            return Ok(());
        }
        goes_on(&self.core, &self.clients, &self.setup, self.requests.len())
    }

    /// Removes all commands at the drive, and executes a random part of each.
    fn cut_off(&mut self) -> Result<(), Broken> {
        let fate = self.troubles.fate.take();
        for (at, (_, sent)) in std::mem::take(&mut self.at_drive).into_iter().enumerate() {
            let all = sent.command.range.len().get();
            let done = match fate.filter(|_| at == 0) {
                Some(fate) => fate.sectors(all),
                None => [0, all, self.dice.below(all + 1)][self.dice.below(3) as usize],
            };
            self.pass(&sent, done, true)?;
        }
        Ok(())
    }

    fn power_cut(&mut self) -> Result<(), Broken> {
        self.counts.power_cuts += 1;
        self.sequence += 1;
        self.cut_off()?;
        self.medium.check_acknowledged()?;
        self.requests.clear();
        self.waiting.clear();
        self.replies.clear();
        self.held.clear();
        self.kept.clear();
        self.lost_promoted.clear();
        self.scrub_stops();
        let mining = self.mining_stops();
        self.core = self.setup.outside_drive(Arc::clone(&self.known), self.config);
        self.tell_readings(self.readings.wanted)?;
        self.boxed.restart(self.now, true).map_err(|e| (Check::Panic, e))?;
        (self.troubles.late, self.caution, self.group_for) = (Duration::ZERO, None, command::For::Nothing);
        (self.since, self.harm) = (Instant::ZERO, command::Account::default());
        self.group += 1;
        self.sequence += 1;
        self.clients.restart(&mut self.core, self.now, self.sequence)?;
        self.scrub_goes_on()?;
        self.mining_begins_again(mining)?;
        self.drain()
    }

    fn settle(&mut self, hog: bool) -> Result<(), Broken> {
        self.troubles = Troubles::NONE;
        // Delayed completions are reported now.
        self.replies.iter_mut().for_each(|reply| reply.at = self.now);
        self.advance(Duration::ZERO)?;
        // Without use of gaps, steady foreground requests leave no time for background work.
        self.all_sessions_finish(hog && self.core.caution().is_none())?;
        if self.clients.active_wanted() == 0 {
            self.check_scrub_over()?;
            self.check_mining_over()?;
            return self.clients.check_ledger();
        }
        Ok(())
    }
}

impl Calls for Front {
    fn setup(&self) -> &Setup {
        &self.setup
    }

    fn capacity(&self) -> u64 {
        self.capacity
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
        REST_S_MAX
    }

    fn leaves_gaps_unused(&self) -> bool {
        self.core.caution().is_some()
    }

    // Gaps are short: a detour needs a margin, and may not be on the track of the request. On the short tracks of tiny drives
    // only a sector or two may fit.
    fn gaps_hold_every_block(&self) -> bool {
        self.clients.longest_wanted() <= 1
    }

    fn submit(&mut self, op: Op, range: LbnRange) -> Result<bool, Broken> {
        self.sequence += 1;
        let id = RequestId::new(self.next_request);
        let request = Request { id, op, range };
        let reported = self.core.input(Input::Submit { at: self.now, request });
        let taken = taken(reported, request, &self.core, self.setup.most_pending)?;
        if taken {
            self.next_request += 1;
            self.versions += 1;
            self.since = self.now;
            let (version, submitted) = (self.versions, self.sequence);
            let (group, passed, bad) = (None, BTreeSet::new(), BTreeSet::new());
            let asked = PendingRequest { op, range, submitted, version, group, passed, bad, given_up: false };
            self.requests.insert(id, asked);
        }
        self.drain()?;
        Ok(taken)
    }

    fn advance(&mut self, by: Duration) -> Result<(), Broken> {
        let until = self.now + by;
        self.drain()?;
        loop {
            let wake = self.core.wake_at().filter(|_| self.drained);
            if let Some(wake) = wake {
                hold(wake > self.now, Check::Endless, || "a wake-up that has passed".into())?;
            }
            let due = self.replies.iter().map(|reply| reply.at).min();
            let events = [self.boxed.next_event(), due, wake, self.readings.at.filter(|_| self.drained)];
            let Some(next) = events.into_iter().flatten().min().filter(|next| *next <= until) else { break };
            self.now = self.now.max(next);
            self.hear()?;
            self.drain()?;
        }
        self.now = until;
        self.boxed.advance(until);
        Ok(())
    }
}
