//! ATC'03, figure 7: SMTF against greedy-optimal on disks of other speeds and sizes.

use crate::set_up::drive;
use crate::smtf::{
    Bare, Bench, COMPRESSION_FACTOR, Chooser, FromOutside, LETTER, Scheduler, Seen, SmtfTally, Week,
    longest_line, probed,
};
use crate::{Axis, Band, Bar, Claim, Experiment, Figure, Kind, Lab, LabError, Outcome, Paper};
use mimic::{CheckPoints, Metric, ProbePlan, Table};
use model::profile::{Revolutions, Zone};
use model::{DriveModel, Profile, builtin};
use scheduler::{Observed, Pending, Predictor};
use std::sync::Arc;
use units::{Bytes, Duration, Sectors};

pub const EXPERIMENT: Experiment = Experiment {
    id: "atc03-fig7",
    paper: Paper::Atc03,
    reproduces: "figure 7",
    title: "Time at the disk against greedy-optimal, on the eight disks of Table 1",
    set_up: "The eight disks of Table 1 without electronics; the HP week at hand (a stand-in where it is not found) as in \
             figure 2 at a compression of 20; SMTF by the mean of 100 samples of each distance (20 when quick), interpolated by Table 2 as \
             figure 6 has it, which each range of at most ten tracks must pass once, and with every distance probed.",
    claims: &["atc03-fig7"],
    timed: false,
    run,
};

/// The configurations of Table 1, in its order.
const DISKS: [&str; 8] = [
    "mimic-base",
    "mimic-fast-seek",
    "mimic-slow-seek",
    "mimic-fast-rotate",
    "mimic-slow-rotate",
    "mimic-fast-seek-rotate",
    "mimic-more-capacity",
    "mimic-less-capacity",
];

/// The factor by which the number of samples is raised, to see how much of the remaining error is due to few samples.
const SAMPLES_FACTOR: u32 = 4;

/// Our own rule: each interpolated range of distances must pass the check points of Table 2 twice (decision 0020).
const TWICE: CheckPoints = CheckPoints::TABLE_2.confirmed(2);

/// How much slower than greedy-optimal each scheduler is on one disk, in percent.
struct Slowdown {
    name: &'static str,
    fcfs: f64,
    sstf: f64,
    c_look: f64,
    /// SMTF with distances interpolated by [`LETTER`].
    interpolated: f64,
    /// SMTF with distances interpolated by [`TWICE`].
    twice: f64,
    all: f64,
    /// SMTF with [`SAMPLES_FACTOR`] times the samples of each distance.
    sampled: f64,
    /// The time that SMTF with samples of all distances loses because its choices are not the best of their queues.
    behind: Behind,
    /// The mean number of waiting requests at a choice.
    queue: f64,
    /// The angle, in revolutions, by which the targets of two moves over the same distance may differ because one of
    /// them crosses one more cylinder boundary.
    crossing: f64,
}

/// The speed at which the trace is replayed.
#[derive(Clone, Copy, Debug)]
enum TraceSpeed {
    /// The trace at the paper's compression.
    Letter,
    /// The trace at the speed that gives it the request rate of the paper's trace at the paper's compression.
    Crowded,
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let what =
        Week::hp_or_stand_in(Sectors::new(u64::MAX), lab.seed())?.first(lab.pick(2_500, usize::MAX)).what;
    let samples = lab.pick(20, 100);
    let rows_of = |name: &'static str, disk: Arc<DriveModel>, loads: &[TraceSpeed]| {
        let capacity = disk.layout().capacity();
        let week = Week::hp_or_stand_in(capacity, lab.seed())?.first(lab.pick(2_500, usize::MAX));
        let bench = Bench::new(&disk, samples, lab.seed());
        let more = Bench::new(&disk, samples * SAMPLES_FACTOR, lab.seed());
        let plan = |check_points, longest_line| ProbePlan {
            samples,
            check_points,
            longest_line,
            reach: Some(week.reach()),
            memory: Bytes::new(1 << 30),
            seed: lab.seed(),
            ..ProbePlan::new(capacity, Sectors::new(2))
        };
        let table = |rule, longest| probed(&mut Bare::new(Arc::clone(&disk)), plan(rule, longest));
        let (letter, _) = table(LETTER, Some(longest_line(&disk)))?;
        let (twice, _) = table(TWICE, None)?;
        let row = |load: &TraceSpeed| {
            let factor = match load {
                TraceSpeed::Letter => COMPRESSION_FACTOR,
                TraceSpeed::Crowded => week.factor(COMPRESSION_FACTOR),
            };
            let seconds = |tally: SmtfTally| tally.busy.as_secs_f64();
            let optimal = seconds(bench.run(Scheduler::GreedyOptimal, &week, factor)?);
            let slower = |tally| (seconds(tally) / optimal - 1.0) * 100.0;
            let run = |scheduler| bench.run(scheduler, &week, factor).map(slower);
            let by =
                |table: &Table| bench.run_with(FromOutside::smtf(table.clone()), &week, factor).map(slower);
            let mimic = FromOutside::smtf(bench.table.by(Metric::Mean));
            let (all, regrets) = bench.run_and_keep(Regrets::new(mimic, &disk), &week, factor)?;
            Ok::<_, LabError>(Slowdown {
                name,
                fcfs: run(Scheduler::Fcfs)?,
                sstf: run(Scheduler::Sstf)?,
                c_look: run(Scheduler::CLook)?,
                interpolated: by(&letter)?,
                twice: by(&twice)?,
                all: slower(all),
                sampled: slower(more.run(Scheduler::Smtf(Metric::Mean), &week, factor)?),
                behind: regrets.behind(&all),
                queue: all.mean_queue(),
                crossing: crossing(name)?,
            })
        };
        loads.iter().map(row).collect::<Result<Vec<_>, LabError>>()
    };
    // Each disk runs at both speeds of the trace. The two disks of other capacities run once more with the base
    // disk's skew times.
    let both =
        lab.map(DISKS, |name| rows_of(name, drive(name)?, &[TraceSpeed::Letter, TraceSpeed::Crowded]))?;
    let (mut rows, mut crowded) = (Vec::new(), Vec::new());
    for of_disk in both {
        let mut of_disk = of_disk.into_iter();
        rows.extend(of_disk.next());
        crowded.extend(of_disk.next());
    }
    let reskewed = lab.map(["mimic-more-capacity", "mimic-less-capacity"], |name| {
        rows_of(name, Arc::new(reskewed(name)?), &[TraceSpeed::Crowded])
    })?;
    let reskewed: Vec<Slowdown> = reskewed.into_iter().flatten().collect();
    let worst = rows.iter().map(|r| r.interpolated).fold(f64::NEG_INFINITY, f64::max);
    let ahead =
        rows.iter().map(|r| ratio(r.sstf.min(r.c_look), r.interpolated)).fold(f64::INFINITY, f64::min);
    let described: Vec<String> = crowded
        .iter()
        .map(|r| {
            format!(
                "{}: {:.1}% interpolated, {:.1}% by our own rule, {:.1}% all probed, {:.1}% with {SAMPLES_FACTOR} times the samples ({:.1}% of its choices, of {:.0} requests, lose more \
                 than half a revolution to the best of their queue, which is {:.0}% of the {:.1}% that all lose), C-LOOK {:.1}%, SSTF {:.1}%, {:.2}",
                short(r.name),
                r.interpolated,
                r.twice,
                r.all,
                r.sampled,
                r.behind.late,
                r.queue,
                r.behind.of_all,
                r.behind.lost,
                r.c_look,
                r.sstf,
                r.crossing
            )
        })
        .collect();
    let worst_of =
        |rows: &[Slowdown], of: fn(&Slowdown) -> f64| rows.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
    let skews: Vec<String> = reskewed
        .iter()
        .map(|r| format!("{}: {:.1}% interpolated, {:.1}% all probed", short(r.name), r.interpolated, r.all))
        .collect();
    let claim = Claim::new(
        "atc03-fig7",
        "SMTF within 8% of greedy-optimal on all eight disks, ahead of C-LOOK and SSTF",
    )
    .measure("SMTF slower than greedy-optimal, at worst", worst, "%", Band::AtMost(8.0))
    .measure("C-LOOK or SSTF slower than SMTF, at least", ahead, "%", Band::AtLeast(0.0))
    .note(format!(
            "At a compression of {COMPRESSION_FACTOR} our own rule, each range passing twice, has at worst {:.1}%, and all probed {:.1}%. With as \
             many requests a day as the paper's trace has, which is this one {:.0} times as fast, SMTF has at worst {:.1}%, since the more there \
             is to choose from, the more of the best hide behind a mean. There: {}. \
             {SAMPLES_FACTOR} times as many samples of each distance take {:.1} to {:.1} points off. \
             A policy that has only the distance can use no more than the mean of its times, so with all probed the difference is due \
             to properties that a distance does not have. One of these is whether it crosses one cylinder boundary more or less: the \
             two are apart by the cylinder's skew less the track's, in revolutions (the last number of each). Table 1 gives skews in \
             sectors, the same for tracks of 136 and \
             544; with skews that are the same part of a revolution as the base disk's, fewer sectors on the small disk and more on the \
             large one: {}.",
            worst_of(&rows, |r| r.twice),
            worst_of(&rows, |r| r.all),
            Week::hp_or_stand_in(Sectors::new(u64::MAX), lab.seed())?.factor(1.0),
            worst_of(&crowded, |r| r.interpolated),
            described.join("; "),
            crowded.iter().map(|r| r.all - r.sampled).fold(f64::INFINITY, f64::min),
            worst_of(&crowded, |r| r.all - r.sampled),
            skews.join("; "),
        ));
    let columns =
        ["disk", "FCFS", "SSTF", "C-LOOK", "SMTF, Table 2", "SMTF, Table 2 twice", "SMTF, all probed"];
    let values = |r: &Slowdown| [r.fcfs, r.sstf, r.c_look, r.interpolated, r.twice, r.all];
    let figure = |id: &str, title: &str, kind| Figure {
        id: id.into(),
        title: title.into(),
        x: Axis::new("disk"),
        y: Axis::new("slower than greedy-optimal (%)"),
        kind,
    };
    let table = rows.iter().map(|r| {
        let cells = values(r).map(|v| format!("{v:.1}%"));
        std::iter::once(short(r.name).to_owned()).chain(cells).collect()
    });
    let bars = |of: fn(&Slowdown) -> f64| {
        let bars = rows.iter().map(|r| Bar { label: short(r.name).into(), values: vec![of(r)] }).collect();
        Kind::Stacked { parts: vec!["slower than greedy-optimal".into()], bars }
    };
    Ok(Outcome {
        figures: vec![
            figure("atc03-fig7-smtf", "SMTF against greedy-optimal", bars(|r| r.interpolated)),
            figure("atc03-fig7-c-look", "C-LOOK against greedy-optimal", bars(|r| r.c_look)),
            figure("atc03-fig7-sstf", "SSTF against greedy-optimal", bars(|r| r.sstf)),
            figure(
                EXPERIMENT.id,
                EXPERIMENT.title,
                Kind::Table { columns: columns.map(String::from).to_vec(), rows: table.collect() },
            ),
        ],
        claims: vec![claim],
        notes: vec![format!("The trace is {what}.")],
    })
}

/// The time that the choices of one run lose relative to the best choice from each queue.
struct Behind {
    /// The share of choices that lose more than half a revolution, in percent.
    late: f64,
    /// The time lost by these late choices, in percent of the time lost by all choices.
    of_all: f64,
    /// The time lost by all choices, in percent of the time that requests spent at the disk.
    lost: f64,
}

/// A chooser that compares each choice of `inner` with the best one.
struct Regrets {
    inner: FromOutside,
    disk: Arc<DriveModel>,
    late: u64,
    late_for: Duration,
    lost: Duration,
}

impl Regrets {
    fn new(inner: FromOutside, disk: &Arc<DriveModel>) -> Self {
        Self { inner, disk: Arc::clone(disk), late: 0, late_for: Duration::ZERO, lost: Duration::ZERO }
    }

    fn behind(&self, tally: &SmtfTally) -> Behind {
        let percent = |a: f64, b: f64| a / b * 100.0;
        Behind {
            late: percent(self.late as f64, tally.requests as f64),
            of_all: percent(self.late_for.as_secs_f64(), self.lost.as_secs_f64()),
            lost: percent(self.lost.as_secs_f64(), tally.busy.as_secs_f64()),
        }
    }
}

impl Chooser for Regrets {
    fn choose(&mut self, seen: Seen<'_>) -> usize {
        let time = |p: &Pending| self.disk.positioning(seen.arm, seen.at, p).total();
        let best = seen.queue.iter().map(time).min().unwrap_or_default();
        let chosen = self.inner.choose(seen);
        let lost = seen.queue.get(chosen).map_or(Duration::ZERO, |p| time(p).saturating_sub(best));
        self.lost += lost;
        if lost + lost > self.disk.rpm().revolution() {
            self.late += 1;
            self.late_for += lost;
        }
        chosen
    }

    fn served(&mut self, done: &Observed) {
        self.inner.served(done);
    }
}

/// Returns the name of a drive without the prefix `mimic-`.
fn short(name: &str) -> &str {
    name.strip_prefix("mimic-").unwrap_or(name)
}

/// Returns by how many percent `a` is slower than `b`, if both are given as slowdowns, in percent, relative to the
/// same scheduler.
fn ratio(a: f64, b: f64) -> f64 {
    ((100.0 + a) / (100.0 + b) - 1.0) * 100.0
}

fn profile(name: &str) -> Result<Profile, LabError> {
    builtin::find(name).map_err(|e| LabError::new(format!("drive {name}"), e))
}

/// Returns the cylinder skew less the track skew of the first zone, in revolutions.
fn crossing(name: &str) -> Result<f64, LabError> {
    let profile = profile(name)?;
    let zone = profile.layout.zones.first();
    let revolutions = |of: fn(&Zone) -> &Revolutions| {
        zone.and_then(|z| of(z).angle()).map_or(f64::NAN, units::Angle::as_revolutions)
    };
    Ok(revolutions(|z| &z.cylinder_skew) - revolutions(|z| &z.track_skew))
}

/// Returns the disk of this name with the base disk's skew times.
fn reskewed(name: &str) -> Result<DriveModel, LabError> {
    let (base, mut profile) = (profile(DISKS[0])?, profile(name)?);
    for (zone, of) in profile.layout.zones.iter_mut().zip(&base.layout.zones) {
        zone.track_skew = of.track_skew.clone();
        zone.cylinder_skew = of.cylinder_skew.clone();
    }
    DriveModel::from_profile(&profile).map_err(|e| LabError::new(format!("drive {name}"), e))
}
