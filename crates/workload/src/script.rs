//! Loads whose requests wait for each other.

use crate::request::{ClosedTask, Issued, Limited, Request, Script, Source};
use units::Instant;

/// Returns the next request of a script if every request is served in no time.
pub(crate) fn served_at_once(script: &mut impl Script) -> Option<Request> {
    loop {
        let due = script.due()?;
        if let Some(issued) = script.issue(due) {
            script.complete(issued.task, due);
            return Some(issued.request);
        }
    }
}

impl<S: Source> Script for Limited<S> {
    fn start(&mut self, at: Instant) {
        if let Some(script) = self.source.script_mut() {
            script.start(at);
        }
    }

    fn due(&self) -> Option<Instant> {
        if self.left == 0 { None } else { self.source.script()?.due() }
    }

    fn issue(&mut self, now: Instant) -> Option<Issued> {
        if self.left == 0 {
            return None;
        }
        let issued = self.source.script_mut()?.issue(now)?;
        self.left -= 1;
        Some(issued)
    }

    fn complete(&mut self, task: ClosedTask, now: Instant) {
        if let Some(script) = self.source.script_mut() {
            script.complete(task, now);
        }
    }

    fn is_done(&self) -> bool {
        self.left == 0 || self.source.script().is_none_or(Script::is_done)
    }
}
