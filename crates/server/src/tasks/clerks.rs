//! A thread for every lane with orders.

use super::clerk::Clerk;
use super::files::{Files, Machine, open_regular, own_directory, private};
use super::journal::{self, Journal, JournalError};
use super::places::Places;
use crate::desk::order::{Lane, Order, Told, Work};
use crate::office::Peers;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use thiserror::Error;

/// The receiver of reports on orders, called on the lane's thread: it has to pass them to the desk, on the disk's.
pub type Tell = Arc<dyn Fn(Told) + Send + Sync>;

/// The executors of one desk's orders.
///
/// A lane's thread ends with its task, the journal's with the clerks. Orders given before are still executed.
pub struct Clerks {
    state: PathBuf,
    files: Arc<dyn Files>,
    tell: Tell,
    lanes: BTreeMap<Lane, (Sender<Work>, std::thread::JoinHandle<()>)>,
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
    let file = open_regular(private().write(true).create(true).truncate(false), &place);
    let file = file.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", place.display())))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(OpenError::Busy),
        Err(fs::TryLockError::Error(error)) => Err(error.into()),
    }
}

impl std::fmt::Debug for Clerks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clerks").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Clerks {
    /// Opens a state directory, which is created if missing, and its journal, for
    /// [`Desk::open`](crate::desk::Desk::open). If the journal is damaged, records that in the directory.
    ///
    /// # Errors
    /// The directory cannot be made, another process uses it, or the journal is of another version.
    pub fn new(state: &Path, tell: Tell) -> Result<(Self, Journal), OpenError> {
        own_directory(state)?;
        let lock = lock(state)?;
        let files: Arc<dyn Files> = Arc::new(Machine::default());
        let journal = journal::open(&*files, state)?;
        let (state, lanes, ended) = (state.into(), BTreeMap::new(), Vec::new());
        let peers = Peers::default();
        Ok((Self { state, files, tell, lanes, ended, peers, _lock: lock }, journal))
    }

    /// Limits the files that users name to these places. To be called before the first order.
    pub fn confine(&mut self, places: Places) {
        self.files = Arc::new(Machine::within(places));
    }

    /// Lets comparisons read these disks. To be called before the first order.
    pub fn among(&mut self, peers: Peers) {
        self.peers = peers;
    }

    /// Passes an order to its lane.
    ///
    /// # Errors
    /// The system gives no thread for it.
    pub fn give(&mut self, Order { lane, work }: Order) -> io::Result<()> {
        let ends = matches!(work, Work::End);
        let (sender, _) = match self.lanes.entry(lane) {
            std::collections::btree_map::Entry::Occupied(at) => at.into_mut(),
            std::collections::btree_map::Entry::Vacant(at) => {
                let (sender, orders) = channel();
                let clerk = Clerk::new(lane, Arc::clone(&self.files), self.state.clone());
                let mut clerk = clerk.among(self.peers.clone());
                let tell = Arc::clone(&self.tell);
                let name = format!("{lane:?}");
                let thread = std::thread::Builder::new().name(name).spawn(move || {
                    while let Ok(work) = orders.recv() {
                        if let Some(news) = clerk.execute(work) {
                            tell(Told { lane, news });
                        }
                    }
                })?;
                at.insert((sender, thread))
            }
        };
        // A thread that is gone has panicked; its orders stay undone, and unreported.
        let _ = sender.send(work);
        if ends && let Some((_, thread)) = self.lanes.remove(&lane) {
            self.ended.retain(|thread| !thread.is_finished());
            self.ended.push(thread);
        }
        Ok(())
    }
}

/// Waits until all orders are executed.
impl Drop for Clerks {
    fn drop(&mut self) {
        let lanes = std::mem::take(&mut self.lanes);
        let threads = lanes.into_values().map(|(_, thread)| thread);
        for thread in threads.chain(std::mem::take(&mut self.ended)) {
            let _ = thread.join();
        }
    }
}
