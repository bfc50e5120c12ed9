//! A desk on a live disk: other threads carry out its orders, its clock ticks, and other threads can call it.

use crate::desk::order::{Order, Told};
use crate::desk::spec::DiskFacts;
use crate::desk::{Desk, Setup};
use crate::disk::{AppHandle, Disk, DiskStatus};
use crate::mailbox::{Gone, Mailbox};
use crate::tasks::{Clerks, JournalError, OpenError, Places, Tell};
use device::Device;
use scheduler::Sessions;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use thiserror::Error;
use units::Instant;

/// The interval between ticks of a desk.
const TICK: Duration = Duration::from_millis(500);

/// A call of a desk, on its disk's thread.
pub type DeskCall = Box<dyn FnOnce(&mut Desk, &mut dyn Sessions) + Send>;

/// A request for a disk's status.
type Ask = Box<dyn FnOnce(DiskStatus) + Send>;

/// A request for a probe; its argument says whether the request is accepted.
type ProbeAnswer = Box<dyn FnOnce(bool) + Send>;

/// The reason why a disk has no desk.
#[derive(Debug, Error)]
pub enum OfficeError {
    /// The state directory cannot be used.
    #[error("{place}: {error}")]
    State {
        /// The directory.
        place: String,
        /// The error.
        error: OpenError,
    },
    /// The journal in it is of another version or of another disk.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Access to the desk of a disk, independent of the type of the disk.
#[derive(Clone)]
pub struct Handle {
    facts: Arc<DiskFacts>,
    places: Places,
    post: Arc<dyn Fn(DeskCall) -> Result<(), Gone> + Send + Sync>,
    status: Arc<dyn Fn(Ask) -> Result<(), Gone> + Send + Sync>,
    probe: Arc<dyn Fn(ProbeAnswer) -> Result<(), Gone> + Send + Sync>,
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Handle {
    /// Returns the facts of the disk.
    pub fn facts(&self) -> &DiskFacts {
        &self.facts
    }

    /// Returns the places where its tasks may access files that users name.
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// Queues a call of the desk without waiting.
    ///
    /// # Errors
    /// The disk's server has ended.
    pub fn post(&self, call: DeskCall) -> Result<(), Gone> {
        (self.post)(call)
    }

    /// Asks for the disk's status; `told` is called with it on the disk's thread.
    ///
    /// # Errors
    /// The disk's server has ended.
    pub fn status(&self, told: impl FnOnce(DiskStatus) + Send + 'static) -> Result<(), Gone> {
        (self.status)(Box::new(told))
    }

    /// Asks for a probe of the disk while it serves; `told` is called on the disk's thread, with whether the
    /// disk is probed.
    ///
    /// # Errors
    /// The disk's server has ended.
    pub fn probe(&self, told: impl FnOnce(bool) + Send + 'static) -> Result<(), Gone> {
        (self.probe)(Box::new(told))
    }
}

/// All disks of a daemon by their names, for tasks that read several of them.
#[derive(Clone, Debug, Default)]
pub struct Peers(Arc<OnceLock<BTreeMap<String, Handle>>>);

impl Peers {
    /// Sets the disks, when all are served. Later calls change nothing.
    pub fn meet(&self, disks: impl IntoIterator<Item = Handle>) {
        self.0.get_or_init(|| disks.into_iter().map(|disk| (disk.facts().name.clone(), disk)).collect());
    }

    /// Returns the disk of a name, if there is one.
    ///
    /// # Errors
    /// The daemon is still starting.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Handle>, String> {
        let disks = self.0.get().ok_or("the other disks are not served yet")?;
        Ok(disks.get(name).cloned())
    }
}

/// A desk that is hosted by a disk that is not served yet.
pub struct Office {
    desk: AppHandle<Desk>,
    facts: Arc<DiskFacts>,
    state: PathBuf,
    places: Places,
    clerks: Clerks,
    orders: Receiver<Order>,
    tell: Arc<OnceLock<Tell>>,
}

impl std::fmt::Debug for Office {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Office").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// A desk at work.
#[derive(Debug)]
pub struct OpenDesk {
    desk: AppHandle<Desk>,
    thread: JoinHandle<()>,
    handle: Handle,
}

impl Office {
    /// Hosts a desk on a disk, with the tasks of its state directory: they continue before the disk's first client
    /// connects.
    ///
    /// # Errors
    /// The state directory or its journal cannot be used.
    pub fn set_up<D: Device>(disk: &mut Disk<D>, setup: Setup, state: &Path) -> Result<Self, OfficeError> {
        let place = state.display().to_string();
        // The mailbox exists only after the disk's thread; until then there is no receiver for reports.
        let tell: Arc<OnceLock<Tell>> = Arc::new(OnceLock::new());
        let late = Arc::clone(&tell);
        let told: Tell = Arc::new(move |told| {
            if let Some(tell) = late.get() {
                tell(told);
            }
        });
        let (clerks, journal) = Clerks::new(state, told).map_err(|error| match error {
            OpenError::Journal(error) => error.into(),
            error => OfficeError::State { place, error },
        })?;
        let facts = Arc::new(setup.disk.clone());
        let mut desk = Desk::open(setup, journal)?;
        let (sender, orders) = channel();
        desk.hand_orders_to(Box::new(move |order| {
            // Without a receiver the daemon is ending.
            let _ = sender.send(order);
        }));
        let desk = disk.host(desk);
        let begun = disk.call(desk, Instant::ZERO, |desk, sessions| {
            desk.begin(sessions, Instant::ZERO, unix_ms());
        });
        debug_assert!(begun.is_some(), "it was hosted here");
        let office =
            Self { desk, facts, state: state.into(), places: Places::default(), clerks, orders, tell };
        Ok(office.confined(Places::default()))
    }

    /// Limits the files that users name for its tasks to `places`, excluding its state directory and the files of its
    /// disk.
    #[must_use]
    pub fn confined(mut self, places: Places) -> Self {
        places.keep_state(&self.state);
        places.keep(self.facts.own.iter().cloned());
        self.clerks.confine(places.clone());
        Self { places, ..self }
    }

    /// Lets its tasks read the other disks of the daemon.
    #[must_use]
    pub fn among(mut self, peers: &Peers) -> Self {
        self.clerks.among(peers.clone());
        self
    }

    /// Carries out orders from now on, because the disk is served.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub fn open<D: Device + 'static>(self, mailbox: Mailbox<Disk<D>>) -> io::Result<OpenDesk> {
        let Self { desk, facts, places, clerks, orders, tell, .. } = self;
        let teller = mailbox.clone();
        let told: Tell = Arc::new(move |told: Told| {
            // A disk that has ended needs no reports.
            let _ = teller.send(move |disk, now| {
                disk.call(desk, now, |desk, sessions| desk.told(sessions, told, now));
            });
        });
        let _ = tell.set(told);
        let poster = mailbox.clone();
        let post = move |call: DeskCall| {
            poster.send(move |disk: &mut Disk<D>, now| {
                disk.call(desk, now, |desk, sessions| {
                    desk.set_now(now, unix_ms());
                    call(desk, sessions);
                });
            })
        };
        let asker = mailbox.clone();
        let status = move |told: Ask| {
            asker.send(move |disk: &mut Disk<D>, now| {
                // The status says for how long requests have waited until now.
                disk.advance(now);
                told(disk.status());
            })
        };
        let ringer = mailbox.clone();
        let probe =
            move |told: ProbeAnswer| ringer.send(move |disk: &mut Disk<D>, _| told(disk.ask_for_probe()));
        let (post, status, probe) = (Arc::new(post), Arc::new(status), Arc::new(probe));
        let handle = Handle { facts, places, post, status, probe };
        let thread = Builder::new().name("orders".into()).spawn(move || {
            let mut clerks = clerks;
            let give = move |order| {
                if let Err(error) = clerks.give(order) {
                    tracing::error!(%error, "an order of the tasks cannot be carried out: no thread");
                }
            };
            carry_out(give, &orders, std::time::Instant::now, || {
                let tick = move |disk: &mut Disk<D>, now| {
                    let harm = disk.core().harm();
                    disk.call(desk, now, |desk, sessions| desk.tick(sessions, now, unix_ms(), harm));
                };
                let _ = mailbox.send(tick);
            });
        })?;
        Ok(OpenDesk { desk, thread, handle })
    }
}

impl OpenDesk {
    /// Returns a handle for other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Saves the remaining state after the disk's service has ended, and waits for it.
    pub fn close<D: Device>(self, disk: &mut Disk<D>, now: Instant) {
        disk.call(self.desk, now, |desk, _| desk.close());
        // The thread has logged its own panic.
        let _ = self.thread.join();
    }
}

/// Gives orders to clerks until the desk is closed.
fn carry_out(
    mut give: impl FnMut(Order),
    orders: &Receiver<Order>,
    clock: impl Fn() -> std::time::Instant,
    tick: impl Fn(),
) {
    let mut due = clock() + TICK;
    loop {
        match orders.recv_timeout(due.saturating_duration_since(clock())) {
            Ok(order) => give(order),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Ticks must not wait for the end of a long series of orders.
        let now = clock();
        if now >= due {
            tick();
            due = now + TICK;
        }
    }
}

/// A receiver of a desk's orders.
pub(crate) type Hand = Box<dyn Fn(Order) + Send>;

/// Returns the milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns a random number of the system.
///
/// # Errors
/// The system has none.
pub fn random_seed() -> io::Result<u128> {
    use std::io::Read;
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u128::from_le_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::desk::order::{Lane, Work};
    use std::cell::Cell;

    #[test]
    fn it_ticks_however_many_orders_come() {
        let (sender, orders) = channel();
        for _ in 0..100 {
            sender.send(Order { lane: Lane::Journal, work: Work::End }).unwrap();
        }
        drop(sender);
        let (start, looks) = (std::time::Instant::now(), Cell::new(0));
        // Each reading of the clock is 10 ms after the last.
        let clock = || {
            looks.set(looks.get() + 1);
            start + Duration::from_millis(10 * looks.get())
        };
        let (given, ticks) = (Cell::new(0), Cell::new(0));
        carry_out(|_| given.set(given.get() + 1), &orders, clock, || ticks.set(ticks.get() + 1));
        assert_eq!(given.get(), 100);
        // The clock is read twice for each order: two seconds in all.
        assert!((3..=4).contains(&ticks.get()), "{}", ticks.get());
    }
}
