//! ATC'03, figure 3: the table that predicts best does not schedule best.

use crate::set_up::drive;
use crate::smtf::{
    Bare, COMPRESSION_FACTOR, Chooser, FromOutside, PROBE_BYTES, Seen, SmtfHost, SmtfTally, Survey, Surveyed,
    Week,
};
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper};
use drive::demerit_ms;
use mimic::Metric;
use model::DriveModel;
use scheduler::Mimic;
use std::sync::Arc;
use units::{LbnRange, Sectors};

pub const EXPERIMENT: Experiment = Experiment {
    id: "atc03-fig3",
    paper: Paper::Atc03,
    reproduces: "figure 3",
    title: "Times predicted and times taken",
    set_up: "As figure 2, at a compression of 20. For each request that SMTF by the mean sends, what each summary of 100 \
             samples predicts for it, and what 1 KB, the size of the probes, takes there; the demerit figure is the RMS \
             distance of the two distributions.",
    claims: &["atc03-fig3"],
    timed: false,
    run,
};

const SAMPLES: u32 = 100;

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let disk = drive("mimic-base")?;
    let capacity = disk.layout().capacity();
    let week = Week::hp_or_stand_in(capacity, lab.seed())?;
    let week = week.first(lab.pick(5_000, 20_000));
    let table = Surveyed::new(&disk, SAMPLES, lab.seed());
    let run = |metric, factor| {
        let judge = Judge::new(&disk, &table, metric);
        let mut host = SmtfHost::new(Bare::new(Arc::clone(&disk)), week.compressed(capacity, factor)?, judge);
        let tally = host.advance(u64::MAX)?;
        Ok((tally, host.chooser))
    };
    let runs = lab.map(Metric::ALL, |metric| run(metric, COMPRESSION_FACTOR))?;
    let crowded = lab.map(Metric::ALL, |metric| run(metric, week.factor(COMPRESSION_FACTOR)))?;
    // The first run is that of SMTF by the mean of each distance's samples.
    let Some((_, by_mean)) = runs.first() else { return Err(LabError::new("the mean", "no run of it")) };
    let demerits: Vec<f64> = by_mean.others.iter().map(|times| demerit_ms(times, &by_mean.taken)).collect();
    let own: Vec<f64> = runs.iter().map(|(_, judge)| demerit_ms(&judge.chosen, &judge.taken)).collect();
    let at = |metric| Metric::ALL.iter().position(|m| *m == metric).unwrap_or(0);
    let (mean, probabilistic) = (at(Metric::Mean), at(Metric::Probabilistic));
    let best_other = others(&demerits, probabilistic).fold(f64::INFINITY, f64::min);
    let seconds = |(tally, _): &(SmtfTally, Judge)| tally.busy.as_secs_f64();
    let busy = |i: usize| runs.get(i).map_or(f64::NAN, seconds);
    let busy_crowded = |i: usize| crowded.get(i).map_or(f64::NAN, seconds);
    let described: Vec<String> = Metric::ALL
        .iter()
        .enumerate()
        .map(|(i, metric)| {
            format!(
                "{}: demerit {:.2} ms, as a scheduler {:.1} s; of its own choices {:.2} ms",
                metric,
                demerits.get(i).copied().unwrap_or(f64::NAN),
                busy(i),
                own.get(i).copied().unwrap_or(f64::NAN)
            )
        })
        .collect();
    let claim = Claim::new("atc03-fig3", "probabilistic has the best demerit figure yet schedules poorly")
        .measure(
            "demerit of probabilistic by the best other's",
            demerits.get(probabilistic).map_or(f64::NAN, |d| d / best_other),
            "",
            Band::AtMost(1.0),
        )
        .measure(
            "probabilistic slower than mean",
            (busy(probabilistic) / busy(mean) - 1.0) * 100.0,
            "%",
            Band::AtLeast(0.0),
        )
        .note(format!(
            "{}. A time drawn by lot is that of the disk for a request chosen without it; of those that it chose, the lots are \
             the lowest of many, and the disk does not keep to them. With as many requests a day as the paper's trace has, \
             which is this one at {:.0}, probabilistic is {:.1}% slower than mean.",
            described.join("; "),
            week.factor(COMPRESSION_FACTOR),
            (busy_crowded(probabilistic) / busy_crowded(mean) - 1.0) * 100.0
        ));
    let figures = [Metric::Probabilistic, Metric::Mean, Metric::Maximum].map(|metric| {
        let predicted = by_mean.others.get(at(metric)).map(Vec::as_slice).unwrap_or_default();
        Figure {
            id: format!("atc03-fig3-{}", metric),
            title: format!("Times predicted and times taken: {}", metric),
            x: Axis::between("time (ms)", 0.0, 12.0),
            y: Axis::between("requests that take no longer (%)", 0.0, 100.0),
            kind: Kind::Lines(vec![
                distribution("predicted", predicted),
                distribution("taken", &by_mean.taken),
            ]),
        }
    });
    Ok(Outcome {
        figures: figures.into(),
        claims: vec![claim],
        notes: vec![format!("The trace is {}.", week.what)],
    })
}

fn others(values: &[f64], but: usize) -> impl Iterator<Item = f64> + '_ {
    values.iter().enumerate().filter(move |(i, _)| *i != but).map(|(_, v)| *v)
}

/// Returns the cumulative distribution of times, a point for each percent.
fn distribution(label: &str, times: &[f64]) -> Line {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    let last = times.len().saturating_sub(1);
    let places = (0..=100).filter_map(|percent| Some((*times.get(last * percent / 100)?, percent as f64)));
    Line::new(label, places)
}

/// SMTF that records, for each choice, the predicted times and the true time, ms.
struct Judge {
    smtf: FromOutside,
    disk: Arc<DriveModel>,
    tables: Vec<Survey>,
    /// The times of the chosen requests as predicted by the summary (such as the mean) by which SMTF chose.
    chosen: Vec<f64>,
    /// The times of the chosen requests as predicted by each summary.
    others: Vec<Vec<f64>>,
    /// The true times of requests of 1 KB, the size of probes, at the LBNs of the chosen requests.
    taken: Vec<f64>,
}

impl Judge {
    fn new(disk: &Arc<DriveModel>, table: &Surveyed, metric: Metric) -> Self {
        // Only the choices of SMTF by the mean are compared with the predictions of all summaries.
        let all = if metric == Metric::Mean { Metric::ALL.as_slice() } else { &[] };
        Self {
            smtf: FromOutside::smtf(table.by(metric)),
            disk: Arc::clone(disk),
            tables: all.iter().map(|metric| table.by(*metric)).collect(),
            chosen: Vec::new(),
            others: vec![Vec::new(); all.len()],
            taken: Vec::new(),
        }
    }
}

impl Chooser for Judge {
    fn choose(&mut self, seen: Seen<'_>) -> usize {
        let chosen = self.smtf.choose(seen);
        let (Some(last), Some(next)) = (seen.last, seen.queue.get(chosen)) else { return chosen };
        let sectors = PROBE_BYTES / self.disk.sector_bytes().get();
        let range = LbnRange::new(next.lbn(), Sectors::new(sectors.max(1)));
        let done = Bare::at(Arc::clone(&self.disk), seen.arm).go(seen.at, next.request.op, range);
        self.taken.push(done.since(seen.at).as_millis_f64());
        let predicted =
            |mimic: &dyn Mimic| mimic.time(last, seen.at, &next.request).map(|t| t.as_millis_f64());
        self.chosen.extend(self.smtf.mimic().and_then(predicted));
        for (table, times) in self.tables.iter().zip(&mut self.others) {
            times.extend(predicted(table));
        }
        chosen
    }
}
