//! The random variation of the electronics' times.

use crate::behaviour::Behaviour;
use crate::dice::{Component, Dice};
use units::Duration;

/// The random parts of overheads, and of the overlap of medium and bus. A part that is `None` is switched off.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chance {
    command: Option<(Duration, Dice)>,
    completion: Option<(Duration, Dice)>,
    overlap: Option<(u64, Dice)>,
}

fn draw(dice: &mut Option<(Duration, Dice)>) -> Duration {
    dice.as_mut().map_or(Duration::ZERO, |(most, dice)| dice.up_to(*most))
}

impl Chance {
    pub(crate) fn new(behaviour: &Behaviour, seed: u64) -> Self {
        let varies =
            |most: Duration, component| (most > Duration::ZERO).then(|| (most, Dice::new(seed, component)));
        Self {
            command: varies(behaviour.command_spread, Component::Command),
            completion: varies(behaviour.completion_spread, Component::Completion),
            overlap: (behaviour.overlap_percent > 0)
                .then(|| (u64::from(behaviour.overlap_percent), Dice::new(seed, Component::Overlap))),
        }
    }

    /// Returns the extra overhead of the next command.
    pub(crate) fn command(&mut self) -> Duration {
        draw(&mut self.command)
    }

    /// Returns the delay of the next completion.
    pub(crate) fn completion(&mut self) -> Duration {
        draw(&mut self.completion)
    }

    /// Returns the number of sectors, out of the `count` of a read, that must be in the buffer before the read takes the bus.
    pub(crate) fn held_back(&mut self, count: u64) -> u64 {
        self.overlap.as_mut().map_or(0, |(percent, dice)| dice.below(count * *percent + 1) / 100)
    }
}
