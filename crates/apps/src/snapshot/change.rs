//! Changes of a volume's maps, which the host journals.

use super::SnapshotId;
use crate::codec::{Cursor, seal, unseal};
use thiserror::Error;

/// One change of the maps. Each is made durable before it takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A snapshot is taken.
    Snapshot(SnapshotId),
    /// A snapshot is deleted.
    Delete(SnapshotId),
    /// A snapshot is invalidated to free its space.
    Invalidate(SnapshotId),
    /// The block is about to be overwritten in place, for the first time since the last snapshot.
    Touch {
        /// The block.
        block: u64,
    },
    /// Snapshot-copy-on-write: the old content of the block now lies in `slot`; `None` if it could not be read.
    Keep {
        /// The block.
        block: u64,
        /// The slot of the copy.
        slot: Option<u64>,
    },
    /// The block's content now lies in `slot`; its old content belongs to the snapshots that claim it.
    Move {
        /// The block.
        block: u64,
        /// The new slot of the block.
        slot: u64,
    },
    /// The block becomes empty.
    Discard {
        /// The block.
        block: u64,
    },
    /// The slot cannot be written; it is never used again.
    Retire {
        /// The slot.
        slot: u64,
    },
}

/// A change with the generation of the saved state that it applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The generation; a state of a later generation includes the change already.
    pub generation: u64,
    /// The change.
    pub change: Change,
}

/// The reason for which a journal entry was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// The bytes are not an entry.
    #[error("a journal entry is damaged; if it is the journal's last, its write was cut off: drop it")]
    Damaged,
    /// The entry applies to a state that was saved later.
    #[error("a journal entry is of generation {found}, the volume of {expected}; give the state saved last")]
    Future {
        /// The entry's generation.
        found: u64,
        /// The volume's generation.
        expected: u64,
    },
    /// The change does not fit this volume.
    #[error("{0:?} does not fit the volume; the journal is of another one, or misses an entry")]
    Unfit(Change),
}

impl Entry {
    /// Bytes in an entry.
    pub const BYTES: usize = 32;

    /// Returns the entry's bytes: generation, two operands of the change, its kind, three zeros, CRC-32;
    /// little-endian.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let (kind, a, b) = match self.change {
            Change::Snapshot(id) => (1u8, id.0, 0),
            Change::Delete(id) => (2, id.0, 0),
            Change::Invalidate(id) => (3, id.0, 0),
            Change::Touch { block } => (4, block, 0),
            Change::Keep { block, slot: Some(slot) } => (5, block, slot),
            Change::Keep { block, slot: None } => (6, block, 0),
            Change::Move { block, slot } => (7, block, slot),
            Change::Discard { block } => (8, block, 0),
            Change::Retire { slot } => (9, slot, 0),
        };
        let mut out = Vec::with_capacity(Self::BYTES);
        for n in [self.generation, a, b] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        out.extend_from_slice(&[kind, 0, 0, 0]);
        seal(&mut out);
        let mut bytes = [0; Self::BYTES];
        for (to, from) in bytes.iter_mut().zip(out) {
            *to = from;
        }
        bytes
    }

    /// Reads an entry.
    ///
    /// # Errors
    /// [`ChangeError::Damaged`].
    pub fn decode(bytes: &[u8]) -> Result<Self, ChangeError> {
        let body = (bytes.len() == Self::BYTES).then(|| unseal(bytes)).flatten();
        body.and_then(Self::parse).ok_or(ChangeError::Damaged)
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(body);
        let (generation, a, b) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
        let change = match (cursor.u32()?, b) {
            (1, 0) => Change::Snapshot(SnapshotId(a)),
            (2, 0) => Change::Delete(SnapshotId(a)),
            (3, 0) => Change::Invalidate(SnapshotId(a)),
            (4, 0) => Change::Touch { block: a },
            (5, slot) => Change::Keep { block: a, slot: Some(slot) },
            (6, 0) => Change::Keep { block: a, slot: None },
            (7, slot) => Change::Move { block: a, slot },
            (8, 0) => Change::Discard { block: a },
            (9, 0) => Change::Retire { slot: a },
            _ => return None,
        };
        Some(Self { generation, change })
    }
}
