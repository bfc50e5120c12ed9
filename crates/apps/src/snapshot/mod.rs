//! Snapshots of a volume: what the backup asks ([`Provider`]), and two real providers ([`Volume`]).
//!
//! FAST'04, section 4.1: when a block that a snapshot claims is overwritten, either the new data go elsewhere
//! (application-copy-on-write, as WAFL does) or the old data do (snapshot-copy-on-write, as FreeBSD does).

mod change;
mod state;
mod volume;
mod write;

pub use change::{Change, ChangeError, Entry};
pub use state::StateError;
pub use volume::{Cow, Geometry, GeometryError, SnapshotError, Space, Volume};
pub use write::{Bytes, Progress, Step, WriteError, WriteFailure, WriteId};

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use thiserror::Error;
use units::{Lbn, LbnRange, Sectors};

/// A volume's name, unlike any other's: whoever makes the volume draws it at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(pub u128);

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "volume {:032x}", self.0)
    }
}

/// A snapshot of a volume. Numbered from 1 in the order in which they are taken, never used twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub u64);

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "snapshot {}", self.0)
    }
}

/// Where the content lies that a block had at the snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Here, now. It may move until it is read; ask again afterwards.
    At(LbnRange),
    /// Nowhere any more: it could not be read when it should have been copied.
    Lost,
    /// The block held nothing.
    Hole,
}

/// Blocks of a snapshot that lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first block.
    pub first: u64,
    /// How many; one where it is lost.
    pub blocks: u64,
    /// Where they lie, all together; `None` for a lost block.
    pub place: Option<LbnRange>,
}

/// Why a snapshot cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Gone {
    /// It never was.
    #[error("{0} was never taken; give the number that taking it returned")]
    Never(SnapshotId),
    /// Somebody deleted it.
    #[error("{0} was deleted; take a new one")]
    Deleted(SnapshotId),
    /// The volume needed its space.
    #[error("{0} is invalid: its space was needed for writes; take a new one, with more room")]
    Invalidated(SnapshotId),
    /// A difference from a snapshot that is not older.
    #[error("no difference from {base} to {snapshot}: the base must be taken, and older")]
    NotABase {
        /// What was given as the base.
        base: SnapshotId,
        /// What was to be compared with it.
        snapshot: SnapshotId,
    },
}

/// The shape of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its name.
    pub volume: VolumeId,
    /// Where block 0 has its home.
    pub first: Lbn,
    /// Sectors in a block.
    pub block: Sectors,
    /// Blocks.
    pub blocks: u64,
}

impl Shape {
    /// Where a block has its home: its address on the volume, and on any replica.
    pub fn home(&self, block: u64) -> Lbn {
        Lbn::new(self.first.get().saturating_add(block.saturating_mul(self.block.get())))
    }
}

/// Who knows where the blocks of snapshots lie.
pub trait Provider {
    /// The volume's shape; it never changes.
    fn shape(&self) -> Shape;

    /// The first blocks, not below `from`, of the snapshot's list: all that held something, or with a base those that
    /// were written since it was taken. The list of a snapshot never changes, only the places.
    ///
    /// # Errors
    /// The snapshot is gone, or the base is none for it. A base may have been deleted.
    fn next(&self, snapshot: SnapshotId, base: Option<SnapshotId>, from: u64)
    -> Result<Option<Extent>, Gone>;

    /// Where the block's content lies now.
    ///
    /// # Errors
    /// The snapshot is gone.
    fn locate(&self, snapshot: SnapshotId, block: u64) -> Result<Place, Gone>;
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
    fn locate(&self, snapshot: SnapshotId, block: u64) -> Result<Place, Gone> {
        (**self).locate(snapshot, block)
    }
}

/// The host, which writes, and the backup, which asks, share the volume in one thread. The host holds no borrow while
/// it hands a record over.
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
    fn locate(&self, snapshot: SnapshotId, block: u64) -> Result<Place, Gone> {
        self.borrow().locate(snapshot, block)
    }
}

/// As above, among threads.
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
    fn locate(&self, snapshot: SnapshotId, block: u64) -> Result<Place, Gone> {
        self.lock().unwrap_or_else(PoisonError::into_inner).locate(snapshot, block)
    }
}
