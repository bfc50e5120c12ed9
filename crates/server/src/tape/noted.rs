//! Session calls on their way to the core.

use super::entry::{Call, Entry, range};
use super::{Tape, note};
use scheduler::{Parameter, Priority, SessionError, Sessions};
use units::{LbnRange, Sectors, SessionId, TaskId};

/// Session calls that are recorded with their answers.
pub(crate) struct Noted<'a> {
    pub sessions: &'a mut dyn Sessions,
    pub tape: &'a mut Option<Tape>,
}

impl Noted<'_> {
    fn note<T: Copy>(
        &mut self,
        call: Call,
        answer: Result<T, SessionError>,
        number: impl FnOnce(T) -> u64,
    ) -> Result<T, SessionError> {
        note(self.tape, || Entry::Call { call, got: answer.ok().map(number) });
        answer
    }
}

/// Returns the answer recorded for a call without a result.
fn nothing(_: ()) -> u64 {
    0
}

fn itself(number: u64) -> u64 {
    number
}

impl Sessions for Noted<'_> {
    fn open(&mut self, priority: Priority) -> Result<SessionId, SessionError> {
        let answer = self.sessions.open(priority);
        self.note(Call::Open { priority: priority.get() }, answer, SessionId::get)
    }

    fn set_priority(&mut self, session: SessionId, priority: Priority) -> Result<(), SessionError> {
        let answer = self.sessions.set_priority(session, priority);
        self.note(Call::SetPriority { session: session.get(), priority: priority.get() }, answer, nothing)
    }

    fn serve_reads_by_writes(&mut self, session: SessionId, on: bool) -> Result<(), SessionError> {
        let answer = self.sessions.serve_reads_by_writes(session, on);
        self.note(Call::Serve { session: session.get(), on }, answer, nothing)
    }

    fn serve_writes_by_writes(&mut self, session: SessionId, on: bool) -> Result<(), SessionError> {
        let answer = self.sessions.serve_writes_by_writes(session, on);
        self.note(Call::ServeWrites { session: session.get(), on }, answer, nothing)
    }

    /// Passes a query on, which changes nothing and is not recorded.
    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        self.sessions.to_come(session)
    }

    fn read(
        &mut self,
        session: SessionId,
        lbns: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        let answer = self.sessions.read(session, lbns, block, parameter);
        let (session, lbns, block) = (session.get(), range(lbns), block.get());
        let call = Call::Register { session, write: false, lbns, block, parameter: parameter.0 };
        self.note(call, answer, TaskId::get)
    }

    fn write(
        &mut self,
        session: SessionId,
        lbns: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        let answer = self.sessions.write(session, lbns, block, parameter);
        let (session, lbns, block) = (session.get(), range(lbns), block.get());
        let call = Call::Register { session, write: true, lbns, block, parameter: parameter.0 };
        self.note(call, answer, TaskId::get)
    }

    fn abort(&mut self, task: TaskId) -> Result<u64, SessionError> {
        let answer = self.sessions.abort(task);
        self.note(Call::Abort { task: task.get() }, answer, itself)
    }

    fn abort_range(&mut self, session: SessionId, lbns: LbnRange) -> Result<u64, SessionError> {
        let answer = self.sessions.abort_range(session, lbns);
        self.note(Call::AbortRange { session: session.get(), lbns: range(lbns) }, answer, itself)
    }

    fn promote(&mut self, session: SessionId, lbns: LbnRange) -> Result<u64, SessionError> {
        let answer = self.sessions.promote(session, lbns);
        self.note(Call::Promote { session: session.get(), lbns: range(lbns) }, answer, itself)
    }

    fn suspend(&mut self, session: SessionId) -> Result<(), SessionError> {
        let answer = self.sessions.suspend(session);
        self.note(Call::Suspend { session: session.get() }, answer, nothing)
    }

    fn resume(&mut self, session: SessionId) -> Result<(), SessionError> {
        let answer = self.sessions.resume(session);
        self.note(Call::Resume { session: session.get() }, answer, nothing)
    }

    fn close(&mut self, session: SessionId) -> Result<u64, SessionError> {
        let answer = self.sessions.close(session);
        self.note(Call::Close { session: session.get() }, answer, itself)
    }
}
