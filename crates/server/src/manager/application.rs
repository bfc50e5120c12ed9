//! The task manager as the application of its disk: the calls that the disk makes to the task manager.

use super::owner::Owner;
use super::{LIVE_TASKS_MAX, TaskManager};
use crate::disk::{Fence, SnapshotRequests, Spare};
use crate::jobs::job::Copying;
use device::{Answer, BackgroundRequest, Snapshot};
use scheduler::{Application, Record, Sessions, Wanted};
use units::{Bytes, Duration, Instant, LbnRange, Op, SessionId};

/// The message to a client whose request meets blocks that a reorganisation is moving.
pub(super) const FENCED: &str =
    "a reorganisation is moving these blocks; wait until the reorganisation is done (`freeblock tasks`)";

impl crate::DiskHooks for TaskManager {
    fn hold(&mut self, sessions: &mut dyn Sessions, range: LbnRange) -> bool {
        TaskManager::hold(self, sessions, range)
    }

    fn hold_later(&mut self, sessions: &mut dyn Sessions, range: LbnRange) -> bool {
        self.hold_until_copied(sessions, range, Copying::Later)
    }

    fn writing(&mut self, range: LbnRange) {
        TaskManager::writing(self, range);
    }

    fn wrote(&mut self, range: LbnRange) {
        TaskManager::wrote(self, range);
    }

    fn set_writers(&mut self, writers: usize) {
        TaskManager::set_writers(self, writers);
    }

    fn set_changing(&mut self, changing: bool) {
        self.changing = changing;
    }

    fn moved(&mut self, session: SessionId, bytes: Bytes, when: Spare) {
        if let Some(Owner::Task(id)) = self.owners.owner(session)
            && let Some(live) = self.live.get_mut(&id)
        {
            match when {
                Spare::Gap => live.free_bytes += bytes.get(),
                Spare::Idle => live.idle_bytes += bytes.get(),
            }
        }
    }

    fn taken(&self) -> Option<String> {
        self.is_taken()
    }

    fn snapshots(&self) -> Vec<Snapshot> {
        let disk = &self.config.disk.name;
        let of = |(id, live): (&u64, &super::Live)| {
            let name = live.job.snapshot()?;
            Some(Snapshot { number: *id, name: format!("{disk}@{name}") })
        };
        self.live.iter().filter_map(of).collect()
    }

    fn snapshot_requests(&self, now: Instant) -> Vec<SnapshotRequests> {
        let of = |live: &super::Live| {
            let name = format!("{}@{}", self.config.disk.name, live.job.snapshot()?);
            Some(SnapshotRequests { name, requests: live.job.requests(now)? })
        };
        self.live.values().filter_map(of).collect()
    }

    fn due(&self) -> Option<Instant> {
        self.live.values().filter_map(|live| live.job.due()).min()
    }

    fn do_due(&mut self, sessions: &mut dyn Sessions, now: Instant) -> bool {
        self.now = self.now.max(now);
        let due = |live: &super::Live| live.job.due().is_some_and(|at| at <= now);
        let ids: Vec<u64> = self.live.iter().filter(|(_, live)| due(live)).map(|(id, _)| *id).collect();
        for id in ids {
            self.with(sessions, id, |live, cx| live.job.do_due(cx));
            self.settle(sessions, id);
        }
        false
    }

    fn promoted(&mut self, session: SessionId, part: LbnRange, took: Duration) {
        if let Some(Owner::Task(id)) = self.owners.owner(session)
            && let Some(live) = self.live.get_mut(&id)
        {
            live.job.promoted(session, part, took);
        }
    }

    fn set_time(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    fn read_snapshot(&mut self, sessions: &mut dyn Sessions, request: &BackgroundRequest) -> bool {
        let Some(id) = request.snapshot else { return false };
        let taken = self.with(sessions, id, |live, cx| live.job.read(cx, request)).is_some();
        self.settle(sessions, id);
        taken
    }

    fn leave(&mut self, sessions: &mut dyn Sessions, client: u64) -> Vec<u64> {
        let ids: Vec<u64> = self.live.keys().copied().collect();
        let leave = |id| self.with(sessions, id, |live, cx| live.job.leave(cx, client)).unwrap_or_default();
        ids.into_iter().flat_map(leave).collect()
    }

    fn answer(&mut self) -> Option<Answer> {
        self.answers.pop_front()
    }

    fn fenced(&self, range: LbnRange) -> Fence {
        TaskManager::fenced(self, range)
    }

    fn fence(&self) -> String {
        self.shut().unwrap_or_else(|| FENCED.into())
    }

    fn wants_clear(&self) -> bool {
        TaskManager::wants_clear(self)
    }

    fn clear(&mut self, sessions: &mut dyn Sessions) {
        TaskManager::clear(self, sessions);
    }

    fn wants_flush(&mut self) -> bool {
        TaskManager::wants_flush(self)
    }

    fn flushed(&mut self, sessions: &mut dyn Sessions, result: Result<(), &device::Failure>) {
        TaskManager::flushed(self, sessions, &result.map_err(ToString::to_string));
    }
}

impl Application for TaskManager {
    fn done(&mut self, sessions: &mut dyn Sessions, done: &Record, bytes: &[u8], now: Instant) {
        self.now = self.now.max(now);
        let owner = self.owners.owner(done.session);
        if let Some(owner) = owner.filter(|_| done.op == Op::Write) {
            self.took(owner, done.range);
        }
        match owner {
            Some(Owner::Task(id)) => {
                self.with(sessions, id, |live, cx| {
                    live.rings.add(done.range, cx.disk.capacity);
                    live.job.done(cx, done, bytes);
                });
                self.settle(sessions, id);
            }
            Some(Owner::Client(id)) => {
                if let Some(client) = self.client_sessions.get_mut(&id) {
                    let mut calls = self.owners.calls_of(Owner::Client(id), sessions);
                    client.done(&mut calls, done, bytes);
                }
            }
            None => {}
        }
        self.keep_wanted(sessions);
    }

    fn buffer(&mut self, wanted: &Wanted, into: &mut [u8]) -> bool {
        let owner = self.owners.owner(wanted.session);
        if self.live.values().any(|live| live.job.needs(wanted.range)) {
            // No more entries are needed: the core asks again for the bytes of a block that it did not get.
            if self.wanted.len() < LIVE_TASKS_MAX && !self.wanted.contains(&wanted.range) {
                self.wanted.push(wanted.range);
            }
            return false;
        }
        if self.is_ending(wanted.range) || self.hold_for_sums(wanted.range) {
            return false;
        }
        let given = match owner {
            Some(Owner::Task(id)) => self.live.get_mut(&id).is_some_and(|live| live.job.buffer(wanted, into)),
            // A write of a client session waits while a task has the disk, or these blocks, for itself.
            Some(Owner::Client(_))
                if self.is_taken().is_some() || self.fenced(wanted.range) != Fence::Open =>
            {
                false
            }
            Some(Owner::Client(id)) => {
                self.client_sessions.get_mut(&id).is_some_and(|client| client.buffer(wanted, into))
            }
            None => false,
        };
        if let Some(owner) = owner.filter(|_| given) {
            self.gave(owner, wanted.range);
        }
        given
    }
}
