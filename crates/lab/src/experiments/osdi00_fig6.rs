//! OSDI'00, figure 6: policies between SPTF and SSTF leave much rotational latency and lengthen accesses little.

use crate::set_up::{ATLAS_10K, drive, head_figure, latency, mean_head_bar, random_run};
use crate::{
    Axis, Band, Bar, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread,
};
use scheduler::Config;
use scheduler::policy::{PolicyName, SeekWeight};
use sim::Report;
use workload::RandomConfig;

pub const EXPERIMENT: Experiment = Experiment {
    id: "osdi00-fig6",
    paper: Paper::Osdi00,
    reproduces: "figure 6",
    title: "Disk head usage and access time with SPTF-SWn%",
    set_up: "Atlas 10K, 10,000 random requests of 4 KB, 20 outstanding; n from 0 (SPTF) to infinity (SSTF). The same \
             seeds for every n.",
    claims: &["osdi00-fig6a", "osdi00-fig6b"],
    timed: false,
    run,
};

/// The values of n in SPTF-SWn%; `None` for infinity.
const WEIGHTS: [Option<u16>; 12] = [
    Some(0),
    Some(10),
    Some(20),
    Some(30),
    Some(40),
    Some(50),
    Some(60),
    Some(80),
    Some(100),
    Some(150),
    Some(200),
    None,
];

/// The index of n = 40 in [`WEIGHTS`].
const SW40_INDEX: usize = 4;

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = drive(ATLAS_10K)?;
    let load = RandomConfig::new(drive.layout().capacity(), drive.sector_bytes());
    let runs = lab.map_seeds(WEIGHTS, lab.pick(5, 10), |&n, seed| {
        let policy = PolicyName::SptfSw(n.map_or(SeekWeight::UNLIMITED, SeekWeight::percent));
        random_run(&drive, Config::default().with_policy(policy), load, 20, seed)
    })?;
    let sstf = WEIGHTS.len() - 1;
    let claims = vec![
        Claim::new("osdi00-fig6a", "SW40: latency 36% vs SPTF's 22% (+66%)")
            .measure("SW40", latency(&runs[SW40_INDEX]), "%", Band::Within(33.0, 39.0))
            .note(format!("SPTF has {}%.", latency(&runs[0]))),
        Claim::new("osdi00-fig6b", "SW40 costs 6% in mean access time, SSTF 25%")
            .measure("SW40", cost(&runs[SW40_INDEX], &runs[0]), "%", Band::Within(3.0, 8.0))
            .measure("SSTF", cost(&runs[sstf], &runs[0]), "%", Band::Within(18.0, 28.0)),
    ];
    let labels = WEIGHTS.map(|n| n.map_or("inf".into(), |n| n.to_string()));
    let usage = labels.iter().zip(&runs).map(|(n, r)| mean_head_bar(n, r)).collect();
    let access =
        labels.iter().zip(&runs).map(|(n, r)| Bar { label: n.clone(), values: vec![mean_access(r)] });
    let x = "n of SPTF-SWn% (%)";
    let costs = WEIGHTS.iter().zip(&runs).filter_map(|(n, r)| {
        let Spread { mean, min, max, .. } = cost(r, &runs[0]);
        n.map(|n| Point { x: f64::from(n), y: mean, spread: Some((min, max)) })
    });
    Ok(Outcome {
        figures: vec![
            head_figure("osdi00-fig6a", "Disk head usage with SPTF-SWn%", x, usage),
            Figure {
                id: "osdi00-fig6b".into(),
                title: "Mean access time with SPTF-SWn%".into(),
                x: Axis::new(x),
                y: Axis::new("mean access time (ms)"),
                kind: Kind::Stacked { parts: vec!["access time".into()], bars: access.collect() },
            },
            Figure {
                id: "osdi00-fig6b-cost".into(),
                title: "Cost of SPTF-SWn% compared with SPTF".into(),
                x: Axis::new(x),
                y: Axis::new("longer mean access time (%)"),
                kind: Kind::Lines(vec![Line { label: "SPTF-SWn%".into(), points: costs.collect() }]),
            },
        ],
        claims,
        notes: Vec::new(),
    })
}

fn mean_access(runs: &[Report]) -> f64 {
    runs.iter().map(|r| r.foreground.mean_access_ms).sum::<f64>() / runs.len() as f64
}

/// Returns how much longer an access takes than in `base`, seed by seed, in percent.
fn cost(runs: &[Report], base: &[Report]) -> Spread {
    let ratios =
        runs.iter().zip(base).map(|(r, b)| r.foreground.mean_access_ms / b.foreground.mean_access_ms);
    Spread::of(&ratios.map(|ratio| (ratio - 1.0) * 100.0).collect::<Vec<_>>())
}
