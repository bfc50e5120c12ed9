//! The external view of a device: a capacity, commands, completions.

use crate::error::CommandError;
use crate::firmware::{Breakdown, Command, Completion, Drive};
use units::{Bytes, CacheOps, Instant, Lbn, RequestId, Sectors};

/// A completion as the host sees it: the time, and whether the command failed. How it was served is not visible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The command.
    pub id: RequestId,
    /// The time at which the host learns of it.
    pub at: Instant,
    /// The first sector that could not be read, if there is one; then there are no data.
    pub failed: Option<Lbn>,
}

impl From<Completion> for Reply {
    fn from(done: Completion) -> Self {
        Self { id: done.id, at: done.at, failed: done.failed }
    }
}

/// A device behind its interface: a state machine without a clock, known only by its completions.
///
/// Call [`submit`](Self::submit) for a command; [`next_event`](Self::next_event) returns the time of the next event;
/// call [`advance`](Self::advance) then, and [`pop_reply`](Self::pop_reply) until there is no reply. Time must not go
/// backwards. The same calls give the same replies.
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

    /// Returns the bytes in a sector.
    fn sector_bytes(&self) -> Bytes;

    /// Returns the most commands at a time.
    fn queue_depth(&self) -> usize;

    /// Submits a command at `now`.
    ///
    /// # Errors
    /// The command has no sectors or too many, is past the last LBN, or the queue is full; the device is unchanged.
    fn submit(&mut self, now: Instant, command: Command) -> Result<(), CommandError>;

    /// Submits a command with orders for the cache at `now`. A device that has no such cache, as by default, takes a plain
    /// command and a forced write, and has nothing to flush or to discard.
    ///
    /// # Errors
    /// As [`submit`](Self::submit), and orders that the device does not take.
    fn submit_with(&mut self, now: Instant, command: Command, cache: CacheOps) -> Result<(), CommandError> {
        if cache.flush || cache.discard {
            return Err(CommandError::CacheOps { id: command.id });
        }
        self.submit(now, command)
    }

    /// Returns the time of the next event inside, if nothing is submitted before; no completion comes earlier.
    fn next_event(&self) -> Option<Instant>;

    /// Advances the time to `now`.
    fn advance(&mut self, now: Instant);

    /// Returns the next completion, in order.
    fn pop_reply(&mut self) -> Option<Reply>;

    /// Returns the next completion, in order, with the breakdown of the command's time if the device has it.
    fn pop_explained(&mut self) -> Option<(Reply, Option<Breakdown>)> {
        self.pop_reply().map(|reply| (reply, None))
    }

    /// Returns the number of commands inside, without completions that have not been taken out.
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
