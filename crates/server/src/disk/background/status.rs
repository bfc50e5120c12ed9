//! The figures of background requests.

use super::Background;
use crate::disk::latency::Latency;
use serde::Serialize;
use units::{Duration, Instant};

/// The figures of a disk's background requests since its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BackgroundStatus {
    /// Reads that were done.
    pub reads: Latency,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes that were done.
    pub writes: Latency,
    /// Their bytes.
    pub written_bytes: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that are not answered yet.
    pub waiting: usize,
    /// The time for which the oldest of them has waited, in microseconds.
    pub oldest_wait_us: f64,
    /// The floor in words, if there is one.
    pub floor: Option<String>,
    /// The requests that the floor has made foreground work, and their cost.
    pub promoted: PromotedStatus,
    /// The blocks that are read before they are asked for.
    pub memory: MemoryStatus,
}

/// The use of the memory for blocks that are read before they are asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStatus {
    /// Bytes of blocks that are in memory, or are registered to be.
    pub held_bytes: u64,
    /// The most of these: a share of what the background export and the snapshots of the disk hold together.
    pub most_bytes: u64,
    /// Bytes that reads were given from there.
    pub given_bytes: u64,
    /// Bytes that were dropped before a read asked for them.
    pub unread_bytes: u64,
}

/// The figures of the requests to a snapshot since the daemon's start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SnapshotRequests {
    /// The name of its export.
    pub name: String,
    /// The requests.
    #[serde(flatten)]
    pub requests: BackgroundStatus,
}

/// The cost of a floor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PromotedStatus {
    /// Requests that waited longer than the floor permits, and became foreground work.
    pub requests: u64,
    /// Bytes that were read as foreground work for them.
    pub bytes: u64,
    /// The time from the sending of these commands until their completion, in microseconds: at most this much of the
    /// device's time was not the foreground's.
    pub device_us: f64,
}

impl Background {
    pub fn status(&self, now: Instant) -> BackgroundStatus {
        let fenced = self.fenced.values().map(|asked| asked.arrived);
        let held = self.held.values().map(|held| held.arrived);
        let writes = self.writes.values().map(|write| write.arrived).chain(held);
        let oldest = self.reads.values().map(|read| read.arrived).chain(fenced).chain(writes).min();
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        BackgroundStatus {
            reads: Latency::of(&self.times),
            read_bytes: self.read_bytes,
            failed: self.failed,
            writes: Latency::of(&self.write_times),
            written_bytes: self.written_bytes,
            waiting: self.reads.len() + self.fenced.len() + self.writes.len() + self.held.len(),
            oldest_wait_us: oldest.map_or(0.0, |arrived| us(now.saturating_since(arrived))),
            floor: self.floor.map(|floor| floor.to_string()),
            promoted: PromotedStatus { device_us: us(self.promoted_time), ..self.promoted },
            memory: self.memory.status(),
        }
    }
}
