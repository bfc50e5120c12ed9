//! What the content of blocks should be.

use crate::codec::{Cursor, seal, unseal};
use std::collections::BTreeMap;

/// What a store knows of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The CRC-32 of its content; `None`: unknown.
    pub sum: Option<u32>,
    /// The store's [`now`](Checksums::now) when the last write of the block ended; 0: before the store began.
    pub since: u64,
    /// Whether a write of the block is under way.
    pub changing: bool,
}

/// A checksum store.
///
/// Whoever writes a block says so before the write goes out, and again, with the new checksum, when it has ended. A
/// read's bytes were on the medium at some time between its registration and its record; so they prove something only
/// if no write of the block was under way in that time. The scrubber takes [`now`](Self::now) at registration; a
/// mismatch of a block that has `changing`, or a later `since`, is read again and not reported.
pub trait Checksums {
    /// A count that grows with each write that begins or ends.
    fn now(&self) -> u64;
    /// What is known of a block of the scrubber's plan.
    fn known(&self, block: u64) -> Known;
}

/// A store in memory, four bytes and some a block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryChecksums {
    now: u64,
    sums: BTreeMap<u64, Known>,
    writers: BTreeMap<u64, u32>,
}

impl MemoryChecksums {
    /// Nothing is known.
    pub fn new() -> Self {
        Self::default()
    }

    /// A write of the block, whole or in part, is about to go out. What is saved from here on does not know the block;
    /// a host that saves seldom notes it durably before the write, and calls this again after a restart.
    pub fn writing(&mut self, block: u64) {
        self.now += 1;
        *self.writers.entry(block).or_default() += 1;
        let known = self.sums.entry(block).or_default();
        known.sum = None;
        known.changing = true;
    }

    /// The write has ended, or failed. `content` is the block's, if it is known: of two writes at a time it is not.
    pub fn written(&mut self, block: u64, content: Option<&[u8]>) {
        self.now += 1;
        let left = self.writers.get(&block).map_or(0, |n| n.saturating_sub(1));
        let known = self.sums.entry(block).or_default();
        // Two writes that overlapped in time: nobody knows which was last on the medium.
        let alone = left == 0 && known.changing && known.since != u64::MAX;
        known.sum = content.filter(|_| alone).map(crc32fast::hash);
        known.since = if left == 0 { self.now } else { u64::MAX };
        known.changing = left > 0;
        if left == 0 {
            self.writers.remove(&block);
        } else {
            self.writers.insert(block, left);
        }
    }

    /// The store as bytes. A block that is being written is unknown in them.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = b"FBSUMS01".to_vec();
        for (block, sum) in self.sums.iter().filter_map(|(b, k)| Some((b, k.sum?))) {
            out.extend_from_slice(&block.to_le_bytes());
            out.extend_from_slice(&sum.to_le_bytes());
        }
        seal(&mut out);
        out
    }

    /// The store that was saved; `None` if the bytes are damaged or not a store's: begin with an empty one.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(unseal(bytes)?.strip_prefix(b"FBSUMS01")?);
        let mut store = Self::new();
        while !cursor.is_empty() {
            let (block, sum) = (cursor.u64()?, cursor.u32()?);
            store.sums.insert(block, Known { sum: Some(sum), ..Known::default() });
        }
        Some(store)
    }
}

impl Checksums for MemoryChecksums {
    fn now(&self) -> u64 {
        self.now
    }
    fn known(&self, block: u64) -> Known {
        self.sums.get(&block).copied().unwrap_or_default()
    }
}

/// No store: only the medium is tested.
impl Checksums for () {
    fn now(&self) -> u64 {
        0
    }
    fn known(&self, _: u64) -> Known {
        Known::default()
    }
}

impl<C: Checksums> Checksums for std::rc::Rc<std::cell::RefCell<C>> {
    fn now(&self) -> u64 {
        self.borrow().now()
    }
    fn known(&self, block: u64) -> Known {
        self.borrow().known(block)
    }
}
