//! Turns that are bought: a request waits for one more turn of the platter, and a detour has that turn as well.
//!
//! A bound on what the foreground may lose is there for what cannot be foreseen, and where the foreground gains by detours, as it does
//! where its next request is chosen from more, much of it is never used. A turn that is lost by chance brings nothing; one that is
//! given away on purpose brings what a head reads in a turn. So what of the bound is left is spent on the turns that bring
//! most. How much that is nobody knows before, and it falls as a scan comes to its end. The price of a turn finds it: it falls
//! as long as there is room in the bound, and rises while there is none, so that most of the time there is some, for who brings more.

use super::Outside;
use super::decide::Part;
use super::forecast::Standing;
use crate::background::Focus;
use crate::core::Core;
use crate::core::under_way::Job;
use crate::planner::Detour;
use units::{Duration, LbnRange, Op};

/// A sector in the units of the price.
const SECTOR: u64 = 1 << 16;

/// The price falls by this part of it for a request of which there is room to buy a turn, and rises by this part where there is none:
/// it follows a scan over some hundred requests, and there is none for one in five.
const FALLS: u64 = 512;
const RISES: u64 = 128;

/// Of the bound so much is not spent, one part in so many: detours that are late by chance must find something left.
const KEPT: u32 = 8;

/// A turn must bring this many times what is had in that time anyway: for a percent that the foreground loses background work gains
/// four, as it loses one with it. Of a scan's beginning, where all is wanted, it brings some three times as much, and is not worth it
/// (docs/FAST02.md).
const WORTH: u64 = 5;

/// What a turn must bring to be bought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    /// 65536ths of a wanted sector, counted once for each task that wants it.
    of_turn: u64,
}

impl Price {
    /// At first what a whole track brings.
    pub fn of_track(sectors: u32) -> Self {
        Self { of_turn: u64::from(sectors) * SECTOR }
    }

    /// One request more was seen, of which a turn could have been bought or not.
    fn seen(&mut self, room: bool) {
        let part = |of: u64| self.of_turn / of + 1;
        self.of_turn = if room {
            self.of_turn.saturating_sub(part(FALLS))
        } else {
            self.of_turn.saturating_add(part(RISES))
        };
    }

    /// A turn must bring more sectors than this, where so many are had in that time anyway.
    fn least(self, anyway: u64) -> u64 {
        anyway.saturating_mul(WORTH).max(self.of_turn / SECTOR)
    }
}

impl Outside {
    /// Whether the bound leaves room for a turn that is given away.
    fn may_buy(&self, turn: Duration) -> bool {
        let risk = self.felt.at_risk(i64::try_from(turn.as_nanos()).unwrap_or(i64::MAX));
        self.detour_bound().is_some_and(|bound| self.guard.caution(bound - bound / KEPT, risk).is_none())
    }
}

impl Core {
    /// The detour before a request, `plain` if it has none of the request's own time; and what of that it takes.
    pub(super) fn buy(
        &mut self,
        outside: &mut Outside,
        standing: &Standing,
        job: &Job,
        first: (Op, LbnRange),
        plain: Option<Detour>,
    ) -> (Option<Detour>, Duration) {
        let no = (plain, Duration::ZERO);
        if !outside.config.bought_turns || self.background.is_idle() || outside.caution().is_some() {
            return no;
        }
        // Rounded up, or the last sector before the request would not be in the window.
        let turn = self.drive.rpm().revolution();
        let room = outside.may_buy(turn);
        outside.price.seen(room);
        if !room {
            return no;
        }
        let brings = plain.as_ref().map_or(0, |detour| self.brings(detour));
        // The turn must bring more than that; most do not, and are not searched for long.
        let worth = outside.price.least(outside.guard.had_in(turn));
        self.background.look(Focus::All);
        let found = self.detour_for(outside, standing, job, Part::Longer(turn, brings.saturating_add(worth)));
        let Some(longer) = found.and_then(|detour| self.fit(outside, detour, first, turn)) else { return no };
        if self.brings(&longer).saturating_sub(brings) <= worth {
            return no;
        }
        self.stats.bought += 1;
        (Some(longer), turn)
    }

    /// The sectors that a detour brings.
    fn brings(&self, detour: &Detour) -> u64 {
        let stops = detour.stops.iter().flatten().count();
        let each = detour.stops.iter().flatten().enumerate();
        each.map(|(i, stop)| self.wanted_at(stop, detour.merged && i + 1 == stops)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever turns bring, as much is spent as comes in, and for what brings most.
        #[test]
        fn the_price_finds_what_turns_are_worth(most in 2u64..600, income in 20u64..200, seed in any::<u64>()) {
            let mut price = Price::of_track(300);
            let (mut state, mut purse, mut bought, mut brought) = (seed, 0u64, 0u64, 0u64);
            let requests = 60_000;
            for request in 0..requests {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let brings = (state >> 33) % most;
                // One turn for so many requests.
                purse += 1;
                let room = purse >= income;
                price.seen(room);
                if room && brings > price.least(0) {
                    purse -= income;
                    if request >= requests / 2 {
                        (bought, brought) = (bought + 1, brought + brings);
                    }
                }
            }
            // Of what is offered by chance, more than half of the most.
            prop_assert!(bought * income * 10 > requests / 2 * 9, "{bought} turns, of {}", requests / 2 / income);
            prop_assert!(brought * 10 > bought * (most - 1) * 7, "{brought} sectors by {bought} turns, {most} at most");
        }
    }
}
