//! Where the platter stands at an instant, on a spindle whose speed may wander.
//!
//! A steady spindle needs its revolution time and nothing else. One that wanders is followed by Kalman's filter (1960)
//! for a phase and a speed that takes random steps: every reading of a sector whose angle is known tells both a little.

use crate::turns::{frac, wrap};
use units::Instant;

/// What a second does to a speed that wanders, squared: steps of a ten-thousandth every few seconds.
const WANDER_PER_S: f64 = 2e-9;

/// A reading that is further off than so many standard deviations says that the speed has changed at once, by about
/// so much of itself.
const SURPRISE: f64 = 2.2;
const JUMP: f64 = 1.5e-4;

/// A reading further off than so many standard deviations has waited for something else; so many in a row have not.
const OUTLIER: f64 = 5.0;
const MOST_LOST: u32 = 4;

/// What is known of a speed at first, relative.
const SPEED_AT_FIRST: f64 = 2e-3;

/// What a reading adds to the mean of late speeds.
const USUAL: f64 = 0.02;

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
        self.wanders = true;
        self.at_first = self.revolution;
        self.usual = self.revolution;
    }

    /// The platter stands at `angle` at `at`, whatever was thought; it turns as it usually does.
    pub(crate) fn find_again(&mut self, at: Instant, angle: f64, spread: f64) {
        self.phase = frac(angle);
        self.at = at;
        self.phase_variance = spread * spread;
        self.common = 0.0;
        self.revolution = self.usual;
        self.speed_variance = SPEED_AT_FIRST * SPEED_AT_FIRST;
        self.lost = 0;
    }

    /// Takes in that the platter stood at `angle` at `at`, known to a standard deviation of `spread`; how far off that
    /// is from what was expected, unless it makes no sense.
    pub(crate) fn take(&mut self, at: Instant, angle: f64, spread: f64) -> Option<f64> {
        let error = wrap(angle - self.turns_at(at));
        if !self.wanders || at < self.at {
            return Some(error);
        }
        let turns = self.since(at);
        let wander = WANDER_PER_S * self.revolution / 1e9;
        let noise = spread * spread;
        let ahead = |speed_variance: f64| {
            let phase_variance = self.phase_variance
                + 2.0 * turns * self.common
                + turns * turns * speed_variance
                + wander * turns.powi(3) / 3.0;
            let common = self.common + turns * speed_variance + wander * turns * turns / 2.0;
            (phase_variance, common, speed_variance + wander * turns, phase_variance + noise)
        };
        let (mut phase_variance, mut common, mut speed_variance, mut all) = ahead(self.speed_variance);
        if error * error > SURPRISE * SURPRISE * all {
            // The speed has changed by more than it usually does.
            (phase_variance, common, speed_variance, all) = ahead(self.speed_variance.max(JUMP * JUMP));
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
        let (of_phase, of_speed) = (phase_variance / all, common / all);
        self.phase = frac(self.phase + turns + of_phase * error);
        self.at = at;
        // Further than expected: faster than was thought.
        let faster = (of_speed * error).clamp(-MOST_CHANGE, MOST_CHANGE);
        let (least, most) = (self.at_first * (1.0 - MOST_WANDER), self.at_first * (1.0 + MOST_WANDER));
        self.revolution = (self.revolution / (1.0 + faster)).clamp(least, most);
        self.usual += USUAL * (self.revolution - self.usual);
        self.phase_variance = (1.0 - of_phase) * phase_variance;
        self.common = (1.0 - of_phase) * common;
        self.speed_variance = speed_variance - of_speed * common;
        Some(error)
    }
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
}
