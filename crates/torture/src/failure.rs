//! Failures: broken promises as the checkers report them.

use std::fmt;
use units::Instant;

/// The checkers, by promise; docs/TORTURE.md describes their methods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The scheduler panicked.
    Panic,
    /// The core returns outputs without end while time stands still.
    Endless,
    /// Foreground times equal those of a core without background work (promise 1).
    Twin,
    /// The mechanics finish at the predicted instant (promise 1).
    Prediction,
    /// The head serves a request that was made, all of it and nothing else.
    Request,
    /// The reported harm of idle time is the true one.
    Harm,
    /// Idle work stays within its permitted range.
    IdleRange,
    /// Each block is delivered once, to its session (promise 2).
    Once,
    /// The counts that calls return (promise 2).
    Count,
    /// The last record says that it is the last, and no other does (promise 2).
    Last,
    /// Delivered data were read (promise 2).
    Data,
    /// A reported write was written (promise 2).
    Written,
    /// A restored backup is the volume's content at the snapshot (promise 2).
    Restored,
    /// A reorganiser's data are at their reported places, and in the end at the planned ones (promise 2).
    Moved,
    /// Acknowledged foreground writes stay (promise 3).
    Acknowledged,
    /// Background writes do not overwrite newer data (promise 3).
    Older,
    /// A read returns the last acknowledged data, or newer ones (promise 3).
    Stale,
    /// Data that a cache has flushed are on the medium, and data that it has acknowledged are there or in memory that
    /// survives (promise 3).
    Flushed,
    /// A bad sector costs its own blocks, and they are reported (promise 4).
    Bad,
    /// Work that was cut short is done up to the point that the core assumes.
    Cut,
    /// Buffers are requested exactly when they are written.
    Buffers,
    /// A suspended session gets no work.
    Suspended,
    /// A scrub sees everything once, and finds every defect (promise 2).
    Scrub,
    /// A miner's answers follow from the pages that came, each counted once (promise 2).
    Mined,
    /// The record face returns each record once, in order, and waits for as long as requested (promise 2).
    Records,
    /// Work that can continue does (promise 5).
    Hang,
    /// Every session makes progress (promise 5).
    Starved,
    /// Queues are bounded (promise 5).
    Bound,
    /// The same steps give the same outputs (promise 6).
    Replay,
    /// Bad calls are refused and change nothing (promise 7).
    Refusal,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The checker.
    pub check: Check,
    /// The number of the step after which it failed, from 0.
    pub step: usize,
    /// The virtual time.
    pub at: Instant,
    /// The observation.
    pub what: String,
}

impl Check {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Panic => "panic",
            Self::Endless => "endless",
            Self::Twin => "twin",
            Self::Prediction => "prediction",
            Self::Request => "request",
            Self::Harm => "harm",
            Self::IdleRange => "idle-range",
            Self::Once => "once",
            Self::Count => "count",
            Self::Last => "last",
            Self::Data => "data",
            Self::Written => "written",
            Self::Acknowledged => "acknowledged",
            Self::Older => "older",
            Self::Stale => "stale",
            Self::Flushed => "flushed",
            Self::Restored => "restored",
            Self::Moved => "moved",
            Self::Bad => "bad",
            Self::Cut => "cut",
            Self::Buffers => "buffers",
            Self::Suspended => "suspended",
            Self::Scrub => "scrub",
            Self::Mined => "mined",
            Self::Records => "records",
            Self::Hang => "hang",
            Self::Starved => "starved",
            Self::Bound => "bound",
            Self::Replay => "replay",
            Self::Refusal => "refusal",
        }
    }

    /// Returns the promise of the design that it checks; 0 for conditions of all promises.
    pub fn promise(self) -> u8 {
        match self {
            Self::Panic | Self::Endless | Self::Request | Self::Cut => 0,
            Self::Twin | Self::Prediction | Self::Harm | Self::IdleRange => 1,
            Self::Once | Self::Count | Self::Last | Self::Data | Self::Written => 2,
            Self::Buffers | Self::Suspended | Self::Scrub | Self::Restored | Self::Moved => 2,
            Self::Mined | Self::Records => 2,
            Self::Acknowledged | Self::Older | Self::Stale | Self::Flushed => 3,
            Self::Bad => 4,
            Self::Hang | Self::Starved | Self::Bound => 5,
            Self::Replay => 6,
            Self::Refusal => 7,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (promise {}), after step {} at {:.6} s: {}",
            self.check.name(),
            self.check.promise(),
            self.step + 1,
            self.at.as_secs_f64(),
            self.what
        )
    }
}

/// A broken promise without its time and step.
pub(crate) type Broken = (Check, String);

/// Returns a broken promise unless `holds`.
pub(crate) fn hold(holds: bool, check: Check, what: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err((check, what())) }
}

impl std::error::Error for Failure {}
