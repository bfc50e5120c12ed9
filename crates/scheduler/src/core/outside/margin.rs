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

/// The most that the common part may be, and its steps: up by an eighth, down by a thirty-second; by an eighth as well
/// as long as next to nothing is lost.
const MOST: Duration = Duration::from_millis(1);
const UP: u64 = 8;
const DOWN: u64 = 32;

/// The common part never sinks lower, so that it can rise again.
const LEAST: Duration = Duration::from_micros(2);

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
        let of_all = Risks::of(&record.all_arrivals()).spread();
        self.least.clear();
        self.least.extend(record.classes().map(|arrivals| {
            let own = Risks::of(arrivals).spread();
            own.or(of_all).unwrap_or(Duration::ZERO)
        }));
    }

    /// The common part follows the harm done, of which at most `bound` millionths are allowed.
    pub fn steer(&mut self, conservatism: &Conservatism, share_ppm: u64, bound: u32) {
        let Conservatism::Learned { start } = *conservatism else { return };
        let common = self.common.unwrap_or(start);
        // Below the bound with something to spare: for what comes by chance, and for what no completion tells.
        let higher = share_ppm * 10 > u64::from(bound) * 8;
        let down = if share_ppm * 4 < u64::from(bound) { UP } else { DOWN };
        let next = if higher { common + common / UP } else { common.saturating_sub(common / down) };
        self.common = Some(next.clamp(LEAST, MOST));
    }

    /// By how much a move over so many cylinders is widened.
    pub fn of(&self, distance: u32, start: Duration) -> Duration {
        let least = self.least.get(class(distance)).copied().unwrap_or_default();
        (least + self.common.unwrap_or(start)).min(MOST * 2)
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
    use crate::core::outside::record::Observed;

    const LEARNED: Conservatism = Conservatism::Learned { start: Duration::from_micros(300) };

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
            record.note(&seen, Some((1_000, Duration::from_micros(slack))));
        }
        record
    }

    #[test]
    fn the_least_margin_is_the_spread_of_the_seeks() {
        for (spread, within) in [(0, 0..=25), (60, 50..=75), (200, 175..=225)] {
            let mut margins = Margins::default();
            margins.learn(&record(spread));
            let margin = margins.of(1_000, Duration::ZERO).as_nanos() / 1_000;
            assert!(within.contains(&margin), "{spread} us: {margin}");
            // Of distances that were never gone, what is known of all.
            assert_eq!(margins.of(3, Duration::ZERO), margins.of(1_000, Duration::ZERO));
        }
    }

    #[test]
    fn the_common_margin_follows_the_harm() {
        let mut margins = Margins::default();
        let start = Duration::from_micros(300);
        assert_eq!(margins.of(7, start), start);
        (0..40).for_each(|_| margins.steer(&LEARNED, 20_000, 10_000));
        assert_eq!(margins.of(7, start), MOST);
        (0..400).for_each(|_| margins.steer(&LEARNED, 0, 10_000));
        assert!(margins.of(7, start) < Duration::from_micros(40));
    }

    #[test]
    fn a_constant_margin_stays() {
        let mut margins = Margins::default();
        margins.steer(&Conservatism::Constant(Duration::ZERO), 20_000, 10_000);
        assert_eq!(margins.common, None);
    }
}
