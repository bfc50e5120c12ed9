//! FAST'02, section 5.4: what scheduling outside the drive costs the processor.

use crate::outside::{POLICIES, Told, Trial, hundredths};
use crate::set_up::{ATLAS_10K, CHEETAH_18LP};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread, spread,
};
use drive::Behaviour;
use std::time::Instant as Clock;

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-cpu",
    paper: Paper::Fast02,
    reproduces: "section 5.4",
    title: "Processor time of the scheduler outside the drive",
    set_up: "Atlas 10K as a black box with the default noise, OLTP, MPL 10; with SPTF-SW60% also a Cheetah 18LP \
             (synthetic), and both with the profile that a probe finds. Time on one core of this machine of a run \
             with a scan less that of a run without, which also simulates the drive, against the time that the drive \
             would have taken: an upper bound on the freeblock scheduler's share of one core.",
    claims: &["fast02-cpu"],
    timed: true,
    run,
};

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let requests = lab.pick(20_000, 100_000);
    let mut claim = Claim::new("fast02-cpu", "8-9% of a 550 MHz CPU");
    let atlas = Told::truth(ATLAS_10K)?;
    let mut points = Vec::new();
    for (at, (policy, name)) in POLICIES.into_iter().enumerate() {
        let with = Trial::paper(policy, hundredths(30), requests);
        let without = Trial { scan: false, ..with };
        let mut costs = Vec::new();
        for seed in lab.seeds(3) {
            let (with, without) = (timed(&with, &atlas, seed)?, timed(&without, &atlas, seed)?);
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
    let others = [
        ("Atlas 10K, probed profile", ATLAS_10K, true),
        ("Cheetah 18LP", CHEETAH_18LP, false),
        ("Cheetah 18LP, probed profile", CHEETAH_18LP, true),
    ];
    for (what, name, probed) in others {
        let told =
            if probed { Told::probed(name, Behaviour::noisy(), lab.seed()) } else { Told::truth(name) }?;
        let with = Trial::paper(POLICIES[1].0, hundredths(30), requests);
        let without = Trial { scan: false, ..with };
        let mut costs = Vec::new();
        for seed in lab.seeds(3) {
            let (with, without) = (timed(&with, &told, seed)?, timed(&without, &told, seed)?);
            costs.push(100.0 * (with.0 - without.0) / with.1);
        }
        let what = format!("{what}, {}", POLICIES[1].1);
        claim = claim.measure(&what, spread(&costs, |c| *c), "% of a core", Band::AtMost(9.0));
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
fn timed(trial: &Trial, told: &Told, seed: u64) -> Result<(f64, f64), LabError> {
    let began = Clock::now();
    let measured = trial.run_told(told, seed)?;
    Ok((began.elapsed().as_secs_f64(), measured.report.simulated.as_secs_f64()))
}
