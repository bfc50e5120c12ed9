//! How many scrubs and comparisons run at a time, over all disks of a daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The permits to run a task, shared by all disks of a daemon. There is no limit by default.
///
/// ```
/// use server::desk::permits::Permits;
/// let permits = Permits::at_most(1);
/// let first = permits.take().unwrap();
/// assert!(permits.clone().take().is_none());
/// drop(first);
/// assert!(permits.take().is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Permits {
    used: Arc<AtomicUsize>,
    most: usize,
}

impl Default for Permits {
    fn default() -> Self {
        Self::at_most(usize::MAX)
    }
}

impl Permits {
    /// Returns permits for this number of tasks.
    pub fn at_most(most: usize) -> Self {
        Self { used: Arc::default(), most }
    }

    /// Returns the number of tasks.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Takes a permit, if one is left.
    pub fn take(&self) -> Option<Permit> {
        let one_more = |used: usize| (used < self.most).then(|| used.saturating_add(1));
        let taken = self.used.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        taken.is_ok().then(|| Permit(Arc::clone(&self.used)))
    }
}

/// A permit; it is given back when it is dropped.
#[derive(Debug)]
pub struct Permit(Arc<AtomicUsize>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
