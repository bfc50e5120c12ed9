//! The error record: the accuracy of predicted times.

use alloc::vec;
use alloc::vec::Vec;
use units::Duration;

/// Width of an error's bin: 10 us.
const BIN_NS: i64 = 10_000;

/// The number of bins on each side of zero: 20 ms, more than three revolutions of the supported drives.
const BINS_PER_SIDE: i64 = 2_000;

/// The number of classes of distances, by the number of bits of the distance: 0, 1, 2-3, 4-7, ... cylinders.
const DISTANCE_CLASSES: usize = 24;

/// Width of a slack's bin: 25 us.
pub(crate) const SLACK_NS: u64 = 25_000;

/// The number of slack bins: up to 1.6 ms; larger slack does not depend on seek times.
pub(crate) const SLACK_BINS: usize = 64;

/// The number of arrivals after which half of the counts is discarded, so that the record follows an ageing arm and forgets
/// old trouble.
const ARRIVALS_COUNTED_MAX: u32 = 1 << 15;

/// The observation of a finished command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observation {
    /// The observed head time less the predicted one, in ns.
    pub error: i64,
    /// The number of whole revolutions in the error.
    pub revolutions: i64,
    /// Whether whole revolutions and the noise of completions explain the error.
    pub explained: bool,
    /// Whether the command was done as predicted: in the predicted revolution, and with an error that a plan tolerates.
    pub predicted: bool,
}

/// The head's way to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeadPath {
    /// A move over this many cylinders.
    Moved(u32),
    /// No move. The drive only has to decode the command in time.
    Stayed,
}

/// The arrival of a command at its first sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    pub way: HeadPath,
    /// The predicted slack.
    pub slack: Duration,
    /// Whether the head was too late.
    pub late: bool,
}

/// Arrivals by predicted slack.
#[derive(Clone, Debug)]
pub(crate) struct SlackArrivals {
    /// For each bin of slack, the number of arrivals, and of those that were too late.
    pub late: [(u32, u32); SLACK_BINS],
}

impl Default for SlackArrivals {
    fn default() -> Self {
        Self { late: [(0, 0); SLACK_BINS] }
    }
}

/// The errors of the predictions of a core outside the drive.
///
/// An error is the observed head time less the predicted one, where head time is counted from the completion before
/// (FAST'02, section 5.2).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ErrorRecord {
    bins: Vec<u32>,
    count: u64,
    late: u64,
    early: u64,
    unexplained: u64,
    arrivals: Vec<SlackArrivals>,
    stayed: SlackArrivals,
    /// The number of arrivals, with a move and without, since half of the counts was discarded.
    aged: [u32; 2],
}

impl Default for ErrorRecord {
    fn default() -> Self {
        Self {
            bins: vec![0; 2 * BINS_PER_SIDE as usize + 1],
            count: 0,
            late: 0,
            early: 0,
            unexplained: 0,
            arrivals: vec![SlackArrivals::default(); DISTANCE_CLASSES],
            stayed: SlackArrivals::default(),
            aged: [0; 2],
        }
    }
}

pub(crate) fn class(distance: u32) -> usize {
    ((u32::BITS - distance.leading_zeros()) as usize).min(DISTANCE_CLASSES - 1)
}

impl ErrorRecord {
    /// Returns the number of recorded commands.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of commands that took whole revolutions longer than predicted.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Returns the number of commands that took whole revolutions less than predicted.
    pub fn early(&self) -> u64 {
        self.early
    }

    /// Returns the number of commands whose time no number of revolutions explains: buffer hits, recalibrations, a different
    /// order.
    pub fn unexplained(&self) -> u64 {
        self.unexplained
    }

    /// Returns the share of commands with an error of at most `most`, early or late, to 10 us.
    pub fn within(&self, most: Duration) -> f64 {
        let most = (i64::try_from(most.as_nanos()).unwrap_or(i64::MAX) / BIN_NS).min(BINS_PER_SIDE);
        let (from, to) = ((BINS_PER_SIDE - most) as usize, (BINS_PER_SIDE + most) as usize);
        let inside: u64 = self.bins[from..=to].iter().map(|n| u64::from(*n)).sum();
        inside as f64 / self.count.max(1) as f64
    }

    /// Returns the distribution: the middle of each bin that is not empty, in microseconds, and its count.
    pub fn distribution(&self) -> impl Iterator<Item = (i64, u32)> {
        let bins = self.bins.iter().enumerate().filter(|(_, n)| **n > 0);
        bins.map(|(i, n)| ((i as i64 - BINS_PER_SIDE) * BIN_NS / 1_000, *n))
    }

    /// Returns the arrivals by class of distances.
    pub(crate) fn classes(&self) -> impl Iterator<Item = &SlackArrivals> {
        self.arrivals.iter()
    }

    /// Returns the arrivals over all distances.
    pub(crate) fn all_arrivals(&self) -> SlackArrivals {
        let mut all = SlackArrivals::default();
        for class in &self.arrivals {
            for (sum, bin) in all.late.iter_mut().zip(&class.late) {
                *sum = (sum.0.saturating_add(bin.0), sum.1.saturating_add(bin.1));
            }
        }
        all
    }

    /// Returns the arrivals of commands without a move.
    pub(crate) fn stayed(&self) -> &SlackArrivals {
        &self.stayed
    }

    /// Records a finished command, and the arrival of the head if the command went to the medium.
    pub(crate) fn note(&mut self, seen: &Observation, came: Option<Came>) {
        self.count += 1;
        // Bins are centred on multiples of their width.
        let bin = (seen.error + BIN_NS / 2 * seen.error.signum()) / BIN_NS;
        let slot = &mut self.bins[(bin.clamp(-BINS_PER_SIDE, BINS_PER_SIDE) + BINS_PER_SIDE) as usize];
        *slot = slot.saturating_add(1);
        self.unexplained += u64::from(!seen.explained);
        self.late += u64::from(seen.explained && seen.revolutions > 0);
        self.early += u64::from(seen.explained && seen.revolutions < 0);
        let Some(Came { way, slack, late }) = came.filter(|came| seen.explained || came.late) else { return };
        let classes = match way {
            HeadPath::Moved(_) => &mut self.arrivals[..],
            HeadPath::Stayed => core::slice::from_mut(&mut self.stayed),
        };
        let aged = &mut self.aged[usize::from(way == HeadPath::Stayed)];
        *aged += 1;
        if *aged == ARRIVALS_COUNTED_MAX {
            *aged = 0;
            let bins = classes.iter_mut().flat_map(|class| &mut class.late);
            bins.for_each(|bin| *bin = (bin.0 / 2, bin.1 / 2));
        }
        let class = match way {
            HeadPath::Moved(distance) => class(distance),
            HeadPath::Stayed => 0,
        };
        if let Some(bin) = classes[class].late.get_mut((slack.as_nanos() / SLACK_NS) as usize) {
            bin.0 = bin.0.saturating_add(1);
            bin.1 = bin.1.saturating_add(u32::from(late));
        }
    }
}
