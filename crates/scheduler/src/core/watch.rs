//! What the core tells a mimic of the drive, and asks it.

use crate::foreground::Request;
use crate::predictor::{Last, Mimic, Observed};
use units::Instant;

/// The drive as a host would see it: what it did last, and what it was given since.
#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    pub mimic: Option<Box<dyn Mimic>>,
    /// The last access, and when it was done; `None` if that was none that a host would have asked for.
    last: Option<(Last, Instant)>,
    begun: Instant,
}

impl Watch {
    pub fn last(&self) -> Option<Last> {
        self.last.map(|(last, _)| last)
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

    /// It has done something else.
    pub fn lost_sight(&mut self) {
        self.last = None;
    }
}
