//! A plausible placement of Postmark's files by a file system.

use super::FileNumber;
use std::collections::BTreeMap;

/// Blocks of a group: the bitmap of a group fits into one block of any file system of that time.
pub(crate) const GROUP_BLOCKS: u64 = 4_096;
/// The bytes of an inode, and of a directory's entry.
const INODE_BYTES: u64 = 128;
const ENTRY_BYTES: u64 = 32;

#[derive(Clone, Debug)]
struct VolumeFile {
    inode: u64,
    bytes: u64,
    blocks: Vec<u32>,
}

/// Groups of blocks, each with a bitmap, inodes, directories and data. A file's inode and blocks lie in the group of
/// its directory while that has room, then in the next group that has; each block goes to the first free place after
/// the block before it.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    block_bytes: u64,
    /// The inodes that one block holds.
    inodes_a_block: u64,
    /// The blocks of inodes at each group's beginning, after its bitmap.
    inode_blocks: u64,
    directory_blocks: u64,
    groups: Vec<Group>,
    /// The first block of each directory.
    directories: Vec<u64>,
    files: BTreeMap<FileNumber, VolumeFile>,
}

#[derive(Clone, Debug)]
struct Group {
    /// Free inodes; the last is used first.
    inodes: Vec<u32>,
    /// A bit for each block, set if it is free.
    free: Vec<u64>,
    count: u32,
}

/// A run of blocks that a file operation needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) first: u64,
    pub(crate) blocks: u64,
    pub(crate) change: bool,
    /// Whether the run is written as a whole, so that it need not be read.
    pub(crate) fresh: bool,
}

impl Volume {
    /// Creates a volume of `blocks` blocks for at most `files` files in `directories`; `None` if they do not fit.
    pub(crate) fn new(blocks: u64, block_bytes: u64, files: u64, directories: u64) -> Option<Self> {
        let groups = blocks / GROUP_BLOCKS;
        let inodes_a_block = (block_bytes / INODE_BYTES).max(1);
        let inode_blocks = files.div_ceil(groups.max(1)).div_ceil(inodes_a_block);
        let entries = files.div_ceil(directories.max(1));
        let directory_blocks = (entries * ENTRY_BYTES).div_ceil(block_bytes).max(1);
        let meta = 1 + inode_blocks + directories.div_ceil(groups.max(1)) * directory_blocks;
        if groups == 0 || meta >= GROUP_BLOCKS || blocks > u64::from(u32::MAX) {
            return None;
        }
        let mut volume = Self {
            block_bytes,
            inodes_a_block,
            inode_blocks,
            directory_blocks,
            groups: Vec::new(),
            directories: Vec::new(),
            files: BTreeMap::new(),
        };
        volume.groups = (0..groups)
            .map(|_| {
                let inodes = (0..(inode_blocks * inodes_a_block) as u32).rev().collect();
                let mut free = vec![u64::MAX; (GROUP_BLOCKS / 64) as usize];
                for block in 0..=inode_blocks {
                    free[(block / 64) as usize] &= !(1 << (block % 64));
                }
                Group { inodes, free, count: (GROUP_BLOCKS - 1 - inode_blocks) as u32 }
            })
            .collect();
        for directory in 0..directories {
            let near = (directory % groups) * GROUP_BLOCKS;
            let mut first = None;
            for _ in 0..directory_blocks {
                let block = volume.take(first.unwrap_or(near))?;
                first = first.or(Some(block));
            }
            volume.directories.push(first?);
        }
        Some(volume)
    }

    fn blocks_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.block_bytes)
    }

    /// Takes the first free block from `near` on, around the group and then around the volume.
    fn take(&mut self, near: u64) -> Option<u64> {
        let groups = self.groups.len() as u64;
        let home = near / GROUP_BLOCKS;
        for step in 0..=groups {
            let number = (home + step) % groups;
            let group = self.groups.get_mut(number as usize)?;
            if group.count == 0 {
                continue;
            }
            let from = if step == 0 { near % GROUP_BLOCKS } else { 0 };
            let words = group.free.len() as u64;
            // One step more than the bitmap has words: the first word is searched from `near` on, and at the end as
            // a whole.
            for n in 0..=words {
                let word = ((from / 64 + n) % words) as usize;
                let mask = if n == 0 { u64::MAX << (from % 64) } else { u64::MAX };
                let found = group.free[word] & mask;
                if found != 0 {
                    let bit = u64::from(found.trailing_zeros());
                    group.free[word] &= !(1 << bit);
                    group.count -= 1;
                    return Some(number * GROUP_BLOCKS + word as u64 * 64 + bit);
                }
            }
        }
        None
    }

    fn give_back(&mut self, block: u64) {
        if let Some(group) = self.groups.get_mut((block / GROUP_BLOCKS) as usize) {
            let bit = block % GROUP_BLOCKS;
            group.free[(bit / 64) as usize] |= 1 << (bit % 64);
            group.count += 1;
        }
    }

    /// Takes `count` blocks, each behind the one before as far as there is room; returns `None`, and takes no block,
    /// if too few are free.
    fn take_all(&mut self, near: u64, count: u64) -> Option<Vec<u32>> {
        let mut blocks = Vec::with_capacity(count as usize);
        let mut near = near;
        for _ in 0..count {
            match self.take(near) {
                Some(block) => {
                    blocks.push(block as u32);
                    near = block + 1;
                }
                None => {
                    blocks.into_iter().for_each(|block| self.give_back(block.into()));
                    return None;
                }
            }
        }
        Some(blocks)
    }

    fn inode_block(&self, inode: u64) -> u64 {
        let (group, index) = self.inode_place(inode);
        group * GROUP_BLOCKS + 1 + index / self.inodes_a_block
    }

    fn inode_place(&self, inode: u64) -> (u64, u64) {
        let each = self.inode_blocks * self.inodes_a_block;
        (inode / each, inode % each)
    }

    /// Returns the block of a file's entry in its directory.
    fn entry(&self, file: FileNumber, directory: u32) -> u64 {
        let first = self.directories.get(directory as usize).copied().unwrap_or(0);
        // An arbitrary place within the directory.
        first + file.get() % self.directory_blocks
    }

    fn touch(block: u64, change: bool) -> Access {
        Access { first: block, blocks: 1, change, fresh: false }
    }

    /// Appends the accesses to data: runs of adjacent blocks.
    fn data(blocks: &[u32], change: bool, fresh: bool, accesses: &mut Vec<Access>) {
        for &block in blocks {
            let block = u64::from(block);
            match accesses.last_mut() {
                Some(run)
                    if run.first + run.blocks == block && (run.change, run.fresh) == (change, fresh) =>
                {
                    run.blocks += 1;
                }
                _ => accesses.push(Access { change, fresh, ..Self::touch(block, change) }),
            }
        }
    }

    /// Creates a file; `None` if there is no room.
    pub(crate) fn create(&mut self, file: FileNumber, directory: u32, bytes: u64) -> Option<Vec<Access>> {
        let entry = self.entry(file, directory);
        let (home, groups) = (entry / GROUP_BLOCKS, self.groups.len() as u64);
        let group = (0..groups)
            .map(|step| (home + step) % groups)
            .find(|&group| self.groups.get(group as usize).is_some_and(|group| !group.inodes.is_empty()))?;
        let blocks = self.take_all(group * GROUP_BLOCKS, self.blocks_of(bytes))?;
        let index = self.groups.get_mut(group as usize)?.inodes.pop()?;
        let inode = group * self.inode_blocks * self.inodes_a_block + u64::from(index);
        let mut accesses = vec![
            Self::touch(entry, true),
            Self::touch(self.inode_block(inode), true),
            Self::touch(bitmap(&blocks, group), true),
        ];
        Self::data(&blocks, true, true, &mut accesses);
        self.files.insert(file, VolumeFile { inode, bytes, blocks });
        Some(accesses)
    }

    /// Reads a whole file; the access time changes its inode.
    pub(crate) fn read(&self, file: FileNumber, directory: u32) -> Option<Vec<Access>> {
        let found = self.files.get(&file)?;
        let mut accesses = vec![
            Self::touch(self.entry(file, directory), false),
            Self::touch(self.inode_block(found.inode), true),
        ];
        Self::data(&found.blocks, false, false, &mut accesses);
        Some(accesses)
    }

    /// Appends to a file; `None` if there is no room.
    pub(crate) fn append(&mut self, file: FileNumber, directory: u32, bytes: u64) -> Option<Vec<Access>> {
        let entry = self.entry(file, directory);
        let found = self.files.get(&file)?;
        let (inode, before) = (found.inode, found.bytes);
        let last = found.blocks.last().copied();
        let more = self.blocks_of(before + bytes) - self.blocks_of(before);
        let near = last.map_or(entry, |last| u64::from(last) + 1);
        let new = self.take_all(near.min(self.end() - 1), more)?;
        let mut accesses = vec![Self::touch(entry, false), Self::touch(self.inode_block(inode), true)];
        if let Some(last) = last.filter(|_| !before.is_multiple_of(self.block_bytes)) {
            accesses.push(Self::touch(last.into(), true));
        }
        if !new.is_empty() {
            accesses.push(Self::touch(bitmap(&new, 0), true));
            Self::data(&new, true, true, &mut accesses);
        }
        let found = self.files.get_mut(&file)?;
        found.bytes += bytes;
        found.blocks.extend(new);
        Some(accesses)
    }

    /// Deletes a file; returns also the blocks that become free.
    pub(crate) fn delete(&mut self, file: FileNumber, directory: u32) -> Option<(Vec<Access>, Vec<u32>)> {
        let entry = self.entry(file, directory);
        let VolumeFile { inode, blocks, .. } = self.files.remove(&file)?;
        let (group, index) = self.inode_place(inode);
        self.groups.get_mut(group as usize)?.inodes.push(index as u32);
        blocks.iter().for_each(|&block| self.give_back(block.into()));
        let accesses = vec![
            Self::touch(entry, true),
            Self::touch(self.inode_block(inode), true),
            Self::touch(bitmap(&blocks, group), true),
        ];
        Some((accesses, blocks))
    }

    fn end(&self) -> u64 {
        self.groups.len() as u64 * GROUP_BLOCKS
    }
}

/// Returns the block with the bitmap of the group that has the first of `blocks`, or of `group` if there are none.
fn bitmap(blocks: &[u32], group: u64) -> u64 {
    blocks.first().map_or(group, |&block| u64::from(block) / GROUP_BLOCKS) * GROUP_BLOCKS
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_file_lies_in_one_piece_behind_its_directorys_others() {
        let mut volume = Volume::new(3 * GROUP_BLOCKS, 8192, 1_000, 3).unwrap();
        let first = volume.create(FileNumber::new(1), 1, 20_000).unwrap();
        assert_eq!(first.len(), 4);
        let data = first[3];
        assert_eq!((data.blocks, data.fresh, data.first / GROUP_BLOCKS), (3, true, 1));
        let second = volume.create(FileNumber::new(2), 1, 10_000).unwrap();
        assert_eq!(second[3].first, data.first + 3);
        // An append within the last block needs no new one.
        let append = volume.append(FileNumber::new(2), 1, 100).unwrap();
        assert!(append.iter().all(|a| !a.fresh) && append[2].first == second[3].first + 1);
    }

    #[test]
    fn a_file_without_room_is_refused_and_takes_no_blocks() {
        assert!(Volume::new(GROUP_BLOCKS - 1, 8192, 10, 1).is_none());
        assert!(Volume::new(GROUP_BLOCKS, 8192, 10_000_000, 1).is_none());
        let mut volume = Volume::new(GROUP_BLOCKS, 8192, 10, 1).unwrap();
        let room = u64::from(volume.groups[0].count);
        assert!(volume.create(FileNumber::new(1), 0, (room + 1) * 8192).is_none());
        assert!(volume.create(FileNumber::new(1), 0, room * 8192).is_some());
        assert!(volume.append(FileNumber::new(1), 0, 1).is_none());
        assert!(volume.delete(FileNumber::new(1), 0).is_some());
        assert_eq!(u64::from(volume.groups[0].count), room);
    }

    proptest! {
        #[test]
        fn no_block_has_two_owners_and_none_is_lost(
            groups in 1u64..4, directories in 1u64..5,
            steps in prop::collection::vec((0u8..4, 1u64..40, 0u32..5, 1u64..3_000_000), 0..200),
        ) {
            let mut volume = Volume::new(groups * GROUP_BLOCKS, 8192, 64, directories).unwrap();
            let whole: u32 = volume.groups.iter().map(|g| g.count).sum();
            for (what, file, directory, bytes) in steps {
                let file = FileNumber::new(file);
                let directory = directory % directories as u32;
                let accesses = match what {
                    0 if !volume.files.contains_key(&file) => volume.create(file, directory, bytes),
                    1 => volume.append(file, directory, bytes),
                    2 => volume.read(file, directory),
                    _ => volume.delete(file, directory).map(|d| d.0),
                };
                for access in accesses.into_iter().flatten() {
                    prop_assert!(access.first + access.blocks <= volume.end());
                }
                // A bit for each block, as in the volume's own maps, and the number of those that are set.
                let (mut owned, mut count) = (vec![0_u64; volume.end().div_ceil(64) as usize], 0);
                for file in volume.files.values() {
                    prop_assert_eq!(file.blocks.len() as u64, volume.blocks_of(file.bytes));
                    for &block in &file.blocks {
                        let bit = u64::from(block) % GROUP_BLOCKS;
                        let free = volume.groups[(u64::from(block) / GROUP_BLOCKS) as usize].free[(bit / 64) as usize];
                        prop_assert!(free >> (bit % 64) & 1 == 0 && bit > volume.inode_blocks);
                        let (word, bit) = (&mut owned[block as usize / 64], 1 << (block % 64));
                        prop_assert!(*word & bit == 0);
                        (*word, count) = (*word | bit, count + 1);
                    }
                }
                let free: u32 = volume.groups.iter().map(|g| g.count).sum();
                prop_assert_eq!(free + count, whole);
            }
        }
    }
}
