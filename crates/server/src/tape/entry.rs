//! A line of a tape.

use scheduler::{Action, CommandId, Outcome, Record, Request};
use serde::{Deserialize, Serialize};
use units::{Instant, Lbn, LbnRange, Op, RequestId, Sectors};

/// First LBN and sectors.
pub(crate) type Range = (u64, u64);

pub(crate) fn range(range: LbnRange) -> Range {
    (range.start().get(), range.len().get())
}

pub(crate) fn lbns((start, len): Range) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

/// An input of the core; times in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Entry {
    /// A foreground request, and whether it was accepted.
    Submit { at: u64, id: u64, write: bool, lbns: Range, taken: bool },
    /// A command is done, or this sector of it is bad.
    Done { at: u64, id: u64, bad: Option<u64> },
    /// A command was given up.
    Lost { at: u64, id: u64 },
    /// A poll: the buffers that were ready, and the core's decision.
    Poll { at: u64, buffers: Vec<bool>, gave: Option<Gave> },
    /// A session call and its answer: a number, or nothing for a refusal.
    Call { call: Call, got: Option<u64> },
    /// The end of the inputs.
    End,
}

/// A decision of the core.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Gave {
    /// A command for the drive.
    Send { id: u64, write: bool, lbns: Range, useful: u32 },
    /// A request is done.
    Completed(u64),
    /// A request has failed at a sector.
    Failed(u64, u64),
    /// A block of a session's task is done.
    Deliver { session: u64, task: u64, lbns: Range, bad: Option<u64>, last: bool },
    /// A decision that a core outside the drive never makes.
    Other,
}

/// A session call of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Call {
    Open { priority: u8 },
    SetPriority { session: u64, priority: u8 },
    Serve { session: u64, on: bool },
    ServeWrites { session: u64, on: bool },
    Register { session: u64, write: bool, lbns: Range, block: u64, parameter: u64 },
    Abort { task: u64 },
    AbortRange { session: u64, lbns: Range },
    Promote { session: u64, lbns: Range },
    Suspend { session: u64 },
    Resume { session: u64 },
    Close { session: u64 },
}

impl Entry {
    pub fn submit(now: Instant, request: &Request, taken: bool) -> Self {
        let Request { id, op, range: asked } = *request;
        Self::Submit { at: now.as_nanos(), id: id.get(), write: op.is_write(), lbns: range(asked), taken }
    }

    /// Returns the time of the input, if it matters to the core.
    pub fn at(&self) -> Option<Instant> {
        match *self {
            Self::Submit { at, .. }
            | Self::Done { at, .. }
            | Self::Lost { at, .. }
            | Self::Poll { at, .. } => Some(Instant::from_nanos(at)),
            Self::Call { .. } | Self::End => None,
        }
    }

    /// Makes the entry for a command's end: of a failed one only the first bad sector, and no data.
    pub fn done(now: Instant, id: CommandId, outcome: Outcome<'_>) -> Self {
        let bad = match outcome {
            Outcome::Done => None,
            Outcome::Bad(all) => all.first().copied(),
            Outcome::StoppedAt(lbn) | Outcome::NoData(lbn) => Some(lbn),
            Outcome::Lost => return Self::Lost { at: now.as_nanos(), id: id.get() },
        };
        Self::Done { at: now.as_nanos(), id: id.get(), bad: bad.map(Lbn::get) }
    }
}

impl Gave {
    pub fn new(action: &Action) -> Self {
        match *action {
            Action::Send(command) => Self::Send {
                id: command.id.get(),
                write: command.op.is_write(),
                lbns: range(command.range),
                useful: command.useful,
            },
            Action::Completed(id) => Self::Completed(id.get()),
            Action::Failed { id, bad } => Self::Failed(id.get(), bad.get()),
            Action::Deliver(Record { session, task, range: block, bad, last, .. }) => Self::Deliver {
                session: session.get(),
                task: task.get(),
                lbns: range(block),
                bad: bad.map(Lbn::get),
                last,
            },
            Action::Execute | Action::Cut => Self::Other,
        }
    }
}

pub(crate) fn op(write: bool) -> Op {
    if write { Op::Write } else { Op::Read }
}

pub(crate) fn request(id: u64, write: bool, range: Range) -> Request {
    Request { id: RequestId::new(id), op: op(write), range: lbns(range) }
}
