//! The interface to the drive: a handle that executes commands and reports when they began and ended.

use thiserror::Error;
use units::{Bytes, Instant, Lbn, LbnRange, Op, Sectors};

/// The instants at which a command was submitted and at which the host received its completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When the host submitted the command.
    pub submitted: Instant,
    /// When the host received the command's completion.
    pub completed: Instant,
}

/// A failed command.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{op:?} of {range} failed: {reason}; {mend}")]
pub struct DeviceError {
    /// The operation that failed.
    pub op: Op,
    /// The range of the failed command.
    pub range: LbnRange,
    /// The first sector of the range that cannot be read, or written, if that was the cause: the probe avoids this
    /// sector. `None` if the device is gone, or does not support the command.
    pub unreadable: Option<Lbn>,
    /// The device's message.
    pub reason: String,
    /// A possible correction.
    pub mend: String,
}

/// A drive from its host's view: one command at a time, or two, and the instants of a clock that does not jump.
///
/// The probe knows nothing else of the drive: no profile, no seed, no geometry.
pub trait ProbedDevice {
    /// Returns the number of sectors.
    fn capacity(&self) -> Sectors;

    /// Returns the bytes in a sector.
    fn sector_bytes(&self) -> Bytes;

    /// Returns the host's clock, which does not go backwards.
    fn now(&self) -> Instant;

    /// Waits until `at`, unless that instant has passed, then executes a command and waits for its completion.
    ///
    /// A write puts back the content of the sectors, which the handle has read before: such a write takes as long as
    /// any, and no data are lost even if the power fails. The probe writes only where
    /// [`Options::writes`](crate::Options) allows it.
    ///
    /// # Errors
    /// The command failed; the device accepts the next one. [`now`](Self::now) is past the failure.
    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError>;

    /// Executes a command like [`execute`](Self::execute), if no other host's command has been at the drive since the
    /// last command of this handle. Otherwise the handle executes nothing and returns `None`, because the arm may have
    /// moved; the probe then moves the arm back by [`execute`](Self::execute) and tries again. No other host's command
    /// may be at the drive when the command is submitted, so that the measured times are the drive's own.
    ///
    /// A handle implements this method if its drive serves requests while it is probed. Its `execute` waits until the
    /// drive is idle and background work is permitted. The default is for a drive that only the probe uses.
    ///
    /// # Errors
    /// The errors of [`execute`](Self::execute).
    fn execute_next(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Option<Timed>, DeviceError> {
        self.execute(at, op, range).map(Some)
    }

    /// Switches the drive's look-ahead and read cache off, as far as the drive can, for all commands that follow; returns
    /// whether anything changed. The handle puts back what it has changed when its use ends. The probe calls this at most
    /// once, after it has measured the buffer; the default changes nothing.
    fn switch_buffer_off(&mut self) -> bool {
        false
    }

    /// Returns whether [`execute_two`](Self::execute_two) submits the second command while the drive executes the first. The
    /// answer never changes; the default is one command at a time.
    fn takes_two(&self) -> bool {
        false
    }

    /// Waits until `at`, unless that instant has passed, then submits two commands, one right after the other, and
    /// waits for both. The probe calls this method only if [`takes_two`](Self::takes_two) returns true.
    ///
    /// # Errors
    /// One of the two commands failed, named by the error; both have ended, and the device accepts the next command.
    fn execute_two(
        &mut self,
        at: Instant,
        [first, second]: [(Op, LbnRange); 2],
    ) -> Result<[Timed; 2], DeviceError> {
        let one = self.execute(at, first.0, first.1)?;
        Ok([one, self.execute(one.completed, second.0, second.1)?])
    }
}
