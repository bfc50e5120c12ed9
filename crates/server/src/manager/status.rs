//! The status of tasks.

use super::TaskManager;
use crate::task::spec::{TaskKind, TaskSpec};
use crate::task::table::{Content, Differences, Table, TaskState};
use scheduler::Harm;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tracing::warn;
use units::Duration;

/// The status of a task, as in the JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// The task's number. No other task of the disk ever has this number.
    pub id: u64,
    /// The name of the disk.
    pub disk: String,
    /// The kind of task.
    pub kind: TaskKind,
    /// The state of the task.
    pub state: TaskState,
    /// The reason for the state, if it needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The task's share of the gaps relative to other tasks, 1 to 100.
    pub priority: u8,
    /// When the task was created, in seconds since 1970.
    pub created_unix_s: f64,
    /// When the task got its present state, in seconds since 1970.
    pub changed_unix_s: f64,
    /// When the task should be done, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_unix_s: Option<u64>,
    /// Whether the task has missed its deadline, or will miss it at the present rate.
    pub misses_deadline: bool,
    /// Blocks whose completion is durable.
    pub done: u64,
    /// The task's number of blocks; 0 until that is known.
    pub blocks: u64,
    /// Bytes of the blocks that are done.
    pub bytes: u64,
    /// Bytes a second over the last minute; `None` if there is too little data.
    pub rate_bytes_per_s: Option<f64>,
    /// The seconds that the rest takes at the present rate. The last blocks are the slowest, so an early estimate is
    /// too low.
    pub eta_s: Option<f64>,
    /// Bytes read or written in gaps of the foreground since the daemon started.
    #[serde(default)]
    pub free_bytes: u64,
    /// Bytes read or written in idle time since the daemon started.
    #[serde(default)]
    pub idle_bytes: u64,
    /// The delays that background work in idle time caused while this task ran, since the daemon started.
    pub harm: TaskHarm,
    /// Sectors that could not be read or written, at most 1000 of them.
    pub bad_lbns: Vec<u64>,
    /// The number of further bad sectors, which are not listed.
    pub bad_more: u64,
    /// The results of a scrub with checksums.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<Content>,
    /// The results of a comparison of disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differences: Option<Differences>,
    /// The specification of the task.
    pub spec: TaskSpec,
}

/// The added response time of the foreground while a task ran. Work in rotational gaps costs nothing, but work in idle
/// time may make the next request late, or early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskHarm {
    /// The time for which the head served the foreground while the task ran, in milliseconds.
    pub foreground_ms: f64,
    /// The total delay of requests that ended an idle period.
    pub late_ms: f64,
    /// The total time by which requests that ended an idle period were early.
    pub early_ms: f64,
    /// The net delay as a share of the foreground's time; negative if requests were early on balance.
    pub share: f64,
    /// Whether other tasks ran at the same time, so that the figures are of all these tasks together.
    pub shared: bool,
}

/// How tasks of a kind have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Tasks that failed since the daemon started.
    pub failed: u64,
    /// When a task of this kind last failed, in milliseconds since 1970; `None` if the journal has no such task.
    pub last_failure_unix_ms: Option<u64>,
    /// When a task of this kind last succeeded, in milliseconds since 1970; `None` if the journal has no such task.
    pub last_success_unix_ms: Option<u64>,
}

impl Outcome {
    /// Returns the outcomes of the tasks in a journal. The number of failures begins with 0, because it counts since
    /// the daemon's start.
    pub(super) fn of_each(table: &Table) -> BTreeMap<TaskKind, Self> {
        let mut all: BTreeMap<TaskKind, Self> = TaskKind::ALL.map(|kind| (kind, Self::default())).into();
        for (_, entry) in table.iter() {
            all.entry(entry.spec.kind).or_default().add(entry.state, entry.changed);
        }
        all.values_mut().for_each(|outcome| outcome.failed = 0);
        all
    }

    pub(super) fn add(&mut self, state: TaskState, unix_ms: u64) {
        match state {
            TaskState::Done => self.last_success_unix_ms = self.last_success_unix_ms.max(Some(unix_ms)),
            TaskState::Failed => {
                self.failed += 1;
                self.last_failure_unix_ms = self.last_failure_unix_ms.max(Some(unix_ms));
            }
            _ => {}
        }
    }
}

impl TaskManager {
    /// Returns how tasks of each kind have ended.
    pub fn outcomes(&self) -> Vec<(TaskKind, Outcome)> {
        self.outcomes.iter().map(|(kind, outcome)| (*kind, *outcome)).collect()
    }

    /// Returns all remembered tasks, the oldest first.
    pub fn tasks(&self) -> Vec<TaskStatus> {
        self.table.iter().filter_map(|(id, _)| self.task(id)).collect()
    }

    /// Returns the status of a task; `None` if no task with this number is remembered.
    pub fn task(&self, id: u64) -> Option<TaskStatus> {
        let entry = self.table.get(id)?;
        let live = self.live.get(&id);
        let figures = self.claimed.get(&id).cloned().unwrap_or_default();
        let rate = live.and_then(|live| live.pace.rate());
        let left = match figures.done {
            0 => None,
            done => Some((figures.bytes / done).saturating_mul(figures.blocks.saturating_sub(done))),
        };
        let stopped = self.damage.is_some() && !entry.state.is_over();
        // Report a task as done only when the journal holds its last figures.
        let noted = !self.saving.iter().any(|(change, _)| change.task == id);
        let state = if entry.state == TaskState::Done && !noted { TaskState::Running } else { entry.state };
        let runs = state == TaskState::Running && !stopped;
        // A snapshot lasts until it is ended, so it has no remaining time.
        let grows = runs && entry.spec.kind != TaskKind::Snapshot;
        let eta = live.zip(left).filter(|_| grows).and_then(|(live, left)| live.pace.eta(left));
        let now = self.unix_ms as f64 / 1e3;
        let end = if state.is_over() { entry.changed as f64 / 1e3 } else { now + eta.unwrap_or(0.0) };
        let ms = |d: Duration| d.as_nanos() as f64 / 1e6;
        let harm = live.map_or_else(Harm::default, |live| live.harm);
        Some(TaskStatus {
            id,
            disk: self.config.disk.name.clone(),
            kind: entry.spec.kind,
            state: if stopped { TaskState::Paused } else { state },
            reason: if stopped {
                self.trouble()
            } else {
                let stuck = live.filter(|live| live.paused).and_then(|live| live.stuck.as_ref());
                // This reason is shown until the target has answered the request to remove the bytes of a cancelled
                // task.
                let unremoved = || {
                    let to = self.discarding.get(&id).and(entry.spec.to.as_ref())?.display();
                    Some(format!("{to}: the target does not answer, and still has the bytes written to it"))
                };
                entry.reason.as_ref().or(stuck).or_else(|| self.left.get(&id)).cloned().or_else(unremoved)
            },
            priority: entry.spec.priority,
            created_unix_s: entry.created as f64 / 1e3,
            changed_unix_s: entry.changed as f64 / 1e3,
            deadline_unix_s: entry.spec.deadline_unix_s,
            misses_deadline: entry.spec.deadline_unix_s.is_some_and(|deadline| end > deadline as f64),
            done: figures.done,
            blocks: figures.blocks,
            bytes: figures.bytes,
            rate_bytes_per_s: rate.filter(|_| runs),
            eta_s: eta,
            free_bytes: live.map_or(0, |live| live.free_bytes),
            idle_bytes: live.map_or(0, |live| live.idle_bytes),
            harm: TaskHarm {
                foreground_ms: ms(harm.foreground),
                late_ms: ms(harm.late),
                early_ms: ms(harm.early),
                share: harm.share(),
                shared: live.is_some_and(|live| live.shared),
            },
            bad_lbns: figures.bad,
            bad_more: figures.bad_more,
            checksums: figures.content,
            differences: figures.differences,
            spec: entry.spec.clone(),
        })
    }

    /// Logs once that a task has missed its deadline, or is about to.
    pub(super) fn warn_of_deadline(&mut self, id: u64) {
        let Some(deadline) = self.table.get(id).and_then(|entry| entry.spec.deadline_unix_s) else { return };
        let Some(task) = self.task(id).filter(|task| task.misses_deadline) else { return };
        let Some(live) = self.live.get_mut(&id).filter(|live| !live.late) else { return };
        live.late = true;
        let to_go = task.eta_s.map(f64::round);
        warn!(disk = task.disk, task = id, kind = %task.kind, deadline_unix_s = deadline, to_go_s = to_go, "misses its deadline");
    }
}
