//! The buffer cache: the most recently used blocks, in memory. Dirty blocks are written late, and never if they are
//! freed first.

use super::damage::BlockDamage;
use super::error::{FileError, StoreCall};
use super::format::{self, BlockKind, Superblock};
use super::store::{BLOCK_BYTES, Block, LogicalBlock, Store};

pub(super) type Result<T, S> = std::result::Result<T, FileError<<S as Store>::Error>>;

/// Counts of the file layer and its cache since the file system was made or mounted. The mount itself is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileStatistics {
    /// Accesses to a block in memory; an operation may access a block several times.
    pub hits: u64,
    /// Accesses to a block that had to be read from the store.
    pub misses: u64,
    /// Blocks written to the store, on eviction, by a sync, and for the superblock.
    pub writes: u64,
    /// Blocks freed in the store.
    pub frees: u64,
    /// Dirty blocks that were freed before their first write.
    pub dropped: u64,
}

impl FileStatistics {
    /// Returns the difference between `earlier` and these counts.
    pub const fn since(self, earlier: Self) -> Self {
        Self {
            hits: self.hits - earlier.hits,
            misses: self.misses - earlier.misses,
            writes: self.writes - earlier.writes,
            frees: self.frees - earlier.frees,
            dropped: self.dropped - earlier.dropped,
        }
    }
}

/// A block in memory. It stays there while fewer than [`CACHE_BLOCKS_MIN`](super::CACHE_BLOCKS_MIN) other blocks are
/// fetched or begun, because only the least recently used block leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlotId(u32);

#[derive(Clone, Debug)]
struct CachedBlock {
    block: LogicalBlock,
    kind: BlockKind,
    data: Box<Block>,
    dirty: bool,
    /// Whether the store has a version of the block, so that the block must be freed there too.
    stored: bool,
    newer: u32,
    older: u32,
}

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct BlockCache<S> {
    store: S,
    pub superblock: Superblock,
    slots: Vec<CachedBlock>,
    unused: Vec<u32>,
    /// The slot of every block of the file system, plus one; 0 for a block that has none. Untouched zeroed memory
    /// costs nothing.
    index: Vec<u32>,
    newest: u32,
    oldest: u32,
    capacity: usize,
    dirty: usize,
    pub statistics: FileStatistics,
}

impl<S: Store> BlockCache<S> {
    pub fn new(store: S, superblock: Superblock, capacity: usize) -> Self {
        Self {
            store,
            superblock,
            slots: Vec::new(),
            unused: Vec::new(),
            index: vec![0; superblock.blocks as usize],
            newest: NONE,
            oldest: NONE,
            capacity,
            dirty: 0,
            statistics: FileStatistics::default(),
        }
    }

    pub const fn store(&self) -> &S {
        &self.store
    }

    pub const fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    pub fn into_store(self) -> S {
        self.store
    }

    /// Returns the number of blocks that changed since they were last written.
    pub const fn dirty(&self) -> usize {
        self.dirty
    }

    pub fn cached(&self) -> usize {
        self.slots.len() - self.unused.len()
    }

    pub fn contains(&self, block: LogicalBlock) -> bool {
        self.slot_of(block).is_some()
    }

    pub fn will_read(&mut self, blocks: &[LogicalBlock]) {
        self.store.will_read(blocks);
    }

    /// Gets a block into memory. `checksum` is that of a file's bytes; it is ignored for metadata.
    pub fn fetch(&mut self, block: LogicalBlock, kind: BlockKind, checksum: u32) -> Result<SlotId, S> {
        if let Some(slot) = self.slot_of(block) {
            self.statistics.hits += 1;
            self.unlink(slot);
            self.link(slot);
            return Ok(SlotId(slot));
        }
        if block.index() >= self.index.len() {
            return Err(FileError::Damaged { block, kind, problem: BlockDamage::Pointer(block) });
        }
        let slot = self.room(block, kind)?;
        let held = &mut self.slots[slot as usize];
        let outcome = match self.store.read(block, &mut held.data[..]) {
            Ok(()) => format::verify(&held.data, block, kind, checksum)
                .map_err(|problem| FileError::Damaged { block, kind, problem }),
            Err(source) => Err(FileError::Store { call: StoreCall::Read, block, source }),
        };
        if let Err(error) = outcome {
            self.unused.push(slot);
            return Err(error);
        }
        held.stored = true;
        held.dirty = false;
        self.statistics.misses += 1;
        self.insert(slot);
        Ok(SlotId(slot))
    }

    /// Begins a new block with nothing but a header; the store has no version of it.
    pub fn begin(&mut self, block: LogicalBlock, kind: BlockKind) -> Result<SlotId, S> {
        debug_assert!(!self.contains(block), "{block} is not new");
        let slot = self.room(block, kind)?;
        let held = &mut self.slots[slot as usize];
        format::begin(&mut held.data, block, kind);
        held.stored = false;
        held.dirty = true;
        self.dirty += 1;
        self.insert(slot);
        Ok(SlotId(slot))
    }

    /// Returns the bytes of a block.
    pub fn data(&self, slot: SlotId) -> &Block {
        &self.slots[slot.0 as usize].data
    }

    /// Returns the bytes of a block to be changed, and marks it dirty.
    pub fn data_mut(&mut self, slot: SlotId) -> &mut Block {
        let slot = &mut self.slots[slot.0 as usize];
        if !slot.dirty {
            slot.dirty = true;
            self.dirty += 1;
        }
        &mut slot.data
    }

    /// Drops a block from memory; returns whether it must be freed in the store.
    pub fn discard(&mut self, block: LogicalBlock) -> bool {
        let Some(slot) = self.slot_of(block) else {
            return true;
        };
        self.remove(slot);
        let held = &mut self.slots[slot as usize];
        if held.dirty {
            held.dirty = false;
            self.dirty -= 1;
            self.statistics.dropped += 1;
        }
        self.unused.push(slot);
        self.slots[slot as usize].stored
    }

    /// Frees a block in the store.
    pub fn free(&mut self, block: LogicalBlock) -> Result<(), S> {
        self.mark_unsynced()?;
        let outcome = self.store.free(block);
        outcome.map_err(|source| FileError::Store { call: StoreCall::Free, block, source })?;
        self.statistics.frees += 1;
        Ok(())
    }

    /// Writes all dirty blocks, in the order of block numbers.
    pub fn write_all_back(&mut self) -> Result<(), S> {
        let mut dirty = Vec::with_capacity(self.dirty);
        // A change counts as a use, so dirty blocks are near the most recently used end of the list.
        let mut slot = self.newest;
        while dirty.len() < self.dirty
            && let Some(held) = self.slots.get(slot as usize)
        {
            if held.dirty {
                dirty.push(slot);
            }
            slot = held.older;
        }
        dirty.sort_unstable_by_key(|&slot| self.slots[slot as usize].block);
        for slot in dirty {
            self.write_back(slot)?;
        }
        Ok(())
    }

    /// Writes all dirty blocks, and then a superblock that says that the file system is synced.
    pub fn sync(&mut self) -> Result<(), S> {
        self.write_all_back()?;
        if !self.superblock.synced {
            let synced =
                Superblock { synced: true, generation: self.superblock.generation + 1, ..self.superblock };
            self.write_superblock(synced)?;
        }
        Ok(())
    }

    fn slot_of(&self, block: LogicalBlock) -> Option<u32> {
        self.index.get(block.index())?.checked_sub(1)
    }

    /// Returns a slot that is in no list. If the least recently used block cannot be written, it stays where it is.
    fn room(&mut self, block: LogicalBlock, kind: BlockKind) -> Result<u32, S> {
        let slot = if let Some(slot) = self.unused.pop() {
            slot
        } else if self.slots.len() < self.capacity {
            let data = Box::new([0; BLOCK_BYTES]);
            self.slots.push(CachedBlock {
                block,
                kind,
                data,
                dirty: false,
                stored: false,
                newer: NONE,
                older: NONE,
            });
            return Ok(self.slots.len() as u32 - 1);
        } else {
            let oldest = self.oldest;
            if self.slots[oldest as usize].dirty {
                self.write_back(oldest)?;
            }
            self.remove(oldest);
            oldest
        };
        let held = &mut self.slots[slot as usize];
        (held.block, held.kind) = (block, kind);
        Ok(slot)
    }

    fn write_back(&mut self, slot: u32) -> Result<(), S> {
        self.mark_unsynced()?;
        let held = &mut self.slots[slot as usize];
        format::seal(&mut held.data, held.kind);
        let (block, outcome) = (held.block, self.store.write(held.block, &held.data[..]));
        outcome.map_err(|source| FileError::Store { call: StoreCall::Write, block, source })?;
        held.dirty = false;
        held.stored = true;
        self.dirty -= 1;
        self.statistics.writes += 1;
        Ok(())
    }

    /// Records in the store, before its first change after a sync, that blocks may contradict one another.
    fn mark_unsynced(&mut self) -> Result<(), S> {
        match self.superblock.synced {
            true => self.write_superblock(Superblock { synced: false, ..self.superblock }),
            false => Ok(()),
        }
    }

    fn write_superblock(&mut self, superblock: Superblock) -> Result<(), S> {
        let block = LogicalBlock::new(0);
        let outcome = self.store.write(block, &superblock.encode());
        outcome.map_err(|source| FileError::Store { call: StoreCall::Write, block, source })?;
        self.superblock = superblock;
        self.statistics.writes += 1;
        Ok(())
    }

    fn insert(&mut self, slot: u32) {
        let block = self.slots[slot as usize].block;
        self.index[block.index()] = slot + 1;
        self.link(slot);
    }

    fn remove(&mut self, slot: u32) {
        let block = self.slots[slot as usize].block;
        self.index[block.index()] = 0;
        self.unlink(slot);
    }

    fn link(&mut self, slot: u32) {
        let before = std::mem::replace(&mut self.newest, slot);
        let held = &mut self.slots[slot as usize];
        (held.newer, held.older) = (NONE, before);
        match self.slots.get_mut(before as usize) {
            Some(before) => before.newer = slot,
            None => self.oldest = slot,
        }
    }

    fn unlink(&mut self, slot: u32) {
        let CachedBlock { newer, older, .. } = self.slots[slot as usize];
        match self.slots.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
        match self.slots.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
    }
}
