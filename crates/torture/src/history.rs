//! A history carried out, with every promise held after each step.

use crate::clients::{NewTask, Session};
use crate::failure::{Broken, Check, Failure, hold};
use crate::medium::Health;
use crate::scenario::{Host, Scenario};
use crate::step::{AtHand, Step};
use crate::volume::House;
use crate::world::{Counts, World};
use scheduler::{MOST_SESSIONS, Parameter, Priority, Sessions, Sharing};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use units::{Duration, Instant, Lbn, Op, SessionId};

/// Foreground requests, at the end, without a block for anybody, after which somebody starves.
const PATIENCE: u64 = 30_000;

/// The same for one session among others.
const PATIENCE_SHARED: u64 = 60_000;

/// Seconds of silence without a block for anybody, beyond what work may rest for, after which idle time is of no use.
const SILENCE_S: u64 = 30;

/// What a history came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What happened.
    pub counts: Counts,
    /// A hash of all actions and when they were taken.
    pub hash: u64,
}

/// Carries a history out.
///
/// # Errors
/// The first broken promise.
pub fn run(scenario: &Scenario) -> Result<Outcome, Failure> {
    let (mut at_step, mut at) = (0, Instant::from_nanos(scenario.setup.start_ns));
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let (mut counts, hash);
        match scenario.setup.host {
            Host::Core => {
                let mut world = World::new(&scenario.setup)?;
                for (number, step) in scenario.steps.iter().enumerate() {
                    (at_step, at) = (number, world.now);
                    let held = world.step(step).and_then(|()| world.check());
                    at = world.now;
                    held?;
                }
                (counts, hash) = (world.counts, world.hash);
            }
            Host::Volume => {
                let mut house = House::new(&scenario.setup)?;
                for (number, step) in scenario.steps.iter().enumerate() {
                    (at_step, at) = (number, house.now());
                    let held = house.step(step).and_then(|()| house.check());
                    at = house.now();
                    held?;
                }
                (counts, hash) = (house.counts, house.hash);
            }
        }
        counts.steps = scenario.steps.len() as u64;
        counts.time = at.saturating_since(Instant::from_nanos(scenario.setup.start_ns));
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
    Err(Failure { check: broken.0, step: at_step, at, what: broken.1 })
}

impl World {
    fn step(&mut self, step: &Step) -> Result<(), Broken> {
        self.sequence += 1;
        match *step {
            Step::Open { session, priority } => self.open(session, priority),
            Step::Close { session } => match self.clients.session(session) {
                Some(id) => {
                    let (told, left) = (self.core.close(id), self.clients.closed(id));
                    self.counted(told, left, "close")
                }
                None => Ok(()),
            },
            Step::Task { op, session, task, start, len, block } => match self.clients.session(session) {
                Some(session) => {
                    let range = self.clip(start, len);
                    self.register(NewTask {
                        number: task,
                        session,
                        op,
                        range,
                        block: block.max(1),
                        parameter: Parameter(self.sequence),
                    })
                }
                None => Ok(()),
            },
            Step::Abort { task } => {
                for id in self.clients.tasks_of(task) {
                    let told = self.core.abort(id);
                    if let Some(left) = self.clients.aborted(id) {
                        self.counted(told, left, "abort")?;
                    }
                }
                Ok(())
            }
            Step::AbortRange { session, start, len } => match self.clients.session(session) {
                Some(id) => {
                    let range = self.clip(start, len);
                    let (told, left) = (self.core.abort_range(id, range), self.clients.withdrawn(id, range));
                    self.counted(told, left, "abort-range")
                }
                None => Ok(()),
            },
            Step::Promote { session, start, len } => self.promote(session, start, len),
            Step::Suspend { session } => self.suspend(session, true),
            Step::Resume { session } => self.suspend(session, false),
            Step::Serve { session, on } => match self.clients.session(session) {
                Some(id) => {
                    self.clients.serve(id, on);
                    self.core.serve_reads_by_writes(id, on).map_err(refused)
                }
                None => Ok(()),
            },
            Step::Submit { op, start, len } => {
                let range = self.clip(start, len);
                self.submit(op, range).map(|_| ())
            }
            Step::Advance { ns } => self.advance(Duration::from_nanos(ns)),
            Step::Polls { most } => {
                self.polls = most.map(|n| n.max(1));
                // A host that dispatches late is no longer the twin's.
                self.twin.on &= self.twin.is_lockstep() || most.is_none();
                self.drain()
            }
            Step::Buffers { at_hand } => {
                self.at_hand = at_hand;
                Ok(())
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
            Step::Late { ns } => {
                self.late = Duration::from_nanos(ns);
                Ok(())
            }
            Step::Lose { fate } => {
                self.fate = Some(fate);
                Ok(())
            }
            Step::PowerCut => self.power_cut(),
            Step::Misuse { kind } => self.misuse(kind),
            Step::Settle { hog } => self.settle(hog),
            // The rest is for the other kind of host.
            _ => Ok(()),
        }
    }

    fn counted(
        &self,
        told: Result<u64, scheduler::SessionError>,
        left: u64,
        call: &str,
    ) -> Result<(), Broken> {
        hold(told == Ok(left), Check::Count, || {
            format!("{call} says {told:?}, and {left} blocks had not come")
        })
    }

    fn health(&mut self, lbn: u64, health: Health) -> Result<(), Broken> {
        let lbn = Lbn::new(lbn % self.capacity());
        self.medium.set_health(lbn, health);
        self.note_for_scrub(std::iter::once(lbn));
        Ok(())
    }

    fn open(&mut self, number: u32, priority: u8) -> Result<(), Broken> {
        let Some(priority) = Priority::new(priority) else { return Ok(()) };
        if self.clients.session(number).is_some() || self.clients.sessions.len() >= MOST_SESSIONS {
            return Ok(());
        }
        let id = self.core.open(priority).map_err(refused)?;
        let serve = self.setup.writes_serve_reads;
        self.clients.opened(id, Session { number, priority, serve, suspended: None, wanted: 0 })
    }

    fn register(&mut self, task: NewTask) -> Result<(), Broken> {
        let id = task.register(&mut self.core).map_err(refused)?;
        self.clients.registered(id, task, self.now, self.sequence)
    }

    fn promote(&mut self, session: u32, start: u64, len: u64) -> Result<(), Broken> {
        let Some(id) = self.clients.session(session) else { return Ok(()) };
        let range = self.clip(start, len);
        let most = self.clients.touching(id, range);
        let told = self.core.promote(id, range);
        hold(told.is_ok_and(|n| n <= most), Check::Count, || {
            format!("promote says {told:?}, and {most} blocks are wanted there")
        })?;
        self.promoted_waits();
        Ok(())
    }

    fn suspend(&mut self, number: u32, on: bool) -> Result<(), Broken> {
        let Some(id) = self.clients.session(number) else { return Ok(()) };
        let told = if on { self.core.suspend(id) } else { self.core.resume(id) };
        let sequence = self.sequence;
        if let Some(session) = self.clients.sessions.get_mut(&id) {
            session.suspended = on.then(|| session.suspended.unwrap_or(sequence));
        }
        told.map_err(refused)?;
        self.promoted_waits();
        Ok(())
    }

    /// Promoted work is the foreground's: a twin on its own clock has less to do from here on.
    fn promoted_waits(&mut self) {
        if self.setup.idle.is_some() && self.core.promoted_pending() > 0 {
            self.twin.on = false;
        }
    }

    /// No session starves: with a steady foreground, each that is not suspended gets what it asked for; once resumed,
    /// all do.
    fn settle(&mut self, hog: bool) -> Result<(), Broken> {
        (self.polls, self.at_hand, self.late, self.fate) = (None, AtHand::All, Duration::ZERO, None);
        self.drain()?;
        if hog && self.setup.sharing == Sharing::Lottery {
            self.beside_hog()?;
        }
        if self.setup.idle.is_some() && self.dice.one_in(2) {
            self.in_silence()?;
        }
        self.in_gaps()?;
        let suspended: Vec<u32> =
            self.clients.sessions.values().filter(|s| s.suspended.is_some()).map(|s| s.number).collect();
        for number in suspended {
            self.suspend(number, false)?;
        }
        self.in_gaps()?;
        self.check_scrub_over()?;
        self.clients.check_ledger()
    }

    /// A foreground read somewhere, and time until it is done.
    fn request(&mut self) -> Result<(), Broken> {
        let (start, len) = (self.dice.next(), self.dice.range(1, 8));
        let range = self.clip(start, len);
        let taken = self.submit(Op::Read, range)?;
        let mut waited = 0;
        // A pool that is full of promoted work needs time as well.
        while !self.requests.is_empty() || (waited == 0 && !taken) {
            waited += 1;
            hold(waited < 100_000, Check::Starved, || "the foreground is never done".into())?;
            self.advance(Duration::from_millis(5))?;
        }
        Ok(())
    }

    fn in_gaps(&mut self) -> Result<(), Broken> {
        let (mut left, mut without) = (self.clients.active_wanted(), 0);
        while left > 0 {
            self.request()?;
            without += 1;
            let now = self.clients.active_wanted();
            if now != left {
                (left, without) = (now, 0);
            }
            hold(without < PATIENCE, Check::Starved, || {
                format!(
                    "{left} blocks are wanted, and {without} requests have brought none: {}",
                    self.wanted()
                )
            })?;
        }
        Ok(())
    }

    /// Idle time alone is enough as well.
    fn in_silence(&mut self) -> Result<(), Broken> {
        let (mut left, mut silence) = (self.clients.active_wanted(), 0);
        while left > 0 {
            self.advance(Duration::from_secs(1))?;
            silence += 1;
            let now = self.clients.active_wanted();
            if now != left {
                (left, silence) = (now, 0);
            }
            hold(silence < SILENCE_S + self.longest_rest_s(), Check::Starved, || {
                format!(
                    "{left} blocks are wanted, and {silence} s of silence have brought none: {}",
                    self.wanted()
                )
            })?;
        }
        Ok(())
    }

    /// Each session gets on beside one of the highest priority that always wants everything.
    fn beside_hog(&mut self) -> Result<(), Broken> {
        let number = u32::MAX;
        self.open(number, 100)?;
        let Some(hog) = self.clients.session(number) else { return Ok(()) };
        // One that came last, with little to want and few tickets.
        self.open(number - 1, 10)?;
        if let Some(session) = self.clients.session(number - 1) {
            self.sequence += 1;
            let start = self.dice.next();
            let (range, parameter) = (self.clip(start, 12), Parameter(self.sequence));
            let op = if self.dice.one_in(2) { Op::Write } else { Op::Read };
            self.register(NewTask { number: number - 1, session, op, range, block: 2, parameter })?;
        }
        let others = |world: &Self| -> Vec<(SessionId, u64)> {
            let active = world.clients.sessions.iter().filter(|(id, s)| **id != hog && s.suspended.is_none());
            active.map(|(id, s)| (*id, s.wanted)).collect()
        };
        let mut seen: Vec<(SessionId, u64, u64)> =
            others(self).into_iter().map(|(id, left)| (id, left, 0)).collect();
        while seen.iter().any(|(_, left, _)| *left > 0) {
            if self.clients.sessions.get(&hog).is_some_and(|s| s.wanted == 0) {
                self.sequence += 1;
                let range = self.clip(0, u64::MAX);
                let parameter = Parameter(self.sequence);
                self.register(NewTask { number, session: hog, op: Op::Read, range, block: 1, parameter })?;
            }
            self.request()?;
            let now: BTreeMap<SessionId, u64> = others(self).into_iter().collect();
            for (id, left, without) in &mut seen {
                // A scrub closes its session when it is over.
                let now = now.get(id).copied().unwrap_or(0);
                *without += 1;
                if *left != now || now == 0 {
                    (*left, *without) = (now, 0);
                }
                hold(*without < PATIENCE_SHARED, Check::Starved, || {
                    format!(
                        "{id} wants {left} blocks, and gets none of {without} gaps beside a session of priority 100"
                    )
                })?;
            }
        }
        let (told, left) = (self.core.close(hog), self.clients.closed(hog));
        self.counted(told, left, "close")
    }

    /// What is still wanted, for a message.
    fn wanted(&self) -> String {
        let tasks = self.clients.tasks.values().take(4);
        let of = tasks.map(|t| {
            let first =
                (0..t.range.len().get().div_ceil(t.block)).map(|b| t.block_range(b)).find(|r| t.wants(*r));
            format!("{:?} of task {} at {first:?}", t.op, t.number)
        });
        of.collect::<Vec<_>>().join(", ")
    }
}

fn refused(error: scheduler::SessionError) -> Broken {
    (Check::Refusal, format!("a call that is right is refused: {error}"))
}
