//! A thread for each queue of file operations.

use super::worker::FileWorker;
use crate::bounded::{FILES_END_WAIT, join_until};
use crate::file_system::{Files, Machine, Places, make_regular, own_directory};
use crate::handle::Peers;
use crate::task::file_request::{FileOp, FileQueue, FileReply, FileRequest, FileResult};
use crate::task::journal::{self, Damaged, Journal, JournalError, LOCK, journal_path};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use thiserror::Error;

/// The receiver of replies. It is called on a queue's thread, and has to pass the reply on to the disk's thread.
pub type ReplySink = Arc<dyn Fn(FileReply) + Send + Sync>;

/// The executors of one task manager's file operations.
///
/// A queue's thread ends with its task, and the journal's thread with the workers. Operations requested before are
/// still executed.
pub struct FileWorkers {
    state: PathBuf,
    files: Arc<dyn Files>,
    replies: ReplySink,
    queues: BTreeMap<FileQueue, (Sender<FileOp>, JoinHandle<()>)>,
    ended: Vec<(FileQueue, JoinHandle<()>)>,
    /// Whether the daemon ends, so that no write of a client waits for a block to be kept.
    ending: Arc<AtomicBool>,
    /// The most time to wait for the threads at the end.
    end_wait: Duration,
    /// The bytes in the stack of each thread.
    stack_bytes: usize,
    peers: Peers,
    /// The lock on the state directory, held until the last thread has ended. A byte in the lock file says that a
    /// journal exists.
    lock: Arc<fs::File>,
}

/// The bytes in the stack of a thread: the default of the standard library.
const STACK_BYTES: usize = 2 << 20;

/// The reason why a state directory cannot be used.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The directory cannot be read or made.
    #[error("{0}; give a state directory that can be written")]
    Directory(#[from] io::Error),
    /// Another process uses the directory.
    #[error("another process uses it; end that, or give each daemon a state directory of its own")]
    Busy,
    /// The journal is of another version or disk.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Locks a state directory for this process.
pub(crate) fn lock(state: &Path) -> Result<fs::File, OpenError> {
    let place = state.join(LOCK);
    let file = make_regular(&place);
    let file = file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", place.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(OpenError::Busy),
        Err(fs::TryLockError::Error(error)) => Err(error.into()),
    }
}

/// Writes a byte to the lock file if a journal exists, so that a later start notices if the journal is lost. If the
/// write fails, the next start repeats it.
fn note_journal(state: &Path, lock: &fs::File) {
    if journal_path(state).exists() {
        let _ = lock.write_all_at(b"\n", 0).and_then(|()| lock.sync_data());
    }
}

impl std::fmt::Debug for FileWorkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileWorkers").field("state", &self.state).finish_non_exhaustive()
    }
}

impl FileWorkers {
    /// Opens a state directory, and its journal, for [`TaskManager::open`](crate::manager::TaskManager::open). A
    /// missing directory is created. If the journal is damaged, records that in the directory.
    ///
    /// # Errors
    /// The directory cannot be made, another process uses it, or the journal is of another version.
    pub fn new(state: &Path, replies: ReplySink) -> Result<(Self, Journal), OpenError> {
        own_directory(state)?;
        let lock = Arc::new(lock(state)?);
        let files: Arc<dyn Files> = Arc::new(Machine::default());
        let journal = journal::open(&*files, state)?;
        let workers = Self {
            state: state.into(),
            files,
            replies,
            queues: BTreeMap::new(),
            ended: Vec::new(),
            ending: Arc::default(),
            end_wait: FILES_END_WAIT,
            stack_bytes: STACK_BYTES,
            peers: Peers::default(),
            lock,
        };
        note_journal(state, &workers.lock);
        Ok((workers, journal))
    }

    /// Records in the directory that the tasks are stopped.
    pub(crate) fn note_damage(&self, damage: &mut Damaged) {
        journal::note(&*self.files, &self.state, damage);
    }

    /// Limits the files that users name to these places. Called before the first request.
    pub fn confine(&mut self, places: Places) {
        self.files = Arc::new(Machine::within(places));
    }

    /// Lets comparisons read these disks. Called before the first request.
    pub fn among(&mut self, peers: Peers) {
        self.peers = peers;
    }

    /// Passes a request to its queue. If the system gives no thread for the queue, the reply contains the error.
    pub fn submit(&mut self, FileRequest { queue, op }: FileRequest) {
        let ends = matches!(op, FileOp::End);
        let (sender, _) = match self.queues.entry(queue) {
            std::collections::btree_map::Entry::Occupied(at) => at.into_mut(),
            std::collections::btree_map::Entry::Vacant(at) => {
                let (sender, file_requests) = channel();
                let worker = FileWorker::new(queue, Arc::clone(&self.files), self.state.clone());
                let mut worker = worker.among(self.peers.clone());
                let replies = Arc::clone(&self.replies);
                let ending = Arc::clone(&self.ending);
                let (state, lock) = (self.state.clone(), Arc::clone(&self.lock));
                let mut noted = queue != FileQueue::Journal;
                let name = format!("{queue:?}");
                let thread = Builder::new().name(name).stack_size(self.stack_bytes);
                let thread = thread.spawn(move || {
                    while let Ok(op) = file_requests.recv() {
                        if ending.load(Ordering::Acquire) && matches!(op, FileOp::Keep { .. }) {
                            continue;
                        }
                        if let Some(result) = worker.execute(op) {
                            // The lock file is written before the journal's first entry is acknowledged, because the
                            // daemon may be killed right after that.
                            if !noted && matches!(result, FileResult::Journal { failed: None, .. }) {
                                note_journal(&state, &lock);
                                noted = true;
                            }
                            replies(FileReply { queue, result });
                        }
                    }
                    drop(lock);
                });
                match thread {
                    Ok(thread) => at.insert((sender, thread)),
                    Err(error) => {
                        let why = format!("the system gives no thread for its files: {error}; begin anew");
                        tracing::error!(state = %self.state.display(), ?queue, why);
                        if let Some(result) = op.refused(queue, why) {
                            (self.replies)(FileReply { queue, result });
                        }
                        return;
                    }
                }
            }
        };
        // Sending fails only if the thread has panicked; its operations stay undone, without a reply.
        let _ = sender.send(op);
        if ends && let Some((_, thread)) = self.queues.remove(&queue) {
            self.ended.retain(|(_, thread)| !thread.is_finished());
            self.ended.push((queue, thread));
        }
    }
}

impl FileWorkers {
    /// Waits for a bounded time until all operations are executed. Clients' writes are over, so blocks are no longer
    /// kept for them. Returns the queues that still have operations after that time.
    fn end(&mut self) -> Vec<FileQueue> {
        self.ending.store(true, Ordering::Release);
        // All senders are dropped first, so that all threads end at the same time.
        let queues = std::mem::take(&mut self.queues).into_iter();
        let mut threads: Vec<_> = queues.map(|(queue, (_, thread))| (queue, thread)).collect();
        threads.append(&mut self.ended);
        let until = Instant::now() + self.end_wait;
        let mut hanging = Vec::new();
        for (queue, thread) in threads {
            // A thread that has panicked has logged that itself.
            if join_until(thread, until).is_none() {
                hanging.push(queue);
                tracing::error!(
                    state = %self.state.display(),
                    ?queue,
                    waited = ?self.end_wait,
                    "file operations did not end; the daemon ends without them"
                );
            }
        }
        hanging
    }
}

impl Drop for FileWorkers {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bounded::ends;
    use crate::task::budget::Budget;
    use apps::backup::image::{Header, OPEN};
    use apps::snapshot::{Shape, SnapshotId, VolumeId};
    use std::sync::Mutex;
    use units::{Lbn, Sectors};

    /// Returns workers in a new directory, and the replies so far. The first reply of queue `hangs` blocks until the
    /// returned sender is used or dropped.
    fn hanging(test: &str, hangs: FileQueue) -> (FileWorkers, Sender<()>, Arc<Mutex<Vec<FileReply>>>) {
        let state = std::env::temp_dir().join(format!("freeblock-workers-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&state);
        let (release, held) = channel::<()>();
        let (held, reported) = (Mutex::new(held), Arc::<Mutex<Vec<FileReply>>>::default());
        let replies = Arc::clone(&reported);
        let sink: ReplySink = Arc::new(move |reply: FileReply| {
            if reply.queue == hangs {
                let _ = held.lock().unwrap().recv();
            }
            replies.lock().unwrap().push(reply);
        });
        let (workers, _) = FileWorkers::new(&state, sink).unwrap();
        (workers, release, reported)
    }

    #[test]
    fn files_that_hang_do_not_keep_the_daemon_from_ending() {
        let journal = |seq| FileRequest {
            queue: FileQueue::Journal,
            op: FileOp::Journal { seq, bytes: Vec::new(), replace: true, number: 1, note: Vec::new() },
        };
        for hangs in [FileQueue::Target(1), FileQueue::Sums, FileQueue::Kept(1), FileQueue::Journal] {
            let (mut workers, release, reported) = hanging("hanging", hangs);
            workers.end_wait = Duration::ZERO;
            let op = match hangs {
                FileQueue::Sums => FileOp::Forget(Vec::new()),
                FileQueue::Kept(_) => FileOp::End,
                _ => FileOp::Discard { path: workers.state.join("none"), image: 1, replica: false },
            };
            match hangs {
                FileQueue::Journal => workers.submit(journal(6)),
                _ => workers.submit(FileRequest { queue: hangs, op }),
            }
            workers.submit(journal(7));
            if hangs != FileQueue::Journal {
                while reported.lock().unwrap().is_empty() {
                    std::thread::yield_now();
                }
            }
            let state = workers.state.clone();
            assert!(ends(move || drop(workers)), "{hangs:?}");
            let journaled =
                |reply: &FileReply| matches!(reply.result, FileResult::Journal { seq: 7, failed: None });
            let reported = reported.lock().unwrap();
            assert!(
                reported.iter().all(journaled) && reported.len() == usize::from(hangs != FileQueue::Journal)
            );
            assert!(matches!(lock(&state), Err(OpenError::Busy)), "{hangs:?} may still write");
            // Operations that are executed later find no directory.
            fs::remove_dir_all(state).unwrap();
            drop((reported, release));
        }
    }

    #[test]
    fn a_queue_that_hangs_does_not_keep_the_idle_ones_from_ending() {
        let (mut workers, release, _) = hanging("idle", FileQueue::Target(1));
        for queue in [FileQueue::Target(1), FileQueue::Target(2)] {
            let op = FileOp::Discard { path: workers.state.join("none"), image: 1, replica: false };
            workers.submit(FileRequest { queue, op });
        }
        let (lock, state) = (Arc::clone(&workers.lock), workers.state.clone());
        // The test's clone, the workers, and the threads of the two queues share the lock.
        assert_eq!(Arc::strong_count(&lock), 4);
        let end = std::thread::spawn(move || workers.end());
        while Arc::strong_count(&lock) > 3 {
            std::thread::yield_now();
        }
        drop(release);
        assert_eq!(end.join().unwrap(), []);
        fs::remove_dir_all(state).unwrap();
    }

    #[test]
    fn an_operation_without_a_thread_is_refused_with_the_reason() {
        let queue = FileQueue::Target(1);
        let (mut workers, _release, reported) = hanging("no-thread", FileQueue::Sums);
        workers.stack_bytes = usize::MAX / 2;
        let op = FileOp::Verify { images: Vec::new(), sector_bytes: 512, capacity: 1 };
        workers.submit(FileRequest { queue, op });
        match reported.lock().unwrap().as_slice() {
            [FileReply { queue: FileQueue::Target(1), result: FileResult::Refused(why) }] => {
                assert!(why.starts_with("the system gives no thread for its files: "), "{why}");
            }
            other => panic!("{other:?}"),
        }
        fs::remove_dir_all(workers.state.clone()).unwrap();
    }

    #[test]
    fn a_directory_from_which_only_the_journal_was_removed_is_not_new() {
        let state = std::env::temp_dir().join(format!("freeblock-workers-gone-{}", std::process::id()));
        let _ = fs::remove_dir_all(&state);
        let open = || FileWorkers::new(&state, Arc::new(drop)).unwrap();
        for begun in [false, true] {
            let (mut workers, journal) = open();
            assert!(journal.damage.is_none());
            if begun {
                let op =
                    FileOp::Journal { seq: 7, bytes: Vec::new(), replace: true, number: 1, note: Vec::new() };
                workers.submit(FileRequest { queue: FileQueue::Journal, op });
            }
        }
        fs::remove_file(state.join("tasks.journal")).unwrap();
        fs::remove_file(state.join("tasks.journal.end")).unwrap();
        let damage = open().1.damage.unwrap();
        assert!(
            damage.why.contains("the journal is gone, and a lock that says so is there"),
            "{}",
            damage.why
        );
        fs::remove_dir_all(&state).unwrap();
    }

    #[test]
    fn the_lock_says_that_there_is_a_journal_before_the_first_entry_is_acknowledged() {
        let state = std::env::temp_dir().join(format!("freeblock-workers-first-{}", std::process::id()));
        let _ = fs::remove_dir_all(&state);
        let (tell, reported) = channel();
        let lock = state.join(LOCK);
        let len = move || fs::metadata(&lock).unwrap().len();
        let sink: ReplySink = Arc::new(move |_| tell.send(len()).unwrap());
        let (mut workers, _) = FileWorkers::new(&state, sink).unwrap();
        let op = FileOp::Journal { seq: 1, bytes: Vec::new(), replace: true, number: 1, note: Vec::new() };
        workers.submit(FileRequest { queue: FileQueue::Journal, op });
        assert_eq!(reported.recv().unwrap(), 1);
        drop(workers);
        fs::remove_dir_all(state).unwrap();
    }

    #[test]
    fn no_block_is_kept_for_a_write_that_does_not_go_any_more() {
        let queue = FileQueue::Kept(1);
        let (mut workers, release, reported) = hanging("kept", queue);
        let shape = Shape { volume: VolumeId(1), first: Lbn::ZERO, block: Sectors::new(8), blocks: 10 };
        let header =
            Header { image: 1, shape, snapshot: SnapshotId(1), base: None, sector_bytes: 512, chunks: OPEN };
        let op = FileOp::OpenKept { header, room: Budget::default(), begun: None };
        workers.submit(FileRequest { queue, op });
        for mark in 0..3 {
            let op = FileOp::Keep { mark, block: mark, bytes: vec![0; 4_096], bad: Vec::new() };
            workers.submit(FileRequest { queue, op });
        }
        let (ending, state) = (Arc::clone(&workers.ending), workers.state.clone());
        let end = std::thread::spawn(move || drop(workers));
        while !ending.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        drop(release);
        end.join().unwrap();
        let opened = |reply: &FileReply| matches!(reply.result, FileResult::Opened { .. });
        assert!(reported.lock().unwrap().iter().all(opened) && reported.lock().unwrap().len() == 1);
        fs::remove_dir_all(state).unwrap();
    }
}
