//! What the core tells a mimic of the drive, and asks it.

use crate::foreground::Request;
use crate::predictor::{Last, Mimic, Observed};
use units::{Instant, Lbn, LbnRange, Op};

/// The drive as a host would see it: what it did last, and what it was given since.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    pub mimic: Option<Box<dyn Mimic>>,
    /// The last access, and when it was done; `None` if that was none that a host would have asked for.
    last: Option<(Last, Instant)>,
    begun: Instant,
    /// What will have been done last when the next request begins, if something is still to be done before.
    ahead: Option<Last>,
}

impl Watch {
    pub fn last(&self) -> Option<Last> {
        self.ahead.or(self.last.map(|(last, _)| last))
    }

    /// Outside the drive: `ahead` is at the drive when the next request is chosen.
    pub fn look_past(&mut self, ahead: Option<Last>) {
        self.ahead = ahead;
    }

    /// What the mimic would have read in idle time.
    pub fn wanted(&mut self) -> Option<LbnRange> {
        let last = self.last().unwrap_or(Last { op: Op::Read, lbn: Lbn::ZERO });
        self.mimic.as_mut()?.wanted(last)
    }

    pub fn uses_idle_time(&self) -> bool {
        self.mimic.as_ref().is_some_and(|mimic| mimic.uses_idle_time())
    }

    /// The drive is given something to do.
    pub fn begin(&mut self, now: Instant) {
        self.begun = now;
    }

    /// It has done a foreground request; `as_asked` unless it failed.
    pub fn done(&mut self, now: Instant, request: &Request, as_asked: bool) {
        if let (Some(mimic), Some((last, ended)), true) = (&mut self.mimic, self.last, as_asked) {
            let (pause, time) = (self.begun.saturating_since(ended), now.saturating_since(self.begun));
            mimic.observe(&Observed { last, request: *request, pause, time });
        }
        self.last = Some((Last::of(request), now));
    }

    /// Outside the drive: a command that was sent at `sent` is done; `as_asked` if it was for a request alone and did not
    /// fail. Drives do one after another, so that it began when the one before was done, or else when it was sent. That
    /// instant.
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

    /// It has done something else.
    pub fn lost_sight(&mut self) {
        self.last = None;
    }
}
