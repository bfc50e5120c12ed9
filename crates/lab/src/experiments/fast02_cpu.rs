//! FAST'02, section 5.4: the processor time of scheduling outside the drive.

use crate::knowledge::{self, Knowledge, KnownDrive};
use crate::outside::{Measured, POLICIES, Trial, hundredths};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread, spread,
};
use scheduler::{OutsideConfig, Overheads};
use std::time::Instant as Clock;
use units::Duration;

pub const EXPERIMENT: Experiment = Experiment {
    id: "fast02-cpu",
    paper: Paper::Fast02,
    reproduces: "section 5.4",
    title: "Processor time of the scheduler outside the drive",
    set_up: "Atlas 10K as a black box with the default noise, OLTP, MPL 10: the paper's scheduler at 0.3 ms, and all ideas as they \
             are by default; the former also on a Cheetah 18LP (synthetic), and both with the profile that a probe finds over the same black box (quick: without its noise). Time \
             on one core of this machine of a run \
             with a scan less that of a run without, which also simulates the drive, against the time that the drive \
             would have taken: an upper bound on the freeblock scheduler's share of one core. Beside it the work that was \
             done, which no other load of the machine changes.",
    claims: &["fast02-cpu"],
    timed: true,
    run,
};

/// Makes the configuration of a scheduler outside the drive from the costs of commands and the conservatism.
type SchedulerConfig = fn(Overheads, Duration) -> OutsideConfig;

/// The paper's scheduler, and ours beyond the paper, each with the words that follow the policy's name in labels.
const SCHEDULERS: [(SchedulerConfig, &str); 2] =
    [(OutsideConfig::paper, ""), (|overheads, _| OutsideConfig::beyond(overheads), ", all ideas")];

/// The processor time of a scan with one seed: percent of a processor core, and microseconds a foreground request.
struct Cost {
    share: f64,
    us: f64,
    with: Measured,
}

impl Cost {
    fn measure(with: &Trial, known_drive: &KnownDrive, seed: u64) -> Result<Self, LabError> {
        let without = Trial { scan: false, ..*with };
        let (measured, took) = timed(with, known_drive, seed)?;
        let (_, alone) = timed(&without, known_drive, seed)?;
        let drive_s = measured.report.simulated.as_secs_f64();
        Ok(Self {
            share: 100.0 * (took - alone) / drive_s,
            us: 1e6 * (took - alone) / with.requests as f64,
            with: measured,
        })
    }
}

/// Describes the planner's work for each foreground request, which is the same on every machine.
fn work(costs: &[Cost], requests: u64) -> String {
    let of = |f: &dyn Fn(&Cost) -> u64| spread(costs, |cost| f(cost) as f64 / requests as f64);
    let planner = |cost: &Cost| cost.with.planner;
    format!(
        "{} gaps looked at, {} detours taken, {} tracks examined; at most {} tracks for one gap",
        of(&|c| planner(c).gaps),
        of(&|c| planner(c).detours),
        of(&|c| planner(c).tracks),
        costs.iter().map(|c| planner(c).tracks_max).max().unwrap_or(0),
    )
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let requests = lab.pick(20_000, 100_000);
    let mut claim = Claim::new("fast02-cpu", "8-9% of a 550 MHz CPU");
    let mut lines = Vec::new();
    let mut works = Vec::new();
    for known_drive in knowledge::all(lab, &Knowledge::FIGURES)? {
        let schedulers = if known_drive.is_the_papers() { &SCHEDULERS[..] } else { &SCHEDULERS[..1] };
        for &(scheduler, called) in schedulers {
            let mut points = Vec::new();
            for (at, (policy, name)) in POLICIES.into_iter().enumerate() {
                let paper = Trial::paper(policy, hundredths(30), requests);
                let with = Trial { outside: Some(scheduler), ..paper };
                // Runs are timed one at a time, because parallel runs would slow each other down.
                let costs = lab
                    .seeds(known_drive.seeds(lab.pick((3, 1), (3, 3))))
                    .map(|seed| Cost::measure(&with, &known_drive, seed))
                    .collect::<Result<Vec<_>, _>>()?;
                let share: Spread = spread(&costs, |c| c.share);
                let what = if known_drive.is_the_papers() {
                    format!("{name}{called}")
                } else {
                    format!("{}, {name}", known_drive.label())
                };
                let us = spread(&costs, |c| c.us);
                claim = claim.measure(&what, share, "% of a core", Band::AtMost(9.0));
                if known_drive.is_the_papers() {
                    claim = claim.measure(&format!("{what}, a request"), us, " us", Band::AtMost(50.0));
                }
                works.push(format!("{what}: {us} us a request, {}", work(&costs, requests)));
                points.push(Point { x: at as f64, y: share.mean, spread: Some((share.min, share.max)) });
            }
            lines.push(Line { label: format!("{}{called}", known_drive.label()), points });
        }
    }
    let figure = Figure {
        id: "fast02-cpu".into(),
        title: EXPERIMENT.title.into(),
        x: Axis::named("foreground policy", POLICIES.map(|(_, name)| name)),
        y: Axis::new("% of one core"),
        kind: Kind::Lines(lines),
    };
    let note = format!(
        "The design's budget is 50 us a decision in the 99th percentile; here the mean, with all that the simulated \
         drive does for detours; `cargo bench -p freeblock-sim --bench outside` has the percentiles. A time is of this machine with whatever else it does; the work is not: {}.",
        works.join(". ")
    );
    Ok(Outcome { figures: vec![figure], claims: vec![claim.note(note)], notes: Vec::new() })
}

/// Runs a trial; also returns the seconds that the run took on this machine.
fn timed(trial: &Trial, known_drive: &KnownDrive, seed: u64) -> Result<(Measured, f64), LabError> {
    let began = Clock::now();
    let measured = trial.run_on(known_drive, seed)?;
    Ok((measured, began.elapsed().as_secs_f64()))
}
