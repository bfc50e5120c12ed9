//! Runs of histories, with checks of every promise after each step.

use crate::calls::Calls;
use crate::dice::mix;
use crate::failure::{Broken, Check, Failure, hold};
use crate::medium::Health;
use crate::mine::Mining;
use crate::misuse::{ANY_TIME, misuse, refuse};
use crate::outside::Front;
use crate::scenario::{Host, Mimicry, Scenario, Setup};
use crate::scrub::Scrubbing;
use crate::step::Step;
use crate::troubles::Troubles;
use crate::volume::House;
use crate::world::{Counts, World};
use scheduler::{Core, Harm};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use units::{Duration, Instant, Lbn};

/// The result of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The numbers of events.
    pub counts: Counts,
    /// A hash of all actions and their times.
    pub hash: u64,
}

/// A host of some kind.
pub(crate) trait Stage: Sized {
    /// Returns the host of a history, before its first step.
    fn open(setup: &Setup) -> Result<Self, Broken>;
    fn step(&mut self, step: &Step) -> Result<(), Broken>;
    /// Checks the conditions that hold after every step.
    fn check(&mut self) -> Result<(), Broken>;
    /// Makes the host poll once more than it must from here on, which must return nothing and change nothing.
    fn polls_once_more(&mut self) {}
    /// Makes a bad call, which must be refused; with `None` everything about it but the call itself.
    fn bad_call(&mut self, kind: Option<u32>) -> Result<(), Broken>;
    fn core(&self) -> &Core;
    fn doors(&self) -> Doors;
    fn now(&self) -> Instant;
    fn outcome(&self) -> Outcome;

    /// Returns the state in which two hosts of one history must agree after every step.
    fn seen(&self) -> Seen {
        let (core, doors) = (self.core(), self.doors());
        Seen {
            outcome: self.outcome(),
            now: self.now(),
            // An instant in the past means to poll, which the next call does.
            doors: Doors { wake: doors.wake.filter(|at| *at > self.now()), ..doors },
            promoted: core.promoted_pending(),
            harm: core.harm(),
        }
    }
}

/// See [`Stage::seen`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seen {
    outcome: Outcome,
    now: Instant,
    doors: Doors,
    promoted: usize,
    harm: Harm,
}

/// The answers of a core to queries that its engine does not answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Doors {
    pub wake: Option<Instant>,
    /// The end of the head's work, for a core in the drive.
    pub busy: Option<Instant>,
    pub waiting: usize,
    /// The commands at the drive, for a core outside it.
    pub at_drive: usize,
}

/// Runs a history on a host and, step by step beside it, on another, which must do the same (promise 6) although it polls
/// once more each time: a live host polls whenever an event wakes it, a simulated one as seldom as possible. After each step
/// the first gets a bad call, which the other does not, and must continue as if there had been none (promise 7).
/// # Errors
/// The first broken promise.
pub fn run(scenario: &Scenario) -> Result<Outcome, Failure> {
    match carry_out(scenario, true) {
        Err(failure) if failure.check == Check::Replay => {
            // If they agree without bad calls, a bad call has changed the state.
            let what = match carry_out(scenario, false) {
                Ok(_) => format!("a bad call was refused and has changed something: {}", failure.what),
                Err(failure) => return Err(failure),
            };
            Err(Failure { check: Check::Refusal, what, ..failure })
        }
        outcome => outcome,
    }
}

fn carry_out(scenario: &Scenario, bad_calls: bool) -> Result<Outcome, Failure> {
    match scenario.setup.host {
        Host::Core => on::<World>(scenario, bad_calls),
        Host::Volume | Host::VolumeOutside => on::<House>(scenario, bad_calls),
        Host::Outside => on::<Front>(scenario, bad_calls),
    }
}

fn on<S: Stage>(scenario: &Scenario, bad_calls: bool) -> Result<Outcome, Failure> {
    let start = Instant::from_nanos(scenario.setup.start_ns);
    // They are read after a panic too.
    let (at_step, at) = (Cell::new(0), Cell::new(start));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let (mut stage, mut other) = (S::open(&scenario.setup)?, S::open(&scenario.setup)?);
        other.polls_once_more();
        for (number, step) in scenario.steps.iter().enumerate() {
            at_step.set(number);
            let held = stage.step(step).and_then(|()| stage.check());
            at.set(stage.now());
            held?;
            let told = other.step(step).and_then(|()| other.check());
            let (here, there) = (stage.seen(), other.seen());
            hold(told.is_ok() && here == there, Check::Replay, || {
                format!("the same steps give {here:?}, and beside it {there:?} {told:?}")
            })?;
            let kind = mix(scenario.setup.seed ^ number as u64) % u64::from(ANY_TIME);
            stage.bad_call(bad_calls.then_some(kind as u32))?;
            other.bad_call(None)?;
        }
        let Outcome { mut counts, hash } = stage.outcome();
        counts.steps = scenario.steps.len() as u64;
        counts.time = at.get().saturating_since(start);
        Ok(Outcome { counts, hash })
    }));
    let broken: Broken = match outcome {
        Ok(Ok(outcome)) => return Ok(outcome),
        Ok(Err(broken)) => broken,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            (Check::Panic, format!("the scheduler panicked: {text}"))
        }
    };
    Err(Failure { check: broken.0, step: at_step.get(), at: at.get(), what: broken.1 })
}

impl Stage for World {
    fn open(setup: &Setup) -> Result<Self, Broken> {
        Self::new(setup)
    }

    fn step(&mut self, step: &Step) -> Result<(), Broken> {
        self.sequence += 1;
        if let Some(called) = self.call(step) {
            return called;
        }
        match *step {
            Step::Polls { most } => {
                self.troubles.polls = most.map(|n| n.max(1));
                // A host that dispatches late differs from the twin.
                self.twin.on &= self.twin.is_lockstep() || most.is_none();
                self.drain()
            }
            Step::Bad { lbn, stuck } => self.health(lbn, if stuck { Health::Stuck } else { Health::Bad }),
            Step::Mend { lbn } => self.health(lbn, Health::Good),
            Step::Rot { lbn } => {
                let lbn = Lbn::new(lbn % self.capacity());
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
            Step::PowerCut => self.power_cut(),
            Step::Misuse { kind } => misuse(&mut self.core, &self.clients, self.now, kind),
            Step::Settle { hog } => self.settle(hog),
            // The rest are troubles, or steps of other hosts.
            _ => {
                self.troubles.take(step);
                Ok(())
            }
        }
    }

    fn check(&mut self) -> Result<(), Broken> {
        self.check_all()
    }

    fn polls_once_more(&mut self) {
        // A probing learner draws anew for each query.
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
        Doors { wake: core.wake_at(), busy: core.busy_until(), waiting: core.pending(), at_drive: 0 }
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn outcome(&self) -> Outcome {
        Outcome { counts: self.counts, hash: self.hash.get() }
    }
}

impl World {
    fn health(&mut self, lbn: u64, health: Health) -> Result<(), Broken> {
        let lbn = Lbn::new(lbn % self.capacity());
        self.medium.set_health(lbn, health);
        self.note_for_scrub(std::iter::once(lbn));
        Ok(())
    }

    /// Ends all troubles, and checks that every client gets its blocks.
    fn settle(&mut self, hog: bool) -> Result<(), Broken> {
        self.troubles = Troubles::NONE;
        self.late_is_now();
        self.advance(Duration::ZERO)?;
        self.everybody_gets_everything(hog)?;
        self.check_scrub_over()?;
        self.check_mining_over()?;
        self.clients.check_ledger()
    }
}
