//! A checksum store in a file: 4.13 bytes a block there, a bounded number of pages in memory.

use super::{Checksums, Known, ScrubPlan};
use crate::codec::{Cursor, seal, unseal};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use thiserror::Error;
use units::{Lbn, LbnRange, Sectors};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Blocks in a page: four bytes of checksum each, a bit for "known", and the page's own CRC-32.
const PAGE_BLOCKS: u64 = 992;
/// The bytes of a page's checksums.
const SUMS_BYTES: usize = PAGE_BLOCKS as usize * 4;
/// The bytes of a page's checksums and of the bits that say which of them are known.
const BODY_BYTES: usize = SUMS_BYTES + PAGE_BLOCKS as usize / 8;
const _: () = assert!(BODY_BYTES + 4 == PAGE_BYTES, "a page is full");

const MAGIC: &[u8; 8] = b"FBSUMS01";
/// The first bytes of the pages with the sequence numbers.
const SLOT: &[u8; 8] = b"FBSUMSEQ";
/// The most damaged pages whose numbers are remembered: a store that is damaged everywhere must not fill the memory.
const DAMAGED_PAGES_MAX: usize = 1 << 12;

/// A file of pages of [`PAGE_BYTES`] each.
pub trait SumFile {
    /// Reads a page. Returns `false` if the file ends before the end of the page.
    ///
    /// # Errors
    /// The file failed; the text says why.
    fn read(&mut self, page: u64, into: &mut [u8]) -> Result<bool, String>;

    /// Writes a page; if the file is too short, it grows with zeros.
    ///
    /// # Errors
    /// The file failed; the text says why.
    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), String>;

    /// Makes the written pages durable. After a crash before that, each page may be old, new or torn.
    ///
    /// # Errors
    /// The file failed; the text says why.
    fn sync(&mut self) -> Result<(), String>;
}

impl SumFile for Vec<u8> {
    fn read(&mut self, page: u64, into: &mut [u8]) -> Result<bool, String> {
        let start = usize::try_from(page).ok().and_then(|p| p.checked_mul(PAGE_BYTES));
        let found = start.and_then(|s| self.get(s..s + PAGE_BYTES)).filter(|b| b.len() == into.len());
        if let Some(bytes) = found {
            into.copy_from_slice(bytes);
        }
        Ok(found.is_some())
    }

    fn write(&mut self, page: u64, bytes: &[u8]) -> Result<(), String> {
        let end = (page as usize + 1) * PAGE_BYTES;
        if self.len() < end {
            self.resize(end, 0);
        }
        if let Some(into) = self.get_mut(end - PAGE_BYTES..end).filter(|into| into.len() == bytes.len()) {
            into.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// The reason for which a store was not opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The file is not a checksum store of this version.
    #[error("not a checksum store, version 1; give the store's file, or make a new one with `create`")]
    Foreign,
    /// The first page is damaged.
    #[error("the checksum store's first page is damaged; give a copy, or make a new store with `create`")]
    Damaged,
    /// The store is of another range or block size.
    #[error(
        "the checksum store is of LBNs {range} in blocks of {block}; give the file of the range to be scrubbed, or scrub \
         the store's range in its block size"
    )]
    OtherPlan {
        /// The store's range.
        range: LbnRange,
        /// The store's block size.
        block: Sectors,
    },
    /// The store is not the one that was kept up to date while the disk was written.
    #[error(
        "the checksum store is not the one that was kept while the disk was written, so its sums may be old; give the \
         store that was kept, or begin this one anew"
    )]
    Stale,
    /// The file fails.
    #[error("the checksum store's file fails: {0}; mend it before more is written to the drive")]
    File(String),
}

/// A page with a wrong checksum, or one that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DamagedPage {
    /// The number of the page; the first with sums is 1.
    pub page: u64,
    /// The first block of the page.
    pub first: u64,
    /// The block after the last one of the page.
    pub end: u64,
}

impl fmt::Display for DamagedPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { page, first, end } = self;
        write!(
            f,
            "page {page} of the checksum store is damaged: blocks {first} to {} are not verified until they are written \
             again; give a copy of the store, or go on",
            end - 1
        )
    }
}

/// The size of a store in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreLimits {
    /// Pages, at least 1.
    pub pages: usize,
    /// The most blocks whose last write has an exact time. All others count as written when the latest of those
    /// dropped from memory was written: if such a block does not match, it is read twice before it is reported.
    pub recent: usize,
}

impl Default for StoreLimits {
    /// Returns 1 MiB of pages and 65,536 recent blocks.
    fn default() -> Self {
        Self { pages: 256, recent: 1 << 16 }
    }
}

/// The writes under way to a block.
#[derive(Clone, Copy, Debug, Default)]
struct BlockWrites {
    writes: u32,
    /// Whether two of the writes overlapped in time, so that the resulting content is unknown.
    overlap: bool,
}

#[derive(Clone, Debug)]
struct Page {
    body: Vec<u8>,
    dirty: bool,
    used: u64,
}

/// A checksum store in a file.
///
/// Memory is bounded by [`StoreLimits`], whatever the size of the drive; a 20 TB drive in 4 KiB blocks takes a file
/// of 20 GB. A crash at any time leaves no wrong sum: a block's sum is dropped, durably, before the block is written.
#[derive(Clone, Debug)]
pub struct StoredChecksums<F> {
    file: F,
    id: u64,
    blocks: u64,
    limits: StoreLimits,
    now: u64,
    recent: BTreeMap<u64, u64>,
    /// The blocks of `recent`, by the time of their last write.
    oldest: BTreeMap<u64, u64>,
    /// The time of the last write of the blocks that were dropped from `recent`.
    floor: u64,
    writing: BTreeMap<u64, BlockWrites>,
    pages: BTreeMap<u64, Page>,
    uses: u64,
    damaged: BTreeSet<u64>,
    failure: Option<String>,
    /// Whether pages were written since the last sync.
    unsynced: bool,
    /// The number of times that sums were forgotten, by which a host recognises an older copy of the file.
    sequence: u64,
}

impl<F: SumFile> StoredChecksums<F> {
    /// Creates a store in an empty file, for the blocks of a plan: no checksum is known.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn create(plan: ScrubPlan, limits: StoreLimits, file: F) -> Result<Self, StoreError> {
        Self::create_as(0, plan, limits, file)
    }

    /// Creates a store with a number by which [`open_as`](Self::open_as) distinguishes it from other stores.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn create_as(id: u64, plan: ScrubPlan, limits: StoreLimits, mut file: F) -> Result<Self, StoreError> {
        let mut header = MAGIC.to_vec();
        for n in [plan.range.start().get(), plan.range.len().get(), plan.block.get(), id] {
            header.extend_from_slice(&n.to_le_bytes());
        }
        header.resize(PAGE_BYTES - 4, 0);
        seal(&mut header);
        file.write(0, &header).and_then(|()| file.sync()).map_err(StoreError::File)?;
        let mut store = Self::with(id, plan, limits, file);
        // Writes both slots of the sequence number, so that forgetting sums never has to extend the file: on a full
        // disk that would fail just when blocks are to be written.
        for slot in 0..2 {
            store.write_slot(slot, 0).map_err(StoreError::File)?;
        }
        store.file.sync().map_err(StoreError::File)?;
        Ok(store)
    }

    /// Opens the store in a file.
    ///
    /// # Errors
    /// The file is refused, with the reason.
    pub fn open(plan: ScrubPlan, limits: StoreLimits, mut file: F) -> Result<Self, StoreError> {
        let mut header = vec![0; PAGE_BYTES];
        let there = file.read(0, &mut header).map_err(StoreError::File)?;
        if !there || !header.starts_with(MAGIC) {
            return Err(StoreError::Foreign);
        }
        let mut c = Cursor::new(unseal(&header).ok_or(StoreError::Damaged)?);
        let (Some(_), Some(start), Some(len), Some(block), Some(id)) =
            (c.take(MAGIC.len()), c.u64(), c.u64(), c.u64(), c.u64())
        else {
            return Err(StoreError::Damaged);
        };
        let (range, block) = (LbnRange::new(Lbn::new(start), Sectors::new(len)), Sectors::new(block));
        if (range, block) != (plan.range, plan.block) {
            return Err(StoreError::OtherPlan { range, block });
        }
        let mut store = Self::with(id, plan, limits, file);
        for slot in 0..2 {
            store.sequence = store.sequence.max(store.slot(slot).map_err(StoreError::File)?);
        }
        Ok(store)
    }

    /// Returns the number of times that this store has forgotten sums, as its file says. A host that records it
    /// elsewhere, durably, after each [`forget`](Self::forget) and before the blocks are written, recognises an older
    /// copy of the file by a lower number.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns the sequence number in one of the two slots behind the last page; 0 if the slot has none.
    fn slot(&mut self, slot: u64) -> Result<u64, String> {
        let mut bytes = vec![0; PAGE_BYTES];
        if !self.file.read(self.slot_page(slot), &mut bytes)? {
            return Ok(0);
        }
        let parse = || {
            let mut c = Cursor::new(unseal(&bytes)?.strip_prefix(SLOT)?);
            (c.u64()? == self.id).then_some(c.u64()?)
        };
        Ok(parse().unwrap_or(0))
    }

    fn slot_page(&self, slot: u64) -> u64 {
        1 + self.blocks.div_ceil(PAGE_BLOCKS) + slot
    }

    /// Writes the next sequence number into the slot with the older one: if a crash tears the write, the other slot
    /// is intact.
    fn count(&mut self) -> Result<(), String> {
        let next = self.sequence.saturating_add(1);
        self.write_slot(next % 2, next)?;
        self.sync()?;
        self.sequence = next;
        Ok(())
    }

    fn write_slot(&mut self, slot: u64, sequence: u64) -> Result<(), String> {
        let mut bytes = SLOT.to_vec();
        bytes.extend_from_slice(&self.id.to_le_bytes());
        bytes.extend_from_slice(&sequence.to_le_bytes());
        bytes.resize(PAGE_BYTES - 4, 0);
        seal(&mut bytes);
        self.file.write(self.slot_page(slot), &bytes)
    }

    /// Opens the store in a file, if it was [created](Self::create_as) with this number: a host that keeps a store up
    /// to date while the drive is written has to know that no other was put in its place.
    ///
    /// # Errors
    /// As for [`open`](Self::open), and [`StoreError::Stale`].
    pub fn open_as(id: u64, plan: ScrubPlan, limits: StoreLimits, file: F) -> Result<Self, StoreError> {
        let store = Self::open(plan, limits, file)?;
        if store.id == id { Ok(store) } else { Err(StoreError::Stale) }
    }

    /// Forgets the checksums of the blocks in these ranges: durably, when this returns. For hosts that write
    /// whole ranges, or many at a time, and keep track of the writes themselves.
    ///
    /// # Errors
    /// The file fails: do not write the blocks, or their old sums stay in force.
    pub fn forget(&mut self, ranges: &[Range<u64>]) -> Result<(), StoreError> {
        for range in ranges {
            let (mut block, end) = (range.start, range.end.min(self.blocks));
            while block < end {
                let stop = end.min((block / PAGE_BLOCKS + 1) * PAGE_BLOCKS);
                self.forget_in_page(block, stop).map_err(StoreError::File)?;
                block = stop;
            }
        }
        // An earlier call that failed before `count` may have left pages unsynced, too.
        if self.unsynced { self.count().map_err(StoreError::File) } else { Ok(()) }
    }

    fn forget_in_page(&mut self, first: u64, end: u64) -> Result<(), String> {
        let page = self.page(page_of(first))?;
        let mut changed = false;
        for block in first..end {
            let (byte, bit, at) = place(block);
            let Some(flags) = page.body.get_mut(byte).filter(|flags| **flags >> bit & 1 == 1) else {
                continue;
            };
            *flags &= !(1 << bit);
            if let Some(sum) = page.body.get_mut(at..at + 4) {
                sum.fill(0);
            }
            changed = true;
        }
        if changed {
            page.dirty = true;
            if let Err(failure) = self.save(page_of(first)) {
                // The file still has the sums: drop the page from memory, so that the next call forgets them again.
                self.pages.remove(&page_of(first));
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Records checksums of blocks: durable when this returns.
    ///
    /// # Errors
    /// The file fails; the sums that are known afterwards are right.
    pub fn record(&mut self, sums: &[(u64, u32)]) -> Result<(), StoreError> {
        let blocks = self.blocks;
        for &(block, sum) in sums.iter().filter(|(block, _)| *block < blocks) {
            self.set(block, Some(sum)).map_err(StoreError::File)?;
        }
        self.flush()
    }

    /// Returns the random number that the store was created with.
    pub fn id(&self) -> u64 {
        self.id
    }

    fn with(id: u64, plan: ScrubPlan, limits: StoreLimits, file: F) -> Self {
        Self {
            file,
            id,
            blocks: plan.blocks(),
            limits: StoreLimits { pages: limits.pages.max(1), ..limits },
            now: 0,
            recent: BTreeMap::new(),
            oldest: BTreeMap::new(),
            floor: 0,
            writing: BTreeMap::new(),
            pages: BTreeMap::new(),
            uses: 0,
            damaged: BTreeSet::new(),
            failure: None,
            unsynced: false,
            sequence: 0,
        }
    }

    /// Records that a write of the block, whole or in part, is about to begin. When this returns, the block's
    /// checksum is durably forgotten.
    ///
    /// # Errors
    /// The file fails: do not write the block, or its old sum stays in force.
    pub fn writing(&mut self, block: u64) -> Result<(), StoreError> {
        if block < self.blocks {
            if let Some(sum) = self.sum(block).map_err(StoreError::File)? {
                let forgotten = self.set(block, None).and_then(|()| self.save(page_of(block)));
                if let Err(failure) = forgotten.and_then(|()| self.sync()) {
                    // The file may still have the sum: put it back, so that the next call forgets it again. Its page
                    // is in memory, so this cannot fail.
                    let _ = self.set(block, Some(sum));
                    return Err(StoreError::File(failure));
                }
            }
            self.now += 1;
            let writing = self.writing.entry(block).or_default();
            writing.writes += 1;
            writing.overlap |= writing.writes > 1;
        }
        Ok(())
    }

    /// Records that the write is durable on the drive, or has failed. `content` is the block's new content, if known;
    /// it is ignored if two writes of the block overlapped.
    pub fn written(&mut self, block: u64, content: Option<&[u8]>) {
        let Some(writing) = self.writing.get_mut(&block) else { return };
        self.now += 1;
        writing.writes -= 1;
        let BlockWrites { writes, overlap } = *writing;
        if writes > 0 {
            return;
        }
        self.writing.remove(&block);
        self.remember(block);
        if let Some(content) = content.filter(|_| !overlap) {
            // Until the page is saved, at latest by `flush`, the file says that the sum is unknown, which is safe.
            self.failure = self.set(block, Some(crc32fast::hash(content))).err().or(self.failure.take());
        }
    }

    /// Saves all sums.
    ///
    /// # Errors
    /// [`StoreError::File`].
    pub fn flush(&mut self) -> Result<(), StoreError> {
        let dirty: Vec<u64> = self.pages.iter().filter(|(_, p)| p.dirty).map(|(n, _)| *n).collect();
        for page in dirty {
            self.save(page).map_err(StoreError::File)?;
        }
        self.sync().map_err(StoreError::File)
    }

    /// Returns the pages that were found damaged since the store was opened, the first 4096 of them.
    pub fn damaged(&self) -> impl Iterator<Item = DamagedPage> + '_ {
        self.damaged.iter().map(|&page| {
            let first = (page - 1) * PAGE_BLOCKS;
            DamagedPage { page, first, end: (first + PAGE_BLOCKS).min(self.blocks) }
        })
    }

    /// Returns the latest error of the file; the checksum that it prevented from being read or set counts as unknown.
    pub fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// Returns the approximate number of bytes in memory.
    pub fn memory_bytes(&self) -> usize {
        // The nodes of a map have room for about twice its entries.
        let entries = self.recent.len() + self.oldest.len() + self.writing.len() + self.damaged.len();
        self.pages.len() * (PAGE_BYTES + size_of::<Page>()) + entries * 2 * 16
    }

    /// Returns the file; sums that [`flush`](Self::flush) did not save are dropped.
    pub fn into_file(self) -> F {
        self.file
    }

    fn remember(&mut self, block: u64) {
        if let Some(before) = self.recent.insert(block, self.now) {
            self.oldest.remove(&before);
        }
        self.oldest.insert(self.now, block);
        while self.recent.len() > self.limits.recent {
            let Some((since, block)) = self.oldest.pop_first() else { return };
            self.recent.remove(&block);
            self.floor = since;
        }
    }

    fn sum(&mut self, block: u64) -> Result<Option<u32>, String> {
        let (byte, bit, at) = place(block);
        let body = &self.page(page_of(block))?.body;
        let known = body.get(byte).is_some_and(|b| b >> bit & 1 == 1);
        let sum = body.get(at..).and_then(|b| b.first_chunk()).map(|b| u32::from_le_bytes(*b));
        Ok(sum.filter(|_| known))
    }

    fn set(&mut self, block: u64, sum: Option<u32>) -> Result<(), String> {
        let (byte, bit, at) = place(block);
        let page = self.page(page_of(block))?;
        page.dirty = true;
        if let Some(flags) = page.body.get_mut(byte) {
            *flags = *flags & !(1 << bit) | u8::from(sum.is_some()) << bit;
        }
        if let Some(into) = page.body.get_mut(at..at + 4) {
            into.copy_from_slice(&sum.unwrap_or(0).to_le_bytes());
        }
        Ok(())
    }

    /// Returns a page, from memory or from the file; in a damaged page no sum is known.
    fn page(&mut self, number: u64) -> Result<&mut Page, String> {
        self.uses += 1;
        if !self.pages.contains_key(&number) {
            while self.pages.len() >= self.limits.pages {
                let Some((&oldest, _)) = self.pages.iter().min_by_key(|(_, page)| page.used) else { break };
                self.save(oldest)?;
                self.pages.remove(&oldest);
            }
            let mut bytes = vec![0; PAGE_BYTES];
            let there = self.file.read(number, &mut bytes)?;
            let check = bytes.split_off(BODY_BYTES);
            let empty = !there || (check == [0; 4] && bytes.iter().all(|b| *b == 0));
            if !empty && check != check_of(number, &bytes) {
                bytes.fill(0);
                if self.damaged.len() < DAMAGED_PAGES_MAX {
                    self.damaged.insert(number);
                }
            }
            self.pages.insert(number, Page { body: bytes, dirty: false, used: 0 });
        }
        let page = self.pages.get_mut(&number).ok_or("a page that was read is gone")?;
        page.used = self.uses;
        Ok(page)
    }

    fn save(&mut self, number: u64) -> Result<(), String> {
        if let Some(page) = self.pages.get_mut(&number).filter(|page| page.dirty) {
            let mut bytes = page.body.clone();
            bytes.extend_from_slice(&check_of(number, &page.body));
            self.unsynced = true;
            self.file.write(number, &bytes)?;
            page.dirty = false;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        self.file.sync()?;
        self.unsynced = false;
        Ok(())
    }
}

/// Returns a checksum that depends on the page's number, so that a page in the wrong place is detected.
fn check_of(number: u64, body: &[u8]) -> [u8; 4] {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(body);
    hasher.finalize().to_le_bytes()
}

fn page_of(block: u64) -> u64 {
    1 + block / PAGE_BLOCKS
}

/// Returns the byte and bit of a block's "known" flag, and the position of its sum in the page.
fn place(block: u64) -> (usize, u64, usize) {
    let i = block % PAGE_BLOCKS;
    (SUMS_BYTES + (i / 8) as usize, i % 8, i as usize * 4)
}

impl<F: SumFile> Checksums for StoredChecksums<F> {
    fn now(&self) -> u64 {
        self.now
    }

    fn known(&mut self, block: u64) -> Known {
        let sum = if block < self.blocks { self.sum(block) } else { Ok(None) };
        let since = self.recent.get(&block).copied().unwrap_or(self.floor);
        let changing = self.writing.contains_key(&block);
        match sum {
            Ok(sum) => Known { sum, since, changing },
            Err(failure) => {
                self.failure = Some(failure);
                Known { sum: None, since, changing }
            }
        }
    }
}
