//! The head's position, which SPTF-Evict asks the host for.

use units::{Duration, Instant, Lbn, LbnRange};

/// The host's answers about the head: where it is, and how soon it can write. A host may compute them with a
/// `scheduler::Predictor`.
pub trait HeadTime {
    /// Returns an LBN near the head.
    fn lbn(&self) -> Lbn;

    /// Returns the time from now until the head can begin to write at `range`.
    fn positioning(&self, now: Instant, range: LbnRange) -> Duration;
}

/// A head at an unknown place: all blocks are equally near. This suffices for LRU and FREE-CLEAN.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHead;

impl HeadTime for NoHead {
    fn lbn(&self) -> Lbn {
        Lbn::ZERO
    }

    fn positioning(&self, _: Instant, _: LbnRange) -> Duration {
        Duration::ZERO
    }
}
