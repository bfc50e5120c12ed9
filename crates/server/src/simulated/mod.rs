//! A disk with its task manager on virtual time: no thread runs, and its files are in memory.

mod memory_files;

pub use memory_files::MemoryFiles;

use crate::disk::Disk;
use crate::files::JournalError;
use crate::files::worker::FileWorker;
use crate::manager::{ManagerConfig, TaskManager};
use crate::task::file_request::{FileQueue, FileReply, FileRequest};
use crate::task::journal;
use device::Device;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use units::Instant;

/// The state directory in the file system in memory.
const STATE: &str = "/state";

/// A daemon of one disk. The caller lets time pass, and decides when each file operation is executed.
pub struct Simulated<D> {
    disk: Disk<D, TaskManager>,
    files: MemoryFiles,
    workers: BTreeMap<FileQueue, FileWorker>,
    file_requests: VecDeque<FileRequest>,
}

impl<D: Device> std::fmt::Debug for Simulated<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulated").field("disk", &self.disk).finish_non_exhaustive()
    }
}

impl<D: Device> Simulated<D> {
    /// Starts a daemon with the tasks in `files`; `unix_ms` is the time of day, in milliseconds since 1970.
    ///
    /// # Errors
    /// The journal is of another version or of another disk.
    pub fn start(
        mut disk: Disk<D, TaskManager>,
        config: ManagerConfig,
        files: MemoryFiles,
        now: Instant,
        unix_ms: u64,
    ) -> Result<Self, JournalError> {
        let journal = journal::open(&files, Path::new(STATE))?;
        disk.host(TaskManager::open(config, journal)?);
        disk.call(now, |manager, sessions| manager.begin(sessions, now, unix_ms));
        Ok(Self { disk, files, workers: BTreeMap::new(), file_requests: VecDeque::new() })
    }

    /// Returns the disk.
    pub fn disk(&self) -> &Disk<D, TaskManager> {
        &self.disk
    }

    /// Returns the disk, for requests and calls to its task manager.
    pub fn disk_mut(&mut self) -> &mut Disk<D, TaskManager> {
        &mut self.disk
    }

    /// Makes the task manager tick, as the daemon does each half second.
    pub fn tick(&mut self, now: Instant, unix_ms: u64) {
        let harm = self.disk.core().harm();
        self.disk.call(now, |manager, sessions| manager.tick(sessions, now, unix_ms, harm));
    }

    /// Executes the oldest file operation of one queue, and reports its result. `nth`, modulo the number of queues
    /// that have operations, chooses the queue. Returns whether there was an operation.
    pub fn do_file_request(&mut self, now: Instant, nth: usize) -> bool {
        let Some(reply) = self.execute(nth) else { return false };
        if let Some(reply) = reply {
            self.disk.call(now, |manager, sessions| manager.file_done(sessions, reply, now));
        }
        true
    }

    fn execute(&mut self, nth: usize) -> Option<Option<FileReply>> {
        let requested = std::iter::from_fn(|| self.disk.app_mut()?.next_file_request());
        self.file_requests.extend(requested);
        let queues: BTreeSet<FileQueue> = self.file_requests.iter().map(|request| request.queue).collect();
        let chosen = queues.iter().nth(nth % queues.len().max(1))?;
        let at = self.file_requests.iter().position(|request| request.queue == *chosen)?;
        let FileRequest { queue, op } = self.file_requests.remove(at)?;
        let files = &self.files;
        let new = || FileWorker::new(queue, Arc::new(files.clone()), PathBuf::from(STATE));
        let result = self.workers.entry(queue).or_insert_with(new).execute(op);
        Some(result.map(|result| FileReply { queue, result }))
    }

    /// Ends the daemon as kill -9 does. Before that, executes requested file operations for as long as they need at
    /// most `calls` changing calls in all; no result is reported. Returns the files.
    pub fn kill(mut self, calls: u64) -> MemoryFiles {
        self.files.stop_after(Some(calls));
        while self.execute(0).is_some() {}
        self.files.stop_after(None);
        self.files
    }
}
