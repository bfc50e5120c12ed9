//! The threads around the task manager of a live disk: they execute its file operations, make it tick, and carry
//! calls of other threads to it.

pub use crate::handle::{Handle, ManagerCall, Peers};

use crate::disk::Disk;
use crate::file_system::Places;
use crate::files::{FileWorkers, JournalError, OpenError, ReplySink};
use crate::handle::unix_ms;
use crate::mailbox::Mailbox;
use crate::manager::{ManagerConfig, TaskManager};
use crate::task::file_request::{FileReply, FileRequest};
use crate::task::spec::DiskFacts;
use device::Device;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;
use thiserror::Error;
use units::Instant;

/// The interval between ticks of a task manager.
const TICK_INTERVAL: Duration = Duration::from_millis(500);

/// The reason why a disk's task manager could not be started.
#[derive(Debug, Error)]
pub enum RuntimeError {
    /// The state directory cannot be used.
    #[error("{place}: {error}")]
    State {
        /// The directory.
        place: String,
        /// The error.
        error: OpenError,
    },
    /// The journal in the state directory is of another version or of another disk.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// A task manager on a disk that is not served yet.
pub struct RuntimeBuilder {
    facts: Arc<DiskFacts>,
    state: PathBuf,
    places: Places,
    workers: FileWorkers,
    file_requests: Receiver<FileRequest>,
    replies: Arc<OnceLock<ReplySink>>,
}

impl std::fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeBuilder").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// A task manager at work.
#[derive(Debug)]
pub struct Runtime {
    thread: JoinHandle<()>,
    handle: Handle,
}

impl RuntimeBuilder {
    /// Adds a task manager to a disk, with the tasks of the disk's state directory. The tasks continue before the
    /// disk's first client connects.
    ///
    /// # Errors
    /// The state directory or its journal cannot be used.
    pub fn new<D: Device>(
        disk: &mut Disk<D, TaskManager>,
        config: ManagerConfig,
        state: &Path,
    ) -> Result<Self, RuntimeError> {
        let place = state.display().to_string();
        // The mailbox is made with the disk's thread; until then a reply has no receiver.
        let replies: Arc<OnceLock<ReplySink>> = Arc::new(OnceLock::new());
        let reply_sink = Arc::clone(&replies);
        let sink: ReplySink = Arc::new(move |reply| {
            if let Some(replies) = reply_sink.get() {
                replies(reply);
            }
        });
        let (workers, journal) = FileWorkers::new(state, sink).map_err(|error| match error {
            OpenError::Journal(error) => error.into(),
            error => RuntimeError::State { place, error },
        })?;
        let facts = Arc::new(config.disk.clone());
        let sound = journal.damage.is_none();
        let mut manager = TaskManager::open(config, journal)?;
        if sound && let Some(damage) = manager.damage() {
            workers.note_damage(damage);
        }
        let (sender, file_requests) = channel();
        manager.send_file_requests_to(Box::new(move |file_request| {
            // Sending fails only when the daemon is ending, and then the request is not needed.
            let _ = sender.send(file_request);
        }));
        disk.host(manager);
        let begun = disk.call(Instant::ZERO, |manager, sessions| {
            manager.begin(sessions, Instant::ZERO, unix_ms());
        });
        debug_assert!(begun.is_some(), "it was hosted here");
        let runtime =
            Self { facts, state: state.into(), places: Places::default(), workers, file_requests, replies };
        Ok(runtime.confined(Places::default()))
    }

    /// Limits the files that users name for the disk's tasks to `places`, without the disk's state directory and the
    /// disk's own files.
    #[must_use]
    pub fn confined(mut self, places: Places) -> Self {
        places.keep_state(&self.state);
        places.keep(self.facts.own.iter().cloned());
        self.workers.confine(places.clone());
        Self { places, ..self }
    }

    /// Lets the disk's tasks read the other disks of the daemon.
    #[must_use]
    pub fn among(mut self, peers: &Peers) -> Self {
        self.workers.among(peers.clone());
        self
    }

    /// Begins to execute file operations. Called when the disk is served.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub fn start<D: Device + 'static>(self, mailbox: Mailbox<Disk<D, TaskManager>>) -> io::Result<Runtime> {
        let Self { facts, places, workers, file_requests, replies, .. } = self;
        let reply_mailbox = mailbox.clone();
        let sink: ReplySink = Arc::new(move |reply: FileReply| {
            // Sending fails only when the disk has ended, and then the reply is not needed.
            let _ = reply_mailbox.send(move |disk, now| {
                disk.call(now, |manager, sessions| manager.file_done(sessions, reply, now));
            });
        });
        let _ = replies.set(sink);
        let handle = Handle::new(facts, places, &mailbox);
        let thread = Builder::new().name("tasks".into()).spawn(move || {
            let mut workers = workers;
            run(
                move |file_request| workers.submit(file_request),
                &file_requests,
                std::time::Instant::now,
                || {
                    let tick = move |disk: &mut Disk<D, TaskManager>, now| {
                        let harm = disk.core().harm();
                        disk.call(now, |manager, sessions| manager.tick(sessions, now, unix_ms(), harm));
                    };
                    let _ = mailbox.send(tick);
                },
            );
        })?;
        Ok(Runtime { thread, handle })
    }
}

impl Runtime {
    /// Returns a handle for other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Saves the remaining state after the disk's service has ended, and waits until that is done. Sends the disk
    /// nothing.
    pub fn close<D: Device>(self, disk: &mut Disk<D, TaskManager>) {
        if let Some(manager) = disk.app_mut() {
            manager.close();
        }
        // The thread has logged its own panic.
        let _ = self.thread.join();
    }
}

/// Passes file requests to the workers until the task manager is closed.
fn run(
    mut submit: impl FnMut(FileRequest),
    file_requests: &Receiver<FileRequest>,
    clock: impl Fn() -> std::time::Instant,
    tick: impl Fn(),
) {
    let mut due = clock() + TICK_INTERVAL;
    loop {
        match file_requests.recv_timeout(due.saturating_duration_since(clock())) {
            Ok(file_request) => submit(file_request),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // A tick is due on time even if requests never stop arriving.
        let now = clock();
        if now >= due {
            tick();
            due = now + TICK_INTERVAL;
        }
    }
}

/// Returns 128 random bits of the system.
///
/// # Errors
/// `/dev/urandom` cannot be read.
pub fn random_seed() -> io::Result<u128> {
    use std::io::Read;
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::file_request::{FileOp, FileQueue};
    use std::cell::Cell;

    #[test]
    fn the_runtime_ticks_however_many_file_requests_come() {
        let (sender, file_requests) = channel();
        for _ in 0..100 {
            sender.send(FileRequest { queue: FileQueue::Journal, op: FileOp::End }).unwrap();
        }
        drop(sender);
        let (start, looks) = (std::time::Instant::now(), Cell::new(0));
        // Each reading of the clock is 10 ms after the reading before.
        let clock = || {
            looks.set(looks.get() + 1);
            start + Duration::from_millis(10 * looks.get())
        };
        let (given, ticks) = (Cell::new(0), Cell::new(0));
        run(|_| given.set(given.get() + 1), &file_requests, clock, || ticks.set(ticks.get() + 1));
        assert_eq!(given.get(), 100);
        // The clock is read twice for each request, which makes two seconds in all.
        assert!((3..=4).contains(&ticks.get()), "{}", ticks.get());
    }
}
