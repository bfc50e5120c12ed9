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

/// Tables by each rule.
const DRAWS: u64 = 5;
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
    let try_out = |check_points, reach, samples, seed| {
        let plan = ProbePlan {
            samples,
            check_points,
            reach,
            // No bound: what interpolation saves is the question.
            memory: Bytes::new(1 << 40),
            seed,
            ..ProbePlan::new(capacity, Sectors::new(2))
        };
        let (table, report) = probed(&mut Bare::new(Arc::clone(&disk)), plan)?;
        let tally = bench.run_with(FromOutside::smtf(table), &week, factor)?;
        Ok::<_, LabError>((tally, report))
    };
    let points: &[u32] = lab.pick(&[1, 10], &POINTS);
    let errors: &[u32] = lab.pick(&[1, 20], &ERRORS_PERCENT);
    let jobs: Vec<(u32, u32)> = points.iter().flat_map(|n| errors.iter().map(|e| (*n, *e))).collect();
    let runs = lab.map(jobs, |(n, e)| try_out(CheckPoints::fixed(n, e * 100), reach, samples, lab.seed()))?;
    let flat = lab.map([Scheduler::GreedyOptimal, Scheduler::Smtf(Metric::Mean), Scheduler::CLook], |s| {
        bench.run(s, &week, factor)
    })?;
    let [optimal, all, c_look] = flat.as_slice() else {
        return Err(LabError::new("what it is compared with", "not as many as expected"));
    };
    let tables = lab.map([(reach, samples), (reach, 10)], |(reach, samples)| {
        try_out(CheckPoints::TABLE_2, reach, samples, lab.seed())
    })?;
    let [(near, near_report), (few, few_report)] = tables.as_slice() else {
        return Err(LabError::new("Table 2", "not as many as expected"));
    };
    let cost = |tally: &Tally| (seconds(tally) / seconds(all) - 1.0) * 100.0;
    let share = |report: &ProbeReport| report.interpolated() * 100.0;
    // Which ranges pass by chance is a matter of the check points drawn: several tables of the whole disk.
    let rules = [CheckPoints::TABLE_2, CheckPoints::table_2_from(4), CheckPoints::CAREFUL];
    let draws: Vec<(CheckPoints, u64)> =
        rules.into_iter().flat_map(|rule| (0..DRAWS).map(move |draw| (rule, draw))).collect();
    let wholes =
        lab.map(draws, |(rule, draw)| try_out(rule, None, samples, lab.seed().wrapping_add(draw)))?;
    let of_rule: Vec<Wholes> = wholes
        .chunks(DRAWS as usize)
        .map(|runs| {
            let costs: Vec<f64> = runs.iter().map(|(tally, _)| cost(tally)).collect();
            let shares: Vec<f64> = runs.iter().map(|(_, report)| share(report)).collect();
            let probed = runs.iter().map(|(_, report)| report.probed).sum::<u64>() / DRAWS;
            Wholes { costs, shares, probed }
        })
        .collect();
    let [whole, from_four, careful] = of_rule.as_slice() else {
        return Err(LabError::new("tables of the whole disk", "not as many as expected"));
    };
    let distances = wholes.first().map_or(0, |(_, report)| report.distances);
    let claim = Claim::new("atc03-fig6", "with Table 2 90% of the distances are interpolated, scheduling virtually unchanged")
        .measure("interpolated, mean of five tables", mean(&whole.shares), "%", Band::AtLeast(85.0))
        .measure("slower than with all distances probed, mean of five tables", mean(&whole.costs), "%", Band::AtMost(1.5))
        .note(format!(
            "Table 2 on all of the disk: {} Of so many ranges some that are not straight have their first check point within \
             1% by chance, and pass whole. From four check points on: {} With those of `careful`: {} Of the distances that the trace has, {:.1}% are \
             interpolated, {:.2}% slower; with 10 samples of each {:.1}%, {:.2}% slower. All probed, with {samples} samples, \
             is {:.1}% behind greedy-optimal, C-LOOK {:.1}% behind that.",
            whole.told(distances),
            from_four.told(distances),
            careful.told(distances),
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

/// Tables of the whole disk, by one rule: what they cost and what of them is interpolated, in percent.
struct Wholes {
    costs: Vec<f64>,
    shares: Vec<f64>,
    probed: u64,
}

impl Wholes {
    fn told(&self, distances: u64) -> String {
        let costs: Vec<String> = self.costs.iter().map(|cost| format!("{cost:.2}%")).collect();
        format!(
            "{} of {distances} distances probed, {:.1}% interpolated, {:.2}% slower ({}).",
            self.probed,
            mean(&self.shares),
            mean(&self.costs),
            costs.join(", ")
        )
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn seconds(tally: &Tally) -> f64 {
    tally.busy.as_secs_f64()
}
