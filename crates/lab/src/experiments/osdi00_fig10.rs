//! OSDI'00, figure 10: applications that do not need the last blocks get much more bandwidth.

use crate::scan::{MediaRate, Scan, ScanSetUp};
use crate::set_up::{ATLAS_10K, drive};
use crate::{
    Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper, Point, Spread, spread,
};

pub const EXPERIMENT: Experiment = Experiment {
    id: "osdi00-fig10",
    paper: Paper::Osdi00,
    reproduces: "figure 10",
    title: "Data mining for which any X% of the disk will do",
    set_up: "Atlas 10K, OLTP of 10 tasks, first come first served; scans of the whole disk in blocks of 4 KB, each aborted \
             when X% of its blocks have come, and the next one registered at once.",
    claims: &["osdi00-fig10"],
    timed: false,
    run,
};

const MPL: u32 = 10;

/// The percentages of the blocks after which a scan ends.
const ENOUGH_PERCENTS: [u64; 11] = [100, 98, 95, 90, 80, 70, 60, 50, 40, 30, 20];

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let drive = drive(ATLAS_10K)?;
    let media = MediaRate::of(&drive);
    let mut enough = ENOUGH_PERCENTS.to_vec();
    if lab.pick(true, false) {
        enough.retain(|percent| [100, 95, 80, 60, 50, 20].contains(percent));
    }
    let runs = lab.map_seeds(enough.iter().copied(), lab.pick(1, 5), |&percent, seed| {
        ScanSetUp::new(&drive, MPL, seed).scans(percent, 1)
    })?;
    let runs: Vec<Vec<Scan>> = runs.into_iter().map(|scans| scans.into_iter().flatten().collect()).collect();
    let at = |percent: u64| enough.iter().position(|p| *p == percent).map_or(&[][..], |i| &runs[i]);
    let efficiency = |scans: &[Scan]| spread(scans, |s| s.efficiency(&media) * 100.0);
    let full = efficiency(at(100));
    let gain = spread(at(95), |s| (s.efficiency(&media) * 100.0 / full.mean - 1.0) * 100.0);
    let claim = Claim::new("osdi00-fig10", "any 95%: efficiency +40% over a full scan; 80%: efficiency 90%, > 90 samples a day")
        .measure("95%: efficiency over a full scan's +", gain, "%", Band::Within(28.0, 50.0))
        .measure("80%: efficiency", efficiency(at(80)), "%", Band::AtLeast(83.0))
        .measure("80%:", spread(at(80), Scan::per_day), " samples a day", Band::AtLeast(80.0))
        .note(format!(
            "Efficiency is achieved over potential free bandwidth: bytes delivered, also those that the foreground itself \
             passes over, against the media rate for as long as the foreground waits for sectors. A full scan's is {full}%."
        ));
    let line = |label: &str, of: &dyn Fn(&[Scan]) -> Spread| {
        let points = enough.iter().zip(&runs).rev().map(|(percent, scans)| {
            let Spread { mean, min, max, .. } = of(scans);
            Point { x: *percent as f64, y: mean, spread: Some((min, max)) }
        });
        Line { label: label.into(), points: points.collect() }
    };
    let figure = |id: &str, title: &str, y: &str, lines: Vec<Line>| Figure {
        id: id.into(),
        title: title.into(),
        x: Axis::new("part of the disk that is enough (%)"),
        y: Axis::new(y),
        kind: Kind::Lines(lines),
    };
    Ok(Outcome {
        figures: vec![
            figure(
                "osdi00-fig10-efficiency",
                "Efficiency of scans that stop",
                "achieved of the potential free bandwidth (%)",
                vec![
                    line("all that comes", &efficiency),
                    line("in gaps alone", &|scans| spread(scans, |s| s.potential().used)),
                ],
            ),
            figure(
                "osdi00-fig10-samples",
                "Scans that stop, a day",
                "samples a day",
                vec![line("samples", &|scans| spread(scans, Scan::per_day))],
            ),
        ],
        claims: vec![claim],
        notes: Vec::new(),
    })
}
