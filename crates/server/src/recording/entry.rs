//! A line of a recording.

use scheduler::{Action, Command, CommandId, Outcome, Record, Request, SessionCall};
use serde::{Deserialize, Serialize};
use units::{Instant, Lbn, LbnRange, Op, RequestId, SessionId, TaskId};

/// An input of the core; times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RecordingEntry {
    /// A foreground request, and whether it was accepted.
    Submit { at: Instant, request: Request, taken: bool },
    /// A command is done, or this sector of it is bad.
    Done { at: Instant, id: CommandId, bad: Option<Lbn> },
    /// A command was given up.
    Lost { at: Instant, id: CommandId },
    /// A poll: the buffers that were ready, and the core's decision.
    Poll { at: Instant, buffers: Vec<bool>, gave: Option<Decision> },
    /// A session call and its answer: a number, or nothing for a refusal.
    Call { call: SessionCall, got: Option<u64> },
    /// The end of the inputs.
    End,
}

/// A decision of the core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Decision {
    /// A command for the drive.
    Send { id: CommandId, op: Op, range: LbnRange, useful: u32 },
    /// A request is done.
    Completed(RequestId),
    /// A request has failed at a sector.
    Failed(RequestId, Lbn),
    /// A block of a session's task is done.
    Deliver { session: SessionId, task: TaskId, range: LbnRange, bad: Option<Lbn>, last: bool },
}

impl RecordingEntry {
    /// Returns the time of the input, if it matters to the core.
    pub fn at(&self) -> Option<Instant> {
        match *self {
            Self::Submit { at, .. }
            | Self::Done { at, .. }
            | Self::Lost { at, .. }
            | Self::Poll { at, .. } => Some(at),
            Self::Call { .. } | Self::End => None,
        }
    }

    /// Makes the entry for a command's end: of a failed one only the first bad sector, and no data.
    pub fn done(at: Instant, id: CommandId, outcome: Outcome<'_>) -> Self {
        let bad = match outcome {
            Outcome::Done => None,
            Outcome::Bad(all) => all.first().copied(),
            Outcome::StoppedAt(lbn) | Outcome::NoData(lbn) => Some(lbn),
            Outcome::Lost => return Self::Lost { at, id },
        };
        Self::Done { at, id, bad }
    }
}

impl Decision {
    pub fn new(action: &Action<Command>) -> Self {
        match *action {
            Action::Do(command) => {
                Self::Send { id: command.id, op: command.op, range: command.range, useful: command.useful }
            }
            Action::Completed(id) => Self::Completed(id),
            Action::Failed { id, bad } => Self::Failed(id, bad),
            Action::Deliver(Record { session, task, range, bad, last, .. }) => {
                Self::Deliver { session, task, range, bad, last }
            }
        }
    }
}
