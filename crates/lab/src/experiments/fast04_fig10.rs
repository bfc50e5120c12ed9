//! FAST'04, figure 10: how long it takes to move a part of the drive's blocks elsewhere.

use crate::lld::one_surface_atlas;
use crate::maintenance::{Guest, Host, Way};
use crate::set_up::{ATLAS_10K, drive};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Size};
use apps::reorganizer::{Options, Plan, PlanError, Reorganizer, Volatile};
use model::DriveModel;
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
             outstanding) keeps the drive busy and goes through the reorganiser's map. Random blocks of 8 KB go to \
             random places, each to the place of the next (circular), or whole tracks go to places of tracks (track \
             shuffling), for 1 to 20% of the drive, with staging areas of 8, 32 and 128 MB (quick: a sixth of that). \
             Half of the staging area may be unwritable blocks.",
    claims: &["fast04-fig10"],
    timed: false,
    run,
};

const BLOCK: Bytes = Bytes::new(8 << 10);
/// A reorganisation that takes longer is taken for stuck.
const LONGEST: Duration = Duration::from_secs(48 * 3600);

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
    /// Blocks.
    staging: u64,
}

struct Run {
    hours: f64,
    finished: bool,
    blocks: u64,
    /// Part of the time in which no unwritable block could be staged, in percent.
    held_up: f64,
    response_ms: f64,
    /// Blocks that were read or written right behind each other, in the mean.
    in_one_pass: f64,
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = if lab.size() == Size::Quick { one_surface_atlas()? } else { drive(ATLAS_10K)? };
    let percents: &[u64] = lab.pick(&[1, 5, 20], &[1, 5, 10, 20]);
    let stagings: [u64; 3] = lab.pick([170, 680, 2_730], [1_024, 4_096, 16_384]);
    let mut cells = Vec::new();
    for &staging in &stagings {
        for &percent in percents {
            cells.extend(ACTIONS.map(|action| Cell { action, percent, staging }));
        }
    }
    let seed = lab.seed();
    // The longest first, so that no core waits for them at the end.
    let mut order: Vec<usize> = (0..cells.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(cells[*at].percent));
    let done = {
        let (drive, cells) = (&drive, &cells);
        lab.map(order.clone(), move |at| reorganise(drive, cells[at], seed))?
    };
    let mut runs: Vec<(usize, Run)> = order.into_iter().zip(done).collect();
    runs.sort_by_key(|(at, _)| *at);
    let runs: Vec<Run> = runs.into_iter().map(|(_, run)| run).collect();
    let hours = |action, percent, staging| {
        let cell = Cell { action, percent, staging };
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
    let (least, most) = (stagings[0], stagings[stagings.len() - 1]);
    // By what a larger area makes it faster, over all parts of the drive.
    let helped = |action: Action| {
        let sum = |staging| percents.iter().map(|&percent| hours(action, percent, staging)).sum::<f64>();
        sum(least) / sum(most)
    };
    let others = helped(Action::Random).max(helped(Action::Tracks));
    let ended = runs.iter().filter(|run| run.finished).count();
    let largest = percents.last().copied().unwrap_or(0);
    let describe = |staging| {
        ACTIONS.map(|action| format!("{} {:.2} h", action.name(), hours(action, largest, staging))).join(", ")
    };
    let from_to = |value: fn(&Run) -> f64| {
        let at = |action, staging| {
            let cell = Cell { action, percent: largest, staging };
            cells.iter().position(|c| *c == cell).map_or(f64::NAN, |at| value(&runs[at]))
        };
        ACTIONS
            .map(|action| format!("{} {:.2} to {:.2}", action.name(), at(action, least), at(action, most)))
            .join(", ")
    };
    let saved = |action| hours(action, largest, least) - hours(action, largest, most);
    let claim =
        Claim::new("fast04-fig10", "20% in a few hours; circular slowest and helped most by a larger buffer")
            .measure("circular / random, at least", over(Action::Random), "", Band::AtLeast(1.0))
            .measure("circular / track shuffling, at least", over(Action::Tracks), "", Band::AtLeast(1.0))
            .measure(
                "times faster with the largest buffer, circular / best other",
                helped(Action::Circular) / others,
                "",
                Band::AtLeast(1.0),
            )
            .measure("ended", 100.0 * ended as f64 / runs.len() as f64, "% of runs", Band::AtLeast(100.0))
            .note(format!(
                "{largest}% of the drive with {least} blocks of staging: {}; with {most}: {}. From the smallest to the \
                 largest buffer, over all parts of the drive: random {:.2} times faster, circular {:.2}, track shuffling \
                 {:.2}. Of the two that move single blocks, circular is helped more, as its dependencies say. Whole \
                 tracks gain by another reason as well: with more of a track in the staging area, more of it is read or \
                 written in one pass. Blocks right behind each other, with the smallest buffer and with the largest: {}. \
                 Part of the time in which no more unwritable blocks could be staged: {}. \
                 In hours saved at {largest}%: random {:.2}, circular {:.2}, track shuffling {:.2}.",
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
        "blocks a pass",
    ];
    let row = |(cell, run): (&Cell, &Run)| {
        vec![
            cell.action.name().to_owned(),
            cell.percent.to_string(),
            cell.staging.to_string(),
            run.blocks.to_string(),
            format!("{:.3}", run.hours),
            format!("{:.1}", run.blocks as f64 / (run.hours * 3600.0)),
            format!("{:.1}", run.held_up),
            format!("{:.2}", run.response_ms),
            format!("{:.2}", run.in_one_pass),
        ]
    };
    let table = Figure {
        id: "fast04-fig10-table".into(),
        title: "What a reorganisation takes".into(),
        x: Axis::default(),
        y: Axis::default(),
        kind: Kind::Table {
            columns: columns.map(String::from).to_vec(),
            rows: cells.iter().zip(&runs).map(row).collect(),
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

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> LabError {
    LabError::new("a reorganisation", error)
}

/// What moves where.
fn plan(
    drive: &DriveModel,
    action: &str,
    region: LbnRange,
    sectors: u64,
    seed: u64,
) -> Result<Plan, PlanError> {
    let capacity = drive.layout().capacity();
    let block = Sectors::new(BLOCK.get() / drive.sector_bytes().get());
    let mut chance = Stream::new(seed, "reorganisation");
    let below = &mut |n: NonZeroU64| chance.below(n);
    match action {
        "random" => Plan::random(region, block, capacity, sectors / block.get(), below),
        "circular" => Plan::circular(region, block, capacity, sectors / block.get(), below),
        _ => {
            let tracks = tracks(drive);
            let mean = capacity.get() / u64::from(drive.layout().track_count()).max(1);
            Plan::track_shuffle(&tracks, block, capacity, sectors / mean.max(1), below)
        }
    }
}

/// The LBNs of each track that has them in one piece.
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

fn reorganise(drive: &Arc<DriveModel>, cell: Cell, seed: u64) -> Result<Run, LabError> {
    let capacity = drive.layout().capacity();
    let whole = LbnRange::new(Lbn::ZERO, capacity);
    let sectors = capacity.get() * cell.percent / 100;
    let plan = plan(drive, cell.action.name(), whole, sectors, seed).map_err(failed)?;
    let load = Synthetic::new(SyntheticConfig::new(capacity, drive.sector_bytes()), seed).map_err(failed)?;
    let load: Box<dyn Source> = Box::new(load);
    let issuer = Issuer::new(load, Arrival::outstanding(2), Instant::ZERO, seed).map_err(failed)?;
    let config =
        Config { policy: PolicyName::Sptf, idle: Some(IdleTime::default()), seed, ..Config::default() };
    let mut host = Host::new(drive, config, issuer);
    let options = Options { staging: cell.staging, ..Options::default() };
    let guest = host.start(|sessions, _| {
        Reorganizer::start(&plan, options, drive.sector_bytes(), Volatile, sessions)
            .map(|reorganizer| Guest::Reorganizer(Box::new(reorganizer)))
    })?;
    host.serve(whole, Way::Reorganized(guest));
    let finished = |host: &Host| match host.guest(guest) {
        Some(Guest::Reorganizer(reorganizer)) => reorganizer.progress().is_finished(),
        _ => true,
    };
    host.run_until(|host| finished(host) || host.now().since(Instant::ZERO) > LONGEST)?;
    let took = host.now().since(Instant::ZERO).as_secs_f64();
    let Some(Guest::Reorganizer(reorganizer)) = host.guest(guest) else {
        return Err(LabError::new("a reorganisation", "it was never there"));
    };
    let statistics = reorganizer.statistics();
    let tally = host.tally(guest);
    Ok(Run {
        hours: took / 3600.0,
        finished: finished(&host),
        blocks: reorganizer.progress().blocks,
        held_up: statistics.unwritable_suspended.as_secs_f64() * 100.0 / took.max(1e-9),
        response_ms: host.responses().mean_ms(),
        in_one_pass: (tally.bytes / BLOCK.get()) as f64 / tally.passes.max(1) as f64,
    })
}
