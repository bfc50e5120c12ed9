//! Commands, their outcomes, and the state of each until its completion.

use super::forecast::{Forecast, Plain};
use super::transfer::Transfer;
use crate::background::Part;
use crate::core::Purpose;
use crate::core::under_way::Job;
use crate::planner::Neighbour;
use alloc::sync::Arc;
use core::fmt;
use units::{Duration, Instant, Lbn, LbnRange, Op, RequestId};

/// The number of a command of a core outside the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CommandId(pub(super) u64);

impl CommandId {
    /// Returns the number, ascending in the order of sending.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command {}", self.0)
    }
}

/// A command to the drive. A clone shares the list of parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Command {
    /// The number that the core has given the command.
    pub id: CommandId,
    /// Whether the command reads or writes.
    pub op: Op,
    /// The LBNs to read or write.
    pub range: LbnRange,
    /// The purpose; [`Purpose::Foreground`] for a command that serves both foreground and background.
    pub purpose: Purpose,
    /// For a foreground command, the LBNs of the request: the end of `range` if background blocks are read before it.
    pub foreground: Option<LbnRange>,
    /// The foreground request that the command serves; `None` for background work, promoted blocks included.
    pub request: Option<RequestId>,
    /// The number of wanted background sectors in `range`, besides those of the request.
    pub useful: u32,
    /// The parts of background blocks in `range`, for a host that keeps bytes. A block may be withdrawn, or finished by another
    /// command, before this command is done: the host then drops the block's parts.
    pub parts: Arc<[Part]>,
}

impl Command {
    pub(super) fn transfer(&self) -> Transfer {
        Transfer::new(self.op, self.range)
    }
}

/// The end of one command at the drive, or of all commands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum CommandEnd<'a> {
    /// The end of one command. The command's blocks and foreground request are delivered, completed, failed, or wanted again.
    One {
        /// The command.
        id: CommandId,
        /// The command's outcome.
        outcome: Outcome<'a>,
    },
    /// All commands at the drive were lost; whether they reached the medium is unknown. The foreground requests are sent again
    /// before any other work, and the background blocks are wanted again.
    AllLost,
}

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Outcome<'a> {
    /// All sectors were done.
    Done,
    /// All sectors but these, in ascending order, were done. Serializing this variant (feature `serde`) is an error, because the
    /// list is borrowed.
    #[cfg_attr(feature = "serde", serde(skip))]
    Bad(&'a [Lbn]),
    /// The given sector is bad, all sectors before it were done, and the state of the rest is unknown.
    StoppedAt(Lbn),
    /// The given sector is bad, and no data of the other sectors arrived.
    NoData(Lbn),
    /// The host has given up waiting; whether any sector was or will be done is unknown, and none counts as bad. The command's
    /// request fails, and the command's background blocks are wanted again.
    Lost,
}

impl Outcome<'_> {
    /// Returns whether a sector before `first` has failed.
    pub(super) fn failed_before(&self, first: Lbn) -> bool {
        match *self {
            Self::Done | Self::Lost => false,
            Self::Bad(bad) => bad.first().is_some_and(|bad| *bad < first),
            Self::StoppedAt(bad) | Self::NoData(bad) => bad < first,
        }
    }
}

/// A command at the drive or in the queue.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// The command without its parts, which are looked up when the command is sent.
    pub command: Command,
    /// The tag of the background blocks that the command transfers. Several commands may share a tag: the drive may finish them
    /// in any order, and the blocks are complete with the last of these commands.
    pub tag: u64,
    pub work: Work,
    /// The relation to the command before this one, if that is on the same track.
    pub neighbour: Option<Neighbour>,
    pub sent: Option<Instant>,
    pub forecast: Forecast,
    /// Whether the forecast was trusted when the command was chosen.
    pub predicted: bool,
    /// Whether a command that was sent later finished before this one.
    pub overtaken: bool,
    /// Whether this and another command waited at the drive while a cached write went to the medium. The drive chooses between
    /// the two, so that their order is no evidence for or against the forecast.
    pub in_any_order: bool,
    /// The platter time predicted for the last sector when the command was chosen, if idle time was charged with its delay.
    pub charged: Option<Instant>,
    /// The other work of the drive when the command was passed through; `None` for a scheduled command.
    pub passed: Option<Passed>,
}

impl Order {
    /// Returns an order that has not been sent and whose forecast is not yet trusted.
    pub fn new(command: Command, tag: u64, work: Work, forecast: Forecast) -> Self {
        Self {
            command,
            tag,
            work,
            neighbour: None,
            sent: None,
            forecast,
            predicted: false,
            overtaken: false,
            in_any_order: false,
            charged: None,
            passed: None,
        }
    }

    /// Returns the time by which a foreground request was delayed on purpose for its detour; `None` for other commands.
    pub fn time_spent(&self) -> Option<Duration> {
        match &self.work {
            Work::Foreground { plain, .. } => plain.as_ref().map(|plain| plain.spent),
            _ => None,
        }
    }

    /// Returns the LBNs of a foreground request that was not promoted.
    pub fn asked_by_the_foreground(&self) -> Option<LbnRange> {
        self.command.request.and(self.command.foreground)
    }
}

/// The other work that the drive had when a command was passed through to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// No other work, so the command is predicted.
    Alone,
    /// Other commands, or cached writes.
    BesideOthers,
}

#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a core holds as many as the drive has commands, and a box would cost an allocation a request"
)]
pub(super) enum Work {
    Foreground {
        job: Job,
        /// The forecast without detours.
        plain: Option<Plain>,
    },
    Detour,
    Idle,
    /// Idle work that is a part of a stream.
    Stream,
    /// A read for the mimic.
    Probe,
}

impl Work {
    /// Returns whether the work is done in idle time.
    pub fn is_idle(&self) -> bool {
        matches!(self, Self::Idle | Self::Stream | Self::Probe)
    }
}

/// A command to be queued.
pub(super) struct NewCommand {
    pub op: Op,
    pub range: LbnRange,
    pub tag: u64,
    pub work: Work,
    pub purpose: Purpose,
    /// The foreground's part of the range.
    pub foreground: Option<LbnRange>,
    /// The number of wanted sectors in the range.
    pub useful: u32,
}

impl NewCommand {
    /// Returns a read whose data are not used: its completion shows where the platter is.
    pub fn probe(range: LbnRange, tag: u64) -> Self {
        let (work, purpose) = (Work::Probe, Purpose::Idle { useful: 0 });
        Self { op: Op::Read, range, tag, work, purpose, foreground: None, useful: 0 }
    }
}
