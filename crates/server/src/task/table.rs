//! The table of all tasks of a disk, as the journal has them, and the events that change the table.

use super::spec::TaskSpec;
use apps::snapshot::VolumeId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The most bad sectors of a task that are listed. Further ones are counted.
pub const LISTED_BAD_SECTORS_MAX: usize = 1_000;

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskState {
    /// The task will begin: its files are being opened, or it waits for another task or for clients' requests.
    Queued,
    /// The task is at work.
    Running,
    /// The task is stopped, on request or because it is blocked. Its progress is kept.
    Paused,
    /// The task has done all its blocks.
    Done,
    /// The task ended without success.
    Failed,
    /// The task was cancelled on request.
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
    /// The task's number of blocks; 0 until that is known.
    pub blocks: u64,
    /// Bytes of the blocks done.
    pub bytes: u64,
    /// Sectors that could not be read or written, at most [`LISTED_BAD_SECTORS_MAX`] of them.
    pub bad: Vec<u64>,
    /// The number of further bad sectors, which are not listed.
    pub bad_more: u64,
    /// The number of acknowledged records, when these figures were saved, of the task's log in the state directory:
    /// kept blocks, or the state of a reorganisation; 0 without a log. A log with fewer records is an older copy.
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
    /// The LBNs on the members at which their contents do not agree, at most [`LISTED_BAD_SECTORS_MAX`] of them.
    pub lbns: Vec<u64>,
    /// The number of further differing LBNs, which are not listed.
    pub more: u64,
    /// Blocks that could not be compared, because clients wrote to them at every try.
    pub unsettled: u64,
    /// Sectors that could not be read, at most [`LISTED_BAD_SECTORS_MAX`] of them. Their blocks are not compared.
    pub unreadable: Vec<Unreadable>,
}

/// A sector of a disk that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreadable {
    /// The name of the disk.
    pub disk: String,
    /// The sector's LBN on that disk.
    pub lbn: u64,
}

/// The results of a scrub with checksums.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// Blocks whose sums the scrub recorded.
    pub recorded: u64,
    /// Blocks that match their recorded sums.
    pub verified: u64,
    /// The first LBNs of blocks that were read without error and do not match their sums, at most
    /// [`LISTED_BAD_SECTORS_MAX`] of them.
    pub wrong: Vec<u64>,
    /// The number of further blocks that do not match their sums.
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

/// A task in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TaskEntry {
    pub spec: TaskSpec,
    /// When the task was created and when its state last changed, in milliseconds since 1970.
    pub created: u64,
    pub changed: u64,
    /// A random number that identifies the task's image or other files.
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
    /// A task has made durable progress. `saved` is the task's own record, from which it continues.
    Progress {
        id: u64,
        figures: Figures,
        #[serde(skip)]
        saved: Vec<u8>,
    },
    /// A task that is over was dropped.
    Forgotten { id: u64 },
    /// The disk got another checksum store, or has none from here on.
    Sums { store: Option<SumStore> },
    /// Task numbers up to this one have been used.
    Used { id: u64 },
    /// The disk of the table: the volume in hexadecimal digits, the serial number or path, and the size.
    Disk {
        volume: String,
        device: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        shape: Option<DiskShape>,
    },
    /// The disk is closed to clients, because a repair ended a task that was writing to it; or is open again.
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

/// The accesses to a disk that are closed to clients.
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
    /// The tasks that are over, in the order of their ends. Their times may be in another order, if the clock was set.
    over: Vec<u64>,
    /// The highest task number used.
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

    /// Returns the permanent id of the disk for its images; `None` if no disk was ever recorded.
    pub fn volume(&self) -> Option<VolumeId> {
        self.volume
    }

    /// Returns the serial number or the path of the disk.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    pub fn shape(&self) -> Option<DiskShape> {
        self.shape
    }

    /// Returns whether the table may only be used for its own disk: a task is not over, or the disk is closed to
    /// clients.
    pub fn needs_its_disk(&self) -> bool {
        self.closed.is_some() || self.live().next().is_some()
    }

    /// Returns the tasks that are not over.
    pub fn live(&self) -> impl Iterator<Item = (u64, &TaskEntry)> {
        self.iter().filter(|(_, entry)| !entry.state.is_over())
    }

    /// Returns the accesses that are closed to clients because a repair ended a task that was writing to the disk.
    pub fn closed(&self) -> Option<Closed> {
        self.closed
    }

    /// Marks task numbers up to this one as used.
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

    /// Applies an event. Returns whether the event fits the table; if not, nothing has changed.
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
            // Progress comes before the final state, after which the table refuses progress.
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
