//! The spindle's speed relative to the profile, from completions with small errors.
//!
//! Two completions give the speed as their error divided by the time between them: accurate after a pause, and worthless in
//! direct succession. Therefore errors are weighed by that time and by the accuracy of the completions: a Kalman filter
//! (Kalman, "A new approach to linear filtering and prediction problems", Journal of Basic Engineering 82(1), 1960) of the
//! platter's angle and its speed, where the speed is a random walk. The accuracy of completions is estimated from their
//! errors.

use super::ERROR_CHANCE_DIVISOR;
#[cfg(not(feature = "std"))]
use units::Float as _;

/// The variance of the speed's random walk in a second: some 200 ppm, squared.
const SPEED_VARIANCE_PER_SECOND: f64 = 4e-8;

/// The initial standard error of a completion in seconds: a hundredth of a millisecond. The estimate of this error stays above
/// a tenth of that.
const COMPLETION_ERROR_S: f64 = 10e-6;

/// The number of completions over which the standard error of a completion is averaged.
const NOISE_STEPS: f64 = 64.0;

/// An error of more than this many standard errors has another cause, and counts only up to this limit.
const ERROR_DEVIATIONS_MAX: f64 = 3.0;

/// The estimate of the speed and its accuracy. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Speed {
    /// The distance of the platter past the angle that the clock assumes after the last completion.
    ahead: f64,
    /// The excess of the true speed over the profile's, as a fraction.
    rate: f64,
    /// The variance of `ahead`, the covariance, and the variance of `rate`.
    spread: [f64; 3],
    /// The variance of a completion's error.
    noise: f64,
    /// The largest difference of the speed from the profile's, as a fraction.
    most: f64,
}

impl Speed {
    /// Returns the initial estimate of a speed that differs from the profile's by at most the fraction `most`.
    pub fn new(most: f64) -> Self {
        let noise = COMPLETION_ERROR_S * COMPLETION_ERROR_S;
        Self { ahead: 0.0, rate: 0.0, spread: [noise, 0.0, most * most / 4.0], noise, most }
    }

    /// Returns the excess of the true speed, as a fraction.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Records a completion, `elapsed` seconds after the one before: the platter was `error` past the clock's angle, and the
    /// report may be up to `late` late because of the command's data. The clock then corrects its angle by `taken`;
    /// `revolution` is the time of a revolution.
    pub fn seen(&mut self, elapsed: f64, [error, late, taken]: [f64; 3], revolution: f64) {
        let [angle, both, rate] = &mut self.spread;
        *angle += elapsed * (2.0 * *both + elapsed * *rate);
        *both += elapsed * *rate;
        *rate += SPEED_VARIANCE_PER_SECOND * elapsed;
        let noise = self.noise + late * late;
        let expected = *angle + noise;
        let most = ERROR_DEVIATIONS_MAX * expected.sqrt();
        if most > revolution / 2.0 {
            // After so long a time the error may include whole revolutions, and shows nothing about the speed.
            (self.ahead, *angle, *both) = (error - taken, noise, 0.0);
            return;
        }
        let off = error - self.ahead;
        if off.abs() > most {
            // The speed is less certain than estimated.
            *rate = (*rate * 2.0).min(self.most * self.most);
        }
        let off = off.clamp(-most, most);
        let gain = [*angle / expected, *both / expected];
        self.ahead += gain[0] * off - taken;
        self.rate = (self.rate + gain[1] * off).clamp(-self.most, self.most);
        *rate -= gain[1] * *both;
        *both *= 1.0 - gain[0];
        *angle *= 1.0 - gain[0];
        if late * late < self.noise {
            // The remaining error is the noise of completions, apart from the error of the angle itself.
            let left = off * (1.0 - gain[0]);
            let least = COMPLETION_ERROR_S * COMPLETION_ERROR_S / 100.0;
            let noise = self.noise + (left * left + *angle - self.noise) / NOISE_STEPS;
            // Larger errors come from a drive that the profile does not describe.
            self.noise = noise.clamp(least, (revolution / ERROR_CHANCE_DIVISOR as f64).powi(2));
        }
    }

    /// Restarts the search for the angle: the speed is as uncertain as at the start.
    pub fn restart(&mut self) {
        (self.ahead, self.spread) = (0.0, [self.noise, 0.0, self.most * self.most / 4.0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REVOLUTION_S: f64 = 0.006;

    #[test]
    fn observations_of_another_drive_do_not_last() {
        let mut speed = Speed::new(0.02);
        // Completions anywhere within an eighth of a revolution of the prediction, as from a drive with another layout.
        let mut state = 1u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1u32 << 31)
        };
        for _ in 0..2_000 {
            let error = (draw() - 0.5) * REVOLUTION_S / 4.0;
            speed.seen(draw() * 0.08, [error, 0.0, error], REVOLUTION_S);
        }
        // Then completions of a drive at the profile's speed.
        for _ in 0..500 {
            let elapsed = draw() * 0.08;
            let error = -speed.rate() * elapsed;
            speed.seen(elapsed, [error, 0.0, error], REVOLUTION_S);
        }
        assert!(speed.rate().abs() < 1e-4, "{speed:?}");
    }
}
