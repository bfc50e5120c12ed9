//! The table of tasks and its journal: records changes of tasks in both, and acts when a journal entry is durable.

use super::{COMPACTED_BYTES_MIN, REMEMBERED_TASKS_MAX, SAVE_EVERY, TaskChange, TaskManager, Waiter};
use crate::jobs::job::DurableProgress;
use crate::task::file_request::{FileOp, FileQueue, FileRequest};
use crate::task::journal::{self, Note};
use crate::task::spec::TaskKind;
use crate::task::table::{Event, TaskEntry, TaskState};
use scheduler::Sessions;
use std::collections::VecDeque;
use tracing::{error, info, warn};
use units::Duration;

impl TaskManager {
    /// Records a change in the table and the journal. Returns the journal entry that makes the change durable.
    pub(super) fn note(&mut self, event: Event) -> u64 {
        let bytes = journal::encode([&event]);
        if !self.table.apply(event) {
            debug_assert!(false, "an event that does not fit");
            return self.seq;
        }
        self.seq += 1;
        self.appended = self.appended.saturating_add(bytes.len() as u64);
        self.write(bytes, false);
        if self.appended > COMPACTED_BYTES_MIN.max(self.compacted.saturating_mul(2)) {
            self.compact();
        }
        self.send_file_requests();
        self.seq
    }

    /// Replaces the journal's entries by one that holds the whole table.
    pub(super) fn compact(&mut self) {
        let bytes = journal::encode(&self.table.events());
        self.seq += 1;
        (self.compacted, self.appended) = (bytes.len() as u64, 0);
        self.write(bytes, true);
        self.send_file_requests();
    }

    fn write(&mut self, bytes: Vec<u8>, replace: bool) {
        let (seq, number, note) = (self.seq, self.volume.0 as u64, Note::of(&self.table).encode());
        let op = FileOp::Journal { seq, bytes, replace, number, note };
        self.file_requests.push_back(FileRequest { queue: FileQueue::Journal, op });
    }

    pub(super) fn state(&mut self, id: u64, state: TaskState, reason: Option<String>) -> u64 {
        let Some(entry) = self.table.get(id) else { return self.seq };
        if entry.state.is_over() || (entry.state, &entry.reason) == (state, &reason) {
            return self.seq;
        }
        let (kind, why) = (entry.spec.kind, reason.as_deref().unwrap_or_default());
        let is_news = self.is_news(id, state, reason.as_deref());
        let disk = &self.config.disk.name;
        match state {
            _ if !is_news => {}
            TaskState::Failed => error!(disk, task = id, %kind, why, "failed"),
            TaskState::Paused if reason.is_some() => warn!(disk, task = id, %kind, why, "cannot go on"),
            _ => info!(disk, task = id, %kind, why, "{state}"),
        }
        if state.is_over() {
            self.count_bad(id);
            self.outcomes.entry(kind).or_default().add(state, self.unix_ms);
        }
        self.note(Event::State { id, state, reason, at: self.unix_ms })
    }

    /// Returns whether a new state of a task is logged. A task that is blocked and keeps trying is logged once for each
    /// reason, until the task makes progress.
    fn is_news(&mut self, id: u64, state: TaskState, reason: Option<&str>) -> bool {
        let done = self.claimed.get(&id).map_or(0, |figures| figures.done);
        let Some(live) = self.live.get_mut(&id) else { return true };
        match (state, reason, &live.logged) {
            (TaskState::Paused, Some(why), Some((logged, _))) if logged == why => false,
            (TaskState::Paused, Some(why), _) => {
                live.logged = Some((why.to_owned(), done));
                true
            }
            (TaskState::Queued | TaskState::Running, _, Some(_)) => false,
            _ => {
                live.logged = None;
                true
            }
        }
    }

    /// Logs that a task that was blocked has made progress again.
    pub(super) fn log_progress(&mut self, id: u64) {
        let done = self.claimed.get(&id).map_or(0, |figures| figures.done);
        let (Some(live), Some(entry)) = (self.live.get_mut(&id), self.table.get(id)) else { return };
        if entry.state == TaskState::Running && live.logged.take_if(|(_, before)| done > *before).is_some() {
            info!(disk = self.config.disk.name, task = id, kind = %entry.spec.kind, "goes on");
        }
    }

    /// Drops the oldest tasks that are over, if more than [`REMEMBERED_TASKS_MAX`] tasks are remembered.
    pub(super) fn forget_old(&mut self) {
        while self.table.iter().count() > REMEMBERED_TASKS_MAX {
            // Keep of each kind the last task that succeeded and the last that failed: operators ask for them.
            let last: Vec<u64> = TaskKind::ALL
                .into_iter()
                .flat_map(|kind| [(kind, TaskState::Done), (kind, TaskState::Failed)])
                .filter_map(|(kind, state)| {
                    let mut all = self.table.iter().rev();
                    all.find(|(_, e)| (e.spec.kind, e.state) == (kind, state)).map(|(id, _)| id)
                })
                .collect();
            let may_go = |(id, entry): &(u64, &TaskEntry)| entry.state.is_over() && !last.contains(id);
            let Some((id, _)) = self.table.iter().find(may_go) else { return };
            self.left.remove(&id);
            self.note(Event::Forgotten { id });
            self.claimed.remove(&id);
        }
    }

    pub(super) fn journaled(&mut self, sessions: &mut dyn Sessions, seq: u64, failed: Option<String>) {
        let result = match &failed {
            Some(why) => Err(format!("the journal of tasks cannot be written: {why}")),
            None => Ok(()),
        };
        let (due, later) = std::mem::take(&mut self.waiters).into_iter().partition(|(at, _)| *at <= seq);
        self.waiters = later;
        let due: Vec<(u64, Waiter)> = due;
        due.into_iter().for_each(|(_, waiter)| waiter(result.clone()));
        let disk = &self.config.disk.name;
        match (&self.trouble, &result) {
            (None, Err(why)) => error!(disk, why, "no task can begin, and no progress is kept"),
            (Some(_), Ok(())) => info!(disk, "the journal of tasks can be written again"),
            _ => {}
        }
        self.trouble = result.err();
        self.journaled_sums(sessions, seq, self.trouble.is_some());
        let created: Vec<u64> = {
            let all = std::mem::take(&mut self.creating);
            let (due, later): (VecDeque<TaskChange>, _) =
                all.into_iter().partition(|change| change.seq <= seq);
            self.creating = later;
            due.into_iter().map(|change| change.task).collect()
        };
        if let Some(why) = self.trouble.clone() {
            self.end_without_journal(Duration::ZERO);
            for id in created {
                self.end(sessions, id, TaskState::Failed, Some(why.clone()));
            }
            return;
        }
        self.durable = self.durable.max(seq);
        self.let_go();
        for id in created {
            self.begin_one(sessions, id);
        }
        while self.saving.front().is_some_and(|(change, _)| change.seq <= seq) {
            let Some((TaskChange { task: id, .. }, figures)) = self.saving.pop_front() else { return };
            self.claimed.insert(id, figures);
            self.with(sessions, id, |live, cx| live.job.saved(cx));
            self.settle(sessions, id);
        }
    }

    /// Records a task's new progress in the journal, if any: at once, or when the interval since the last entry is
    /// over.
    pub(super) fn save(&mut self, id: u64, at_once: bool) {
        let Some(live) = self.live.get_mut(&id).filter(|live| at_once || live.save_at <= self.now) else {
            return;
        };
        let Some(DurableProgress { figures, saved }) = live.job.save() else { return };
        live.save_at = self.now + SAVE_EVERY + Duration::from_micros(saved.len() as u64);
        self.warn_of_bad(id, &figures);
        let seq = self.note(Event::Progress { id, figures: figures.clone(), saved });
        self.saving.push_back((TaskChange { task: id, seq }, figures));
    }
}
