//! The commands of a core outside the drive, between the core and a device that may reorder them.

use crate::{Command, CommandId};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The commands that a host was given, from [`Output::Do`](crate::Output::Do) to their completion.
///
/// A device may reorder the commands that it has. Therefore a command is held back while it overlaps an earlier one that is not
/// done, if either writes: a background write must not land after a newer one of the foreground. Other commands may overtake it.
///
/// ```
/// # use freeblock::{Output, Bytes, Config, DriveModel, Instant, OutsideConfig, OutsideDrive, Request, Sectors};
/// use freeblock::{Commands, Lbn, LbnRange, Op, Outcome, RequestId};
/// # let drive = DriveModel::unknown(Sectors::new(2_000_000), Bytes::new(512))?;
/// # let config = Config::outside(OutsideConfig::blind().serving());
/// # let mut core = OutsideDrive::new(drive.into(), config);
/// # let now = Instant::ZERO;
/// let range = LbnRange::new(Lbn::new(64), Sectors::new(8));
/// core.submit(now, Request { id: RequestId::new(1), op: Op::Write, range })?;
/// core.submit(now, Request { id: RequestId::new(2), op: Op::Read, range })?;
/// let mut commands = Commands::default();
/// while let Some(Output::Do(command)) = core.poll(now) {
///     commands.push(command);
/// }
/// while let Some(command) = commands.next() {
///     // Here the host gives the command to its device, and waits for its completion.
///     commands.done(command.id);
///     core.command_done(now, command.id, Outcome::Done);
///     while let Some(output) = core.poll(now) {
///         if let Output::Do(command) = output {
///             commands.push(command);
///         }
///     }
/// }
/// assert!(commands.is_empty() && core.pending() == 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// In the order of the core.
    waiting: VecDeque<Command>,
    at_device: Vec<Command>,
}

impl Commands {
    /// Adds a command of the core.
    pub fn push(&mut self, command: Command) {
        self.waiting.push_back(command);
    }

    /// Returns the next command for the device, which is at the device from here on; `None` if all are there or held back.
    #[expect(
        clippy::should_implement_trait,
        reason = "an iterator that has ended may have items again after `done`"
    )]
    pub fn next(&mut self) -> Option<Command> {
        let at = (0..self.waiting.len()).find(|&at| {
            let command = &self.waiting[at];
            let earlier = self.at_device.iter().chain(self.waiting.range(..at));
            !earlier.into_iter().any(|other| conflict(command, other))
        })?;
        let command = self.waiting.remove(at)?;
        self.at_device.push(command.clone());
        Some(command)
    }

    /// Records that the device is done with a command, whatever its outcome; returns the command, or `None` if it was not there.
    pub fn done(&mut self, id: CommandId) -> Option<Command> {
        let at = self.at_device.iter().position(|command| command.id == id)?;
        Some(self.at_device.swap_remove(at))
    }

    /// Returns the number of commands at the device.
    pub fn at_device(&self) -> usize {
        self.at_device.len()
    }

    /// Returns whether a command is at the device or waits for it.
    pub fn is_empty(&self) -> bool {
        self.at_device.is_empty() && self.waiting.is_empty()
    }
}

fn conflict(one: &Command, other: &Command) -> bool {
    (one.op.is_write() || other.op.is_write()) && one.range.overlaps(other.range)
}
