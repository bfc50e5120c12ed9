//! A host's view of an application's calls.

use crate::core::Core;
use crate::sessions::{Parameter, Priority, SessionError, Sessions};
use units::{LbnRange, Op, Sectors, SessionId, TaskId};

/// A host's callbacks on an application's calls: opened sessions, registered tasks. By default they do nothing. Each is
/// called after `S`, mostly the core, has answered.
pub trait Watch<S: ?Sized = Core> {
    /// A call was accepted: the core is to be polled. A refused call changes nothing.
    fn called(&mut self) {}

    /// A session was opened.
    fn opened(&mut self, session: SessionId, priority: Priority) {
        let _ = (session, priority);
    }

    /// A session has set whether writes complete its reads.
    fn serves(&mut self, session: SessionId, on: bool) {
        let _ = (session, on);
    }

    /// A task was registered: its operation, range and block size.
    fn registered(
        &mut self,
        (session, task): (SessionId, TaskId),
        work: (Op, LbnRange, Sectors),
        parameter: Parameter,
    ) {
        let _ = (session, task, work, parameter);
    }

    /// A task was aborted, or the call was refused.
    fn aborted(&mut self, task: TaskId, told: Result<u64, SessionError>) {
        let _ = (task, told);
    }

    /// Blocks of a session were withdrawn, or the call was refused. `sessions` returns the rest of its tasks.
    fn withdrawn(
        &mut self,
        sessions: &S,
        session: SessionId,
        range: LbnRange,
        told: Result<u64, SessionError>,
    ) {
        let _ = (sessions, session, range, told);
    }

    /// A session was closed, or the call was refused.
    fn closed(&mut self, session: SessionId, told: Result<u64, SessionError>) {
        let _ = (session, told);
    }
}

/// The sessions of a core, or of an object that forwards calls to one, with callbacks.
///
/// ```
/// # use freeblock_scheduler::model::{DriveModel, builtin};
/// use freeblock_scheduler::units::SessionId;
/// use freeblock_scheduler::{Config, Core, Priority, Sessions, Watch, Watched};
/// # let drive = std::sync::Arc::new(DriveModel::from_profile(&builtin::find("quantum-atlas-10k")?)?);
///
/// struct Owned<'a>(&'a mut Vec<SessionId>);
///
/// impl Watch for Owned<'_> {
///     fn opened(&mut self, session: SessionId, _: Priority) {
///         self.0.push(session);
///     }
/// }
///
/// let (mut core, mut owned) = (Core::new(drive, Config::default()), Vec::new());
/// let session = Watched { sessions: &mut core, watch: Owned(&mut owned) }.open(Priority::default())?;
/// assert_eq!(owned, [session]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Watched<'a, W, S: ?Sized = Core> {
    /// The object that answers the calls.
    pub sessions: &'a mut S,
    /// The callbacks.
    pub watch: W,
}

impl<W: Watch<S>, S: Sessions + ?Sized> Watched<'_, W, S> {
    fn pass<R>(&mut self, call: impl FnOnce(&mut S) -> Result<R, SessionError>) -> Result<R, SessionError> {
        let told = call(self.sessions);
        if told.is_ok() {
            self.watch.called();
        }
        told
    }
}

impl<W: Watch<S>, S: Sessions + ?Sized> Sessions for Watched<'_, W, S> {
    fn open(&mut self, priority: Priority) -> Result<SessionId, SessionError> {
        let session = self.pass(|sessions| sessions.open(priority))?;
        self.watch.opened(session, priority);
        Ok(session)
    }

    fn set_priority(&mut self, session: SessionId, priority: Priority) -> Result<(), SessionError> {
        self.pass(|sessions| sessions.set_priority(session, priority))
    }

    fn serve_reads_by_writes(&mut self, session: SessionId, on: bool) -> Result<(), SessionError> {
        self.pass(|sessions| sessions.serve_reads_by_writes(session, on))?;
        self.watch.serves(session, on);
        Ok(())
    }

    fn serve_writes_by_writes(&mut self, session: SessionId, on: bool) -> Result<(), SessionError> {
        self.pass(|sessions| sessions.serve_writes_by_writes(session, on))
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
        let task = self.pass(|sessions| sessions.read(session, range, block, parameter))?;
        self.watch.registered((session, task), (Op::Read, range, block), parameter);
        Ok(task)
    }

    fn write(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        let task = self.pass(|sessions| sessions.write(session, range, block, parameter))?;
        self.watch.registered((session, task), (Op::Write, range, block), parameter);
        Ok(task)
    }

    fn abort(&mut self, task: TaskId) -> Result<u64, SessionError> {
        let told = self.pass(|sessions| sessions.abort(task));
        self.watch.aborted(task, told);
        told
    }

    fn abort_range(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
        let told = self.pass(|sessions| sessions.abort_range(session, range));
        self.watch.withdrawn(self.sessions, session, range, told);
        told
    }

    fn promote(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
        self.pass(|sessions| sessions.promote(session, range))
    }

    fn suspend(&mut self, session: SessionId) -> Result<(), SessionError> {
        self.pass(|sessions| sessions.suspend(session))
    }

    fn resume(&mut self, session: SessionId) -> Result<(), SessionError> {
        self.pass(|sessions| sessions.resume(session))
    }

    fn close(&mut self, session: SessionId) -> Result<u64, SessionError> {
        let told = self.pass(|sessions| sessions.close(session));
        self.watch.closed(session, told);
        told
    }
}
