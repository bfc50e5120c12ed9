//! Confidences are calibrated: of the findings with a confidence, at least about that share is right, over random
//! drives, exact and noisy.

use crate::common::judge::{Judged, drive, judged};
use crate::common::{self, predictions_on};
use drive::Behaviour;
use probe::{Options, Probe};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The seeds of the random drives.
const SEEDS: std::ops::RangeInclusive<u64> = 0..=30;

/// Returns all findings with the drive's seed; [`judged`] decides whether each is right.
fn said(behaviour: Behaviour, two: bool) -> Vec<(u64, Judged)> {
    let of = |seed: u64| {
        let truth = common::random(seed);
        let mut device = drive(&truth, behaviour, 1, two);
        let found =
            Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
        let shares = predictions_on(device, &truth, &found.profile, &found.report, 1_000);
        judged(&truth, &behaviour, &found, shares).into_iter().map(move |of| (seed, of)).collect::<Vec<_>>()
    };
    SEEDS.flat_map(of).collect()
}

/// Checks that as many findings are right as their confidences add up to, except for chance: two and a half
/// standard deviations. One more may be wrong, because confidences are rounded to a percent.
fn enough(of: &[&(u64, Judged)]) -> Result<(), String> {
    let expected: f64 = of.iter().map(|(_, j)| j.confidence).sum();
    let variance: f64 = of.iter().map(|(_, j)| j.confidence * (1.0 - j.confidence)).sum();
    let right = of.iter().filter(|(_, j)| j.right).count() as f64;
    if right >= expected - 2.5 * variance.sqrt() - 1.0 {
        return Ok(());
    }
    let wrong = of.iter().filter(|(_, j)| !j.right);
    let wrong: Vec<String> = wrong
        .map(|(seed, j)| format!("{seed}: {} {:.0}%, {}", j.what, 100.0 * j.confidence, j.reported))
        .collect();
    Err(format!("{right} right of {}, {expected:.1} said to be; wrong: {wrong:#?}", of.len()))
}

fn hold(said: &[(u64, Judged)]) {
    assert!(said.len() > 400, "{}", said.len());
    let mut findings: BTreeMap<&str, Vec<&(u64, Judged)>> = BTreeMap::new();
    for of in said {
        findings.entry(of.1.what.as_str()).or_default().push(of);
    }
    for (what, of) in findings {
        if let Err(problem) = enough(&of) {
            panic!("{what}: {problem}");
        }
    }
    // The findings of all kinds together that have at least this confidence.
    for least in [0.5, 0.75, 0.9, 0.95, 0.99] {
        let of: Vec<_> = said.iter().filter(|(_, j)| j.confidence >= least).collect();
        let right = of.iter().filter(|(_, j)| j.right).count() as f64 / of.len() as f64;
        assert!(of.len() > 100 && right >= least - 0.01, "{least}: {right} of {}", of.len());
    }
}

#[test]
fn confidences_are_kept_in_exact_times() {
    hold(&said(Behaviour::default(), false));
}

#[test]
fn confidences_are_kept_where_times_vary() {
    hold(&said(Behaviour::fast02(), true));
}

#[test]
fn confidences_are_kept_of_one_command_at_a_time() {
    hold(&said(Behaviour::fast02(), false));
}
