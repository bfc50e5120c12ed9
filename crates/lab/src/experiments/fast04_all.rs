//! Beyond FAST'04: all five applications at once on a busy drive.

use crate::gaps::Gaps;
use crate::head::Outer;
use crate::lld::{one_surface_atlas, one_surface_profile};
use crate::maintenance::{Counted, HostedApp, HostedAppId, MaintenanceHost, Way, megabytes};
use crate::set_up::{ATLAS_10K, drive};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Outcome, Paper, Size};
use apps::backup::image::Header;
use apps::backup::{Backup, ImageWriter};
use apps::reorganizer::{Options, RelocationPlan, Reorganizer, Volatile};
use apps::scrub::{self, Scrubber};
use apps::snapshot::{Cow, Geometry, Provider, SnapshotId, Volume, VolumeId};
use lab_apps::cache::{Cache, Config as CacheConfig};
use lab_apps::miner::{
    Ask, Column, Miner, PAGE_BYTES, Plan as MinerPlan, Queries, Query, Scans, Table, TableId,
};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, Priority};
use std::cell::RefCell;
use std::num::NonZeroU64;
use std::rc::Rc;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors};
use workload::random::Stream;
use workload::{Arrival, Issuer, Source, Synthetic, SyntheticConfig};

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast04-all",
    paper: Paper::Fast04,
    reproduces: "nothing of the paper: beyond it",
    title: "Five applications at once",
    set_up: "Atlas 10K (quick: one of its surfaces), SPTF, the synthetic foreground with two requests outstanding \
             everywhere. The drive has three parts: a volume with a snapshot (40% of the drive, and a tenth for what the \
             snapshot keeps), one that is reorganised (a quarter; 5% of the drive moves at random), and one behind a \
             write-back cache (a quarter; 24 MB, the 30 s syncer). At once: a scrub of the whole drive (priority 5), a \
             miner that scans the volume again and again (10), the backup of the snapshot (20), the reorganiser (30), \
             and the cache cleaner (40). Once more with the priorities the other way round (45 less each). Each runs alone \
             as well, and the foreground without any. All of that once more with the core outside the drive (FAST'02's \
             noise).",
    claims: &["fast04-all"],
    timed: false,
    run,
};

const BLOCK: Bytes = Bytes::new(8 << 10);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum App {
    Scrub,
    Miner,
    Reorganizer,
    Backup,
    Cleaner,
}

const APPS: [App; 5] = [App::Scrub, App::Miner, App::Reorganizer, App::Backup, App::Cleaner];

impl App {
    fn name(self) -> &'static str {
        match self {
            Self::Scrub => "scrub",
            Self::Miner => "miner",
            Self::Reorganizer => "reorganiser",
            Self::Backup => "backup",
            Self::Cleaner => "cache cleaner",
        }
    }

    fn priority(self, order: Order) -> u8 {
        let priority = match self {
            Self::Scrub => 5,
            Self::Miner => 10,
            Self::Backup => 20,
            Self::Reorganizer => 30,
            Self::Cleaner => 40,
        };
        if order == Order::Turned { 45 - priority } else { priority }
    }
}

/// The order of priorities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Applications that write have the higher priorities.
    Given,
    /// Applications that read most have the higher priorities.
    Turned,
}

/// Results in megabytes a second, except for the response.
#[derive(Clone, Debug, Default)]
struct Rates {
    /// The bandwidth of each application, in the order of [`APPS`].
    got: [f64; APPS.len()],
    /// The part of the bandwidth of all applications that came with the foreground's accesses.
    with_foreground: f64,
    /// The sectors that the head passed over for the background.
    accessed: f64,
    response_ms: f64,
    iops: f64,
    /// The core's estimate of the harm by background work in idle time, in percent.
    harm: f64,
    /// The percentage of the cache's write-backs that were free.
    cleaned_free: f64,
    gaps: Gaps,
}

impl Rates {
    fn all(&self) -> f64 {
        self.got.iter().sum()
    }

    /// Returns the bytes delivered to applications for each byte that the head passed over for the background.
    fn shared(&self) -> f64 {
        (self.all() - self.with_foreground) / self.accessed.max(1e-9)
    }
}

/// The runs with the core at one place, in the drive or outside.
struct RunSet {
    all: Rates,
    turned: Rates,
    none: Rates,
    /// The runs with each application alone, in the order of [`APPS`].
    single: Vec<Rates>,
}

impl RunSet {
    fn new(runs: Vec<Rates>) -> Result<Self, LabError> {
        let mut runs = runs.into_iter();
        let mut next = || runs.next().ok_or_else(|| LabError::new("five applications", "no runs"));
        let (all, turned, none) = (next()?, next()?, next()?);
        Ok(Self { all, turned, none, single: runs.collect() })
    }

    /// Returns the bandwidth of an application alone, MB/s.
    fn alone(&self, at: usize) -> f64 {
        self.single.get(at).map_or(f64::NAN, |run| run.got[at])
    }

    /// Returns how much slower the foreground is than without applications, in percent.
    fn slower(&self, run: &Rates) -> f64 {
        (run.response_ms / self.none.response_ms - 1.0) * 100.0
    }

    /// Returns the bandwidth of each application as a table.
    fn table(&self, id: &str, title: &str) -> Figure {
        let Self { all, turned, .. } = self;
        let mut rows = Vec::new();
        for (at, app) in APPS.into_iter().enumerate() {
            let mut row = vec![app.name().to_owned(), app.priority(Order::Given).to_string()];
            row.extend([
                format!("{:.2}", all.got[at]),
                format!("{:.0}", all.got[at] * 100.0 / all.all()),
                app.priority(Order::Turned).to_string(),
                format!("{:.2}", turned.got[at]),
                format!("{:.2}", self.alone(at)),
                format!("{:.0}", all.got[at] * 100.0 / self.alone(at)),
                format!("{:.0}", turned.got[at] * 100.0 / self.alone(at)),
            ]);
            if let Some(run) = self.single.get(at) {
                row.push(format!("{:.2}", run.accessed));
                row.push(format!("{:.1}", run.iops));
                row.push(format!("{:+.2}", self.slower(run)));
            }
            rows.push(row);
        }
        let columns = [
            "application",
            "priority",
            "MB/s",
            "share (%)",
            "priority turned",
            "MB/s then",
            "alone (MB/s)",
            "of that (%)",
            "then (%)",
            "alone: passed (MB/s)",
            "alone: requests/s",
            "alone: foreground slower (%)",
        ];
        Figure {
            id: id.into(),
            title: title.into(),
            x: Axis::default(),
            y: Axis::default(),
            kind: Kind::Table { columns: columns.map(String::from).to_vec(), rows },
        }
    }

    /// Describes how much is saved because one read serves several applications.
    fn saved(&self, place: &str) -> String {
        let Self { all, single, .. } = self;
        let best = (0..APPS.len()).map(|at| self.alone(at)).fold(0.0, f64::max);
        format!(
            "{place} they get {:.2} MB/s together, of which {:.2} came with accesses of the foreground; the head passed over \
             {:.2} MB/s for them: {:.2} bytes delivered for each. The best of them alone gets {best:.2} MB/s, and all five one \
             after the other would share the time. The cleaner wrote {:.0}% of the cache's write-backs for free with \
             the others, {:.0}% alone.",
            all.all(),
            all.with_foreground,
            all.accessed,
            all.shared(),
            all.cleaned_free,
            single.last().map_or(f64::NAN, |run| run.cleaned_free),
        )
    }
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let (drive, profile) = match lab.size() {
        Size::Quick => (one_surface_atlas()?, one_surface_profile()?),
        Size::Full => (drive(ATLAS_10K)?, builtin::find(ATLAS_10K).map_err(failed)?),
    };
    let window = Duration::from_secs(lab.pick(60, 300));
    let mut items =
        vec![(APPS.to_vec(), Order::Given), (APPS.to_vec(), Order::Turned), (Vec::new(), Order::Given)];
    items.extend(APPS.map(|app| (vec![app], Order::Given)));
    let seed = lab.seed();
    let sets = |outside: bool| {
        let (drive, profile, items) = (&drive, &profile, items.clone());
        let runs = lab.map(items, move |(apps, order)| {
            let outside = outside.then(|| Outer::claim(profile));
            together(drive, outside, &apps, order, window, seed)
        })?;
        RunSet::new(runs)
    };
    let (inside, outside) = (sets(false)?, sets(true)?);
    let RunSet { all, turned, none, .. } = &inside;
    let alone = |at: usize| inside.alone(at);
    // The gain of each application from the higher of its two priorities.
    let gains: Vec<(App, f64)> = APPS
        .into_iter()
        .enumerate()
        .map(|(at, app)| {
            let gain = (turned.got[at] - all.got[at]) * 100.0 / alone(at);
            (app, if app.priority(Order::Turned) > app.priority(Order::Given) { gain } else { -gain })
        })
        .collect();
    // Only applications of which one priority is more than twice the other: a smaller difference has less effect than
    // the changed priorities of the other applications.
    let much = |app: App| {
        let [a, b] = [Order::Given, Order::Turned].map(|order| app.priority(order));
        a.max(b) > 2 * a.min(b)
    };
    let least_gain =
        gains.iter().filter(|(app, _)| much(*app)).map(|(_, gain)| *gain).fold(f64::INFINITY, f64::min);
    let gained: Vec<String> = gains.iter().map(|(app, gain)| format!("{} {gain:+.1}", app.name())).collect();
    let claim = Claim::new("fast04-all", "beyond the paper; its promise: foreground < 2%")
        .measure("foreground slower with all five", inside.slower(all), "%", Band::AtMost(2.0))
        .measure("gained by more than twice the priority, at least", least_gain, " points", Band::AtLeast(0.0))
        .measure(
            "outside the drive: foreground slower with all five",
            outside.slower(&outside.all),
            "%",
            Band::AtMost(2.0),
        )
        .note(format!(
            "Mean response {:.2} ms with all five, {:.2} ms with none. The cleaner makes requests of the cache cheaper, \
             so the sign may be negative. As the core accounts for idle time: {:.2}%. In points of its bandwidth alone, each gains by \
             the higher of its two priorities: {}. Scrub, miner and backup want the same blocks, and one read serves all of them, so \
             that the winner of a gap reads for the others too. Outside the drive: mean response {:.2} ms with all five, {:.2} ms \
             with none; together {:.2} MB/s, in the drive {:.2}. Out of a hundred gaps there {:.0} are used (in the drive {:.0}), {:.0} \
             unused ({:.0} because of the harm of detours), {:.0} hold nothing that a detour could bring.",
            all.response_ms,
            none.response_ms,
            all.harm,
            gained.join(", "),
            outside.all.response_ms,
            outside.none.response_ms,
            outside.all.all(),
            all.all(),
            outside.all.gaps.used_percent(),
            all.gaps.used_percent(),
            outside.all.gaps.closed_percent(),
            outside.all.gaps.for_harm_percent(),
            outside.all.gaps.empty_percent(),
        ));
    let notes = vec![
        inside.saved("In the drive"),
        outside.saved("Outside the drive"),
        format!(
            "Rates are those of the first {} s, in which no application ends; {:.0} requests/s of the foreground. The \
             three parts have nothing in common because each application's map must be the only one between a request \
             and the medium. The reorganiser's rate counts reads and writes; the cleaner's counts its write-backs in free bandwidth. \
             Contents are zeros, so that the miner counts every page as damaged; the scan is the \
             same.",
            window.as_secs_f64(),
            all.iops
        ),
    ];
    let figures = vec![
        inside.table("fast04-all", EXPERIMENT.title),
        outside.table("fast04-all-outside", "The same outside the drive"),
    ];
    Ok(Outcome { figures, claims: vec![claim], notes })
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> LabError {
    LabError::new("five applications", error)
}

/// The parts of the drive that applications use: a volume with a snapshot, a part that is reorganised, and a part
/// behind a cache.
struct Parts {
    block: Sectors,
    /// The number of blocks in the volume, and of slots, which include the room for blocks that only the snapshot
    /// needs.
    blocks: u64,
    slots: u64,
    reorganized: LbnRange,
    cached: LbnRange,
}

impl Parts {
    fn new(drive: &DriveModel) -> Self {
        let capacity = drive.layout().capacity().get();
        let block = BLOCK.get() / drive.sector_bytes().get();
        let at = |percent: u64| capacity / 100 * percent / block * block;
        let range = |from: u64, to: u64| LbnRange::new(Lbn::new(from), Sectors::new(to - from));
        Self {
            block: Sectors::new(block),
            blocks: at(40) / block,
            slots: at(50) / block,
            reorganized: range(at(50), at(75)),
            cached: range(at(75), capacity / block * block),
        }
    }

    fn volume(&self) -> LbnRange {
        LbnRange::new(Lbn::ZERO, Sectors::new(self.blocks * self.block.get()))
    }
}

fn together(
    drive: &Arc<DriveModel>,
    outside: Option<Outer<'_>>,
    apps: &[App],
    order: Order,
    window: Duration,
    seed: u64,
) -> Result<Rates, LabError> {
    let parts = Parts::new(drive);
    let (capacity, sector) = (drive.layout().capacity(), drive.sector_bytes());
    let load: Box<dyn Source> = Box::new(SpreadLoad::new(drive, &parts, seed)?);
    let issuer = Issuer::new(load, Arrival::outstanding(2), Instant::ZERO, seed).map_err(failed)?;
    let config =
        Config::default().with_policy(PolicyName::Sptf).with_idle(Some(IdleTime::default())).with_seed(seed);
    let mut host = MaintenanceHost::new(drive, outside, config, issuer)?;
    let priority = |app: App| Priority::new(app.priority(order)).unwrap_or_default();
    let geometry = Geometry {
        volume: VolumeId(seed.into()),
        first: Lbn::ZERO,
        block: parts.block,
        blocks: parts.blocks,
        slots: parts.slots,
    };
    let volume = Rc::new(RefCell::new(Volume::new(geometry, Cow::Snapshot).map_err(failed)?));
    let snapshot = volume.borrow_mut().take().map_err(failed)?.0;
    host.serve(parts.volume(), Way::Snapshots(Rc::clone(&volume)));
    let buffers = (24 << 20) / BLOCK.get() as usize;
    let mut cache = CacheConfig::new(parts.cached, parts.block, Bytes::new(0), buffers);
    cache.cleaner = apps.contains(&App::Cleaner).then(|| priority(App::Cleaner));
    let cache =
        host.start(|sessions, now| Cache::new(cache, sessions, now).map(|c| HostedApp::Cache(Box::new(c))))?;
    host.serve(parts.cached, Way::Cached(cache));
    let mut hosted_apps: Vec<(App, HostedAppId)> = vec![(App::Cleaner, cache)];
    for &app in apps {
        let hosted_app = match app {
            App::Cleaner => continue,
            App::Scrub => host.start(|sessions, now| {
                let range = LbnRange::new(Lbn::ZERO, capacity);
                let plan =
                    scrub::ScrubPlan { range, block: parts.block, sector_bytes: sector.get() as usize };
                Scrubber::start(plan, (), sessions, priority(app), now).map(|s| HostedApp::Scrub(Box::new(s)))
            })?,
            App::Miner => {
                let query = Query::new("prices", Ask::Summary(Column::Price));
                let mut plan = MinerPlan::new(Queries::new(vec![query]).map_err(failed)?);
                (plan.scans, plan.priority) = (Scans::Forever, priority(app));
                let pages = parts.blocks * BLOCK.get() / PAGE_BYTES as u64;
                let table = Table::new(TableId::new(1), Lbn::ZERO, pages, sector).map_err(failed)?;
                host.start(|sessions, _| {
                    Miner::start(sessions, table, plan).map(|m| HostedApp::Miner(Box::new(m)))
                })?
            }
            App::Reorganizer => {
                let mut chance = Stream::new(seed, "reorganisation");
                let below = &mut |n: NonZeroU64| chance.below(n);
                let count = capacity.get() / 20 / parts.block.get();
                let plan = RelocationPlan::random(parts.reorganized, parts.block, capacity, count, below)
                    .map_err(failed)?;
                let options = Options { priority: priority(app), ..Options::default() };
                let hosted_app = host.start(|sessions, _| {
                    Reorganizer::start(&plan, options, sector, Volatile, sessions)
                        .map(|r| HostedApp::Reorganizer(Box::new(r)))
                })?;
                host.serve(parts.reorganized, Way::Reorganized(hosted_app));
                hosted_app
            }
            App::Backup => start_backup(&mut host, &volume, snapshot, sector, priority(app))?,
        };
        hosted_apps.push((app, hosted_app));
    }
    host.run_until(|host| host.now().since(Instant::ZERO) >= window)?;
    let seconds = host.now().since(Instant::ZERO).as_secs_f64();
    let mut run = Rates {
        accessed: (megabytes(drive, host.accessed().gaps) + megabytes(drive, host.accessed().idle)) / seconds,
        response_ms: host.responses().mean_ms(),
        iops: host.responses().requests as f64 / seconds,
        harm: host.harm().share() * 100.0,
        gaps: host.gaps(),
        ..Rates::default()
    };
    for (app, hosted_app) in hosted_apps {
        let tally = host.tally(hosted_app);
        let mut share = 1.0;
        if let Some(HostedApp::Cache(cache)) = host.hosted_app(hosted_app) {
            share = cache.tally().free_share().unwrap_or(0.0);
            run.cleaned_free = share * 100.0;
        }
        if let Some(at) = APPS.iter().position(|other| *other == app) {
            run.got[at] = tally.bytes as f64 * share / 1e6 / seconds;
            run.with_foreground += tally.with_foreground as f64 * share / 1e6 / seconds;
        }
    }
    Ok(run)
}

fn start_backup(
    host: &mut MaintenanceHost,
    volume: &Rc<RefCell<Volume>>,
    snapshot: SnapshotId,
    sector: Bytes,
    priority: Priority,
) -> Result<HostedAppId, LabError> {
    host.start(|sessions, _| {
        let shape = volume.shape();
        let (sector_bytes, chunks) = (sector.get() as u32, shape.blocks);
        let header = Header { image: 1, shape, snapshot, base: None, sector_bytes, chunks };
        let output = ImageWriter::new(header, Counted::default());
        let bytes = sector.get() as usize;
        Backup::start(Rc::clone(volume), output, (snapshot, None), bytes, sessions, priority)
            .map(|backup| HostedApp::Backup(Box::new(backup)))
    })
}

/// The synthetic load over the three parts; requests to the slots that only the snapshot needs are moved to the
/// volume.
struct SpreadLoad {
    load: Synthetic,
    volume: LbnRange,
    room: LbnRange,
}

impl SpreadLoad {
    fn new(drive: &DriveModel, parts: &Parts, seed: u64) -> Result<Self, LabError> {
        let config = SyntheticConfig::new(Sectors::new(parts.cached.end().get()), drive.sector_bytes());
        let volume = parts.volume();
        let room = parts.reorganized.start().since(volume.end());
        Ok(Self {
            load: Synthetic::new(config, seed).map_err(failed)?,
            volume,
            room: LbnRange::new(volume.end(), room),
        })
    }
}

impl Source for SpreadLoad {
    fn next_request(&mut self) -> Option<workload::Request> {
        let mut request = self.load.next_request()?;
        if self.room.contains(request.range.start()) {
            // The room is a quarter of the volume, so offsets are multiplied by four to reach all of the volume.
            let into = request.range.start().since(self.room.start()).get() * 4 % self.volume.len().get();
            request.range = LbnRange::new(Lbn::new(self.volume.start().get() + into), request.range.len());
        }
        Some(request)
    }
}
