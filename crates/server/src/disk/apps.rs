//! Applications on a disk: the owners of sessions, and the buffers that were given.

use super::background::SnapshotRequests;
use super::blocks::{Blocks, within};
use crate::recording::{RecordedCore, RecordingEntry, note};
use device::{Answer, BackgroundRequest, Failure, Snapshot};
use scheduler::{Application, Buffers, Given, Record, SessionCall, Sessions, Wanted, Watched};
use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors, SessionId};

/// The calls of a live disk to its application, beside those about blocks. By default it has no restrictions.
pub trait DiskHooks {
    /// Returns whether a foreground write has to wait. The disk asks again after the next delivered record and the next
    /// call ([`Disk::call`](super::Disk::call)). A snapshot promotes the blocks that it still has to read, and returns
    /// true until it has them.
    fn hold(&mut self, sessions: &mut dyn Sessions, range: LbnRange) -> bool {
        let _ = (sessions, range);
        false
    }

    /// Returns the same for a write that can wait: a snapshot reads the blocks as background work.
    fn hold_later(&mut self, sessions: &mut dyn Sessions, range: LbnRange) -> bool {
        self.hold(sessions, range)
    }

    /// Returns whether a request of the foreground, also a read, may access `range` now. For a waiting request the disk
    /// asks again as for a held write.
    fn fenced(&self, range: LbnRange) -> Fence {
        let _ = range;
        Fence::Open
    }

    /// Returns the owner of the fence, in words.
    fn fence(&self) -> String {
        String::new()
    }

    /// Returns whether it waits for the end of the foreground requests that had begun within its fences; then
    /// [`clear`](Self::clear) is called.
    fn wants_clear(&self) -> bool {
        false
    }

    /// Called when they have ended.
    fn clear(&mut self, sessions: &mut dyn Sessions) {
        let _ = sessions;
    }

    /// Called when a write or discard of the foreground goes to the device. For each [`wrote`](Self::wrote) is called.
    fn writing(&mut self, range: LbnRange) {
        let _ = range;
    }

    /// Called when it has ended, successfully or not.
    fn wrote(&mut self, range: LbnRange) {
        let _ = range;
    }

    /// Called with the number of clients that have the disk open and may write.
    fn set_writers(&mut self, writers: usize) {
        let _ = writers;
    }

    /// Returns why no other writes are allowed now, if so: then new clients are refused, and writes of present ones
    /// fail.
    fn taken(&self) -> Option<String> {
        None
    }

    /// Returns the snapshots of the disk that it serves.
    fn snapshots(&self) -> Vec<Snapshot> {
        Vec::new()
    }

    /// Takes a client's request to one of its snapshots. Returns whether it has that snapshot: then it gives an
    /// [answer](Self::answer).
    fn read_snapshot(&mut self, sessions: &mut dyn Sessions, request: &BackgroundRequest) -> bool {
        let _ = (sessions, request);
        false
    }

    /// Sets the time of the calls that follow and have none of their own.
    fn set_time(&mut self, now: Instant) {
        let _ = now;
    }

    /// Returns the figures of the requests to its snapshots.
    fn snapshot_requests(&self, now: Instant) -> Vec<SnapshotRequests> {
        let _ = now;
        Vec::new()
    }

    /// Returns when it next has work that no other call brings.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Does the work that is due. Returns whether the disk has to ask again for writes that are [held](Self::hold).
    fn do_due(&mut self, sessions: &mut dyn Sessions, now: Instant) -> bool {
        let _ = (sessions, now);
        false
    }

    /// Called when a command of the foreground has moved bytes of promoted blocks of a session, in this time.
    fn promoted(&mut self, session: SessionId, bytes: Bytes, took: Duration) {
        let _ = (session, bytes, took);
    }

    /// Drops the requests to its snapshots of a client that is gone. Returns their numbers.
    fn leave(&mut self, sessions: &mut dyn Sessions, client: u64) -> Vec<u64> {
        let _ = (sessions, client);
        Vec::new()
    }

    /// Returns the next answer to a request to one of its snapshots. The disk asks after each call and each record.
    fn answer(&mut self) -> Option<Answer> {
        None
    }

    /// Called when the first write or discard of the foreground begins, and when the last one ends.
    fn set_changing(&mut self, changing: bool) {
        let _ = changing;
    }

    /// Called when a command has moved bytes of a session's blocks, in a gap of the foreground or in idle time.
    fn moved(&mut self, session: SessionId, bytes: Bytes, when: Spare) {
        let _ = (session, bytes, when);
    }

    /// Returns whether all writes reported so far have to be flushed. The disk asks after each call and each record,
    /// unless a flush for this application is in flight; for each true it calls [`flushed`](Self::flushed) once.
    fn wants_flush(&mut self) -> bool {
        false
    }

    /// Called when all writes reported before it [wanted](Self::wants_flush) a flush are on the medium, or the device
    /// has failed.
    fn flushed(&mut self, sessions: &mut dyn Sessions, result: Result<(), &Failure>) {
        let _ = (sessions, result);
    }
}

/// The access of others to a place of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Allowed.
    Open,
    /// Has to wait until the fence changes.
    Wait,
    /// Refused.
    Closed,
}

/// Head time without use for the foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// A request's rotational latency, which is free.
    Gap,
    /// Idle time: no foreground request was pending.
    Idle,
}

/// An application that a disk can host.
pub trait DiskApplication: Application + DiskHooks + Any + Send {}

impl<T: Application + DiskHooks + Any + Send> DiskApplication for T {}

/// The handle of an application on a disk.
pub struct AppHandle<T> {
    index: usize,
    kind: PhantomData<fn() -> T>,
}

impl<T> Clone for AppHandle<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for AppHandle<T> {}

impl<T> fmt::Debug for AppHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AppHandle({})", self.index)
    }
}

struct App {
    app: Box<dyn DiskApplication>,
    flushing: bool,
}

pub(super) struct Apps {
    apps: Vec<App>,
    owners: BTreeMap<SessionId, usize>,
    given: Given,
}

impl fmt::Debug for Apps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Apps")
            .field("apps", &self.apps.len())
            .field("owners", &self.owners)
            .finish_non_exhaustive()
    }
}

/// The parts of a disk, beside the core, that a call of an application may change.
pub(super) struct CallContext<'a> {
    pub core: &'a mut RecordedCore,
    pub blocks: &'a mut Blocks,
}

impl Apps {
    pub fn new(sector: Bytes) -> Self {
        Self { apps: Vec::new(), owners: BTreeMap::new(), given: Given::new(sector) }
    }

    pub fn add<T: Application + DiskHooks + Send + 'static>(&mut self, app: T) -> AppHandle<T> {
        self.apps.push(App { app: Box::new(app), flushing: false });
        AppHandle { index: self.apps.len() - 1, kind: PhantomData }
    }

    pub fn get<T: 'static>(&self, handle: AppHandle<T>) -> Option<&T> {
        let app: &dyn Any = &*self.apps.get(handle.index)?.app;
        app.downcast_ref()
    }

    pub fn get_mut<T: 'static>(&mut self, handle: AppHandle<T>) -> Option<&mut T> {
        let app: &mut dyn Any = &mut *self.apps.get_mut(handle.index)?.app;
        app.downcast_mut()
    }

    fn with<R>(
        &mut self,
        index: usize,
        context: CallContext<'_>,
        call: impl FnOnce(&mut dyn DiskApplication, &mut dyn Sessions) -> R,
    ) -> Option<R> {
        let Self { apps, owners, .. } = self;
        let app = apps.get_mut(index)?;
        let RecordedCore { core, recorder } = context.core;
        let mut watched = Watched::new(core, |call, answer| {
            note(recorder, || RecordingEntry::Call { call, got: answer.ok() });
            call.note_owner(answer, index, owners);
            if answer.is_ok() {
                forget_unwanted(call, context.blocks);
            }
        });
        Some(call(&mut *app.app, &mut watched))
    }

    pub fn set_writers(&mut self, writers: usize) {
        self.apps.iter_mut().for_each(|app| app.app.set_writers(writers));
    }

    pub fn set_changing(&mut self, changing: bool) {
        self.apps.iter_mut().for_each(|app| app.app.set_changing(changing));
    }

    pub fn writing(&mut self, range: LbnRange) {
        self.apps.iter_mut().for_each(|app| app.app.writing(range));
    }

    pub fn wrote(&mut self, range: LbnRange) {
        self.apps.iter_mut().for_each(|app| app.app.wrote(range));
    }

    /// Returns why no client may write, if none may.
    pub fn taken(&self) -> Option<String> {
        self.apps.iter().find_map(|app| app.app.taken())
    }

    /// Returns the snapshots of all applications.
    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.apps.iter().flat_map(|app| app.app.snapshots()).collect()
    }

    /// Hands a request to the application that has its snapshot. Returns whether there is one.
    pub fn read_snapshot(
        &mut self,
        context: CallContext<'_>,
        request: &BackgroundRequest,
        now: Instant,
    ) -> bool {
        let has = |app: &App| app.app.snapshots().iter().any(|of| Some(of.number) == request.snapshot);
        let Some(index) = self.apps.iter().position(has) else { return false };
        let read = |app: &mut dyn DiskApplication, sessions: &mut dyn Sessions| {
            app.set_time(now);
            app.read_snapshot(sessions, request)
        };
        self.with(index, context, read).unwrap_or(false)
    }

    /// Returns the figures of the requests to the snapshots of all applications.
    pub fn snapshot_requests(&self, now: Instant) -> Vec<SnapshotRequests> {
        self.apps.iter().flat_map(|app| app.app.snapshot_requests(now)).collect()
    }

    /// Returns when an application next has work.
    pub fn due(&self) -> Option<Instant> {
        self.apps.iter().filter_map(|app| app.app.due()).min()
    }

    /// Has the applications do the work that is due. Returns whether held writes are to be tried again.
    pub fn do_due(&mut self, context: CallContext<'_>, now: Instant) -> bool {
        let CallContext { core, blocks } = context;
        (0..self.apps.len()).fold(false, |again, index| {
            let due = self.apps[index].app.due().is_some_and(|at| at <= now);
            let context = CallContext { core: &mut *core, blocks: &mut *blocks };
            due && self.with(index, context, |app, sessions| app.do_due(sessions, now)).unwrap_or(false)
                || again
        })
    }

    /// Reports promoted bytes to the application that opened the session.
    pub fn promoted(&mut self, session: SessionId, bytes: Bytes, took: Duration) {
        let app = self.owners.get(&session).and_then(|at| self.apps.get_mut(*at));
        if let Some(App { app, .. }) = app {
            app.promoted(session, bytes, took);
        }
    }

    /// Drops the requests to snapshots of a client that is gone. Returns their numbers.
    pub fn leave(&mut self, context: CallContext<'_>, client: u64) -> Vec<u64> {
        let CallContext { core, blocks } = context;
        let mut left = Vec::new();
        for index in 0..self.apps.len() {
            let context = CallContext { core: &mut *core, blocks: &mut *blocks };
            let its = self.with(index, context, |app, sessions| app.leave(sessions, client));
            left.extend(its.unwrap_or_default());
        }
        left
    }

    /// Takes the answers to requests to snapshots.
    pub fn answers(&mut self) -> impl Iterator<Item = Answer> {
        self.apps.iter_mut().flat_map(|app| std::iter::from_fn(|| app.app.answer()))
    }

    /// Reports the bytes moved to the application that opened the session.
    pub fn moved(&mut self, session: SessionId, bytes: Bytes, when: Spare) {
        let app = self.owners.get(&session).and_then(|at| self.apps.get_mut(*at));
        if let Some(App { app, .. }) = app {
            app.moved(session, bytes, when);
        }
    }

    /// Lets an application make calls.
    pub fn call<T: 'static, R>(
        &mut self,
        handle: AppHandle<T>,
        context: CallContext<'_>,
        call: impl FnOnce(&mut T, &mut dyn Sessions) -> R,
    ) -> Option<R> {
        self.with(handle.index, context, |app, sessions| {
            let app: &mut dyn Any = app;
            app.downcast_mut().map(|app| call(app, sessions))
        })?
    }

    /// Delivers a record to the application that opened its session.
    pub fn done(&mut self, context: CallContext<'_>, record: &Record, bytes: &[u8], now: Instant) {
        let Some(&index) = self.owners.get(&record.session) else { return };
        self.with(index, context, |app, sessions| app.done(sessions, record, bytes, now));
    }

    /// Returns whether an application holds a write, which can wait unless it is urgent. Asks all of them, so that all
    /// can begin their preparations.
    pub fn hold(
        &mut self,
        core: &mut RecordedCore,
        blocks: &mut Blocks,
        range: LbnRange,
        urgent: bool,
    ) -> bool {
        (0..self.apps.len()).fold(false, |held, index| {
            let context = CallContext { core: &mut *core, blocks: &mut *blocks };
            let hold = |app: &mut dyn DiskApplication, sessions: &mut dyn Sessions| match urgent {
                true => app.hold(sessions, range),
                false => app.hold_later(sessions, range),
            };
            self.with(index, context, hold).unwrap_or(false) || held
        })
    }

    /// Returns whether a request may access a place, and the application that refuses.
    pub fn fenced(&self, range: LbnRange) -> (Fence, Option<&dyn DiskApplication>) {
        let mut fence = (Fence::Open, None);
        for App { app, .. } in &self.apps {
            match app.fenced(range) {
                Fence::Closed => return (Fence::Closed, Some(&**app)),
                Fence::Wait => fence = (Fence::Wait, None),
                Fence::Open => {}
            }
        }
        fence
    }

    /// Returns the next application that waits until its fences are free of requests.
    pub fn wants_clear(&self) -> Option<usize> {
        self.apps.iter().position(|app| app.app.wants_clear())
    }

    /// Reports to an application that its fences are free of requests.
    pub fn clear(&mut self, index: usize, context: CallContext<'_>) {
        self.with(index, context, |app, sessions| app.clear(sessions));
    }

    /// Returns the next application that wants a flush.
    pub fn wants_flush(&mut self) -> Option<usize> {
        let at = self.apps.iter_mut().position(|app| !app.flushing && app.app.wants_flush())?;
        self.apps[at].flushing = true;
        Some(at)
    }

    pub fn flushed(&mut self, index: usize, context: CallContext<'_>, result: Result<(), &Failure>) {
        if let Some(app) = self.apps.get_mut(index) {
            app.flushing = false;
        }
        self.with(index, context, |app, sessions| app.flushed(sessions, result));
    }

    /// Fills `into` with the bytes given for the sectors of `range`, except those of `but`. Returns whether all were
    /// there.
    pub fn fill(&mut self, range: LbnRange, but: Option<LbnRange>, into: &mut [u8], sector: Bytes) -> bool {
        let but = but.unwrap_or(LbnRange::new(range.end(), Sectors::ZERO));
        let part = |from: Lbn, to: Lbn| LbnRange::new(from, to.max(from).since(from));
        let parts = [part(range.start(), but.start()), part(but.end(), range.end())];
        parts.into_iter().filter(|part| !part.is_empty()).all(|part| {
            let place = within(range, part, sector).and_then(|at| into.get_mut(at));
            place.is_some_and(|into| self.given.fill(part, into))
        })
    }
}

/// Drops the blocks that an accepted call makes unwanted.
fn forget_unwanted(call: SessionCall, blocks: &mut Blocks) {
    match call {
        SessionCall::Abort { task } => blocks.forget(|of, _, _| of == task),
        SessionCall::AbortRange { session, range } => {
            blocks.forget(|_, owner, block| owner == session && block.overlaps(range));
        }
        SessionCall::Close { session } => blocks.forget(|_, owner, _| owner == session),
        _ => {}
    }
}

/// The buffers of the core, filled by applications and kept for the commands. One is made for each poll.
pub(super) struct AppBuffers<'a> {
    apps: &'a mut Apps,
    sector: Bytes,
    fresh: bool,
}

impl<'a> AppBuffers<'a> {
    pub fn new(apps: &'a mut Apps, sector: Bytes) -> Self {
        Self { apps, sector, fresh: true }
    }
}

impl Buffers for AppBuffers<'_> {
    fn ready(&mut self, wanted: &Wanted) -> bool {
        let Apps { apps, owners, given } = &mut *self.apps;
        // The core decides only when all earlier decisions were sent: buffers still here were given back.
        if std::mem::take(&mut self.fresh) {
            given.clear();
        }
        let app = owners.get(&wanted.session).and_then(|at| apps.get_mut(*at));
        let Some(App { app, .. }) = app else { return false };
        let mut bytes = vec![0; wanted.range.len().bytes(self.sector).get() as usize];
        let has = app.buffer(wanted, &mut bytes);
        if has {
            given.push(wanted.range, bytes);
        }
        has
    }
}
