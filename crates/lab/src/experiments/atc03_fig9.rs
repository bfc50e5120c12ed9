//! ATC'03, figure 9: SMTF that learns while it runs.

use crate::set_up::drive;
use crate::smtf::{
    Bare, Bench, COMPRESSION_FACTOR, Chooser, FromOutside, REQUESTS_PER_DAY, Scheduler, SmtfHost, SmtfTally,
    Week,
};
use crate::{Axis, Band, Bar, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper};
use mimic::{CheckPoints, Learner, LearnerConfig, Metric};
use scheduler::policy::{Base, SmtfRule, Unknown};
use std::fmt;
use std::sync::Arc;
use units::{Bytes, Sectors};

pub const EXPERIMENT: Experiment = Experiment {
    id: "atc03-fig9",
    paper: Paper::Atc03,
    reproduces: "figure 9",
    title: "On-line SMTF",
    set_up: "The base disk of Table 1 without electronics; five days of 150,000 requests of a seeded stand-in for the paper's \
             trace (the one at hand has 40,000 in a week), compressed 20 times. Online-Priority and Online-Set with C-LOOK and \
             SSTF, with and without interpolation, one sample enough, against SMTF by the mean of 100 samples of each \
             distance.",
    claims: &["atc03-fig9"],
    timed: false,
    run,
};

const DAYS: u32 = 5;
const SAMPLES: u32 = 100;

/// A scheduler that is compared with SMTF configured off-line.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Contender {
    Alone(Base),
    Online(Online),
}

/// The settings of SMTF with a table that is learned while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Online {
    rule: SmtfRule,
    interpolates: bool,
    minimum_samples: u8,
    probes_idle: bool,
}

impl Online {
    const fn new(unknown: Unknown, base: Base, interpolates: bool) -> Self {
        Self { rule: SmtfRule::new(unknown, base), interpolates, minimum_samples: 1, probes_idle: false }
    }

    fn learner(self, reach: Sectors, seed: u64) -> Result<Learner, LabError> {
        let config = LearnerConfig {
            // Memory enough for each distance of the load; the paper sets no bound.
            memory: Bytes::new(128 << 20),
            minimum_samples: self.minimum_samples,
            check_points: if self.interpolates { CheckPoints::TABLE_2 } else { CheckPoints::NONE },
            notice_change: false,
            probe_idle: self.probes_idle,
            seed,
            ..LearnerConfig::new(reach, Sectors::new(2))
        };
        Learner::new(config, None).map_err(|e| LabError::new("the learner", e))
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = |base| if base == Base::Sstf { "SSTF" } else { "C-LOOK" };
        match self {
            Self::Alone(b) => f.write_str(base(*b)),
            Self::Online(o) => {
                let unknown = if o.rule.unknown == Unknown::Set { "Set" } else { "Priority" };
                write!(f, "{unknown}, {}", base(o.rule.base))?;
                if o.interpolates {
                    f.write_str(", interpolating")?;
                }
                if o.minimum_samples > 1 {
                    write!(f, ", {} samples", o.minimum_samples)?;
                }
                f.write_str(if o.probes_idle { ", probing when idle" } else { "" })
            }
        }
    }
}

const SET: Online = Online::new(Unknown::Set, Base::Sstf, false);
const SET_INTERPOLATING: Online = Online::new(Unknown::Set, Base::Sstf, true);

fn contenders(all: bool) -> Vec<Contender> {
    let mut these = vec![Contender::Alone(Base::Sstf), Contender::Alone(Base::CLook)];
    these.extend([SET, SET_INTERPOLATING].map(Contender::Online));
    if all {
        let open = [Online { minimum_samples: 3, ..SET }, Online { probes_idle: true, ..SET }];
        these.extend(open.map(Contender::Online));
        let others = [
            Online::new(Unknown::Set, Base::CLook, false),
            Online::new(Unknown::Set, Base::CLook, true),
            Online::new(Unknown::Priority, Base::Sstf, false),
            Online::new(Unknown::Priority, Base::Sstf, true),
            Online::new(Unknown::Priority, Base::CLook, false),
            Online::new(Unknown::Priority, Base::CLook, true),
        ];
        these.extend(others.map(Contender::Online));
    }
    these
}

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let disk = drive("mimic-base")?;
    let capacity = disk.layout().capacity();
    // In the quick size a day has two fifths of its requests at the same rate, so there is less to learn from.
    let per_day = REQUESTS_PER_DAY * lab.pick(2, 5) / 5;
    let week =
        Week::stand_in(capacity, DAYS, REQUESTS_PER_DAY, lab.seed()).first(per_day as usize * DAYS as usize);
    let factor = week.factor(COMPRESSION_FACTOR);
    let bench = Bench::new(&disk, SAMPLES, lab.seed());
    let days = |chooser: Box<dyn Chooser>| {
        let mut host =
            SmtfHost::new(Bare::new(Arc::clone(&disk)), week.compressed(capacity, factor)?, chooser);
        (0..DAYS).map(|_| host.advance(per_day)).collect::<Result<Vec<SmtfTally>, LabError>>()
    };
    let contenders = contenders(lab.pick(false, true));
    let mut jobs: Vec<Option<Contender>> = vec![None];
    jobs.extend(contenders.iter().copied().map(Some));
    let mut runs = lab
        .map(jobs, |contender| match contender {
            None => days(bench.chooser(Scheduler::Smtf(Metric::Mean))),
            Some(Contender::Alone(base)) => days(Box::new(FromOutside::base(base))),
            Some(Contender::Online(online)) => {
                days(Box::new(FromOutside::online(online.learner(week.end(), lab.seed())?, online.rule)))
            }
        })?
        .into_iter();
    let offline = runs.next().unwrap_or_default();
    let by_day = |days: &[SmtfTally]| -> Vec<f64> {
        days.iter()
            .zip(&offline)
            .map(|(a, b)| (a.busy.as_secs_f64() / b.busy.as_secs_f64() - 1.0) * 100.0)
            .collect()
    };
    let rows: Vec<(Contender, Vec<f64>, f64)> = contenders
        .iter()
        .zip(runs)
        .map(|(c, days)| {
            let response: f64 = days.iter().map(|t| t.response.as_millis_f64() / t.requests as f64).sum();
            (*c, by_day(&days), response / f64::from(DAYS))
        })
        .collect();
    let find = |wanted: Contender| {
        let row = rows.iter().find(|(c, ..)| *c == wanted).map(|(_, days, _)| days.as_slice());
        row.ok_or_else(|| LabError::new("a contender", format!("{wanted} was not run")))
    };
    let sstf = find(Contender::Alone(Base::Sstf))?;
    let set = find(Contender::Online(SET))?;
    let interpolating = find(Contender::Online(SET_INTERPOLATING))?;
    let last = |days: &[f64]| days.last().copied().unwrap_or(f64::NAN);
    // Returns how much slower than SSTF a scheduler is on its worst day, in percent. `days` and `sstf` are slowdowns
    // relative to the same off-line run.
    let worse = |days: &[f64]| {
        let ratios = days.iter().zip(sstf).map(|(a, b)| ((100.0 + a) / (100.0 + b) - 1.0) * 100.0);
        ratios.fold(f64::NEG_INFINITY, f64::max)
    };
    let hp = hp(lab)?.map_or("The HP week was not found.".into(), |(sstf, set, last)| {
        format!(
            "On the HP week at hand, 40,293 requests at as many a day: SSTF {sstf:.1}% slower than off-line, Online-Set with it \
             {set:.1}%, {last:.1}% in the last fifth."
        )
    });
    let claim = Claim::new(
        "atc03-fig9",
        "Online-Set + SSTF never worse than its base, within 3% of off-line after 750,000 requests",
    )
    .measure("slower than SSTF on its worst day", worse(set), "%", Band::AtMost(0.0))
    .measure("slower than off-line on the last day", last(set), "%", Band::AtMost(3.0))
    .measure("interpolating: slower than SSTF on its worst day", worse(interpolating), "%", Band::AtMost(0.0))
    .measure(
        "interpolating: slower than off-line on the last day",
        last(interpolating),
        "%",
        Band::AtMost(3.0),
    )
    .note(format!(
        "Slower than off-line by day, and mean response: {}. {hp}",
        rows.iter()
            .map(|(c, days, response)| {
                let days: Vec<String> = days.iter().map(|d| format!("{d:.1}%")).collect();
                format!("{c}: {}, {response:.1} ms", days.join(" "))
            })
            .collect::<Vec<_>>()
            .join("; ")
    ));
    let bars = rows.iter().map(|(c, days, _)| Bar { label: c.to_string(), values: vec![last(days)] });
    let lines = rows.iter().map(|(c, days, _)| {
        Line::new(&c.to_string(), days.iter().enumerate().map(|(i, d)| ((i + 1) as f64, *d)))
    });
    let figure = |id: &str, title: &str, x, kind| Figure {
        id: id.into(),
        title: title.into(),
        x: Axis::new(x),
        y: Axis::new("slower than off-line SMTF (%)"),
        kind,
    };
    Ok(Outcome {
        figures: vec![
            figure(
                "atc03-fig9-last",
                "On-line SMTF on the last day",
                "scheduler",
                Kind::Stacked { parts: vec!["slower than off-line SMTF".into()], bars: bars.collect() },
            ),
            figure(EXPERIMENT.id, "On-line SMTF as it learns", "day", Kind::Lines(lines.collect())),
        ],
        claims: vec![claim],
        notes: vec![format!("The trace is {}; a day is {per_day} requests.", week.what)],
    })
}

/// Returns, if the HP trace is present, how much slower than off-line SMTF are SSTF, Online-Set, and Online-Set in
/// the last fifth of the trace, in percent.
fn hp(lab: &Lab) -> Result<Option<(f64, f64, f64)>, LabError> {
    let disk = drive("mimic-base")?;
    let capacity = disk.layout().capacity();
    let Some(week) = Week::hp()? else { return Ok(None) };
    let factor = week.factor(COMPRESSION_FACTOR);
    let bench = Bench::new(&disk, lab.pick(20, SAMPLES), lab.seed());
    let learner = SET.learner(week.end(), lab.seed())?;
    let mut part = week.records.len() as u64 / 5;
    part += u64::from(part * 5 < week.records.len() as u64);
    let fifths = |chooser: Box<dyn Chooser>| {
        let mut host =
            SmtfHost::new(Bare::new(Arc::clone(&disk)), week.compressed(capacity, factor)?, chooser);
        let fifths = (0..5).map(|_| Ok(host.advance(part)?.busy.as_secs_f64()));
        fifths.collect::<Result<Vec<f64>, LabError>>()
    };
    let choosers: [Box<dyn Chooser>; 3] = [
        bench.chooser(Scheduler::Smtf(Metric::Mean)),
        Box::new(FromOutside::base(Base::Sstf)),
        Box::new(FromOutside::online(learner, SET.rule)),
    ];
    let runs = choosers.into_iter().map(fifths).collect::<Result<Vec<_>, LabError>>()?;
    let [offline, sstf, set] = runs.as_slice() else { return Ok(None) };
    let slower = |a: f64, b: f64| (a / b - 1.0) * 100.0;
    let sum = |times: &[f64]| times.iter().sum::<f64>();
    let last = |times: &[f64]| times.last().copied().unwrap_or(f64::NAN);
    Ok(Some((
        slower(sum(sstf), sum(offline)),
        slower(sum(set), sum(offline)),
        slower(last(set), last(offline)),
    )))
}
