//! One bound for detours and idle time: what both cost the foreground together stays below it.
//!
//! Each may use what the other leaves, and has a part of its own: when all is used up, who has more than its part waits for who
//! has less, and neither goes on meanwhile. Which of them gets more for a turn that the foreground
//! loses depends on the load: on a busy drive detours do, on one that is seldom used idle time. Who has got more so far
//! has three quarters.

use crate::idle::Harm;

/// Of a bound, the quarters that are reserved for who has got less for what it cost, and for who has got more.
const QUARTERS: [u32; 2] = [1, 3];

/// What both have got, and cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    /// Wanted sectors, of detours and of idle time.
    sectors: [u64; 2],
    /// What they have cost, in millionths of the foreground's time.
    cost_ppm: [u32; 2],
    /// The quarters that each has of its own.
    quarters: [u32; 2],
    /// Who has used more than its part, and leaves the rest to the other.
    yields: [bool; 2],
}

impl Default for Shared {
    fn default() -> Self {
        Self { sectors: [0; 2], cost_ppm: [0; 2], quarters: [2; 2], yields: [false; 2] }
    }
}

impl Shared {
    /// A command has brought wanted sectors.
    pub fn had(&mut self, in_idle_time: bool, sectors: u32) {
        self.sectors[usize::from(in_idle_time)] += u64::from(sectors);
    }

    /// Looks at what both have cost, of so many millionths that both may.
    pub fn weigh(&mut self, detours: &Harm, idle: &Harm, bound_ppm: u32) {
        self.cost_ppm = [detours.ppm(), idle.ppm()];
        let got = |who: usize, other: usize| u128::from(self.sectors[who]) * u128::from(self.cost_ppm[other]);
        let (detours, idle) = (got(0, 1), got(1, 0));
        self.quarters = [2; 2];
        if detours != idle {
            let idle_first = usize::from(idle > detours);
            self.quarters = [QUARTERS[1 - idle_first], QUARTERS[idle_first]];
        }
        let has_more = |who: usize| self.cost_ppm[who] > self.own(who, bound_ppm);
        let used_up = self.cost_ppm[0].saturating_add(self.cost_ppm[1]) >= bound_ppm;
        self.yields = [0, 1].map(|who| {
            let other = 1 - who;
            // Gaps come with each request, but there may be no idle time.
            let may_get = other == 0 || self.sectors[other] > 0;
            let has_less = may_get && self.cost_ppm[other] < self.own(other, bound_ppm);
            has_more(who) && has_less && (used_up || self.yields[who])
        });
    }

    /// Whether idle time has brought anything.
    pub fn uses_idle_time(&self) -> bool {
        self.sectors[1] > 0
    }

    /// The millionths that detours may cost.
    pub fn for_detours(&self, bound_ppm: u32) -> u32 {
        self.part(0, bound_ppm)
    }

    /// The millionths that idle time may cost.
    pub fn for_idle(&self, bound_ppm: u32) -> u32 {
        self.part(1, bound_ppm)
    }

    /// Of a bound, the 65536ths that idle time has not used.
    pub fn left_by_idle(&self, bound_ppm: u32) -> u32 {
        let left = u64::from(bound_ppm.saturating_sub(self.cost_ppm[1])) * 65_536;
        u32::try_from(left / u64::from(bound_ppm.max(1))).unwrap_or(65_536)
    }

    fn part(&self, who: usize, bound_ppm: u32) -> u32 {
        let left = bound_ppm.saturating_sub(self.cost_ppm[1 - who]);
        if self.yields[who] { left.min(self.own(who, bound_ppm)) } else { left }
    }

    fn own(&self, who: usize, bound_ppm: u32) -> u32 {
        let own = u64::from(bound_ppm) * u64::from(self.quarters[who]) / 4;
        u32::try_from(own).unwrap_or(bound_ppm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Duration;

    fn harm(late_ppm: u64) -> Harm {
        let (foreground, late) = (Duration::from_secs(1), Duration::from_micros(late_ppm));
        Harm { foreground, late, early: Duration::ZERO }
    }

    fn shared(sectors: (u32, u32), ppm: [(u64, u64); 2]) -> (u32, u32) {
        let mut shared = Shared::default();
        shared.had(false, sectors.0);
        shared.had(true, sectors.1);
        for (detours, idle) in ppm {
            shared.weigh(&harm(detours), &harm(idle), 10_000);
        }
        (shared.for_detours(10_000), shared.for_idle(10_000))
    }

    #[test]
    fn who_is_alone_has_it_all() {
        assert_eq!(shared((100, 0), [(9_000, 0); 2]).0, 10_000);
        assert_eq!(shared((100, 0), [(10_000, 0); 2]).0, 10_000);
        assert_eq!(shared((0, 100), [(0, 9_000); 2]).1, 10_000);
    }

    #[test]
    fn both_together_stay_below_it() {
        for (detours, idle) in [(0, 9_900), (4_000, 4_000), (9_000, 900), (6_000, 6_000)] {
            for sectors in [(300, 100), (100, 300), (100, 100)] {
                let (more, most) = shared(sectors, [(detours, idle); 2]);
                assert!(u64::from(more) <= 10_000 - idle && u64::from(most) <= 10_000 - detours);
            }
        }
    }

    #[test]
    fn who_gets_more_for_its_cost_may_cost_more() {
        // Idle time has used up all, and makes room until detours have their part, or itself no more than its own.
        let used_up = (1_000, 9_000);
        assert_eq!(shared((300, 100), [used_up; 2]), (1_000, 2_500));
        assert_eq!(shared((300, 100), [used_up, (6_000, 2_600)]), (7_400, 2_500));
        assert_eq!(shared((300, 100), [used_up, (6_000, 2_400)]), (7_600, 4_000));
        assert_eq!(shared((10, 300), [used_up, (1_000, 8_000)]), (2_000, 7_500));
        assert_eq!(shared((10, 300), [used_up, (1_000, 7_000)]), (3_000, 9_000));
        // What the other leaves is there for the taking.
        assert_eq!(shared((300, 100), [(2_000, 3_000); 2]), (7_000, 8_000));
    }
}
