//! The angle of the platter at an instant, on a spindle whose speed may wander.
//!
//! A steady spindle needs only its revolution time. A spindle whose speed wanders is followed by a Kalman filter (1960)
//! for its phase and for a speed that takes random steps: every reading of a sector whose angle is known corrects both
//! estimates a little.

use crate::revolutions::{frac, wrap};
use units::Instant;

/// The variance that a wandering relative speed gains in one second: that of steps of a ten-thousandth every few
/// seconds.
pub(crate) const WANDER_PER_S: f64 = 2e-9;

/// An anchor's error of more standard deviations than this means that the speed has jumped.
const JUMP_DEVIATIONS_MIN: f64 = 2.2;
/// The relative size of an assumed jump of the speed.
const SPEED_JUMP_RATIO: f64 = 1.5e-4;

/// An error of more standard deviations than this means that the read was delayed.
pub(crate) const OUTLIER_DEVIATIONS_MIN: f64 = 5.0;
/// The number of delayed reads in a row after which the platter is assumed to be at another angle.
pub(crate) const OUTLIERS_MAX: u32 = 4;

/// The standard deviation of the speed before it is measured, relative to the speed.
pub(crate) const INITIAL_SPEED_DEVIATION_RATIO: f64 = 2e-3;

/// The weight of one reading in the mean of recent speeds.
const READING_WEIGHT: f64 = 0.02;

/// The number of readings after which the initial uncertainty no longer matters: if readings are more than a revolution
/// apart, each leaves less than nine tenths of the uncertainty of phase and speed, and 0.9^256 is 2e-12.
const READINGS_UNTIL_STEADY: usize = 256;

/// The largest relative change of the speed by one reading, so that a wrong reading does not spoil the speed.
const SPEED_STEP_RATIO_MAX: f64 = 5e-4;
/// The largest relative difference of the speed from the initial one, because a spindle is regulated.
const SPEED_WANDER_RATIO_MAX: f64 = 0.012;

/// The phase and speed of the platter, and their uncertainty.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Platter {
    /// The revolution time, ns; 0 while it is not known.
    pub(crate) revolution: f64,
    /// The angle at the instant `at`, in revolutions; angles at other instants follow from the speed.
    phase: f64,
    at: Instant,
    /// The variances of phase (revolutions squared) and relative speed, and their covariance `common`; all 0 if the
    /// speed is steady.
    phase_variance: f64,
    common: f64,
    speed_variance: f64,
    map: MapOffset,
    wanders: bool,
    /// The revolution time when the filter began, and the mean of recent ones, ns.
    at_first: f64,
    usual: f64,
    /// The number of outliers in a row.
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
            map: MapOffset { error: 0.0, variance: 0.0, with_phase: 0.0, with_speed: 0.0 },
            wanders: false,
            at_first: 0.0,
            usual: 0.0,
            lost: 0,
        }
    }

    /// Returns the revolutions from the last corrected instant to `at`.
    fn since(&self, at: Instant) -> f64 {
        let (later, earlier) = (at.saturating_since(self.at), self.at.saturating_since(at));
        (later.as_nanos() as f64 - earlier.as_nanos() as f64) / self.revolution
    }

    /// Returns the angle of the platter at `at`, in revolutions.
    pub(crate) fn revolutions_at(&self, at: Instant) -> f64 {
        frac(self.phase + self.since(at))
    }

    /// Begins to follow the spindle: from `at` on the speed may wander.
    pub(crate) fn begin_to_follow(&mut self, at: Instant) {
        self.phase = self.revolutions_at(at);
        self.at = at;
        self.phase_variance = 0.0;
        self.common = 0.0;
        self.speed_variance = INITIAL_SPEED_DEVIATION_RATIO * INITIAL_SPEED_DEVIATION_RATIO;
        self.map = MapOffset::default();
        self.wanders = true;
        self.at_first = self.revolution;
        self.usual = self.revolution;
    }

    /// Begins to follow the spindle, with angles relative to the platter's angle at `at`.
    pub(crate) fn begin_to_follow_from(&mut self, at: Instant) {
        self.begin_to_follow(at);
        self.phase = 0.0;
    }

    /// Sets the angle at `at` anew, and the speed to the mean of recent ones.
    pub(crate) fn find_again(&mut self, at: Instant, angle: f64, spread: f64) {
        self.phase = frac(angle);
        self.at = at;
        self.phase_variance = spread * spread;
        self.common = 0.0;
        self.revolution = self.usual;
        self.speed_variance = INITIAL_SPEED_DEVIATION_RATIO * INITIAL_SPEED_DEVIATION_RATIO;
        self.map = MapOffset::default();
        self.lost = 0;
    }

    /// Corrects phase and speed by a reading of `angle` at `at` with the standard deviation `spread`. Returns the
    /// measured angle's difference from the expected one, in revolutions; `None` for an outlier.
    pub(crate) fn take(&mut self, at: Instant, angle: f64, spread: f64) -> Option<f64> {
        let error = self.correct(at, angle, spread, 0.0);
        // The map's error is estimated anew after each anchor.
        self.map = MapOffset::default();
        error
    }

    /// Corrects phase and speed by a sector of the map, whose angle has the standard deviation `known`. All such
    /// sectors share one error until an anchor is read. So their readings show a change of the speed, but repeated
    /// readings give no further information on the phase.
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

    /// Corrects phase and speed by an angle, which contains the share `mapped` of the map's error: 1 for a mapped
    /// sector, 0 for an anchor.
    fn correct(&mut self, at: Instant, angle: f64, spread: f64, mapped: f64) -> Option<f64> {
        let error = wrap(angle + mapped * self.map.error - self.revolutions_at(at));
        if !self.wanders || at < self.at {
            return Some(error);
        }
        let revolutions = self.since(at);
        let wander = WANDER_PER_S * self.revolution / 1e9;
        let noise = spread * spread;
        let map = self.map;
        let ahead = |speed_variance: f64| {
            let now = [self.phase_variance, self.common, speed_variance];
            let [phase_variance, common, speed_variance] = later(now, revolutions, wander);
            let with_phase = map.with_phase + revolutions * map.with_speed;
            let all = phase_variance - 2.0 * mapped * with_phase + mapped * map.variance + noise;
            (phase_variance, common, speed_variance, with_phase, all)
        };
        let (mut phase_variance, mut common, mut speed_variance, mut with_phase, mut all) =
            ahead(self.speed_variance);
        if error * error > JUMP_DEVIATIONS_MIN * JUMP_DEVIATIONS_MIN * all {
            if mapped > 0.0 {
                // The map may be wrong at that sector; an anchor decides.
                return None;
            }
            // The speed has jumped.
            (phase_variance, common, speed_variance, with_phase, all) =
                ahead(self.speed_variance.max(SPEED_JUMP_RATIO * SPEED_JUMP_RATIO));
        }
        if error * error > OUTLIER_DEVIATIONS_MIN * OUTLIER_DEVIATIONS_MIN * all {
            self.lost += 1;
            if self.lost < OUTLIERS_MAX {
                return None;
            }
            // Several outliers in a row: the platter is at another angle.
            self.find_again(at, angle, spread);
            return None;
        }
        self.lost = 0;
        // The covariances of phase, speed and the map's error with the reading.
        let of = [
            phase_variance - mapped * with_phase,
            common - mapped * map.with_speed,
            with_phase - mapped * map.variance,
        ];
        let [of_phase, of_speed, of_map] = of.map(|of| of / all);
        self.phase = frac(self.phase + revolutions + of_phase * error);
        self.at = at;
        // A larger angle than expected means a higher speed.
        let faster = (of_speed * error).clamp(-SPEED_STEP_RATIO_MAX, SPEED_STEP_RATIO_MAX);
        let (least, most) =
            (self.at_first * (1.0 - SPEED_WANDER_RATIO_MAX), self.at_first * (1.0 + SPEED_WANDER_RATIO_MAX));
        self.revolution = (self.revolution / (1.0 + faster)).clamp(least, most);
        self.usual += READING_WEIGHT * (self.revolution - self.usual);
        self.phase_variance = phase_variance - of_phase * of[0];
        self.common = common - of_phase * of[1];
        self.speed_variance = speed_variance - of_speed * of[1];
        self.map = MapOffset {
            error: map.error + of_map * error,
            variance: map.variance - of_map * of[2],
            with_phase: with_phase - of_phase * of[2],
            with_speed: map.with_speed - of_speed * of[2],
        };
        Some(error)
    }
}

/// Returns the variance of the phase (in revolutions squared), the covariance of phase and relative speed, and the
/// variance of the speed after this number of revolutions.
fn later([phase, common, speed]: [f64; 3], revolutions: f64, wander: f64) -> [f64; 3] {
    [
        phase
            + 2.0 * revolutions * common
            + revolutions * revolutions * speed
            + wander * revolutions.powi(3) / 3.0,
        common + revolutions * speed + wander * revolutions * revolutions / 2.0,
        speed + wander * revolutions,
    ]
}

/// Returns the standard deviation of an angle at the next reading, in revolutions, if one reading has the standard
/// deviation `reading` and the platter is read every `every` ns.
pub(crate) fn spread_where_followed(reading: f64, every: f64, revolution: f64) -> f64 {
    let (revolutions, wander) = (every / revolution, WANDER_PER_S * revolution / 1e9);
    let noise = reading * reading;
    let mut now = [noise, 0.0, INITIAL_SPEED_DEVIATION_RATIO * INITIAL_SPEED_DEVIATION_RATIO];
    let mut spread = reading;
    for _ in 0..READINGS_UNTIL_STEADY {
        let [phase, common, speed] = later(now, revolutions, wander);
        let all = phase + noise;
        now = [phase - phase * phase / all, common - phase * common / all, speed - common * common / all];
        spread = all.sqrt();
    }
    spread
}

/// The error that all sectors of the map share, in revolutions: its estimate, its variance, and its covariances with
/// phase and speed.
#[derive(Clone, Copy, Debug, Default)]
struct MapOffset {
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
        let (mut revolutions, mut speed, mut worst) = (0.0, 1.001, 0.0_f64);
        for k in 1..20_000_u64 {
            let jitter = ((k * 7_919) % 1_000) as f64 / 1_000.0 - 0.5;
            if k.is_multiple_of(500) {
                speed += if (k * 31) % 1_000 < 500 { 1e-4 } else { -1e-4 };
            }
            revolutions += 10_000_000.0 / 6_000_000.0 * speed;
            let at = Instant::from_nanos(k * 10_000_000);
            if k > 400 {
                worst = worst.max(wrap(platter.revolutions_at(at) - revolutions).abs());
            }
            platter.take(at, frac(revolutions + 0.0017 * jitter), 0.0005);
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
        let before = platter.revolutions_at(Instant::from_nanos(660_000_000));
        assert_eq!(platter.take(Instant::from_nanos(600_000_000), 0.3, 0.0005), None);
        assert_eq!(platter.revolutions_at(Instant::from_nanos(660_000_000)), before);
        for k in 101..110 {
            platter.take(Instant::from_nanos(k * 6_000_000), 0.3, 0.0005);
        }
        assert!(wrap(platter.revolutions_at(Instant::from_nanos(660_000_000)) - 0.3).abs() < 0.01);
    }

    /// Returns a platter whose angle is known to a microsecond, and the present instant. Its angle is 0 after each
    /// revolution.
    fn followed() -> (Platter, Instant) {
        let mut platter = Platter::new();
        platter.revolution = 6_000_000.0;
        platter.begin_to_follow(Instant::ZERO);
        for k in 1..=100 {
            platter.take(Instant::from_nanos(k * 12_000_000), 0.0, 0.0005);
        }
        (platter, Instant::from_nanos(1_200_000_000))
    }

    /// The map has an error of 3 us and a standard deviation of 6 us. If they counted as independent readings, 64 of
    /// its sectors would pull the platter to the map's angle.
    #[test]
    fn errors_of_the_map_do_not_add_up_in_the_angle_of_the_platter() {
        let (mut platter, mut at) = followed();
        for _ in 0..64 {
            at += units::Duration::from_nanos(6_000_000);
            assert!(platter.take_mapped(at, 0.0005, 0.0005, 0.001, 0.0).is_some());
        }
        let off = wrap(platter.revolutions_at(at));
        assert!(off.abs() < 0.0001, "{off}");
    }

    #[test]
    fn a_sector_of_the_map_that_is_far_off_is_no_reading_of_the_platter() {
        let (mut platter, at) = followed();
        let at = at + units::Duration::from_nanos(6_000_000);
        let before = platter.revolutions_at(at);
        for angle in [0.004, -0.004, 0.3, 0.3, 0.3, 0.3, 0.3] {
            assert_eq!(platter.take_mapped(at, angle, 0.0005, 0.0002, 0.0), None);
        }
        assert_eq!(platter.revolutions_at(at), before);
    }

    #[test]
    fn the_longer_a_platter_is_not_read_the_less_is_known_of_where_it_stands() {
        let at = |every: f64| spread_where_followed(0.0005, every, 6_000_000.0);
        let spreads: Vec<f64> = [6e6, 60e6, 600e6].map(at).to_vec();
        assert!(spreads[0] < 0.0006 && spreads.windows(2).all(|w| w[1] > w[0]), "{spreads:?}");
    }
}
