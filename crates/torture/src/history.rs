//! A history carried out, with every promise held after each step.

use crate::calls::Calls;
use crate::failure::{Broken, Check, Failure};
use crate::medium::Health;
use crate::misuse::misuse;
use crate::outside::Front;
use crate::scenario::{Host, Scenario};
use crate::step::{AtHand, Step};
use crate::volume::House;
use crate::world::{Counts, World};
use std::panic::{AssertUnwindSafe, catch_unwind};
use units::{Duration, Instant, Lbn};

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
            Host::Outside => {
                let mut front = Front::new(&scenario.setup)?;
                for (number, step) in scenario.steps.iter().enumerate() {
                    (at_step, at) = (number, front.now);
                    let held = front.step(step).and_then(|()| front.check());
                    at = front.now;
                    held?;
                }
                (counts, hash) = (front.counts, front.hash);
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
        if let Some(called) = self.call(step) {
            return called;
        }
        match *step {
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
            Step::Mine { priority, start, pages, scans, permille } => {
                self.start_mining(priority, (start, pages), (scans, permille))
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
            Step::Misuse { kind } => misuse(&mut self.core, &self.clients, self.now, kind),
            Step::Settle { hog } => self.settle(hog),
            // The rest is for other hosts.
            _ => Ok(()),
        }
    }

    fn health(&mut self, lbn: u64, health: Health) -> Result<(), Broken> {
        let lbn = Lbn::new(lbn % self.capacity());
        self.medium.set_health(lbn, health);
        self.note_for_scrub(std::iter::once(lbn));
        Ok(())
    }

    /// All troubles end, and everybody gets what he asked for.
    fn settle(&mut self, hog: bool) -> Result<(), Broken> {
        (self.polls, self.at_hand, self.late, self.fate) = (None, AtHand::All, Duration::ZERO, None);
        self.drain()?;
        self.everybody_gets_everything(hog)?;
        self.check_scrub_over()?;
        self.check_mining_over()?;
        self.clients.check_ledger()
    }
}
