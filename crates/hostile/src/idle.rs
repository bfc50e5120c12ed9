//! A host that does no work.

use apps::sessions::{Parameter, Sessions};
use scheduler::{Priority, SessionError};
use units::{LbnRange, Sectors, SessionId, TaskId};

/// Accepts every task and carries out none.
pub(crate) struct Idle;

impl Sessions for Idle {
    fn open(&mut self, _: Priority) -> Result<SessionId, SessionError> {
        Ok(SessionId::new(1))
    }
    fn read(&mut self, _: SessionId, r: LbnRange, _: Sectors, _: Parameter) -> Result<TaskId, SessionError> {
        Ok(TaskId::new(r.start().get()))
    }
    fn write(&mut self, s: SessionId, r: LbnRange, b: Sectors, p: Parameter) -> Result<TaskId, SessionError> {
        self.read(s, r, b, p)
    }
    fn abort(&mut self, _: TaskId) -> Result<u64, SessionError> {
        Ok(0)
    }
    fn abort_range(&mut self, _: SessionId, _: LbnRange) -> Result<u64, SessionError> {
        Ok(0)
    }
    fn promote(&mut self, _: SessionId, _: LbnRange) -> Result<u64, SessionError> {
        Ok(0)
    }
    fn suspend(&mut self, _: SessionId) -> Result<(), SessionError> {
        Ok(())
    }
    fn resume(&mut self, _: SessionId) -> Result<(), SessionError> {
        Ok(())
    }
    fn close(&mut self, _: SessionId) -> Result<u64, SessionError> {
        Ok(0)
    }
    fn serve_writes_by_writes(&mut self, _: SessionId, _: bool) -> Result<(), SessionError> {
        Ok(())
    }
    fn set_priority(&mut self, _: SessionId, _: Priority) -> Result<(), SessionError> {
        Ok(())
    }
    fn serve_reads_by_writes(&mut self, _: SessionId, _: bool) -> Result<(), SessionError> {
        Ok(())
    }
    fn to_come(&self, _: SessionId) -> Result<u64, SessionError> {
        Ok(0)
    }
}
