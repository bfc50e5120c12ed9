//! Platter time.
//!
//! The model's angle is a function of absolute time; a real spindle has an unknown phase and a drifting speed. All planning
//! is done in platter time, in which the model's function holds. Platter time differs from the host's time by at most about
//! a revolution, and runs a little faster or slower.

use super::speed::Speed;
use units::{Duration, Instant};

/// The maximal error of a spindle's speed, in parts of 2^32: 2%.
const SPEED_ERROR_PARTS_MAX: i64 = (1 << 32) / 50;

/// The number of consecutive completions with possibly late reports after which the least delay among them is taken for an
/// error of the platter's angle.
const DOUBTFUL_COMPLETIONS: u32 = 16;

/// The number of parts per unit in which a rate is expressed.
const RATE_PARTS: f64 = (1u64 << 32) as f64;

/// The mapping of host time to platter time and back.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clock {
    /// The host time and the platter time of one instant, the last correction.
    host: Instant,
    platter: Instant,
    /// The excess speed of platter time, in parts of 2^32.
    rate: i64,
    speed: Speed,
    revolution: i64,
    /// The number of completions since the angle was last observed exactly, and the least delay among them.
    unsure: (u32, i64),
}

impl Clock {
    pub fn new(revolution: Duration) -> Self {
        Self {
            host: Instant::ZERO,
            platter: Instant::ZERO,
            rate: 0,
            speed: Speed::new(SPEED_ERROR_PARTS_MAX as f64 / RATE_PARTS),
            revolution: i64::try_from(revolution.as_nanos()).unwrap_or(i64::MAX / 4).max(1),
            unsure: (0, i64::MAX),
        }
    }

    /// Returns the time of a revolution in ns.
    pub fn revolution(&self) -> i64 {
        self.revolution
    }

    pub fn platter(&self, host: Instant) -> Instant {
        let elapsed = difference(host, self.host);
        moved(self.platter, elapsed.saturating_add(scaled(elapsed, self.rate)))
    }

    pub fn host(&self, platter: Instant) -> Instant {
        let elapsed = difference(platter, self.platter);
        let back = i128::from(elapsed) * (1 << 32) / (i128::from(1i64 << 32) + i128::from(self.rate));
        moved(self.host, i64::try_from(back).unwrap_or(elapsed))
    }

    /// Returns how far the platter has passed the assumed angle, for an event that ended at `host` at the angle of
    /// `platter`: within half a revolution either way.
    pub fn error(&self, host: Instant, platter: Instant) -> i64 {
        self.within_half_a_revolution(difference(platter, self.platter(host)))
    }

    fn within_half_a_revolution(&self, error: i64) -> i64 {
        let wrapped = error.rem_euclid(self.revolution);
        if wrapped > self.revolution / 2 { wrapped - self.revolution } else { wrapped }
    }

    /// Returns the maximal error of the platter at `host` if its speed is wrong by `ppm` since the last observation.
    pub fn may_drift(&self, host: Instant, ppm: i64) -> i64 {
        (difference(host, self.host).max(0) / 1_000_000).saturating_mul(ppm)
    }

    /// Applies an [`error`](Self::error): `gain` 256ths of it to the angle, and what it shows about the speed to the speed.
    /// The report may have been up to `late` late. Such a delay must not change the angle: the platter would seem behind
    /// until the next completion, and commands would be sent too late. Returns the remaining error.
    pub fn correct(&mut self, host: Instant, error: i64, late: Duration, gain: u16) -> i64 {
        let elapsed = difference(host, self.host);
        let taken = scaled_by(self.sure(error, nanos(late)), gain);
        let mut platter = moved(self.platter(host), taken);
        let seconds = |nanos: i64| nanos as f64 / 1e9;
        if elapsed > 0 {
            let seen = [seconds(error), late.as_secs_f64(), seconds(taken)];
            self.speed.seen(seconds(elapsed), seen, seconds(self.revolution));
            self.rate = ((self.speed.rate() * RATE_PARTS) as i64)
                .clamp(-SPEED_ERROR_PARTS_MAX, SPEED_ERROR_PARTS_MAX);
        }
        // Platter time stays near the host's time: whole revolutions do not change an angle.
        let apart = difference(platter, host);
        if apart.abs() > self.revolution {
            platter = moved(host, self.within_half_a_revolution(apart));
        }
        (self.host, self.platter) = (host, platter);
        error - taken
    }

    /// Returns the part of a completion's error that only a wrong angle of the platter explains.
    fn sure(&mut self, error: i64, late: i64) -> i64 {
        if error >= 0 || error <= -late {
            self.unsure = (0, i64::MAX);
            return if error < 0 { error + late } else { error };
        }
        self.unsure = (self.unsure.0 + 1, self.unsure.1.min(-error));
        let (seen, least) = self.unsure;
        if seen < DOUBTFUL_COMPLETIONS {
            return 0;
        }
        self.unsure = (0, i64::MAX);
        -least
    }

    /// Sets the phase anew by an error. The rate stays until the next correction.
    pub fn restart(&mut self, host: Instant, error: i64) {
        // Platter time is never negative.
        let platter = moved(self.platter(host), error.rem_euclid(self.revolution));
        (self.host, self.platter) = (host, platter);
        self.unsure = (0, i64::MAX);
        self.speed.restart();
    }
}

fn scaled(elapsed: i64, rate: i64) -> i64 {
    i64::try_from((i128::from(elapsed) * i128::from(rate)) >> 32).unwrap_or(0)
}

fn scaled_by(error: i64, gain: u16) -> i64 {
    i64::try_from(i128::from(error) * i128::from(gain.min(256)) / 256).unwrap_or(0)
}

/// Returns a duration in nanoseconds, saturated.
pub(super) fn nanos(d: Duration) -> i64 {
    i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)
}

/// Returns `a - b`, saturated.
pub(super) fn difference(a: Instant, b: Instant) -> i64 {
    let (a, b) = (i128::from(a.as_nanos()), i128::from(b.as_nanos()));
    i64::try_from(a - b).unwrap_or(if a > b { i64::MAX } else { i64::MIN })
}

/// Returns `a + by`, within the range of an instant.
pub(super) fn moved(a: Instant, by: i64) -> Instant {
    Instant::from_nanos(a.as_nanos().saturating_add_signed(by))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REVOLUTION_NS: u64 = 5_985_037;

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn a_clock_that_was_right_stays_right() {
        let mut clock = Clock::new(Duration::from_nanos(REVOLUTION_NS));
        for k in 1..1_000 {
            let t = at(k * 7_000_001);
            assert_eq!(clock.error(t, t), 0);
            clock.correct(t, 0, Duration::ZERO, 256);
            assert_eq!(clock.platter(t), t);
        }
    }

    #[test]
    fn a_possibly_late_report_does_not_move_the_angle() {
        let late = Duration::from_micros(400);
        // A report that is late by less than the maximum, one that is later, and an early one.
        for (error, taken) in [(-300_000, 0), (-500_000, -100_000), (50_000, 50_000)] {
            let mut clock = Clock::new(Duration::from_nanos(REVOLUTION_NS));
            let t = at(7_000_000);
            clock.correct(t, 0, Duration::ZERO, 256);
            let t = at(14_000_000);
            assert_eq!(clock.correct(t, error, late, 256), error - taken);
            assert_eq!(difference(clock.platter(t), t), taken);
        }
    }

    #[test]
    fn a_delay_common_to_all_completions_is_the_platters() {
        let mut clock = Clock::new(Duration::from_nanos(REVOLUTION_NS));
        let late = Duration::from_micros(400);
        let mut state = 1u64;
        let mut off = 0;
        for n in 1..200 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let ended = n * 9_000_000;
            // The platter is a quarter of a millisecond behind the initial assumption, and reports are up to that much late.
            let (platter, heard) = (at(ended - 250_000), at(ended + (state >> 33) % 150_000));
            clock.correct(heard, clock.error(heard, platter), late, 256);
            off = clock.error(at(ended), platter);
        }
        assert!(off.abs() < 30_000, "{off}");
    }

    proptest! {
        #[test]
        fn a_spindle_that_is_off_is_followed(
            phase in 0u64..REVOLUTION_NS, ppm in -5_000i64..5_000, steps in prop::collection::vec(2_000_000u64..20_000_000, 600),
        ) {
            let mut clock = Clock::new(Duration::from_nanos(REVOLUTION_NS));
            let mut host = 1_000_000_000u64;
            let mut last = i64::MAX;
            for step in steps {
                host += step;
                let platter = (i128::from(host) * i128::from(1_000_000 + ppm) / 1_000_000) as u64 + phase;
                last = clock.error(at(host), at(platter));
                clock.correct(at(host), last, Duration::ZERO, 256);
                prop_assert!(difference(clock.platter(at(host)), at(host)).abs() <= REVOLUTION_NS as i64);
                prop_assert!(clock.error(at(host), at(platter)).abs() <= 1);
            }
            // The error stays within two microseconds if the speed is wrong by up to 0.5%.
            prop_assert!(last.abs() < 2_000, "{}", last);
        }

        #[test]
        fn consecutive_completions_show_nothing_about_the_speed(
            ppm in -5_000i64..5_000,
            pauses in prop::collection::vec((50_000_000u64..200_000_000, 400_000u64..4_000_000, 0i64..60_000), 300),
        ) {
            // After each pause two commands follow, the first with an unusually late report.
            let mut clock = Clock::new(Duration::from_nanos(REVOLUTION_NS));
            let mut host = 1_000_000_000u64;
            for (n, (pause, soon, late)) in pauses.into_iter().enumerate() {
                for (step, late) in [(pause, late), (soon, 0)] {
                    host += step;
                    let true_host = i128::from(host) - i128::from(late);
                    let platter = (true_host * i128::from(1_000_000 + ppm) / 1_000_000) as u64;
                    let error = clock.error(at(host), at(platter));
                    // The error stays small enough to count as predicted.
                    prop_assert!(n < 100 || error.abs() < REVOLUTION_NS as i64 / 32, "{}: {}", n, error);
                    clock.correct(at(host), error, Duration::ZERO, 256);
                }
            }
        }

        #[test]
        fn host_time_survives_conversion_to_platter_time_and_back(host in 0u64..1 << 50, rate in -SPEED_ERROR_PARTS_MAX..SPEED_ERROR_PARTS_MAX, later in 0u64..1 << 36) {
            let new = Clock::new(Duration::from_nanos(REVOLUTION_NS));
            let clock = Clock { host: at(host), platter: at(host + 77), rate, ..new };
            let t = at(host + later);
            prop_assert!(difference(clock.host(clock.platter(t)), t).abs() <= 2);
        }
    }
}
