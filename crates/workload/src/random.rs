//! Random numbers that are the same on every machine.
//!
//! Every component draws from a [`Stream`] of its own, so one more component, or one more draw in a component, shifts
//! no other's numbers. The bits are ChaCha8's; the distributions are computed here, from integer arithmetic and from
//! float operations that IEEE 754 defines to the last bit (`+ - * / sqrt`): a platform's own `ln` may differ in the
//! last place, and with it a whole simulation.

mod float;
mod scatter;
mod zipf;

pub(crate) use float::exp_neg;
pub use scatter::Scatter;
pub use zipf::Zipf;

use crate::error::ConfigError;
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::num::NonZeroU64;
use units::Duration;

/// A part of the key: if the derivation changes, so does the tag, so that no old stream recurs unnoticed.
const TAG: [u8; 16] = *b"freeblock-rand-1";

/// The scale of exponents in millionths.
const THETA_ONE_PPM: f64 = 1e6;

/// A component's stream of random numbers.
///
/// ```
/// use freeblock_workload::random::Stream;
/// let mut a = Stream::new(42, "think");
/// let mut b = Stream::new(42, "think");
/// assert_eq!(a.next_u64(), b.next_u64());
/// assert_ne!(a.next_u64(), Stream::new(42, "faults").next_u64());
/// ```
#[derive(Clone, Debug)]
pub struct Stream {
    rng: ChaCha8Rng,
}

impl Stream {
    /// Returns the stream of the component `component` in the run with seed `seed`.
    pub fn new(seed: u64, component: &str) -> Self {
        Self::numbered(seed, component, 0)
    }

    /// Returns the `n`th stream of a component that exists several times (a drive, a task).
    ///
    /// The ChaCha key is the seed, the 64-bit FNV-1a hash of the name and a fixed tag; `n` is the nonce.
    pub fn numbered(seed: u64, component: &str, n: u64) -> Self {
        let mut key = [0; 32];
        let parts = seed.to_le_bytes().into_iter().chain(fnv1a(component).to_le_bytes()).chain(TAG);
        for (byte, part) in key.iter_mut().zip(parts) {
            *byte = part;
        }
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(n);
        Self { rng }
    }

    /// Returns 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Returns a uniform whole number below `bound`.
    ///
    /// D. Lemire, "Fast random integer generation in an interval", ACM TOMACS 29(1), 2019: one multiplication,
    /// and a division only in one of 2^64 / bound draws.
    #[inline]
    pub fn below(&mut self, bound: NonZeroU64) -> u64 {
        let bound = bound.get();
        let mut product = u128::from(self.next_u64()) * u128::from(bound);
        if (product as u64) < bound {
            let biased = bound.wrapping_neg() % bound;
            while (product as u64) < biased {
                product = u128::from(self.next_u64()) * u128::from(bound);
            }
        }
        (product >> 64) as u64
    }

    /// Returns true in `share` of the draws. Always takes one draw, even if the outcome is certain.
    #[inline]
    pub fn chance(&mut self, share: Share) -> bool {
        self.below(share.denominator) < share.numerator
    }

    /// Returns a float above 0 and up to 1, one of 2^53 equally spaced.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.next_u64() >> 11) + 1) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Returns a sample of the exponential distribution with mean 1, from 0 to 36.8.
    #[inline]
    pub fn exponential(&mut self) -> f64 {
        -float::ln(self.unit())
    }

    /// Returns an exponentially distributed time, to the nearest nanosecond.
    #[inline]
    pub fn exponential_time(&mut self, mean: Duration) -> Duration {
        Duration::from_nanos((mean.as_nanos() as f64 * self.exponential()).round() as u64)
    }
}

/// A sampler of the normal distribution with mean 0 and standard deviation 1.
///
/// Marsaglia's polar method makes two samples at a time; the second is kept for the next call.
#[derive(Clone, Debug, Default)]
pub struct StandardNormal {
    spare: Option<f64>,
}

impl StandardNormal {
    /// Returns the next sample, drawn from `stream`.
    #[inline]
    pub fn sample(&mut self, stream: &mut Stream) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let x = 2.0 * stream.unit() - 1.0;
            let y = 2.0 * stream.unit() - 1.0;
            let s = x * x + y * y;
            if s > 0.0 && s < 1.0 {
                let f = (-2.0 * float::ln(s) / s).sqrt();
                self.spare = Some(y * f);
                return x * f;
            }
        }
    }
}

/// A share of 0 to 1 as a ratio of whole numbers, so that 2:1 is exactly 2 of 3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    numerator: u64,
    denominator: NonZeroU64,
}

impl Share {
    /// The share 0.
    pub const NONE: Self = Self { numerator: 0, denominator: NonZeroU64::MIN };
    /// The share 1.
    pub const ALL: Self = Self { numerator: 1, denominator: NonZeroU64::MIN };
    /// Two of three: the read share of the papers' loads.
    pub const TWO_THIRDS: Self = Self { numerator: 2, denominator: NonZeroU64::MIN.saturating_add(2) };

    /// Creates the share `numerator` / `denominator`.
    ///
    /// # Errors
    /// A denominator of zero, or a numerator above it.
    pub fn new(numerator: u64, denominator: u64) -> Result<Self, ConfigError> {
        match NonZeroU64::new(denominator) {
            Some(d) if numerator <= denominator => Ok(Self { numerator, denominator: d }),
            _ => Err(ConfigError::field(
                "share",
                format_args!("{numerator} of {denominator}"),
                "give a part of a whole that is not zero, such as 2 of 3",
            )),
        }
    }

    /// Returns the nearest millionth to `fraction`.
    ///
    /// # Errors
    /// Anything that is not a number from 0 to 1.
    pub fn from_fraction(fraction: f64) -> Result<Self, ConfigError> {
        const WHOLE_PPM: f64 = 1e6;
        if (0.0..=1.0).contains(&fraction) {
            Self::new((fraction * WHOLE_PPM).round() as u64, WHOLE_PPM as u64)
        } else {
            Err(ConfigError::field("share", fraction, "give a number from 0 to 1"))
        }
    }

    /// Returns the share as a float, for reports only.
    pub fn as_f64(self) -> f64 {
        self.numerator as f64 / self.denominator.get() as f64
    }

    /// Returns the numerator of the ratio.
    pub const fn numerator(self) -> u64 {
        self.numerator
    }

    /// Returns the denominator of the ratio.
    pub const fn denominator(self) -> NonZeroU64 {
        self.denominator
    }

    /// Returns whether the share is 0.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.numerator == 0
    }
}

fn fnv1a(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bound(n: u64) -> NonZeroU64 {
        NonZeroU64::new(n).unwrap()
    }

    // The vectors of these tests come from an independent implementation of ChaCha8 and of the formulas above, not from
    // this one.

    #[test]
    fn streams_are_pinned() {
        let mut stream = Stream::new(42, "think");
        let first: Vec<u64> = (0..4).map(|_| stream.next_u64()).collect();
        assert_eq!(
            first,
            [0x8c9e_be59_919d_6caf, 0xeaaf_5f81_2fc4_17b4, 0x93c9_69bb_712e_b63f, 0x4a46_d4b5_129c_165f]
        );
        let hundredth = (4..100).map(|_| stream.next_u64()).last();
        assert_eq!(hundredth, Some(0x795a_922c_f2c2_25d1));
    }

    #[test]
    fn numbered_streams_are_pinned_and_differ() {
        let mut stream = Stream::numbered(42, "think", 7);
        let first: Vec<u64> = (0..4).map(|_| stream.next_u64()).collect();
        assert_eq!(
            first,
            [0xe929_1e9b_e421_5138, 0x1cb1_126b_6e96_6264, 0xa0a1_c93e_1d8a_f5b5, 0x12be_67ea_aa32_b164]
        );
    }

    #[test]
    fn whole_numbers_are_pinned() {
        let mut stream = Stream::new(1, "below");
        let small: Vec<u64> = (0..8).map(|_| stream.below(bound(1000))).collect();
        assert_eq!(small, [840, 230, 851, 75, 628, 142, 724, 367]);
        // Half of all draws are rejected at this bound.
        let large: Vec<u64> = (0..4).map(|_| stream.below(bound((1 << 63) + 1))).collect();
        assert_eq!(
            large,
            [2987547979765966286, 8698880979907058075, 6807932796648800575, 9126066159097213799]
        );
    }

    #[test]
    fn chances_are_pinned() {
        let mut stream = Stream::new(4, "chance");
        let drawn: String =
            (0..32).map(|_| if stream.chance(Share::TWO_THIRDS) { '1' } else { '0' }).collect();
        assert_eq!(drawn, "11111110111011011011111111111110");
    }

    #[test]
    fn exponentials_are_pinned() {
        let mut stream = Stream::new(2, "exp");
        let expected = [
            3.2733821354564157,
            0.4520470565392109,
            0.3928882347652113,
            0.3325430852280724,
            0.14576541189387124,
        ];
        for e in expected {
            let ours = stream.exponential();
            assert!((ours - e).abs() < 1e-15 * e.max(1.0), "{ours} {e}");
        }
        // The bits are the same on every machine.
        assert_eq!(stream.exponential().to_bits(), 0x3fee_30ca_bce8_9446);
    }

    #[test]
    fn normals_are_pinned() {
        let mut stream = Stream::new(3, "normal");
        let mut normal = StandardNormal::default();
        let expected = [
            1.4683563451543908,
            1.3696170857532124,
            0.6599140761588449,
            0.07416647384764267,
            -0.8295443963181685,
            -0.5854864862082849,
        ];
        for e in expected {
            let ours = normal.sample(&mut stream);
            assert!((ours - e).abs() < 1e-15, "{ours} {e}");
        }
        assert_eq!(normal.sample(&mut stream).to_bits(), 0x3fe5_d96a_5352_b2ef);
    }

    #[test]
    fn another_draw_in_one_component_shifts_no_other() {
        let mut think = Stream::new(9, "think");
        let mut load = Stream::new(9, "random");
        let alone: Vec<u64> = (0..10).map(|_| load.next_u64()).collect();
        let mut load = Stream::new(9, "random");
        let beside: Vec<u64> = (0..10)
            .map(|_| {
                think.next_u64();
                load.next_u64()
            })
            .collect();
        assert_eq!(alone, beside);
    }

    /// Chi-square over 7 cells, 6 degrees of freedom: 35.3 is exceeded by chance once in 250,000.
    #[test]
    fn whole_numbers_are_uniform() {
        let mut stream = Stream::new(5, "uniform");
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[stream.below(bound(7)) as usize] += 1;
        }
        let chi: f64 = counts.iter().map(|&n| (f64::from(n) - 10_000.0).powi(2) / 10_000.0).sum();
        assert!(chi < 35.3, "{counts:?}");
    }

    #[test]
    fn distributions_have_their_moments() {
        const N: usize = 200_000;
        let mut stream = Stream::new(6, "moments");
        let moments = |samples: Vec<f64>| {
            let mean = samples.iter().sum::<f64>() / N as f64;
            (mean, samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / N as f64)
        };
        let (mean, variance) = moments((0..N).map(|_| stream.exponential()).collect());
        // Five standard errors: 5 / sqrt(N) and 5 * sqrt(8 / N).
        assert!((mean - 1.0).abs() < 0.0112 && (variance - 1.0).abs() < 0.0317, "{mean} {variance}");
        let mut normal = StandardNormal::default();
        let (mean, variance) = moments((0..N).map(|_| normal.sample(&mut stream)).collect());
        assert!(mean.abs() < 0.0112 && (variance - 1.0).abs() < 0.0159, "{mean} {variance}");
    }

    #[test]
    fn a_share_must_be_a_part_of_a_whole() {
        assert!(Share::new(3, 2).is_err());
        assert!(Share::new(0, 0).is_err());
        for wrong in [f64::NAN, -0.1, 1.1, f64::INFINITY] {
            let message = Share::from_fraction(wrong).unwrap_err().to_string();
            assert!(message.contains("number from 0 to 1"), "{message}");
        }
        assert_eq!(Share::from_fraction(0.7).unwrap().as_f64(), 0.7);
    }

    proptest! {
        #[test]
        fn whole_numbers_stay_below_their_bound(seed: u64, n in 1u64..) {
            let mut stream = Stream::new(seed, "p");
            for _ in 0..20 {
                prop_assert!(stream.below(bound(n)) < n);
            }
        }

        #[test]
        fn certain_outcomes_are_certain(seed: u64) {
            let mut stream = Stream::new(seed, "p");
            for _ in 0..100 {
                prop_assert!(stream.chance(Share::ALL) && !stream.chance(Share::NONE));
                let u = stream.unit();
                prop_assert!(u > 0.0 && u <= 1.0);
            }
        }
    }
}
