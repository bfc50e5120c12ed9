//! The owners of sessions.

use scheduler::{SessionCall, SessionError, Sessions};
use std::collections::BTreeMap;
use units::SessionId;

/// The owner of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// The task of this number.
    Task(u64),
    /// The client session of this number.
    Client(u64),
}

/// Owners by session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    owners: BTreeMap<SessionId, Owner>,
}

impl Routes {
    pub fn owner(&self, session: SessionId) -> Option<Owner> {
        self.owners.get(&session).copied()
    }

    pub fn sessions_of(&self, owner: Owner) -> Vec<SessionId> {
        self.owners.iter().filter(|(_, o)| **o == owner).map(|(session, _)| *session).collect()
    }

    /// Returns the sessions on which `owner` makes its calls.
    pub fn of<'a>(&'a mut self, owner: Owner, sessions: &'a mut dyn Sessions) -> Routed<'a> {
        Routed { owners: &mut self.owners, owner, sessions }
    }

    pub fn forget(&mut self, owner: Owner) {
        self.owners.retain(|_, o| *o != owner);
    }
}

/// Session calls that record the owner of each new session.
pub(crate) struct Routed<'a> {
    owners: &'a mut BTreeMap<SessionId, Owner>,
    owner: Owner,
    sessions: &'a mut dyn Sessions,
}

impl Sessions for Routed<'_> {
    fn call(&mut self, call: SessionCall) -> Result<u64, SessionError> {
        let answer = self.sessions.call(call);
        call.note_owner(answer, self.owner, self.owners);
        answer
    }

    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        self.sessions.to_come(session)
    }
}
