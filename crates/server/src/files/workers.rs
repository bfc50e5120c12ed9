//! A thread for every queue with file operations.

use super::journal::{self, Journal, JournalError};
use super::places::Places;
use super::worker::FileWorker;
use super::{Files, Machine, make_regular, own_directory};
use crate::manager::file_request::{FileOp, FileQueue, FileReply, FileRequest};
use crate::runtime::Peers;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use thiserror::Error;

/// The receiver of replies, called on the queue's thread: it has to pass them to the task manager, on the disk's.
pub type ReplySink = Arc<dyn Fn(FileReply) + Send + Sync>;

/// The executors of one task manager's file operations.
///
/// A queue's thread ends with its task, the journal's with the workers. Operations requested before are still executed.
pub struct FileWorkers {
    state: PathBuf,
    files: Arc<dyn Files>,
    replies: ReplySink,
    queues: BTreeMap<FileQueue, (Sender<FileOp>, std::thread::JoinHandle<()>)>,
    ended: Vec<std::thread::JoinHandle<()>>,
    peers: Peers,
    /// Keeps other processes out of the directory.
    _lock: fs::File,
}

/// The reason why a state directory cannot be used.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The directory cannot be read or made.
    #[error("{0}; give a state directory that can be written")]
    Directory(#[from] io::Error),
    /// Another process uses it.
    #[error("another process uses it; end that, or give each daemon a state directory of its own")]
    Busy,
    /// The journal is of another version or disk.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Locks a state directory for this process.
pub(crate) fn lock(state: &Path) -> Result<fs::File, OpenError> {
    let place = state.join("lock");
    let file = make_regular(&place);
    let file = file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", place.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(OpenError::Busy),
        Err(fs::TryLockError::Error(error)) => Err(error.into()),
    }
}

impl std::fmt::Debug for FileWorkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileWorkers").field("state", &self.state).finish_non_exhaustive()
    }
}

impl FileWorkers {
    /// Opens a state directory, which is created if missing, and its journal, for
    /// [`TaskManager::open`](crate::manager::TaskManager::open). If the journal is damaged, records that in the
    /// directory.
    ///
    /// # Errors
    /// The directory cannot be made, another process uses it, or the journal is of another version.
    pub fn new(state: &Path, replies: ReplySink) -> Result<(Self, Journal), OpenError> {
        own_directory(state)?;
        let lock = lock(state)?;
        let files: Arc<dyn Files> = Arc::new(Machine::default());
        let journal = journal::open(&*files, state)?;
        let (state, queues, ended) = (state.into(), BTreeMap::new(), Vec::new());
        let peers = Peers::default();
        Ok((Self { state, files, replies, queues, ended, peers, _lock: lock }, journal))
    }

    /// Limits the files that users name to these places. To be called before the first request.
    pub fn confine(&mut self, places: Places) {
        self.files = Arc::new(Machine::within(places));
    }

    /// Lets comparisons read these disks. To be called before the first request.
    pub fn among(&mut self, peers: Peers) {
        self.peers = peers;
    }

    /// Passes a request to its queue.
    ///
    /// # Errors
    /// The system gives no thread for it.
    pub fn submit(&mut self, FileRequest { queue, op }: FileRequest) -> io::Result<()> {
        let ends = matches!(op, FileOp::End);
        let (sender, _) = match self.queues.entry(queue) {
            std::collections::btree_map::Entry::Occupied(at) => at.into_mut(),
            std::collections::btree_map::Entry::Vacant(at) => {
                let (sender, file_requests) = channel();
                let worker = FileWorker::new(queue, Arc::clone(&self.files), self.state.clone());
                let mut worker = worker.among(self.peers.clone());
                let replies = Arc::clone(&self.replies);
                let name = format!("{queue:?}");
                let thread = std::thread::Builder::new().name(name).spawn(move || {
                    while let Ok(op) = file_requests.recv() {
                        if let Some(result) = worker.execute(op) {
                            replies(FileReply { queue, result });
                        }
                    }
                })?;
                at.insert((sender, thread))
            }
        };
        // A thread that is gone has panicked; its operations stay undone, and unreported.
        let _ = sender.send(op);
        if ends && let Some((_, thread)) = self.queues.remove(&queue) {
            self.ended.retain(|thread| !thread.is_finished());
            self.ended.push(thread);
        }
        Ok(())
    }
}

/// Waits until all operations are executed.
impl Drop for FileWorkers {
    fn drop(&mut self) {
        let queues = std::mem::take(&mut self.queues);
        let threads = queues.into_values().map(|(_, thread)| thread);
        for thread in threads.chain(std::mem::take(&mut self.ended)) {
            let _ = thread.join();
        }
    }
}
