//! Conservatism that is learned: how late heads come, by the distance that they go.
//!
//! A completion tells no more than the turn in which it came: that the head was later than its slack, or not. Over many
//! commands, plain ones among them, that is how probable it is to be later than any slack. What happens to slack of any
//! size (a missed landing) is no reason for a larger margin, and is left out.

use super::config::Conservatism;
use super::record::{Arrivals, ErrorRecord, SLACK_NS};
use units::Duration;

/// Observations between two looks at what is known.
const STRIDE: u64 = 256;

/// So many arrivals with a little slack must have been seen at a distance.
const ENOUGH: u32 = 200;

/// Slack from here on is large.
const LARGE: usize = 32;

/// Bins that are looked at together.
const TOGETHER: usize = 4;

/// The margin of each class of distances.
#[derive(Clone, Debug, Default)]
pub(super) struct Margins {
    by_class: Vec<Duration>,
    looked: u64,
}

impl Margins {
    /// Looks again, if it is time.
    pub fn learn(&mut self, conservatism: &Conservatism, record: &ErrorRecord) {
        let Conservatism::Learned { late_ppm, start } = *conservatism else { return };
        if !self.by_class.is_empty() && record.count() < self.looked + STRIDE {
            return;
        }
        self.looked = record.count();
        let all = record.all_arrivals();
        let common = learned(&all, late_ppm).unwrap_or(start);
        self.by_class.clear();
        self.by_class.extend(record.classes().map(|class| learned(class, late_ppm).unwrap_or(common)));
    }

    pub fn of(&self, class: usize) -> Option<Duration> {
        self.by_class.get(class).copied()
    }

    pub fn least(&self) -> Duration {
        self.by_class.iter().copied().min().unwrap_or(Duration::ZERO)
    }
}

/// The least slack with which no more than so many millionths come too late, beside those that always do; `None` if too
/// little is known.
fn learned(arrivals: &Arrivals, late_ppm: u32) -> Option<Duration> {
    let sum = |bins: &[(u32, u32)]| {
        bins.iter().fold((0u64, 0u64), |(n, late), bin| (n + u64::from(bin.0), late + u64::from(bin.1)))
    };
    let bins = &arrivals.late;
    let (near, far) = (sum(&bins[..LARGE]), sum(&bins[LARGE..]));
    if near.0 < u64::from(ENOUGH) || far.0 < u64::from(ENOUGH) {
        return None;
    }
    let always = far.1 * 1_000_000 / far.0;
    // Those at hand and a few beyond: the probability falls with slack.
    let first = (0..LARGE).find(|&bin| {
        let (n, late) = sum(&bins[bin..bin + TOGETHER]);
        // Half an arrival too late is assumed where none was seen.
        n > 0 && (2 * late + 1) * 500_000 <= n * (u64::from(late_ppm) + always)
    });
    Some(Duration::from_nanos(first.unwrap_or(LARGE) as u64 * SLACK_NS))
}
