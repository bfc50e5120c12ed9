//! What the probe is given: a handle that takes commands and says when they began and ended. Nothing else.

use thiserror::Error;
use units::{Bytes, Instant, Lbn, LbnRange, Op, Sectors};

/// When a command was handed to the drive, and when the host learned that it was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When the host submitted it.
    pub submitted: Instant,
    /// When its completion came back.
    pub completed: Instant,
}

/// A command failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{op:?} of {range} failed: {reason}; {mend}")]
pub struct DeviceError {
    /// Read or write.
    pub op: Op,
    /// Which sectors.
    pub range: LbnRange,
    /// The first of them that cannot be read, or written, where that is what failed: the probe goes round it. `None` where the
    /// device is gone, or takes no such command.
    pub unreadable: Option<Lbn>,
    /// What the device said.
    pub reason: String,
    /// What may help.
    pub mend: String,
}

/// A drive as its host sees it: one command at a time, or two, and the instants of a clock that does not jump.
///
/// The probe is told nothing else: no profile, no seed, no geometry.
pub trait Device {
    /// Sectors that it offers.
    fn capacity(&self) -> Sectors;

    /// Bytes in a sector.
    fn sector_bytes(&self) -> Bytes;

    /// The host's clock. It does not go backwards.
    fn now(&self) -> Instant;

    /// Waits until `at`, unless that has passed, then carries out a command and waits until it is done.
    ///
    /// A write puts back what the sectors hold, which the handle has read before: it costs what any write costs, and
    /// nothing is lost, even if the power fails. Writes come only where [`Options::writes`](crate::Options) allows them.
    ///
    /// # Errors
    /// The command failed; the device can take another one. [`now`](Self::now) is past the failure.
    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError>;

    /// Whether [`execute_two`](Self::execute_two) hands over the second command while the drive works on the first one. Always
    /// the same; what takes one at a time need not say so.
    fn takes_two(&self) -> bool {
        false
    }

    /// Waits until `at`, unless that has passed, then hands over two commands, the second right behind the first, and waits
    /// until both are done. Only where [`takes_two`](Self::takes_two) says so.
    ///
    /// # Errors
    /// One of them failed, and which one the error says; the device is done with both and can take another one.
    fn execute_two(
        &mut self,
        at: Instant,
        [first, second]: [(Op, LbnRange); 2],
    ) -> Result<[Timed; 2], DeviceError> {
        let one = self.execute(at, first.0, first.1)?;
        Ok([one, self.execute(one.completed, second.0, second.1)?])
    }
}
