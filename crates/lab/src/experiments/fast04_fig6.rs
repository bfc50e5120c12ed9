//! FAST'04, figure 6: a backup of 70% of the drive beside four foregrounds, with two kinds of snapshots.

use crate::gaps::Gaps;
use crate::head::{Outer, Terms};
use crate::lld::{one_surface_atlas, one_surface_profile};
use crate::maintenance::{Counted, HostedApp, MaintenanceHost, Way};
use crate::set_up::{ATLAS_10K, drive};
use crate::{Axis, Band, Bar, Claim, Experiment, Figure, Kind, Lab, LabError, Outcome, Paper, Size, spread};
use apps::backup::image::Header;
use apps::backup::{Backup, BackupState, Counts, ImageWriter};
use apps::snapshot::{Cow, Geometry, Provider, Volume, VolumeId};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, Priority};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors};
use workload::postmark::{PostmarkBlocks, PostmarkBlocksConfig};
use workload::tpcc::{Tpcc, TpccConfig};
use workload::{Arrival, Issuer, Source, Synthetic, SyntheticConfig};

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast04-fig6",
    paper: Paper::Fast04,
    reproduces: "figure 6",
    title: "Snapshot-based backup",
    set_up: "Atlas 10K (quick: one of its surfaces), SPTF, idle time used. A volume with snapshots takes the first 70% \
             of the drive in blocks of 8 KB; the rest is room for what the snapshot keeps. The foreground works on the \
             volume, through its maps: the synthetic load (4 or 8 KB, two reads a write, two outstanding), the \
             TPC-C-like (behind the file system's cache as well, 320 MB in all for the paper's drive, less for a smaller \
             one) and the Postmark-like of docs/WORKLOADS.md, or nothing. When it is warm a snapshot is taken and \
             all its blocks are read into an image that is counted and dropped; the run ends when the image is whole. \
             The same foreground runs once more beside the snapshot without the backup, for as many requests. With \
             application-copy-on-write once more with the core outside the drive (FAST'02's noise; quick: synthetic and idle), \
             and for what that costs without a bound on harm (synthetic) and without noise (both).",
    claims: &["fast04-fig6"],
    timed: false,
    run,
};

/// The capacity of the paper's drive (Cheetah 36ES).
const PAPER_BYTES: f64 = 18.4e9;
/// The rate at which the paper's idle drive is read.
const PAPER_MB_PER_S: f64 = 35.0;
/// The rate at which the area of the volume is read on our idle drive.
const OUR_MB_PER_S: f64 = 22.5;
/// The factor that the paper's "a little over" is read as: a quarter more at most.
const LITTLE_OVER_FACTOR: f64 = 1.25;
const BLOCK: Bytes = Bytes::new(8 << 10);

/// The file cache of the paper's system: three quarters of its 384 MB of memory (section 6.4).
const FILE_CACHE: Bytes = Bytes::new(288 << 20);

/// Shares of the volume's blocks, in thousandths. The time when the backup has read each share is recorded.
const PARTS_PER_THOUSAND: [u64; 3] = [500, 950, 990];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BackupLoad {
    Synthetic,
    Tpcc,
    Postmark,
    Idle,
}

const LOADS: [BackupLoad; 4] =
    [BackupLoad::Synthetic, BackupLoad::Tpcc, BackupLoad::Postmark, BackupLoad::Idle];

impl BackupLoad {
    fn name(self) -> &'static str {
        match self {
            Self::Synthetic => "synthetic",
            Self::Tpcc => "TPC-C-like",
            Self::Postmark => "Postmark-like",
            Self::Idle => "idle",
        }
    }
}

/// The results of one backup.
struct BackupResult {
    minutes: f64,
    /// The times at which each of [`PARTS_PER_THOUSAND`] of the blocks had been read, and all blocks, in minutes.
    reached: [f64; PARTS_PER_THOUSAND.len() + 1],
    /// The growth of the mean response, in percent.
    slower: f64,
    /// The foreground's mean response without the backup.
    response_ms: f64,
    iops: f64,
    /// The number of reads in vain, because the block had moved meanwhile, in percent of the blocks.
    in_vain: f64,
    /// The share of bytes that came with the foreground's own accesses, in percent.
    with_foreground: f64,
    /// The share of the sectors passed over for the backup that were passed over in idle time, in percent.
    in_idle: f64,
    refused: u64,
    /// The time of the first write for which the volume had no room, in minutes, and the share of blocks read by
    /// then, in percent.
    first_refused: Option<(f64, f64)>,
    /// The share of cylinders that together have nine tenths of the foreground's accesses, in percent.
    visited: f64,
    /// The use of the foreground's gaps during the whole backup, until half of the blocks were read, and for the last
    /// twentieth.
    gaps: Gaps,
    early: Gaps,
    late: Gaps,
    /// The number of accesses in idle time, and their mean size in KB.
    idle_accesses: u64,
    idle_kb: f64,
}

/// Further runs with a core outside the drive, each without one of its handicaps.
const WHAT_COSTS: [(BackupLoad, Terms); 3] = [
    (BackupLoad::Synthetic, Terms::Unbounded),
    (BackupLoad::Synthetic, Terms::Quiet),
    (BackupLoad::Idle, Terms::Quiet),
];

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let (drive, profile) = match lab.size() {
        Size::Quick => (one_surface_atlas()?, one_surface_profile()?),
        Size::Full => (drive(ATLAS_10K)?, builtin::find(ATLAS_10K).map_err(failed)?),
    };
    let whole = drive.layout().capacity().bytes(drive.sector_bytes()).get() as f64;
    let scale = whole / PAPER_BYTES;
    let warm = lab.pick(1_000, 20_000);
    let items: Vec<(BackupLoad, Cow)> =
        LOADS.iter().flat_map(|load| [(*load, Cow::Application), (*load, Cow::Snapshot)]).collect();
    let runs = {
        let drive = &drive;
        lab.map_seeds(items.clone(), 1, move |&(load, cow), seed| {
            backup((drive, None), load, cow, warm, seed)
        })?
    };
    let loads_outside = lab.pick(vec![BackupLoad::Synthetic, BackupLoad::Idle], LOADS.to_vec());
    let outside = lab.map_seeds(loads_outside.iter().copied(), 1, |&load, seed| {
        backup((&drive, Some(Outer::claim(&profile))), load, Cow::Application, warm, seed)
    })?;
    let what_costs = lab.map_seeds(WHAT_COSTS, 1, |&(load, terms), seed| {
        backup((&drive, Some(Outer { profile: &profile, terms })), load, Cow::Application, warm, seed)
    })?;
    let outside_of = |load| loads_outside.iter().position(|l| *l == load).map_or(&[][..], |at| &outside[at]);
    let of = |load, cow| {
        let at = items.iter().position(|item| *item == (load, cow)).unwrap_or(0);
        runs[at].as_slice()
    };
    let minutes = |load, cow| spread(of(load, cow), |r| r.minutes);
    let worst = |runs: &[Vec<BackupResult>], value: fn(&BackupResult) -> f64| {
        runs.iter().map(|r| spread(r, value)).max_by(|a, b| a.mean.total_cmp(&b.mean))
    };
    let ratio = |load| minutes(load, Cow::Snapshot).mean / minutes(load, Cow::Application).mean;
    let over =
        |slower, faster| minutes(slower, Cow::Application).mean / minutes(faster, Cow::Application).mean;
    let ratios = LOADS.map(|load| (ratio(load) - 1.0) * 100.0);
    let most_ratio = ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let scaled = |minutes: f64| round(minutes * LITTLE_OVER_FACTOR * scale * PAPER_MB_PER_S / OUR_MB_PER_S);
    let by_capacity = |minutes: f64| round(minutes * LITTLE_OVER_FACTOR * scale);
    let band = |load| Band::AtMost(scaled(if load == BackupLoad::Idle { 8.0 } else { 60.0 }));
    let idle = minutes(BackupLoad::Idle, Cow::Application);
    let rate = 0.7 * whole / 1e6 / (idle.mean * 60.0);
    let mut claim = Claim::new(
        "fast04-fig6",
        "a little over 1 h at full load, 8 min idle, foreground < 2%; snapshot-COW < 15% slower than application-COW",
    )
    .measure("synthetic", minutes(BackupLoad::Synthetic, Cow::Application), " min", band(BackupLoad::Synthetic))
    .measure("idle", idle, " min", band(BackupLoad::Idle))
    .measure("TPC-C-like / synthetic", over(BackupLoad::Tpcc, BackupLoad::Synthetic), "", Band::AtLeast(1.0))
    .measure("Postmark-like / TPC-C-like", over(BackupLoad::Postmark, BackupLoad::Tpcc), "", Band::AtLeast(1.0));
    if let Some(slower) = worst(&runs, |r| r.slower) {
        claim = claim.measure("foreground slower, at worst", slower, "%", Band::AtMost(2.0));
    }
    for load in &loads_outside {
        if matches!(load, BackupLoad::Synthetic | BackupLoad::Idle) {
            let what = format!("outside the drive: {}", load.name());
            claim = claim.measure(&what, spread(outside_of(*load), |r| r.minutes), " min", band(*load));
        }
    }
    if let Some(slower) = worst(&outside, |r| r.slower) {
        claim =
            claim.measure("outside the drive: foreground slower, at worst", slower, "%", Band::AtMost(2.0));
    }
    let synthetic = |cow, value: fn(&BackupResult) -> f64| spread(of(BackupLoad::Synthetic, cow), value);
    let app = |load, value: fn(&BackupResult) -> f64| spread(of(load, Cow::Application), value);
    let outstanding = |load, cow| spread(of(load, cow), |r| r.iops * r.response_ms / 1e3);
    let half = app(BackupLoad::Idle, |r| r.reached[0]).mean;
    let area = LbnRange::new(Lbn::ZERO, area(&drive));
    let [unbounded, quiet, quiet_idle] =
        [0, 1, 2].map(|at: usize| what_costs.get(at).map_or(&[][..], Vec::as_slice));
    let why_outside = why_outside(
        (of(BackupLoad::Synthetic, Cow::Application), outside_of(BackupLoad::Synthetic), unbounded, quiet),
        (of(BackupLoad::Idle, Cow::Application), outside_of(BackupLoad::Idle), quiet_idle),
        transfer_ms(&drive, area),
    );
    let empty = |load| {
        let [early, late] =
            [|r: &BackupResult| r.early.empty_percent(), |r: &BackupResult| r.late.empty_percent()];
        format!("{:.0} and {:.0}", app(load, early).mean, app(load, late).mean)
    };
    let claim = claim.measure("snapshot-COW slower, at worst", most_ratio, "%", Band::AtMost(15.0)).note(format!(
        "A load whose accesses stay on few cylinders seldom takes the head to the others (nine tenths of the TPC-C-like load's are on \
         {:.1}%), and with snapshot-COW that load waits for its own copies. The paper's times of a disk that is always busy are \
         compared with the synthetic load. \"A little over\" is read as up to a quarter more. The times are scaled by capacity, {:.1} GB of 18.4, times {scale:.3}, and by the rate of the medium, \
         {PAPER_MB_PER_S} MB/s by {OUR_MB_PER_S}; by capacity alone the bands are {} and {} min. The TPC-C-like load takes {} min, the \
         Postmark-like {}. Idle: {rate:.1} MB/s in all against the paper's 35 MB/s. The first half takes {half:.2} min \
         ({:.1} MB/s). Busy: \
         half of the blocks are there after {:.1} min (synthetic), {:.1} (TPC-C-like), {:.1} (Postmark-like), 99% after \
         {:.1}, {:.0}, {:.1}. Empty gaps of a hundred, until half of the blocks were there and for the last \
         twentieth: {} (synthetic), {} (TPC-C-like), {} (Postmark-like). Nine tenths of the foreground's accesses are on {:.1}, {:.1}, {:.1}% of the cylinders: \
         two requests anywhere bring the head everywhere; the TPC-C-like load has {} requests outstanding on average, from which \
         SPTF chooses those with short gaps, and {} with snapshot-COW; {}% and {}% of the backup's blocks come in idle time. Snapshot-COW against \
         application-COW, in time: {}. A foreground that copies a block before it overwrites it reads that block, and \
         the backup gets it with that access ({}% of its bytes came with foreground accesses, synthetic): {}% of its \
         reads were in vain. The paper's system read such blocks twice. {why_outside}",
        app(BackupLoad::Tpcc, |r| r.visited).mean,
        whole / 1e9,
        by_capacity(60.0),
        by_capacity(8.0),
        minutes(BackupLoad::Tpcc, Cow::Application),
        minutes(BackupLoad::Postmark, Cow::Application),
        0.35 * whole / 1e6 / (half * 60.0),
        app(BackupLoad::Synthetic, |r| r.reached[0]).mean,
        app(BackupLoad::Tpcc, |r| r.reached[0]).mean,
        app(BackupLoad::Postmark, |r| r.reached[0]).mean,
        app(BackupLoad::Synthetic, |r| r.reached[2]).mean,
        app(BackupLoad::Tpcc, |r| r.reached[2]).mean,
        app(BackupLoad::Postmark, |r| r.reached[2]).mean,
        empty(BackupLoad::Synthetic),
        empty(BackupLoad::Tpcc),
        empty(BackupLoad::Postmark),
        app(BackupLoad::Synthetic, |r| r.visited).mean,
        app(BackupLoad::Tpcc, |r| r.visited).mean,
        app(BackupLoad::Postmark, |r| r.visited).mean,
        outstanding(BackupLoad::Tpcc, Cow::Application),
        outstanding(BackupLoad::Tpcc, Cow::Snapshot),
        spread(of(BackupLoad::Tpcc, Cow::Application), |r| r.in_idle),
        spread(of(BackupLoad::Tpcc, Cow::Snapshot), |r| r.in_idle),
        LOADS.iter().zip(ratios).map(|(load, r)| format!("{} {r:+.1}%", load.name())).collect::<Vec<_>>().join(", "),
        synthetic(Cow::Snapshot, |r| r.with_foreground),
        synthetic(Cow::Snapshot, |r| r.in_vain),
    ));
    let label = |(load, cow): &(BackupLoad, Cow)| {
        format!("{}, {}", load.name(), if *cow == Cow::Application { "app-COW" } else { "snap-COW" })
    };
    let times = Figure {
        id: "fast04-fig6".into(),
        title: EXPERIMENT.title.into(),
        x: Axis::new("foreground and snapshot"),
        y: Axis::new("time of the backup (min)"),
        kind: Kind::Stacked {
            parts: vec!["minutes".into()],
            bars: items
                .iter()
                .zip(&runs)
                .map(|(item, r)| Bar { label: label(item), values: vec![spread(r, |r| r.minutes).mean] })
                .collect(),
        },
    };
    let columns = [
        "foreground, snapshot",
        "minutes",
        "to 50%",
        "to 95%",
        "to 99%",
        "slower (%)",
        "response without (ms)",
        "requests/s",
        "read in vain (%)",
        "with the foreground (%)",
        "in idle time (%)",
        "writes without room",
        "room ends (min, % of the blocks)",
        "gaps used (%)",
        "unused (%)",
        "empty (%)",
        "margin (ms)",
    ];
    let row = |(label, r): (String, &Vec<BackupResult>)| {
        let cell = |value: fn(&BackupResult) -> f64| spread(r, value).to_string();
        vec![
            label,
            cell(|r| r.minutes),
            cell(|r| r.reached[0]),
            cell(|r| r.reached[1]),
            cell(|r| r.reached[2]),
            cell(|r| r.slower),
            cell(|r| r.response_ms),
            cell(|r| r.iops),
            cell(|r| r.in_vain),
            cell(|r| r.with_foreground),
            cell(|r| r.in_idle),
            cell(|r| r.refused as f64),
            r.iter()
                .find_map(|r| r.first_refused)
                .map_or("-".into(), |(minutes, percent)| format!("{minutes:.2}, {percent:.1}")),
            cell(|r| r.gaps.used_percent()),
            cell(|r| r.gaps.closed_percent()),
            cell(|r| r.gaps.empty_percent()),
            cell(|r| r.gaps.margin_ms()),
        ]
    };
    let outside_label =
        |load: &BackupLoad| format!("{}, outside the drive", label(&(*load, Cow::Application)));
    let why_label = |(load, terms): &(BackupLoad, Terms)| {
        let terms = if *terms == Terms::Quiet { "without noise" } else { "without a bound on harm" };
        format!("{}, {terms}", outside_label(load))
    };
    let labels = items.iter().map(label).chain(loads_outside.iter().map(outside_label));
    let labels = labels.chain(WHAT_COSTS.iter().map(why_label));
    let table = Figure {
        id: "fast04-fig6-table".into(),
        title: "Cost and progress of the backup".into(),
        x: Axis::default(),
        y: Axis::default(),
        kind: Kind::Table {
            columns: columns.map(String::from).to_vec(),
            rows: labels.zip(runs.iter().chain(&outside).chain(&what_costs)).map(row).collect(),
        },
    };
    let notes = vec![
        "Records of the volume's journal go to memory that outlives a crash, or to another drive: they cost no access \
         here. The foreground works on the backed-up 70% of the drive; each step of a copy-on-write is a request of \
         its own, one after the other. Response times are the whole write's. The snapshot is there in both runs of a \
         pair, so that its own cost is not the backup's."
            .to_owned(),
        "Contents are zeros: that a restored image equals the snapshot is held by the tests of docs/BACKUP.md. When \
         the room is used up, a write that needs some is refused, at once; the table counts them."
            .to_owned(),
    ];
    Ok(Outcome { figures: vec![times, table], claims: vec![claim], notes })
}

/// Explains the time of a backup outside the drive, from runs beside a busy foreground (core in the drive, outside,
/// without a bound on harm, without noise), runs on an idle drive (core in the drive, outside, without noise), and
/// the time of the transfer alone.
fn why_outside(
    busy: (&[BackupResult], &[BackupResult], &[BackupResult], &[BackupResult]),
    idle: (&[BackupResult], &[BackupResult], &[BackupResult]),
    transfer_ms: f64,
) -> String {
    let mean = |runs: &[BackupResult], value: fn(&BackupResult) -> f64| spread(runs, value).mean;
    let (inside, outside, unbounded, quiet) = busy;
    let each = |runs: &[BackupResult]| {
        let value = |r: &BackupResult| (r.minutes * 60e3, r.idle_accesses as f64);
        let cost = |r: &BackupResult| (value(r).0, value(r).1.max(1.0));
        let costs: Vec<f64> = runs.iter().map(cost).map(|(ms, n)| (ms - transfer_ms) / n).collect();
        format!("{:.0} KB and {:.2} ms", mean(runs, |r| r.idle_kb), crate::Spread::of(&costs).mean)
    };
    format!(
        "Outside the drive, synthetic: out of a hundred gaps {:.0} are used (in the drive {:.0}), {:.0} stay unused ({:.0} of them \
         because of the harm of detours), {:.0} hold nothing (in the drive {:.0}); a move over a third of the cylinders is \
         widened by {:.2} ms. Without a bound on harm it takes {:.2} min ({:.0} gaps used, foreground {:+.2}%), and in front \
         of a drive without noise {:.2} ({:.0} used). Idle: what an access brings, and its time beside the transfer: in the \
         drive {}, outside {}, without noise {} ({:.2} min).",
        mean(outside, |r| r.gaps.used_percent()),
        mean(inside, |r| r.gaps.used_percent()),
        mean(outside, |r| r.gaps.closed_percent()),
        mean(outside, |r| r.gaps.for_harm_percent()),
        mean(outside, |r| r.gaps.empty_percent()),
        mean(inside, |r| r.gaps.empty_percent()),
        mean(outside, |r| r.gaps.margin_ms()),
        mean(unbounded, |r| r.minutes),
        mean(unbounded, |r| r.gaps.used_percent()),
        mean(unbounded, |r| r.slower),
        mean(quiet, |r| r.minutes),
        mean(quiet, |r| r.gaps.used_percent()),
        each(idle.0),
        each(idle.1),
        each(idle.2),
        mean(idle.2, |r| r.minutes),
    )
}

/// Returns how long all of a range takes to pass under the head, in ms.
fn transfer_ms(drive: &DriveModel, range: LbnRange) -> f64 {
    let (layout, revolution_ms) = (drive.layout(), drive.rpm().revolution().as_secs_f64() * 1e3);
    let pieces = layout.pieces(range);
    pieces.map(|p| revolution_ms * f64::from(p.len) / f64::from(layout.track(p.track).sectors)).sum()
}

/// Rounds to hundredths, so that the printed band is the band of the claim.
fn round(minutes: f64) -> f64 {
    (minutes * 100.0).round() / 100.0
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> LabError {
    LabError::new("a backup", error)
}

/// Returns a load on the first `area` sectors of a drive.
fn issuer(
    load: BackupLoad,
    drive: &DriveModel,
    area: Sectors,
    seed: u64,
) -> Result<Issuer<Box<dyn Source>>, LabError> {
    let (capacity, sector) = (drive.layout().capacity(), drive.sector_bytes());
    // The memory of the paper's system and the pace of its load are kept for drives of at least the Atlas's size; for
    // a smaller drive they are reduced in proportion.
    let share = |whole: u64| {
        let atlas = 17_938_986;
        whole * capacity.get().min(atlas) / atlas
    };
    let (source, arrival): (Box<dyn Source>, Arrival) = match load {
        BackupLoad::Synthetic | BackupLoad::Idle => {
            let source = Synthetic::new(SyntheticConfig::new(area, sector), seed).map_err(failed)?;
            let arrival = if load == BackupLoad::Idle { Arrival::Silent } else { Arrival::outstanding(2) };
            (Box::new(source), arrival)
        }
        BackupLoad::Tpcc => {
            let mut config = TpccConfig::new(capacity, sector);
            // The paper's database was a file: hits in the file system's cache do not reach the drive either, so that
            // cache counts as a part of the pool.
            let memory = config.pool.get() + FILE_CACHE.get();
            let part = capacity.bytes(sector).get() as f64 / PAPER_BYTES;
            config.pool = Bytes::new((memory as f64 * part) as u64);
            config.pace_percent = share(u64::from(config.pace_percent)).max(1) as u32;
            (Box::new(Tpcc::new(config, seed).map_err(failed)?), Arrival::Scripted)
        }
        BackupLoad::Postmark => {
            let mut config = PostmarkBlocksConfig::new(area, sector);
            config.cache = Bytes::new(share(config.cache.get()));
            // The load must not end before the backup.
            config.postmark.transactions = u32::MAX;
            (Box::new(PostmarkBlocks::new(config, seed).map_err(failed)?), Arrival::Scripted)
        }
    };
    Issuer::new(source, arrival, Instant::ZERO, seed).map_err(failed)
}

/// Returns the volume's part of the drive.
fn area(drive: &DriveModel) -> Sectors {
    let block = BLOCK.get() / drive.sector_bytes().get();
    Sectors::new(drive.layout().capacity().get() / 10 * 7 / block * block)
}

/// A foreground on a volume with a snapshot.
struct Prepared {
    host: MaintenanceHost,
    volume: Rc<RefCell<Volume>>,
    snapshot: apps::snapshot::SnapshotId,
}

fn prepare(
    (drive, outside): (&Arc<DriveModel>, Option<Outer<'_>>),
    load: BackupLoad,
    cow: Cow,
    warm: u64,
    seed: u64,
) -> Result<Prepared, LabError> {
    let block = Sectors::new(BLOCK.get() / drive.sector_bytes().get());
    let slots = drive.layout().capacity().get() / block.get();
    let area = area(drive);
    let blocks = area.get() / block.get();
    let geometry = Geometry { volume: VolumeId(seed.into()), first: Lbn::ZERO, block, blocks, slots };
    let volume = Rc::new(RefCell::new(Volume::new(geometry, cow).map_err(failed)?));
    let config =
        Config::default().with_policy(PolicyName::Sptf).with_idle(Some(IdleTime::default())).with_seed(seed);
    let mut host = MaintenanceHost::new(drive, outside, config, issuer(load, drive, area, seed)?)?;
    host.serve(LbnRange::new(Lbn::ZERO, area), Way::Snapshots(Rc::clone(&volume)));
    let warm = if load == BackupLoad::Idle { 0 } else { warm };
    host.run_until(|host| host.responses().requests >= warm)?;
    loop {
        // The snapshot must not be taken during a write.
        let taken = volume.borrow_mut().take();
        if let Ok((snapshot, _)) = taken {
            return Ok(Prepared { host, volume, snapshot });
        }
        let done = host.responses().requests;
        host.run_until(|host| host.responses().requests > done)?;
    }
}

fn backup(
    place: (&Arc<DriveModel>, Option<Outer<'_>>),
    load: BackupLoad,
    cow: Cow,
    warm: u64,
    seed: u64,
) -> Result<BackupResult, LabError> {
    let drive = place.0;
    let Prepared { mut host, volume, snapshot } = prepare(place, load, cow, warm, seed)?;
    let (began, before, gaps_before) = (host.now(), host.responses(), host.gaps());
    let sector = drive.sector_bytes().get();
    let backup = host.start(|sessions, _| {
        let shape = volume.shape();
        let (sector_bytes, chunks) = (sector as u32, shape.blocks);
        let header = Header { image: seed, shape, snapshot, base: None, sector_bytes, chunks };
        let output = ImageWriter::new(header, Counted::default());
        let of = (snapshot, None);
        Backup::start(Rc::clone(&volume), output, of, sector as usize, sessions, Priority::default())
            .map(|backup| HostedApp::Backup(Box::new(backup)))
    })?;
    let counts = |host: &MaintenanceHost| match host.hosted_app(backup) {
        Some(HostedApp::Backup(backup)) => (backup.counts(), *backup.state() == BackupState::Finished),
        _ => (Counts::default(), true),
    };
    let mut reached = [0.0; PARTS_PER_THOUSAND.len() + 1];
    let mut gaps = [Gaps::default(); PARTS_PER_THOUSAND.len() + 1];
    let room_ends = Cell::new(None);
    for (permille, (minutes, gaps)) in
        PARTS_PER_THOUSAND.into_iter().chain([1000]).zip(reached.iter_mut().zip(&mut gaps))
    {
        host.run_until(|host| {
            let (counts, finished) = counts(host);
            if room_ends.get().is_none() && host.responses().refused > before.refused {
                room_ends
                    .set(Some((host.now(), counts.written as f64 * 100.0 / (counts.blocks as f64).max(1.0))));
            }
            finished || (permille < 1000 && counts.written * 1000 >= counts.blocks * permille)
        })?;
        *minutes = host.now().since(began).as_secs_f64() / 60.0;
        *gaps = host.gaps();
    }
    let took: Duration = host.now().since(began);
    let with = host.responses().since(before);
    let (tally, accessed, (counts, _)) = (host.tally(backup), host.accessed(), counts(&host));
    let visited = host.visits().percent_with_most(drive);
    drop(host);
    let (mut slower, mut response_ms) = (0.0, 0.0);
    if with.requests > 0 {
        let mut plain = prepare(place, load, cow, warm, seed)?.host;
        let goal = before.requests + with.requests;
        plain.run_until(|host| host.responses().requests >= goal)?;
        let without = plain.responses().since(before);
        response_ms = without.mean_ms();
        slower = (with.mean_ms() / response_ms - 1.0) * 100.0;
    }
    let all = (tally.bytes as f64).max(1.0);
    Ok(BackupResult {
        minutes: took.as_secs_f64() / 60.0,
        slower,
        response_ms,
        reached,
        iops: with.requests as f64 / took.as_secs_f64(),
        in_vain: counts.moved as f64 * 100.0 / (counts.blocks as f64).max(1.0),
        with_foreground: tally.with_foreground as f64 * 100.0 / all,
        in_idle: accessed.idle as f64 * 100.0 / ((accessed.idle + accessed.gaps) as f64).max(1.0),
        refused: with.refused,
        first_refused: room_ends.get().map(|(at, percent)| (at.since(began).as_secs_f64() / 60.0, percent)),
        visited,
        gaps: gaps[PARTS_PER_THOUSAND.len()].since(gaps_before),
        early: gaps[0].since(gaps_before),
        late: gaps[PARTS_PER_THOUSAND.len()].since(gaps[1]),
        idle_accesses: accessed.idle_accesses,
        idle_kb: (accessed.idle * sector) as f64 / 1e3 / (accessed.idle_accesses as f64).max(1.0),
    })
}
