//! The maps of a volume whose overwrites preserve the contents of snapshots.

use super::step::{PlannedWrite, WriteId};
use super::{Change, ChangeError, Entry, Extent, Gone, Provider, Shape, SnapshotId, SnapshotPlace, VolumeId};
use crate::set::run;
use scheduler::BlockSet;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;
use units::{Lbn, LbnRange, Sectors};

/// The treatment of an overwritten block that a snapshot claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cow {
    /// The new data go to a new place; the volume's map changes (WAFL).
    Application,
    /// The old data are copied to a new place first; the snapshot's map changes (FreeBSD).
    Snapshot,
}

/// The layout of a volume. A slot is room for a block; slot `i` begins at `first + i * block`, and for each block `i`
/// it is the block's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// The volume's identity.
    pub volume: VolumeId,
    /// The first sector of slot 0.
    pub first: Lbn,
    /// Sectors in a block.
    pub block: Sectors,
    /// Blocks of the volume.
    pub blocks: u64,
    /// Slots: one for each block, and room for the old contents of snapshots.
    pub slots: u64,
}

/// The reason for which a geometry is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum GeometryError {
    /// A block is empty, or larger than a session reads.
    #[error("a block of {0} sectors; give 1 to {most}", most = scheduler::BLOCK_SECTORS_MAX)]
    Block(Sectors),
    /// There are fewer slots than blocks.
    #[error("{slots} slots for {blocks} blocks; give at least as many slots as blocks")]
    Slots {
        /// Slots.
        slots: u64,
        /// Blocks.
        blocks: u64,
    },
    /// The volume is larger than any drive.
    #[error("{0} slots are more than a drive has; the most is 2^40, and the last LBN below 2^63")]
    TooLarge(u64),
}

impl Geometry {
    pub(super) fn check(&self) -> Result<(), GeometryError> {
        if self.block.get() == 0 || self.block.get() > scheduler::BLOCK_SECTORS_MAX {
            return Err(GeometryError::Block(self.block));
        }
        if self.slots < self.blocks {
            return Err(GeometryError::Slots { slots: self.slots, blocks: self.blocks });
        }
        let end = self.slots.checked_mul(self.block.get()).and_then(|n| n.checked_add(self.first.get()));
        if self.slots > 1 << 40 || end.is_none_or(|end| end >= 1 << 63) {
            return Err(GeometryError::TooLarge(self.slots));
        }
        Ok(())
    }

    pub(super) fn slot(&self, slot: u64) -> LbnRange {
        self.run(slot, 1)
    }

    fn run(&self, slot: u64, slots: u64) -> LbnRange {
        let block = self.block.get();
        LbnRange::new(Lbn::new(self.first.get() + slot * block), Sectors::new(slots * block))
    }
}

/// The reason for which a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SnapshotError {
    /// The snapshot would have half-written blocks, which would still change.
    #[error("{0} foreground writes are under way; let them end first")]
    WritesInFlight(usize),
    /// There is no such snapshot.
    #[error(transparent)]
    Gone(#[from] Gone),
    /// There is no such block.
    #[error("there is no block {block}: the volume has {blocks}")]
    NoBlock {
        /// The block named in the call.
        block: u64,
        /// Blocks of the volume.
        blocks: u64,
    },
    /// The block is being written.
    #[error("block {0} is being written; let that end first")]
    Busy(u64),
}

/// The use of the slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// All slots.
    pub slots: u64,
    /// Slots with the volume's current content.
    pub current: u64,
    /// Slots with content that only snapshots have.
    pub kept: u64,
    /// Slots reserved for writes under way.
    pub reserved: u64,
    /// Slots that turned out unwritable.
    pub retired: u64,
    /// Free slots.
    pub free: u64,
}

/// The place and age of a block's current content. A used block without a version has been at home since before the
/// first snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub slot: u64,
    /// The number of snapshots taken before this content was first written.
    pub born: u64,
}

/// An old content of a block, claimed by the snapshots numbered above `born` up to `until`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub slot: Option<u64>,
    pub born: u64,
    pub until: u64,
}

/// A volume that keeps snapshots by copy-on-write.
///
/// A volume does no I/O: [`write`](Self::write) plans the steps of a foreground write (FAST'04, section 4.1), and the
/// host carries them out in order. Changes of the maps are [`Entry`]s that the host makes durable before they take
/// effect; the last saved state and the entries since then restore the volume after a crash.
///
/// [`WriteError::Full`](super::WriteError::Full) means that no space is left and nothing has changed. The host then
/// refuses the write, deletes a snapshot, or [`invalidate`](Self::invalidate)s the oldest one and writes again.
///
/// ```
/// use freeblock_apps::snapshot::{Bytes, Change, Cow, Geometry, Provider, SnapshotPlace, Step, Volume, VolumeId};
/// use units::{Lbn, LbnRange, Sectors};
/// let range = |start, len| LbnRange::new(Lbn::new(start), Sectors::new(len));
/// let mut volume = Volume::new(
///     Geometry { volume: VolumeId(7), first: Lbn::ZERO, block: Sectors::new(8), blocks: 10, slots: 12 },
///     Cow::Snapshot,
/// )?;
/// let (snapshot, _entry) = volume.take()?;
/// let write = volume.write(range(16, 8))?;
/// let mut steps = Vec::new();
/// while let Some(step) = volume.step(write) {
///     steps.push(step);
///     volume.done(write);
/// }
/// assert_eq!(steps[0], Step::Read(range(16, 8)));
/// assert_eq!(steps[1], Step::Write { to: range(80, 8), bytes: Bytes::Read });
/// assert!(matches!(steps[2], Step::Record(e) if e.change == Change::Keep { block: 2, slot: Some(10) }));
/// assert_eq!(steps[3], Step::Write { to: range(16, 8), bytes: Bytes::Data { from: Sectors::ZERO } });
/// assert_eq!(volume.locate(snapshot, 2)?, SnapshotPlace::At(range(80, 8)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Volume {
    pub(super) geometry: Geometry,
    pub(super) cow: Cow,
    pub(super) generation: u64,
    /// The number of snapshots taken so far.
    pub(super) epoch: u64,
    pub(super) live: BTreeSet<SnapshotId>,
    pub(super) invalid: BTreeSet<SnapshotId>,
    /// Non-empty blocks.
    pub(super) used: BlockSet,
    pub(super) moved: BTreeMap<u64, Version>,
    pub(super) kept: BTreeMap<u64, Vec<Kept>>,
    pub(super) free: BlockSet,
    pub(super) retired: BTreeSet<u64>,
    pub(super) reserved: u64,
    pub(super) writes: BTreeMap<WriteId, PlannedWrite>,
    pub(super) busy: BTreeSet<u64>,
    pub(super) next_write: u64,
}

impl Volume {
    /// Creates a volume whose blocks are all non-empty and in their homes.
    ///
    /// # Errors
    /// The geometry is invalid.
    pub fn new(geometry: Geometry, cow: Cow) -> Result<Self, GeometryError> {
        geometry.check()?;
        let mut free = BlockSet::full(geometry.slots);
        free.remove_range(0, geometry.blocks);
        Ok(Self {
            geometry,
            cow,
            generation: 0,
            epoch: 0,
            live: BTreeSet::new(),
            invalid: BTreeSet::new(),
            used: BlockSet::full(geometry.blocks),
            moved: BTreeMap::new(),
            kept: BTreeMap::new(),
            free,
            retired: BTreeSet::new(),
            reserved: 0,
            writes: BTreeMap::new(),
            busy: BTreeSet::new(),
            next_write: 1,
        })
    }

    /// Returns the layout.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the kind of copy-on-write.
    pub fn cow(&self) -> Cow {
        self.cow
    }

    /// Iterates over the readable snapshots, oldest first.
    pub fn snapshots(&self) -> impl Iterator<Item = SnapshotId> + '_ {
        self.live.iter().copied()
    }

    /// Returns the use of the slots.
    pub fn space(&self) -> Space {
        let kept = self.kept.values().flatten().filter(|k| k.slot.is_some()).count();
        Space {
            slots: self.geometry.slots,
            current: self.used.len(),
            kept: kept as u64,
            reserved: self.reserved,
            retired: self.retired.len() as u64,
            free: self.free.len(),
        }
    }

    /// Returns the LBNs of the block's current content, for a foreground read; `None` if the block is empty.
    pub fn current(&self, block: u64) -> Option<LbnRange> {
        self.version(block).map(|v| self.geometry.slot(v.slot))
    }

    /// Takes a snapshot of the state after all ended writes. The entry must be durable before anything else is done.
    ///
    /// # Errors
    /// Writes are under way.
    pub fn take(&mut self) -> Result<(SnapshotId, Entry), SnapshotError> {
        self.quiet()?;
        let id = SnapshotId(self.epoch + 1);
        let entry = self.entry(Change::Snapshot(id));
        self.live.insert(id);
        self.epoch = id.0;
        Ok((id, entry))
    }

    /// Deletes a snapshot, or forgets an invalid one. Its space is free at once, so the entry must be durable before
    /// anything else is done.
    ///
    /// # Errors
    /// There is no such snapshot.
    pub fn delete(&mut self, id: SnapshotId) -> Result<Entry, SnapshotError> {
        if !self.invalid.remove(&id) {
            self.known(id)?;
            self.live.remove(&id);
            self.collect();
        }
        Ok(self.entry(Change::Delete(id)))
    }

    /// Invalidates a snapshot to free its space; as [`delete`](Self::delete), but its readers get the reason.
    ///
    /// # Errors
    /// There is no such snapshot.
    pub fn invalidate(&mut self, id: SnapshotId) -> Result<Entry, SnapshotError> {
        self.known(id)?;
        self.live.remove(&id);
        self.invalid.insert(id);
        self.collect();
        Ok(self.entry(Change::Invalidate(id)))
    }

    /// Empties the block (a file system's trim). Snapshots keep the contents that they claim.
    ///
    /// # Errors
    /// There is no such block, or it is being written.
    pub fn discard(&mut self, block: u64) -> Result<Option<Entry>, SnapshotError> {
        if block >= self.geometry.blocks {
            return Err(SnapshotError::NoBlock { block, blocks: self.geometry.blocks });
        }
        if self.busy.contains(&block) {
            return Err(SnapshotError::Busy(block));
        }
        let change = Change::Discard { block };
        Ok(self.apply(change).is_ok().then(|| self.entry(change)))
    }

    /// Applies a journal entry to the last saved state. Entries of an older state are skipped.
    ///
    /// # Errors
    /// The entry does not fit; nothing has changed.
    pub fn replay(&mut self, entry: Entry) -> Result<(), ChangeError> {
        match entry.generation.cmp(&self.generation) {
            std::cmp::Ordering::Less => Ok(()),
            std::cmp::Ordering::Equal => self.apply(entry.change),
            std::cmp::Ordering::Greater => {
                Err(ChangeError::Future { found: entry.generation, expected: self.generation })
            }
        }
    }

    pub(super) fn entry(&self, change: Change) -> Entry {
        Entry { generation: self.generation, change }
    }

    pub(super) fn quiet(&self) -> Result<(), SnapshotError> {
        if self.writes.is_empty() { Ok(()) } else { Err(SnapshotError::WritesInFlight(self.writes.len())) }
    }

    pub(super) fn version(&self, block: u64) -> Option<Version> {
        let home = Version { slot: block, born: 0 };
        self.used.contains(block).then(|| self.moved.get(&block).copied().unwrap_or(home))
    }

    /// Returns whether a snapshot after `born`, up to `until`, can still be read.
    pub(super) fn claimed(&self, born: u64, until: u64) -> bool {
        born < until && self.live.range(SnapshotId(born + 1)..=SnapshotId(until)).next().is_some()
    }

    pub(super) fn apply(&mut self, change: Change) -> Result<(), ChangeError> {
        let unfit = Err(ChangeError::Unfit(change));
        match change {
            Change::Snapshot(id) => {
                if Some(id.0) != self.epoch.checked_add(1) {
                    return unfit;
                }
                self.live.insert(id);
                self.epoch = id.0;
            }
            Change::Delete(id) => {
                if !self.live.remove(&id) && !self.invalid.remove(&id) {
                    return unfit;
                }
                self.collect();
            }
            Change::Invalidate(id) => {
                if !self.live.remove(&id) {
                    return unfit;
                }
                self.invalid.insert(id);
                self.collect();
            }
            Change::Touch { block } => {
                let Some(old) = self.version(block) else { return unfit };
                self.moved.insert(block, Version { slot: old.slot, born: self.epoch });
            }
            Change::Keep { block, slot } => {
                let Some(old) = self.version(block) else { return unfit };
                if slot.is_some_and(|s| !self.free.contains(s)) {
                    return unfit;
                }
                // The snapshot may have been deleted while its copy was made.
                if self.claimed(old.born, self.epoch) {
                    if let Some(slot) = slot {
                        self.free.remove(slot);
                    }
                    let kept = Kept { slot, born: old.born, until: self.epoch };
                    self.kept.entry(block).or_default().push(kept);
                }
                self.moved.insert(block, Version { slot: old.slot, born: self.epoch });
            }
            Change::Move { block, slot } => {
                if block >= self.geometry.blocks || !self.free.remove(slot) {
                    return unfit;
                }
                self.leave(block);
                self.used.insert(block);
                self.moved.insert(block, Version { slot, born: self.epoch });
            }
            Change::Discard { block } => {
                if !self.used.contains(block) {
                    return unfit;
                }
                self.leave(block);
                self.used.remove(block);
                self.moved.remove(&block);
            }
            Change::Retire { slot } => {
                if !self.free.remove(slot) {
                    return unfit;
                }
                self.retired.insert(slot);
            }
        }
        Ok(())
    }

    /// Passes the block's current content to the snapshots that claim it, or frees its slot.
    fn leave(&mut self, block: u64) {
        let Some(old) = self.version(block) else { return };
        if self.claimed(old.born, self.epoch) {
            let kept = Kept { slot: Some(old.slot), born: old.born, until: self.epoch };
            self.kept.entry(block).or_default().push(kept);
        } else {
            self.free.insert(old.slot);
        }
    }

    /// Frees contents that no snapshot claims any more.
    fn collect(&mut self) {
        let mut kept = std::mem::take(&mut self.kept);
        kept.retain(|_, versions| {
            versions.retain(|v| {
                let claimed = self.claimed(v.born, v.until);
                if let (false, Some(slot)) = (claimed, v.slot) {
                    self.free.insert(slot);
                }
                claimed
            });
            !versions.is_empty()
        });
        self.kept = kept;
    }

    fn known(&self, id: SnapshotId) -> Result<(), Gone> {
        if self.live.contains(&id) {
            Ok(())
        } else if self.invalid.contains(&id) {
            Err(Gone::Invalidated(id))
        } else if id.0 == 0 || id.0 > self.epoch {
            Err(Gone::Never(id))
        } else {
            Err(Gone::Deleted(id))
        }
    }

    /// Returns the slot of the block's content at a snapshot, and the snapshot count at its first write.
    fn held(&self, id: SnapshotId, block: u64) -> Option<(Option<u64>, u64)> {
        let kept = self.kept.get(&block).into_iter().flatten();
        if let Some(version) = kept.into_iter().find(|v| v.born < id.0 && id.0 <= v.until) {
            return Some((version.slot, version.born));
        }
        self.version(block).filter(|v| v.born < id.0).map(|v| (Some(v.slot), v.born))
    }
}

impl Provider for Volume {
    fn shape(&self) -> Shape {
        let Geometry { volume, first, block, blocks, .. } = self.geometry;
        Shape { volume, first, block, blocks }
    }

    fn next(&self, id: SnapshotId, base: Option<SnapshotId>, from: u64) -> Result<Option<Extent>, Gone> {
        self.known(id)?;
        if let Some(base) = base.filter(|b| b.0 == 0 || *b >= id) {
            return Err(Gone::NotABase { base, snapshot: id });
        }
        let since = base.map_or(0, |b| b.0);
        let mut at = from;
        while at < self.geometry.blocks {
            if !self.moved.contains_key(&at) && !self.kept.contains_key(&at) {
                // All blocks before the next one with an entry in the maps have been in their homes from the
                // beginning.
                let noted = |n: Option<u64>| n.unwrap_or(self.geometry.blocks);
                let end = noted(self.moved.range(at..).next().map(|(b, _)| *b))
                    .min(noted(self.kept.range(at..).next().map(|(b, _)| *b)));
                let first = self.used.next(at).unwrap_or(end).min(end);
                if since > 0 || first == end {
                    at = end;
                    continue;
                }
                let blocks = run(&self.used, first, end);
                let place = Some(self.geometry.run(first, blocks));
                return Ok(Some(Extent { first, blocks, place }));
            }
            if let Some((slot, _)) = self.held(id, at).filter(|(_, born)| *born >= since) {
                let place = slot.map(|slot| self.geometry.slot(slot));
                return Ok(Some(Extent { first: at, blocks: 1, place }));
            }
            at += 1;
        }
        Ok(None)
    }

    fn locate(&self, id: SnapshotId, block: u64) -> Result<SnapshotPlace, Gone> {
        self.known(id)?;
        Ok(match self.held(id, block) {
            Some((Some(slot), _)) => SnapshotPlace::At(self.geometry.slot(slot)),
            Some((None, _)) => SnapshotPlace::Lost,
            None => SnapshotPlace::Hole,
        })
    }
}
