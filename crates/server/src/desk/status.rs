//! What is told of tasks.

use super::spec::{Kind, TaskSpec};
use super::table::TaskState;
use serde::{Deserialize, Serialize};

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
    /// What background work in idle time has cost the foreground while this task ran, since the daemon started.
    pub harm: TaskHarm,
    /// Sectors that could not be read or written, at most 1000 of them.
    pub bad_lbns: Vec<u64>,
    /// How many more there are.
    pub bad_more: u64,
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
