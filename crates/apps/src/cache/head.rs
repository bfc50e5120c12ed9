//! What SPTF-Evict asks of the host.

use units::{Duration, Instant, Lbn, LbnRange};

/// Where the head is and how soon it can write. A host that has a `scheduler::Predictor` answers with it; the head's
/// position is the host's to know.
pub trait HeadTime {
    /// An LBN near the head.
    fn lbn(&self) -> Lbn;

    /// How long it takes from now until the head can begin to write there.
    fn positioning(&self, now: Instant, range: LbnRange) -> Duration;
}

/// Nothing is known of the head: all blocks are equally near. Enough for LRU and FREE-CLEAN.
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
