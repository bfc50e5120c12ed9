//! ATC'03, figure 1: the times of a disk at one inter-request distance, in ascending order, form a few steps.

use crate::set_up::drive;
use crate::smtf::Probe;
use crate::{Axis, Band, Claim, Experiment, Figure, Kind, Lab, LabError, Line, Outcome, Paper};
use std::collections::BTreeSet;
use units::Op;

pub const EXPERIMENT: Experiment = Experiment {
    id: "atc03-fig1",
    paper: Paper::Atc03,
    reproduces: "figure 1",
    title: "Times of probes at three inter-request distances",
    set_up: "1,000 probes of 1 KB each at distances of 132, 224 and 300 KB, each after a move to a random place. The paper's \
             disk is a real IBM 9LZX; here it is the simulated one that resembles it, the base disk of its Table 1.",
    claims: &["atc03-fig1"],
    timed: false,
    run,
};

const DISTANCES_KB: [u64; 3] = [132, 224, 300];
const PROBES: u32 = 1_000;

/// The largest difference between a time and the next longer one in the same step: steps are fractions of the
/// revolution (6 ms) apart, and the times within a step differ by up to the time of a sector.
const STEP_MS: f64 = 0.2;

fn run(lab: &Lab) -> Result<Outcome, LabError> {
    let disk = drive("mimic-base")?;
    let mut probe = Probe::new(&disk, lab.seed());
    let (mut lines, mut found) = (Vec::new(), Vec::new());
    for kb in DISTANCES_KB {
        let sectors = (kb << 10) / disk.sector_bytes().get();
        let mut crossings = BTreeSet::new();
        let mut times = Vec::new();
        for index in 0..PROBES {
            let (from, to, ns) = probe.sample((sectors as i64, Op::Read, Op::Read), index);
            times.push(f64::from(ns) / 1e6);
            let track = |lbn| disk.layout().pieces(units::LbnRange::new(lbn, units::Sectors::new(1))).next();
            if let (Some(from), Some(to)) = (track(from), track(to)) {
                let (a, b) = (disk.layout().track(from.track), disk.layout().track(to.track));
                crossings.insert((to.track.get() - from.track.get(), b.cylinder.get() - a.cylinder.get()));
            }
        }
        times.sort_by(f64::total_cmp);
        found.push((kb, steps(&times), crossings));
        let points = times.into_iter().enumerate().map(|(i, ms)| (i as f64, ms));
        lines.push(Line::new(&format!("{kb} KB"), points));
    }
    let described: Vec<String> = found
        .iter()
        .map(|(kb, steps, crossings)| {
            let shares: Vec<String> =
                steps.iter().map(|(ms, share)| format!("{:.1}% at {ms:.2} ms", share * 100.0)).collect();
            format!(
                "{kb} KB: {} for {} ways of crossing tracks and cylinders",
                shares.join(", "),
                crossings.len()
            )
        })
        .collect();
    let modes = found.first().map_or(0, |(_, steps, _)| steps.len());
    let fewer = found.iter().map(|(_, steps, crossings)| crossings.len().abs_diff(steps.len())).max();
    let claim = Claim::new(
        "atc03-fig1",
        "the times at one distance are multi-modal, as many steps as track boundaries that can be crossed",
    )
    .measure("steps at 132 KB", modes as f64, "", Band::AtLeast(2.0))
    .measure(
        "steps that are not one way of crossing",
        fewer.map_or(f64::NAN, |n| n as f64),
        "",
        Band::AtMost(0.0),
    )
    .note(format!("{}.", described.join("; ")));
    Ok(Outcome {
        figures: vec![Figure {
            id: EXPERIMENT.id.into(),
            title: EXPERIMENT.title.into(),
            x: Axis::new("probe, by time"),
            y: Axis::new("time (ms)"),
            kind: Kind::Lines(lines),
        }],
        claims: vec![claim],
        notes: Vec::new(),
    })
}

/// Returns the steps that times in ascending order form: the mean time of each, and its share of the times.
fn steps(times: &[f64]) -> Vec<(f64, f64)> {
    let chunks = times.chunk_by(|a, b| b - a < STEP_MS);
    let mean = |step: &[f64]| step.iter().sum::<f64>() / step.len() as f64;
    chunks.map(|step| (mean(step), step.len() as f64 / times.len() as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_separated_by_their_gaps() {
        assert_eq!(steps(&[1.0, 1.0625, 1.125, 7.0]), [(1.0625, 0.75), (7.0, 0.25)]);
    }
}
