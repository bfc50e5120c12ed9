//! Where the platter stands at an instant, on a spindle whose speed may wander.
//!
//! A steady spindle needs its revolution time and nothing else. One that wanders is followed by Kalman's filter (1960)
//! for a phase and a speed that takes random steps: every reading of a sector whose angle is known tells both a little.

use crate::turns::{frac, wrap};
use units::Instant;

/// What a second does to a speed that wanders, squared: steps of a ten-thousandth every few seconds.
pub(crate) const WANDER_PER_S: f64 = 2e-9;

/// A reading that is further off than so many standard deviations says that the speed has changed at once, by about
/// so much of itself.
const SURPRISE: f64 = 2.2;
const JUMP: f64 = 1.5e-4;

/// A reading further off than so many standard deviations has waited for something else; so many in a row have not.
pub(crate) const OUTLIER: f64 = 5.0;
pub(crate) const MOST_LOST: u32 = 4;

/// What is known of a speed at first, relative.
pub(crate) const SPEED_AT_FIRST: f64 = 2e-3;

/// What a reading adds to the mean of late speeds.
const USUAL: f64 = 0.02;

/// Readings after which what is known of the platter at first no longer matters: of phase and speed each reading leaves a part that is
/// below nine tenths where they are further apart than a turn, and 0.9 to the power of 256 is 2e-12.
const READINGS_UNTIL_STEADY: usize = 256;

/// The most that one reading changes a speed, relative; and how far a speed goes from what it was at first.
const MOST_CHANGE: f64 = 5e-4;
const MOST_WANDER: f64 = 0.012;

/// Phase and speed of the platter, and how well they are known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Platter {
    /// One turn, ns; 0 while it is not known.
    pub(crate) revolution: f64,
    /// Turns at an instant; angles at others follow from the speed.
    phase: f64,
    at: Instant,
    /// Variances of phase (turns) and relative speed, and what they have in common; all 0 on a steady spindle.
    phase_variance: f64,
    common: f64,
    speed_variance: f64,
    map: Map,
    wanders: bool,
    /// One turn when following began, ns, and a mean of late ones.
    at_first: f64,
    usual: f64,
    /// Readings in a row that made no sense.
    lost: u32,
}

impl Platter {
    pub(crate) const fn new() -> Self {
        Self {
            revolution: 0.0,
            phase: 0.0,
            at: Instant::ZERO,
            phase_variance: 0.0,
            common: 0.0,
            speed_variance: 0.0,
            map: Map { error: 0.0, variance: 0.0, with_phase: 0.0, with_speed: 0.0 },
            wanders: false,
            at_first: 0.0,
            usual: 0.0,
            lost: 0,
        }
    }

    /// Turns from the last instant to `at`.
    fn since(&self, at: Instant) -> f64 {
        let (later, earlier) = (at.saturating_since(self.at), self.at.saturating_since(at));
        (later.as_nanos() as f64 - earlier.as_nanos() as f64) / self.revolution
    }

    /// Where the platter stands at `at`, in turns.
    pub(crate) fn turns_at(&self, at: Instant) -> f64 {
        frac(self.phase + self.since(at))
    }

    /// From `at` on the speed is taken to wander.
    pub(crate) fn begin_to_follow(&mut self, at: Instant) {
        self.phase = self.turns_at(at);
        self.at = at;
        self.phase_variance = 0.0;
        self.common = 0.0;
        self.speed_variance = SPEED_AT_FIRST * SPEED_AT_FIRST;
        self.map = Map::default();
        self.wanders = true;
        self.at_first = self.revolution;
        self.usual = self.revolution;
    }

    /// The same, where angles are counted from how the platter stood at `at`.
    pub(crate) fn begin_to_follow_from(&mut self, at: Instant) {
        self.begin_to_follow(at);
        self.phase = 0.0;
    }

    /// The platter stands at `angle` at `at`, whatever was thought; it turns as it usually does.
    pub(crate) fn find_again(&mut self, at: Instant, angle: f64, spread: f64) {
        self.phase = frac(angle);
        self.at = at;
        self.phase_variance = spread * spread;
        self.common = 0.0;
        self.revolution = self.usual;
        self.speed_variance = SPEED_AT_FIRST * SPEED_AT_FIRST;
        self.map = Map::default();
        self.lost = 0;
    }

    /// Takes in that the platter stood at `angle` at `at`, known to a standard deviation of `spread`; how far off that
    /// is from what was expected, unless it makes no sense.
    pub(crate) fn take(&mut self, at: Instant, angle: f64, spread: f64) -> Option<f64> {
        let error = self.correct(at, angle, spread, 0.0);
        // The error of the map is estimated anew from each anchor on.
        self.map = Map::default();
        error
    }

    /// The same by a sector of the map, which has its angle to a standard deviation of `known`: one error that all such sectors
    /// share until an anchor is read. So they tell how the speed changes, and not again and again where the platter stands.
    pub(crate) fn take_mapped(
        &mut self,
        at: Instant,
        angle: f64,
        spread: f64,
        known: f64,
        apart: f64,
    ) -> Option<f64> {
        if self.map.variance == 0.0 {
            self.map.variance = known * known;
        }
        self.map.variance += apart * apart;
        self.correct(at, angle, spread, 1.0)
    }

    /// Takes in an angle with so much of the map's error in it.
    fn correct(&mut self, at: Instant, angle: f64, spread: f64, mapped: f64) -> Option<f64> {
        let error = wrap(angle + mapped * self.map.error - self.turns_at(at));
        if !self.wanders || at < self.at {
            return Some(error);
        }
        let turns = self.since(at);
        let wander = WANDER_PER_S * self.revolution / 1e9;
        let noise = spread * spread;
        let map = self.map;
        let ahead = |speed_variance: f64| {
            let now = [self.phase_variance, self.common, speed_variance];
            let [phase_variance, common, speed_variance] = later(now, turns, wander);
            let with_phase = map.with_phase + turns * map.with_speed;
            let all = phase_variance - 2.0 * mapped * with_phase + mapped * map.variance + noise;
            (phase_variance, common, speed_variance, with_phase, all)
        };
        let (mut phase_variance, mut common, mut speed_variance, mut with_phase, mut all) =
            ahead(self.speed_variance);
        if error * error > SURPRISE * SURPRISE * all {
            if mapped > 0.0 {
                // The map may be wrong there: an anchor tells which of both it is.
                return None;
            }
            // The speed has changed by more than it usually does.
            (phase_variance, common, speed_variance, with_phase, all) =
                ahead(self.speed_variance.max(JUMP * JUMP));
        }
        if error * error > OUTLIER * OUTLIER * all {
            self.lost += 1;
            if self.lost < MOST_LOST {
                return None;
            }
            // Again and again: the platter is elsewhere.
            self.find_again(at, angle, spread);
            return None;
        }
        self.lost = 0;
        // How phase, speed and the map's error go with what was read.
        let of = [
            phase_variance - mapped * with_phase,
            common - mapped * map.with_speed,
            with_phase - mapped * map.variance,
        ];
        let [of_phase, of_speed, of_map] = of.map(|of| of / all);
        self.phase = frac(self.phase + turns + of_phase * error);
        self.at = at;
        // Further than expected: faster than was thought.
        let faster = (of_speed * error).clamp(-MOST_CHANGE, MOST_CHANGE);
        let (least, most) = (self.at_first * (1.0 - MOST_WANDER), self.at_first * (1.0 + MOST_WANDER));
        self.revolution = (self.revolution / (1.0 + faster)).clamp(least, most);
        self.usual += USUAL * (self.revolution - self.usual);
        self.phase_variance = phase_variance - of_phase * of[0];
        self.common = common - of_phase * of[1];
        self.speed_variance = speed_variance - of_speed * of[1];
        self.map = Map {
            error: map.error + of_map * error,
            variance: map.variance - of_map * of[2],
            with_phase: with_phase - of_phase * of[2],
            with_speed: map.with_speed - of_speed * of[2],
        };
        Some(error)
    }
}

/// Variances of phase (turns) and relative speed, and between them what they have in common, so many turns later.
fn later([phase, common, speed]: [f64; 3], turns: f64, wander: f64) -> [f64; 3] {
    [
        phase + 2.0 * turns * common + turns * turns * speed + wander * turns.powi(3) / 3.0,
        common + turns * speed + wander * turns * turns / 2.0,
        speed + wander * turns,
    ]
}

/// The standard deviation of an angle, turns, where one reading has that of `reading` and the platter was followed by such a
/// reading `every` ns, when the next one is due.
pub(crate) fn spread_where_followed(reading: f64, every: f64, revolution: f64) -> f64 {
    let (turns, wander) = (every / revolution, WANDER_PER_S * revolution / 1e9);
    let noise = reading * reading;
    let mut now = [noise, 0.0, SPEED_AT_FIRST * SPEED_AT_FIRST];
    let mut spread = reading;
    for _ in 0..READINGS_UNTIL_STEADY {
        let [phase, common, speed] = later(now, turns, wander);
        let all = phase + noise;
        now = [phase - phase * phase / all, common - phase * common / all, speed - common * common / all];
        spread = all.sqrt();
    }
    spread
}

/// The error that all sectors of the map share, in revolutions: its estimate, its variance, and its covariances with phase and speed.
#[derive(Clone, Copy, Debug, Default)]
struct Map {
    error: f64,
    variance: f64,
    with_phase: f64,
    with_speed: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_that_wanders_is_followed() {
        let mut platter = Platter::new();
        platter.revolution = 6_000_000.0;
        platter.begin_to_follow(Instant::ZERO);
        let (mut turns, mut speed, mut worst) = (0.0, 1.001, 0.0_f64);
        for k in 1..20_000_u64 {
            let jitter = ((k * 7_919) % 1_000) as f64 / 1_000.0 - 0.5;
            if k.is_multiple_of(500) {
                speed += if (k * 31) % 1_000 < 500 { 1e-4 } else { -1e-4 };
            }
            turns += 10_000_000.0 / 6_000_000.0 * speed;
            let at = Instant::from_nanos(k * 10_000_000);
            if k > 400 {
                worst = worst.max(wrap(platter.turns_at(at) - turns).abs());
            }
            platter.take(at, frac(turns + 0.0017 * jitter), 0.0005);
        }
        assert!(worst < 0.0016, "{worst}");
    }

    #[test]
    fn a_reading_that_waited_changes_nothing_and_a_platter_elsewhere_is_found_again() {
        let mut platter = Platter::new();
        platter.revolution = 6_000_000.0;
        platter.begin_to_follow(Instant::ZERO);
        for k in 1..100 {
            platter.take(Instant::from_nanos(k * 6_000_000), 0.0, 0.0005);
        }
        let before = platter.turns_at(Instant::from_nanos(660_000_000));
        assert_eq!(platter.take(Instant::from_nanos(600_000_000), 0.3, 0.0005), None);
        assert_eq!(platter.turns_at(Instant::from_nanos(660_000_000)), before);
        for k in 101..110 {
            platter.take(Instant::from_nanos(k * 6_000_000), 0.3, 0.0005);
        }
        assert!(wrap(platter.turns_at(Instant::from_nanos(660_000_000)) - 0.3).abs() < 0.01);
    }

    /// A platter that is known to a microsecond, at the end of a second; angles are 0 at whole turns.
    fn followed() -> (Platter, Instant) {
        let mut platter = Platter::new();
        platter.revolution = 6_000_000.0;
        platter.begin_to_follow(Instant::ZERO);
        for k in 1..=100 {
            platter.take(Instant::from_nanos(k * 12_000_000), 0.0, 0.0005);
        }
        (platter, Instant::from_nanos(1_200_000_000))
    }

    /// A map that is off by 3 us and known to 6: taken for readings of their own, 64 of its sectors drew the platter there.
    #[test]
    fn what_the_map_is_off_by_is_not_taken_for_the_platter_again_and_again() {
        let (mut platter, mut at) = followed();
        for _ in 0..64 {
            at += units::Duration::from_nanos(6_000_000);
            assert!(platter.take_mapped(at, 0.0005, 0.0005, 0.001, 0.0).is_some());
        }
        let off = wrap(platter.turns_at(at));
        assert!(off.abs() < 0.0001, "{off}");
    }

    #[test]
    fn a_sector_of_the_map_that_is_far_off_is_no_reading_of_the_platter() {
        let (mut platter, at) = followed();
        let at = at + units::Duration::from_nanos(6_000_000);
        let before = platter.turns_at(at);
        for angle in [0.004, -0.004, 0.3, 0.3, 0.3, 0.3, 0.3] {
            assert_eq!(platter.take_mapped(at, angle, 0.0005, 0.0002, 0.0), None);
        }
        assert_eq!(platter.turns_at(at), before);
    }

    #[test]
    fn the_longer_a_platter_is_not_read_the_less_is_known_of_where_it_stands() {
        let at = |every: f64| spread_where_followed(0.0005, every, 6_000_000.0);
        let spreads: Vec<f64> = [6e6, 60e6, 600e6].map(at).to_vec();
        assert!(spreads[0] < 0.0006 && spreads.windows(2).all(|w| w[1] > w[0]), "{spreads:?}");
    }
}
