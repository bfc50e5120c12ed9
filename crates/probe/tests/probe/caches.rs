//! Caches of many segments, as today's drives have: a sector in the cache does not show the platter's angle.

use crate::common::{Emulated, confidence, holds, predictions_on};
use drive::Behaviour;
use model::builtin;
use probe::{Options, Probe};
use std::ops::ControlFlow;

/// Probes a drive whose cache has this many segments, and checks that all of it is mapped in the permitted time.
fn is_mapped(name: &str, segments: u32, behaviour: Behaviour, most_seconds: f64) {
    let mut truth = builtin::find(name).unwrap();
    truth.firmware.as_mut().unwrap().cache.segments = segments;
    let mut device = Emulated::with(&truth, behaviour, 1);
    let found = Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
    let cache = &found.profile.firmware.as_ref().unwrap().cache;
    let sure = confidence(&found.report, "cache segments");
    assert!(cache.segments == segments || sure < 0.9, "{name}: {} for {segments}, {sure}", cache.segments);
    let shares = predictions_on(device, &truth, &found.profile, &found.report, 2_000);
    assert!(shares.near >= 0.97, "{name}, {segments}: {shares:?}");
    holds(Emulated::with(&truth, behaviour, 1), &truth, &found, most_seconds);
}

#[test]
fn a_drive_with_256_cache_segments_is_mapped_in_its_time() {
    is_mapped("seagate-cheetah-18lp", 256, Behaviour::default(), 398.0);
}

#[test]
fn a_noisy_drive_with_256_cache_segments_is_mapped_in_its_time() {
    is_mapped("seagate-cheetah-18lp", 256, Behaviour::fast02(), 398.0);
}

#[test]
fn a_drive_of_terabytes_with_512_cache_segments_is_mapped_in_half_an_hour() {
    is_mapped("nearline-20tb", 512, Behaviour::default(), 1_800.0);
}
