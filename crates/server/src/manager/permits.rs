//! The limit on the number of scrubs and comparisons that run at a time, over all disks of a daemon.

use crate::task::budget::{Reservation, Shared};

/// The permits to run a task, shared by all disks of a daemon. By default their number is not limited.
///
/// ```
/// use server::manager::permits::Permits;
/// let permits = Permits::at_most(1);
/// let first = permits.take().unwrap();
/// assert!(permits.clone().take().is_none());
/// drop(first);
/// assert!(permits.take().is_some());
/// ```
#[derive(Clone, Debug)]
pub struct Permits(Shared);

impl Default for Permits {
    fn default() -> Self {
        Self::at_most(usize::MAX)
    }
}

impl Permits {
    /// Returns permits for at most `most` tasks at a time.
    pub fn at_most(most: usize) -> Self {
        Self(Shared::of(most as u64))
    }

    /// Returns the number of tasks that may run at a time.
    pub fn most(&self) -> u64 {
        self.0.most
    }

    /// Takes a permit, if one is free. Dropping the permit gives it back.
    pub fn take(&self) -> Option<Reservation> {
        self.0.take(1)
    }
}
