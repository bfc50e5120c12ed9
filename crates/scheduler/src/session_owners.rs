//! The owners of sessions, for a host with several applications.

use crate::sessions::{SessionCall, SessionError, Sessions};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use units::SessionId;

/// The owner of each open session.
///
/// ```
/// # use freeblock_scheduler::model::{DriveModel, builtin};
/// use freeblock_scheduler::{Config, InDrive, Priority, SessionOwners, Sessions};
/// # let drive = std::sync::Arc::new(DriveModel::from_profile(&builtin::find("quantum-atlas-10k")?)?);
/// let (mut core, mut owners) = (InDrive::new(drive, Config::default()), SessionOwners::default());
/// let session = owners.calls_of("scrub", &mut core).open(Priority::default())?;
/// assert_eq!(owners.owner(session), Some("scrub"));
/// owners.calls_of("scrub", &mut core).close(session)?;
/// assert_eq!(owners.owner(session), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SessionOwners<O> {
    owners: BTreeMap<SessionId, O>,
}

impl<O> Default for SessionOwners<O> {
    fn default() -> Self {
        Self { owners: BTreeMap::new() }
    }
}

impl<O: Copy + Eq> SessionOwners<O> {
    /// Returns the owner of an open session.
    pub fn owner(&self, session: SessionId) -> Option<O> {
        self.owners.get(&session).copied()
    }

    /// Returns the open sessions of an owner, in the order of their opening.
    pub fn sessions_of(&self, owner: O) -> Vec<SessionId> {
        self.owners.iter().filter(|(_, of)| **of == owner).map(|(session, _)| *session).collect()
    }

    /// Returns session calls on behalf of `owner`: a session that they open belongs to the owner until they close it.
    pub fn calls_of<'a, S: Sessions + ?Sized>(
        &'a mut self,
        owner: O,
        sessions: &'a mut S,
    ) -> OwnerCalls<'a, O, S> {
        OwnerCalls { owners: &mut self.owners, owner, sessions }
    }

    /// Forgets an owner. The owner's sessions stay open and have no owner from here on.
    pub fn forget(&mut self, owner: O) {
        self.owners.retain(|_, of| *of != owner);
    }
}

/// The calls of one owner.
pub struct OwnerCalls<'a, O, S: ?Sized> {
    owners: &'a mut BTreeMap<SessionId, O>,
    owner: O,
    sessions: &'a mut S,
}

impl<O: Copy, S: Sessions + ?Sized> Sessions for OwnerCalls<'_, O, S> {
    fn call(&mut self, call: SessionCall) -> Result<u64, SessionError> {
        let answer = self.sessions.call(call)?;
        match call {
            SessionCall::Open { .. } => drop(self.owners.insert(SessionId::new(answer), self.owner)),
            SessionCall::Close { session } => drop(self.owners.remove(&session)),
            _ => {}
        }
        Ok(answer)
    }

    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        self.sessions.to_come(session)
    }
}
