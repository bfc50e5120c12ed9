//! The figures of background requests.

use super::Background;
use crate::disk::latency::Latency;
use scheduler::BackgroundWait;
use serde::Serialize;
use units::{Duration, Instant};

/// The figures of a disk's background requests since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BackgroundStatus {
    /// The response times of reads that were done.
    pub reads: Latency,
    /// The bytes of the reads.
    pub read_bytes: u64,
    /// The response times of writes that were done.
    pub writes: Latency,
    /// The bytes of the writes.
    pub written_bytes: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that are not answered yet.
    pub waiting: usize,
    /// The time for which the oldest unanswered request has waited, in microseconds.
    pub oldest_wait_us: f64,
    /// The reason why requests wait, if it is known.
    pub wait: Option<WaitStatus>,
    /// The seconds until the floor makes the oldest request foreground work. `None` without a floor, or while other
    /// requests are foreground work.
    pub floor_to_go_s: Option<f64>,
    /// The floor in words, if there is one.
    pub floor: Option<String>,
    /// The requests that the floor has made foreground work, and their cost.
    pub promoted: PromotedStatus,
    /// The memory for blocks that are read ahead.
    pub memory: MemoryStatus,
}

/// The reason why background requests wait.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WaitStatus {
    /// `paused` (the snapshot is paused), `fence` (a task has these sectors for itself), or a reason of the core:
    /// `requests`, `silence`, `harm`, `measurement`, or `gaps_only`.
    pub reason: &'static str,
    /// The time without foreground requests that the core waits for, in seconds, if it waits for that.
    pub silence_s: Option<f64>,
    /// The seconds until the requests continue if no foreground request arrives before, if that is known.
    pub to_go_s: Option<f64>,
}

impl WaitStatus {
    /// Returns a status with a reason and without times.
    fn of(reason: &'static str) -> Self {
        Self { reason, silence_s: None, to_go_s: None }
    }

    /// Returns the reason why the core makes background work wait at `now`. `None` for a reason without a name in the
    /// status.
    pub(in crate::disk) fn of_core(wait: BackgroundWait, now: Instant) -> Option<Self> {
        let to_go = |until: Instant| Some(until.saturating_since(now).as_secs_f64());
        let of_silence = |reason, silence: Duration, until| {
            Some(Self { reason, silence_s: Some(silence.as_secs_f64()), to_go_s: to_go(until) })
        };
        match wait {
            BackgroundWait::Foreground => Some(Self::of("requests")),
            BackgroundWait::Silence { silence, until } => of_silence("silence", silence, until),
            BackgroundWait::Harm { silence, until } => of_silence("harm", silence, until),
            BackgroundWait::Measurement { until } => {
                Some(Self { to_go_s: to_go(until), ..Self::of("measurement") })
            }
            BackgroundWait::GapsOnly => Some(Self::of("gaps_only")),
            _ => None,
        }
    }
}

impl BackgroundStatus {
    /// Adds the core's reason for the wait, if requests wait for no other reason.
    pub(in crate::disk) fn explained(self, wait: Option<WaitStatus>) -> Self {
        let wait = self.wait.or(wait.filter(|_| self.waiting > 0));
        Self { wait, ..self }
    }
}

/// The use of the memory for blocks that are read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStatus {
    /// Bytes of blocks that are in memory, or are being read into memory.
    pub held_bytes: u64,
    /// The bound on `held_bytes`: the present share of one export in the memory of the disk, or in that of all disks.
    pub most_bytes: u64,
    /// The memory of all disks together, if it is bounded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_disks: Option<AllDisks>,
    /// Bytes that reads got from memory.
    pub given_bytes: u64,
    /// Bytes that were dropped before a read asked for them.
    pub unread_bytes: u64,
}

/// The memory that all disks of a daemon hold together for blocks that are read ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AllDisks {
    /// Bytes of blocks that are in memory, or are being read into memory.
    pub held_bytes: u64,
    /// The bound on `held_bytes` (`background_memory` at the top of the configuration).
    pub most_bytes: u64,
}

/// The figures of the requests to a snapshot since the daemon's start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SnapshotRequests {
    /// The name of the snapshot's export.
    pub name: String,
    /// The requests.
    #[serde(flatten)]
    pub requests: BackgroundStatus,
}

/// The cost of a floor: the work that was promoted to foreground work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PromotedStatus {
    /// Requests that waited longer than the floor permits, and became foreground work.
    pub requests: u64,
    /// Bytes that were read or written as foreground work for these requests.
    pub bytes: u64,
    /// The time from the sending of the promoted commands to their completion, in microseconds: an upper bound on the
    /// device's time that the foreground lost.
    pub device_us: f64,
}

impl Background {
    pub fn status(&self, now: Instant) -> BackgroundStatus {
        let fenced = self.fenced.values().map(|asked| asked.arrived);
        let held = self.held.values().map(|held| held.arrived);
        let writes = self.writes.values().map(|write| write.arrived).chain(held);
        let oldest = self.reads.values().map(|read| read.arrived).chain(fenced).chain(writes).min();
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        let waiting = self.reads.len() + self.fenced.len() + self.writes.len() + self.held.len();
        let only_fenced = waiting > 0 && waiting == self.fenced.len();
        let own = only_fenced.then_some("fence").or((waiting > 0 && self.suspended).then_some("paused"));
        BackgroundStatus {
            reads: Latency::of(&self.times),
            read_bytes: self.read_bytes,
            failed: self.failed,
            writes: Latency::of(&self.write_times),
            written_bytes: self.written_bytes,
            waiting,
            wait: own.map(WaitStatus::of),
            floor_to_go_s: self.floor_due().map(|at| at.saturating_since(now).as_secs_f64()),
            oldest_wait_us: oldest.map_or(0.0, |arrived| us(now.saturating_since(arrived))),
            floor: self.floor.map(|floor| floor.to_string()),
            promoted: PromotedStatus { device_us: us(self.promoted_time), ..self.promoted },
            memory: self.memory.status(),
        }
    }
}
