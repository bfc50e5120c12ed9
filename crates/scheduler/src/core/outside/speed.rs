//! How much faster or slower a spindle turns than told, from completions of which each is a little off.
//!
//! What two completions say of the speed is their error over the time between them: much after a pause, and nothing of two that
//! follow each other at once. So errors are weighed by that time and by how exact a completion is known to be: a Kalman
//! filter (Kalman, "A new approach to linear filtering and prediction problems", Journal of Basic Engineering 82(1), 1960)
//! of the platter's angle and its speed, the latter of which wanders. How exact completions are is seen from what they
//! are off by.

use super::CHANCE;

/// By how much a speed wanders: in a second by some 200 millionths of it, squared.
const WANDERS: f64 = 4e-8;

/// As exact as a completion is taken to be at first, in seconds: a hundredth of a millisecond. It is never taken to be more than
/// ten times as exact.
const EXACT: f64 = 10e-6;

/// That is followed in so many steps.
const STEPS: f64 = 64.0;

/// Who is off by more than so many times what may be expected is off by something else, and by no more is it believed.
const MOST: f64 = 3.0;

/// The speed, and how well it is known. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Speed {
    /// How far the platter is past where the clock believes it, which believes the last completion.
    ahead: f64,
    /// How much faster it turns than told, as a part.
    rate: f64,
    /// Variances of both, and how they go together.
    spread: [f64; 3],
    /// The variance of a completion.
    noise: f64,
    /// The most that the speed may be off.
    most: f64,
}

impl Speed {
    /// Of one that may be off by the part `most`.
    pub fn new(most: f64) -> Self {
        let noise = EXACT * EXACT;
        Self { ahead: 0.0, rate: 0.0, spread: [noise, 0.0, most * most / 4.0], noise, most }
    }

    /// How much faster the platter turns, as a part.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// So long after the one before, a completion says that the platter is `error` past where the clock believed it, and
    /// may be late by some `late` itself for what its data take. The clock then believes it by `taken`; a turn takes so long.
    pub fn seen(&mut self, elapsed: f64, [error, late, taken]: [f64; 3], turn: f64) {
        let [angle, both, rate] = &mut self.spread;
        *angle += elapsed * (2.0 * *both + elapsed * *rate);
        *both += elapsed * *rate;
        *rate += WANDERS * elapsed;
        let noise = self.noise + late * late;
        let expected = *angle + noise;
        let most = MOST * expected.sqrt();
        if most > turn / 2.0 {
            // It may be any number of turns.
            (self.ahead, *angle, *both) = (error - taken, noise, 0.0);
            return;
        }
        let off = error - self.ahead;
        if off.abs() > most {
            // The speed is not as well known as was thought.
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
            // What is left of it is noise, but for what the angle is off by itself.
            let left = off * (1.0 - gain[0]);
            let least = EXACT * EXACT / 100.0;
            let noise = self.noise + (left * left + *angle - self.noise) / STEPS;
            // Where completions are further off, they are those of another drive than told, or of none.
            self.noise = noise.clamp(least, (turn / CHANCE as f64).powi(2));
        }
    }

    /// The angle is looked for anew: the speed is not known any better than at first.
    pub fn restart(&mut self) {
        (self.ahead, self.spread) = (0.0, [self.noise, 0.0, self.most * self.most / 4.0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: f64 = 0.006;

    #[test]
    fn what_was_seen_of_another_drive_does_not_last() {
        let mut speed = Speed::new(0.02);
        // Completions anywhere within an eighth of a turn of where they were expected, as those of a drive with another layout.
        let mut state = 1u64;
        let mut draw = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1u32 << 31)
        };
        for _ in 0..2_000 {
            let error = (draw() - 0.5) * TURN / 4.0;
            speed.seen(draw() * 0.08, [error, 0.0, error], TURN);
        }
        // Then those of one that turns as told.
        for _ in 0..500 {
            let elapsed = draw() * 0.08;
            let error = -speed.rate() * elapsed;
            speed.seen(elapsed, [error, 0.0, error], TURN);
        }
        assert!(speed.rate().abs() < 1e-4, "{speed:?}");
    }
}
