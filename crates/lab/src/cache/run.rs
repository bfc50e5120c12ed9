//! A run: its set-up, its length, and its results.

use super::host::{CacheHost, Counts, HostError};
use crate::gaps::Gaps;
use crate::head::{Outer, Terms};
use crate::set_up::ATLAS_10K;
use crate::{LabError, Spread};
use lab_apps::cache::{Config as CacheConfig, Replacement, Syncer, Watermarks};
use model::{DriveModel, Profile, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, Priority, Sharing};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors};
use workload::random::Share;
use workload::{ConfigError, RandomConfig};

/// The size of the client's requests and of the cache's buffers.
pub(crate) const BLOCK: Bytes = Bytes::new(4096);

/// The ratio of the paper's drive (18 GB) to ours (9.2 GB). Caches are smaller by it: the same share of the drive.
const DRIVE_SIZE_RATIO: u64 = 2;

/// The paper's largest cache, in MB, the only cache whose size the text gives.
pub(crate) const CACHE_MB_MAX: u64 = 512;

/// Returns the size of a cache above our drive that corresponds to a cache of `megabytes` above the paper's drive.
pub(crate) fn scaled(megabytes: u64) -> Bytes {
    Bytes::new((megabytes << 20) / DRIVE_SIZE_RATIO)
}

/// The size of the scrubber's blocks, that of figure 5's scan.
const SCRUBBED: Bytes = Bytes::new(16 << 10);

/// The client's mix of reads and writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadWriteMix {
    pub reads: u64,
    pub writes: u64,
}

/// Whether dirty buffers are written back for free, in the gaps of the foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cleaning {
    Free,
    Never,
}

/// The number of write-backs that the buffer daemon forces at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Daemon {
    /// All at once: as many as are needed to reach the low watermark.
    Burst,
    /// At most this number of write-backs are outstanding.
    AtATime(usize),
}

/// A scrubber beside the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scrub {
    None,
    /// A scrubber runs for the whole window.
    Window,
    /// A scrubber runs, and the window ends when it has read the whole drive.
    Whole,
}

/// The set-up of a run. [`CacheSetUp::new`] has the common values.
#[derive(Clone, Debug)]
pub(crate) struct CacheSetUp {
    pub drive: Arc<DriveModel>,
    /// The profile of the drive behind its interface, if the core is outside.
    pub outside: Option<Arc<Profile>>,
    /// The noise of the drive and the bound on harm, for a core outside.
    pub terms: Terms,
    pub load: ReadWriteMix,
    pub cache: Bytes,
    pub replacement: Replacement,
    pub syncer: Option<Syncer>,
    pub daemon: Daemon,
    pub cleaning: Cleaning,
    pub scrub: Scrub,
    pub sharing: Sharing,
    /// The virtual time before the measured window.
    pub warm_up: Duration,
    /// The length of the measured window.
    pub window: Duration,
    pub seed: u64,
}

impl CacheSetUp {
    /// Returns the common set-up: LRU, the 30 s syncer, reads and writes 1:1, the largest cache, free cleaning, no
    /// scrubber.
    pub fn new(drive: &Arc<DriveModel>, seed: u64) -> Self {
        Self {
            drive: Arc::clone(drive),
            outside: None,
            terms: Terms::Claim,
            load: ReadWriteMix { reads: 1, writes: 1 },
            cache: scaled(CACHE_MB_MAX),
            replacement: Replacement::Lru,
            syncer: Some(Syncer::default()),
            daemon: Daemon::Burst,
            cleaning: Cleaning::Free,
            scrub: Scrub::None,
            sharing: Sharing::Lottery,
            warm_up: Duration::from_secs(60),
            window: Duration::from_secs(180),
            seed,
        }
    }

    /// Returns the same set-up without free write-backs.
    pub fn without(&self) -> Self {
        Self { cleaning: Cleaning::Never, ..self.clone() }
    }

    /// Returns the same set-up with the core outside the Atlas 10K.
    pub fn outside(&self) -> Result<Self, LabError> {
        let profile = builtin::find(ATLAS_10K).map_err(|e| LabError::new(format!("drive {ATLAS_10K}"), e))?;
        Ok(Self { outside: Some(Arc::new(profile)), ..self.clone() })
    }

    fn buffers(&self) -> usize {
        (self.cache.get() / BLOCK.get()) as usize
    }

    /// Returns the watermarks of the buffer daemon: by default a half and a quarter of the buffers.
    fn watermarks(&self) -> Watermarks {
        let high = (self.buffers() / 2).max(2);
        Watermarks { low: high / 2, high }
    }

    fn host(&self) -> Result<CacheHost, HostError> {
        let sector = self.drive.sector_bytes();
        let block = block_sectors(sector);
        let capacity = self.drive.layout().capacity().get();
        // The volume consists of whole buffers, because the client requests whole buffers only.
        let volume = LbnRange::new(Lbn::ZERO, Sectors::new(capacity - capacity % block.get()));
        let scheduler = Config::default()
            .with_policy(PolicyName::Sptf)
            // The daemon may force write-backs of all buffers of the largest cache at once.
            .with_most_pending(1 << 20)
            .with_sharing(self.sharing)
            .with_seed(self.seed);
        let cache = CacheConfig {
            replacement: self.replacement,
            watermarks: self.watermarks(),
            syncer: self.syncer,
            cleaner: (self.cleaning == Cleaning::Free).then(Priority::default),
            daemon_outstanding: match self.daemon {
                Daemon::Burst => usize::MAX,
                Daemon::AtATime(most) => most,
            },
            // Buffers have no contents here, because only times are simulated.
            ..CacheConfig::new(volume, block, Bytes::ZERO, self.buffers())
        };
        let load = RandomConfig {
            reads: share(self.load.reads, self.load.writes)?,
            ..RandomConfig::new(volume.len(), sector)
        };
        let mut host = CacheHost::new(
            &self.drive,
            self.outside.as_deref().map(|profile| Outer { profile, terms: self.terms }),
            scheduler,
            cache,
            (load, OUTSTANDING),
            self.seed,
        )?;
        if self.scrub != Scrub::None {
            host.scrub(Sectors::new(SCRUBBED.get() / sector.get()), Priority::default())?;
        }
        Ok(host)
    }
}

/// The synthetic benchmark keeps two requests at the disk queue at all times (section 6.1).
const OUTSTANDING: usize = 2;

/// Returns the sectors of a buffer.
fn block_sectors(sector: Bytes) -> Sectors {
    Sectors::new((BLOCK.get() / sector.get()).max(1))
}

fn share(reads: u64, writes: u64) -> Result<Share, ConfigError> {
    Share::new(reads, reads + writes)
}

/// The results of the measured window of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowResult {
    /// The share of write-backs that were not forced before the head reached them, in percent.
    pub free: f64,
    /// The share of written sectors that were written in gaps, in percent. It includes forced write-backs that fit into
    /// an earlier gap.
    pub in_gaps: f64,
    /// The mean response time of reads that had to wait.
    pub response_ms: f64,
    /// Free write-backs, in millions of bytes a second.
    pub cleaned_mb_per_s: f64,
    /// Blocks that the scrubber read, in millions of bytes a second.
    pub scrubbed_mb_per_s: f64,
    /// The most buffers dirty at a time, up to the window's end.
    pub dirty_max: usize,
    /// Forced write-backs a second: by the syncer, by the buffer daemon, and to evict a buffer.
    pub forced_per_s: [f64; 3],
    /// Reads a second that had to wait for the drive.
    pub reads_per_s: f64,
    /// The length of the window.
    pub seconds: f64,
    pub gaps: Gaps,
}

impl WindowResult {
    /// Returns the foreground accesses a second, each of which has a gap.
    pub fn gaps_per_s(&self) -> f64 {
        self.reads_per_s + self.forced_per_s.iter().sum::<f64>()
    }

    /// Returns the blocks cleaned for free a second.
    pub fn cleaned_per_s(&self) -> f64 {
        self.cleaned_mb_per_s * 1e6 / BLOCK.get() as f64
    }

    fn between(from: &Counts, to: &Counts) -> Self {
        let seconds = to.at.since(from.at).as_secs_f64().max(1e-9);
        let percent = |part: u64, whole: u64| 100.0 * part as f64 / (whole as f64).max(1.0);
        let written = to.cache.written() - from.cache.written();
        let free = to.cache.free - from.cache.free;
        let (gaps, foreground) = (to.in_gaps - from.in_gaps, to.in_foreground - from.in_foreground);
        let waited = to.waited - from.waited;
        let response = to.response.saturating_sub(from.response).as_secs_f64();
        let forced =
            |of: fn(&lab_apps::cache::CacheTally) -> u64| (of(&to.cache) - of(&from.cache)) as f64 / seconds;
        Self {
            free: percent(free, written),
            in_gaps: percent(gaps, gaps + foreground),
            response_ms: 1e3 * response / waited as f64,
            cleaned_mb_per_s: (free * BLOCK.get()) as f64 / 1e6 / seconds,
            scrubbed_mb_per_s: (to.scrubbed - from.scrubbed) as f64 / 1e6 / seconds,
            dirty_max: to.cache.dirty_max,
            forced_per_s: [forced(|t| t.syncer), forced(|t| t.watermark), forced(|t| t.eviction)],
            reads_per_s: waited as f64 / seconds,
            seconds,
            gaps: to.gaps.since(from.gaps),
        }
    }
}

/// Runs the set-up. If the buffer daemon forces bursts, the window is cut to whole periods between them.
pub(crate) fn run(set_up: &CacheSetUp) -> Result<WindowResult, LabError> {
    watch(set_up).map_err(|e| LabError::new("a cache above a drive", e))
}

fn watch(set_up: &CacheSetUp) -> Result<WindowResult, HostError> {
    let mut host = set_up.host()?;
    let warm = match set_up.scrub {
        Scrub::Whole => Instant::ZERO,
        _ => Instant::ZERO + set_up.warm_up,
    };
    while host.now() < warm {
        host.step()?;
    }
    let began = host.counts();
    let marks = set_up.watermarks();
    // The host's counts at the ends of the buffer daemon's bursts.
    let mut ends: Vec<Counts> = Vec::new();
    let mut was_high = false;
    let end = warm + set_up.window;
    while if set_up.scrub == Scrub::Whole { !host.is_scrubbed() } else { host.now() < end } {
        host.step()?;
        let dirty = host.dirty();
        was_high |= dirty >= marks.high;
        if was_high && dirty <= marks.low {
            was_high = false;
            ends.push(host.counts());
        }
    }
    Ok(match (ends.first(), ends.last()) {
        (Some(first), Some(last)) if first.at < last.at => WindowResult::between(first, last),
        _ => WindowResult::between(&began, &host.counts()),
    })
}

/// The results of the client's same calls with free write-backs and without them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PairedRuns {
    pub(crate) free: WindowResult,
    pub(crate) without: WindowResult,
}

impl PairedRuns {
    /// Pairs the runs of each seed.
    pub(crate) fn of(free: &[WindowResult], without: &[WindowResult]) -> Vec<Self> {
        free.iter().zip(without).map(|(&free, &without)| Self { free, without }).collect()
    }
}

/// Returns by how many percent the response times of reads are lower than in the paired run without free write-backs.
pub(crate) fn lower(runs: &[PairedRuns]) -> Spread {
    crate::spread(runs, |pair| (1.0 - pair.free.response_ms / pair.without.response_ms) * 100.0)
}

/// Returns the share of write-backs that were free, in percent.
pub(crate) fn percent_free(runs: &[PairedRuns]) -> Spread {
    crate::spread(runs, |pair| pair.free.free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set_up::drive;

    fn short(seed: u64) -> CacheSetUp {
        let drive = drive(ATLAS_10K).unwrap();
        let (warm_up, window) = (Duration::from_secs(31), Duration::from_secs(5));
        CacheSetUp { warm_up, window, ..CacheSetUp::new(&drive, seed) }
    }

    #[test]
    fn a_run_repeats_itself() {
        assert_eq!(format!("{:?}", run(&short(1)).unwrap()), format!("{:?}", run(&short(1)).unwrap()));
    }

    #[test]
    fn nothing_is_free_without_a_cleaner() {
        let (free, without) = (run(&short(2)).unwrap(), run(&short(2).without()).unwrap());
        assert!(free.free > 0.0 && free.in_gaps > 0.0, "{free:?}");
        assert!(without.free == 0.0 && without.in_gaps == 0.0, "{without:?}");
        assert!(free.response_ms < without.response_ms, "{free:?} {without:?}");
    }

    #[test]
    fn outside_the_drive_buffers_are_cleaned_in_gaps_too() {
        let (free, without) = (short(4).outside().unwrap(), short(4).without().outside().unwrap());
        let (free, without) = (run(&free).unwrap(), run(&without).unwrap());
        assert!(free.free > 0.0 && free.in_gaps > 0.0, "{free:?}");
        assert!(without.free == 0.0 && without.in_gaps == 0.0, "{without:?}");
    }

    #[test]
    fn greedy_sharing_starves_the_cleaner_and_a_lottery_does_not() {
        let beside = |sharing| CacheSetUp { scrub: Scrub::Window, sharing, ..short(3) };
        let (greedy, lottery) =
            (run(&beside(Sharing::Greedy)).unwrap(), run(&beside(Sharing::Lottery)).unwrap());
        assert!(greedy.cleaned_mb_per_s * 10.0 < lottery.cleaned_mb_per_s, "{greedy:?} {lottery:?}");
        assert!(lottery.scrubbed_mb_per_s > 0.0);
    }
}
