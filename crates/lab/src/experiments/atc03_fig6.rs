//! ATC'03, figure 6 and Table 2: the distances that need not be probed.

use crate::set_up::drive;
use crate::smtf::{
    Bare, Bench, COMPRESSION_FACTOR, FromOutside, LETTER, Scheduler, SmtfTally, Week, longest_line, probed,
};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper};
use mimic::{CheckPoints, Distance, Metric, Pair, ProbePlan, ProbeReport, Table};
use scheduler::{Last, Mimic as _, Request};
use std::num::NonZeroU64;
use std::sync::Arc;
use units::{Bytes, Instant, Lbn, LbnRange, Op, RequestId, Sectors};
use workload::random::Stream;

pub const EXPERIMENT: Experiment = Experiment {
    id: "atc03-fig6",
    paper: Paper::Atc03,
    reproduces: "figure 6 and Table 2",
    title: "Time at the disk with interpolated distances",
    set_up: "As figure 2, at a compression of 20; SMTF by the mean of 100 samples (20 when quick); distances interpolated where N check points \
             are within an allowed error, and by Table 2, which takes more check points for larger errors. For the claim a range \
             passes Table 2 once and is at most ten tracks long (the paper: relatively short; ten is assumed). Our own rule, ranges of any length that \
             pass twice with check points of their own each time, is a measure of its own. Distances at a \
             grain of 1 KB; the lines probe those that the trace has, Table 2 all of the disk as well.",
    claims: &["atc03-fig6"],
    timed: false,
    run,
};

const POINTS: [u32; 6] = [1, 2, 3, 4, 5, 10];
const ERRORS_PERCENT: [u32; 6] = [1, 2, 5, 10, 15, 20];

/// Our own rule: each interpolated range of distances must pass the check points of Table 2 twice (decision 0020).
const TWICE: CheckPoints = CheckPoints::TABLE_2.confirmed(2);

/// The number of interpolated values that are compared with the mean of the samples at their distances.
const COMPARED_VALUES: u64 = 2_000;

/// The result of interpolation by one rule.
struct Tried {
    tally: SmtfTally,
    report: ProbeReport,
    off: Off,
}

/// The errors of interpolated values relative to the mean of the samples at the same distance, in percent; and the
/// shares of values within 5%, and beyond 10%, in percent.
struct Off {
    mean: f64,
    within_5: f64,
    beyond_10: f64,
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let disk = drive("mimic-base")?;
    let capacity = disk.layout().capacity();
    let week = Week::hp_or_stand_in(capacity, lab.seed())?.first(lab.pick(6_000, usize::MAX));
    let samples = lab.pick(20, 100);
    let bench = Bench::new(&disk, samples, lab.seed());
    let reach = Some(week.reach());
    let try_out = |check_points, longest_line, reach: Option<Sectors>, factor| {
        let plan_reach = reach.unwrap_or(capacity);
        let plan = ProbePlan {
            samples,
            check_points,
            longest_line,
            reach,
            // Memory enough for all distances, so that only interpolation reduces the number of probes.
            memory: Bytes::new(1 << 30),
            seed: lab.seed(),
            ..ProbePlan::new(capacity, Sectors::new(2))
        };
        let (table, report) = probed(&mut Bare::new(Arc::clone(&disk)), plan)?;
        let off = off(&table, &bench, plan_reach, lab.seed());
        let tally = bench.run_with(FromOutside::smtf(table), &week, factor)?;
        Ok::<_, LabError>(Tried { tally, report, off })
    };
    let points: &[u32] = lab.pick(&[1, 10], &POINTS);
    let errors: &[u32] = lab.pick(&[1, 20], &ERRORS_PERCENT);
    let jobs: Vec<(u32, u32)> = points.iter().flat_map(|n| errors.iter().map(|e| (*n, *e))).collect();
    let runs =
        lab.map(jobs, |(n, e)| try_out(CheckPoints::fixed(n, e * 100), None, reach, COMPRESSION_FACTOR))?;
    let flat = lab.map([Scheduler::GreedyOptimal, Scheduler::Smtf(Metric::Mean), Scheduler::CLook], |s| {
        bench.run(s, &week, COMPRESSION_FACTOR)
    })?;
    let [optimal, all, c_look] = flat.as_slice() else {
        return Err(LabError::new("comparing the policies", "not as many as expected"));
    };
    let short = Some(longest_line(&disk));
    let crowded = week.factor(COMPRESSION_FACTOR);
    let jobs = [
        (LETTER, short, None, COMPRESSION_FACTOR),
        (LETTER, short, reach, COMPRESSION_FACTOR),
        (TWICE, None, None, COMPRESSION_FACTOR),
        (TWICE, None, reach, COMPRESSION_FACTOR),
        (LETTER, None, None, COMPRESSION_FACTOR),
        (LETTER, short, None, crowded),
    ];
    let tables = lab.map(jobs, |(rule, longest, reach, factor)| try_out(rule, longest, reach, factor))?;
    let [whole, near, whole_twice, near_twice, whole_long, whole_crowded] = tables.as_slice() else {
        return Err(LabError::new("Table 2", "not as many as expected"));
    };
    // The two settings for which the paper gives the errors of interpolated values.
    let loose = try_out(CheckPoints::fixed(1, 500), None, reach, COMPRESSION_FACTOR)?;
    let strict = try_out(CheckPoints::fixed(10, 500), None, reach, COMPRESSION_FACTOR)?;
    let cost = |tally: &SmtfTally| (seconds(tally) / seconds(all) - 1.0) * 100.0;
    let share = |tried: &Tried| tried.report.interpolated() * 100.0;
    let described = |tried: &Tried| {
        format!(
            "{:.1}% interpolated, off by {:.1}% on the average, {:.2}% slower",
            share(tried),
            tried.off.mean,
            cost(&tried.tally)
        )
    };
    let all_crowded = bench.run(Scheduler::Smtf(Metric::Mean), &week, crowded)?;
    let claim = Claim::new("atc03-fig6", "with Table 2 90% of the distances are interpolated, scheduling virtually unchanged")
        .measure("interpolated", share(whole), "%", Band::AtLeast(85.0))
        .measure("slower than with all distances probed", cost(&whole.tally), "%", Band::AtMost(1.5))
        .measure("our own rule: interpolated", share(whole_twice), "%", Band::AtLeast(85.0))
        .measure("our own rule: slower than with all distances probed", cost(&whole_twice.tally), "%", Band::AtMost(1.5))
        .note(format!(
            "Table 2 passed once by ranges of ten tracks at most, on all of the disk: {} of {} distances probed, {}; on the distances \
             that the trace has: {}. Passed twice by ranges of any length (decision 0020): {} of {} probed, {}; on the trace's \
             distances {}. Passed once by ranges of any length: {} of {} probed, {}. The share of interpolated values that are off by \
             more than 10% is {:.0}% by the first rule, {:.0}% by the second, {:.0}% by the third: long ranges have many teeth, so that \
             some check points lie on the line by chance. The paper has 20% of its values within 5% with one check point within 5%, and \
             25% off on \
             the average; here {:.0}% and {:.1}%. With ten within 5% it has less than 1% off on the average; here {:.1}%. All probed, with {samples} samples, is {:.1}% \
             behind greedy-optimal, C-LOOK {:.1}% behind that. With as many requests a day as the paper's trace has, which is this one at {crowded:.0}, \
             the first rule is {:.2}% slower than all probed.",
            whole.report.probed,
            whole.report.distances,
            described(whole),
            described(near),
            whole_twice.report.probed,
            whole_twice.report.distances,
            described(whole_twice),
            described(near_twice),
            whole_long.report.probed,
            whole_long.report.distances,
            described(whole_long),
            whole.off.beyond_10,
            whole_twice.off.beyond_10,
            whole_long.off.beyond_10,
            loose.off.within_5,
            loose.off.mean,
            strict.off.mean,
            (seconds(all) / seconds(optimal) - 1.0) * 100.0,
            cost(c_look),
            (seconds(&whole_crowded.tally) / seconds(&all_crowded) - 1.0) * 100.0
        ));
    let lines = |of: &dyn Fn(&Tried) -> f64| -> Vec<Line> {
        let rows = points.iter().zip(runs.chunks(errors.len()));
        rows.map(|(n, row)| {
            let points = errors.iter().zip(row).map(|(e, run)| (f64::from(*e), of(run)));
            Line::new(&format!("N = {n}"), points)
        })
        .collect()
    };
    let level = |label: &str, tally| Line::new(label, [1.0, 20.0].map(|x| (x, seconds(tally))));
    let mut times = lines(&|run| seconds(&run.tally));
    times.extend([
        level("Table 2, ten tracks at most", &near.tally),
        level("Table 2, twice", &near_twice.tally),
        level("all probed", all),
        level("greedy-optimal", optimal),
    ]);
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
                lines(&share),
            ),
        ],
        claims: vec![claim],
        notes: vec![format!("The trace is {}.", week.what)],
    })
}

fn seconds(tally: &SmtfTally) -> f64 {
    tally.busy.as_secs_f64()
}

/// Measures the errors of interpolated values at random distances within `reach`.
fn off(table: &Table, bench: &Bench, reach: Sectors, seed: u64) -> Off {
    let exact = bench.table.by(Metric::Mean);
    let mut random = Stream::new(seed, "atc03-fig6-held");
    let reads = Pair::new(Op::Read, Op::Read);
    let knots: Vec<i64> = table.knots(reads).map(|knot| knot.distance.sectors()).collect();
    // The table's distances are one sector plus a multiple of 1 KB, either forward or backward.
    let steps = (reach.get() / 2).saturating_sub(4).max(1) as i64;
    let both = NonZeroU64::new(2 * steps.unsigned_abs()).unwrap_or(NonZeroU64::MIN);
    let mut errors: Vec<f64> = Vec::new();
    for _ in 0..COMPARED_VALUES {
        let distance = 1 + 2 * (random.below(both) as i64 - steps);
        if knots.binary_search(&distance).is_ok() {
            continue;
        }
        // An LBN from which no distance leads below LBN 0; `exact` draws the places of its samples itself.
        let last = Last { op: Op::Read, lbn: Lbn::new(1 << 40) };
        let start = Lbn::new((1u64 << 40).saturating_add_signed(distance));
        let request =
            Request { id: RequestId::new(0), op: Op::Read, range: LbnRange::new(start, Sectors::new(2)) };
        let by_table = table.time(reads, Distance::new(distance), 0);
        if let (Some(by_table), Some(mean)) = (by_table, exact.time(last, Instant::ZERO, &request)) {
            errors.push((by_table.as_millis_f64() / mean.as_millis_f64() - 1.0).abs() * 100.0);
        }
    }
    let share = |of: &dyn Fn(f64) -> bool| {
        errors.iter().filter(|e| of(**e)).count() as f64 / errors.len().max(1) as f64 * 100.0
    };
    Off {
        mean: errors.iter().sum::<f64>() / errors.len().max(1) as f64,
        within_5: share(&|e| e <= 5.0),
        beyond_10: share(&|e| e > 10.0),
    }
}
