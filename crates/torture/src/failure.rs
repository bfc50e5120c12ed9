//! Failures: broken promises, as the checkers report them.

use std::fmt;
use units::Instant;

/// The checkers, each with its condition; docs/TORTURE.md describes how they check it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The scheduler panicked.
    Panic,
    /// At one instant, the core returns only a bounded number of outputs.
    Endless,
    /// Foreground times equal those of a core without background work (promise 1).
    Twin,
    /// The head's work ends at the instant that the core has predicted (promise 1).
    Prediction,
    /// Each foreground access or command serves the sectors of a request that was made.
    Request,
    /// The harm of idle work that the core reports is the true one.
    Harm,
    /// Idle work runs only when it is permitted.
    IdleRange,
    /// Each block is delivered once, to its session (promise 2).
    Once,
    /// The counts that calls return are right (promise 2).
    Count,
    /// Exactly the last record of a session is marked as the last (promise 2).
    Last,
    /// Delivered data was read from the medium (promise 2).
    Data,
    /// A block that is reported as written was written (promise 2).
    Written,
    /// A restored backup, or a read of a snapshot, has the content at the instant of the snapshot (promise 2).
    Restored,
    /// The data of moved blocks is where the reorganiser says, and in the end where the plan says (promise 2).
    Moved,
    /// The data of acknowledged foreground writes stays on the medium (promise 3).
    Acknowledged,
    /// Background writes do not overwrite newer data (promise 3).
    Older,
    /// A read returns the last acknowledged data, or newer data (promise 3).
    Stale,
    /// Flushed data is on the medium; acknowledged data is on the medium or in memory that survives a power cut (promise 3).
    Flushed,
    /// A bad sector fails only the blocks and requests that include it, and they are reported (promise 4).
    Bad,
    /// If work is cut short, the head has done exactly the part that the core assumes.
    Cut,
    /// The core requests data for wanted background writes only, and writes no block without its data (promise 2).
    Buffers,
    /// A suspended session gets no work (promise 2).
    Suspended,
    /// A scrub reads every block, and finds every lasting defect and no others (promise 2).
    Scrub,
    /// The answers of a miner follow from the delivered pages, each counted once (promise 2).
    Mined,
    /// A buffer of records returns each record once, in order, and its client waits as long as requested (promise 2).
    Records,
    /// Work that can continue does continue (promise 5).
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
    /// The number of the step after which the check failed, from 0.
    pub step: usize,
    /// The virtual time of the failure.
    pub at: Instant,
    /// A description of the observation.
    pub what: String,
}

impl Check {
    /// Returns the name of the checker.
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

    /// Returns the number of the promise that the checker checks; 0 for a condition on which all promises depend.
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

/// A broken promise, without its time and its step: the checker, and a description.
pub(crate) type Broken = (Check, String);

/// Returns a broken promise unless `holds`.
pub(crate) fn hold(holds: bool, check: Check, what: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err((check, what())) }
}

impl std::error::Error for Failure {}
