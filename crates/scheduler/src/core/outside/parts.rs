//! The parts of background blocks in a command that is sent.

use super::{Command, Outside};
use crate::background::Part;
use crate::core::Core;
use alloc::sync::Arc;

impl Core {
    /// Returns a command at the drive with the parts of background blocks that it transfers.
    pub(super) fn with_parts(&self, outside: &mut Outside, command: Command) -> Command {
        let Outside { device, parts, .. } = outside;
        let Some(order) = device.iter().rev().find(|order| order.command.id == command.id) else {
            return command;
        };
        let within = |part: Part| Some(Part { part: part.part.intersection(command.range)?, ..part });
        parts.clear();
        parts.extend(self.background.parts_of(order.tag).filter_map(within));
        // An empty list needs no allocation.
        let parts = if parts.is_empty() { Arc::default() } else { Arc::from(parts.as_slice()) };
        Command { parts, ..command }
    }
}
