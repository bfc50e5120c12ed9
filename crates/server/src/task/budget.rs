//! Budgets of bytes that tasks share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::Bytes;

/// A number of bytes that tasks share: the memory for the sums of all comparisons of a daemon, or the space in a state
/// directory for the blocks that all backups, replicas and snapshots of a disk keep.
///
/// ```
/// use server::manager::budget::Budget;
/// use units::Bytes;
/// let budget = Budget::of(Bytes::new(100));
/// let first = budget.take(Bytes::new(60)).unwrap();
/// assert_eq!(budget.left(), Bytes::new(40));
/// assert!(budget.clone().take(Bytes::new(60)).is_none());
/// drop(first);
/// assert_eq!(budget.left(), Bytes::new(100));
/// ```
#[derive(Clone, Debug)]
pub struct Budget(Shared);

/// 4 GiB: the memory of four comparisons with the default `memory_bytes`.
impl Default for Budget {
    fn default() -> Self {
        Self::of(Bytes::new(4 << 30))
    }
}

impl Budget {
    /// The smallest budget for comparisons: the least memory of one comparison.
    pub const BYTES_MIN: Bytes = apps::verify::MEMORY_MIN;
    /// The largest budget for comparisons, a tebibyte: more than the sums of all blocks of the largest disks need.
    pub const BYTES_MAX: Bytes = Bytes::new(1 << 40);

    /// Returns a budget of `most` bytes.
    pub fn of(most: Bytes) -> Self {
        Self(Shared::of(most.get()))
    }

    /// Returns the size of the budget.
    pub fn most(&self) -> Bytes {
        Bytes::new(self.0.most)
    }

    /// Returns the bytes that are left.
    pub fn left(&self) -> Bytes {
        Bytes::new(self.0.most.saturating_sub(self.0.used.load(Ordering::Acquire)))
    }

    /// Takes bytes from the budget; `None` if fewer are left.
    pub fn take(&self, bytes: Bytes) -> Option<Reservation> {
        self.0.take(bytes.get())
    }

    /// Takes bytes for a task that had them before a restart, even if fewer are left.
    pub(crate) fn take_again(&self, bytes: Bytes) -> Reservation {
        self.0.used.fetch_add(bytes.get(), Ordering::AcqRel);
        self.0.taken(bytes.get())
    }

    /// Adds bytes to those that a task has taken, and returns whether that many were left. If not, the task has to
    /// fail, and its bytes are given back in the same atomic step, so that tasks which ask at the same time do not all
    /// fail.
    pub(crate) fn add_or_release(&self, to: &mut Reservation, bytes: Bytes) -> bool {
        let (most, had) = (self.0.most, to.part);
        let with_it = |used: u64| used.checked_add(bytes.get()).filter(|used| *used <= most);
        let next = |used: u64| Some(with_it(used).unwrap_or(used.saturating_sub(had)));
        let before = self.0.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        let fits = before.is_ok_and(|used| with_it(used).is_some());
        to.part = if fits { had.saturating_add(bytes.get()) } else { 0 };
        fits
    }
}

/// An amount of bytes or permits that tasks share, and the part in use.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    used: Arc<AtomicU64>,
    pub(crate) most: u64,
}

impl Shared {
    pub(crate) fn of(most: u64) -> Self {
        Self { used: Arc::default(), most }
    }

    /// Takes a part of the amount; `None` if less is left.
    pub(crate) fn take(&self, part: u64) -> Option<Reservation> {
        let with_it = |used: u64| used.checked_add(part).filter(|used| *used <= self.most);
        let taken = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, with_it);
        taken.is_ok().then(|| self.taken(part))
    }

    fn taken(&self, part: u64) -> Reservation {
        Reservation { used: Arc::clone(&self.used), part }
    }
}

/// A part of a shared amount. Dropping the reservation gives the part back.
#[derive(Debug)]
pub struct Reservation {
    used: Arc<AtomicU64>,
    part: u64,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.used.fetch_sub(self.part, Ordering::AcqRel);
    }
}
