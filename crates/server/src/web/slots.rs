//! The slots of browsers' connections: how many there are, and which connection gives way.

use super::BROWSERS_MAX;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The most connections: one for each browser that follows the snapshots, and as many for parts of the page.
pub(super) const CONNECTIONS_MAX: usize = 2 * BROWSERS_MAX;

/// One connection, and its slot, which is freed when this value is dropped.
#[derive(Debug)]
pub(super) struct BrowserConnection {
    number: u64,
    slots: Arc<Mutex<BrowserSlots>>,
    pub hang_up: Arc<Notify>,
    /// Whether the connection has no time limit.
    lasting: AtomicBool,
}

/// The slots of all connections by number; older connections have smaller numbers.
#[derive(Debug, Default)]
pub(super) struct BrowserSlots {
    taken: BTreeMap<u64, BrowserSlot>,
    next: u64,
}

#[derive(Debug)]
struct BrowserSlot {
    from: IpAddr,
    /// Whether the connection has entered: it has sent a request that was permitted.
    entered: bool,
    hang_up: Arc<Notify>,
}

impl BrowserSlots {
    /// Returns the number of a new slot. If all slots are taken, closes a connection that has not entered: the
    /// oldest of the machine with the most connections. Returns `None` if all have entered.
    fn give(&mut self, from: IpAddr, hang_up: Arc<Notify>) -> Option<u64> {
        if self.taken.len() >= CONNECTIONS_MAX {
            let of = |from: IpAddr| self.taken.values().filter(|slot| slot.from == from).count();
            let outside = self.taken.iter().filter(|(_, slot)| !slot.entered);
            let (oldest, _) = outside.max_by_key(|(at, slot)| (of(slot.from), Reverse(**at)))?;
            let oldest = *oldest;
            self.taken.remove(&oldest)?.hang_up.notify_one();
        }
        let number = self.next;
        self.next += 1;
        self.taken.insert(number, BrowserSlot { from, entered: false, hang_up });
        Some(number)
    }
}

impl Drop for BrowserConnection {
    fn drop(&mut self) {
        self.slots().taken.remove(&self.number);
    }
}

impl BrowserConnection {
    pub fn take(slots: &Arc<Mutex<BrowserSlots>>, from: IpAddr) -> Option<Self> {
        let hang_up = Arc::new(Notify::new());
        let number = slots.lock().unwrap_or_else(PoisonError::into_inner).give(from, Arc::clone(&hang_up))?;
        Some(Self { number, slots: Arc::clone(slots), hang_up, lasting: AtomicBool::new(false) })
    }

    fn slots(&self) -> MutexGuard<'_, BrowserSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the connection has sent a permitted request. From then on it keeps its slot until it ends.
    pub fn entered(&self) {
        if let Some(slot) = self.slots().taken.get_mut(&self.number) {
            slot.entered = true;
        }
    }

    /// Removes the connection's time limit.
    pub fn lasts(&self) {
        self.lasting.store(true, Ordering::Relaxed);
    }

    pub fn is_lasting(&self) -> bool {
        self.lasting.load(Ordering::Relaxed)
    }

    /// Closes the connection, even while an answer is unsent.
    pub fn hang_up(&self) {
        self.hang_up.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_have_not_entered_keep_no_browser_out() {
        let slots = Arc::default();
        let idle = IpAddr::from([192, 0, 2, 1]);
        let browser = IpAddr::from([192, 0, 2, 2]);
        let first = BrowserConnection::take(&slots, browser).unwrap();
        let held: Vec<_> =
            (0..2 * CONNECTIONS_MAX).filter_map(|_| BrowserConnection::take(&slots, idle)).collect();
        assert_eq!(held.len(), 2 * CONNECTIONS_MAX, "each replaces an older one");
        assert_eq!(first.slots().taken.len(), CONNECTIONS_MAX);
        assert!(first.slots().taken.contains_key(&first.number), "the only one of its machine");
        // Connections that have entered keep their slots.
        held.iter().for_each(BrowserConnection::entered);
        let second = BrowserConnection::take(&slots, browser).unwrap();
        assert!(!first.slots().taken.contains_key(&first.number));
        second.entered();
        assert!(BrowserConnection::take(&slots, browser).is_none());
        drop(held);
        assert_eq!(second.slots().taken.len(), 1);
    }
}
