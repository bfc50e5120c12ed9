//! Reads whose data come only in a later revolution.

use units::Lbn;

/// The fewest extra revolutions of a read that the drive repeats.
const REVOLUTIONS_MIN: u64 = 3;

/// The most extra revolutions of a read that the drive repeats.
const REVOLUTIONS_MAX: u64 = 60;

/// The resolution of the numbers that are drawn.
const RESOLUTION_PARTS: u128 = 1 << 20;

/// Selects the reads with extra revolutions by their first sector, so that the same requests have the same delay whatever
/// else the drive does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rereads {
    ppm: u32,
    seed: u64,
}

impl Rereads {
    pub(super) fn new(ppm: u32, seed: u64) -> Self {
        Self { ppm, seed }
    }

    /// Returns the extra revolutions of a read at this place. A share of (3 / n)^(4/3) of the reads with extra revolutions has
    /// at least n, so that few have very many.
    pub(super) fn revolutions(self, at: Lbn) -> u64 {
        if self.ppm == 0 {
            return 0;
        }
        let drawn = mixed(self.seed ^ mixed(at.get()));
        if ((drawn >> 32) * 1_000_000) >> 32 >= u64::from(self.ppm) {
            return 0;
        }
        // Compares the cube of a number from 1 to RESOLUTION_PARTS with the fourth power of n / 3, in whole numbers.
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

/// SplitMix64's output function: every bit of the result depends on every bit of the number.
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
