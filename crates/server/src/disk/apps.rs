//! The application of a disk.

use super::background::{Background, SnapshotRequests};
use crate::recording::RecordedCore;
use device::{Answer, BackgroundRequest, Failure, Snapshot};
use freeblock::HalfReadBlocks;
use scheduler::{Application, Record, Sessions, Wanted, Watched};
use units::{Bytes, Duration, Instant, LbnRange, SessionId};

/// The calls of a live disk to its application, beside those about blocks. By default it has no restrictions.
pub trait DiskHooks: Application {
    /// Returns whether a foreground write has to wait. The disk asks again after the next delivered record and the next
    /// call ([`Disk::call`](super::Disk::call)). A snapshot promotes the blocks that it still has to read, and returns
    /// true until it has them.
    fn hold(&mut self, sessions: &mut dyn Sessions, range: LbnRange) -> bool {
        let _ = (sessions, range);
        false
    }

    /// Returns whether a write that can wait has to wait: a snapshot reads the blocks as background work.
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

    /// Called when a command of the foreground has moved a part of promoted blocks of a session, in this time.
    fn promoted(&mut self, session: SessionId, part: LbnRange, took: Duration) {
        let _ = (session, part, took);
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

/// No application: of a disk that serves clients alone.
#[derive(Clone, Copy, Debug)]
pub enum NoApp {}

impl DiskHooks for NoApp {}

impl Application for NoApp {
    fn done(&mut self, _: &mut dyn Sessions, _: &Record, _: &[u8], _: Instant) {}
}

/// The application of a disk, and beside it the background requests of clients.
pub(super) struct Apps<A> {
    pub app: Option<A>,
    pub background: Option<Background>,
    /// Whether a flush for the application is in flight.
    flushing: bool,
}

/// The parts of a disk, beside the core, that a call of an application may change.
pub(super) struct CallContext<'a> {
    pub core: &'a mut RecordedCore,
    pub blocks: &'a mut HalfReadBlocks,
}

impl CallContext<'_> {
    /// Lets an application make calls.
    pub fn with<T, R>(self, app: &mut T, call: impl FnOnce(&mut T, &mut dyn Sessions) -> R) -> R {
        let mut watched = Watched::new(self.core, |call, answer| {
            if answer.is_ok() {
                self.blocks.forget_unwanted(call);
            }
        });
        call(app, &mut watched)
    }
}

impl<A: DiskHooks> Apps<A> {
    pub fn new() -> Self {
        Self { app: None, background: None, flushing: false }
    }

    /// Returns the background requests, if this session is theirs.
    fn background_of(&mut self, session: SessionId) -> Option<&mut Background> {
        self.background.as_mut().filter(|background| background.owns(session))
    }

    pub fn set_writers(&mut self, writers: usize) {
        if let Some(app) = &mut self.app {
            app.set_writers(writers);
        }
    }

    pub fn set_changing(&mut self, changing: bool) {
        if let Some(app) = &mut self.app {
            app.set_changing(changing);
        }
    }

    pub fn writing(&mut self, range: LbnRange) {
        if let Some(app) = &mut self.app {
            app.writing(range);
        }
    }

    pub fn wrote(&mut self, range: LbnRange) {
        if let Some(app) = &mut self.app {
            app.wrote(range);
        }
    }

    /// Returns why no client may write, if none may.
    pub fn taken(&self) -> Option<String> {
        self.app.as_ref()?.taken()
    }

    pub fn snapshots(&self) -> Vec<Snapshot> {
        self.app.as_ref().map(DiskHooks::snapshots).unwrap_or_default()
    }

    pub fn set_time(&mut self, now: Instant) {
        if let Some(app) = &mut self.app {
            app.set_time(now);
        }
    }

    /// Hands a request to the application. Returns whether that has the snapshot.
    pub fn read_snapshot(&mut self, context: CallContext<'_>, request: &BackgroundRequest) -> bool {
        let Some(app) = &mut self.app else { return false };
        context.with(app, |app, sessions| app.read_snapshot(sessions, request))
    }

    /// Returns the figures of the requests to the application's snapshots.
    pub fn snapshot_requests(&self, now: Instant) -> Vec<SnapshotRequests> {
        self.app.as_ref().map(|app| app.snapshot_requests(now)).unwrap_or_default()
    }

    /// Returns when the application or the background requests next have work.
    pub fn due(&self) -> Option<Instant> {
        let background = self.background.as_ref().and_then(Background::due);
        background.into_iter().chain(self.app.as_ref().and_then(DiskHooks::due)).min()
    }

    /// Has the work done that is due. Returns whether held writes are to be tried again.
    pub fn do_due(&mut self, context: CallContext<'_>, now: Instant) -> bool {
        let CallContext { core, blocks } = context;
        let mut again = false;
        if let Some(background) = &mut self.background {
            let context = CallContext { core: &mut *core, blocks: &mut *blocks };
            again |= context.with(background, |background, sessions| background.do_due(sessions, now));
        }
        if let Some(app) = self.app.as_mut().filter(|app| app.due().is_some_and(|at| at <= now)) {
            again |= CallContext { core, blocks }.with(app, |app, sessions| app.do_due(sessions, now));
        }
        again
    }

    /// Reports promoted bytes to the owner of the session.
    pub fn promoted(&mut self, session: SessionId, part: LbnRange, took: Duration) {
        if let Some(background) = self.background_of(session) {
            background.promoted(session, part, took);
        } else if let Some(app) = &mut self.app {
            app.promoted(session, part, took);
        }
    }

    /// Drops the requests to snapshots of a client that is gone. Returns their numbers.
    pub fn leave(&mut self, context: CallContext<'_>, client: u64) -> Vec<u64> {
        let leave = |app| context.with(app, |app: &mut A, sessions| app.leave(sessions, client));
        self.app.as_mut().map(leave).unwrap_or_default()
    }

    /// Takes the answers to requests to snapshots.
    pub fn answers(&mut self) -> impl Iterator<Item = Answer> {
        std::iter::from_fn(|| self.app.as_mut()?.answer())
    }

    /// Reports the bytes moved to the application, if the session is its own.
    pub fn moved(&mut self, session: SessionId, bytes: Bytes, when: Spare) {
        if self.background_of(session).is_none()
            && let Some(app) = &mut self.app
        {
            app.moved(session, bytes, when);
        }
    }

    /// Delivers a record.
    pub fn done(&mut self, context: CallContext<'_>, record: &Record, bytes: &[u8], now: Instant) {
        if let Some(background) = self.background_of(record.session) {
            context.with(background, |background, sessions| background.done(sessions, record, bytes, now));
        } else if let Some(app) = &mut self.app {
            context.with(app, |app, sessions| app.done(sessions, record, bytes, now));
        }
    }

    /// Returns whether the application holds a write, which can wait unless it is urgent.
    pub fn hold(&mut self, context: CallContext<'_>, range: LbnRange, urgent: bool) -> bool {
        let Some(app) = &mut self.app else { return false };
        context.with(app, |app, sessions| match urgent {
            true => app.hold(sessions, range),
            false => app.hold_later(sessions, range),
        })
    }

    /// Returns whether a request may access a place.
    pub fn fenced(&self, range: LbnRange) -> Fence {
        self.app.as_ref().map_or(Fence::Open, |app| app.fenced(range))
    }

    /// Returns the owner of the fence, in words.
    pub fn fence(&self) -> String {
        self.app.as_ref().map(DiskHooks::fence).unwrap_or_default()
    }

    /// Returns whether the application waits until its fences are free of requests.
    pub fn wants_clear(&self) -> bool {
        self.app.as_ref().is_some_and(DiskHooks::wants_clear)
    }

    /// Reports to the application that its fences are free of requests.
    pub fn clear(&mut self, context: CallContext<'_>) {
        if let Some(app) = &mut self.app {
            context.with(app, |app, sessions| app.clear(sessions));
        }
    }

    /// Returns whether the application wants a flush, and none is in flight for it.
    pub fn wants_flush(&mut self) -> bool {
        let wants = !self.flushing && self.app.as_mut().is_some_and(DiskHooks::wants_flush);
        self.flushing |= wants;
        wants
    }

    pub fn flushed(&mut self, context: CallContext<'_>, result: Result<(), &Failure>) {
        self.flushing = false;
        if let Some(app) = &mut self.app {
            context.with(app, |app, sessions| app.flushed(sessions, result));
        }
    }

    /// Copies the bytes of a block that is to be written into a buffer. Returns whether its owner has them.
    pub fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        match self.background_of(wanted.session) {
            Some(background) => background.buffer(wanted, into),
            None => self.app.as_mut().is_some_and(|app| app.buffer(wanted, into)),
        }
    }
}
