//! Tasks that are over while the journal has not yet recorded their end. A daemon that is killed now would continue
//! such a task after its restart. So until the entry is durable, the writes that the task blocked stay blocked, and the
//! files that the task needs to continue stay.

use super::owner::Owner;
use super::{LIVE_TASKS_MAX, TaskManager, Waiter};
use crate::jobs::job::meets;
use crate::task::file_request::{FILE_TIMEOUT, FileOp, FileQueue, FileRequest};
use crate::task::spec::What;
use crate::task::table::{Event, TaskState};
use scheduler::Sessions;
use std::ops::Range;
use tracing::{error, warn};
use units::{Duration, LbnRange};

/// The time after which the old block contents that an ended task kept are removed although the journal has not
/// answered: some seconds before [`FILE_TIMEOUT`], at which the writes that wait are released in any case.
const REMOVE_AFTER: Duration = Duration::from_secs(25);
const _: () = assert!(REMOVE_AFTER.as_nanos() < FILE_TIMEOUT.as_nanos());

/// A task that is over while the journal has not yet recorded its end.
#[derive(Debug)]
pub(super) struct Ending {
    id: u64,
    seq: u64,
    /// When the task ended, in time that the daemon has run.
    since: Duration,
    holds: Holds,
    /// The file requests to send when the journal has recorded the end.
    later: Vec<FileRequest>,
}

/// The writes that stay blocked until the end of a task is in the journal.
#[derive(Debug)]
enum Holds {
    Nothing,
    /// Writes to the whole disk, because the continued task would read the disk as it was at the task's start.
    Reads,
    /// Writes to the LBNs that the continued task would overwrite, in order; `None` is the whole disk.
    Writes(Option<Vec<Range<u64>>>),
}

/// The message if neither the journal entry for a task's end nor the removal of its kept blocks succeeds.
const MAY_GO_ON: &str = "the task has ended, but neither the journal entry for the end nor the removal of the saved blocks succeeded: after a restart the task may continue with newer bytes; cancel the task then";

impl TaskManager {
    /// Ends a task in a final state. Returns the journal entry that makes the end durable.
    pub(super) fn end(
        &mut self,
        sessions: &mut dyn Sessions,
        id: u64,
        state: TaskState,
        reason: Option<String>,
    ) -> u64 {
        let what = self.table.get(id).and_then(|entry| entry.spec.check(&self.config.disk).ok());
        let replaced = self.live.get(&id).is_some_and(|live| live.job.replaces_all());
        let discard = self.discard(id);
        let later = self.with(sessions, id, |live, cx| {
            let places = live.job.places();
            let before = cx.file_requests.len();
            live.job.close(cx);
            cx.target(FileOp::End);
            cx.kept(FileOp::End);
            let ordered = cx.file_requests.split_off(before);
            let cut_off = state == TaskState::Cancelled && what.as_ref().is_some_and(What::is_snapshot);
            let (mut later, now): (Vec<FileRequest>, Vec<FileRequest>) = ordered
                .into_iter()
                .partition(|file_request| file_request.queue == FileQueue::Kept(id) || cut_off);
            if let Some(file_request) = discard.filter(|_| cut_off) {
                later.insert(0, file_request);
            }
            cx.file_requests.extend(now);
            (later, places)
        });
        self.live.remove(&id);
        self.gone(Owner::Task(id));
        self.alone.remove(&id);
        self.memory.remove(&id);
        self.hushing.retain(|other| *other != id);
        self.creating.retain(|change| change.task != id);
        self.owners.forget(Owner::Task(id));
        let seq = self.state(id, state, reason);
        if state == TaskState::Done && replaced && self.table.closed().is_some() {
            // The disk holds the complete content of a backup: clients may access it again.
            self.note(Event::Closed { closed: None });
        }
        if let Some((later, places)) = later {
            let holds = match what {
                Some(what) if what.writes() => Holds::Writes(places),
                Some(what) if what.is_snapshot() => Holds::Reads,
                _ => Holds::Nothing,
            };
            if later.iter().any(|file_request| matches!(file_request.op, FileOp::Discard { .. })) {
                self.discarding.entry(id).or_default();
            }
            self.ending.push(Ending { id, seq, since: self.ran, holds, later });
            self.let_go();
        }
        seq
    }

    /// Returns whether a task whose end is not in the journal yet blocks writes to this range.
    pub(super) fn is_ending(&self, range: LbnRange) -> bool {
        self.ending.iter().any(|ending| match &ending.holds {
            Holds::Nothing => false,
            Holds::Reads | Holds::Writes(None) => true,
            Holds::Writes(Some(places)) => meets(places, range),
        })
    }

    /// Unblocks the writes of the tasks whose end the journal has recorded, and sends their last file requests.
    pub(super) fn let_go(&mut self) {
        let durable = self.durable;
        let (over, not_yet) = std::mem::take(&mut self.ending).into_iter().partition(|e| e.seq <= durable);
        self.ending = not_yet;
        let over: Vec<Ending> = over;
        self.file_requests.extend(over.into_iter().flat_map(|ending| ending.later));
        self.send_file_requests();
    }

    /// Sends the last file requests of all ended tasks, because the daemon ends and the journal will report no more.
    pub(super) fn let_go_of_all(&mut self) {
        self.file_requests
            .extend(std::mem::take(&mut self.ending).into_iter().flat_map(|ending| ending.later));
    }

    /// Requests the removal of the old block contents that an ended backup, replica or snapshot kept, if it ended at
    /// least `least_age` ago: the journal cannot record the end, and the disk's writes must not wait for ever. Without
    /// these contents the task fails if it is restarted, and a removal needs no space. After the removal the writes are
    /// released. Ranges that a restarted restore or reorganisation would overwrite stay blocked, because newer bytes
    /// would be lost there.
    pub(super) fn end_without_journal(&mut self, least_age: Duration) {
        let ran = self.ran;
        let is_due =
            |ending: &&mut Ending| matches!(ending.holds, Holds::Reads) && ending.since + least_age <= ran;
        for ending in self.ending.iter_mut().filter(is_due) {
            let (kept, later) = std::mem::take(&mut ending.later)
                .into_iter()
                .partition(|file_request| file_request.queue == FileQueue::Kept(ending.id));
            ending.later = later;
            let kept: Vec<FileRequest> = kept;
            self.file_requests.extend(kept);
        }
        self.send_file_requests();
    }

    /// Handles the report that the old block contents of an ended task are removed, or why not. The writes that wait
    /// are released either way.
    pub(super) fn removed_kept(&mut self, id: u64, failed: Option<String>) {
        let held = |ending: &&mut Ending| ending.id == id && matches!(ending.holds, Holds::Reads);
        let (ending, disk) = (self.ending.iter_mut().find(held), &self.config.disk.name);
        match (&ending, failed) {
            (Some(_), Some(why)) => error!(disk, task = id, why, "{MAY_GO_ON}"),
            (None, Some(why)) => {
                error!(disk, task = id, why, "the blocks that an ended task kept are not removed")
            }
            (_, None) => {}
        }
        if let Some(ending) = ending {
            ending.holds = Holds::Nothing;
        }
    }

    /// Releases the writes that wait for files that do not answer: no write may wait for ever.
    pub(super) fn give_up_waiting(&mut self, sessions: &mut dyn Sessions) {
        self.give_up_sums(sessions);
        let (ran, disk) = (self.ran, &self.config.disk.name);
        let is_old = |ending: &Ending, least: Duration| ending.since + least <= ran;
        let held = |ending: &&mut Ending| matches!(ending.holds, Holds::Reads);
        for ending in self.ending.iter_mut().filter(held).filter(|ending| is_old(ending, FILE_TIMEOUT)) {
            ending.holds = Holds::Nothing;
            error!(disk, task = ending.id, "the state directory does not answer: {MAY_GO_ON}");
        }
        if self.ending.iter().any(|ending| is_old(ending, REMOVE_AFTER)) {
            self.end_without_journal(REMOVE_AFTER);
        }
    }

    /// Requests the removal of files of ended tasks: a daemon that was killed after it recorded the end may have left
    /// them.
    pub(super) fn sweep(&mut self) {
        // At most this number of tasks can have been ending when the daemon was killed.
        let last: Vec<u64> = self.table.over().map(|(id, _)| id).take(LIVE_TASKS_MAX).collect();
        let live = self.table.iter().filter(|(_, entry)| !entry.state.is_over());
        let targets: Vec<_> = live.filter_map(|(_, entry)| entry.spec.to.clone()).collect();
        for id in last {
            self.file_requests.push_back(FileRequest { queue: FileQueue::Kept(id), op: FileOp::End });
            let Some(entry) = self.table.get(id).filter(|entry| entry.state == TaskState::Cancelled) else {
                continue;
            };
            // A task that is not over may write to a file of this name.
            let named = targets.iter().any(|to| Some(to) == entry.spec.to.as_ref());
            if let Some(file_request) = self.discard(id).filter(|_| !named) {
                self.file_requests
                    .extend([file_request, FileRequest { queue: FileQueue::Target(id), op: FileOp::End }]);
            }
        }
        self.send_file_requests();
    }

    /// Returns the request to remove the output of a backup or replica.
    fn discard(&self, id: u64) -> Option<FileRequest> {
        let entry = self.table.get(id)?;
        let what = entry.spec.check(&self.config.disk).ok()?;
        let (path, replica) = match what {
            What::Backup { to, .. } => (to, false),
            What::Replica { to, .. } => (to, true),
            _ => return None,
        };
        Some(FileRequest {
            queue: FileQueue::Target(id),
            op: FileOp::Discard { path, image: entry.image, replica },
        })
    }

    /// Handles the report that the output of a cancelled backup is removed, or the description of what is left of it.
    pub(super) fn discarded(&mut self, id: u64, left: Option<String>) {
        if let Some(left) = left {
            warn!(disk = self.config.disk.name, task = id, left, "cancelled");
            self.left.insert(id, left);
        }
        for waiter in self.discarding.remove(&id).into_iter().flatten() {
            waiter(Ok(()));
        }
    }

    /// Calls `waiter` when the output of a cancelled task is removed or cannot be removed. Calls at once if no removal
    /// of this task's output is under way.
    pub(crate) fn when_discarded(&mut self, id: u64, waiter: Waiter) {
        match self.discarding.get_mut(&id) {
            Some(waiters) => waiters.push(waiter),
            None => waiter(Ok(())),
        }
    }
}
