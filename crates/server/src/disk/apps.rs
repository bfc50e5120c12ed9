//! The application of a disk: the program on top of the core that makes background requests.

use super::background::{Background, SnapshotRequests};
use crate::recording::RecordedCore;
use device::{Answer, BackgroundRequest, Failure, Snapshot};
use freeblock::HalfReadBlocks;
use scheduler::{Application, Record, Sessions, Wanted, Watched};
use units::{Bytes, Duration, Instant, LbnRange, SessionId};

/// The calls of a live disk to its application, beside those about blocks. The defaults restrict nothing.
pub trait DiskHooks: Application {
    /// Returns whether a foreground write has to wait. The disk asks again after the next delivered record and the next
    /// call ([`Disk::call`](super::Disk::call)). An application with a snapshot makes foreground work of its reads of
    /// the old blocks under the write, and returns true until it has them.
    fn hold(&mut self, sessions: &mut dyn Sessions, range: LbnRange) -> bool {
        let _ = (sessions, range);
        false
    }

    /// Returns whether a background write has to wait. A snapshot reads the blocks under such a write as background
    /// work.
    fn hold_later(&mut self, sessions: &mut dyn Sessions, range: LbnRange) -> bool {
        self.hold(sessions, range)
    }

    /// Returns whether a request of the foreground, also a read, may access `range` now: the application may fence off
    /// ranges. For a waiting request the disk asks again as for a [held](Self::hold) write.
    fn fenced(&self, range: LbnRange) -> Fence {
        let _ = range;
        Fence::Open
    }

    /// Returns the message for requests that a fence refuses.
    fn fence(&self) -> String {
        String::new()
    }

    /// Returns whether the application waits for the end of the foreground requests that had begun within its fences.
    /// At their end the disk calls [`clear`](Self::clear).
    fn wants_clear(&self) -> bool {
        false
    }

    /// Called when all foreground requests that had begun within the fences have ended.
    fn clear(&mut self, sessions: &mut dyn Sessions) {
        let _ = sessions;
    }

    /// Called when a write or discard of the foreground is sent to the device. Each such call is followed by one of
    /// [`wrote`](Self::wrote).
    fn writing(&mut self, range: LbnRange) {
        let _ = range;
    }

    /// Called when a write or discard of the foreground has succeeded or failed.
    fn wrote(&mut self, range: LbnRange) {
        let _ = range;
    }

    /// Called with the number of clients that have the disk open and may write.
    fn set_writers(&mut self, writers: usize) {
        let _ = writers;
    }

    /// Returns why only the application may write now, if so. New clients are refused then, and writes of present ones
    /// fail.
    fn taken(&self) -> Option<String> {
        None
    }

    /// Returns the snapshots of the disk that the application serves.
    fn snapshots(&self) -> Vec<Snapshot> {
        Vec::new()
    }

    /// Takes a client's request to a snapshot. Returns whether the application has the snapshot; if so, an
    /// [answer](Self::answer) follows.
    fn read_snapshot(&mut self, sessions: &mut dyn Sessions, request: &BackgroundRequest) -> bool {
        let _ = (sessions, request);
        false
    }

    /// Sets the time for the following calls that have no argument for the time.
    fn set_time(&mut self, now: Instant) {
        let _ = now;
    }

    /// Returns the figures of the requests to the application's snapshots.
    fn snapshot_requests(&self, now: Instant) -> Vec<SnapshotRequests> {
        let _ = now;
        Vec::new()
    }

    /// Returns when [`do_due`](Self::do_due) next has work that no other call brings.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Does the work that is due. Returns whether the disk has to ask again for writes that are [held](Self::hold).
    fn do_due(&mut self, sessions: &mut dyn Sessions, now: Instant) -> bool {
        let _ = (sessions, now);
        false
    }

    /// Called when a foreground command that took `took` has read or written `part` of a session's promoted blocks.
    fn promoted(&mut self, session: SessionId, part: LbnRange, took: Duration) {
        let _ = (session, part, took);
    }

    /// Drops the requests of a disconnected client to the application's snapshots. Returns their numbers.
    fn leave(&mut self, sessions: &mut dyn Sessions, client: u64) -> Vec<u64> {
        let _ = (sessions, client);
        Vec::new()
    }

    /// Returns the next answer to a request to a snapshot. The disk asks after each call and each record.
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

    /// Returns whether all writes that the disk has reported to the application have to be flushed. The disk asks after
    /// each call and each record, unless a flush for this application is in flight. For each `true` the disk calls
    /// [`flushed`](Self::flushed) once.
    fn wants_flush(&mut self) -> bool {
        false
    }

    /// Called when all writes that the disk reported to the application before the flush was
    /// [wanted](Self::wants_flush) are on the medium, or the device has failed.
    fn flushed(&mut self, sessions: &mut dyn Sessions, result: Result<(), &Failure>) {
        let _ = (sessions, result);
    }
}

/// The access of clients to a range, part of which the application may have fenced off: closed to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// The access is allowed.
    Open,
    /// The access has to wait until the fence changes.
    Wait,
    /// The access is refused.
    Closed,
}

/// The kinds of head time that the foreground does not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spare {
    /// The rotational latency of a foreground request, in which background work costs nothing.
    Gap,
    /// Idle time: no foreground request was pending.
    Idle,
}

/// The type of a missing application, for a disk that only serves clients.
#[derive(Clone, Copy, Debug)]
pub enum NoApp {}

impl DiskHooks for NoApp {}

impl Application for NoApp {
    fn done(&mut self, _: &mut dyn Sessions, _: &Record, _: &[u8], _: Instant) {}
}

/// The two sources of background work of a disk: its application, and the background requests of clients.
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
    /// Runs `call` with an application and the core's sessions. Forgets the read parts of blocks that the call
    /// withdraws.
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

    /// Returns the background requests of clients, if `session` is one of their sessions.
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

    /// Hands a request to the application. Returns whether the application has the snapshot.
    pub fn read_snapshot(&mut self, context: CallContext<'_>, request: &BackgroundRequest) -> bool {
        let Some(app) = &mut self.app else { return false };
        context.with(app, |app, sessions| app.read_snapshot(sessions, request))
    }

    pub fn snapshot_requests(&self, now: Instant) -> Vec<SnapshotRequests> {
        self.app.as_ref().map(|app| app.snapshot_requests(now)).unwrap_or_default()
    }

    /// Returns when the application or the background requests next have work.
    pub fn due(&self) -> Option<Instant> {
        let background = self.background.as_ref().and_then(Background::due);
        background.into_iter().chain(self.app.as_ref().and_then(DiskHooks::due)).min()
    }

    /// Lets the background requests and the application do the work that is due. Returns whether held writes are to be
    /// tried again.
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

    /// Reports to the owner of a session that a foreground command has read or written promoted blocks.
    pub fn promoted(&mut self, session: SessionId, part: LbnRange, took: Duration) {
        if let Some(background) = self.background_of(session) {
            background.promoted(session, part, took);
        } else if let Some(app) = &mut self.app {
            app.promoted(session, part, took);
        }
    }

    pub fn leave(&mut self, context: CallContext<'_>, client: u64) -> Vec<u64> {
        let leave = |app| context.with(app, |app: &mut A, sessions| app.leave(sessions, client));
        self.app.as_mut().map(leave).unwrap_or_default()
    }

    pub fn answers(&mut self) -> impl Iterator<Item = Answer> {
        std::iter::from_fn(|| self.app.as_mut()?.answer())
    }

    /// Reports bytes read or written for a session to the application, unless the session is of background requests.
    pub fn moved(&mut self, session: SessionId, bytes: Bytes, when: Spare) {
        if self.background_of(session).is_none()
            && let Some(app) = &mut self.app
        {
            app.moved(session, bytes, when);
        }
    }

    /// Delivers a record to the owner of its session.
    pub fn done(&mut self, context: CallContext<'_>, record: &Record, bytes: &[u8], now: Instant) {
        if let Some(background) = self.background_of(record.session) {
            context.with(background, |background, sessions| background.done(sessions, record, bytes, now));
        } else if let Some(app) = &mut self.app {
            context.with(app, |app, sessions| app.done(sessions, record, bytes, now));
        }
    }

    /// Returns whether the application holds a write; one that is not `urgent` is background work.
    pub fn hold(&mut self, context: CallContext<'_>, range: LbnRange, urgent: bool) -> bool {
        let Some(app) = &mut self.app else { return false };
        context.with(app, |app, sessions| match urgent {
            true => app.hold(sessions, range),
            false => app.hold_later(sessions, range),
        })
    }

    pub fn fenced(&self, range: LbnRange) -> Fence {
        self.app.as_ref().map_or(Fence::Open, |app| app.fenced(range))
    }

    pub fn fence(&self) -> String {
        self.app.as_ref().map(DiskHooks::fence).unwrap_or_default()
    }

    pub fn wants_clear(&self) -> bool {
        self.app.as_ref().is_some_and(DiskHooks::wants_clear)
    }

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

    /// Copies the bytes of a block that is to be written into a buffer. Returns whether the block's owner has the
    /// bytes.
    pub fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        match self.background_of(wanted.session) {
            Some(background) => background.buffer(wanted, into),
            None => self.app.as_mut().is_some_and(|app| app.buffer(wanted, into)),
        }
    }
}
