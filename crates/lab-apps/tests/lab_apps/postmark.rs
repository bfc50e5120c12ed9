//! Postmark's load on the file layer: an example of a host that connects a load with a file system.

use lab_apps::files::{
    CACHE_BLOCKS_MIN, FileConfig, FileError, FilePath, FileStatistics, FileSystem, MemoryStore,
    MemoryStoreError, Store, content,
};
use std::collections::BTreeMap;
use workload::postmark::{FileNumber, Operation, Phase, Postmark, PostmarkConfig, Step};

/// Carries out one operation with real bytes; every byte read is checked.
fn run<S: Store>(
    files: &mut FileSystem<S>,
    operation: Operation,
    sizes: &mut BTreeMap<FileNumber, u64>,
    buffer: &mut Vec<u8>,
) -> Result<(), FileError<S::Error>> {
    match operation {
        Operation::Create { file, directory, bytes } => {
            buffer.resize(bytes.get() as usize, 0);
            content::fill(file.get(), 0, buffer);
            sizes.insert(file, bytes.get());
            files.create(FilePath::new(directory, file.get()), buffer)
        }
        Operation::Append { file, directory, bytes } => {
            let size = sizes.entry(file).or_default();
            buffer.resize(bytes.get() as usize, 0);
            content::fill(file.get(), *size, buffer);
            *size += bytes.get();
            files.append(FilePath::new(directory, file.get()), buffer)
        }
        Operation::Read { file, directory, bytes } => {
            let size = files.read(FilePath::new(directory, file.get()), buffer)?;
            assert_eq!(size, bytes.get());
            assert_eq!(content::mismatch(file.get(), 0, buffer), None, "{file}");
            Ok(())
        }
        Operation::Delete { file, directory } => {
            sizes.remove(&file);
            files.delete(FilePath::new(directory, file.get()))
        }
    }
}

/// Runs the whole load; returns the counts of the last transaction phase.
fn run_all(
    files: &mut FileSystem<MemoryStore>,
    load: Postmark,
) -> Result<FileStatistics, FileError<MemoryStoreError>> {
    let (mut sizes, mut buffer) = (BTreeMap::new(), Vec::new());
    let last = Phase::Transactions(load.config().phases - 1);
    let mut measured = FileStatistics::default();
    let mut before = FileStatistics::default();
    for step in load {
        match step {
            Step::Phase(phase) if phase == last => before = files.statistics(),
            Step::Phase(Phase::Delete) => measured = files.statistics().since(before),
            Step::Operation(operation) => run(files, operation, &mut sizes, &mut buffer)?,
            Step::Phase(_) | Step::TransactionDone => {}
            Step::OutOfFiles => panic!("the pool ran dry"),
        }
    }
    Ok(measured)
}

/// The blocks of LLD's 400 MB.
const BLOCKS: u32 = 102_400;

#[test]
fn the_papers_load_reads_back_what_it_wrote() {
    let mut files = FileSystem::format(MemoryStore::new(BLOCKS), FileConfig::new(BLOCKS)).unwrap();
    let at_first = files.usage();
    // The files take about half of the disk: 20,000 files of two or three blocks.
    let measured = run_all(&mut files, Postmark::new(PostmarkConfig::osdi00(20_000), 42).unwrap()).unwrap();
    // The pool is many times larger than the cache: most reads go to the store.
    assert!(measured.misses > 25_000, "{measured:?}");
    let usage = files.usage();
    assert_eq!(usage.files, 0);
    // Directories keep their blocks, and inode blocks stay in use.
    assert!(usage.used - at_first.used < 1_000, "{usage:?}");
    files.sync().unwrap();
    let used = files.usage().used;
    assert_eq!(files.into_store().stored() as u32, used, "a block was lost or never freed");
}

#[test]
fn a_pool_that_fits_the_cache_needs_no_store() {
    // OSDI'00, section 5.3: the cache absorbs all of the activity up to 8% of the capacity.
    let config = PostmarkConfig::osdi00(2_000);
    let mut files = FileSystem::format(MemoryStore::new(BLOCKS), FileConfig::new(BLOCKS)).unwrap();
    let measured = run_all(&mut files, Postmark::new(config, 42).unwrap()).unwrap();
    assert_eq!((measured.misses, measured.writes, measured.frees), (0, 0, 0), "{measured:?}");
    assert!(measured.dropped > 10_000, "{measured:?}");
}

#[test]
fn the_smallest_cache_gives_the_same_files() {
    let config = PostmarkConfig { transactions: 2_000, ..PostmarkConfig::osdi00(500) };
    let mut files = FileSystem::format(
        MemoryStore::new(5_000),
        FileConfig { cache_blocks: CACHE_BLOCKS_MIN, ..FileConfig::new(5_000) },
    )
    .unwrap();
    run_all(&mut files, Postmark::new(config, 7).unwrap()).unwrap();
    assert_eq!(files.usage().files, 0);
}

#[test]
fn postmarks_own_defaults_run_in_one_directory() {
    let config = PostmarkConfig { transactions: 5_000, ..PostmarkConfig::new() };
    let mut files =
        FileSystem::format(MemoryStore::new(5_000), FileConfig { directories: 1, ..FileConfig::new(5_000) })
            .unwrap();
    run_all(&mut files, Postmark::new(config, 8).unwrap()).unwrap();
    assert_eq!(files.usage().files, 0);
}
