//! The random deviations of the arm's moves from the times of the model.

use crate::behaviour::Behaviour;
use crate::dice::{Component, Dice};
use units::Duration;

/// The arm's part of a [`Behaviour`], with its random streams.
#[derive(Clone, Debug)]
pub(crate) struct Wobble {
    ageing_ppm: i32,
    spread: Duration,
    late_ppm: u32,
    latest: Duration,
    missed_ppm: u32,
    seek: Dice,
    settle: Dice,
    landing: Dice,
}

impl Wobble {
    /// Returns `None` if the behaviour does not change the times of moves.
    pub(crate) fn new(behaviour: &Behaviour, seed: u64) -> Option<Self> {
        let b = behaviour;
        let exact = b.seek_ageing_ppm == 0
            && b.seek_spread == Duration::ZERO
            && b.late_settles.ppm == 0
            && b.missed_landings_ppm == 0;
        (!exact).then(|| Self {
            ageing_ppm: b.seek_ageing_ppm,
            spread: b.seek_spread,
            late_ppm: b.late_settles.ppm,
            latest: b.late_settles.most,
            missed_ppm: b.missed_landings_ppm,
            seek: Dice::new(seed, Component::Seek),
            settle: Dice::new(seed, Component::Settle),
            landing: Dice::new(seed, Component::Landing),
        })
    }

    /// Returns the time of a move that takes `time` in the model. Every move takes the same number of random numbers from
    /// every stream, so that the deviations of later moves do not depend on this one.
    pub(crate) fn of(&mut self, time: Duration, revolution: impl Fn() -> Duration) -> Duration {
        let ns = time.as_nanos() as i64;
        let aged = i128::from(ns) * i128::from(self.ageing_ppm) / 1_000_000;
        let mut taken = ns + aged as i64 + self.seek.around_zero(self.spread);
        let (late, by) = (self.settle.once_in_million(self.late_ppm), self.settle.up_to(self.latest));
        if late {
            taken += by.as_nanos() as i64;
        }
        let mut taken = Duration::from_nanos(taken.max(0) as u64);
        if self.landing.once_in_million(self.missed_ppm) {
            taken += revolution();
        }
        taken
    }
}
