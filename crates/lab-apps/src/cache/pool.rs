//! All buffers, and the orders in which they are searched.

use super::buffer::Buffer;
use std::collections::{BTreeMap, BTreeSet};
use units::Instant;

/// A buffer's index in the pool.
pub(super) type BufferIndex = usize;

/// The fields of a buffer by which the orders sort it. A change of these moves the buffer in the orders.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Keys {
    block: Option<u64>,
    used: u64,
    /// The sequence number of the oldest unwritten write in a buffer that is dirty and whose write-back has not
    /// failed.
    dirty: Option<u64>,
    /// Whether the buffer has such an unwritten write and is not forced to be written.
    idle: bool,
    gift: bool,
    failed: Option<Instant>,
}

impl Keys {
    fn of(buffer: &Buffer) -> Self {
        let dirty = (!buffer.dirty.is_empty() && buffer.failed.is_none()).then_some(buffer.oldest.sequence);
        Self {
            block: buffer.block,
            used: buffer.used,
            dirty,
            idle: dirty.is_some() && buffer.forced.is_none(),
            gift: buffer.gift && buffer.dirty.is_empty(),
            failed: buffer.failed,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    slots: Vec<Buffer>,
    free: Vec<BufferIndex>,
    by_block: BTreeMap<u64, BufferIndex>,
    /// All buffers that hold a block, the least recently used first.
    pub by_use: BTreeSet<(u64, BufferIndex)>,
    /// Dirty buffers whose write-back has not failed, the buffer with the oldest write first.
    pub dirty: BTreeSet<(u64, BufferIndex)>,
    /// Those of the dirty buffers that are not forced: by their oldest write; the least recently used first; by
    /// block.
    pub idle_by_age: BTreeSet<(u64, BufferIndex)>,
    pub idle_by_use: BTreeSet<(u64, BufferIndex)>,
    pub idle_by_block: BTreeSet<(u64, BufferIndex)>,
    /// Buffers that are clean because of a free write, the least recently used first.
    pub gifts: BTreeSet<(u64, BufferIndex)>,
    /// Buffers whose write-back failed, by the time of the next try.
    pub failed: BTreeSet<(Instant, BufferIndex)>,
    uses: u64,
}

impl Pool {
    pub fn new(buffers: usize) -> Self {
        Self {
            slots: vec![Buffer::default(); buffers],
            free: (0..buffers).rev().collect(),
            ..Self::default()
        }
    }

    pub fn get(&self, slot: BufferIndex) -> &Buffer {
        &self.slots[slot]
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn find(&self, block: u64) -> Option<BufferIndex> {
        self.by_block.get(&block).copied()
    }

    /// Changes a buffer, and keeps the orders up to date: every change goes through this function.
    pub fn change<T>(&mut self, slot: BufferIndex, change: impl FnOnce(&mut Buffer) -> T) -> T {
        let buffer = &mut self.slots[slot];
        let before = Keys::of(buffer);
        let result = change(buffer);
        let after = Keys::of(buffer);
        if before != after {
            self.reindex(slot, before, after);
        }
        result
    }

    /// Records a use of the buffer.
    pub fn touch(&mut self, slot: BufferIndex) {
        self.uses += 1;
        let used = self.uses;
        self.change(slot, |b| b.used = used);
    }

    /// Gives a free buffer to a block.
    pub fn install(&mut self, block: u64, bytes: usize) -> Option<BufferIndex> {
        let slot = self.free.pop()?;
        self.uses += 1;
        let used = self.uses;
        self.change(slot, |b| {
            b.block = Some(block);
            b.used = used;
            b.bytes.resize(bytes, 0);
        });
        Some(slot)
    }

    /// Frees a buffer; its memory stays allocated.
    pub fn release(&mut self, slot: BufferIndex) {
        debug_assert!(self.slots[slot].is_evictable() && self.slots[slot].block.is_some());
        self.change(slot, |b| {
            let old = std::mem::take(b);
            (b.bytes, b.registrations) = (old.bytes, old.registrations);
        });
        self.free.push(slot);
    }

    pub fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    fn reindex(&mut self, slot: BufferIndex, before: Keys, after: Keys) {
        if before.block != after.block {
            before.block.map(|block| self.by_block.remove(&block));
            after.block.map(|block| self.by_block.insert(block, slot));
        }
        let index = |set: &mut BTreeSet<(u64, BufferIndex)>, key: fn(Keys) -> Option<u64>| {
            rekey(set, slot, key(before), key(after));
        };
        index(&mut self.by_use, |keys| keys.block.map(|_| keys.used));
        index(&mut self.dirty, |keys| keys.dirty);
        index(&mut self.idle_by_age, |keys| keys.dirty.filter(|_| keys.idle));
        index(&mut self.idle_by_use, |keys| keys.idle.then_some(keys.used));
        index(&mut self.idle_by_block, |keys| keys.block.filter(|_| keys.idle));
        index(&mut self.gifts, |keys| keys.gift.then_some(keys.used));
        rekey(&mut self.failed, slot, before.failed, after.failed);
    }
}

fn rekey<K: Ord + Copy>(
    set: &mut BTreeSet<(K, BufferIndex)>,
    slot: BufferIndex,
    before: Option<K>,
    after: Option<K>,
) {
    if before != after {
        before.map(|key| set.remove(&(key, slot)));
        after.map(|key| set.insert((key, slot)));
    }
}
