//! ATC'03, figure 2: the summary (mean, median, ...) of a distance's samples that SMTF's table should keep.

use crate::set_up::drive;
use crate::smtf::{Bench, COMPRESSION_FACTOR, Scheduler, SmtfTally, Week};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper};
use mimic::Metric;

pub const EXPERIMENT: Experiment = Experiment {
    id: "atc03-fig2",
    paper: Paper::Atc03,
    reproduces: "figure 2",
    title: "Time at the disk by what the table keeps of a distance's samples",
    set_up: "The base disk of Table 1 without electronics; the HP week at hand (a stand-in where it is not found) at a \
             compression of 20 for the claim, and compressed to as many requests a day as the paper's trace has at each \
             compression for the figure; 100 samples of each distance, none interpolated.",
    claims: &["atc03-fig2"],
    timed: false,
    run,
};

/// The number of samples of each distance.
const SAMPLES: u32 = 100;

fn schedulers() -> Vec<Scheduler> {
    let metrics = [Metric::Mean, Metric::Median, Metric::Maximum, Metric::Probabilistic, Metric::Minimum];
    let smtf = metrics.map(Scheduler::Smtf);
    [Scheduler::GreedyOptimal].into_iter().chain(smtf).chain(Scheduler::TRADITIONAL).collect()
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let disk = drive("mimic-base")?;
    let bench = Bench::new(&disk, SAMPLES, lab.seed());
    let week = Week::hp_or_stand_in(disk.layout().capacity(), lab.seed())?;
    let week = week.first(lab.pick(12_000, usize::MAX));
    let compressions: &[f64] =
        lab.pick(&[1.0, COMPRESSION_FACTOR], &[1.0, 5.0, 10.0, COMPRESSION_FACTOR, 30.0, 40.0]);
    let schedulers = schedulers();
    let jobs: Vec<(f64, Scheduler)> =
        compressions.iter().flat_map(|x| schedulers.iter().map(|s| (*x, *s))).collect();
    let tallies = lab.map(jobs, |(x, scheduler)| bench.run(scheduler, &week, week.factor(x)))?;
    let rows: Vec<(f64, &[SmtfTally])> =
        compressions.iter().copied().zip(tallies.chunks(schedulers.len())).collect();
    let to_the_letter = lab.map(schedulers.clone(), |s| bench.run(s, &week, COMPRESSION_FACTOR))?;
    let lines = schedulers.iter().enumerate().map(|(i, scheduler)| {
        let points = rows.iter().filter_map(|(x, row)| Some((*x, row.get(i)?.busy.as_secs_f64())));
        Line::new(&scheduler.to_string(), points)
    });
    let claimed =
        Comparison::of(&to_the_letter).ok_or_else(|| LabError::new("the claim", "no runs of it"))?;
    let claim = Claim::new(
        "atc03-fig2",
        "mean best, then median, maximum, probabilistic, minimum; best within 7% of greedy-optimal; all beat FCFS, C-LOOK, \
         SSTF",
    )
    .measure("mean slower than greedy-optimal", claimed.mean, "%", Band::AtMost(8.0))
    .measure("the next SMTF slower than mean", claimed.next, "%", Band::AtLeast(0.0))
    .measure("best of FCFS, C-LOOK, SSTF slower than the worst SMTF but the minimum", claimed.ahead, "%", Band::AtLeast(0.0))
    .note(note(&week, &rows, &to_the_letter));
    Ok(Outcome {
        figures: vec![Figure {
            id: EXPERIMENT.id.into(),
            title: EXPERIMENT.title.into(),
            x: Axis::new("compression of a trace of 150,000 requests a day"),
            y: Axis::new("time at the disk (s)"),
            kind: Kind::Lines(lines.collect()),
        }],
        claims: vec![claim],
        notes: vec![format!("The trace is {}.", week.what)],
    })
}

/// The differences between schedulers at one compression of the trace, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Comparison {
    mean: f64,
    next: f64,
    ahead: f64,
    /// How much slower the best traditional scheduler is than SMTF by the minimum of each distance's samples.
    minimum: f64,
}

impl Comparison {
    /// Compares one run of each scheduler, in the order of [`schedulers`].
    fn of(row: &[SmtfTally]) -> Option<Self> {
        let [optimal, mean, others @ .., minimum, fcfs, sstf, c_look] = row else { return None };
        let time = |t: &SmtfTally| t.busy.as_secs_f64();
        let traditional = time(fcfs).min(time(sstf)).min(time(c_look));
        let rest = others.iter().map(time);
        let percent = |a: f64, b: f64| (a / b - 1.0) * 100.0;
        Some(Self {
            mean: percent(time(mean), time(optimal)),
            next: percent(rest.clone().chain([time(minimum)]).fold(f64::INFINITY, f64::min), time(mean)),
            ahead: percent(traditional, rest.chain([time(mean)]).fold(0.0, f64::max)),
            minimum: percent(traditional, time(minimum)),
        })
    }
}

fn note(week: &Week, rows: &[(f64, &[SmtfTally])], to_the_letter: &[SmtfTally]) -> String {
    let queue = |row: &[SmtfTally]| row.first().map_or(f64::NAN, SmtfTally::mean_queue);
    let described: Vec<String> = rows
        .iter()
        .filter_map(|(x, row)| {
            let c = Comparison::of(row)?;
            Some(format!(
                "{x} (the trace at hand at {:.0}; {:.1} requests to choose from): mean {:.1}% slower than greedy-optimal; the best of FCFS, \
                 C-LOOK and SSTF {:.1}% slower than the worst SMTF except the minimum, {:.1}% slower than the minimum",
                week.factor(*x),
                queue(row),
                c.mean,
                c.ahead,
                c.minimum
            ))
        })
        .collect();
    let minimum = Comparison::of(to_the_letter).map_or(f64::NAN, |c| c.minimum);
    format!(
        "The paper's trace has {:.0} times as many requests a day as the one at hand, so at a compression of {COMPRESSION_FACTOR} the \
         policies choose from {:.1} requests, and the best of FCFS, C-LOOK and SSTF is {minimum:.1}% slower than SMTF by the \
         minimum (below zero: faster). With as many requests a day as the paper's trace has at a compression of {}.",
        week.factor(1.0),
        queue(to_the_letter),
        described.join("; ")
    )
}
