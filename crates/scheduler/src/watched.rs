//! Session calls that a host observes.

use crate::sessions::{SessionCall, SessionError, Sessions};
use units::SessionId;

/// The sessions of a core, or of an object that forwards calls to a core, with an observer: `seen` is called with each call and
/// its answer.
///
/// ```
/// # use freeblock_scheduler::model::{DriveModel, builtin};
/// use freeblock_scheduler::{Config, InDrive, Priority, SessionCall, Sessions, Watched};
/// # let drive = std::sync::Arc::new(DriveModel::from_profile(&builtin::find("quantum-atlas-10k")?)?);
/// let (mut core, mut calls) = (InDrive::new(drive, Config::default()), Vec::new());
/// let session = Watched::new(&mut core, |call, answer| calls.push((call, answer))).open(Priority::default())?;
/// assert_eq!(calls, [(SessionCall::Open { priority: Priority::default() }, Ok(session.get()))]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Watched<'a, S: ?Sized, F> {
    sessions: &'a mut S,
    seen: F,
}

impl<'a, S: Sessions + ?Sized, F: FnMut(SessionCall, Result<u64, SessionError>)> Watched<'a, S, F> {
    /// Returns an observer of the calls to `sessions`.
    pub fn new(sessions: &'a mut S, seen: F) -> Self {
        Self { sessions, seen }
    }
}

impl<S: Sessions + ?Sized, F: FnMut(SessionCall, Result<u64, SessionError>)> Sessions for Watched<'_, S, F> {
    fn call(&mut self, call: SessionCall) -> Result<u64, SessionError> {
        let answer = self.sessions.call(call);
        (self.seen)(call, answer);
        answer
    }

    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        self.sessions.to_come(session)
    }
}
