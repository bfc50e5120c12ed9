//! The start of a reorganisation. The slow part, which needs no sessions, is done in advance, on any thread
//! ([`Prepared`]); the rest goes in steps of bounded length, so that a plan of a million blocks does not delay other
//! work.

use super::journal::Nvram;
use super::machine::Reorganizer;
use super::options::ReorganizeStartError;
use super::prepared::Prepared;
use crate::sessions::{Parameter, Sessions};

impl<N: Nvram> Reorganizer<N> {
    /// Opens the sessions of a prepared plan. Nothing is read or written, and nothing else may be called, before
    /// [`begin_some`](Self::begin_some) has returned true.
    ///
    /// # Errors
    /// [`ReorganizeStartError::Session`]; then no session is left open.
    pub fn begin(
        prepared: Prepared,
        nvram: N,
        sessions: &mut dyn Sessions,
    ) -> Result<Self, ReorganizeStartError> {
        Self::open(prepared, true, nvram, sessions)
    }

    /// Registers more blocks of the plan, with at most `most` calls of the sessions; returns whether all are
    /// registered.
    ///
    /// # Errors
    /// [`ReorganizeStartError`]; then all sessions of the reorganisation are closed, and it has ended.
    pub fn begin_some(
        &mut self,
        sessions: &mut dyn Sessions,
        most: usize,
    ) -> Result<bool, ReorganizeStartError> {
        let reported = self.register_some(sessions, most);
        if reported.is_err() {
            self.close(sessions);
        }
        reported
    }

    /// Returns whether [`begin_some`](Self::begin_some) must be called again.
    pub fn is_beginning(&self) -> bool {
        self.beginning.is_some()
    }

    fn register_some(
        &mut self,
        sessions: &mut dyn Sessions,
        most: usize,
    ) -> Result<bool, ReorganizeStartError> {
        let Some(mut at) = self.beginning.take() else { return Ok(true) };
        // A call that fails ends the reorganisation.
        for _ in 0..most.max(1) {
            loop {
                let Some(spans) = at.waiting.get(at.class) else {
                    self.begun(sessions)?;
                    return Ok(true);
                };
                if !std::mem::replace(&mut at.entered, true) {
                    self.suspend_or_resume(sessions, at.class);
                    self.epoch += 1;
                }
                if at.span < spans.len() {
                    break;
                }
                (at.class, at.entered, at.span) = (at.class + 1, false, 0);
            }
            let Some(span) = at.waiting.get(at.class).and_then(|spans| spans.get(at.span)) else { continue };
            let session = self.readings[at.class];
            match at.calls.checked_sub(1).map(|nth| span.unwanted.get(nth)) {
                None => drop(sessions.read(session, span.range, self.block, Parameter(self.epoch))?),
                // A block whose withdrawal fails is read in vain.
                Some(Some(unwanted)) => drop(sessions.abort_range(session, *unwanted)),
                Some(None) => {}
            }
            at.calls += 1;
            if at.calls > span.unwanted.len() {
                (at.span, at.calls) = (at.span + 1, 0);
            }
        }
        self.beginning = Some(at);
        Ok(false)
    }

    fn begun(&mut self, sessions: &mut dyn Sessions) -> Result<(), ReorganizeStartError> {
        if let Some(error) = self.refused {
            return Err(error.into());
        }
        self.still = false;
        // The journal is compacted last, so that a refused start leaves the non-volatile memory unchanged.
        self.compact()?;
        let staged: Vec<u32> = self.staging.iter().map(|(b, _)| b).collect();
        staged.into_iter().for_each(|b| self.offer(b));
        self.settle(sessions);
        Ok(())
    }
}
