//! What a host with bytes must know of a command: whose it is, and which blocks it is a part of.

use super::{CommandId, Order, Work};
use crate::core::Core;
use units::{LbnRange, Op, RequestId, SessionId, TaskId};

/// What of a block a command fetches or writes. A block that lies on two tracks has two parts, which come with different
/// commands; a host keeps the first until the record is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Whose block.
    pub session: SessionId,
    /// Of which task.
    pub task: TaskId,
    /// Whether the task reads or writes. The command may do the other: what is written need not be read.
    pub op: Op,
    /// The whole block.
    pub block: LbnRange,
    /// What of it the command is for.
    pub part: LbnRange,
}

impl Core {
    /// Outside the drive: the parts of background blocks that are had with a command at the drive. Ask before
    /// [`command_done`](Self::command_done).
    pub fn parts(&self, id: CommandId) -> Vec<Part> {
        let Some(order) = self.order(id) else { return Vec::new() };
        let command = order.command.range;
        let within = |part: Part| {
            let (from, to) = (part.part.start().max(command.start()), part.part.end().min(command.end()));
            (from < to).then(|| Part { part: LbnRange::new(from, to.since(from)), ..part })
        };
        self.background.parts_of(order.tag).filter_map(within).collect()
    }

    /// Outside the drive: the foreground request that a command at the drive serves.
    pub fn request_of(&self, id: CommandId) -> Option<RequestId> {
        match &self.order(id)?.work {
            Work::Foreground { job, .. } if job.pending.promoted.is_none() => Some(job.pending.request.id),
            _ => None,
        }
    }

    fn order(&self, id: CommandId) -> Option<&Order> {
        self.outside.as_ref()?.device.iter().find(|order| order.command.id == id)
    }
}
