//! The parts of blocks in a command, for a host that keeps bytes.

use super::{CommandId, Order, OutsideDrive};
use alloc::vec::Vec;
use units::{LbnRange, Op, SessionId, TaskId};

/// The part of a block that a command reads or writes. A block on two tracks has two parts, which arrive with different
/// commands; a host keeps the first until the record is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The session of the block.
    pub session: SessionId,
    /// The task of the block.
    pub task: TaskId,
    /// Whether the task reads or writes. The command may do the other: a write also completes reads.
    pub op: Op,
    /// The whole block.
    pub block: LbnRange,
    /// The part of it in the command.
    pub part: LbnRange,
}

impl OutsideDrive {
    /// Returns the parts of background blocks in a command at the drive. Call it before
    /// [`command_done`](Self::command_done).
    pub fn parts(&self, id: CommandId) -> Vec<Part> {
        let Some(order) = self.order(id) else { return Vec::new() };
        let command = order.command.range;
        let within = |part: Part| {
            let (from, to) = (part.part.start().max(command.start()), part.part.end().min(command.end()));
            (from < to).then(|| Part { part: LbnRange::new(from, to.since(from)), ..part })
        };
        self.core.background.parts_of(order.tag).filter_map(within).collect()
    }

    fn order(&self, id: CommandId) -> Option<&Order> {
        self.outside.device.iter().find(|order| order.command.id == id)
    }
}
