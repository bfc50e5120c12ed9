//! A thread for every lane that has something to do.

use super::clerk::{Clerk, journal_path, read_whole};
use super::files::{Files, Machine};
use super::places::Places;
use crate::desk::order::{Lane, Order, Told, Work};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

/// Takes what has become of an order, on the lane's thread: it has to get to the desk, on the disk's.
pub type Tell = Arc<dyn Fn(Told) + Send + Sync>;

/// Carries out the orders of one desk.
///
/// A lane's thread ends with its task, the journal's with the clerks. Orders that were given are still carried out then.
pub struct Clerks {
    state: PathBuf,
    files: Arc<dyn Files>,
    tell: Tell,
    lanes: BTreeMap<Lane, (Sender<Work>, std::thread::JoinHandle<()>)>,
    ended: Vec<std::thread::JoinHandle<()>>,
}

impl std::fmt::Debug for Clerks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clerks").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Clerks {
    /// Over a state directory, which is made if it is not there; and the journal that is in it, for
    /// [`Desk::open`](crate::desk::Desk::open).
    ///
    /// # Errors
    /// The directory cannot be made, or the journal not read.
    pub fn new(state: &Path, tell: Tell) -> io::Result<(Self, Vec<u8>)> {
        std::fs::create_dir_all(state)?;
        let files: Arc<dyn Files> = Arc::new(Machine::default());
        let journal = read_whole(&*files, &journal_path(state))?;
        let clerks = Self { state: state.into(), files, tell, lanes: BTreeMap::new(), ended: Vec::new() };
        Ok((clerks, journal))
    }

    /// Files that users name are within these places. To be said before the first order is given.
    pub fn confine(&mut self, places: Places) {
        self.files = Arc::new(Machine::within(places));
    }

    /// Has an order carried out.
    ///
    /// # Errors
    /// No thread can be had for it.
    pub fn give(&mut self, Order { lane, work }: Order) -> io::Result<()> {
        let ends = matches!(work, Work::End);
        let (sender, _) = match self.lanes.entry(lane) {
            std::collections::btree_map::Entry::Occupied(at) => at.into_mut(),
            std::collections::btree_map::Entry::Vacant(at) => {
                let (sender, orders) = channel();
                let mut clerk = Clerk::new(lane, Arc::clone(&self.files), self.state.clone());
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
        // A thread that is gone has panicked; what it was to do is not done, and nobody is told that it is.
        let _ = sender.send(work);
        if ends && let Some((_, thread)) = self.lanes.remove(&lane) {
            self.ended.retain(|thread| !thread.is_finished());
            self.ended.push(thread);
        }
        Ok(())
    }
}

/// Waits until all orders are carried out.
impl Drop for Clerks {
    fn drop(&mut self) {
        let lanes = std::mem::take(&mut self.lanes);
        let threads = lanes.into_values().map(|(_, thread)| thread);
        for thread in threads.chain(std::mem::take(&mut self.ended)) {
            let _ = thread.join();
        }
    }
}
