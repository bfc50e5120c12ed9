//! The parts of blocks in a command, for a host that keeps bytes.

use super::{CommandId, Order, OutsideDrive};
use crate::background::Part;
use alloc::vec::Vec;
use units::LbnRange;

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

    /// Returns a command at the drive.
    pub(super) fn order(&self, id: CommandId) -> Option<&Order> {
        self.outside.device.iter().find(|order| order.command.id == id)
    }
}
