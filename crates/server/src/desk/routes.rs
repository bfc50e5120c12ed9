//! The owners of sessions.

use scheduler::{Priority, SessionError, Sessions, Watch, Watched};
use std::collections::BTreeMap;
use units::SessionId;

/// The owner of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// The task of this number.
    Task(u64),
    /// The client of this number.
    Guest(u64),
}

/// Sessions that record an owner for each session that is opened.
pub(crate) type Routed<'a> = Watched<'a, Opened<'a>, dyn Sessions + 'a>;

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
        Watched { sessions, watch: Opened { routes: self, owner } }
    }

    pub fn forget(&mut self, owner: Owner) {
        self.owners.retain(|_, o| *o != owner);
    }
}

/// Session calls that record the owner of each new session.
pub(crate) struct Opened<'a> {
    routes: &'a mut Routes,
    owner: Owner,
}

impl<S: Sessions + ?Sized> Watch<S> for Opened<'_> {
    fn opened(&mut self, session: SessionId, _: Priority) {
        self.routes.owners.insert(session, self.owner);
    }

    fn closed(&mut self, session: SessionId, told: Result<u64, SessionError>) {
        if told.is_ok() {
            self.routes.owners.remove(&session);
        }
    }
}
