//! FAST'04, figure 10: the time to move a part of the drive's blocks elsewhere.

use crate::head::Outer;
use crate::lld::{one_surface_atlas, one_surface_profile};
use crate::maintenance::{HostedApp, MaintenanceHost, Noted, Way};
use crate::set_up::{ATLAS_10K, drive};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Size};
use apps::reorganizer::{Options, RelocationPlan, RelocationPlanError, Reorganizer, Volatile};
use model::{DriveModel, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime};
use std::num::NonZeroU64;
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Sectors, TrackIndex};
use workload::random::Stream;
use workload::{Arrival, Issuer, Source, Synthetic, SyntheticConfig};

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast04-fig10",
    paper: Paper::Fast04,
    reproduces: "figure 10",
    title: "Layout reorganizer efficiency",
    set_up: "Atlas 10K (quick: one of its surfaces), SPTF. The synthetic foreground (4 or 8 KB, two reads a write, two \
             outstanding) keeps the drive busy, as in the paper on the raw drive. Random blocks of 8 KB go to \
             random places, each to the place of the next (circular), or whole tracks go to places of tracks (track \
             shuffling), for 1 to 20% of the drive, with staging areas of 8, 32 and 128 MB (quick: a sixth of that). \
             Half of the staging area may be unwritable blocks. The same foreground runs once without the reorganiser. The largest \
             part of the drive once more with the foreground through the reorganiser's map, as a user has it, and a part with the core outside the drive (FAST'02's noise).",
    claims: &["fast04-fig10"],
    timed: false,
    run,
};

const BLOCK: Bytes = Bytes::new(8 << 10);
/// The capacity of the paper's drive (Cheetah 36ES).
const PAPER_BYTES: f64 = 18.4e9;
/// The number of hours that the paper's "a few hours" is read as.
const FEW_HOURS: f64 = 5.0;
/// The longest virtual time of a reorganisation. One that takes longer counts as not finished.
const REORGANISATION_TIME_MAX: Duration = Duration::from_secs(48 * 3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Random,
    Circular,
    Tracks,
}

const ACTIONS: [Action; 3] = [Action::Random, Action::Circular, Action::Tracks];

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Circular => "circular",
            Self::Tracks => "track shuffling",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    action: Action,
    percent: u64,
    /// The size of the staging area, in blocks.
    staging: u64,
    /// Whether the foreground goes through the reorganiser's map.
    mapped: bool,
}

struct ReorganizerResult {
    hours: f64,
    finished: bool,
    blocks: u64,
    /// The share of time in which the reorganiser staged no further blocks whose new slots were still occupied, in
    /// percent.
    held_up: f64,
    /// The number of the foreground's requests, and their mean response.
    requests: u64,
    response_ms: f64,
    /// The mean number of adjacent blocks that the reorganiser reads or writes directly after each other.
    in_one_pass: f64,
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let (drive, profile) = match lab.size() {
        Size::Quick => (one_surface_atlas()?, one_surface_profile()?),
        Size::Full => (drive(ATLAS_10K)?, builtin::find(ATLAS_10K).map_err(failed)?),
    };
    let percents: &[u64] = lab.pick(&[1, 5, 20], &[1, 5, 10, 20]);
    let stagings: [u64; 3] = lab.pick([170, 680, 2_730], [1_024, 4_096, 16_384]);
    let mut cells = Vec::new();
    for &staging in &stagings {
        for &percent in percents {
            cells.extend(ACTIONS.map(|action| Cell { action, percent, staging, mapped: false }));
        }
    }
    let seed = lab.seed();
    // The longest runs start first, so that all cores of the processor are busy to the end.
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(cells[*at].percent));
    let done = {
        let (drive, cells) = (&drive, &cells);
        lab.map(order.clone(), move |at| reorganise((drive, None), cells[at], seed))?
    };
    let mut runs: Vec<(usize, ReorganizerResult)> = order.into_iter().zip(done).collect();
    runs.sort_by_key(|(at, _)| *at);
    let runs: Vec<ReorganizerResult> = runs.into_iter().map(|(_, run)| run).collect();
    let (few, middle) = (percents[1], stagings[1]);
    let cells_outside = ACTIONS.map(|action| Cell { action, percent: few, staging: middle, mapped: false });
    let outside =
        lab.map(cells_outside, |cell| reorganise((&drive, Some(Outer::claim(&profile))), cell, seed))?;
    let largest = percents.last().copied().unwrap_or(0);
    let (least, most) = (stagings[0], stagings[stagings.len() - 1]);
    let cells_mapped = ACTIONS.map(|action| Cell { action, percent: largest, staging: most, mapped: true });
    let mapped = lab.map(cells_mapped, |cell| reorganise((&drive, None), cell, seed))?;
    let places = [(None, &runs), (Some(Outer::claim(&profile)), &outside), (None, &mapped)];
    let slower = lab.map(places, |(place, runs)| slower((&drive, place), runs, seed))?;
    let [slower, slower_outside, slower_mapped] = slower.as_slice() else {
        return Err(LabError::new("a reorganisation", "nothing to compare with"));
    };
    let hurt_most =
        (0..cells_mapped.len()).max_by(|a, b| slower_mapped[*a].total_cmp(&slower_mapped[*b])).unwrap_or(0);
    let (there, split) = slower_there((&drive, None), cells_mapped[hurt_most], seed)?;
    let most_of = |values: &[f64]| values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let hours = |action, percent, staging| {
        let cell = Cell { action, percent, staging, mapped: false };
        cells.iter().position(|c| *c == cell).map_or(f64::NAN, |at| runs[at].hours)
    };
    let over = |other: Action| {
        let ratio = |&percent: &u64, &staging: &u64| {
            hours(Action::Circular, percent, staging) / hours(other, percent, staging)
        };
        percents
            .iter()
            .flat_map(|percent| stagings.iter().map(move |staging| ratio(percent, staging)))
            .fold(f64::INFINITY, f64::min)
    };
    // The speed-up by the largest staging area over the smallest, from the hours summed over all percentages of the
    // drive that are moved.
    let helped = |action: Action| {
        let sum = |staging| percents.iter().map(|&percent| hours(action, percent, staging)).sum::<f64>();
        sum(least) / sum(most)
    };
    let ended = runs.iter().chain(&outside).chain(&mapped).filter(|run| run.finished).count();
    let all = runs.len() + outside.len() + mapped.len();
    let describe = |staging| {
        ACTIONS.map(|action| format!("{} {:.2} h", action.name(), hours(action, largest, staging))).join(", ")
    };
    let from_to = |value: fn(&ReorganizerResult) -> f64| {
        let at = |action, staging| {
            let cell = Cell { action, percent: largest, staging, mapped: false };
            cells.iter().position(|c| *c == cell).map_or(f64::NAN, |at| value(&runs[at]))
        };
        ACTIONS
            .map(|action| format!("{} {:.2} to {:.2}", action.name(), at(action, least), at(action, most)))
            .join(", ")
    };
    let most_hours = most_of(&ACTIONS.map(|action| hours(action, largest, least)));
    let scale = drive.layout().capacity().bytes(drive.sector_bytes()).get() as f64 / PAPER_BYTES;
    let beside: Vec<String> = cells_outside
        .iter()
        .zip(&outside)
        .map(|(cell, run)| {
            let inside = hours(cell.action, cell.percent, cell.staging);
            format!("{} {:.2} h (in the drive {inside:.2})", cell.action.name(), run.hours)
        })
        .collect();
    let band = round(FEW_HOURS * scale);
    let in_time: Vec<String> = stagings
        .iter()
        .map(|&staging| {
            let fit = ACTIONS.into_iter().filter(|action| hours(*action, largest, staging) <= band).count();
            format!("{fit} of 3 with {staging} blocks")
        })
        .collect();
    let saved = |action| hours(action, largest, least) - hours(action, largest, most);
    let claim =
        Claim::new("fast04-fig10", "20% in a few hours; circular slowest and helped most by a larger buffer")
            .measure("circular / random, at least", over(Action::Random), "", Band::AtLeast(1.0))
            .measure("circular / track shuffling, at least", over(Action::Tracks), "", Band::AtLeast(1.0))
            .measure(
                "times faster with the largest buffer, circular / random",
                helped(Action::Circular) / helped(Action::Random),
                "",
                Band::AtLeast(1.0),
            )
            .measure("hours for 20%, at most", most_hours, " h", Band::AtMost(band))
            .measure("foreground slower, at worst", most_of(slower), "%", Band::AtMost(2.0))
            .measure("through the map: foreground slower, at worst", most_of(slower_mapped), "%", Band::AtMost(2.0))
            .measure("the part of it that is not due to the places of its blocks", there, "%", Band::AtMost(2.0))
            .measure("outside the drive: foreground slower, at worst", most_of(slower_outside), "%", Band::AtMost(2.0))
            .measure("ended", 100.0 * ended as f64 / all as f64, "% of runs", Band::AtLeast(100.0))
            .note(format!(
                "With the smallest staging buffer plans of every kind wait for room in it most of the time, so each kind gains by a \
                 larger buffer, and not circular plans most. {largest}% of the drive with {least} blocks of staging: {}; with {most}: {}. From the smallest to the \
                 largest buffer, over all parts of the drive: random {:.2} times faster, circular {:.2}, track shuffling \
                 {:.2}. Circular plans have more \
                 dependencies than random ones, which move single blocks as well. Track shuffling gains for another reason, too: with more of a \
                 track in the staging area, more of it is read or written in one pass. Blocks in one pass, with the smallest \
                 buffer and with the largest: {}. Percent of the time in which the staging area had no room for a block that \
                 could not be written yet: {}. \
                 In hours saved at {largest}%: random {:.2}, circular {:.2}, track shuffling {:.2}. \
                 \"A few hours\" is read as up to five, scaled by capacity, times {scale:.3}: {band} h; met by {}. Outside the drive {few}% with \
                 {middle} blocks takes: {}. Through the map the foreground is slower, because a request of two blocks \
                 becomes two requests if one block has moved ({split:.1}% of requests where the foreground is slowed most); the same requests at the same places take {there:+.2}% longer for the reorganiser's work.",
                describe(least),
                describe(most),
                helped(Action::Random),
                helped(Action::Circular),
                helped(Action::Tracks),
                from_to(|run| run.in_one_pass),
                from_to(|run| run.held_up),
                saved(Action::Random),
                saved(Action::Circular),
                saved(Action::Tracks),
                in_time.join(", "),
                beside.join(", "),
            ));
    let mut lines = Vec::new();
    for action in ACTIONS {
        for &staging in &stagings {
            let megabytes = (staging * BLOCK.get()) as f64 / f64::from(1 << 20);
            let point = |&percent: &u64| Point {
                x: percent as f64,
                y: hours(action, percent, staging),
                spread: None,
            };
            let label = format!("{}, {megabytes:.1} MB", action.name());
            lines.push(Line { label, points: percents.iter().map(point).collect() });
        }
    }
    let times = Figure {
        id: "fast04-fig10".into(),
        title: EXPERIMENT.title.into(),
        x: Axis::new("part of the drive (%)"),
        y: Axis::new("time (h)"),
        kind: Kind::Lines(lines),
    };
    let columns = [
        "action",
        "% of the drive",
        "staging (blocks)",
        "blocks",
        "hours",
        "blocks/s",
        "unwritable full (%)",
        "response (ms)",
        "slower (%)",
        "blocks a pass",
    ];
    let row = |((cell, place), (run, slower)): ((&Cell, &str), (&ReorganizerResult, &f64))| {
        vec![
            format!("{}{place}", cell.action.name()),
            cell.percent.to_string(),
            cell.staging.to_string(),
            run.blocks.to_string(),
            format!("{:.3}", run.hours),
            format!("{:.1}", run.blocks as f64 / (run.hours * 3600.0)),
            format!("{:.1}", run.held_up),
            format!("{:.2}", run.response_ms),
            format!("{slower:+.2}"),
            format!("{:.2}", run.in_one_pass),
        ]
    };
    let of_cells = cells
        .iter()
        .map(|cell| (cell, ""))
        .chain(cells_outside.iter().map(|cell| (cell, ", outside the drive")))
        .chain(cells_mapped.iter().map(|cell| (cell, ", through the map")));
    let of_runs = runs
        .iter()
        .zip(slower)
        .chain(outside.iter().zip(slower_outside))
        .chain(mapped.iter().zip(slower_mapped));
    let table = Figure {
        id: "fast04-fig10-table".into(),
        title: "Duration of a reorganisation".into(),
        x: Axis::default(),
        y: Axis::default(),
        kind: Kind::Table {
            columns: columns.map(String::from).to_vec(),
            rows: of_cells.zip(of_runs).map(row).collect(),
        },
    };
    let notes = vec![
        "The paper's staging sizes stand in its figure only; ours are assumed. Places that are free when a random or \
         track plan begins belong to it: a foreground request there goes to the next place that is live. Blocks are \
         zeros, and the staging area forgets them in a crash, as memory does: contents and crashes are held by the \
         tests of docs/REORGANIZER.md. Tracks whose LBNs are in several pieces are not shuffled."
            .to_owned(),
    ];
    Ok(Outcome { figures: vec![times, table], claims: vec![claim], notes })
}

/// Rounds to three decimals, so that the printed band is the band of the claim.
fn round(hours: f64) -> f64 {
    (hours * 1000.0).round() / 1000.0
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> LabError {
    LabError::new("a reorganisation", error)
}

/// Returns the plan of moves for a kind of reorganisation, which moves about `sectors` sectors.
fn plan(
    drive: &DriveModel,
    action: &str,
    region: LbnRange,
    sectors: u64,
    seed: u64,
) -> Result<RelocationPlan, RelocationPlanError> {
    let capacity = drive.layout().capacity();
    let block = Sectors::new(BLOCK.get() / drive.sector_bytes().get());
    let mut chance = Stream::new(seed, "reorganisation");
    let below = &mut |n: NonZeroU64| chance.below(n);
    match action {
        "random" => RelocationPlan::random(region, block, capacity, sectors / block.get(), below),
        "circular" => RelocationPlan::circular(region, block, capacity, sectors / block.get(), below),
        _ => {
            let tracks = tracks(drive);
            let mean = capacity.get() / u64::from(drive.layout().track_count()).max(1);
            RelocationPlan::track_shuffle(&tracks, block, capacity, sectors / mean.max(1), below)
        }
    }
}

/// Returns the LBNs of each track whose LBNs are in one piece.
fn tracks(drive: &DriveModel) -> Vec<LbnRange> {
    let layout = drive.layout();
    let mut tracks = Vec::new();
    for index in 0..layout.track_count() {
        let mut whole: Option<LbnRange> = None;
        let mut in_one_piece = true;
        for extent in layout.extents(TrackIndex::new(index)) {
            let len = Sectors::new(extent.len.into());
            match &mut whole {
                None => whole = Some(LbnRange::new(extent.lbn, len)),
                Some(before) if before.end() == extent.lbn => {
                    *before = LbnRange::new(before.start(), Sectors::new(before.len().get() + len.get()));
                }
                Some(_) => in_one_piece = false,
            }
        }
        tracks.extend(whole.filter(|track| in_one_piece && !track.is_empty()));
    }
    tracks
}

/// A drive; and if the core is outside, the drive's profile and the core's handicaps.
type Placed<'a> = (&'a Arc<DriveModel>, Option<Outer<'a>>);

/// Returns a host with the foreground alone, on an unchanged drive.
fn host((drive, outside): Placed<'_>, seed: u64) -> Result<MaintenanceHost, LabError> {
    let config = SyntheticConfig::new(drive.layout().capacity(), drive.sector_bytes());
    let load: Box<dyn Source> = Box::new(Synthetic::new(config, seed).map_err(failed)?);
    let issuer = Issuer::new(load, Arrival::outstanding(2), Instant::ZERO, seed).map_err(failed)?;
    let config =
        Config::default().with_policy(PolicyName::Sptf).with_idle(Some(IdleTime::default())).with_seed(seed);
    MaintenanceHost::new(drive, outside, config, issuer)
}

/// Returns by how many percent the mean response of each run exceeds that of the same number of requests without a
/// reorganiser.
fn slower(placed: Placed<'_>, runs: &[ReorganizerResult], seed: u64) -> Result<Vec<f64>, LabError> {
    let mut plain = host(placed, seed)?;
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|at| runs[*at].requests);
    let mut slower = vec![0.0; runs.len()];
    for at in order {
        plain.run_until(|host| host.responses().requests >= runs[at].requests)?;
        slower[at] = (runs[at].response_ms / plain.responses().mean_ms() - 1.0) * 100.0;
    }
    Ok(slower)
}

/// Returns by how many percent the mean response of a run exceeds that of the same requests at the LBNs where the
/// reorganiser had put their blocks, without the reorganiser's accesses; and the share of these requests whose blocks
/// did not lie together, in percent.
fn slower_there(placed: Placed<'_>, cell: Cell, seed: u64) -> Result<(f64, f64), LabError> {
    let (run, noted) = reorganise_noting(placed, cell, seed)?;
    let split = {
        let noted = noted.borrow();
        noted.iter().filter(|runs| runs.len() > 1).count() as f64 * 100.0 / (noted.len() as f64).max(1.0)
    };
    let mut plain = host(placed, seed)?;
    plain.serve(LbnRange::new(Lbn::ZERO, placed.0.layout().capacity()), Way::Noted(noted));
    plain.run_until(|host| host.responses().requests >= run.requests)?;
    Ok(((run.response_ms / plain.responses().mean_ms() - 1.0) * 100.0, split))
}

fn reorganise(placed: Placed<'_>, cell: Cell, seed: u64) -> Result<ReorganizerResult, LabError> {
    reorganise_noting(placed, cell, seed).map(|(run, _)| run)
}

/// Reorganises, and records the LBNs where the blocks of each foreground request lay.
fn reorganise_noting(
    (drive, outside): Placed<'_>,
    cell: Cell,
    seed: u64,
) -> Result<(ReorganizerResult, Noted), LabError> {
    let capacity = drive.layout().capacity();
    let whole = LbnRange::new(Lbn::ZERO, capacity);
    let sectors = capacity.get() * cell.percent / 100;
    let plan = plan(drive, cell.action.name(), whole, sectors, seed).map_err(failed)?;
    let mut host = host((drive, outside), seed)?;
    let options = Options { staging: cell.staging, ..Options::default() };
    let hosted_app = host.start(|sessions, _| {
        Reorganizer::start(&plan, options, drive.sector_bytes(), Volatile, sessions)
            .map(|reorganizer| HostedApp::Reorganizer(Box::new(reorganizer)))
    })?;
    if cell.mapped {
        host.serve(whole, Way::Reorganized(hosted_app));
    }
    let noted = host.note_places();
    let finished = |host: &MaintenanceHost| match host.hosted_app(hosted_app) {
        Some(HostedApp::Reorganizer(reorganizer)) => reorganizer.progress().is_finished(),
        _ => true,
    };
    host.run_until(|host| finished(host) || host.now().since(Instant::ZERO) > REORGANISATION_TIME_MAX)?;
    let took = host.now().since(Instant::ZERO).as_secs_f64();
    let Some(HostedApp::Reorganizer(reorganizer)) = host.hosted_app(hosted_app) else {
        return Err(LabError::new("a reorganisation", "it was never there"));
    };
    let statistics = reorganizer.statistics();
    let tally = host.tally(hosted_app);
    let run = ReorganizerResult {
        hours: took / 3600.0,
        finished: finished(&host),
        blocks: reorganizer.progress().blocks,
        held_up: statistics.unwritable_suspended.as_secs_f64() * 100.0 / took.max(1e-9),
        requests: host.responses().requests,
        response_ms: host.responses().mean_ms(),
        in_one_pass: (tally.bytes / BLOCK.get()) as f64 / tally.passes.max(1) as f64,
    };
    Ok((run, noted))
}
