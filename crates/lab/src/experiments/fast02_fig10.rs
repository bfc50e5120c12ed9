//! FAST'02, figure 10: what a scheduler outside the drive gets of what one inside would, and where the rest goes.

use crate::outside::{Measured, POLICIES, Trial, exact, hundredths, percent_of};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, spread,
};
use scheduler::OutsideConfig;

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-fig10",
    paper: Paper::Fast02,
    reproduces: "figure 10",
    title: "Free bandwidth outside the drive and in it, against conservatism",
    set_up: "Atlas 10K; OLTP, MPL 10, SPTF-SW60%; a scan of the whole disk in blocks of 4 KB (quick: its first 25,000 \
             requests). In the drive; by commands to an exact drive with the paper's restrictions, at each conservatism; \
             and the paper's scheduler outside the black box with the default noise.",
    claims: &["fast02-fig10", "fast02-fig10b"],
    timed: false,
    run,
};

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let margins: Vec<u64> = lab.pick(vec![0, 30, 40], vec![0, 10, 20, 30, 40, 50, 60]);
    let requests = lab.pick(25_000, 1_000_000);
    let policy = POLICIES[1].0;
    let measured = |m: &u64| Trial::paper(policy, hundredths(*m), requests);
    let no_track = |m: &u64| Trial { behaviour: exact(), outside: Some(OutsideConfig::paper), ..measured(m) };
    let mut trials = vec![Trial { outside: None, ..measured(&0) }];
    trials.extend(margins.iter().map(measured));
    trials.extend(margins.iter().map(no_track));
    let mut runs = lab.map_seeds(trials, lab.pick(2, 3), |trial, seed| trial.run(seed))?.into_iter();
    let inside = runs.next().unwrap_or_default();
    let mut next = || runs.by_ref().take(margins.len()).collect::<Vec<_>>();
    let (external, restricted) = (next(), next());
    let at = |m: u64| margins.iter().position(|x| *x == m).unwrap_or_default();
    let line = |label: &str, of: &[Vec<Measured>]| Line {
        label: label.into(),
        points: margins
            .iter()
            .zip(of)
            .map(|(&m, runs)| {
                let y = spread(runs, Measured::mb_per_s);
                Point { x: m as f64 / 100.0, y: y.mean, spread: Some((y.min, y.max)) }
            })
            .collect(),
    };
    let level = spread(&inside, Measured::mb_per_s).mean;
    let ends = [0, margins.last().copied().unwrap_or(0)].map(|m| (m as f64 / 100.0, level));
    let figure = Figure {
        id: "fast02-fig10".into(),
        title: EXPERIMENT.title.into(),
        x: Axis::new("seek conservatism (ms)"),
        y: Axis::new("MB/s"),
        kind: Kind::Lines(vec![
            Line::new("in the drive", ends),
            line("simulation, no track", &restricted),
            line("external scheduler", &external),
        ]),
    };
    let m = at(30);
    let of = |runs: &[Measured]| percent_of(runs, &inside, Measured::mb_per_s);
    let mean = |runs: &[Measured]| spread(runs, Measured::mb_per_s).mean;
    let lost = |from: f64, to: f64| 100.0 * (from - to) / level;
    let apart = |at: usize| 100.0 * (mean(&restricted[at]) / mean(&external[at]) - 1.0);
    let claims = vec![
        Claim::new("fast02-fig10", "65% of the in-drive free bandwidth, 3.1 MB/s, 37 scans a day")
            .measure("at 0.3 ms", of(&external[m]), "% of the in-drive", Band::AtLeast(65.0))
            .note(format!(
                "SPTF-SW60%: {:.2} MB/s outside at 0.3 ms, {:.1} scans a day; {level:.2} MB/s in the drive. At 0.4 ms: {}%. Of \
                 what is lost noise takes next to nothing: by the same commands to an exact drive it is {}% at 0.3 ms. That \
                 is the paper's restrictions against a planner in the drive that has none of them: with no conservatism they \
                 leave {}%.",
                mean(&external[m]),
                spread(&external[m], |r| r.report.background.scans_per_day).mean,
                of(&external[at(40)]),
                of(&restricted[m]),
                of(&restricted[at(0)]),
            )),
        Claim::new(
            "fast02-fig10b",
            "half conservatism, half one-command-per-track; with the same restriction simulation and measurement agree \
             within 2-3%",
        )
        .measure("conservatism of 0.3 ms costs", lost(mean(&restricted[at(0)]), mean(&restricted[m])), "% of the in-drive", Band::AtLeast(0.0))
        .measure("one command a track", lost(level, mean(&restricted[at(0)])), "% of the in-drive", Band::AtLeast(0.0))
        .measure("simulation above measurement, 0.3 ms", apart(m), "%", Band::Within(-3.0, 3.0))
        .measure("simulation above measurement, 0.4 ms", apart(at(40)), "%", Band::Within(-3.0, 3.0))
        .note(format!(
            "The rest, {:.1}% of the in-drive, is what noise takes: detours that were back too late, commands' overheads.",
            lost(mean(&restricted[m]), mean(&external[m]))
        )),
    ];
    Ok(Outcome { figures: vec![figure], claims, notes: Vec::new() })
}
