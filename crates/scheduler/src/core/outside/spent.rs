//! Revolutions spent on purpose: a request waits one more revolution, which its detour uses.
//!
//! The harm bound is meant for delays that cannot be predicted, and much of it stays unused if the foreground gains by
//! detours, for example because the next request is chosen from more. A revolution lost by chance yields nothing; a revolution
//! spent on purpose yields all blocks that the head reads in it. The rest of the bound is therefore spent on the revolutions with
//! the greatest yield. The greatest yield is unknown in advance, and falls towards the end of a scan. A price, the least yield
//! for which a revolution is spent, approaches it: the price falls while the bound has room, and rises while it has none.

use super::clock::nanos;
use super::detour::GapPart;
use super::forecast::Standing;
use super::transfer::Transfer;
use super::{Order, Outside};
use crate::background::Focus;
use crate::core::Core;
use crate::core::under_way::Job;
use crate::planner::Detour;
use units::Duration;

/// The units of a price in one sector.
const PRICE_PER_SECTOR: u64 = 1 << 16;

/// The price falls by 1 part in `PRICE_FALL_DIVISOR` for each request for which the bound has room, and rises by 1 part in
/// `PRICE_RISE_DIVISOR` for each other one. So the price follows a scan within some hundred requests; in equilibrium one request
/// in five finds no room.
const PRICE_FALL_DIVISOR: u64 = 512;
const PRICE_RISE_DIVISOR: u64 = 128;

/// The reserve for detours that are late by chance: 1 part in this number of the bound on harm is not spent.
const RESERVE_DIVISOR: u32 = 8;

/// The least yield of a spent revolution, as a multiple of the background's usual yield in a revolution. With five, background
/// work gains four percent for each percent that the foreground loses. At the beginning of a scan a revolution yields about
/// three times the usual, which is not enough.
const YIELD_RATIO_MIN: u64 = 5;

/// The price: the least yield of a revolution that is spent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Price {
    /// The price in 65536ths of a wanted sector; a sector counts once for each task that wants it.
    per_revolution: u64,
}

impl Price {
    /// Returns the initial price: the yield of a whole track.
    pub fn of_track(sectors: u32) -> Self {
        Self { per_revolution: u64::from(sectors) * PRICE_PER_SECTOR }
    }

    /// Records a request, and whether the bound had room for a revolution.
    fn seen(&mut self, room: bool) {
        let part = |of: u64| self.per_revolution / of + 1;
        self.per_revolution = if room {
            self.per_revolution.saturating_sub(part(PRICE_FALL_DIVISOR))
        } else {
            self.per_revolution.saturating_add(part(PRICE_RISE_DIVISOR))
        };
    }

    /// Returns the number of wanted sectors that a revolution's yield must exceed, given the usual yield in a revolution.
    fn least(self, anyway: u64) -> u64 {
        anyway.saturating_mul(YIELD_RATIO_MIN).max(self.per_revolution / PRICE_PER_SECTOR)
    }
}

impl Outside {
    /// Returns whether the bound has room for one more revolution while `waiting` requests wait. Revolutions already spent for
    /// requests that are not done count as well, because their delays are not in the harm estimate yet.
    fn may_spend(&self, revolution: Duration, waiting: usize) -> bool {
        let orders = self.device.iter().chain(&self.queue);
        let time = orders.filter_map(Order::time_spent).sum::<Duration>() + revolution;
        let risk = self.client_harm.at_risk(nanos(time), waiting);
        self.detour_bound()
            .is_some_and(|bound| self.guard.caution(bound - bound / RESERVE_DIVISOR, risk).is_none())
    }
}

impl Core {
    /// Returns the detour of a request that waits one more revolution, and the time of the revolution, if its yield exceeds
    /// the price; otherwise `plain`, the detour without that revolution, and zero.
    pub(super) fn spend_revolution(
        &mut self,
        outside: &mut Outside,
        standing: &Standing,
        job: &Job,
        first: Transfer,
        plain: Option<Detour>,
    ) -> (Option<Detour>, Duration) {
        let no = (plain, Duration::ZERO);
        if !outside.config.extra_revolutions || self.background.is_idle() || outside.caution().is_some() {
            return no;
        }
        // Rounding up includes the last sector before the request in the window.
        let revolution = self.drive.rpm().revolution();
        let waiting = self.pool.len() + outside.foreground_commands().count() + 1;
        let room = outside.may_spend(revolution, waiting);
        outside.price.seen(room);
        if !room {
            return no;
        }
        let brings = plain.as_ref().map_or(0, |detour| self.brings(detour));
        // The revolution must yield more wanted sectors than this. Most revolutions do not, and the search for their detours ends
        // early.
        let worth = outside.price.least(outside.guard.yield_in(revolution));
        self.background.focus_on(Focus::All);
        let found = self.detour_for(
            outside,
            standing,
            job,
            GapPart::Longer(revolution, brings.saturating_add(worth)),
        );
        let Some(longer) = found.and_then(|detour| self.fit(outside, detour, first, revolution)) else {
            return no;
        };
        if self.brings(&longer).saturating_sub(brings) <= worth {
            return no;
        }
        self.stats.extra_revolutions += 1;
        (Some(longer), revolution)
    }

    /// Returns the number of wanted sectors that a detour yields.
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
        /// Simulates revolutions with random yields: nearly all permitted revolutions are spent, and on the greatest yields.
        #[test]
        fn permitted_revolutions_are_spent_on_the_greatest_yields(most in 2u64..600, income in 20u64..200, seed in any::<u64>()) {
            let mut price = Price::of_track(300);
            let (mut state, mut purse, mut spent, mut brought) = (seed, 0u64, 0u64, 0u64);
            let requests = 60_000;
            for request in 0..requests {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let brings = (state >> 33) % most;
                // The bound permits one revolution in `income` requests.
                purse += 1;
                let room = purse >= income;
                price.seen(room);
                if room && brings > price.least(0) {
                    purse -= income;
                    if request >= requests / 2 {
                        (spent, brought) = (spent + 1, brought + brings);
                    }
                }
            }
            // The mean yield of spent revolutions is far above the mean yield of all, which is half of the maximum.
            prop_assert!(spent * income * 10 > requests / 2 * 9, "{spent} revolutions, of {}", requests / 2 / income);
            prop_assert!(brought * 10 > spent * (most - 1) * 7, "{brought} sectors by {spent} revolutions, {most} at most");
        }
    }
}
