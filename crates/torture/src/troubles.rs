//! The troubles of a host: steps set them, and the end of a history clears them.

use crate::step::{AtHand, Fate, Step};
use units::Duration;

/// The host's polls, its clients' answers, and the outcome of the work under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Troubles {
    /// The maximum of outputs per poll.
    pub polls: Option<u32>,
    /// The available buffers.
    pub at_hand: AtHand,
    /// The delay of the next completion.
    pub late: Duration,
    /// The true effect of the next command, which is lost.
    pub fate: Option<Fate>,
    /// The done part of the next command, on which the host gives up.
    pub given_up: Option<Fate>,
}

impl Troubles {
    pub const NONE: Self =
        Self { polls: None, at_hand: AtHand::All, late: Duration::ZERO, fate: None, given_up: None };

    /// Carries out a step that only sets a trouble; returns false for a step of another kind.
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

    /// Returns the delay of the next completion; the one after it has none.
    pub fn take_late(&mut self) -> Duration {
        std::mem::replace(&mut self.late, Duration::ZERO)
    }
}
