//! Files over blocks. Each operation changes blocks in such an order that a failure changes nothing.

use super::cache::{BlockCache, FileStatistics, Result, SlotId};
use super::damage::BlockDamage;
use super::error::FileError;
use super::format::{self, BlockKind, DIRECT_POINTERS, FILE_BYTES_MAX, Inode, Kind, POINTERS_MAX, Pointer};
use super::numbers::Numbers;
use super::path::FilePath;
use super::store::{BLOCK_BYTES, LogicalBlock, Store};
use std::collections::VecDeque;

/// The smallest cache, in blocks.
pub const CACHE_BLOCKS_MIN: usize = 8;
/// The most blocks that an operation holds at once: a create that lets its directory grow holds one block of entries
/// and two of inodes.
const HELD_BLOCKS_MAX: usize = 3;
const _: () = assert!(HELD_BLOCKS_MAX < CACHE_BLOCKS_MIN);

/// The used part of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileUsage {
    /// Blocks of the file system.
    pub blocks: u32,
    /// Blocks in use: the superblock, inodes, directories, files.
    pub used: u32,
    /// Blocks that files and directories can still take. Blocks neither used nor free are set aside for inodes.
    pub free: u32,
    /// Files.
    pub files: u32,
    /// Blocks in the cache.
    pub cached: usize,
    /// Blocks in the cache that changed since they were last written.
    pub dirty: usize,
}

impl FileUsage {
    /// Returns the share of the blocks that is used, from 0 to 1.
    pub fn utilisation(&self) -> f64 {
        f64::from(self.used) / f64::from(self.blocks.max(1))
    }
}

/// Files in directories, over a [`Store`].
///
/// Every operation either succeeds or changes nothing. An operation first gets the blocks that it needs into the
/// cache, and writes new blocks that nothing points at yet; all of that may fail, and is then undone. The changes
/// that make the operation visible come last, in memory, and cannot fail.
///
/// Changes since the last [`sync`](Self::sync) are lost when the file system is dropped. If any block was written to
/// the store after that sync, a mount fails with "not synced"; otherwise the mount finds the state of the sync.
#[derive(Clone, Debug)]
pub struct FileSystem<S> {
    pub(super) cache: BlockCache<S>,
    /// The free blocks.
    pub(super) space: Numbers,
    /// The free inodes in those blocks of inodes that have been begun.
    pub(super) inodes: Numbers,
    pub(super) files: u32,
    /// New blocks that nothing points at yet.
    staged: Vec<LogicalBlock>,
    /// Blocks that nothing points at any more and that must still be freed in the store. The queue is bounded,
    /// because every change of files empties it first.
    pending: VecDeque<LogicalBlock>,
    missing: Vec<LogicalBlock>,
}

/// The position of a file in its directory.
#[derive(Clone, Copy)]
struct DirectoryPosition {
    block: LogicalBlock,
    place: usize,
    inode: u32,
}

struct Search {
    directory: Inode,
    entry: Option<DirectoryPosition>,
    free: Option<(LogicalBlock, usize)>,
}

impl<S: Store> FileSystem<S> {
    pub(super) fn over(cache: BlockCache<S>, space: Numbers, inodes: Numbers) -> Self {
        Self {
            cache,
            space,
            inodes,
            files: 0,
            staged: Vec::new(),
            pending: VecDeque::new(),
            missing: Vec::new(),
        }
    }

    /// Creates a file of these bytes.
    ///
    /// # Errors
    /// The file exists, or its directory does not; the file is larger than [`FILE_BYTES_MAX`]; blocks, inodes or
    /// the directory's entries are used up; a block is damaged; the store failed. Nothing has changed then.
    pub fn create(&mut self, path: FilePath, bytes: &[u8]) -> Result<(), S> {
        self.change(|files| files.create_staged(path, bytes))
    }

    /// Appends these bytes to a file.
    ///
    /// # Errors
    /// There is no such file or directory; the file would be larger than [`FILE_BYTES_MAX`]; blocks are used up; a
    /// block is damaged; the store failed. Nothing has changed then.
    pub fn append(&mut self, path: FilePath, bytes: &[u8]) -> Result<(), S> {
        self.change(|files| files.append_staged(path, bytes))
    }

    /// Deletes a file. Its dirty blocks leave the cache unwritten, and those that the store has are freed there.
    ///
    /// If the store fails to free a block, the file is gone all the same; the next change tries again, and reports
    /// the error.
    ///
    /// # Errors
    /// There is no such file or directory; a block is damaged; the store failed. Nothing has changed then.
    pub fn delete(&mut self, path: FilePath) -> Result<(), S> {
        self.change(|files| files.delete_held(path))
    }

    /// Replaces `into` by a whole file, and returns the file's size. Blocks that are not in the cache are read from
    /// the store one by one, after a [`Store::will_read`] if there are several.
    ///
    /// # Errors
    /// There is no such file or directory; a block is damaged; the store failed. `into` is empty then.
    pub fn read(&mut self, path: FilePath, into: &mut Vec<u8>) -> Result<u64, S> {
        into.clear();
        let (entry, inode) = self.find(path)?;
        self.announce(entry.inode, &inode)?;
        let mut left = inode.size as usize;
        into.reserve(left);
        for i in 0..inode.blocks() {
            match self.data(entry.inode, &inode, i) {
                Ok(slot) => into.extend_from_slice(&self.cache.data(slot)[..left.min(BLOCK_BYTES)]),
                Err(error) => {
                    into.clear();
                    return Err(error);
                }
            }
            left = left.saturating_sub(BLOCK_BYTES);
        }
        Ok(u64::from(inode.size))
    }

    /// Returns a file's size in bytes, or `None` if there is no such file.
    ///
    /// # Errors
    /// There is no such directory; a block is damaged; the store failed.
    pub fn size(&mut self, path: FilePath) -> Result<Option<u64>, S> {
        let Some(entry) = self.search(path)?.entry else {
            return Ok(None);
        };
        let inode = self.file_inode(path, entry)?;
        Ok(Some(u64::from(inode.size)))
    }

    /// Returns the names in a directory, in arbitrary order.
    ///
    /// # Errors
    /// There is no such directory; a block is damaged; the store failed.
    pub fn names(&mut self, directory: u32) -> Result<Vec<u64>, S> {
        let inode = self.directory(FilePath::new(directory, 0))?;
        let mut names = Vec::new();
        for i in 0..inode.blocks() {
            let (_, slot) = self.directory_block(directory, &inode, i)?;
            names.extend(format::entries(self.cache.data(slot)).map(|(_, name, _)| name));
        }
        Ok(names)
    }

    /// Writes every dirty block to the store, in the order of block numbers. A mount then finds this state.
    ///
    /// # Errors
    /// The store failed. Blocks that it took are clean, the others still dirty; another sync continues from
    /// there.
    pub fn sync(&mut self) -> Result<(), S> {
        self.settle()?;
        self.cache.sync()
    }

    /// Writes every dirty block to the store, as [`sync`](Self::sync) does, without marking the file system as
    /// synced: a mount still fails. A host that calls this after every change has a cache that writes through.
    ///
    /// # Errors
    /// As for `sync`.
    pub fn write_back(&mut self) -> Result<(), S> {
        self.settle()?;
        self.cache.write_all_back()
    }

    /// Returns the numbers of used and free blocks.
    pub fn usage(&self) -> FileUsage {
        let superblock = &self.cache.superblock;
        let free = self.space.free();
        FileUsage {
            blocks: superblock.blocks,
            used: superblock.blocks - (superblock.inode_blocks_max - superblock.inode_blocks) - free,
            free,
            files: self.files,
            cached: self.cache.cached(),
            dirty: self.cache.dirty(),
        }
    }

    /// Returns the counts of the work so far.
    pub const fn statistics(&self) -> FileStatistics {
        self.cache.statistics
    }

    /// Returns the number of directories.
    pub const fn directories(&self) -> u32 {
        self.cache.superblock.directories
    }

    /// Returns the store.
    pub const fn store(&self) -> &S {
        self.cache.store()
    }

    /// Returns the store for the host's own calls. Changing blocks through it damages files.
    pub const fn store_mut(&mut self) -> &mut S {
        self.cache.store_mut()
    }

    /// Returns the store, without the changes since the last sync.
    pub fn into_store(self) -> S {
        self.cache.into_store()
    }

    /// Runs a change of files: frees old blocks first, and the staged ones if the change fails.
    fn change(&mut self, body: impl FnOnce(&mut Self) -> Result<(), S>) -> Result<(), S> {
        self.settle()?;
        let outcome = body(self);
        let staged = std::mem::take(&mut self.staged);
        if outcome.is_err() {
            staged.into_iter().for_each(|block| self.release(block));
        }
        // If a free fails here, the next change or sync tries again and reports the error.
        let _ = self.settle();
        outcome
    }

    fn create_staged(&mut self, path: FilePath, bytes: &[u8]) -> Result<(), S> {
        let Search { mut directory, entry, free } = self.search(path)?;
        if entry.is_some() {
            return Err(FileError::Exists(path));
        }
        let size = size_within_bounds(path, 0, bytes)?;
        let n = self.free_inode()?;
        let blocks = bytes.len().div_ceil(BLOCK_BYTES);
        let (grows, old) = (free.is_none(), directory.blocks());
        if grows && old == POINTERS_MAX {
            return Err(FileError::DirectoryFull { directory: path.directory });
        }
        let indirect = usize::from(blocks > DIRECT_POINTERS);
        let for_directory = usize::from(grows) + usize::from(grows && old == DIRECT_POINTERS);
        self.room_for(blocks + indirect + for_directory)?;

        let mut inode = Inode { size, ..Inode::new(Kind::File) };
        self.write_new(n, &mut inode, 0, bytes)?;
        let (block, place) = match free {
            Some(free) => free,
            None => {
                let block = self.stage(BlockKind::Directory(path.directory))?.0;
                let pointer = Pointer { block: block.get(), checksum: 0 };
                self.set_pointer(path.directory, &mut directory, old, pointer)?;
                directory.size += BLOCK_BYTES as u32;
                (block, 0)
            }
        };

        let entry = self.cache.fetch(block, BlockKind::Directory(path.directory), 0)?;
        let home = self.home(n)?;
        let directory_home = if grows { Some(self.home(path.directory)?) } else { None };
        // From here on nothing fails.
        format::set_entry(self.cache.data_mut(entry), place, path.name, n);
        inode.encode(self.cache.data_mut(home), n);
        if let Some(home) = directory_home {
            directory.encode(self.cache.data_mut(home), path.directory);
        }
        self.inodes.take_this(n);
        self.files += 1;
        Ok(())
    }

    fn append_staged(&mut self, path: FilePath, bytes: &[u8]) -> Result<(), S> {
        let (DirectoryPosition { inode: n, .. }, mut inode) = self.find(path)?;
        let (old, old_blocks) = (inode.size, inode.blocks());
        let size = size_within_bounds(path, old, bytes)?;
        // The first bytes fill the last block, the others go to new ones.
        let filled = old as usize % BLOCK_BYTES;
        let room = if filled == 0 { 0 } else { BLOCK_BYTES - filled };
        let (head, rest) = bytes.split_at(room.min(bytes.len()));
        let new_blocks = rest.len().div_ceil(BLOCK_BYTES);
        let indirect = old_blocks + new_blocks > DIRECT_POINTERS && inode.indirect == 0;
        self.room_for(new_blocks + usize::from(indirect))?;

        self.write_new(n, &mut inode, old_blocks, rest)?;
        inode.size = size;
        if head.is_empty() {
            let home = self.home(n)?;
            inode.encode(self.cache.data_mut(home), n);
            return Ok(());
        }

        let last = old_blocks - 1;
        let slot = self.data(n, &inode, last)?;
        let pointers = if last < DIRECT_POINTERS { None } else { Some(self.indirect(n, &inode)?) };
        let home = self.home(n)?;
        // From here on nothing fails.
        let data = self.cache.data_mut(slot);
        data[filled..filled + head.len()].copy_from_slice(head);
        let checksum = crc32fast::hash(data);
        match (inode.direct.get_mut(last), pointers) {
            (Some(pointer), _) => pointer.checksum = checksum,
            (None, Some(slot)) => {
                let block = self.cache.data_mut(slot);
                let pointer = Pointer { checksum, ..format::indirect_pointer(block, last - DIRECT_POINTERS) };
                format::set_indirect_pointer(block, last - DIRECT_POINTERS, pointer);
            }
            (None, None) => {}
        }
        inode.encode(self.cache.data_mut(home), n);
        Ok(())
    }

    fn delete_held(&mut self, path: FilePath) -> Result<(), S> {
        let (entry, inode) = self.find(path)?;
        let n = entry.inode;
        let mut blocks = Vec::with_capacity(inode.blocks() + 1);
        for i in 0..inode.blocks() {
            blocks.push(LogicalBlock::new(self.pointer(n, &inode, i)?.block));
        }
        if inode.indirect != 0 {
            blocks.push(LogicalBlock::new(inode.indirect));
        }

        let slot = self.cache.fetch(entry.block, BlockKind::Directory(path.directory), 0)?;
        let home = self.home(n)?;
        // From here on nothing fails.
        format::clear_entry(self.cache.data_mut(slot), entry.place);
        Inode::new(Kind::Free).encode(self.cache.data_mut(home), n);
        blocks.into_iter().for_each(|block| self.release(block));
        self.inodes.release(n);
        self.files -= 1;
        Ok(())
    }

    fn search(&mut self, path: FilePath) -> Result<Search, S> {
        let directory = self.directory(path)?;
        let mut free = None;
        for i in 0..directory.blocks() {
            let (block, slot) = self.directory_block(path.directory, &directory, i)?;
            let data = self.cache.data(slot);
            if let Some((place, _, inode)) = format::entries(data).find(|&(_, name, _)| name == path.name) {
                return Ok(Search {
                    directory,
                    entry: Some(DirectoryPosition { block, place, inode }),
                    free,
                });
            }
            if free.is_none() {
                free = format::free_entry(data).map(|place| (block, place));
            }
        }
        Ok(Search { directory, entry: None, free })
    }

    fn find(&mut self, path: FilePath) -> Result<(DirectoryPosition, Inode), S> {
        let entry = self.search(path)?.entry.ok_or(FileError::NoSuchFile(path))?;
        Ok((entry, self.file_inode(path, entry)?))
    }

    fn file_inode(&mut self, path: FilePath, entry: DirectoryPosition) -> Result<Inode, S> {
        let DirectoryPosition { block, inode: n, .. } = entry;
        let kind = BlockKind::Directory(path.directory);
        let wrong = FileError::Damaged { block, kind, problem: BlockDamage::Inode(n) };
        if n / format::INODES_PER_BLOCK >= self.cache.superblock.inode_blocks {
            return Err(wrong);
        }
        let inode = self.inode(n)?;
        if inode.kind == Kind::File { Ok(inode) } else { Err(wrong) }
    }

    /// Returns the inode of a path's directory.
    fn directory(&mut self, path: FilePath) -> Result<Inode, S> {
        let directories = self.directories();
        if path.directory >= directories {
            return Err(FileError::NoSuchDirectory { path, directories });
        }
        self.inode(path.directory)
    }

    fn directory_block(&mut self, n: u32, directory: &Inode, i: usize) -> Result<(LogicalBlock, SlotId), S> {
        let block = LogicalBlock::new(self.pointer(n, directory, i)?.block);
        Ok((block, self.cache.fetch(block, BlockKind::Directory(n), 0)?))
    }

    /// Gets the block that holds inode `n` into the cache.
    fn home(&mut self, n: u32) -> Result<SlotId, S> {
        let (block, kind) = Inode::home(n);
        self.cache.fetch(block, kind, 0)
    }

    pub(super) fn inode(&mut self, n: u32) -> Result<Inode, S> {
        let home = self.home(n)?;
        let inode = Inode::decode(self.cache.data(home), n);
        let directory = n < self.directories();
        let sound = inode.filter(|inode| directory == (inode.kind == Kind::Directory));
        let (block, kind) = Inode::home(n);
        sound.ok_or(FileError::Damaged { block, kind, problem: BlockDamage::Inode(n) })
    }

    fn indirect(&mut self, n: u32, inode: &Inode) -> Result<SlotId, S> {
        let (block, kind) = Inode::home(n);
        let indirect = self.owned(inode.indirect, block, kind)?;
        self.cache.fetch(indirect, BlockKind::Indirect(n), 0)
    }

    /// Returns the pointer to the `i`th block of a file or directory.
    pub(super) fn pointer(&mut self, n: u32, inode: &Inode, i: usize) -> Result<Pointer, S> {
        let (pointer, (block, kind)) = match inode.direct.get(i) {
            Some(pointer) => (*pointer, Inode::home(n)),
            None => {
                let slot = self.indirect(n, inode)?;
                let home = (LogicalBlock::new(inode.indirect), BlockKind::Indirect(n));
                (format::indirect_pointer(self.cache.data(slot), i - DIRECT_POINTERS), home)
            }
        };
        self.owned(pointer.block, block, kind)?;
        Ok(pointer)
    }

    /// Checks that `pointer`, which stands in `block`, can be a block of a file.
    fn owned(&self, pointer: u32, block: LogicalBlock, kind: BlockKind) -> Result<LogicalBlock, S> {
        let superblock = &self.cache.superblock;
        let pointer_block = LogicalBlock::new(pointer);
        match (superblock.first_free()..superblock.blocks).contains(&pointer) {
            true => Ok(pointer_block),
            false => Err(FileError::Damaged { block, kind, problem: BlockDamage::Pointer(pointer_block) }),
        }
    }

    /// Gets the `i`th block of a file's bytes into the cache.
    fn data(&mut self, n: u32, inode: &Inode, i: usize) -> Result<SlotId, S> {
        let pointer = self.pointer(n, inode, i)?;
        self.cache.fetch(LogicalBlock::new(pointer.block), BlockKind::Data(n), pointer.checksum)
    }

    /// Announces to the store the blocks of a file that will be read, if there are several.
    fn announce(&mut self, n: u32, inode: &Inode) -> Result<(), S> {
        let mut missing = std::mem::take(&mut self.missing);
        missing.clear();
        let blocks = 0..inode.blocks().min(CACHE_BLOCKS_MIN.max(DIRECT_POINTERS));
        for i in blocks {
            let block = LogicalBlock::new(self.pointer(n, inode, i)?.block);
            if !self.cache.contains(block) {
                missing.push(block);
            }
        }
        if missing.len() > 1 {
            self.cache.will_read(&missing);
        }
        self.missing = missing;
        Ok(())
    }

    /// Writes bytes to new blocks, from the file's block `first` on.
    fn write_new(&mut self, n: u32, inode: &mut Inode, first: usize, bytes: &[u8]) -> Result<(), S> {
        for (piece, i) in bytes.chunks(BLOCK_BYTES).zip(first..) {
            let (block, slot) = self.stage(BlockKind::Data(n))?;
            let data = self.cache.data_mut(slot);
            data[..piece.len()].copy_from_slice(piece);
            let pointer = Pointer { block: block.get(), checksum: crc32fast::hash(data) };
            self.set_pointer(n, inode, i, pointer)?;
        }
        Ok(())
    }

    /// Sets a pointer past the end of a file; it is unused until the inode's size covers it.
    fn set_pointer(&mut self, n: u32, inode: &mut Inode, i: usize, pointer: Pointer) -> Result<(), S> {
        if let Some(direct) = inode.direct.get_mut(i) {
            *direct = pointer;
            return Ok(());
        }
        if inode.indirect == 0 {
            inode.indirect = self.stage(BlockKind::Indirect(n))?.0.get();
        }
        let slot = self.indirect(n, inode)?;
        format::set_indirect_pointer(self.cache.data_mut(slot), i - DIRECT_POINTERS, pointer);
        Ok(())
    }

    fn room_for(&self, blocks: usize) -> Result<(), S> {
        let (needed, free) = (blocks as u32, self.space.free());
        if needed > free { Err(FileError::Full { needed, free }) } else { Ok(()) }
    }

    /// Allocates a new block that nothing points at.
    fn stage(&mut self, kind: BlockKind) -> Result<(LogicalBlock, SlotId), S> {
        let block = self.space.take().ok_or(FileError::Full { needed: 1, free: 0 })?;
        let block = LogicalBlock::new(block);
        match self.cache.begin(block, kind) {
            Ok(slot) => {
                self.staged.push(block);
                Ok((block, slot))
            }
            Err(error) => {
                self.space.release(block.get());
                Err(error)
            }
        }
    }

    /// Frees a block that nothing points at any more.
    fn release(&mut self, block: LogicalBlock) {
        if self.cache.discard(block) {
            self.pending.push_back(block);
        } else {
            self.space.release(block.get());
        }
    }

    /// Frees pending blocks in the store. A block is reused only after that: otherwise the store could free its newer
    /// contents.
    fn settle(&mut self) -> Result<(), S> {
        while let Some(&block) = self.pending.front() {
            self.cache.free(block)?;
            self.pending.pop_front();
            self.space.release(block.get());
        }
        Ok(())
    }

    /// Returns a free inode; if there is none, begins one more block of inodes.
    fn free_inode(&mut self) -> Result<u32, S> {
        if let Some(n) = self.inodes.lowest() {
            return Ok(n);
        }
        self.begin_inodes()?;
        let inodes = self.cache.superblock.inodes_max();
        self.inodes.lowest().ok_or(FileError::NoInode { inodes })
    }

    /// Begins the next block of inodes, if one is left.
    pub(super) fn begin_inodes(&mut self) -> Result<(), S> {
        let begun = self.cache.superblock.inode_blocks;
        if begun < self.cache.superblock.inode_blocks_max {
            self.cache.begin(LogicalBlock::new(1 + begun), BlockKind::Inodes(begun))?;
            self.cache.superblock.inode_blocks = begun + 1;
            let first = begun * format::INODES_PER_BLOCK;
            (first..first + format::INODES_PER_BLOCK).for_each(|n| self.inodes.release(n));
        }
        Ok(())
    }
}

fn size_within_bounds<E: std::error::Error>(
    path: FilePath,
    old: u32,
    more: &[u8],
) -> std::result::Result<u32, FileError<E>> {
    let bytes = u64::from(old) + more.len() as u64;
    match u32::try_from(bytes) {
        Ok(size) if bytes <= FILE_BYTES_MAX => Ok(size),
        _ => Err(FileError::TooLarge { path, bytes }),
    }
}
