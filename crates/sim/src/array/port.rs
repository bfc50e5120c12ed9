//! The load of one drive of an array: the array's commands, at the times at which the array sends them.

use std::collections::VecDeque;
use units::Instant;
use workload::{ClosedTask, Issued, Request, Script, Source};

/// A source that issues the commands that it is given, and keeps their completions.
#[derive(Debug, Default)]
pub(super) struct Port {
    waiting: VecDeque<Issued>,
    done: VecDeque<ClosedTask>,
    /// The number of commands that were given and are not completed.
    outstanding: usize,
}

impl Port {
    /// Adds a command, to be issued at its time. Times must not decrease.
    pub fn send(&mut self, command: Issued) {
        self.waiting.push_back(command);
        self.outstanding += 1;
    }

    /// Returns the number of commands that were given and are not completed.
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Takes the first completed command.
    pub fn take_done(&mut self) -> Option<ClosedTask> {
        self.done.pop_front()
    }
}

impl Source for Port {
    fn next_request(&mut self) -> Option<Request> {
        self.waiting.pop_front().map(|issued| issued.request)
    }

    fn script(&self) -> Option<&dyn Script> {
        Some(self)
    }

    fn script_mut(&mut self) -> Option<&mut dyn Script> {
        Some(self)
    }
}

impl Script for Port {
    fn start(&mut self, _: Instant) {}

    fn due(&self) -> Option<Instant> {
        self.waiting.front().map(|issued| issued.at)
    }

    fn issue(&mut self, now: Instant) -> Option<Issued> {
        self.due().filter(|due| *due <= now)?;
        self.waiting.pop_front()
    }

    fn complete(&mut self, task: ClosedTask, _: Instant) {
        self.outstanding = self.outstanding.saturating_sub(1);
        self.done.push_back(task);
    }

    /// Returns false, because the array may always send more commands.
    fn is_done(&self) -> bool {
        false
    }
}
