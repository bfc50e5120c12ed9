//! What is told of tasks.

use super::Desk;
use super::spec::{Kind, TaskSpec};
use super::table::{Content, Table, TaskState};
use scheduler::Harm;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tracing::warn;
use units::Duration;

/// How a task stands, as JSON has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskStatus {
    /// Its number; no other task of the disk ever had it.
    pub id: u64,
    /// The disk.
    pub disk: String,
    /// Its kind.
    pub kind: Kind,
    /// How it stands.
    pub state: TaskState,
    /// Why, if there is more to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// 1 to 100.
    pub priority: u8,
    /// When it was asked for, in seconds since 1970.
    pub created_unix_s: f64,
    /// Since when it stands so.
    pub changed_unix_s: f64,
    /// When it should be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_unix_s: Option<u64>,
    /// Whether it will not be, at its present rate, or was not.
    pub misses_deadline: bool,
    /// Blocks that are done, durably.
    pub done: u64,
    /// Blocks of it; 0 as long as that is not known.
    pub blocks: u64,
    /// Bytes of the blocks that are done.
    pub bytes: u64,
    /// Bytes a second over the last minute; `None` where nothing can be said yet.
    pub rate_bytes_per_s: Option<f64>,
    /// How long the rest takes at that rate. The last blocks are the slowest, so early on this is too little.
    pub eta_s: Option<f64>,
    /// Bytes that it has read or written in gaps of the foreground, for nothing, since the daemon started.
    #[serde(default)]
    pub free_bytes: u64,
    /// The same in idle time.
    #[serde(default)]
    pub idle_bytes: u64,
    /// What background work in idle time has cost the foreground while this task ran, since the daemon started.
    pub harm: TaskHarm,
    /// Sectors that could not be read or written, at most 1000 of them.
    pub bad_lbns: Vec<u64>,
    /// How many more there are.
    pub bad_more: u64,
    /// Of a scrub with checksums: what it has found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<Content>,
    /// What was asked for.
    pub spec: TaskSpec,
}

/// Harm: what was done in rotational gaps costs nothing, what was done in idle time may make the next request late, or
/// early.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskHarm {
    /// Time of the foreground at the head while the task ran, in milliseconds.
    pub foreground_ms: f64,
    /// By how much requests that ended an idle period were late.
    pub late_ms: f64,
    /// By how much they were early.
    pub early_ms: f64,
    /// What was lost in all, as a part of the foreground's time; negative where more was gained.
    pub share: f64,
    /// Whether other tasks ran meanwhile: then this is theirs too.
    pub shared: bool,
}

/// How tasks of a kind have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Tasks that failed since the daemon started.
    pub failed: u64,
    /// When the last one failed, in milliseconds since 1970, as far as the journal knows.
    pub last_failure_unix_ms: Option<u64>,
    /// When the last one was done.
    pub last_success_unix_ms: Option<u64>,
}

impl Outcome {
    /// Those of a journal: nothing has failed since the daemon started.
    pub(super) fn of_each(table: &Table) -> BTreeMap<Kind, Self> {
        let mut all: BTreeMap<Kind, Self> = Kind::ALL.map(|kind| (kind, Self::default())).into();
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

impl Desk {
    /// How tasks of each kind have ended.
    pub fn outcomes(&self) -> Vec<(Kind, Outcome)> {
        self.outcomes.iter().map(|(kind, outcome)| (*kind, *outcome)).collect()
    }

    /// All tasks that are remembered, the oldest first.
    pub fn tasks(&self) -> Vec<TaskStatus> {
        self.table.iter().filter_map(|(id, _)| self.task(id)).collect()
    }

    /// One of them.
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
        // A task is done when the journal holds its last figures: before that they are not claimed.
        let noted = !self.saving.iter().any(|(_, other, _)| *other == id);
        let state = if entry.state == TaskState::Done && !noted { TaskState::Running } else { entry.state };
        let runs = state == TaskState::Running && !stopped;
        let eta = live.zip(left).filter(|_| runs).and_then(|(live, left)| live.pace.eta(left));
        let now = self.unix_ms as f64 / 1e3;
        let end = if state.is_over() { entry.changed as f64 / 1e3 } else { now + eta.unwrap_or(0.0) };
        let ms = |d: Duration| d.as_nanos() as f64 / 1e6;
        let harm = live.map_or_else(Harm::default, |live| live.harm);
        Some(TaskStatus {
            id,
            disk: self.setup.disk.name.clone(),
            kind: entry.spec.kind,
            state: if stopped { TaskState::Paused } else { state },
            reason: if stopped {
                self.trouble()
            } else {
                entry.reason.clone().or_else(|| self.left.get(&id).cloned())
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
            spec: entry.spec.clone(),
        })
    }

    /// Says so once in the log when a task is about to miss its deadline, or has.
    pub(super) fn warn_of_deadline(&mut self, id: u64) {
        let Some(deadline) = self.table.get(id).and_then(|entry| entry.spec.deadline_unix_s) else { return };
        let Some(task) = self.task(id).filter(|task| task.misses_deadline) else { return };
        let Some(live) = self.live.get_mut(&id).filter(|live| !live.late) else { return };
        live.late = true;
        let to_go = task.eta_s.map(f64::round);
        warn!(disk = task.disk, task = id, kind = %task.kind, deadline_unix_s = deadline, to_go_s = to_go, "misses its deadline");
    }
}
