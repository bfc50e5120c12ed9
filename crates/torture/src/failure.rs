//! What a checker says of a promise that was broken.

use std::fmt;
use units::Instant;

/// The checkers, by what they hold; docs/TORTURE.md says how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// The scheduler panicked.
    Panic,
    /// It asks for more and more without time going on.
    Endless,
    /// Foreground times are those of a core without background (promise 1).
    Twin,
    /// The mechanics are done when the core says (promise 1).
    Prediction,
    /// The head goes for a request that was made, for all of it and nothing else.
    Request,
    /// What idle time cost the foreground is what it is said to have cost.
    Harm,
    /// Idle work goes no further than it may.
    IdleRange,
    /// Each block is delivered once, to whom it was promised (promise 2).
    Once,
    /// The counts that calls return (promise 2).
    Count,
    /// The last record says so, no other does (promise 2).
    Last,
    /// What is delivered was read (promise 2).
    Data,
    /// What is called written was written (promise 2).
    Written,
    /// A backup restored is what the volume held at the snapshot (promise 2).
    Restored,
    /// What a reorganiser moves is where it says, and in the end where the plan says (promise 2).
    Moved,
    /// Acknowledged foreground writes stay (promise 3).
    Acknowledged,
    /// Background writes do not overwrite newer data (promise 3).
    Older,
    /// Whoever reads finds what was acknowledged before, or something newer (promise 3).
    Stale,
    /// What a cache has flushed is on the medium, and what it has answered is there or in memory that survives
    /// (promise 3).
    Flushed,
    /// A bad sector costs its own blocks, and they are told (promise 4).
    Bad,
    /// What was cut short had been done as far as it counts.
    Cut,
    /// Buffers are asked for when, and only when, they are written.
    Buffers,
    /// A suspended session is left alone.
    Suspended,
    /// A scrub sees everything once, and finds what is wrong (promise 2).
    Scrub,
    /// What a miner answers is what the pages that came say, each once (promise 2).
    Mined,
    /// The record face hands out each record once, in order, and waits as long as it is to (promise 2).
    Records,
    /// What can go on does (promise 5).
    Hang,
    /// Every session gets on (promise 5).
    Starved,
    /// Queues are bounded (promise 5).
    Bound,
    /// The same steps give the same actions (promise 6).
    Replay,
    /// Bad calls are refused and change nothing (promise 7).
    Refusal,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which checker.
    pub check: Check,
    /// After which step, from 0.
    pub step: usize,
    /// When, in virtual time.
    pub at: Instant,
    /// What was seen.
    pub what: String,
}

impl Check {
    /// Its name.
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

    /// The promise of the design that it holds; 0 for what all of them rest on.
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

/// A broken promise before it is known when it was broken.
pub(crate) type Broken = (Check, String);

/// Says that a promise is broken unless `holds`.
pub(crate) fn hold(holds: bool, check: Check, what: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err((check, what())) }
}

impl std::error::Error for Failure {}
