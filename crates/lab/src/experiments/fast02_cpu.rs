//! FAST'02, section 5.4: what scheduling outside the drive costs the processor.

use crate::outside::{POLICIES, Trial, hundredths};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread, spread,
};
use std::time::Instant as Clock;

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-cpu",
    paper: Paper::Fast02,
    reproduces: "section 5.4",
    title: "Processor time of the scheduler outside the drive",
    set_up: "Atlas 10K as a black box with the default noise, OLTP, MPL 10. Time on one core of this machine of a run \
             with a scan less that of a run without, which also simulates the drive, against the time that the drive \
             would have taken: an upper bound on the freeblock scheduler's share of one core.",
    claims: &["fast02-cpu"],
    timed: true,
    run,
};

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let requests = lab.pick(20_000, 100_000);
    let mut claim = Claim::new("fast02-cpu", "8-9% of a 550 MHz CPU");
    let mut points = Vec::new();
    for (at, (policy, name)) in POLICIES.into_iter().enumerate() {
        let with = Trial::paper(policy, hundredths(30), requests);
        let without = Trial { scan: false, ..with };
        let mut costs = Vec::new();
        for seed in lab.seeds(3) {
            let (with, without) = (timed(&with, seed)?, timed(&without, seed)?);
            costs.push((100.0 * (with.0 - without.0) / with.1, 1e6 * (with.0 - without.0) / requests as f64));
        }
        let share: Spread = spread(&costs, |c| c.0);
        claim = claim.measure(name, share, "% of a core", Band::AtMost(9.0)).measure(
            &format!("{name}, a request"),
            spread(&costs, |c| c.1),
            " us",
            Band::AtMost(50.0),
        );
        points.push(Point { x: at as f64, y: share.mean, spread: Some((share.min, share.max)) });
    }
    let figure = Figure {
        id: "fast02-cpu".into(),
        title: EXPERIMENT.title.into(),
        x: Axis::new("SPTF, SPTF-SW60%, SSTF"),
        y: Axis::new("% of one core"),
        kind: Kind::Lines(vec![Line { label: "freeblock scheduler".into(), points }]),
    };
    let note = "The design's budget is 50 us a decision in the 99th percentile; here the mean, with all that the simulated \
                drive does for detours.";
    Ok(Outcome { figures: vec![figure], claims: vec![claim.note(note)], notes: Vec::new() })
}

/// Seconds of this machine, and of the drive.
fn timed(trial: &Trial, seed: u64) -> Result<(f64, f64), LabError> {
    let began = Clock::now();
    let measured = trial.run(seed)?;
    Ok((began.elapsed().as_secs_f64(), measured.report.simulated.as_secs_f64()))
}
