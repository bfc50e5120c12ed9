//! Conservatism that is learned, from two things: how late heads come, by the distance that they go, and what harm that does.
//!
//! A completion tells no more than the turn in which it came: that the head was later than its slack, or not. Over many
//! commands, plain ones among them, that is the risk of being later than any slack. With little slack it is high, up to
//! the spread of the seeks; that much is the least margin of each class of distances. Behind it come the rare arms that
//! settle late, at any slack much the same: what of those is to be borne is for the harm to say, which a common margin on
//! top follows.

use super::config::Conservatism;
use super::record::{Arrivals, ErrorRecord, SLACK_NS, SLACKS, class};
use units::Duration;

/// Observations between two looks at what is known.
const STRIDE: u64 = 256;

/// So many arrivals with a slack near this one must have been seen.
const ENOUGH: u64 = 100;

/// Bins of large slack: what is late with that is always late (a missed landing).
const LARGE: usize = 40;

/// With the least margin no more than so many millionths are late beyond those that always are.
const SPREAD_PPM: u32 = 40_000;

/// The common part: the least and the most.
const LEAST: Duration = Duration::from_micros(25);
const MOST: Duration = Duration::from_micros(750);

/// It is the least as long as no more than this part of the bound is used up, in 65536ths, and the most when all is: what
/// is yet to come by chance, and what no completion tells, must find something left. A part that rose and sank step by step
/// went up and down by itself: the account remembers for longer than a margin needs to show in it.
const BEGIN: u64 = 65_536 / 2;
const END: u64 = 65_536;

/// It comes nearer to that by this part of the way at each look: sooner when there is to be more of it.
const UP: u64 = 2;
const DOWN: u64 = 8;

const MILLION: u64 = 1_000_000;

/// Risks by slack, in millionths.
#[derive(Clone, Copy, Debug)]
struct Risks {
    by_slack: [Option<u32>; SLACKS],
    always: u32,
}

/// The margin of each class of distances.
#[derive(Clone, Debug, Default)]
pub(super) struct Margins {
    /// The least of each class.
    least: Vec<Duration>,
    /// What is known of each class, and of all distances.
    risks: Vec<Risks>,
    of_all: Option<Risks>,
    /// What a command is to be taken in sooner than its sectors pass, if nothing moves.
    staying: Duration,
    /// What is added to each.
    common: Option<Duration>,
    looked: u64,
}

impl Margins {
    /// Looks again at the record, if it is time.
    pub fn learn(&mut self, record: &ErrorRecord) {
        if record.count() < self.looked + STRIDE {
            return;
        }
        self.looked = record.count();
        let of_all = Risks::of(&record.all_arrivals());
        self.risks.clear();
        self.risks.extend(record.classes().map(Risks::of));
        let spread = of_all.spread();
        self.staying = Risks::of(record.stayed()).spread().unwrap_or_default();
        self.least.clear();
        self.least.extend(self.risks.iter().map(|own| own.spread().or(spread).unwrap_or(Duration::ZERO)));
        self.of_all = Some(of_all);
    }

    /// The common part follows the harm done, of which at most `bound` millionths are allowed.
    pub fn steer(&mut self, conservatism: &Conservatism, share_ppm: u64, bound: u32) {
        let Conservatism::Learned { start, .. } = *conservatism else { return };
        let common = self.common.unwrap_or(start);
        // In 65536ths of the bound.
        let used = u128::from(share_ppm) * u128::from(END) / u128::from(bound.max(1));
        let used = u64::try_from(used).unwrap_or(END).clamp(BEGIN, END);
        let aim = LEAST + (MOST - LEAST) * (used - BEGIN) / (END - BEGIN);
        self.common =
            Some(if aim > common { common + (aim - common) / UP } else { common - (common - aim) / DOWN });
    }

    /// By how much a move over so many cylinders is widened, or any move.
    pub fn of(&self, distance: Option<u32>, start: Duration) -> Duration {
        let least = match distance {
            Some(distance) => self.least.get(class(distance)).copied(),
            None => self.of_all.as_ref().and_then(Risks::spread),
        };
        let least = least.unwrap_or_default();
        (least + self.common.unwrap_or(start)).min(MOST * 2)
    }

    /// How much sooner than its first sectors pass a command is to be taken in where nothing moves.
    pub fn staying(&self) -> Duration {
        self.staying
    }

    /// Of moves over so many cylinders with no more than `slack` to spare, the millionths that are late, beyond those that are
    /// late with any slack; none as long as nothing is known.
    pub fn late_ppm(&self, distance: u32, slack: Duration) -> u64 {
        let own = self.risks.get(class(distance)).and_then(|risks| risks.with(slack));
        let ppm = own.or_else(|| self.of_all.as_ref()?.with(slack)).unwrap_or(0);
        u64::from(ppm)
    }

    /// No move over a cylinder or more is widened by less.
    pub fn least(&self, start: Duration) -> Duration {
        self.least.iter().copied().min().unwrap_or_default() + self.common.unwrap_or(start)
    }
}

impl Risks {
    fn of(arrivals: &Arrivals) -> Self {
        let rate = |n: u64, late: u64| (late * MILLION / n.max(1)).min(MILLION) as u32;
        let bins = &arrivals.late;
        let mut by_slack = [None; SLACKS];
        let (mut n, mut late) = (0, 0);
        // From a bin on, as many as it takes.
        for bin in (0..LARGE).rev() {
            n += u64::from(bins[bin].0);
            late += u64::from(bins[bin].1);
            if n >= ENOUGH {
                by_slack[bin] = Some(rate(n, late));
                (n, late) = (0, 0);
            }
        }
        let far = bins[LARGE..]
            .iter()
            .fold((0, 0), |(n, late), bin| (n + u64::from(bin.0), late + u64::from(bin.1)));
        Self { by_slack, always: rate(far.0, far.1) }
    }

    /// The risk with this slack beyond that with any, if it is known.
    fn with(&self, slack: Duration) -> Option<u32> {
        let bin = usize::try_from(slack.as_nanos() / SLACK_NS).unwrap_or(LARGE).min(LARGE - 1);
        let risk = self.by_slack[bin..LARGE].iter().flatten().next()?;
        Some(risk.saturating_sub(self.always))
    }

    /// The slack up to which many are late: the spread of the seeks. `None` if too little is known.
    fn spread(&self) -> Option<Duration> {
        let known =
            || self.by_slack[..LARGE].iter().enumerate().filter_map(|(bin, risk)| Some((bin, (*risk)?)));
        known().next()?;
        let late = known().rfind(|(_, risk)| *risk > self.always + SPREAD_PPM);
        Some(late.map_or(Duration::ZERO, |(bin, _)| Duration::from_nanos((bin as u64 + 1) * SLACK_NS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::outside::record::{Came, Observed, Way};

    const LEARNED: Conservatism = Conservatism::LEARNED;

    /// Heads that come late by up to so much, half of them, and by up to half a millisecond, one in fifty.
    fn record(spread: u64) -> ErrorRecord {
        let mut record = ErrorRecord::default();
        let mut state = 1u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for _ in 0..200_000 {
            let slack = draw(1_600);
            let late = if draw(50) == 0 { draw(500) } else { draw(spread + 1) };
            let turns = i64::from(late > slack || draw(500) == 0);
            let seen = Observed { error: turns * 6_000_000, turns, explained: true, foreseen: true };
            let came = Came { way: Way::Moved(1_000), slack: Duration::from_micros(slack), late: turns > 0 };
            record.note(&seen, Some(came));
        }
        record
    }

    #[test]
    fn the_least_margin_is_the_spread_of_the_seeks() {
        for (spread, within) in [(0, 0..=25), (60, 50..=75), (200, 175..=225)] {
            let mut margins = Margins::default();
            margins.learn(&record(spread));
            let margin = margins.of(Some(1_000), Duration::ZERO).as_nanos() / 1_000;
            assert!(within.contains(&margin), "{spread} us: {margin}");
            // Of distances that were never gone, what is known of all.
            assert_eq!(margins.of(Some(3), Duration::ZERO), margins.of(Some(1_000), Duration::ZERO));
        }
    }

    #[test]
    fn where_nothing_moves_a_command_is_taken_in_sooner_by_what_it_may_be_late() {
        let mut record = record(200);
        let mut margins = Margins::default();
        margins.learn(&record);
        assert_eq!(margins.staying(), Duration::ZERO);
        for n in 0..4_000 {
            // By up to 20 us.
            let (slack, late) = (n % 200, n % 7 * 3);
            let turns = i64::from(late > slack);
            let seen = Observed { error: turns * 6_000_000, turns, explained: true, foreseen: true };
            let slack = Duration::from_micros(u64::try_from(slack).unwrap());
            record.note(&seen, Some(Came { way: Way::Stayed, slack, late: turns > 0 }));
        }
        margins.learn(&record);
        assert_eq!(margins.staying(), Duration::from_micros(25));
        // What stays says nothing of what moves.
        assert!(margins.of(Some(1_000), Duration::ZERO) >= Duration::from_micros(175));
    }

    #[test]
    fn the_common_margin_follows_the_harm() {
        let mut margins = Margins::default();
        let start = Duration::from_micros(300);
        assert_eq!(margins.of(Some(7), start), start);
        (0..40).for_each(|_| margins.steer(&LEARNED, 20_000, 10_000));
        assert!(MOST - margins.of(Some(7), start) < Duration::from_micros(1));
        (0..400).for_each(|_| margins.steer(&LEARNED, 0, 10_000));
        assert!(margins.of(Some(7), start) < Duration::from_micros(40));
        // Between, it stands still where what it costs and what it saves are even.
        let of = |share| {
            let mut margins = margins.clone();
            (0..100).for_each(|_| margins.steer(&LEARNED, share, 10_000));
            margins.of(Some(7), start)
        };
        assert!(of(5_000) < of(6_000) && of(6_000) < of(9_000) && of(9_000) < MOST);
    }

    #[test]
    fn a_constant_margin_stays() {
        let mut margins = Margins::default();
        margins.steer(&Conservatism::Constant(Duration::ZERO), 20_000, 10_000);
        assert_eq!(margins.common, None);
    }
}
