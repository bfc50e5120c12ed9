//! The bounds of the memory for blocks that are read ahead: one of each disk, and one of all disks of a daemon.

use super::AllDisks;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Bytes;

/// A bound on memory, and the bytes that are in use.
#[derive(Debug)]
struct Pool {
    most: Bytes,
    held: AtomicU64,
    /// The number of exports that read ahead now, including those of snapshots.
    readers: AtomicU64,
}

impl Pool {
    fn of(most: Bytes) -> Arc<Self> {
        Arc::new(Self { most, held: AtomicU64::new(0), readers: AtomicU64::new(0) })
    }

    fn share(&self) -> u64 {
        self.most.get() / self.readers.load(Ordering::Acquire).max(1)
    }

    /// Reserves bytes, and returns whether there was room for them.
    fn hold(&self, bytes: u64) -> bool {
        let with = |held: u64| held.checked_add(bytes).filter(|held| *held <= self.most.get());
        self.held.fetch_update(Ordering::AcqRel, Ordering::Acquire, with).is_ok()
    }

    fn release(&self, bytes: u64) {
        self.held.fetch_sub(bytes, Ordering::AcqRel);
    }
}

/// The memory for blocks that are read ahead. The background export and the snapshots of a disk share one bound, and
/// all disks of a daemon may share another. Each export that reads ahead may hold an equal share. When another export
/// begins to read ahead, the share shrinks, and each export drops the excess step by step.
#[derive(Clone, Debug)]
pub struct ReadAheadBudget {
    disk: Arc<Pool>,
    daemon: Option<Arc<Pool>>,
}

impl ReadAheadBudget {
    /// Returns a budget of `most` bytes for one disk alone.
    pub fn of(most: Bytes) -> Self {
        Self { disk: Pool::of(most), daemon: None }
    }

    /// Returns a budget of `most` bytes for one disk of a daemon. All disks of the daemon share this budget as a second
    /// bound.
    #[must_use]
    pub fn for_disk(&self, most: Bytes) -> Self {
        Self { disk: Pool::of(most), daemon: Some(Arc::clone(&self.disk)) }
    }

    fn pools(&self) -> impl Iterator<Item = &Pool> {
        [Some(&*self.disk), self.daemon.as_deref()].into_iter().flatten()
    }

    /// Returns the size of the budget: the smaller of its bounds.
    pub fn most(&self) -> Bytes {
        self.pools().map(|pool| pool.most).min().unwrap_or(Bytes::ZERO)
    }

    /// Returns the bytes that all disks hold together, if they have a common bound.
    pub(super) fn of_daemon(&self) -> Option<AllDisks> {
        let pool = self.daemon.as_deref()?;
        Some(AllDisks { held_bytes: pool.held.load(Ordering::Acquire), most_bytes: pool.most.get() })
    }

    /// Returns the bytes that each export that reads ahead may hold.
    pub(super) fn share(&self) -> u64 {
        self.pools().map(Pool::share).min().unwrap_or(0)
    }

    /// Returns the bytes that an export that holds `mine` has to drop before it may hold `wanted` more.
    pub(super) fn lacks(&self, mine: Bytes, wanted: u64) -> u64 {
        let over = |held: u64, most: u64| held.saturating_add(wanted).saturating_sub(most);
        let together =
            self.pools().map(|pool| over(pool.held.load(Ordering::Acquire), pool.most.get())).max();
        over(mine.get(), self.share()).max(together.unwrap_or(0))
    }

    /// Reserves bytes, and returns whether there was room for them.
    pub(super) fn hold(&self, bytes: u64) -> bool {
        if !self.disk.hold(bytes) {
            return false;
        }
        let fits = self.daemon.as_ref().is_none_or(|daemon| daemon.hold(bytes));
        if !fits {
            self.disk.release(bytes);
        }
        fits
    }

    /// Gives reserved bytes back.
    pub(super) fn release(&self, bytes: u64) {
        self.pools().for_each(|pool| pool.release(bytes));
    }

    /// Counts an export that begins to read ahead, or that stops.
    pub(super) fn count(&self, reads: bool) {
        for pool in self.pools() {
            if reads {
                pool.readers.fetch_add(1, Ordering::AcqRel);
            } else {
                pool.readers.fetch_sub(1, Ordering::AcqRel);
            }
        }
    }
}
