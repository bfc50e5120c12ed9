//! Reads that the drive repeats, so that their data comes some revolutions late.

use units::Lbn;

/// The least number of extra revolutions of a repeated read.
const REVOLUTIONS_MIN: u64 = 3;

/// The largest number of extra revolutions of a repeated read.
const REVOLUTIONS_MAX: u64 = 60;

/// The number of steps of a drawn probability.
const RESOLUTION_PARTS: u128 = 1 << 20;

/// Selects the repeated reads by a hash of their first sector, so that the delay of a read does not depend on other requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rereads {
    ppm: u32,
    seed: u64,
}

impl Rereads {
    pub(super) fn new(ppm: u32, seed: u64) -> Self {
        Self { ppm, seed }
    }

    /// Returns the number of extra revolutions of a read from this LBN on; 0 for most. A share of (3 / n)^(4/3) of the repeated
    /// reads takes at least n extra revolutions.
    pub(super) fn revolutions(self, at: Lbn) -> u64 {
        if self.ppm == 0 {
            return 0;
        }
        let drawn = mixed(self.seed ^ mixed(at.get()));
        if ((drawn >> 32) * 1_000_000) >> 32 >= u64::from(self.ppm) {
            return 0;
        }
        // `share` is uniformly distributed. share / RESOLUTION_PARTS <= (3 / n)^(4/3) is compared in whole numbers: both
        // sides are cubed.
        let share = u128::from(drawn as u32) * RESOLUTION_PARTS / (1 << 32) + 1;
        let reaches = |n: u64| {
            let (n, least) = (u128::from(n), u128::from(REVOLUTIONS_MIN));
            share.pow(3) * n.pow(4) <= RESOLUTION_PARTS.pow(3) * least.pow(4)
        };
        (REVOLUTIONS_MIN..REVOLUTIONS_MAX)
            .take_while(|&n| reaches(n + 1))
            .last()
            .map_or(REVOLUTIONS_MIN, |n| n + 1)
    }
}

/// Returns a hash of a number: the output function of SplitMix64.
fn mixed(number: u64) -> u64 {
    let z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_reads_take_more_revolutions_as_are_asked_for() {
        let rereads = Rereads::new(6_000, 1);
        let took: Vec<u64> = (0..1_000_000).map(|at| rereads.revolutions(Lbn::new(8 * at))).collect();
        let share = |n: u64| took.iter().filter(|&&revolutions| revolutions >= n).count() as f64 / 6_000.0;
        assert!(took.iter().all(|&n| n == 0 || (REVOLUTIONS_MIN..=REVOLUTIONS_MAX).contains(&n)));
        for n in [3, 6, 12, 24, 48] {
            let expected = (3.0 / n as f64).powf(4.0 / 3.0);
            assert!((share(n) / expected - 1.0).abs() < 0.15, "{n}: {} for {expected}", share(n));
        }
        assert_eq!(Rereads::default().revolutions(Lbn::new(7)), 0);
    }
}
