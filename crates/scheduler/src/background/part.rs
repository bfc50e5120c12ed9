//! The parts of blocks that a command transfers, as the core and as its host see them.

use crate::task::{BlockPiece, Item};
use alloc::vec::Vec;
use units::{LbnRange, Op, SessionId, TaskId};

/// The part of a block that a command reads or writes. A block on two tracks has two parts, which arrive with different
/// commands; a host keeps the first until the record is delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct Part {
    /// The session of the block.
    pub session: SessionId,
    /// The task of the block.
    pub task: TaskId,
    /// Whether the task reads or writes. The command may do the opposite: a write also completes reads.
    pub op: Op,
    /// The whole block.
    pub block: LbnRange,
    /// The part of the block that the command transfers.
    pub part: LbnRange,
}

/// A block of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TaskBlock {
    pub(super) task: TaskId,
    pub(super) block: u64,
}

/// A block that its session has promoted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PromotedBlock {
    pub session: SessionId,
    pub range: LbnRange,
}

/// A part of a block that was chosen and is being transferred.
#[derive(Clone, Debug)]
pub(crate) struct Pick {
    pub(super) session: SessionId,
    pub(super) task: TaskId,
    pub(super) op: Op,
    /// The operation of the head, perhaps not the task's: a write may serve a read.
    pub(super) by: Op,
    pub(super) item: Item,
    /// Whether the block is complete with this part.
    pub(super) completes: bool,
    /// Whether a foreground access transfers the pick: the pick then stays if background work is cut, or if accesses
    /// are lost.
    pub(super) sure: bool,
    /// The pieces of the block that were chosen before this one, transferred or not; they are restored if this one is
    /// not transferred.
    pub(super) had: Vec<BlockPiece>,
    /// Whether the session has promoted the block.
    pub(super) promoted: bool,
    /// The command that transfers the pick. In the drive all picks belong to one command.
    pub(super) command: u64,
}

impl Pick {
    pub(super) fn task_block(&self) -> TaskBlock {
        TaskBlock { task: self.task, block: self.item.block }
    }
}
