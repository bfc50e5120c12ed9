//! Loads whose requests wait for each other.

use crate::ClosedTask;
use crate::issue::Issued;
use crate::request::{Limited, Request, Source};
use units::Instant;

/// A load that says itself when its requests come, because they wait for each other: a transaction's second read for
/// its first, a page's reader for another that already fetches it.
///
/// An [`Issuer`](crate::Issuer) with [`Arrival::Scripted`](crate::Arrival::Scripted) passes the host's calls on.
/// Each task has one request at the drive at most. What is asked for may depend on the order of completions, as
/// with any real program: so it may differ between two policies, and never between two runs of the same.
pub trait Script {
    /// Begins at this instant; called once, before anything else.
    fn start(&mut self, at: Instant);

    /// When to call [`issue`](Self::issue) next; `None` while all wait for completions, and after the end.
    fn due(&self) -> Option<Instant>;

    /// Goes on to `now`; the next request that has come by then. What was due may have needed no request, so there
    /// may be none; call it until there is none.
    fn issue(&mut self, now: Instant) -> Option<Issued>;

    /// The request of `task` was done at `now`.
    fn complete(&mut self, task: ClosedTask, now: Instant);

    /// Whether nothing more will come, whatever completes.
    fn is_done(&self) -> bool;
}

/// The next request of a script, were everything served in no time.
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
