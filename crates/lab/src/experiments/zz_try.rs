//! try
use crate::set_up::drive;
use crate::smtf::{Bare, Bench, FromOutside, Scheduler, Week, probed};
use crate::{Experiment, Lab, LabError, Outcome, Paper};
use mimic::{CheckPoints, Metric, ProbePlan};
use std::sync::Arc;
use units::{Bytes, Sectors};
pub const EXPERIMENT: Experiment = Experiment { id: "zz-try", paper: Paper::Atc03, reproduces: "x", title: "x", set_up: "x", claims: &[], timed: false, run };
fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let mut notes = vec![];
    for (name, n) in [("mimic-base", usize::MAX), ("mimic-fast-seek-rotate", usize::MAX), ("mimic-less-capacity", usize::MAX)] {
        let disk = drive(name)?;
        let capacity = disk.layout().capacity();
        let week = Week::hp_or_stand_in(capacity, lab.seed())?.first(lab.pick(6_000, n));
        let factor = week.factor(20.0);
        let samples = lab.pick(20, 100);
        let bench = Bench::new(&disk, samples, lab.seed());
        let all = bench.run(Scheduler::Smtf(Metric::Mean), &week, factor)?.busy.as_secs_f64();
        let opt = bench.run(Scheduler::GreedyOptimal, &week, factor)?.busy.as_secs_f64();
        eprintln!("{name} all {all:.2} optimal {opt:.2} = {:.2}%", (all / opt - 1.0) * 100.0);
        let rules = [("t2", CheckPoints::TABLE_2), ("t2x2", CheckPoints::TABLE_2.confirmed(2)), ("t2x3", CheckPoints::TABLE_2.confirmed(3)), ("t2x4", CheckPoints::TABLE_2.confirmed(4)), ("careful", CheckPoints::CAREFUL)];
        let jobs: Vec<_> = [Some(week.reach()), None].into_iter().flat_map(|r| rules.map(|x| (r, x))).filter(|(r, _)| r.is_some() || name == "mimic-base").collect();
        lab.map(jobs, |(reach, (what, check_points))| {
            let plan = ProbePlan { samples, check_points, reach, memory: Bytes::new(1 << 40), seed: lab.seed(), ..ProbePlan::new(capacity, Sectors::new(2)) };
            let (table, report) = probed(&mut Bare::new(Arc::clone(&disk)), plan)?;
            let t = bench.run_with(FromOutside::smtf(table), &week, factor)?.busy.as_secs_f64();
            eprintln!("{name} reach {:?} {what}: interpolated {:.2}% probed {} kept {} cost {:.2}% vs optimal {:.2}%", reach.map(|r| r.get()), report.interpolated() * 100.0, report.probed, report.kept, (t / all - 1.0) * 100.0, (t / opt - 1.0) * 100.0);
            Ok::<_, LabError>(())
        })?;
    }
    notes.push("x".into());
    Ok(Outcome { figures: vec![], claims: vec![], notes })
}
