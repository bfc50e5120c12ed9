//! Commands: what the drive is asked for, how that ended, and what is kept of each until then.

use super::config::Neighbour;
use super::forecast::{Forecast, Plain};
use super::idle::Charged;
use crate::core::Purpose;
use crate::core::under_way::Job;
use std::fmt;
use units::{Instant, Lbn, LbnRange, Op};

/// A command that a core outside the drive has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CommandId(pub(super) u64);

impl CommandId {
    /// The number; ascending in the order of sending.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for CommandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command {}", self.0)
    }
}

/// What the drive is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The core's name for it.
    pub id: CommandId,
    /// Read or write.
    pub op: Op,
    /// Which LBNs.
    pub range: LbnRange,
    /// What for. Of a command that serves both, [`Purpose::Foreground`].
    pub purpose: Purpose,
    /// Of a command for the foreground, what was asked for: the end of `range`, if background blocks are had before it.
    pub foreground: Option<LbnRange>,
    /// Wanted background sectors in it, beside the foreground's own.
    pub useful: u32,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// All of it was done.
    Done,
    /// All but these sectors, in ascending order.
    Bad(&'a [Lbn]),
    /// All before this sector, which is bad; nothing is known of what lies behind it.
    StoppedAt(Lbn),
    /// This sector is bad, and there are no data of the others either.
    NoData(Lbn),
    /// Nobody knows what of it was done, or will be, and no sector is to blame: the host waits for it no longer. The
    /// request that it was for has failed; of the background nothing has, all of it is wanted again.
    Lost,
}

impl Outcome<'_> {
    /// Whether a sector before this one has failed.
    pub(super) fn failed_before(&self, first: Lbn) -> bool {
        match *self {
            Self::Done | Self::Lost => false,
            Self::Bad(bad) => bad.first().is_some_and(|bad| *bad < first),
            Self::StoppedAt(bad) | Self::NoData(bad) => bad < first,
        }
    }
}

/// A command that is at the drive or will be.
#[derive(Clone, Debug)]
pub(super) struct Order {
    pub command: Command,
    /// What of the background it fetches. Several commands may have one tag: a drive may be done with them in any order,
    /// and what they fetch together is there with the last of them.
    pub tag: u64,
    pub work: Work,
    /// How it stands to the command before it, if that is on the same track.
    pub neighbour: Option<Neighbour>,
    pub sent: Option<Instant>,
    pub forecast: Forecast,
    /// Whether that was believed when it was decided on.
    pub foreseen: bool,
    /// Whether a command that was sent later was done before it.
    pub overtaken: bool,
    /// Whether it waited at the drive with another while that wrote what it had reported: which of them goes first is the drive's own
    /// choice, and tells nothing of whether it is as foreseen.
    pub in_any_order: bool,
    /// What idle time was charged with, if it comes behind such work.
    pub charged: Option<Charged>,
    /// How it was passed through, if it was.
    pub passed: Option<Passed>,
}

impl Order {
    /// An order that is not sent, and whose forecast nobody believes yet.
    pub fn new(command: Command, tag: u64, work: Work, forecast: Forecast) -> Self {
        Self {
            command,
            tag,
            work,
            neighbour: None,
            sent: None,
            forecast,
            foreseen: false,
            overtaken: false,
            in_any_order: false,
            charged: None,
            passed: None,
        }
    }

    /// The LBNs of it that a foreground request asked for, which was not promoted.
    pub fn asked_by_the_foreground(&self) -> Option<LbnRange> {
        match &self.work {
            Work::Foreground { job, .. } if job.pending.promoted.is_none() => self.command.foreground,
            _ => None,
        }
    }
}

/// Whether a command that was passed through had others beside it at the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passed {
    /// Nothing: the command is predicted.
    Alone,
    /// Other commands, or writes that the drive had reported and not written yet.
    BesideOthers,
}

#[derive(Clone, Debug)]
pub(super) enum Work {
    Foreground {
        job: Job,
        /// What it would have been without detours.
        plain: Option<Plain>,
    },
    Detour,
    Idle,
    /// A part of a stream, in idle time as well.
    Stream,
    /// What the mimic wanted read.
    Probe,
}
