//! What a host has to put up with until the end: steps set it, and settling ends it.

use crate::step::{AtHand, Fate, Step};
use units::Duration;

/// How the host polls and its clients answer, and how what is under way will end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Troubles {
    /// So many actions at a time.
    pub polls: Option<u32>,
    /// Which buffers are at hand.
    pub at_hand: AtHand,
    /// So much later the next completion is told.
    pub late: Duration,
    /// The next command is lost, and this was done of it.
    pub fate: Option<Fate>,
    /// The next command is given up alone, and this part of it was done.
    pub given_up: Option<Fate>,
}

impl Troubles {
    pub const NONE: Self =
        Self { polls: None, at_hand: AtHand::All, late: Duration::ZERO, fate: None, given_up: None };

    /// Takes a step that is a trouble and needs nothing else; false for any other.
    pub fn take(&mut self, step: &Step) -> bool {
        match *step {
            Step::Buffers { at_hand } => self.at_hand = at_hand,
            Step::Late { ns } => self.late = Duration::from_nanos(ns),
            Step::Lose { fate } => self.fate = Some(fate),
            Step::GiveUp { fate } => self.given_up = Some(fate),
            _ => return false,
        }
        true
    }

    /// How much later the next completion is told; the one behind it is not.
    pub fn take_late(&mut self) -> Duration {
        std::mem::replace(&mut self.late, Duration::ZERO)
    }
}
