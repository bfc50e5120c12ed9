//! The troubles of a host, such as late or lost completions. Steps set them, and the end of a history clears them.

use crate::step::{AtHand, Fate, Step};
use units::Duration;

/// The current troubles of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Troubles {
    /// The most outputs that the host takes after an event.
    pub polls: Option<u32>,
    /// The background writes for which the host has the data.
    pub at_hand: AtHand,
    /// The delay of the next completion.
    pub late: Duration,
    /// If the next command is lost, its true effect.
    pub fate: Option<Fate>,
    /// If the host gives up on the next command, its true effect.
    pub given_up: Option<Fate>,
}

impl Troubles {
    pub const NONE: Self =
        Self { polls: None, at_hand: AtHand::All, late: Duration::ZERO, fate: None, given_up: None };

    /// Executes a step that sets a trouble; returns false for any other step.
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

    /// Returns the delay of the next completion, and clears it.
    pub fn take_late(&mut self) -> Duration {
        std::mem::replace(&mut self.late, Duration::ZERO)
    }
}
