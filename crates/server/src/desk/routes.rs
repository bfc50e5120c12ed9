//! Whose session is whose.

use scheduler::{Parameter, Priority, SessionError, Sessions};
use std::collections::BTreeMap;
use units::{LbnRange, Sectors, SessionId, TaskId};

/// Who opened a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// The task of this number.
    Task(u64),
    /// The client of this number.
    Guest(u64),
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

    pub fn forget(&mut self, owner: Owner) {
        self.owners.retain(|_, o| *o != owner);
    }
}

/// Notes who opens what.
pub(crate) struct Routed<'a> {
    pub sessions: &'a mut dyn Sessions,
    pub routes: &'a mut Routes,
    pub owner: Owner,
}

impl Sessions for Routed<'_> {
    fn open(&mut self, priority: Priority) -> Result<SessionId, SessionError> {
        let session = self.sessions.open(priority)?;
        self.routes.owners.insert(session, self.owner);
        Ok(session)
    }

    fn set_priority(&mut self, session: SessionId, priority: Priority) -> Result<(), SessionError> {
        self.sessions.set_priority(session, priority)
    }

    fn serve_reads_by_writes(&mut self, session: SessionId, on: bool) -> Result<(), SessionError> {
        self.sessions.serve_reads_by_writes(session, on)
    }

    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        self.sessions.to_come(session)
    }

    fn read(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        self.sessions.read(session, range, block, parameter)
    }

    fn write(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        self.sessions.write(session, range, block, parameter)
    }

    fn abort(&mut self, task: TaskId) -> Result<u64, SessionError> {
        self.sessions.abort(task)
    }

    fn abort_range(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
        self.sessions.abort_range(session, range)
    }

    fn promote(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
        self.sessions.promote(session, range)
    }

    fn suspend(&mut self, session: SessionId) -> Result<(), SessionError> {
        self.sessions.suspend(session)
    }

    fn resume(&mut self, session: SessionId) -> Result<(), SessionError> {
        self.sessions.resume(session)
    }

    fn close(&mut self, session: SessionId) -> Result<u64, SessionError> {
        let told = self.sessions.close(session)?;
        self.routes.owners.remove(&session);
        Ok(told)
    }
}
