//! ATC'03, figure 4: the number of samples of each distance that SMTF's table needs.

use crate::set_up::drive;
use crate::smtf::{Bench, COMPRESSION_FACTOR, Scheduler, SmtfTally, Week};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread, spread,
};
use mimic::Metric;

pub const EXPERIMENT: Experiment = Experiment {
    id: "atc03-fig4",
    paper: Paper::Atc03,
    reproduces: "figure 4",
    title: "Time at the disk by samples of a distance",
    set_up: "As figure 2, at a compression of 20; SMTF by the mean of 1 to 100 samples, none interpolated, tables probed with \
             several seeds.",
    claims: &["atc03-fig4"],
    timed: false,
    run,
};

const SAMPLES: [u32; 7] = [1, 2, 5, 10, 20, 50, 100];

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let disk = drive("mimic-base")?;
    let week = Week::hp_or_stand_in(disk.layout().capacity(), lab.seed())?;
    let week = week.first(lab.pick(4_000, usize::MAX));
    let others = [Scheduler::TRADITIONAL.as_slice(), &[Scheduler::GreedyOptimal]].concat();
    let measure = |factor| {
        let flat =
            lab.map(others.clone(), |scheduler| Bench::new(&disk, 1, 0).run(scheduler, &week, factor))?;
        let smtf = lab.map_seeds(SAMPLES, lab.pick(2, 8), |samples, seed| {
            Bench::new(&disk, *samples, seed).run(Scheduler::Smtf(Metric::Mean), &week, factor)
        })?;
        Ok::<_, LabError>((flat, smtf))
    };
    let (flat, smtf) = measure(COMPRESSION_FACTOR)?;
    let (flat_crowded, smtf_crowded) = measure(week.factor(COMPRESSION_FACTOR))?;
    let [_, sstf, c_look, optimal] = flat.as_slice() else {
        return Err(LabError::new("the other schedulers", "not as many as expected"));
    };
    let [one, _, _, ten, .., hundred] = smtf.as_slice() else {
        return Err(LabError::new("numbers of samples", "not as many as expected"));
    };
    let ([_, sstf_crowded, c_look_crowded, _], [one_crowded, _, _, ten_crowded, .., hundred_crowded]) =
        (flat_crowded.as_slice(), smtf_crowded.as_slice())
    else {
        return Err(LabError::new("the crowded trace", "not as many runs as expected"));
    };
    let claim =
        Claim::new("atc03-fig4", "gains stop at about 10 samples; one sample already beats C-LOOK and SSTF")
            .measure("100 samples faster than 10", slower(ten, hundred), "%", Band::AtMost(1.0))
            .measure("C-LOOK slower than one sample", behind(c_look, one), "%", Band::AtLeast(0.0))
            .measure("SSTF slower than one sample", behind(sstf, one), "%", Band::AtLeast(0.0))
            .note(format!(
                "10 samples are {}% faster than one, and 100 are {}% behind greedy-optimal. With as many requests a day as the \
                 paper's trace has, which is this one at {:.0}: 100 samples are {}% faster than 10, C-LOOK is {}% and SSTF {}% slower \
                 than one sample.",
                slower(one, ten),
                spread(hundred, |t| (seconds(t) / seconds(optimal) - 1.0) * 100.0),
                week.factor(COMPRESSION_FACTOR),
                slower(ten_crowded, hundred_crowded),
                behind(c_look_crowded, one_crowded),
                behind(sstf_crowded, one_crowded)
            ));
    let mut lines = vec![Line {
        label: "SMTF, mean".into(),
        points: SAMPLES
            .iter()
            .zip(&smtf)
            .map(|(samples, runs)| {
                let Spread { mean, min, max, .. } = spread(runs, seconds);
                Point { x: f64::from(*samples), y: mean, spread: Some((min, max)) }
            })
            .collect(),
    }];
    lines.extend(others.iter().zip(&flat).map(|(scheduler, tally)| {
        Line::new(&scheduler.to_string(), [1.0, 100.0].map(|x| (x, seconds(tally))))
    }));
    Ok(Outcome {
        figures: vec![Figure {
            id: EXPERIMENT.id.into(),
            title: EXPERIMENT.title.into(),
            x: Axis::new("samples of each distance"),
            y: Axis::new("time at the disk (s)"),
            kind: Kind::Lines(lines),
        }],
        claims: vec![claim],
        notes: vec![format!("The trace is {}.", week.what)],
    })
}

fn seconds(tally: &SmtfTally) -> f64 {
    tally.busy.as_secs_f64()
}

/// Returns how much slower `a` is than `b`, seed by seed, in percent.
fn slower(a: &[SmtfTally], b: &[SmtfTally]) -> Spread {
    let percent = a.iter().zip(b).map(|(a, b)| (seconds(a) / seconds(b) - 1.0) * 100.0);
    Spread::of(&percent.collect::<Vec<_>>())
}

fn behind(other: &SmtfTally, smtf: &[SmtfTally]) -> Spread {
    spread(smtf, |t| (seconds(other) / seconds(t) - 1.0) * 100.0)
}
