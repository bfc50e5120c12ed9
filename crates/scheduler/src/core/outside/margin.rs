//! Learned margins of detours' moves: the time by which a move is planned longer, so that the head is not late.
//!
//! A completion shows only whether the head was later than its slack (the time from its predicted arrival to the first sector).
//! Over many commands, also without detours, that gives the risk of lateness for each slack. The risk is high for slacks up to
//! the spread of the seeks, which is the least margin of each class of distances. For larger slacks, rare late settles remain,
//! at about the same rate for each slack. A common margin on top of the least margins follows the harm that these cause, so
//! that it stays below its bound.

use super::record::{ErrorRecord, SLACK_BINS, SLACK_NS, SlackArrivals, class};
use crate::core::config::Conservatism;
use alloc::vec::Vec;
use units::Duration;

/// The number of observations between two updates of the margins.
const OBSERVATIONS_PER_UPDATE: u64 = 256;

/// The minimum of arrivals from which the risk of a slack is computed.
const ARRIVALS_MIN: u64 = 100;

/// The first bin of large slack: a head that is later than this is late at any slack (it missed the track).
const LARGE_SLACK_BINS_MIN: usize = 40;

/// The largest share of late heads with the least margin, in ppm, beyond those that are late at any slack.
const LATE_EXCESS_PPM_MAX: u32 = 40_000;

/// The smallest and the largest common margin.
const COMMON_MARGIN_MIN: Duration = Duration::from_micros(25);
const COMMON_MARGIN_MAX: Duration = Duration::from_micros(750);

/// The common margin is the smallest one until this part of the harm bound is used, in 65536ths, and the largest one when all
/// of it is used: a reserve is needed for chance and for harm that no completion shows. A margin that moved up and down in steps
/// would oscillate, because the harm estimate has a longer memory than the margin.
const WIDENING_65536THS_MIN: u64 = 65_536 / 2;
const WIDENING_65536THS_MAX: u64 = 65_536;

/// The common margin moves 1 part in this number of the way to its aim at each update: faster when it widens.
const WIDENING_DIVISOR: u64 = 2;
const NARROWING_DIVISOR: u64 = 8;

const WHOLE_PPM: u64 = 1_000_000;

/// The shares of late heads in ppm, by slack and at large slacks.
struct Risks {
    by_slack: [Option<u32>; SLACK_BINS],
    always: u32,
}

/// The margin of each class of distances.
#[derive(Clone, Debug, Default)]
pub(super) struct Margins {
    /// The least margin of each class of distances, and that of all distances together.
    least: Vec<Duration>,
    of_all: Option<Duration>,
    /// The time by which a command must precede its sectors if nothing moves.
    staying: Duration,
    /// The common margin.
    common: Option<Duration>,
    looked: u64,
}

impl Margins {
    /// Updates the least margins from the error record, after enough new observations.
    pub fn learn(&mut self, record: &ErrorRecord) {
        if record.count() < self.looked + OBSERVATIONS_PER_UPDATE {
            return;
        }
        self.looked = record.count();
        self.of_all = Risks::of(&record.all_arrivals()).spread();
        self.staying = Risks::of(record.stayed()).spread().unwrap_or_default();
        self.least.clear();
        let own = record.classes().map(|arrivals| Risks::of(arrivals).spread());
        self.least.extend(own.map(|own| own.or(self.of_all).unwrap_or_default()));
    }

    /// Moves the common margin toward its aim for a recent harm of `share_ppm`, of which at most `bound` ppm are allowed.
    pub fn steer(&mut self, conservatism: &Conservatism, share_ppm: u64, bound: u32) {
        let Conservatism::Learned { start, .. } = *conservatism else { return };
        let common = self.common.unwrap_or(start);
        // In 65536ths of the bound.
        let used = u128::from(share_ppm) * u128::from(WIDENING_65536THS_MAX) / u128::from(bound.max(1));
        let used = u64::try_from(used)
            .unwrap_or(WIDENING_65536THS_MAX)
            .clamp(WIDENING_65536THS_MIN, WIDENING_65536THS_MAX);
        let aim = COMMON_MARGIN_MIN
            + (COMMON_MARGIN_MAX - COMMON_MARGIN_MIN) * (used - WIDENING_65536THS_MIN)
                / (WIDENING_65536THS_MAX - WIDENING_65536THS_MIN);
        self.common = Some(if aim > common {
            common + (aim - common) / WIDENING_DIVISOR
        } else {
            common - (common - aim) / NARROWING_DIVISOR
        });
    }

    /// Returns the margin of a move over `distance` cylinders, or for `None` of any move; `start` is the common margin before
    /// the first update.
    pub fn of(&self, distance: Option<u32>, start: Duration) -> Duration {
        let least = match distance {
            Some(distance) => self.least.get(class(distance)).copied(),
            None => self.of_all,
        };
        let least = least.unwrap_or_default();
        (least + self.common.unwrap_or(start)).min(COMMON_MARGIN_MAX * 2)
    }

    /// Returns the time by which a command must precede its first sectors if nothing moves.
    pub fn staying(&self) -> Duration {
        self.staying
    }

    /// Returns the least margin of any move.
    pub fn least(&self, start: Duration) -> Duration {
        self.least.iter().copied().min().unwrap_or_default() + self.common.unwrap_or(start)
    }
}

impl Risks {
    fn of(arrivals: &SlackArrivals) -> Self {
        let rate = |n: u64, late: u64| (late * WHOLE_PPM / n.max(1)).min(WHOLE_PPM) as u32;
        let bins = &arrivals.late;
        let mut by_slack = [None; SLACK_BINS];
        let (mut n, mut late) = (0, 0);
        // From larger to smaller slack, bins are joined until they have enough arrivals.
        for bin in (0..LARGE_SLACK_BINS_MIN).rev() {
            n += u64::from(bins[bin].0);
            late += u64::from(bins[bin].1);
            if n >= ARRIVALS_MIN {
                by_slack[bin] = Some(rate(n, late));
                (n, late) = (0, 0);
            }
        }
        let far = bins[LARGE_SLACK_BINS_MIN..]
            .iter()
            .fold((0, 0), |(n, late), bin| (n + u64::from(bin.0), late + u64::from(bin.1)));
        Self { by_slack, always: rate(far.0, far.1) }
    }

    /// Returns the slack up to which many heads are late: the spread of the seeks. `None` if too little is known.
    fn spread(&self) -> Option<Duration> {
        let known = || {
            self.by_slack[..LARGE_SLACK_BINS_MIN]
                .iter()
                .enumerate()
                .filter_map(|(bin, risk)| Some((bin, (*risk)?)))
        };
        known().next()?;
        let late = known().rfind(|(_, risk)| *risk > self.always + LATE_EXCESS_PPM_MAX);
        Some(late.map_or(Duration::ZERO, |(bin, _)| Duration::from_nanos((bin as u64 + 1) * SLACK_NS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::outside::record::{Came, HeadPath, Observation};

    const LEARNED: Conservatism = Conservatism::LEARNED;

    /// Returns a record in which heads are late by up to `spread` us, and one in fifty by up to half a millisecond.
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
            let revolutions = i64::from(late > slack || draw(500) == 0);
            let seen =
                Observation { error: revolutions * 6_000_000, revolutions, explained: true, predicted: true };
            let came = Came {
                way: HeadPath::Moved(1_000),
                slack: Duration::from_micros(slack),
                late: revolutions > 0,
            };
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
            // Distances without observations have the margin of all distances.
            assert_eq!(margins.of(Some(3), Duration::ZERO), margins.of(Some(1_000), Duration::ZERO));
        }
    }

    #[test]
    fn without_a_move_a_command_is_early_by_its_possible_delay() {
        let mut record = record(200);
        let mut margins = Margins::default();
        margins.learn(&record);
        assert_eq!(margins.staying(), Duration::ZERO);
        for n in 0..4_000 {
            // Commands that are decoded up to 18 us late.
            let (slack, late) = (n % 200, n % 7 * 3);
            let revolutions = i64::from(late > slack);
            let seen =
                Observation { error: revolutions * 6_000_000, revolutions, explained: true, predicted: true };
            let slack = Duration::from_micros(u64::try_from(slack).unwrap());
            record.note(&seen, Some(Came { way: HeadPath::Stayed, slack, late: revolutions > 0 }));
        }
        margins.learn(&record);
        assert_eq!(margins.staying(), Duration::from_micros(25));
        // Commands without a move show nothing about moves.
        assert!(margins.of(Some(1_000), Duration::ZERO) >= Duration::from_micros(175));
    }

    #[test]
    fn the_common_margin_follows_the_harm() {
        let mut margins = Margins::default();
        let start = Duration::from_micros(300);
        assert_eq!(margins.of(Some(7), start), start);
        (0..40).for_each(|_| margins.steer(&LEARNED, 20_000, 10_000));
        assert!(COMMON_MARGIN_MAX - margins.of(Some(7), start) < Duration::from_micros(1));
        (0..400).for_each(|_| margins.steer(&LEARNED, 0, 10_000));
        assert!(margins.of(Some(7), start) < Duration::from_micros(40));
        // From half of the bound to all of it, the margin grows with the harm.
        let of = |share| {
            let mut margins = margins.clone();
            (0..100).for_each(|_| margins.steer(&LEARNED, share, 10_000));
            margins.of(Some(7), start)
        };
        assert!(of(5_000) < of(6_000) && of(6_000) < of(9_000) && of(9_000) < COMMON_MARGIN_MAX);
    }

    #[test]
    fn a_constant_margin_stays() {
        let mut margins = Margins::default();
        margins.steer(&Conservatism::Constant(Duration::ZERO), 20_000, 10_000);
        assert_eq!(margins.common, None);
    }
}
