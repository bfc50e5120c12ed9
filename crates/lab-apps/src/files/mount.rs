//! Makes a file system, and opens one again.

use super::cache::{BlockCache, FileStatistics};
use super::damage::BlockDamage;
use super::error::{FileError, MountError, StoreCall};
use super::file_system::{CACHE_BLOCKS_MIN, FileSystem};
use super::format::{self, BlockKind, INODES_PER_BLOCK, Inode, Kind, NoSuperblock, Superblock};
use super::numbers::Numbers;
use super::store::{BLOCK_BYTES, LogicalBlock, Store};

/// The most blocks: 1 TB, for which the file layer keeps somewhat more than 1 GB in memory.
const BLOCKS_MAX: u32 = 1 << 28;
/// The default cache: 32 MB, plausible on a machine of 256 MB (OSDI'00, section 5.2).
const CACHE_BLOCKS: usize = 8192;
const CACHE_BLOCKS_MAX: usize = 1 << 28;

/// The settings for [`FileSystem::format`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileConfig {
    /// Blocks of the file system; the store must have at least this number.
    pub blocks: u32,
    /// The number of directories, numbered from 0; it never changes.
    pub directories: u32,
    /// The most files and directories, rounded up to whole blocks of 63 inodes.
    pub inodes: u32,
    /// The most blocks in the cache.
    pub cache_blocks: usize,
}

impl FileConfig {
    /// Returns settings for `blocks` blocks with 100 directories, an inode for every two blocks, and a cache of 32
    /// MB.
    pub const fn new(blocks: u32) -> Self {
        Self { blocks, directories: 100, inodes: blocks / 2 + 1, cache_blocks: CACHE_BLOCKS }
    }

    fn check<E: std::error::Error>(&self) -> Result<Superblock, MountError<E>> {
        let Self { blocks, directories, inodes, .. } = *self;
        let wrong = |field, found, mend| Err(MountError::Config { field, found: u64::from(found), mend });
        if blocks > BLOCKS_MAX {
            return wrong("blocks", blocks, format!("give {BLOCKS_MAX} at most"));
        }
        if directories == 0 || directories > inodes {
            return wrong("directories", directories, format!("give 1 to {inodes}, the number of inodes"));
        }
        let inode_blocks_max = inodes.div_ceil(INODES_PER_BLOCK);
        if inode_blocks_max.saturating_add(1) >= blocks {
            let needed = inode_blocks_max.saturating_add(2);
            return wrong("blocks", blocks, format!("give {needed} at least for {inodes} inodes"));
        }
        Ok(Superblock {
            blocks,
            directories,
            inode_blocks_max,
            inode_blocks: 0,
            // This makes the first write of a block mark the store as unsynced.
            synced: true,
            generation: 0,
        })
    }
}

fn check_cache<E: std::error::Error>(blocks: usize) -> Result<(), MountError<E>> {
    if (CACHE_BLOCKS_MIN..=CACHE_BLOCKS_MAX).contains(&blocks) {
        return Ok(());
    }
    let mend = format!("give {CACHE_BLOCKS_MIN} to {CACHE_BLOCKS_MAX} blocks");
    Err(MountError::Config { field: "cache_blocks", found: blocks as u64, mend })
}

impl<S: Store> FileSystem<S> {
    /// Makes an empty file system and syncs it. Blocks that the store had before are ignored, and not freed.
    ///
    /// # Errors
    /// The settings are out of range, or the store failed. Then the store has no file system that can be mounted.
    pub fn format(store: S, config: FileConfig) -> Result<Self, MountError<S::Error>> {
        check_cache(config.cache_blocks)?;
        let superblock = config.check()?;
        let mut files = empty(BlockCache::new(store, superblock, config.cache_blocks));
        while files.cache.superblock.inode_blocks * INODES_PER_BLOCK < config.directories {
            files.begin_inodes()?;
        }
        for n in 0..config.directories {
            let (block, kind) = Inode::home(n);
            let home = files.cache.fetch(block, kind, 0)?;
            Inode::new(Kind::Directory).encode(files.cache.data_mut(home), n);
            files.inodes.take_this(n);
        }
        files.sync()?;
        files.cache.statistics = FileStatistics::default();
        Ok(files)
    }

    /// Opens the file system in the store, with a cache of `cache_blocks` blocks. Reads every block of inodes and
    /// every indirect block, and derives the free blocks from them; directories and files' bytes are read and
    /// verified on use.
    ///
    /// # Errors
    /// There is no file system, or one of another version; blocks were written after the last sync; a block is
    /// damaged; the cache is too small; the store failed.
    pub fn mount(mut store: S, cache_blocks: usize) -> Result<Self, MountError<S::Error>> {
        check_cache(cache_blocks)?;
        let superblock = read_superblock(&mut store)?;
        let mut files = empty(BlockCache::new(store, superblock, cache_blocks));
        let inodes = superblock.inode_blocks * INODES_PER_BLOCK;
        (0..inodes).for_each(|n| files.inodes.release(n));
        for n in 0..inodes {
            let inode = files.inode(n)?;
            if inode.kind != Kind::Free {
                files.inodes.take_this(n);
                files.files += u32::from(inode.kind == Kind::File);
                files.take_blocks(n, &inode)?;
            }
        }
        files.cache.statistics = FileStatistics::default();
        Ok(files)
    }

    /// Takes an inode's blocks out of the free blocks; each must have been free.
    fn take_blocks(&mut self, n: u32, inode: &Inode) -> Result<(), FileError<S::Error>> {
        let (block, kind) = Inode::home(n);
        for i in 0..inode.blocks() {
            let pointer = self.pointer(n, inode, i)?.block;
            if !self.space.take_this(pointer) {
                let problem = BlockDamage::Pointer(LogicalBlock::new(pointer));
                return Err(FileError::Damaged { block, kind, problem });
            }
        }
        if inode.indirect != 0 && !self.space.take_this(inode.indirect) {
            let problem = BlockDamage::Pointer(LogicalBlock::new(inode.indirect));
            return Err(FileError::Damaged { block, kind, problem });
        }
        Ok(())
    }
}

/// Returns a file system with all blocks free and no inode begun.
fn empty<S: Store>(cache: BlockCache<S>) -> FileSystem<S> {
    let superblock = cache.superblock;
    let mut space = Numbers::in_use(superblock.blocks);
    (superblock.first_free()..superblock.blocks).for_each(|block| space.release(block));
    FileSystem::over(cache, space, Numbers::in_use(superblock.inodes_max()))
}

fn read_superblock<S: Store>(store: &mut S) -> Result<Superblock, MountError<S::Error>> {
    let (block, kind) = (LogicalBlock::new(0), BlockKind::Superblock);
    let mut bytes = [0; BLOCK_BYTES];
    let outcome = store.read(block, &mut bytes);
    outcome.map_err(|source| FileError::Store { call: StoreCall::Read, block, source })?;
    let damaged = |problem| MountError::Blocks(FileError::Damaged { block, kind, problem });
    let superblock = format::Superblock::decode(&bytes).map_err(|error| match error {
        NoSuperblock::Magic => MountError::NotFormatted,
        NoSuperblock::Version(found) => MountError::Version { found },
        NoSuperblock::Damaged(problem) => damaged(problem),
    })?;
    let Superblock { blocks, directories, inode_blocks_max, inode_blocks, synced, .. } = superblock;
    let sound = blocks <= BLOCKS_MAX
        && inode_blocks_max < blocks
        && inode_blocks <= inode_blocks_max
        && directories > 0
        && u64::from(directories) <= u64::from(inode_blocks) * u64::from(INODES_PER_BLOCK);
    if !sound {
        return Err(damaged(BlockDamage::Numbers));
    }
    if synced { Ok(superblock) } else { Err(MountError::NotSynced) }
}
