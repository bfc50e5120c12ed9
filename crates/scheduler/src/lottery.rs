//! The lottery among sessions (FAST'04, section 5.2, after Waldspurger and Weihl).

/// A seeded lottery. The same seed and the same draws give the same winners on every machine.
#[derive(Clone, Debug)]
pub(crate) struct Lottery {
    state: u64,
}

impl Lottery {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the index of the winner among holders with the given numbers of tickets; `None` without tickets. A single
    /// holder wins without a draw, so the state does not change.
    pub fn draw(&mut self, tickets: impl ExactSizeIterator<Item = u64> + Clone) -> Option<usize> {
        let holders = tickets.len();
        let all: u64 = tickets.clone().sum();
        if all == 0 {
            return None;
        }
        if holders == 1 {
            return Some(0);
        }
        let mut ticket = self.below(all);
        for (place, held) in tickets.enumerate() {
            if ticket < held {
                return Some(place);
            }
            ticket -= held;
        }
        None
    }

    /// Returns a uniform number below `bound`, which must not be zero: the high half of a product, with a bias below
    /// `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns the next number of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014), whose eight bytes of state suffice for one
    /// draw a gap.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wins_are_in_proportion_to_tickets() {
        let mut lottery = Lottery::new(7);
        let mut wins = [0u32; 3];
        for _ in 0..60_000 {
            wins[lottery.draw([10u64, 20, 30].into_iter()).unwrap()] += 1;
        }
        // Five standard deviations of a binomial of 60,000 draws are under 600.
        for (won, expected) in wins.into_iter().zip([10_000u32, 20_000, 30_000]) {
            assert!(won.abs_diff(expected) < 600, "{wins:?}");
        }
    }

    #[test]
    fn the_draws_are_pinned() {
        let mut lottery = Lottery::new(1);
        let drawn: Vec<usize> = (0..12).map(|_| lottery.draw([1u64, 1, 1, 1].into_iter()).unwrap()).collect();
        assert_eq!(drawn, [2, 2, 3, 1, 1, 3, 3, 2, 1, 3, 1, 2]);
    }

    /// The generator's published sequence for this seed.
    #[test]
    fn the_generator_is_splitmix64() {
        let mut lottery = Lottery::new(1_234_567);
        let drawn = [lottery.next(), lottery.next(), lottery.next()];
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn a_draw_without_tickets_has_no_winner() {
        assert_eq!(Lottery::new(1).draw([0u64; 0].into_iter()), None);
        assert_eq!(Lottery::new(1).draw([0u64, 0].into_iter()), None);
    }
}
