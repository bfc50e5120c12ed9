//! The bound on harm that detours and idle time share: their total harm stays below the bound.
//!
//! Detours and idle time each have a reserved part of the bound, and may also use what the other leaves. When the total reaches
//! the bound, the one above its reserved part waits until its harm is within that part, or the other has used its own part. The
//! yield is the number of wanted sectors for equal harm. The yield depends on the load: it is greater for detours on a busy
//! drive, and for idle time on a drive that is seldom used. The one with the greater yield so far has three quarters of the
//! bound reserved. A wait ends if the other yields too little meanwhile: if forecasts are mistrusted no gap is used, and idle
//! time would wait in vain.

use crate::idle::Harm;

/// The quarters of a bound that are reserved for the smaller yield, and for the greater one.
const RESERVED_QUARTERS: [u32; 2] = [1, 3];

/// The number of foreground requests after which a wait of detours or idle time is judged by the yield of the one that it waits
/// for.
const JUDGED_WAIT_REQUESTS: u64 = 1_024;

/// The number of foreground requests after a wait in vain during which detours or idle time do not wait again.
const NO_WAIT_REQUESTS: u64 = 8 * JUDGED_WAIT_REQUESTS;

/// A wait of detours for idle time, or the reverse, is in vain if the other meanwhile yields fewer wanted sectors a request than
/// 1 part in this number of the waiting one's own yield a request so far.
const VAIN_YIELD_DIVISOR: u64 = 8;

/// The yields and costs of detours and of idle time; each pair is `[detours, idle time]`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    /// Wanted sectors.
    sectors: [u64; 2],
    /// Harm, as shares of the foreground's time in ppm.
    cost_ppm: [u32; 2],
    /// The quarters of the bound that are reserved for detours and for idle time.
    quarters: [u32; 2],
    /// Whether detours, or idle time, have exceeded their reserved part and leave the rest of the bound to the other.
    yields: [bool; 2],
    /// Foreground requests so far.
    requests: u64,
    /// For detours and for idle time: the request count since which they have waited, and the other's wanted sectors at that
    /// time.
    waits_since: [Option<(u64, u64)>; 2],
    /// For detours and for idle time: the request count until which they do not wait.
    goes_on_until: [u64; 2],
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            sectors: [0; 2],
            cost_ppm: [0; 2],
            quarters: [2; 2],
            yields: [false; 2],
            requests: 0,
            waits_since: [None; 2],
            goes_on_until: [0; 2],
        }
    }
}

impl Shared {
    /// Records the wanted sectors of a command.
    pub fn note_yield(&mut self, in_idle_time: bool, sectors: u32) {
        self.sectors[usize::from(in_idle_time)] += u64::from(sectors);
    }

    /// Updates the reserved parts from the harm of detours and of idle time, under a common bound of `bound_ppm`.
    pub fn weigh(&mut self, detours: &Harm, idle: &Harm, bound_ppm: u32) {
        self.requests += 1;
        self.cost_ppm = [detours.ppm(), idle.ppm()];
        let got = |who: usize, other: usize| u128::from(self.sectors[who]) * u128::from(self.cost_ppm[other]);
        let (detours, idle) = (got(0, 1), got(1, 0));
        self.quarters = [2; 2];
        if detours != idle {
            let idle_first = usize::from(idle > detours);
            self.quarters = [RESERVED_QUARTERS[1 - idle_first], RESERVED_QUARTERS[idle_first]];
        }
        let has_more = |who: usize| self.cost_ppm[who] > self.own(who, bound_ppm);
        let used_up = self.cost_ppm[0].saturating_add(self.cost_ppm[1]) >= bound_ppm;
        self.yields = [0, 1].map(|who| {
            let other = 1 - who;
            // Detours can always yield, because each request has a gap, but there may be no idle time.
            let may_get = other == 0 || self.sectors[other] > 0;
            let has_less = may_get && self.cost_ppm[other] < self.own(other, bound_ppm);
            let may_wait = self.requests >= self.goes_on_until[who];
            has_more(who) && has_less && may_wait && (used_up || self.yields[who])
        });
        [0, 1].into_iter().for_each(|who| self.judge_wait(who));
    }

    /// Ends a wait of detours (0) or idle time (1) that is in vain.
    fn judge_wait(&mut self, who: usize) {
        let other = self.sectors[1 - who];
        if !self.yields[who] {
            self.waits_since[who] = None;
            return;
        }
        let (since, then) = *self.waits_since[who].get_or_insert((self.requests, other));
        let waited = self.requests - since;
        if waited >= JUDGED_WAIT_REQUESTS {
            let of_its_own = self.sectors[who].saturating_mul(waited) / self.requests;
            if (other - then).saturating_mul(VAIN_YIELD_DIVISOR) < of_its_own {
                self.goes_on_until[who] = self.requests + NO_WAIT_REQUESTS;
                self.yields[who] = false;
            }
            self.waits_since[who] = None;
        }
    }

    /// Returns the bound on the harm of detours, in ppm.
    pub fn for_detours(&self, bound_ppm: u32) -> u32 {
        self.part(0, bound_ppm)
    }

    /// Returns the bound on the harm of idle time, in ppm.
    pub fn for_idle(&self, bound_ppm: u32) -> u32 {
        self.part(1, bound_ppm)
    }

    /// Returns the part of a bound that idle time has not used, in 65536ths.
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
        shared.note_yield(false, sectors.0);
        shared.note_yield(true, sectors.1);
        for (detours, idle) in ppm {
            shared.weigh(&harm(detours), &harm(idle), 10_000);
        }
        (shared.for_detours(10_000), shared.for_idle(10_000))
    }

    #[test]
    fn detours_or_idle_time_alone_may_use_the_whole_bound() {
        assert_eq!(shared((100, 0), [(9_000, 0); 2]).0, 10_000);
        assert_eq!(shared((100, 0), [(10_000, 0); 2]).0, 10_000);
        assert_eq!(shared((0, 100), [(0, 9_000); 2]).1, 10_000);
    }

    #[test]
    fn gaps_and_idle_time_together_stay_below_the_bound() {
        for (detours, idle) in [(0, 9_900), (4_000, 4_000), (9_000, 900), (6_000, 6_000)] {
            for sectors in [(300, 100), (100, 300), (100, 100)] {
                let (more, most) = shared(sectors, [(detours, idle); 2]);
                assert!(u64::from(more) <= 10_000 - idle && u64::from(most) <= 10_000 - detours);
            }
        }
    }

    #[test]
    fn a_wait_for_one_that_brings_nothing_ends() {
        let mut shared = Shared::default();
        shared.note_yield(true, 100_000);
        let waited = |shared: &mut Shared, detours: u32| {
            (0..JUDGED_WAIT_REQUESTS + 2).for_each(|_| {
                shared.note_yield(false, detours);
                shared.weigh(&harm(900), &harm(9_200), 10_000);
            });
            shared.for_idle(10_000) < 9_000
        };
        shared.weigh(&harm(900), &harm(9_200), 10_000);
        assert_eq!(shared.for_idle(10_000), 7_500);
        assert!(waited(&mut shared, 100), "detours bring as much as idle time did");
        assert!(!waited(&mut shared, 0), "detours bring nothing");
        assert!(!waited(&mut shared, 0), "nor for a while");
        (0..7).for_each(|_| {
            waited(&mut shared, 0);
        });
        assert!(waited(&mut shared, 100), "it is tried again");
    }

    #[test]
    fn the_greater_yield_has_the_larger_part() {
        // Idle time has used the bound, and waits until detours have their part, or until it is within its own part.
        let used_up = (1_000, 9_000);
        assert_eq!(shared((300, 100), [used_up; 2]), (1_000, 2_500));
        assert_eq!(shared((300, 100), [used_up, (6_000, 2_600)]), (7_400, 2_500));
        assert_eq!(shared((300, 100), [used_up, (6_000, 2_400)]), (7_600, 4_000));
        assert_eq!(shared((10, 300), [used_up, (1_000, 8_000)]), (2_000, 7_500));
        assert_eq!(shared((10, 300), [used_up, (1_000, 7_000)]), (3_000, 9_000));
        // Each may use the part that the other leaves.
        assert_eq!(shared((300, 100), [(2_000, 3_000); 2]), (7_000, 8_000));
    }
}
