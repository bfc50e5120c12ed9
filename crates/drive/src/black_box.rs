//! What anything looks like from outside: a capacity, commands in, completions out.

use crate::error::CommandError;
use crate::firmware::{Breakdown, Command, Completion, Drive};
use units::{Bytes, Instant, Lbn, RequestId, Sectors};

/// What a host is told of a command: that it is done, when, and whether it failed. How it was served stays inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The command.
    pub id: RequestId,
    /// When the host learned it.
    pub at: Instant,
    /// The first sector that could not be read, if one could not; then there are no data.
    pub failed: Option<Lbn>,
}

impl From<Completion> for Reply {
    fn from(done: Completion) -> Self {
        Self { id: done.id, at: done.at, failed: done.failed }
    }
}

/// A device behind its interface: a state machine without a clock, known by nothing but its answers.
///
/// [`submit`](Self::submit) a command at an instant; [`next_event`](Self::next_event) says when to look again;
/// [`advance`](Self::advance) there; drain [`pop_reply`](Self::pop_reply). Time must not go backwards. The same
/// calls give the same answers.
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
    /// Sectors it offers.
    fn capacity(&self) -> Sectors;

    /// Bytes in a sector.
    fn sector_bytes(&self) -> Bytes;

    /// Commands it takes at a time.
    fn queue_depth(&self) -> usize;

    /// Takes a command in at `now`.
    ///
    /// # Errors
    /// A command for no sectors, for too many, past the last LBN, or one too many; the device is as before.
    fn submit(&mut self, now: Instant, command: Command) -> Result<(), CommandError>;

    /// The next instant at which something will have happened inside, if nothing is submitted before; no completion
    /// comes sooner.
    fn next_event(&self) -> Option<Instant>;

    /// Lets time pass until `now`.
    fn advance(&mut self, now: Instant);

    /// A completion that has happened, in order.
    fn pop_reply(&mut self) -> Option<Reply>;

    /// The same with where the time of the command went, from a device that says so.
    fn pop_explained(&mut self) -> Option<(Reply, Option<Breakdown>)> {
        self.pop_reply().map(|reply| (reply, None))
    }

    /// Commands inside, completions not yet taken out excepted.
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
