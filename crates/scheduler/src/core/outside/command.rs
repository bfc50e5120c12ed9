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

/// A command that a core outside the drive has sent.
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

/// A command to the drive. A clone shares its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Command {
    /// The core's name for it.
    pub id: CommandId,
    /// Whether it reads or writes.
    pub op: Op,
    /// Its LBNs.
    pub range: LbnRange,
    /// Its purpose; [`Purpose::Foreground`] if it serves both.
    pub purpose: Purpose,
    /// For a foreground command, the LBNs of the request: the end of `range` if background blocks are read before it.
    pub foreground: Option<LbnRange>,
    /// The foreground request that it serves; `None` for background work, promoted blocks included.
    pub request: Option<RequestId>,
    /// Wanted background sectors in it, beside the foreground's own.
    pub useful: u32,
    /// The parts of background blocks in it, for a host that keeps bytes. A block may be withdrawn, or be finished by another
    /// command, before this one is done: such a host then drops its parts.
    pub parts: Arc<[Part]>,
}

impl Command {
    pub(super) fn transfer(&self) -> Transfer {
        Transfer::new(self.op, self.range)
    }
}

/// The end of a command at the drive, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case", deny_unknown_fields))]
pub enum CommandEnd<'a> {
    /// The end of one command. Its blocks and its foreground request are delivered, completed, failed, or wanted again.
    One {
        /// The command.
        id: CommandId,
        /// Its outcome.
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
    /// All of it was done.
    Done,
    /// All but these sectors, in ascending order. With the feature `serde` it is an error to write a borrowed list.
    #[cfg_attr(feature = "serde", serde(skip))]
    Bad(&'a [Lbn]),
    /// All sectors before this one were done. This one is bad, and the rest is unknown.
    StoppedAt(Lbn),
    /// This sector is bad, and no data of the others arrived.
    NoData(Lbn),
    /// The host has given up waiting; whether any sector was or will be done is unknown, and none counts as bad. The command's
    /// request fails, and its background blocks are wanted again.
    Lost,
}

impl Outcome<'_> {
    /// Returns whether a sector before this one has failed.
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
    /// Without its parts, which are read from the picks when it is sent.
    pub command: Command,
    /// The tag of the background blocks that it transfers. Several commands may share a tag: a drive may finish them in any
    /// order, and their common blocks are complete with the last of them.
    pub tag: u64,
    pub work: Work,
    /// Its relation to the command before it, if that is on the same track.
    pub neighbour: Option<Neighbour>,
    pub sent: Option<Instant>,
    pub forecast: Forecast,
    /// Whether its forecast was trusted when it was chosen.
    pub predicted: bool,
    /// Whether a command that was sent later finished before it.
    pub overtaken: bool,
    /// Whether it and another command waited at the drive while a cached write went to the medium. The drive chooses between
    /// them, so that their order is no evidence for or against the forecast.
    pub in_any_order: bool,
    /// The platter time of its last sector as predicted when it was chosen, if idle time was charged with its delay.
    pub charged: Option<Instant>,
    /// Its state when it was passed through, if it was.
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

    /// Returns the time at the head that a foreground request was given on purpose for its detour.
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
    /// None: the command is predicted.
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
    /// A part of a stream; also idle work.
    Stream,
    /// A read for the mimic.
    Probe,
}

impl Work {
    /// Returns whether it is done in idle time.
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
    /// The number of wanted sectors.
    pub useful: u32,
}

impl NewCommand {
    /// Returns a read whose data are not used: its completion shows where the platter is.
    pub fn probe(range: LbnRange, tag: u64) -> Self {
        let (work, purpose) = (Work::Probe, Purpose::Idle { useful: 0 });
        Self { op: Op::Read, range, tag, work, purpose, foreground: None, useful: 0 }
    }
}
