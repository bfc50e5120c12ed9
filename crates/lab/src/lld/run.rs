//! Postmark on a file system on the log-structured disk.

use super::disk::{LogDisk, Spent, Strategy};
use crate::LabError;
use crate::set_up::ATLAS_10K;
use lab_apps::files::{FileConfig, FilePath, FileSystem, content};
use lab_apps::lld::{Log, LogConfig, Reads};
use model::{DriveModel, Profile, builtin};
use std::collections::BTreeMap;
use std::sync::Arc;
use units::{Duration, Instant};
use workload::postmark::{FileNumber, Operation, Phase, Postmark, PostmarkConfig, Step};

/// The set-up of a run of Postmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PostmarkSetUp {
    pub strategy: Strategy,
    /// The number of files in Postmark's pool.
    pub files: u32,
    /// Transactions of each phase.
    pub transactions: u32,
    /// The number of transaction phases; the last is measured.
    pub phases: u32,
    /// The way in which the foreground cleaner reads.
    pub reads: Reads,
    /// Computing time of a file operation.
    pub cpu: Duration,
    /// Computing time before each request to the disk: the call, the log's tables, the copy of the last data.
    pub per_request: Duration,
    /// Whether adjacent blocks of a file are read at once, and not block by block.
    pub merge: bool,
    /// Blocks of the buffer cache.
    pub cache_blocks: usize,
    /// The interval at which the cache passes changes to the log; zero means after every operation, `None` only when
    /// the cache evicts a block.
    pub write_back: Option<Duration>,
    /// Whether the foreground cleaner reads a segment's summary from the drive before its blocks, although the log
    /// has the summary in memory.
    pub summaries: bool,
    pub seed: u64,
}

/// The results of the last transaction phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PostmarkRun {
    /// The used blocks of the file system, as a share of all slots of the log; the mean over the phase.
    pub utilisation: f64,
    pub transactions: u64,
    pub elapsed: Duration,
    pub spent: Spent,
    /// The number of files that were read back after the phase, every byte correctly.
    pub verified: u64,
}

impl PostmarkRun {
    pub fn per_second(&self) -> f64 {
        self.transactions as f64 / self.elapsed.as_secs_f64()
    }

    /// Returns the transactions a second without any cleaning costs: OSDI'00's IDEAL, computed from a run of ORIGINAL.
    pub fn ideal_per_second(&self) -> f64 {
        let cleaning = self.spent.cleaning + self.spent.writing_copies;
        self.transactions as f64 / self.elapsed.saturating_sub(cleaning).as_secs_f64()
    }

    /// Returns the number of blocks written to the drive for each block that the file layer wrote.
    pub fn write_cost(&self) -> f64 {
        (self.spent.fresh + self.spent.copies) as f64 / self.spent.fresh.max(1) as f64
    }
}

/// Returns the Atlas 10K with one data surface (OSDI'00, section 5.2). The result has no defects, because the profile
/// gives the places of defects on all six surfaces.
pub(crate) fn one_surface_atlas() -> Result<Arc<DriveModel>, LabError> {
    let profile = one_surface_profile()?;
    DriveModel::from_profile(&profile).map(Arc::new).map_err(|e| LabError::new(ONE_SURFACE, e))
}

const ONE_SURFACE: &str = "the one-surface Atlas 10K";

/// Returns the profile of [`one_surface_atlas`].
pub(crate) fn one_surface_profile() -> Result<Profile, LabError> {
    let mut profile = builtin::find(ATLAS_10K).map_err(|e| LabError::new(ONE_SURFACE, e))?;
    profile.heads = 1;
    profile.layout.remaps.clear();
    for zone in &mut profile.layout.zones {
        zone.slips.clear();
        zone.defects.clear();
    }
    Ok(profile)
}

/// Returns the configuration of the experiment's log, at the drive's start.
pub(crate) fn log_config(seed: u64) -> LogConfig {
    LogConfig { identity: seed, ..LogConfig::default() }
}

fn slots() -> f64 {
    let LogConfig { segments, blocks_per_segment, .. } = LogConfig::default();
    f64::from(segments * (blocks_per_segment - 1))
}

/// Returns the number of files that fill a share of the log in the second transaction phase. Files grow by appends,
/// so this needs a run of the generator alone.
pub(crate) fn files_for(utilisation: f64, transactions: u32, seed: u64) -> Result<u32, LabError> {
    let mut files = utilisation * slots() / 2.6;
    for _ in 0..4 {
        let (mut blocks, mut sizes, mut measured) = (0u64, BTreeMap::new(), (0u64, 0u64));
        let mut in_phase = false;
        for step in Postmark::new(postmark(files as u32, transactions), seed)
            .map_err(|e| LabError::new("Postmark", e))?
        {
            match step {
                Step::Phase(phase) => {
                    if in_phase {
                        break;
                    }
                    in_phase = phase == Phase::Transactions(1);
                }
                Step::Operation(operation) => {
                    let (file, more) = match operation {
                        Operation::Create { file, bytes, .. } | Operation::Append { file, bytes, .. } => {
                            (file, bytes.get())
                        }
                        Operation::Delete { file, .. } => {
                            let size: u64 = sizes.remove(&file).unwrap_or_default();
                            blocks -= size.div_ceil(4096);
                            continue;
                        }
                        Operation::Read { .. } => continue,
                    };
                    let size: &mut u64 = sizes.entry(file).or_default();
                    blocks -= size.div_ceil(4096);
                    *size += more;
                    blocks += size.div_ceil(4096);
                }
                Step::TransactionDone if in_phase => measured = (measured.0 + blocks, measured.1 + 1),
                Step::TransactionDone | Step::OutOfFiles => {}
            }
        }
        // Each file also needs an inode, of which a block holds 63, and an entry in a directory.
        let mean = measured.0 as f64 / measured.1.max(1) as f64 + files * (1.0 / 63.0 + 1.0 / 250.0);
        files *= utilisation * slots() / mean.max(1.0);
    }
    Ok(files as u32)
}

fn postmark(files: u32, transactions: u32) -> PostmarkConfig {
    PostmarkConfig { transactions, ..PostmarkConfig::osdi00(files) }
}

/// Runs Postmark up to the end of the last transaction phase, and reads every file back.
pub(crate) fn run(drive: &Arc<DriveModel>, set_up: PostmarkSetUp) -> Result<PostmarkRun, LabError> {
    go(drive, set_up).map_err(|e| LabError::new(format!("Postmark with {} files on a log", set_up.files), e))
}

type AnyError = Box<dyn std::error::Error + Send + Sync>;

fn go(drive: &Arc<DriveModel>, set_up: PostmarkSetUp) -> Result<PostmarkRun, AnyError> {
    let log = Log::new(log_config(set_up.seed))?;
    let blocks = log.geometry().capacity();
    let disk = LogDisk::new(
        drive,
        log,
        set_up.strategy,
        set_up.reads,
        set_up.per_request,
        set_up.merge,
        set_up.summaries,
    )?;
    let config = FileConfig { cache_blocks: set_up.cache_blocks, ..FileConfig::new(blocks) };
    let mut files = FileSystem::format(disk, config).map_err(text)?;
    let mut sizes: BTreeMap<FileNumber, (u32, u64)> = BTreeMap::new();
    let mut began: Option<(Instant, Spent)> = None;
    let mut written_back = Instant::ZERO;
    let (mut used, mut transactions) = (0u64, 0u64);
    let load = PostmarkConfig { phases: set_up.phases, ..postmark(set_up.files, set_up.transactions) };
    for step in Postmark::new(load, set_up.seed)? {
        match step {
            Step::Phase(Phase::Transactions(phase)) if phase + 1 == set_up.phases => {
                began = Some((files.store().now(), files.store().spent()));
            }
            Step::Phase(Phase::Delete) => break,
            Step::Phase(_) => {}
            Step::Operation(operation) => {
                files.store_mut().compute(set_up.cpu);
                carry_out(&mut files, &mut sizes, operation)?;
                let now = files.store().now();
                if set_up.write_back.is_some_and(|every| now.since(written_back) >= every) {
                    files.write_back().map_err(text)?;
                    written_back = now;
                }
            }
            Step::TransactionDone if began.is_some() => {
                transactions += 1;
                used += u64::from(files.usage().used);
            }
            Step::TransactionDone => {}
            Step::OutOfFiles => {
                return Err("the pool is too small for the number of transactions; give more files".into());
            }
        }
    }
    let (from, spent) = began.ok_or("Postmark ended before its last phase")?;
    let elapsed = files.store().now().since(from);
    let spent = files.store().spent().since(spent);
    let verified = verify(&mut files, &sizes)?;
    Ok(PostmarkRun {
        utilisation: used as f64 / transactions.max(1) as f64 / slots(),
        transactions,
        elapsed,
        spent,
        verified,
    })
}

fn carry_out(
    files: &mut FileSystem<LogDisk>,
    sizes: &mut BTreeMap<FileNumber, (u32, u64)>,
    operation: Operation,
) -> Result<(), AnyError> {
    let mut bytes = Vec::new();
    match operation {
        Operation::Create { file, directory, bytes: size } => {
            bytes.resize(size.get() as usize, 0);
            content::fill(file.get(), 0, &mut bytes);
            files.create(FilePath::new(directory, file.get()), &bytes).map_err(text)?;
            sizes.insert(file, (directory, size.get()));
        }
        Operation::Append { file, directory, bytes: more } => {
            let (_, size) = sizes.get_mut(&file).ok_or("Postmark appends to a file that it has not made")?;
            bytes.resize(more.get() as usize, 0);
            content::fill(file.get(), *size, &mut bytes);
            files.append(FilePath::new(directory, file.get()), &bytes).map_err(text)?;
            *size += more.get();
        }
        Operation::Read { file, directory, bytes: size } => {
            read_back(files, file, directory, size.get(), &mut bytes)?;
        }
        Operation::Delete { file, directory } => {
            files.delete(FilePath::new(directory, file.get())).map_err(text)?;
            sizes.remove(&file);
        }
    }
    Ok(())
}

fn read_back(
    files: &mut FileSystem<LogDisk>,
    file: FileNumber,
    directory: u32,
    size: u64,
    into: &mut Vec<u8>,
) -> Result<(), AnyError> {
    let read = files.read(FilePath::new(directory, file.get()), into).map_err(text)?;
    if read != size || content::mismatch(file.get(), 0, into).is_some() {
        return Err(format!("file {file} reads back other bytes than were written").into());
    }
    Ok(())
}

/// Reads every file, byte by byte.
fn verify(
    files: &mut FileSystem<LogDisk>,
    sizes: &BTreeMap<FileNumber, (u32, u64)>,
) -> Result<u64, AnyError> {
    let mut bytes = Vec::new();
    for (file, (directory, size)) in sizes {
        read_back(files, *file, *directory, *size, &mut bytes)?;
    }
    Ok(sizes.len() as u64)
}

/// Formats an error with its causes: an error of the file layer holds the log's error, which is not `Send`.
fn text(error: impl std::error::Error) -> AnyError {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text.into()
}
