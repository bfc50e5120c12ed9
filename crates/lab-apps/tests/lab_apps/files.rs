//! The file layer against a naive map of files: small caches, full disks, remounts, crashes, damage, failing stores.

use lab_apps::files::{
    BlockDamage, CACHE_BLOCKS_MIN, FileConfig, FileError, FilePath, FileSystem, LogicalBlock, MemoryStore,
    MemoryStoreError, MountError, Store, StoreCall, content, format::FILE_BYTES_MAX,
};
use proptest::prelude::*;
use std::collections::BTreeMap;
use workload::Share;
use workload::random::Stream;

/// A store that fails some of its calls, drawn from a seed.
#[derive(Clone, Debug)]
struct Flaky {
    store: MemoryStore,
    stream: Stream,
    failing: Share,
    announced: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum FlakyError {
    #[error("a fault was asked for")]
    Fault,
    #[error(transparent)]
    Store(#[from] MemoryStoreError),
}

impl Flaky {
    fn new(blocks: u32, seed: u64) -> Self {
        let stream = Stream::new(seed, "faults");
        Self { store: MemoryStore::new(blocks), stream, failing: Share::NONE, announced: 0 }
    }

    fn chance(&mut self) -> Result<(), FlakyError> {
        if self.stream.chance(self.failing) { Err(FlakyError::Fault) } else { Ok(()) }
    }
}

impl Store for Flaky {
    type Error = FlakyError;

    fn read(&mut self, block: LogicalBlock, into: &mut [u8]) -> Result<(), FlakyError> {
        self.chance()?;
        Ok(self.store.read(block, into)?)
    }

    fn write(&mut self, block: LogicalBlock, data: &[u8]) -> Result<(), FlakyError> {
        self.chance()?;
        Ok(self.store.write(block, data)?)
    }

    fn free(&mut self, block: LogicalBlock) -> Result<(), FlakyError> {
        self.chance()?;
        Ok(self.store.free(block)?)
    }

    fn will_read(&mut self, blocks: &[LogicalBlock]) {
        assert!(blocks.len() > 1);
        self.announced += blocks.len();
    }
}

#[derive(Clone, Debug)]
enum FileCall {
    Create(FilePath, usize),
    Append(FilePath, usize),
    Read(FilePath),
    Delete(FilePath),
    Sync,
    Remount,
    Crash,
    Faults(u64),
}

fn path() -> impl Strategy<Value = FilePath> {
    // Paths also name a directory that does not exist.
    (0u32..4, 0u64..12).prop_map(|(directory, name)| FilePath::new(directory, name))
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 0usize..20_000,
        2 => (0usize..5).prop_map(|blocks| blocks * 4096),
        1 => 20_000usize..60_000,
    ]
}

fn call() -> impl Strategy<Value = FileCall> {
    prop_oneof![
        6 => (path(), size()).prop_map(|(path, bytes)| FileCall::Create(path, bytes)),
        6 => (path(), size()).prop_map(|(path, bytes)| FileCall::Append(path, bytes)),
        4 => path().prop_map(FileCall::Read),
        5 => path().prop_map(FileCall::Delete),
        1 => Just(FileCall::Sync),
        1 => Just(FileCall::Remount),
        1 => Just(FileCall::Crash),
        1 => (0u64..4).prop_map(FileCall::Faults),
    ]
}

const DIRECTORIES: u32 = 3;
type FileContents = BTreeMap<FilePath, Vec<u8>>;
type Files = FileSystem<Flaky>;

fn bytes_of(path: FilePath, offset: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    content::fill(path.name ^ u64::from(path.directory) << 32, offset as u64, &mut bytes);
    bytes
}

/// Checks that exactly the model's files exist, with their bytes.
fn check_all(files: &mut Files, model: &FileContents) -> Result<(), TestCaseError> {
    let failing = std::mem::replace(&mut files.store_mut().failing, Share::NONE);
    let mut read = Vec::new();
    for (path, bytes) in model {
        let size = files.read(*path, &mut read).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(size, bytes.len() as u64);
        prop_assert!(&read == bytes, "{} has other bytes", path);
    }
    for directory in 0..DIRECTORIES {
        let mut names = files.names(directory).map_err(|e| TestCaseError::fail(e.to_string()))?;
        names.sort_unstable();
        let expected: Vec<u64> = model.keys().filter(|p| p.directory == directory).map(|p| p.name).collect();
        prop_assert_eq!(names, expected);
    }
    prop_assert_eq!(files.usage().files as usize, model.len());
    files.store_mut().failing = failing;
    Ok(())
}

/// Checks an outcome against the model; returns whether the call succeeded.
fn judge(
    outcome: Result<(), FileError<FlakyError>>,
    expected: Result<(), FileError<FlakyError>>,
    failing: bool,
) -> Result<bool, TestCaseError> {
    match outcome {
        Ok(()) => prop_assert_eq!(expected, Ok(())),
        Err(FileError::Store { source, .. }) => {
            prop_assert!(failing && source == FlakyError::Fault, "{}", source);
            return Ok(false);
        }
        Err(FileError::Full { needed, free }) => {
            prop_assert!(expected.is_ok() && needed > free);
            return Ok(false);
        }
        Err(FileError::NoInode { .. }) => {
            prop_assert!(expected.is_ok());
            return Ok(false);
        }
        Err(error) => {
            prop_assert_eq!(Err(error), expected);
            return Ok(false);
        }
    }
    Ok(true)
}

fn expect(model: &FileContents, path: FilePath, to_exist: bool) -> Result<(), FileError<FlakyError>> {
    if path.directory >= DIRECTORIES {
        return Err(FileError::NoSuchDirectory { path, directories: DIRECTORIES });
    }
    match (model.contains_key(&path), to_exist) {
        (true, false) => Err(FileError::Exists(path)),
        (false, true) => Err(FileError::NoSuchFile(path)),
        _ => Ok(()),
    }
}

fn run(calls: Vec<FileCall>, blocks: u32, cache_blocks: usize, seed: u64) -> Result<(), TestCaseError> {
    let fail = |e: &dyn std::fmt::Display| TestCaseError::fail(e.to_string());
    let config = FileConfig { directories: DIRECTORIES, inodes: 70, cache_blocks, ..FileConfig::new(blocks) };
    let mut files = Files::format(Flaky::new(blocks, seed), config).map_err(|e| fail(&e))?;
    let mut model = FileContents::new();
    let mut synced = FileContents::new();
    let mut failing = false;
    let mut read = Vec::new();
    for call in calls {
        match call {
            FileCall::Create(path, length) => {
                let bytes = bytes_of(path, 0, length);
                let outcome = files.create(path, &bytes);
                if judge(outcome, expect(&model, path, false), failing)? {
                    model.insert(path, bytes);
                }
            }
            FileCall::Append(path, length) => {
                let old = model.get(&path).map_or(0, Vec::len);
                let bytes = bytes_of(path, old, length);
                let outcome = files.append(path, &bytes);
                if judge(outcome, expect(&model, path, true), failing)? {
                    model.entry(path).or_default().extend(bytes);
                }
            }
            FileCall::Read(path) => {
                let outcome = files.read(path, &mut read).map(drop);
                if judge(outcome, expect(&model, path, true), failing)? {
                    prop_assert!(model.get(&path) == Some(&read), "{} has other bytes", path);
                } else {
                    prop_assert!(read.is_empty());
                }
            }
            FileCall::Delete(path) => {
                let outcome = files.delete(path);
                if judge(outcome, expect(&model, path, true), failing)? {
                    model.remove(&path);
                }
            }
            FileCall::Sync => {
                if judge(files.sync(), Ok(()), failing)? {
                    synced = model.clone();
                }
            }
            FileCall::Remount => {
                files.store_mut().failing = Share::NONE;
                failing = false;
                files.sync().map_err(|e| fail(&e))?;
                synced = model.clone();
                let usage = files.usage();
                prop_assert_eq!(files.store().store.stored(), usage.used as usize);
                files = Files::mount(files.into_store(), cache_blocks).map_err(|e| fail(&e))?;
                let again = files.usage();
                prop_assert_eq!((again.used, again.free, again.files), (usage.used, usage.free, usage.files));
            }
            FileCall::Crash => {
                let mut store = files.store().clone();
                store.failing = Share::NONE;
                match Files::mount(store, cache_blocks) {
                    Ok(mut found) => check_all(&mut found, &synced)?,
                    Err(error) => prop_assert_eq!(error, MountError::NotSynced),
                }
            }
            FileCall::Faults(quarters) => {
                files.store_mut().failing = Share::new(quarters, 4).map_err(|e| fail(&e))?;
                failing = quarters > 0;
            }
        }
        check_all(&mut files, &model)?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn a_file_system_agrees_with_a_map_of_files(
        calls in prop::collection::vec(call(), 1..120),
        blocks in prop_oneof![20u32..60, 60u32..200],
        cache in CACHE_BLOCKS_MIN..40,
        seed: u64,
    ) {
        run(calls, blocks, cache, seed)?;
    }

    #[test]
    fn a_damaged_block_is_named_and_never_read_as_good(
        lengths in prop::collection::vec(size(), 1..12),
        choice: prop::sample::Index,
        byte in 0usize..4096,
        bit in 0u32..8,
    ) {
        let mut store = MemoryStore::new(400);
        let config = FileConfig { directories: DIRECTORIES, ..FileConfig::new(400) };
        let mut files = FileSystem::format(&mut store, config).unwrap();
        let mut model = FileContents::new();
        for (name, length) in (0..).zip(lengths) {
            let path = FilePath::new(name as u32 % DIRECTORIES, name);
            let bytes = bytes_of(path, 0, length);
            if files.create(path, &bytes).is_ok() {
                model.insert(path, bytes);
            }
        }
        files.sync().unwrap();
        drop(files);
        let stored: Vec<u32> = (0..400).filter(|&n| store.block_mut(LogicalBlock::new(n)).is_some()).collect();
        let damaged = LogicalBlock::new(stored[choice.index(stored.len())]);
        store.block_mut(damaged).unwrap()[byte] ^= 1 << bit;

        let mut files = match FileSystem::mount(&mut store, CACHE_BLOCKS_MIN) {
            Ok(files) => files,
            Err(MountError::NotFormatted | MountError::Version { .. }) if damaged.get() == 0 => return Ok(()),
            Err(MountError::Blocks(FileError::Damaged { block, .. })) => {
                prop_assert_eq!(block, damaged);
                return Ok(());
            }
            Err(other) => return Err(TestCaseError::fail(other.to_string())),
        };
        let mut errors = 0;
        let mut read = Vec::new();
        for (path, bytes) in &model {
            match files.read(*path, &mut read) {
                Ok(_) => prop_assert_eq!(&read, bytes),
                Err(FileError::Damaged { block, .. }) => {
                    prop_assert_eq!(block, damaged);
                    errors += 1;
                }
                Err(other) => return Err(TestCaseError::fail(other.to_string())),
            }
        }
        prop_assert!(errors > 0, "{} was changed and no read reported it", damaged);
    }
}

fn small(blocks: u32) -> FileSystem<MemoryStore> {
    let config = FileConfig { directories: 1, ..FileConfig::new(blocks) };
    FileSystem::format(MemoryStore::new(blocks), config).expect("a memory store takes everything")
}

#[test]
fn a_block_freed_before_its_first_write_is_never_written() {
    let mut files = small(1_000);
    let before = files.statistics();
    for name in 0..50 {
        files.create(FilePath::new(0, name), &[1; 8_192]).unwrap();
        files.delete(FilePath::new(0, name)).unwrap();
    }
    let done = files.statistics().since(before);
    assert_eq!((done.writes, done.frees, done.dropped), (0, 0, 100));
}

#[test]
fn a_stale_block_is_damage() {
    let mut files = small(1_000);
    files.create(FilePath::new(0, 1), b"old").unwrap();
    files.sync().unwrap();
    let old = files.store().clone();
    files.append(FilePath::new(0, 1), b" and new").unwrap();
    files.sync().unwrap();
    let mut store = files.into_store();
    // Puts back the old contents of the file's only block, as if the store had lost the second write.
    let changed = |n: &u32| {
        let block = LogicalBlock::new(*n);
        let (mut now, mut then) = (store.clone(), old.clone());
        now.block_mut(block).is_some_and(|b| b.starts_with(b"old and")) && then.block_mut(block).is_some()
    };
    let block = LogicalBlock::new((0..1_000).find(changed).unwrap());
    *store.block_mut(block).unwrap() = *old.clone().block_mut(block).unwrap();
    let mut files = FileSystem::mount(store, CACHE_BLOCKS_MIN).unwrap();
    let error = files.read(FilePath::new(0, 1), &mut Vec::new()).unwrap_err();
    assert!(
        matches!(error, FileError::Damaged { block: b, problem: BlockDamage::Checksum { .. }, .. } if b == block),
        "{error}"
    );
}

#[test]
fn a_full_disk_changes_nothing_and_deleting_helps() {
    let mut files = small(100);
    let mut name = 0;
    let error = loop {
        match files.create(FilePath::new(0, name), &[7; 10_000]) {
            Ok(()) => name += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, FileError::Full { needed: 3, free: 0..3 }), "{error}");
    assert_eq!(files.size(FilePath::new(0, name)), Ok(None));
    files.delete(FilePath::new(0, 0)).unwrap();
    files.create(FilePath::new(0, name), &[7; 10_000]).unwrap();
    assert!(files.usage().utilisation() > 0.9, "{:?}", files.usage());
}

#[test]
fn a_file_of_the_largest_size_reads_back_through_the_smallest_cache() {
    let path = FilePath::new(0, 1);
    let bytes = bytes_of(path, 0, FILE_BYTES_MAX as usize);
    let config = FileConfig { directories: 1, cache_blocks: CACHE_BLOCKS_MIN, ..FileConfig::new(1_000) };
    let mut files = FileSystem::format(MemoryStore::new(1_000), config).unwrap();
    files.create(path, &bytes[..30_000]).unwrap();
    files.append(path, &bytes[30_000..]).unwrap();
    let error = files.append(path, &[1]).unwrap_err();
    assert_eq!(error, FileError::TooLarge { path, bytes: FILE_BYTES_MAX + 1 });
    let mut read = Vec::new();
    files.read(path, &mut read).unwrap();
    assert!(read == bytes);
    files.delete(path).unwrap();
    // The superblock, a block of inodes, and one of the directory.
    assert_eq!(files.usage().used, 3);
}

#[test]
fn a_directory_grows_past_its_direct_blocks() {
    let mut files = small(4_000);
    // Six direct blocks hold 1,530 entries.
    for name in 0..1_800 {
        files.create(FilePath::new(0, name), &[]).unwrap();
    }
    files.sync().unwrap();
    let mut files = FileSystem::mount(files.into_store(), CACHE_BLOCKS_MIN).unwrap();
    let mut names = files.names(0).unwrap();
    names.sort_unstable();
    assert!(names.into_iter().eq(0..1_800));
}

#[test]
fn several_missing_blocks_are_announced() {
    let mut files =
        FileSystem::format(Flaky::new(1_000, 1), FileConfig { directories: 1, ..FileConfig::new(1_000) })
            .unwrap();
    files.create(FilePath::new(0, 1), &[1; 10_000]).unwrap();
    files.create(FilePath::new(0, 2), &[1; 1_000]).unwrap();
    files.sync().unwrap();
    let mut files = FileSystem::mount(files.into_store(), 64).unwrap();
    files.read(FilePath::new(0, 2), &mut Vec::new()).unwrap();
    assert_eq!(files.store().announced, 0);
    files.read(FilePath::new(0, 1), &mut Vec::new()).unwrap();
    files.read(FilePath::new(0, 1), &mut Vec::new()).unwrap();
    assert_eq!(files.store().announced, 3);
}

#[test]
fn settings_that_make_no_file_system_are_named() {
    let good = FileConfig::new(1_000);
    for (config, text) in [
        (FileConfig { blocks: u32::MAX, ..good }, "blocks is 4294967295; give"),
        (FileConfig { blocks: 9, ..good }, "blocks is 9; give 10 at least"),
        (FileConfig { inodes: u32::MAX, ..good }, "blocks is 1000; give"),
        (FileConfig { directories: 0, ..good }, "directories is 0; give 1 to 501"),
        (FileConfig { directories: 502, ..good }, "directories is 502; give 1 to 501"),
        (FileConfig { cache_blocks: 7, ..good }, "cache_blocks is 7; give 8 to"),
        (FileConfig { cache_blocks: usize::MAX, ..good }, "cache_blocks is 18446744073709551615; give 8"),
    ] {
        let message = FileSystem::format(MemoryStore::new(10), config).unwrap_err().to_string();
        assert!(message.starts_with(text), "{message}");
    }
}

#[test]
fn a_store_without_a_file_system_is_not_mounted() {
    let mount = |store: MemoryStore| FileSystem::mount(store, 64).unwrap_err();
    assert!(matches!(
        mount(MemoryStore::new(10)),
        MountError::Blocks(FileError::Store {
            call: StoreCall::Read,
            source: MemoryStoreError::Empty(_),
            ..
        })
    ));
    let mut store = MemoryStore::new(10);
    store.write(LogicalBlock::new(0), &[0; 4096]).unwrap();
    assert_eq!(mount(store), MountError::NotFormatted);
    let mut store = small(100).into_store();
    store.block_mut(LogicalBlock::new(0)).unwrap()[8] = 9;
    assert_eq!(mount(store), MountError::Version { found: 9 });
}

#[test]
fn a_store_too_small_leaves_nothing_to_mount() {
    let mut store = small(100).into_store();
    let mut again = MemoryStore::new(5);
    again.write(LogicalBlock::new(0), store.block_mut(LogicalBlock::new(0)).unwrap()).unwrap();
    let config = FileConfig { directories: 400, ..FileConfig::new(1_000) };
    assert!(FileSystem::format(&mut again, config).is_err());
    assert_eq!(FileSystem::mount(again, 64).unwrap_err(), MountError::NotSynced);
}
