//! Access of other threads to the task managers of a daemon's disks.

use crate::disk::{Disk, DiskStatus};
use crate::file_system::Places;
use crate::mailbox::{Gone, Mailbox, NotQueued};
use crate::manager::TaskManager;
use crate::task::spec::DiskFacts;
use device::Device;
use scheduler::Sessions;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::thread::Builder;
use std::time::{SystemTime, UNIX_EPOCH};

/// A call to a task manager, executed on its disk's thread.
pub type ManagerCall = Box<dyn FnOnce(&mut TaskManager, &mut dyn Sessions) + Send>;

/// The receiver of a disk's status.
type Ask = Box<dyn FnOnce(DiskStatus) + Send>;

/// The receiver of the answer whether a disk will be probed.
type ProbeAnswer = Box<dyn FnOnce(bool) + Send>;

/// Access to the task manager of a disk, independent of the type of the disk.
#[derive(Clone)]
pub struct Handle {
    facts: Arc<DiskFacts>,
    places: Places,
    post: Arc<dyn Fn(ManagerCall) -> Result<(), NotQueued> + Send + Sync>,
    wait: Arc<dyn Fn(ManagerCall) -> Result<(), Gone> + Send + Sync>,
    status: Arc<dyn Fn(Ask) -> Result<(), NotQueued> + Send + Sync>,
    probe: Arc<dyn Fn(ProbeAnswer) -> Result<(), NotQueued> + Send + Sync>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Handle {
    /// Returns access to the disk that executes the calls of this mailbox.
    pub(crate) fn new<D: Device + 'static>(
        facts: Arc<DiskFacts>,
        places: Places,
        mailbox: &Mailbox<Disk<D, TaskManager>>,
    ) -> Self {
        let managed = move |call: ManagerCall| {
            move |disk: &mut Disk<D, TaskManager>, now| {
                disk.call(now, |manager, sessions| {
                    manager.set_now(now, unix_ms());
                    call(manager, sessions);
                });
            }
        };
        let call_mailbox = mailbox.clone();
        let post = move |call| call_mailbox.offer(managed(call));
        let wait_mailbox = mailbox.clone();
        let wait = move |call| wait_mailbox.send(managed(call));
        let status_mailbox = mailbox.clone();
        let status = move |callback: Ask| {
            status_mailbox.offer(move |disk: &mut Disk<D, TaskManager>, now| {
                // The status contains how long requests have waited until now.
                disk.advance(now);
                callback(disk.status());
            })
        };
        let probe_mailbox = mailbox.clone();
        let probe = move |callback: ProbeAnswer| {
            probe_mailbox.offer(move |disk: &mut Disk<D, TaskManager>, _| callback(disk.ask_for_probe()))
        };
        let (post, wait, status, probe) = (Arc::new(post), Arc::new(wait), Arc::new(status), Arc::new(probe));
        Self { facts, places, post, wait, status, probe }
    }

    /// Returns the facts of the disk.
    pub fn facts(&self) -> &DiskFacts {
        &self.facts
    }

    /// Returns the places where the disk's tasks may access files that users name.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Queues a call to the task manager without waiting.
    ///
    /// # Errors
    /// The disk's server has ended, or its queue is full.
    pub fn post(&self, call: ManagerCall) -> Result<(), NotQueued> {
        (self.post)(call)
    }

    /// Closes a client session without waiting. If the disk's queue is full, a thread waits for room in it.
    pub(crate) fn close_client_session(&self, id: u64) {
        let close = move || -> ManagerCall {
            Box::new(move |manager, sessions| manager.close_client_session(sessions, id))
        };
        // A disk that has ended has closed its client sessions.
        if self.post(close()) == Err(NotQueued::Full) {
            let wait = Arc::clone(&self.wait);
            let waiting = Builder::new().name("closing".into()).spawn(move || wait(close()).is_ok());
            if let Err(error) = waiting {
                tracing::error!(%error, session = id, "a session of a disk that does not answer stays open: no thread");
            }
        }
    }

    /// Asks for the disk's status; `callback` is called with it on the disk's thread.
    ///
    /// # Errors
    /// The disk's server has ended, or its queue is full.
    pub fn status(&self, callback: impl FnOnce(DiskStatus) + Send + 'static) -> Result<(), NotQueued> {
        (self.status)(Box::new(callback))
    }

    /// Asks for a probe of the disk while it is served; `callback` is called on the disk's thread with whether
    /// the disk will be probed.
    ///
    /// # Errors
    /// The disk's server has ended, or its queue is full.
    pub fn probe(&self, callback: impl FnOnce(bool) + Send + 'static) -> Result<(), NotQueued> {
        (self.probe)(Box::new(callback))
    }
}

#[cfg(test)]
impl Handle {
    /// Returns a handle that passes calls to a test and can do nothing else.
    pub(crate) fn of_calls(facts: DiskFacts, pass: impl Fn(ManagerCall) + Send + Sync + 'static) -> Self {
        let post = Arc::new(move |call| {
            pass(call);
            Ok(())
        });
        let (facts, places) = (Arc::new(facts), Places::default());
        let (status, probe) = (Arc::new(|_| Err(Gone.into())), Arc::new(|_| Err(Gone.into())));
        Self { facts, places, post, wait: Arc::new(|_| Err(Gone)), status, probe }
    }
}

/// All disks of a daemon by their names, for tasks that read several of them.
#[derive(Clone, Debug, Default)]
pub struct Peers(Arc<OnceLock<BTreeMap<String, Handle>>>);

impl Peers {
    /// Sets the disks, once all are served. Later calls change nothing.
    pub fn set(&self, disks: impl IntoIterator<Item = Handle>) {
        self.0.get_or_init(|| disks.into_iter().map(|disk| (disk.facts().name.clone(), disk)).collect());
    }

    /// Returns the disks by their names; `None` while the daemon is still starting.
    pub(crate) fn disks(&self) -> Option<&BTreeMap<String, Handle>> {
        self.0.get()
    }
}

/// Returns the milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
