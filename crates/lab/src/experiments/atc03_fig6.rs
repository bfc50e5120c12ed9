//! ATC'03, figure 6 and Table 2: which distances need not be probed.

use crate::set_up::drive;
use crate::smtf::{Bare, Bench, FromOutside, Scheduler, Tally, Week, probed};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper};
use mimic::{CheckPoints, Metric, ProbePlan, ProbeReport};
use std::sync::Arc;
use units::{Bytes, Sectors};

pub const EXPERIMENT: Experiment = Experiment {
    id: "atc03-fig6",
    paper: Paper::Atc03,
    reproduces: "figure 6 and Table 2",
    title: "Time at the disk with interpolated distances",
    set_up: "As figure 2, at a compression of 20; SMTF by the mean of 100 samples (20 when quick); distances interpolated where N check points \
             are within an allowed error, and by Table 2, which takes more check points for larger errors. Distances at a \
             grain of 1 KB; the lines probe those that the trace has, Table 2 all of the disk as well.",
    claims: &["atc03-fig6"],
    timed: false,
    run,
};

const POINTS: [u32; 6] = [1, 2, 3, 4, 5, 10];
const ERRORS_PERCENT: [u32; 6] = [1, 2, 5, 10, 15, 20];

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let disk = drive("mimic-base")?;
    let capacity = disk.layout().capacity();
    let week = Week::hp_or_stand_in(capacity, lab.seed())?.first(lab.pick(6_000, usize::MAX));
    let factor = week.factor(20.0);
    let samples = lab.pick(20, 100);
    let bench = Bench::new(&disk, samples, lab.seed());
    let reach = Some(week.reach());
    let try_out = |check_points, reach, samples| {
        let plan = ProbePlan {
            samples,
            check_points,
            reach,
            // No bound: what interpolation saves is the question.
            memory: Bytes::new(1 << 40),
            seed: lab.seed(),
            ..ProbePlan::new(capacity, Sectors::new(2))
        };
        let (table, report) = probed(&mut Bare::new(Arc::clone(&disk)), plan)?;
        let tally = bench.run_with(FromOutside::smtf(table), &week, factor)?;
        Ok::<_, LabError>((tally, report))
    };
    let points: &[u32] = lab.pick(&[1, 10], &POINTS);
    let errors: &[u32] = lab.pick(&[1, 20], &ERRORS_PERCENT);
    let jobs: Vec<(u32, u32)> = points.iter().flat_map(|n| errors.iter().map(|e| (*n, *e))).collect();
    let runs = lab.map(jobs, |(n, e)| try_out(CheckPoints::fixed(n, e * 100), reach, samples))?;
    let flat = lab.map([Scheduler::GreedyOptimal, Scheduler::Smtf(Metric::Mean), Scheduler::CLook], |s| {
        bench.run(s, &week, factor)
    })?;
    let [optimal, all, c_look] = flat.as_slice() else {
        return Err(LabError::new("what it is compared with", "not as many as expected"));
    };
    let tables = lab.map([(None, samples), (reach, samples), (reach, 10)], |(reach, samples)| {
        try_out(CheckPoints::TABLE_2, reach, samples)
    })?;
    let [(whole, whole_report), (near, near_report), (few, few_report)] = tables.as_slice() else {
        return Err(LabError::new("Table 2", "not as many as expected"));
    };
    let cost = |tally: &Tally| (seconds(tally) / seconds(all) - 1.0) * 100.0;
    let share = |report: &ProbeReport| report.interpolated() * 100.0;
    let claim = Claim::new("atc03-fig6", "with Table 2 90% of the distances are interpolated, scheduling virtually unchanged")
        .measure("interpolated", share(whole_report), "%", Band::AtLeast(85.0))
        .measure("slower than with all distances probed", cost(whole), "%", Band::AtMost(1.5))
        .note(format!(
            "Table 2 on all of the disk: {} of {} distances probed. Of the distances that the trace has, {:.1}% are \
             interpolated, {:.2}% slower; with 10 samples of each {:.1}%, {:.2}% slower. All probed, with {samples} samples, \
             is {:.1}% behind greedy-optimal, C-LOOK {:.1}% behind that.",
            whole_report.probed,
            whole_report.distances,
            share(near_report),
            cost(near),
            share(few_report),
            cost(few),
            (seconds(all) / seconds(optimal) - 1.0) * 100.0,
            cost(c_look)
        ));
    let lines = |of: &dyn Fn(&(Tally, ProbeReport)) -> f64| -> Vec<Line> {
        let rows = points.iter().zip(runs.chunks(errors.len()));
        rows.map(|(n, row)| {
            let points = errors.iter().zip(row).map(|(e, run)| (f64::from(*e), of(run)));
            Line::new(&format!("N = {n}"), points)
        })
        .collect()
    };
    let level = |label: &str, tally| Line::new(label, [1.0, 20.0].map(|x| (x, seconds(tally))));
    let mut times = lines(&|run| seconds(&run.0));
    times.extend([level("Table 2", near), level("all probed", all), level("greedy-optimal", optimal)]);
    let figure = |id: &str, title: &str, y, lines| Figure {
        id: id.into(),
        title: title.into(),
        x: Axis::new("allowed error of the check points (%)"),
        y: Axis::new(y),
        kind: Kind::Lines(lines),
    };
    Ok(Outcome {
        figures: vec![
            figure(EXPERIMENT.id, EXPERIMENT.title, "time at the disk (s)", times),
            figure(
                "atc03-fig6-share",
                "Distances interpolated",
                "share of the trace's distances (%)",
                lines(&|run| share(&run.1)),
            ),
        ],
        claims: vec![claim],
        notes: vec![format!("The trace is {}.", week.what)],
    })
}

fn seconds(tally: &Tally) -> f64 {
    tally.busy.as_secs_f64()
}
