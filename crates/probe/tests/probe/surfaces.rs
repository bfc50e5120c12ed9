//! Zones on one surface each, in LBN order surface by surface or by falling density: moves between the zones show their
//! cylinders.

use crate::common::{self, Emulated, finding};
use probe::{Options, Probe};
use std::ops::ControlFlow;

/// Probes a drive of zones on one surface each; checks the number of heads and the share of predicted reads.
fn is_found(name: &str, noisy: bool, least: f64) {
    let truth = common::profile_of(name).unwrap();
    let mut device = if noisy { Emulated::noisy(&truth, 1) } else { Emulated::new(&truth) };
    let found = Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
    let order = finding(&found, "order of tracks");
    assert!(order.value.starts_with("zone by zone") && order.confidence > 0.9, "{name}: {order:?}");
    assert_eq!(found.profile.heads, truth.heads, "{name}");
    let shares = common::predictions_on(device, &truth, &found.profile, &found.report, 2_000);
    assert!(shares.near >= least && shares.sure.is_some_and(|sure| sure >= least), "{name}: {shares:?}");
}

#[test]
fn zones_of_one_surface_by_falling_density_are_placed() {
    is_found("wong:wd3000bkhg:1", false, 0.99);
}

/// A sector is too short for single readings, and the first LBN behind a zone's end meets its prediction by chance.
#[test]
fn zones_of_one_surface_are_placed_where_times_vary() {
    is_found("wong:hd103sj:1", true, 0.97);
}
