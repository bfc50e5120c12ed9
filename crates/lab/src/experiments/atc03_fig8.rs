//! ATC'03, figure 8: the more local the load, the greater the loss of choosing by addresses only.

use crate::set_up::drive;
use crate::smtf::{Bare, Bench, Scheduler, SmtfHost};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread, spread,
};
use mimic::Metric;
use std::sync::Arc;
use units::{Instant, Sectors};
use workload::{Arrival, Issuer, Limited, Random, RandomConfig, Share};

pub const EXPERIMENT: Experiment = Experiment {
    id: "atc03-fig8",
    paper: Paper::Atc03,
    reproduces: "figure 8",
    title: "How much slower C-LOOK is than SMTF, by locality",
    set_up: "Random requests of 1 KB, half of them reads, without idle time, on the first n MB of the disk (the x axis); SMTF by the \
             mean of 20 samples of each distance. The paper's disk is a real IBM 9LZX; here it is the simulated one that \
             resembles it, the base disk of its Table 1. The paper does not say how many requests wait; 20 do, and other \
             numbers in the second figure.",
    claims: &["atc03-fig8"],
    timed: false,
    run,
};

const MEGABYTES: [u64; 6] = [25, 50, 100, 200, 650, 1_300];
const SAMPLES: u32 = 20;
/// The number of waiting requests; the paper does not give it.
const WAITING_REQUESTS: u32 = 20;

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let disk = drive("mimic-base")?;
    let requests = lab.pick(1_500, 5_000);
    let slowdown = |mb: u64, waiting: u32, seed: u64| {
        let failed = |e| LabError::new(format!("random requests on {mb} MB"), e);
        let mut load = RandomConfig::new(Sectors::new(mb * 1_000_000 / 512), disk.sector_bytes());
        (load.size, load.align) = (Sectors::new(2), Sectors::new(2));
        load.reads = Share::new(1, 2).map_err(failed)?;
        let bench = Bench::new(&disk, SAMPLES, seed);
        let busy = |scheduler| {
            let source = Limited::new(Random::new(load, seed).map_err(failed)?, requests);
            let load =
                Issuer::new(source, Arrival::outstanding(waiting), Instant::ZERO, seed).map_err(failed)?;
            let mut host = SmtfHost::new(Bare::new(Arc::clone(&disk)), load, bench.chooser(scheduler));
            Ok::<_, LabError>(host.advance(u64::MAX)?.busy.as_secs_f64())
        };
        let smtf = busy(Scheduler::Smtf(Metric::Mean))?;
        let slower = |a: f64, b: f64| (a / b - 1.0) * 100.0;
        Ok((slower(busy(Scheduler::CLook)?, smtf), slower(smtf, busy(Scheduler::GreedyOptimal)?)))
    };
    let runs = lab.map_seeds(MEGABYTES, lab.pick(3, 20), |mb, seed| slowdown(*mb, WAITING_REQUESTS, seed))?;
    let spreads: Vec<Spread> = runs.iter().map(|runs| spread(runs, |r| r.0)).collect();
    let behind: Vec<String> = MEGABYTES
        .iter()
        .zip(&runs)
        .map(|(mb, runs)| format!("{}% at {mb} MB", spread(runs, |r| r.1)))
        .collect();
    let waiting: &[u32] = lab.pick(&[5, 100], &[2, 5, 10, 40, 100]);
    let jobs: Vec<(u32, u64)> = waiting.iter().flat_map(|n| MEGABYTES.map(|mb| (*n, mb))).collect();
    let others = lab.map(jobs, |(n, mb)| slowdown(mb, n, lab.seed()))?;
    let (Some(near), Some(far)) = (spreads.first(), spreads.last()) else {
        return Err(LabError::new("localities", "none"));
    };
    let falls = spreads.windows(2).filter(|w| w[0].mean < w[1].mean).count();
    let described: Vec<String> = waiting
        .iter()
        .zip(others.chunks(MEGABYTES.len()))
        .map(|(n, row)| {
            let (first, last) = (row.first().map(|r| r.0), row.last().map(|r| r.0));
            format!("{n} waiting: {:.1}% and {:.1}%", first.unwrap_or(f64::NAN), last.unwrap_or(f64::NAN))
        })
        .collect();
    let claim = Claim::new(
        "atc03-fig8",
        "C-LOOK is slower than SMTF by 32% at 25 MB, falling to 8% at 1.3 GB",
    )
    .measure("at 25 MB", *near, "%", Band::AtLeast(20.0))
    .measure("at 1.3 GB", *far, "%", Band::AtLeast(4.0))
    .measure("localities at which it rises", falls as f64, "", Band::AtMost(0.0))
    .note(format!(
        "At 25 MB and at 1.3 GB, with {}. SMTF itself, with {WAITING_REQUESTS}, is slower than greedy-optimal by {}.",
        described.join("; "),
        behind.join(", ")
    ));
    let line = |label: &str, row: &[Spread]| {
        let points = MEGABYTES.iter().zip(row).map(|(mb, s)| Point {
            x: *mb as f64,
            y: s.mean,
            spread: Some((s.min, s.max)),
        });
        Line { label: label.into(), points: points.collect() }
    };
    let figure = |id: &str, title: &str, lines| Figure {
        id: id.into(),
        title: title.into(),
        x: Axis::new("longest inter-request distance (MB)"),
        y: Axis::new("C-LOOK slower than SMTF (%)"),
        kind: Kind::Lines(lines),
    };
    let mut lines: Vec<Line> = waiting
        .iter()
        .zip(others.chunks(MEGABYTES.len()))
        .map(|(n, row)| {
            let row: Vec<Spread> = row.iter().map(|r| Spread::from(r.0)).collect();
            line(&format!("{n} waiting"), &row)
        })
        .collect();
    lines.push(line(&format!("{WAITING_REQUESTS} waiting"), &spreads));
    Ok(Outcome {
        figures: vec![
            figure(EXPERIMENT.id, EXPERIMENT.title, vec![line("", &spreads)]),
            figure("atc03-fig8-waiting", "The same by how many requests wait", lines),
        ],
        claims: vec![claim],
        notes: Vec::new(),
    })
}
