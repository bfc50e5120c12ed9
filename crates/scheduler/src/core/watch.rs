//! The interface between the core and a mimic of the drive.

use crate::foreground::Request;
use crate::predictor::{Last, Mimic, Observed};
use alloc::boxed::Box;
use units::{Instant, Lbn, LbnRange, Op};

/// The drive as a mimic observes it: the last access, and the start of the work after it.
#[derive(Clone, Debug, Default)]
pub(super) struct DriveWatch {
    pub mimic: Option<Box<dyn Mimic>>,
    /// The last access and the time of its end; `None` at the start, and after work that no single request describes.
    last: Option<(Last, Instant)>,
    begun: Instant,
    /// The last access of the commands at the drive, which are done before the next request.
    ahead: Option<Last>,
}

impl DriveWatch {
    pub fn last(&self) -> Option<Last> {
        self.ahead.or(self.last.map(|(last, _)| last))
    }

    /// Sets, outside the drive, the last access of the commands that are at the drive when the next request is chosen.
    pub fn look_past(&mut self, ahead: Option<Last>) {
        self.ahead = ahead;
    }

    /// Returns the range that the mimic wants to read in idle time.
    pub fn wanted(&mut self) -> Option<LbnRange> {
        let last = self.last().unwrap_or(Last { op: Op::Read, lbn: Lbn::ZERO });
        self.mimic.as_mut()?.wanted(last)
    }

    pub fn uses_idle_time(&self) -> bool {
        self.mimic.as_ref().is_some_and(|mimic| mimic.uses_idle_time())
    }

    /// Records that the drive begins work at `now`.
    pub fn begin(&mut self, now: Instant) {
        self.begun = now;
    }

    /// Records a finished foreground request; `as_asked` is false if the request failed.
    pub fn done(&mut self, now: Instant, request: &Request, as_asked: bool) {
        if let (Some(mimic), Some((last, ended)), true) = (&mut self.mimic, self.last, as_asked) {
            let (pause, time) = (self.begun.saturating_since(ended), now.saturating_since(self.begun));
            mimic.observe(&Observed { last, request: *request, pause, time });
        }
        self.last = Some((Last::of(request), now));
    }

    /// Records, outside the drive, a finished command that was sent at `sent`; `as_asked` if the command was for a request
    /// alone and did not fail. Drives serve one command after another, so the command began when the previous one was done or
    /// when the command was sent, whichever was later. Returns that instant.
    pub fn command_done(
        &mut self,
        now: Instant,
        sent: Instant,
        request: &Request,
        as_asked: bool,
    ) -> Instant {
        self.begun = self.last.map_or(sent, |(_, ended)| sent.max(ended));
        self.done(now, request, as_asked);
        self.begun
    }

    /// Records work of the drive that no single request describes.
    pub fn lost_sight(&mut self) {
        self.last = None;
    }
}
