//! Random numbers of the simulated drive: integers only, so that they are the same on every machine, and one stream for each
//! component.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use units::Duration;

/// A part of the generator's key, so that other crates draw other numbers from the same seed.
const TAG: &[u8; 24] = b"freeblock-drive-chance-1";

/// The parts of a drive that draw random numbers. Each has a stream of its own, so that switching one of a drive's
/// behaviours on or off does not change the numbers of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Component {
    Seek = 1,
    Settle = 2,
    Landing = 3,
    Spindle = 4,
    Recalibration = 5,
    GrownDefects = 6,
    BadSectors = 7,
    Command = 8,
    Completion = 9,
    Overlap = 10,
    Flash = 11,
}

/// The stream of random numbers of one component.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    rng: ChaCha8Rng,
}

impl Dice {
    pub(crate) fn new(seed: u64, component: Component) -> Self {
        let mut key = [0; 32];
        for (byte, part) in key.iter_mut().zip(seed.to_le_bytes().into_iter().chain(*TAG)) {
            *byte = part;
        }
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(component as u64);
        Self { rng }
    }

    /// Returns a whole number below `bound`, or 0 if `bound` is 0. Probabilities differ from each other by at most 2^-64.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.rng.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true with a probability of `ppm` millionths. Always takes one number from the stream.
    pub(crate) fn once_in_million(&mut self, ppm: u32) -> bool {
        self.below(1_000_000) < u64::from(ppm)
    }

    /// Returns a uniformly distributed time from zero to `most`.
    pub(crate) fn up_to(&mut self, most: Duration) -> Duration {
        Duration::from_nanos(self.below(most.as_nanos().saturating_add(1)))
    }

    /// Returns nanoseconds around zero with this standard deviation, at most six deviations from zero. The sum of twelve
    /// uniform numbers is close to a normal distribution, and the same on every machine.
    pub(crate) fn around_zero(&mut self, deviation: Duration) -> i64 {
        const STEPS: i64 = 1 << 16;
        let mut sum = 0;
        for _ in 0..3 {
            let bits = self.rng.next_u64();
            sum += (0..4).map(|k| (bits >> (16 * k) & 0xffff) as i64).sum::<i64>();
        }
        // The mean of one number is (STEPS - 1) / 2.
        let centred = 2 * sum - 12 * (STEPS - 1);
        let scaled = i128::from(centred) * i128::from(deviation.as_nanos()) / i128::from(2 * STEPS);
        scaled as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_around_zero_have_the_requested_deviation() {
        let mut dice = Dice::new(7, Component::Seek);
        let n = 20_000;
        let draws: Vec<f64> = (0..n).map(|_| dice.around_zero(Duration::from_micros(50)) as f64).collect();
        let mean = draws.iter().sum::<f64>() / f64::from(n);
        let deviation = (draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / f64::from(n)).sqrt();
        assert!(mean.abs() < 1_500.0, "{mean}");
        assert!((49_000.0..51_000.0).contains(&deviation), "{deviation}");
        assert!(draws.iter().all(|x| x.abs() <= 300_000.0));
    }

    #[test]
    fn components_and_seeds_draw_apart() {
        let first = |seed, component| Dice::new(seed, component).below(u64::MAX);
        assert_eq!(first(1, Component::Seek), first(1, Component::Seek));
        assert_ne!(first(1, Component::Seek), first(1, Component::Settle));
        assert_ne!(first(1, Component::Seek), first(2, Component::Seek));
    }

    #[test]
    fn a_chance_comes_as_often_as_it_should() {
        let mut dice = Dice::new(3, Component::Landing);
        let hits = (0..100_000).filter(|_| dice.once_in_million(20_000)).count();
        assert!((1_800..2_200).contains(&hits), "{hits}");
        assert!(!(0..1_000).any(|_| dice.once_in_million(0)));
        assert!((0..1_000).all(|_| dice.once_in_million(1_000_000)));
    }
}
