//! Loads whose requests wait for each other.

use crate::ClosedTask;
use crate::issue::Issued;
use crate::request::{Limited, Request, Source};
use units::Instant;

/// A load that determines the times of its requests itself, because they wait for each other: a transaction's second
/// read for its first, a page's reader for another that already reads it.
///
/// An [`Issuer`](crate::Issuer) with [`Arrival::Scripted`](crate::Arrival::Scripted) passes the host's calls on. Each
/// task has one request at the drive at most. The requests may depend on the order of completions, as with any real
/// program: so they may differ between two policies, but never between two runs of the same.
pub trait Script {
    /// Begins at this instant; called once, before anything else.
    fn start(&mut self, at: Instant);

    /// Returns when to call [`issue`](Self::issue) next; `None` while all tasks wait for completions, and after the
    /// end.
    fn due(&self) -> Option<Instant>;

    /// Advances to `now`; returns the next request that has come by then. An event that was due may need no request, so
    /// there may be none; call it until there is none.
    fn issue(&mut self, now: Instant) -> Option<Issued>;

    /// Records that the request of `task` completed at `now`.
    fn complete(&mut self, task: ClosedTask, now: Instant);

    /// Returns whether nothing more will come, whatever completes.
    fn is_done(&self) -> bool;
}

/// Returns the next request of a script if everything is served in no time.
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
