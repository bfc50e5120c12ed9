//! The view that a host has of a device: its capacity, commands, and completions.

use crate::error::CommandError;
use crate::firmware::{Breakdown, Command, Completion, Drive};
use units::{Bytes, CacheOps, Instant, Lbn, RequestId, Sectors};

/// A completion as the host sees it: the time, and whether the command failed, but not how the device served it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The id of the command.
    pub id: RequestId,
    /// The time of the completion.
    pub at: Instant,
    /// The first sector that could not be read, if the command failed; the host then gets no data.
    pub failed: Option<Lbn>,
}

impl From<Completion> for Reply {
    fn from(done: Completion) -> Self {
        Self { id: done.id, at: done.at, failed: done.failed }
    }
}

/// A device that is known only by its completions: a state machine without a clock.
///
/// The host calls [`submit`](Self::submit) for a command. [`next_event`](Self::next_event) returns the time of the next
/// event: at that time the host calls [`advance`](Self::advance), and [`pop_reply`](Self::pop_reply) until it returns
/// `None`. Time must not go backwards. The same calls give the same replies.
///
/// ```
/// use freeblock_drive::{Behaviour, BlackBox, Command, Drive, Rules};
/// use units::{Instant, Lbn, LbnRange, Op, RequestId, Sectors};
/// # let toml = include_str!("../tests/data/small.toml");
/// # let profile = model::Profile::from_toml(toml, "small.toml").unwrap();
/// fn time_of_a_read(device: &mut impl BlackBox) -> Option<Instant> {
///     let range = LbnRange::new(Lbn::ZERO, Sectors::new(1));
///     device.submit(Instant::ZERO, Command { id: RequestId::new(0), op: Op::Read, range }).ok()?;
///     loop {
///         device.advance(device.next_event()?);
///         if let Some(reply) = device.pop_reply() {
///             return Some(reply.at);
///         }
///     }
/// }
/// let mut drive = Drive::with_behaviour(&profile, Rules::HARDWARE, Behaviour::fast02(), 1).unwrap();
/// assert!(time_of_a_read(&mut drive).is_some());
/// ```
pub trait BlackBox {
    /// Returns the number of sectors.
    fn capacity(&self) -> Sectors;

    /// Returns the number of bytes in a sector.
    fn sector_bytes(&self) -> Bytes;

    /// Returns the most commands that the device takes at a time.
    fn queue_depth(&self) -> usize;

    /// Submits a command at `now`.
    ///
    /// # Errors
    /// The command has no sectors or too many, or goes past the last LBN, or the queue is full. The device is unchanged.
    fn submit(&mut self, now: Instant, command: Command) -> Result<(), CommandError>;

    /// Submits a command with orders for the write cache at `now`. The default is that of a device without a write cache: it
    /// takes a forced write like any other write, and refuses flushes and discards.
    ///
    /// # Errors
    /// As [`submit`](Self::submit); also, the device does not take these orders.
    fn submit_with(&mut self, now: Instant, command: Command, cache: CacheOps) -> Result<(), CommandError> {
        if cache.flush || cache.discard {
            return Err(CommandError::CacheOps { id: command.id });
        }
        self.submit(now, command)
    }

    /// Returns the time of the next event in the device, if no command is submitted before. No completion comes earlier.
    fn next_event(&self) -> Option<Instant>;

    /// Advances the time to `now`.
    fn advance(&mut self, now: Instant);

    /// Removes and returns the oldest completion.
    fn pop_reply(&mut self) -> Option<Reply>;

    /// Removes and returns the oldest completion, with the parts of the command's time if the device knows them.
    fn pop_explained(&mut self) -> Option<(Reply, Option<Breakdown>)> {
        self.pop_reply().map(|reply| (reply, None))
    }

    /// Returns the number of commands in the device that are not complete.
    fn outstanding(&self) -> usize;
}

impl BlackBox for Drive {
    fn capacity(&self) -> Sectors {
        self.model().layout().capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.model().sector_bytes()
    }

    fn queue_depth(&self) -> usize {
        Drive::queue_depth(self)
    }

    fn submit(&mut self, now: Instant, command: Command) -> Result<(), CommandError> {
        Drive::submit(self, now, command)
    }

    fn submit_with(&mut self, now: Instant, command: Command, cache: CacheOps) -> Result<(), CommandError> {
        Drive::submit_with(self, now, command, cache)
    }

    fn next_event(&self) -> Option<Instant> {
        Drive::next_event(self)
    }

    fn advance(&mut self, now: Instant) {
        Drive::advance(self, now);
    }

    fn pop_reply(&mut self) -> Option<Reply> {
        self.pop_completion().map(Reply::from)
    }

    fn pop_explained(&mut self) -> Option<(Reply, Option<Breakdown>)> {
        self.pop_completion().map(|done| (done.into(), Some(done.breakdown)))
    }

    fn outstanding(&self) -> usize {
        Drive::outstanding(self)
    }
}
