//! The interface of hosts, and the state in which two hosts that run the same history must agree.

use crate::counts::Counts;
use crate::failure::Broken;
use crate::setup::Setup;
use crate::step::Step;
use scheduler::{Core, Harm};
use units::Instant;

/// The result of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The counts of the history's events.
    pub counts: Counts,
    /// A hash of all outputs and their times.
    pub hash: u64,
}

/// A host that executes the steps of a history.
pub(crate) trait Stage: Sized {
    /// Creates the host of a history, before its first step.
    fn open(setup: &Setup) -> Result<Self, Broken>;
    fn step(&mut self, step: &Step) -> Result<(), Broken>;
    /// Checks the conditions that hold after every step.
    fn check(&mut self) -> Result<(), Broken>;
    /// Makes the host poll once more after each `None` from now on; the additional poll must return `None` and change nothing.
    fn polls_once_more(&mut self) {}
    /// Makes a bad call of this kind, which must be refused. With `None` the host does only what it does around a bad call.
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
            // A wake-up in the past is ignored: the next poll serves it.
            doors: Doors { wake: doors.wake.filter(|at| *at > self.now()), ..doors },
            promoted: core.promoted_pending(),
            harm: core.harm(),
        }
    }
}

/// The state of a host that [`Stage::seen`] returns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seen {
    outcome: Outcome,
    now: Instant,
    doors: Doors,
    promoted: usize,
    harm: Harm,
}

/// The observable state of a core that depends on whether the core is inside or outside the drive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Doors {
    pub wake: Option<Instant>,
    /// The end of the head's work; `None` for a core outside the drive.
    pub busy: Option<Instant>,
    pub waiting: usize,
    /// The number of commands at the drive; 0 for a core inside it.
    pub at_drive: usize,
}
