//! Postmark below a file system: its requests to the drive.

use super::volume::{Access, Volume};
use super::{Operation, Phase, Postmark, PostmarkConfig, Step};
use crate::error::ConfigError;
use crate::pages::{Evict, PageCounts, PagePool};
use crate::request::Script;
use crate::request::later;
use crate::request::{Request, Source};
use crate::script::served_at_once;
use crate::{ClosedTask, Issued};
use std::collections::{BTreeMap, VecDeque};
use units::{Bytes, CacheOps, Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// The configuration of [`PostmarkBlocks`].
///
/// From FAST'04, section 6.1: 100,000 transactions on 800,000 files of 10 to 20 KB in 10,000 directories, on a drive of
/// 18.4 GB, by a system of 384 MB of which three quarters may be its cache (section 6.4). All the rest is assumed,
/// after FreeBSD 4's FFS with soft updates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostmarkBlocksConfig {
    /// The files, and the operations on them.
    pub postmark: PostmarkConfig,
    /// The drive's sectors.
    pub capacity: Sectors,
    /// The bytes of a sector.
    pub sector: Bytes,
    /// The LBNs of the volume.
    pub volume: LbnRange,
    /// The file system's block, in whole sectors (FFS: 8 KB; no fragments).
    pub block: Bytes,
    /// The largest request: adjacent blocks are read and written together (64 KB).
    pub cluster: Bytes,
    /// The buffer cache. Once a quarter of it is dirty, the benchmark waits, and half of these blocks are written.
    pub cache: Bytes,
    /// The longest time for which a dirty block stays unwritten (30 s).
    pub syncer: Duration,
    /// The most writes at the drive at a time.
    pub writes: u32,
    /// The processor time of a file operation; above zero.
    pub processing: Duration,
}

/// The paper's drive in bytes, and its number of files.
const DRIVE_BYTES: u64 = 18_400_000_000;
const FILES: u64 = 800_000;
/// The files in each directory of the paper.
const DIRECTORY_FILES: u64 = 80;
/// The interval at which the syncer looks for old dirty blocks.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);
/// The most blocks of a cache; 8 GB of 8 KB blocks.
const CACHE_BLOCKS_MAX: u64 = 1 << 20;
/// The most writes at a time; no drive of that time had a longer queue.
const WRITES_MAX: u32 = 1_024;

impl PostmarkBlocksConfig {
    /// Returns the paper's load on a drive of `capacity` sectors of `sector` bytes: the paper's files on a drive of
    /// the paper's size or larger, and proportionally fewer files and directories on a smaller drive.
    pub fn new(capacity: Sectors, sector: Bytes) -> Self {
        let sector_bytes = sector.get().max(1);
        let most = DRIVE_BYTES / sector_bytes;
        let volume = capacity.get().min(most);
        let files = (u128::from(FILES) * u128::from(volume) / u128::from(most.max(1))) as u64;
        let postmark = PostmarkConfig {
            files: files.clamp(1, FILES) as u32,
            size_min: Bytes::new(10 << 10),
            size_max: Bytes::new(20 << 10),
            transactions: 100_000,
            directories: (files / DIRECTORY_FILES).clamp(1, FILES) as u32,
            ..PostmarkConfig::new()
        };
        Self {
            postmark,
            capacity,
            sector,
            volume: LbnRange::new(Lbn::ZERO, Sectors::new(volume)),
            block: Bytes::new(8 << 10),
            cluster: Bytes::new(64 << 10),
            cache: Bytes::new(288 << 20),
            syncer: Duration::from_secs(30),
            writes: 8,
            processing: Duration::from_micros(500),
        }
    }

    fn block_sectors(&self) -> u64 {
        self.block.get() / self.sector.get().max(1)
    }

    fn cache_blocks(&self) -> u64 {
        self.cache.get() / self.block.get().max(1)
    }

    fn check(&self) -> Result<(), ConfigError> {
        let Self { sector, block, cluster, syncer, writes, processing, capacity, volume, .. } = *self;
        let whole =
            |part: Bytes, of: Bytes| of >= part && part > Bytes::ZERO && of.get().is_multiple_of(part.get());
        if !whole(sector, block) || block.get() > 1 << 20 {
            return Err(ConfigError::field("block", block, "give whole sectors, to 1 MB"));
        }
        if !whole(block, cluster) || cluster.get() > 1 << 26 {
            return Err(ConfigError::field("cluster", cluster, "give whole blocks, to 64 MB"));
        }
        if writes == 0 || writes > WRITES_MAX {
            return Err(ConfigError::field("writes", writes, "give 1 to 1024 writes at a time"));
        }
        let blocks = self.cache_blocks();
        let least = 4 * (u64::from(writes) + 1) * (cluster.get() / block.get());
        if blocks < least || blocks > CACHE_BLOCKS_MAX {
            let mend =
                "give four clusters for each write at a time and for one read, and at most 1048576 blocks";
            return Err(ConfigError::field("cache", format!("{blocks} blocks"), mend));
        }
        if processing == Duration::ZERO {
            return Err(ConfigError::field("processing", processing, "give a time above zero"));
        }
        if syncer == Duration::ZERO {
            return Err(ConfigError::field("syncer", syncer, "give a time above zero, such as 30 s"));
        }
        let end = volume.checked_end().unwrap_or(Lbn::new(u64::MAX));
        if end.get() > capacity.get() {
            return Err(ConfigError::CapacityTooSmall { capacity, needed: Sectors::new(end.get()) });
        }
        Ok(())
    }
}

/// Counts of the load so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PostmarkStatistics {
    /// Transactions completed.
    pub transactions: u64,
    /// Read requests.
    pub reads: u64,
    /// Blocks read.
    pub blocks_read: u64,
    /// Write requests.
    pub writes: u64,
    /// Blocks written.
    pub blocks_written: u64,
    /// File operations for which the volume had no room.
    pub refused: u64,
}

/// Postmark's transactions as a [`Script`] of block requests: use it with
/// [`Arrival::Scripted`](crate::Arrival::Scripted).
///
/// The initial pool of files exists at the start, with a cold cache; the load ends when the transactions are done and
/// everything is written. One thread works: task 0 reads the blocks that an operation needs and the cache lacks, one
/// request at a time. Dirty blocks stay in the cache until they are 30 s old, or too many; then the other tasks write
/// them, with their dirty neighbours. Blocks of deleted files are dropped unwritten.
///
/// This is a stand-in for a file system; `docs/WORKLOADS.md` lists the differences. `lab_apps::files` has a real one,
/// with contents.
///
/// ```
/// use freeblock_workload::{Arrival, Issuer};
/// use freeblock_workload::postmark::{PostmarkBlocks, PostmarkBlocksConfig, PostmarkConfig};
/// use units::{Bytes, Duration, Instant, Sectors};
/// let config = PostmarkBlocksConfig::new(Sectors::new(17_938_986), Bytes::new(512));
/// let postmark = PostmarkConfig { files: 1_000, directories: 10, transactions: 500, ..config.postmark };
/// let load = PostmarkBlocks::new(PostmarkBlocksConfig { postmark, ..config }, 42)?;
/// let mut foreground = Issuer::new(load, Arrival::Scripted, Instant::ZERO, 42)?;
/// let mut now = Instant::ZERO;
/// while let Some(due) = foreground.due() {
///     now = now.max(due);
///     if let Some(issued) = foreground.issue(now) {
///         now += Duration::from_millis(5);
///         foreground.complete(issued.task, now);
///     }
/// }
/// assert!(foreground.is_done());
/// assert_eq!(foreground.source().statistics().transactions, 500);
/// # Ok::<(), freeblock_workload::ConfigError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PostmarkBlocks {
    config: PostmarkBlocksConfig,
    postmark: Postmark,
    volume: Volume,
    cache: PagePool,
    /// The state of the thread.
    thread: Thread,
    /// The remaining accesses of the thread's operation.
    accesses: VecDeque<Access>,
    /// The blocks that the thread reads: the first, and their number.
    reading: Option<(u64, u64)>,
    next_tick: Option<Instant>,
    /// The time of the first change of each dirty block since it was written.
    since: BTreeMap<u64, Instant>,
    /// The blocks of `since` by time. An entry is outdated if its block has no time or a later one in `since`.
    changed: VecDeque<(Instant, u64)>,
    /// Whether too many blocks are dirty, so that half of them are to be written.
    flooded: bool,
    /// Runs being written to the drive, by task.
    writing: BTreeMap<u32, (u64, u64)>,
    ready: VecDeque<Issued>,
    now: Instant,
    statistics: PostmarkStatistics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thread {
    /// The thread computes until this time.
    Processing(Instant),
    /// The thread waits for a read.
    Reading,
    /// The thread waits until fewer blocks are dirty.
    Blocked,
    /// The thread has finished: all changed blocks are to be written.
    Ended,
}

impl PostmarkBlocks {
    /// Creates a load whose files are those of [`Postmark`] with the same seed.
    ///
    /// # Errors
    /// As for [`Postmark::new`]; a size or number is out of its range; the drive does not contain the volume, or the
    /// volume has no room for the files.
    pub fn new(config: PostmarkBlocksConfig, seed: u64) -> Result<Self, ConfigError> {
        let mut postmark = Postmark::new(config.postmark, seed)?;
        config.check()?;
        let files = u64::from(config.postmark.files);
        let no_room = || {
            let found = format!("{} sectors for {files} files", config.volume.len());
            ConfigError::field(
                "volume",
                found,
                "give fewer or smaller files, or a larger part of a larger drive",
            )
        };
        let blocks = config.volume.len().get() / config.block_sectors();
        // Postmark never has more than twice the initial number of files.
        let directories = u64::from(config.postmark.directories);
        let mut volume =
            Volume::new(blocks, config.block.get(), 2 * files, directories).ok_or_else(no_room)?;
        for _ in 0..=files {
            match postmark.next() {
                Some(Step::Operation(Operation::Create { file, directory, bytes })) => {
                    volume.create(file, directory, bytes.get()).ok_or_else(no_room)?;
                }
                Some(Step::Phase(Phase::Create)) => {}
                _ => break,
            }
        }
        Ok(Self {
            cache: PagePool::new(config.cache_blocks() as usize),
            config,
            postmark,
            volume,
            thread: Thread::Blocked,
            accesses: VecDeque::new(),
            reading: None,
            next_tick: None,
            since: BTreeMap::new(),
            changed: VecDeque::new(),
            flooded: false,
            writing: BTreeMap::new(),
            ready: VecDeque::new(),
            now: Instant::ZERO,
            statistics: PostmarkStatistics::default(),
        })
    }

    /// Returns the configuration.
    pub const fn config(&self) -> &PostmarkBlocksConfig {
        &self.config
    }

    /// Returns the counts so far.
    pub const fn statistics(&self) -> PostmarkStatistics {
        self.statistics
    }

    /// Returns the counts of blocks in the cache.
    pub fn cache(&self) -> PageCounts {
        self.cache.counts()
    }

    fn cluster_blocks(&self) -> u64 {
        self.config.cluster.get() / self.config.block.get()
    }

    fn high(&self) -> usize {
        (self.config.cache_blocks() / 4) as usize
    }

    /// Runs the thread until it waits.
    fn work(&mut self, at: Instant) {
        while let Some(access) = self.accesses.front().copied() {
            if self.cache.dirty().len() > self.high() {
                self.thread = Thread::Blocked;
                self.flooded = true;
                return;
            }
            if !self.access(access, at) {
                self.thread = Thread::Reading;
                return;
            }
            // Blocks are accessed one by one, because reading a large file may evict its own beginning.
            match self.accesses.front_mut().filter(|front| front.blocks > 1) {
                Some(front) => (front.first, front.blocks) = (access.first + 1, access.blocks - 1),
                None => drop(self.accesses.pop_front()),
            }
        }
        self.thread = if self.next_operation() {
            Thread::Processing(later(at, self.config.processing))
        } else {
            Thread::Ended
        };
    }

    /// Starts the next operation, whose accesses come after the processing; returns whether there is one.
    fn next_operation(&mut self) -> bool {
        loop {
            let Some(step) = self.postmark.next() else { return false };
            let operation = match step {
                Step::Operation(operation) => operation,
                Step::TransactionDone => {
                    self.statistics.transactions += 1;
                    continue;
                }
                Step::Phase(Phase::Delete) => return false,
                Step::Phase(_) | Step::OutOfFiles => continue,
            };
            let accesses = match operation {
                Operation::Create { file, directory, bytes } => {
                    self.volume.create(file, directory, bytes.get())
                }
                Operation::Read { file, directory, .. } => self.volume.read(file, directory),
                Operation::Append { file, directory, bytes } => {
                    self.volume.append(file, directory, bytes.get())
                }
                Operation::Delete { file, directory } => {
                    self.volume.delete(file, directory).map(|(accesses, blocks)| {
                        for block in blocks.into_iter().map(u64::from) {
                            self.forget(block);
                        }
                        accesses
                    })
                }
            };
            match accesses {
                Some(accesses) => self.accesses = accesses.into(),
                None => self.statistics.refused += 1,
            }
            return true;
        }
    }

    /// Drops a block of a deleted file without writing it; a block that is being written stays in the cache.
    fn forget(&mut self, block: u64) {
        self.clean(block);
        if !self.is_being_written(block) {
            self.cache.remove(block);
        }
    }

    fn is_being_written(&self, block: u64) -> bool {
        self.writing.values().any(|&(first, blocks)| (first..first + blocks).contains(&block))
    }

    /// Returns whether the run's first block is in the cache; if not, reads it and the missing ones that follow it.
    fn access(&mut self, access: Access, at: Instant) -> bool {
        let Access { first, blocks, change, fresh } = access;
        if fresh {
            self.bring_in(first);
        } else if !self.cache.touch(first, false) {
            let missing = (first..first + blocks).take(self.cluster_blocks() as usize);
            let count = missing.take_while(|&block| !self.cache.contains(block)).count() as u64;
            self.reading = Some((first, count));
            self.statistics.reads += 1;
            self.statistics.blocks_read += count;
            self.ask(0, Op::Read, first, count, at);
            return false;
        }
        if change && !self.cache.is_dirty(first) {
            self.cache.touch(first, true);
            self.since.insert(first, at);
            self.changed.push_back((at, first));
        }
        true
    }

    fn clean(&mut self, block: u64) {
        self.cache.set_clean(block);
        self.since.remove(&block);
    }

    fn bring_in(&mut self, block: u64) {
        let victim = self.cache.insert(block, false, Evict::Clean);
        debug_assert!(victim.is_none_or(|victim| !victim.dirty), "only clean blocks leave");
    }

    /// Begins writes while blocks are to be written and tasks are free.
    fn flush(&mut self, at: Instant) {
        if self.flooded && self.cache.dirty().len() <= self.high() / 2 {
            self.flooded = false;
        }
        while let Some(task) = (1..=self.config.writes).find(|task| !self.writing.contains_key(task)) {
            let Some((first, blocks)) = self.oldest_run(at) else { return };
            for block in first..first + blocks {
                self.clean(block);
                self.cache.pin(block);
            }
            self.writing.insert(task, (first, blocks));
            self.statistics.writes += 1;
            self.statistics.blocks_written += blocks;
            self.ask(task, Op::Write, first, blocks, at);
            if self.flooded && self.cache.dirty().len() <= self.high() / 2 {
                self.flooded = false;
            }
        }
    }

    /// Returns the block that was changed first, if it is due, with its dirty neighbours.
    fn oldest_run(&mut self, at: Instant) -> Option<(u64, u64)> {
        // Blocks that are being written are put back into the queue.
        let mut later_again = Vec::new();
        let found = loop {
            let Some(&(since, block)) = self.changed.front() else { break None };
            if self.since.get(&block) != Some(&since) {
                self.changed.pop_front();
                continue;
            }
            let due = self.flooded
                || self.thread == Thread::Ended
                || at.saturating_since(since) >= self.config.syncer;
            if !due {
                break None;
            }
            self.changed.pop_front();
            if self.is_being_written(block) {
                later_again.push((since, block));
                continue;
            }
            break Some(block);
        };
        for entry in later_again.into_iter().rev() {
            self.changed.push_front(entry);
        }
        let block = found?;
        let most = self.cluster_blocks();
        let fits = |block: u64| self.cache.is_dirty(block) && !self.is_being_written(block);
        let before = (1..most).take_while(|&n| block.checked_sub(n).is_some_and(fits)).count() as u64;
        let after = (1..most - before).take_while(|&n| fits(block + n)).count() as u64;
        Some((block - before, before + 1 + after))
    }

    fn ask(&mut self, task: u32, op: Op, first: u64, blocks: u64, at: Instant) {
        let sectors = self.config.block_sectors();
        let start = self.config.volume.start() + Sectors::new(first * sectors);
        let request = Request { op, range: LbnRange::new(start, Sectors::new(blocks * sectors)) };
        self.ready.push_back(Issued { at, task: ClosedTask::new(task), request, cache: CacheOps::default() });
    }

    /// Continues the work that waited for time or for room in the cache.
    fn go_on(&mut self, at: Instant) {
        self.now = at;
        let has_room = self.cache.dirty().len() <= self.high();
        match self.thread {
            Thread::Processing(until) if until <= at => self.work(at),
            Thread::Blocked if has_room => self.work(at),
            _ => {}
        }
        self.flush(at);
        if let Some(tick) = self.next_tick.filter(|&tick| tick <= at) {
            self.next_tick = Some(later(tick, SYNC_INTERVAL));
        }
    }

    fn wake(&self) -> Option<Instant> {
        let thread = match self.thread {
            Thread::Processing(until) => Some(until),
            Thread::Reading | Thread::Blocked | Thread::Ended => None,
        };
        // At the end no further tick is needed.
        let tick = self.next_tick.filter(|_| self.thread != Thread::Ended);
        thread.into_iter().chain(tick).min()
    }
}

impl Script for PostmarkBlocks {
    fn start(&mut self, at: Instant) {
        self.next_tick = Some(later(at, SYNC_INTERVAL));
        self.go_on(at);
    }

    fn due(&self) -> Option<Instant> {
        self.ready.front().map(|issued| issued.at).or_else(|| self.wake())
    }

    fn issue(&mut self, now: Instant) -> Option<Issued> {
        while self.ready.is_empty() {
            let at = self.wake().filter(|&at| at <= now)?;
            self.go_on(at.max(self.now));
        }
        self.ready.pop_front()
    }

    fn complete(&mut self, task: ClosedTask, now: Instant) {
        if task.get() == 0 {
            debug_assert!(self.reading.is_some(), "a completion without a request");
            if let Some((first, blocks)) = self.reading.take() {
                (first..first + blocks).for_each(|block| self.bring_in(block));
            }
            self.work(now);
        } else if let Some((first, blocks)) = self.writing.remove(&task.get()) {
            (first..first + blocks).for_each(|block| self.cache.unpin(block));
        }
        self.go_on(now);
    }

    fn is_done(&self) -> bool {
        let idle = self.ready.is_empty() && self.writing.is_empty();
        self.thread == Thread::Ended && idle && self.cache.dirty().is_empty()
    }
}

impl Source for PostmarkBlocks {
    fn next_request(&mut self) -> Option<Request> {
        if self.next_tick.is_none() {
            self.start(Instant::ZERO);
        }
        served_at_once(self)
    }

    fn script(&self) -> Option<&dyn Script> {
        Some(self)
    }

    fn script_mut(&mut self) -> Option<&mut dyn Script> {
        Some(self)
    }
}
