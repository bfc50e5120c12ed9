//! All tasks of a disk, as the journal has them.

use super::spec::TaskSpec;
use apps::snapshot::VolumeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The most bad sectors that are listed; further ones are counted.
pub const LISTED_BAD_SECTORS_MAX: usize = 1_000;

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// It will begin: its files are being read, or another task has to end first.
    Queued,
    /// It is at work.
    Running,
    /// It is stopped, on request or because it is blocked; its progress is kept.
    Paused,
    /// It has done all its blocks.
    Done,
    /// It ended without success.
    Failed,
    /// It was cancelled on request.
    Cancelled,
}

impl TaskState {
    /// Returns whether the state is final.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Done | Self::Failed | Self::Cancelled)
    }
}

impl std::fmt::Display for TaskState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        })
    }
}

/// The durable progress of a task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Blocks done.
    pub done: u64,
    /// Blocks of the task; 0 until that is known.
    pub blocks: u64,
    /// Bytes of the blocks done.
    pub bytes: u64,
    /// Sectors that could not be read or written, at most [`LISTED_BAD_SECTORS_MAX`] of them.
    pub bad: Vec<u64>,
    /// The number of further ones.
    pub bad_more: u64,
    /// The records of the task's log in the state directory, kept blocks or the memory of a reorganisation, that were
    /// acknowledged when these figures were saved; 0 without a log. A log that has fewer is an older copy.
    #[serde(default)]
    pub records: u64,
    /// The results of a scrub with checksums.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Content>,
    /// The results of a comparison of disks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub differences: Option<Differences>,
}

/// The results of a comparison of disks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Differences {
    /// LBNs at which the members do not agree, the same on each member, at most [`LISTED_BAD_SECTORS_MAX`] of them.
    pub lbns: Vec<u64>,
    /// The number of further ones.
    pub more: u64,
    /// Blocks that clients wrote at every reading.
    pub unsettled: u64,
    /// Sectors that could not be read, with the disk, at most [`LISTED_BAD_SECTORS_MAX`] of them. Their blocks are not
    /// compared.
    pub unreadable: Vec<Unreadable>,
}

/// A sector of a disk that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// The disk.
    pub disk: String,
    /// The sector.
    pub lbn: u64,
}

/// The results of a scrub with checksums.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Blocks whose sums the scrub recorded.
    pub recorded: u64,
    /// Blocks that match their recorded sums.
    pub verified: u64,
    /// The first sectors of blocks that were read without error and do not match, at most [`LISTED_BAD_SECTORS_MAX`]
    /// of them.
    pub wrong: Vec<u64>,
    /// The number of further ones.
    pub wrong_more: u64,
}

/// The checksum store of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SumStore {
    pub path: PathBuf,
    /// The random number that identifies the store.
    pub id: u64,
    /// Sectors in a block.
    pub block: u64,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskEntry {
    pub spec: TaskSpec,
    /// Milliseconds since 1970.
    pub created: u64,
    pub changed: u64,
    /// A random number, the identity of its image.
    pub image: u64,
    pub state: TaskState,
    pub reason: Option<String>,
    pub figures: Figures,
    /// The task's own record of its progress; empty for a task that is over.
    pub saved: Vec<u8>,
}

/// A change of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub(crate) enum Event {
    /// A task was created.
    Created { id: u64, spec: TaskSpec, at: u64, image: u64 },
    /// A task changed its state.
    State { id: u64, state: TaskState, reason: Option<String>, at: u64 },
    /// A task changed its priority.
    Priority { id: u64, priority: u8 },
    /// A task changed its deadline.
    Deadline { id: u64, deadline_unix_s: Option<u64> },
    /// Progress is durable, with the task's own record.
    Progress {
        id: u64,
        figures: Figures,
        #[serde(skip)]
        saved: Vec<u8>,
    },
    /// A task that is over was dropped.
    Forgotten { id: u64 },
    /// The store that learns of the disk's writes from here on.
    Sums { store: Option<SumStore> },
    /// Numbers up to this one are used.
    Used { id: u64 },
    /// The disk: its volume in hexadecimal digits, its serial number or place, and its shape.
    Disk {
        volume: String,
        device: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shape: Option<DiskShape>,
    },
    /// Places stay closed after a task that did not end well.
    Closed { closed: Option<Closed> },
}

/// The size of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DiskShape {
    pub sectors: u64,
    pub sector_bytes: u64,
}

impl std::fmt::Display for DiskShape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} sectors of {} bytes", self.sectors, self.sector_bytes)
    }
}

/// The accesses that are closed to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Closed {
    /// Writes.
    Writes,
    /// Reads and writes.
    All,
}

/// The tasks by their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Table {
    entries: BTreeMap<u64, TaskEntry>,
    /// Those that are over, in the order of their ends: the clock may have been set meanwhile.
    over: Vec<u64>,
    /// The highest number used.
    used: u64,
    sums: Option<SumStore>,
    volume: Option<VolumeId>,
    device: Option<String>,
    shape: Option<DiskShape>,
    closed: Option<Closed>,
}

impl Table {
    pub fn get(&self, id: u64) -> Option<&TaskEntry> {
        self.entries.get(&id)
    }

    /// Returns the checksum store, if the disk has one.
    pub fn sums(&self) -> Option<&SumStore> {
        self.sums.as_ref()
    }

    /// Returns the disk's volume; none if nothing was ever recorded.
    pub fn volume(&self) -> Option<VolumeId> {
        self.volume
    }

    /// Returns the serial number or the place of the disk.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Returns the size of the disk.
    pub fn shape(&self) -> Option<DiskShape> {
        self.shape
    }

    /// Returns whether it matters which disk it is: a task is not over, or places stay closed.
    pub fn needs_its_disk(&self) -> bool {
        self.closed.is_some() || self.live().next().is_some()
    }

    /// Returns the tasks that are not over.
    pub fn live(&self) -> impl Iterator<Item = (u64, &TaskEntry)> {
        self.iter().filter(|(_, entry)| !entry.state.is_over())
    }

    /// Returns the accesses that stay closed after a task that did not end well.
    pub fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// Marks numbers up to this one as used.
    pub fn has_used(&mut self, id: u64) {
        self.used = self.used.max(id);
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, &TaskEntry)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    /// Returns the tasks that are over, the last one that ended first.
    pub fn over(&self) -> impl Iterator<Item = (u64, &TaskEntry)> {
        self.over.iter().rev().filter_map(|id| Some((*id, self.entries.get(id)?)))
    }

    /// Returns a number that no task has had.
    pub fn next_id(&self) -> u64 {
        self.used.saturating_add(1)
    }

    /// Applies an event; returns whether it fits. If not, nothing has changed.
    pub fn apply(&mut self, event: Event) -> bool {
        match event {
            Event::Created { id, spec, at, image } => {
                if id <= self.used {
                    return false;
                }
                self.used = id;
                let entry = TaskEntry {
                    spec,
                    created: at,
                    changed: at,
                    image,
                    state: TaskState::Queued,
                    reason: None,
                    figures: Figures::default(),
                    saved: Vec::new(),
                };
                self.entries.insert(id, entry);
            }
            Event::State { id, state, reason, at } => {
                // A final state never changes.
                let Some(entry) = self.entries.get_mut(&id).filter(|e| !e.state.is_over()) else {
                    return false;
                };
                (entry.state, entry.reason, entry.changed) = (state, reason, at);
                if state.is_over() {
                    entry.saved = Vec::new();
                    self.over.push(id);
                }
            }
            Event::Priority { id, priority } => match self.entries.get_mut(&id) {
                Some(entry) => entry.spec.priority = priority,
                None => return false,
            },
            Event::Deadline { id, deadline_unix_s } => match self.entries.get_mut(&id) {
                Some(entry) => entry.spec.deadline_unix_s = deadline_unix_s,
                None => return false,
            },
            Event::Progress { id, figures, saved } => {
                let Some(entry) = self.entries.get_mut(&id).filter(|e| !e.state.is_over()) else {
                    return false;
                };
                (entry.figures, entry.saved) = (figures, saved);
            }
            Event::Forgotten { id } => {
                if !self.entries.get(&id).is_some_and(|e| e.state.is_over()) {
                    return false;
                }
                self.entries.remove(&id);
                self.over.retain(|other| *other != id);
            }
            Event::Sums { store } => self.sums = store,
            Event::Used { id } => self.has_used(id),
            Event::Disk { volume, device, shape } => match u128::from_str_radix(&volume, 16) {
                Ok(volume) => {
                    (self.volume, self.device, self.shape) = (Some(VolumeId(volume)), device, shape)
                }
                Err(_) => return false,
            },
            Event::Closed { closed } => self.closed = closed,
        }
        true
    }

    /// Returns the events that make this table from an empty one.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        if let Some(volume) = self.volume {
            let (device, shape) = (self.device.clone(), self.shape);
            events.push(Event::Disk { volume: format!("{:032x}", volume.0), device, shape });
        }
        for (&id, entry) in &self.entries {
            let TaskEntry { spec, created, changed, image, state, reason, figures, saved } = entry.clone();
            events.push(Event::Created { id, spec, at: created, image });
            // Only for a task that is not over: later progress is refused.
            if figures != Figures::default() || !saved.is_empty() {
                events.push(Event::Progress { id, figures, saved });
            }
            if !state.is_over() {
                events.push(Event::State { id, state, reason, at: changed });
            }
        }
        for (&id, entry) in self.over.iter().filter_map(|id| Some((id, self.entries.get(id)?))) {
            let (state, reason, at) = (entry.state, entry.reason.clone(), entry.changed);
            events.push(Event::State { id, state, reason, at });
        }
        if self.sums.is_some() {
            events.push(Event::Sums { store: self.sums.clone() });
        }
        if self.closed.is_some() {
            events.push(Event::Closed { closed: self.closed });
        }
        events.push(Event::Used { id: self.used });
        events
    }
}
