//! Applications in a volume: whose session is whose, and the buffers that they gave.

use scheduler::{Application, Buffers, Core, Parameter, Priority, Record, SessionError, Sessions, Wanted};
use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;
use units::{Bytes, Instant, LbnRange, Sectors, SessionId, TaskId};

/// An application that a volume can host: any that owns what it has.
pub trait Hosted: Application + Any {}

impl<T: Application + Any> Hosted for T {}

/// Where in a volume an application is.
pub struct Place<T> {
    pub(super) index: usize,
    pub(super) kind: PhantomData<fn() -> T>,
}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

/// What an application has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Blocks done, failed ones included.
    pub blocks: u64,
    /// Bytes of the blocks that were read or written well.
    pub bytes: u64,
    /// Blocks with bad sectors.
    pub failed: u64,
}

/// Bytes that an application gave to be written, kept until they are.
#[derive(Clone, Debug)]
pub(super) struct Held {
    task: TaskId,
    block: u64,
    pub range: LbnRange,
    pub bytes: Vec<u8>,
    pub used: bool,
}

#[derive(Default)]
pub(super) struct Apps {
    apps: Vec<(Box<dyn Hosted>, Tally)>,
    /// Whether a call was made since the core was last polled.
    pub stirred: bool,
    owners: BTreeMap<SessionId, usize>,
    /// Range and block size, to tell blocks apart.
    tasks: BTreeMap<TaskId, (SessionId, LbnRange, Sectors)>,
}

impl Apps {
    pub fn add(&mut self, app: Box<dyn Hosted>) -> usize {
        self.apps.push((app, Tally::default()));
        self.apps.len() - 1
    }

    pub fn get<T: Application + Any>(&self, place: Place<T>) -> Option<&T> {
        let app: &dyn Any = &*self.apps.get(place.index)?.0;
        app.downcast_ref()
    }

    pub fn tally(&self, index: usize) -> Tally {
        self.apps.get(index).map_or_else(Tally::default, |(_, tally)| *tally)
    }

    /// Lets an application make calls.
    pub fn call<T: Application + Any, R>(
        &mut self,
        core: &mut Core,
        place: Place<T>,
        call: impl FnOnce(&mut T, &mut dyn Sessions) -> R,
    ) -> Option<R> {
        let Self { apps, stirred, owners, tasks } = self;
        let app: &mut dyn Any = &mut *apps.get_mut(place.index)?.0;
        let app = app.downcast_mut()?;
        Some(call(app, &mut Calls { core, stirred, owners, tasks, app: place.index }))
    }

    /// Hands a record to whoever opened its session.
    pub fn done(&mut self, core: &mut Core, record: &Record, bytes: &[u8], size: Bytes, now: Instant) {
        if core.task_undelivered(record.task) == 0 {
            self.tasks.remove(&record.task);
        }
        let Self { apps, stirred, owners, tasks } = self;
        let Some(&index) = owners.get(&record.session) else { return };
        let Some((app, tally)) = apps.get_mut(index) else { return };
        tally.blocks += 1;
        match record.bad {
            None => tally.bytes += size.get(),
            Some(_) => tally.failed += 1,
        }
        app.done(&mut Calls { core, stirred, owners, tasks, app: index }, record, bytes, now);
    }
}

/// The calls of one application.
struct Calls<'a> {
    core: &'a mut Core,
    stirred: &'a mut bool,
    owners: &'a mut BTreeMap<SessionId, usize>,
    tasks: &'a mut BTreeMap<TaskId, (SessionId, LbnRange, Sectors)>,
    app: usize,
}

impl Calls<'_> {
    fn core(&mut self) -> &mut Core {
        *self.stirred = true;
        self.core
    }
}

impl Sessions for Calls<'_> {
    fn open(&mut self, priority: Priority) -> Result<SessionId, SessionError> {
        let session = self.core().open(priority)?;
        self.owners.insert(session, self.app);
        Ok(session)
    }

    fn serve_reads_by_writes(&mut self, session: SessionId, on: bool) -> Result<(), SessionError> {
        self.core().serve_reads_by_writes(session, on)
    }

    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        self.core.to_come(session)
    }

    fn read(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        self.core().read(session, range, block, parameter)
    }

    fn write(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        let task = self.core().write(session, range, block, parameter)?;
        self.tasks.insert(task, (session, range, block));
        Ok(task)
    }

    fn abort(&mut self, task: TaskId) -> Result<u64, SessionError> {
        let left = self.core().abort(task)?;
        self.tasks.remove(&task);
        Ok(left)
    }

    fn abort_range(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
        let left = self.core().abort_range(session, range)?;
        let Self { core, tasks, .. } = self;
        tasks.retain(|task, (owner, ..)| *owner != session || core.task_undelivered(*task) > 0);
        Ok(left)
    }

    fn promote(&mut self, session: SessionId, range: LbnRange) -> Result<u64, SessionError> {
        self.core().promote(session, range)
    }

    fn suspend(&mut self, session: SessionId) -> Result<(), SessionError> {
        self.core().suspend(session)
    }

    fn resume(&mut self, session: SessionId) -> Result<(), SessionError> {
        self.core().resume(session)
    }

    fn close(&mut self, session: SessionId) -> Result<u64, SessionError> {
        let left = self.core().close(session)?;
        self.owners.remove(&session);
        self.tasks.retain(|_, (owner, ..)| *owner != session);
        Ok(left)
    }
}

/// Asks applications for what the core is about to write, and keeps it.
pub(super) struct Asker<'a> {
    pub apps: &'a mut Apps,
    pub held: &'a mut Vec<Held>,
    pub sector: Bytes,
}

impl Buffers for Asker<'_> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        let Apps { apps, owners, tasks, .. } = &mut *self.apps;
        let app = owners.get(&wanted.session).and_then(|at| apps.get_mut(*at));
        let Some((app, _)) = app else { return false };
        let block = tasks.get(&wanted.task).map_or(0, |(_, range, block)| {
            wanted.range.start().get().saturating_sub(range.start().get()) / block.get().max(1)
        });
        let mut bytes = vec![0; wanted.range.len().bytes(self.sector).get() as usize];
        if app.buffer(wanted, &mut bytes) {
            self.held.push(Held { task: wanted.task, block, range: wanted.range, bytes, used: false });
            return true;
        }
        // A block of which a part cannot be had is not written at all.
        while self.held.pop_if(|last| (last.task, last.block) == (wanted.task, block)).is_some() {}
        false
    }
}
