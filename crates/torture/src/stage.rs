//! A host of a history, and its state that another host of the same history must have as well.

use crate::counts::Counts;
use crate::failure::Broken;
use crate::setup::Setup;
use crate::step::Step;
use scheduler::{Core, Harm};
use units::Instant;

/// The result of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The numbers of events.
    pub counts: Counts,
    /// A hash of all outputs and their times.
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
