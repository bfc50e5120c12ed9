//! Snapshots of a volume: the interface for backups ([`Provider`]), and a volume with two kinds of copy-on-write
//! ([`Volume`]).
//!
//! FAST'04, section 4.1: when a block that a snapshot claims is overwritten, either the new data go elsewhere
//! (application-copy-on-write, as WAFL does) or the old data do (snapshot-copy-on-write, as FreeBSD does).

mod change;
mod state;
mod step;
mod volume;
mod write;

pub use change::{Change, ChangeError, Entry};
pub use state::VolumeStateError;
pub use step::{Bytes, Step, WriteId};
pub use volume::{Cow, Geometry, GeometryError, SnapshotError, Space, Volume};
pub use write::{WriteError, WriteFailure, WriteProgress};

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;
use units::{Lbn, LbnRange, Sectors};

/// A volume's identity: a number drawn at random when the volume is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u128);

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "volume {:032x}", self.0)
    }
}

/// A snapshot of a volume. Snapshots are numbered from 1 in order of time; no number is used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub u64);

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "snapshot {}", self.0)
    }
}

/// The present place of the content that a block had at a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotPlace {
    /// The content is at these LBNs at present. It may move while the block is read, so ask again afterwards.
    At(LbnRange),
    /// The content is lost: it could not be read when it was to be copied.
    Lost,
    /// The block was empty.
    Hole,
}

/// Contiguous blocks of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first block.
    pub first: u64,
    /// The number of blocks; 1 for a lost block.
    pub blocks: u64,
    /// The contiguous LBNs of these blocks; `None` for a lost block.
    pub place: Option<LbnRange>,
}

/// The reason for which a snapshot cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Gone {
    /// The snapshot was never taken.
    #[error("{0} was never taken; give the number that taking it returned")]
    Never(SnapshotId),
    /// The snapshot was deleted.
    #[error("{0} was deleted; take a new one")]
    Deleted(SnapshotId),
    /// The snapshot was invalidated, because writes needed its space.
    #[error("{0} is invalid: its space was needed for writes; take a new one, with more room")]
    Invalidated(SnapshotId),
    /// The base of the difference is not older than the snapshot.
    #[error("no difference from {base} to {snapshot}: the base must be taken, and older")]
    NotABase {
        /// The given base.
        base: SnapshotId,
        /// The snapshot to be compared with it.
        snapshot: SnapshotId,
    },
}

/// The shape of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The volume's identity.
    pub volume: VolumeId,
    /// The first LBN of block 0's home.
    pub first: Lbn,
    /// Sectors in a block.
    pub block: Sectors,
    /// The number of blocks.
    pub blocks: u64,
}

impl Shape {
    /// Returns a block's home: its address on the volume, and on any replica.
    pub fn home(&self, block: u64) -> Lbn {
        Lbn::new(self.first.get().saturating_add(block.saturating_mul(self.block.get())))
    }
}

/// A source of snapshots: knows the current place of each block.
pub trait Provider {
    /// Returns the volume's shape, which never changes.
    fn shape(&self) -> Shape;

    /// Returns the first blocks, from `from` on, of the snapshot's list: all non-empty blocks or, with a base, those
    /// written since the base was taken. The list of a snapshot never changes, only the places.
    ///
    /// # Errors
    /// The snapshot is gone, or the base is not valid for it. A base may have been deleted.
    fn next(&self, snapshot: SnapshotId, base: Option<SnapshotId>, from: u64)
    -> Result<Option<Extent>, Gone>;

    /// Returns the current place of the block's content.
    ///
    /// # Errors
    /// The snapshot is gone.
    fn locate(&self, snapshot: SnapshotId, block: u64) -> Result<SnapshotPlace, Gone>;
}

impl<P: Provider + ?Sized> Provider for &P {
    fn shape(&self) -> Shape {
        (**self).shape()
    }
    fn next(
        &self,
        snapshot: SnapshotId,
        base: Option<SnapshotId>,
        from: u64,
    ) -> Result<Option<Extent>, Gone> {
        (**self).next(snapshot, base, from)
    }
    fn locate(&self, snapshot: SnapshotId, block: u64) -> Result<SnapshotPlace, Gone> {
        (**self).locate(snapshot, block)
    }
}

/// Lets a host that writes and a backup that reads share a volume in one thread. The host must hold no borrow while
/// it passes a record to the backup.
impl<P: Provider> Provider for Rc<RefCell<P>> {
    fn shape(&self) -> Shape {
        self.borrow().shape()
    }
    fn next(
        &self,
        snapshot: SnapshotId,
        base: Option<SnapshotId>,
        from: u64,
    ) -> Result<Option<Extent>, Gone> {
        self.borrow().next(snapshot, base, from)
    }
    fn locate(&self, snapshot: SnapshotId, block: u64) -> Result<SnapshotPlace, Gone> {
        self.borrow().locate(snapshot, block)
    }
}

/// Lets a host that writes and a backup that reads share a volume across threads.
impl<P: Provider> Provider for Arc<Mutex<P>> {
    fn shape(&self) -> Shape {
        self.lock().unwrap_or_else(PoisonError::into_inner).shape()
    }
    fn next(
        &self,
        snapshot: SnapshotId,
        base: Option<SnapshotId>,
        from: u64,
    ) -> Result<Option<Extent>, Gone> {
        self.lock().unwrap_or_else(PoisonError::into_inner).next(snapshot, base, from)
    }
    fn locate(&self, snapshot: SnapshotId, block: u64) -> Result<SnapshotPlace, Gone> {
        self.lock().unwrap_or_else(PoisonError::into_inner).locate(snapshot, block)
    }
}
