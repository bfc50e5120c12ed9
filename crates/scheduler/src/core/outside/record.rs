//! How well the drive's times were foreseen: the error record.

use units::Duration;

/// Width of an error's bin: 10 us.
const BIN_NS: i64 = 10_000;

/// Bins on each side of zero: 20 ms, more than three turns of the drives at hand.
const BINS: i64 = 2_000;

/// Distances are classed by their number of bits: 0, 1, 2-3, 4-7, ... cylinders.
const CLASSES: usize = 24;

/// Width of a slack's bin: 25 us.
pub(crate) const SLACK_NS: u64 = 25_000;

/// Slack bins: up to 1.6 ms; a head with more in hand is not what seek times decide about.
pub(crate) const SLACKS: usize = 64;

/// Half of the arrivals is forgotten after so many: an arm that ages is followed, and trouble that has ended does not count
/// for ever.
const MEMORY: u32 = 1 << 15;

/// An observation: a command is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    /// Observed less foreseen head time, in nanoseconds.
    pub error: i64,
    /// Whole turns of that.
    pub turns: i64,
    /// Whether that is all there is to it, but for the noise of completions.
    pub explained: bool,
    /// Whether it was done when it was foreseen: in its turn, and no further off in it than a plan can bear.
    pub foreseen: bool,
}

/// What a head had to do to be in time for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Move over so many cylinders.
    Moved(u32),
    /// Stay where it was: the drive had to have taken the command in.
    Stayed,
}

/// A command came to its first sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Came {
    pub way: Way,
    /// How much later it could have been, as was foreseen.
    pub slack: Duration,
    /// Whether it was too late for them.
    pub late: bool,
}

/// Arrivals by the slack that was foreseen.
#[derive(Clone, Debug)]
pub(crate) struct Arrivals {
    /// In each bin, how many, and how many of them were too late.
    pub late: [(u32, u32); SLACKS],
}

impl Default for Arrivals {
    fn default() -> Self {
        Self { late: [(0, 0); SLACKS] }
    }
}

/// What a core outside the drive has learned about how far off its predictions are.
///
/// Errors are of head time, observed less foreseen, a completion's counted from the completion before (FAST'02, section
/// 5.2).
#[derive(Clone, Debug)]
pub struct ErrorRecord {
    bins: Vec<u32>,
    count: u64,
    late: u64,
    early: u64,
    unexplained: u64,
    arrivals: Vec<Arrivals>,
    stayed: Arrivals,
    /// Arrivals since half of them were forgotten, with a move and without.
    aged: [u32; 2],
}

impl Default for ErrorRecord {
    fn default() -> Self {
        Self {
            bins: vec![0; 2 * BINS as usize + 1],
            count: 0,
            late: 0,
            early: 0,
            unexplained: 0,
            arrivals: vec![Arrivals::default(); CLASSES],
            stayed: Arrivals::default(),
            aged: [0; 2],
        }
    }
}

pub(crate) fn class(distance: u32) -> usize {
    ((u32::BITS - distance.leading_zeros()) as usize).min(CLASSES - 1)
}

impl ErrorRecord {
    /// Commands recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Commands that took whole turns longer than foreseen.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Commands that took whole turns less.
    pub fn early(&self) -> u64 {
        self.early
    }

    /// Commands whose time no number of turns explains: buffer hits, recalibrations, another order than asked for.
    pub fn unexplained(&self) -> u64 {
        self.unexplained
    }

    /// The part of the commands whose error is at most this, to 10 us.
    pub fn within(&self, most: Duration) -> f64 {
        let most = (i64::try_from(most.as_nanos()).unwrap_or(i64::MAX) / BIN_NS).min(BINS);
        let (from, to) = ((BINS - most) as usize, (BINS + most) as usize);
        let inside: u64 = self.bins[from..=to].iter().map(|n| u64::from(*n)).sum();
        inside as f64 / self.count.max(1) as f64
    }

    /// The distribution: the middle of each bin that is not empty, in microseconds, and how many.
    pub fn distribution(&self) -> impl Iterator<Item = (i64, u32)> {
        let bins = self.bins.iter().enumerate().filter(|(_, n)| **n > 0);
        bins.map(|(i, n)| ((i as i64 - BINS) * BIN_NS / 1_000, *n))
    }

    /// Arrivals by class of distances.
    pub(crate) fn classes(&self) -> impl Iterator<Item = &Arrivals> {
        self.arrivals.iter()
    }

    /// Arrivals over all distances.
    pub(crate) fn all_arrivals(&self) -> Arrivals {
        let mut all = Arrivals::default();
        for class in &self.arrivals {
            for (sum, bin) in all.late.iter_mut().zip(&class.late) {
                *sum = (sum.0.saturating_add(bin.0), sum.1.saturating_add(bin.1));
            }
        }
        all
    }

    /// Commands for which nothing moved.
    pub(crate) fn stayed(&self) -> &Arrivals {
        &self.stayed
    }

    /// A command is done that came so, if it went to the medium.
    pub(crate) fn note(&mut self, seen: &Observed, came: Option<Came>) {
        self.count += 1;
        // Rounded to the middle of a bin.
        let bin = (seen.error + BIN_NS / 2 * seen.error.signum()) / BIN_NS;
        let slot = &mut self.bins[(bin.clamp(-BINS, BINS) + BINS) as usize];
        *slot = slot.saturating_add(1);
        self.unexplained += u64::from(!seen.explained);
        self.late += u64::from(seen.explained && seen.turns > 0);
        self.early += u64::from(seen.explained && seen.turns < 0);
        let Some(Came { way, slack, late }) = came.filter(|came| seen.explained || came.late) else { return };
        let classes = match way {
            Way::Moved(_) => &mut self.arrivals[..],
            Way::Stayed => std::slice::from_mut(&mut self.stayed),
        };
        let aged = &mut self.aged[usize::from(way == Way::Stayed)];
        *aged += 1;
        if *aged == MEMORY {
            *aged = 0;
            let bins = classes.iter_mut().flat_map(|class| &mut class.late);
            bins.for_each(|bin| *bin = (bin.0 / 2, bin.1 / 2));
        }
        let class = match way {
            Way::Moved(distance) => class(distance),
            Way::Stayed => 0,
        };
        if let Some(bin) = classes[class].late.get_mut((slack.as_nanos() / SLACK_NS) as usize) {
            bin.0 = bin.0.saturating_add(1);
            bin.1 = bin.1.saturating_add(u32::from(late));
        }
    }
}
