//! FAST'02, figure 8: foreground policies outside the drive against the drive's own.

use crate::set_up::{ATLAS_10K, drive};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread, spread,
};
use ::drive::Behaviour;
use model::builtin;
use scheduler::policy::{PolicyName, SeekWeight};
use scheduler::{Config, OutsideConfig, Place};
use sim::{Background, Direct, ForegroundReport, Nothing, Outside, black_box};
use std::sync::Arc;
use units::{Duration, Instant};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-fig8",
    paper: Paper::Fast02,
    reproduces: "figure 8",
    title: "Response time of foreground policies outside the drive and of the drive's own",
    set_up: "Atlas 10K with its default noise; the OLTP load's requests (multiples of 4 KB, 8 KB in the mean, two \
             reads to a write), so many outstanding at all times, no background. SSTF, SPTF-SW60% and SPTF in front \
             of the drive with two commands in it at most; and all requests in the drive at once, whose firmware \
             takes the shortest positioning time first. The same seeds for all.",
    claims: &["fast02-fig8"],
    timed: false,
    run,
};

/// Who chooses.
#[derive(Clone, Copy)]
enum Scheduler {
    External(PolicyName),
    Firmware,
}

const SCHEDULERS: [(&str, Scheduler); 4] = [
    ("SSTF external", Scheduler::External(PolicyName::Sstf)),
    ("SPTF-SW60% external", Scheduler::External(PolicyName::SptfSw(SeekWeight::percent(60)))),
    ("SPTF external", Scheduler::External(PolicyName::Sptf)),
    ("disk firmware", Scheduler::Firmware),
];
/// Where SPTF outside and the firmware stand among them.
const EXTERNAL: usize = 2;
const FIRMWARE: usize = 3;

fn measure(scheduler: Scheduler, depth: u32, requests: u64, seed: u64) -> Result<ForegroundReport, LabError> {
    let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new("an OLTP load", e);
    let profile = builtin::find(ATLAS_10K).map_err(|e| failed(e.into()))?;
    let known = drive(ATLAS_10K)?;
    let (truth, overheads) = black_box(&profile, Behaviour::noisy(), seed).map_err(|e| failed(e.into()))?;
    let load = OltpConfig::new(known.layout().capacity(), known.sector_bytes());
    let load = Oltp::new(load, seed).map_err(|e| failed(e.into()))?;
    let load =
        Issuer::new(load, Arrival::outstanding(depth), Instant::ZERO, seed).map_err(|e| failed(e.into()))?;
    match scheduler {
        Scheduler::Firmware => {
            let mut run = Direct::new(truth, depth as usize, load);
            run.advance(requests, |_| {}).map_err(|e| failed(e.into()))?;
            Ok(run.report())
        }
        Scheduler::External(policy) => {
            // No detours, so nothing to be careful about.
            let place = Place::Outside(OutsideConfig::paper(overheads, Duration::ZERO));
            let config = Config { policy, place, ..Config::default() };
            let mut run = Outside::new(truth, Arc::clone(&known), config, load, Background::None)
                .map_err(|e| failed(e.into()))?;
            run.advance(requests, &mut Nothing).map_err(|e| failed(e.into()))?;
            Ok(run.report().foreground)
        }
    }
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let depths: Vec<u32> = lab.pick(vec![2, 4, 6, 10, 14, 20], (2..=20).collect());
    let requests = lab.pick(5_000, 20_000);
    let cases = SCHEDULERS.iter().flat_map(|(_, scheduler)| depths.iter().map(|depth| (*scheduler, *depth)));
    let runs = lab.map_seeds(cases, lab.pick(3, 5), |(scheduler, depth), seed| {
        measure(*scheduler, *depth, requests, seed)
    })?;
    let by_scheduler: Vec<&[Vec<ForegroundReport>]> = runs.chunks(depths.len()).collect();
    let response = |scheduler: usize, at: usize| spread(&by_scheduler[scheduler][at], |r| r.mean_response_ms);
    let differences: Vec<Spread> = by_scheduler[EXTERNAL]
        .iter()
        .zip(by_scheduler[FIRMWARE])
        .map(|(external, firmware)| {
            let pairs = external.iter().zip(firmware);
            let off = pairs.map(|(a, b)| (a.mean_response_ms / b.mean_response_ms - 1.0) * 100.0);
            Spread::of(&off.collect::<Vec<_>>())
        })
        .collect();
    let largest = differences.iter().map(|d| d.mean.abs()).fold(0.0, f64::max);
    let last = depths.len() - 1;
    let means: Vec<String> = SCHEDULERS
        .iter()
        .enumerate()
        .map(|(i, (name, _))| format!("{name} {} ms", response(i, last)))
        .collect();
    let claim =
        Claim::new("fast02-fig8", "external SPTF overlaps the disk firmware's line at every queue depth")
            .measure("largest difference", largest, "%", Band::AtMost(3.0))
            .note(format!("At {} outstanding: {}.", depths[last], means.join(", ")));
    let rows = depths.iter().zip(&differences).map(|(depth, d)| vec![depth.to_string(), d.to_string()]);
    let table = Figure {
        id: "fast02-fig8-difference".into(),
        title: "How much slower SPTF is outside than the drive's own".into(),
        x: Axis::default(),
        y: Axis::default(),
        kind: Kind::Table {
            columns: vec!["outstanding".into(), "difference (%)".into()],
            rows: rows.collect(),
        },
    };
    let lines = SCHEDULERS.iter().enumerate().map(|(i, (name, _))| {
        let points = depths.iter().enumerate().map(|(at, &depth)| {
            let Spread { mean, min, max, .. } = response(i, at);
            Point { x: f64::from(depth), y: mean, spread: Some((min, max)) }
        });
        Line { label: (*name).into(), points: points.collect() }
    });
    Ok(Outcome {
        figures: vec![
            Figure {
                id: "fast02-fig8".into(),
                title: "Mean response time by queue depth".into(),
                x: Axis::new("requests outstanding"),
                y: Axis::new("mean response time (ms)"),
                kind: Kind::Lines(lines.collect()),
            },
            table,
        ],
        claims: vec![claim],
        notes: Vec::new(),
    })
}
