//! Drives that the mapper finds in parts: because of tracks without LBNs, a first LBN that is not the first of a band,
//! or zone boundaries.

use crate::common::{self, Emulated, finding, holds};
use model::Profile;
use probe::{Options, Probe, ProbedProfile};
use std::ops::ControlFlow;

fn random(seed: u64) -> (Profile, ProbedProfile) {
    let truth = common::random(seed);
    let mut device = Emulated::new(&truth);
    let found = Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
    holds(device, &truth, &found, 300.0);
    (truth, found)
}

/// Drives, by their seeds, with bands that begin in the middle, or whose last band is narrower (4, 16); with an unused
/// track, as a defect (7, 16); with spares on every track and a slip (8); with densities that differ by head and a
/// beginning in the middle (3, 9, 28).
#[test]
fn parts_of_a_zone_are_put_together() {
    for seed in [3, 4, 7, 9, 16, 28] {
        let (truth, found) = random(seed);
        assert_eq!(found.profile.layout.zones.len(), truth.layout.zones.len(), "{seed}");
        let check = found.report.check;
        assert!(check.within_50us >= 0.97, "{seed}: {check:?}");
    }
    for seed in [4, 7, 8, 9, 10, 16, 28] {
        let (_, found) = random(seed);
        assert!(found.report.unsure.is_empty(), "{seed}: {:?}", found.report.unsure);
    }
}

#[test]
fn cylinders_without_lbns_between_zones_are_found_by_moves_over_them() {
    let (truth, found) = random(23);
    let firsts =
        |profile: &Profile| -> Vec<u32> { profile.layout.zones.iter().map(|z| z.first_cylinder).collect() };
    // The 11,270 reserved sectors at the beginning of the second zone are whole cylinders, too; one further cylinder
    // precedes that zone.
    assert_eq!(finding(&found, "cylinders without LBNs").value, "12");
    let (found, truth) = (firsts(&found.profile), firsts(&truth));
    assert_eq!(found[2..], truth[2..], "{found:?}, {truth:?}");
}

/// On these drives the time of a read does not show whether the drive begins reads in their middle: their short seeks
/// are longer than those of other drives, and some reads are cache hits.
#[test]
fn zero_latency_shows_in_where_reads_end() {
    for seed in [4, 16, 8, 18, 28, 9] {
        let (truth, found) = random(seed);
        assert_eq!(
            found.profile.mechanics.zero_latency_read,
            truth.mechanics.zero_latency_read,
            "{seed}: {:?}",
            finding(&found, "zero-latency reads")
        );
    }
}

/// A head switch takes 0.83 ms, and the next track continues at the same angle: a read over a head switch loses a
/// revolution, and moves between commands do not show that.
#[test]
fn a_revolution_lost_at_a_head_switch_is_found() {
    let (truth, found) = random(16);
    assert_eq!(finding(&found, "read over a change of head").value, "loses a revolution");
    let overhead = found.profile.firmware.unwrap().overheads.read_miss.0;
    let switch = found.profile.mechanics.head_switch_ms + overhead;
    let real = truth.mechanics.head_switch_ms + truth.firmware.unwrap().overheads.read_miss.0;
    assert!((switch - real).abs() < 0.05, "{switch} ms for {real} ms");
}

/// A density that is wrong by one sector shows only over most of a track, so the probe measures each track by itself
/// until densities recur.
#[test]
fn densities_that_differ_by_head_are_found_where_times_vary() {
    for seed in [9, 28] {
        let truth = common::random(seed);
        let mut device = Emulated::noisy(&truth, 1);
        let found =
            Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
        holds(device, &truth, &found, 300.0);
        assert_eq!(found.profile.heads, truth.heads, "{seed}");
        assert!(found.report.check.within_50us >= 0.97, "{seed}: {:?}", found.report.check);
    }
}

/// The map ends when time runs out: the check covers the mapped part and names it, and the report names the rest.
#[test]
fn a_check_of_a_part_of_the_drive_says_which() {
    for (seed, whole) in [(0, false), (16, true)] {
        let truth = common::random(seed);
        let mut device = Emulated::new(&truth);
        let found =
            Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
        let capacity = probe::ProbedDevice::capacity(&device).get();
        common::covers(&found.report, capacity);
        let check = found.report.check;
        assert_eq!(check.of_drive >= 1.0, whole, "{seed}: {check:?}");
        assert_eq!(check.end.get() == capacity, whole, "{seed}: {check:?}");
        assert!(whole || found.report.unsure.iter().any(|u| u.end.get() == capacity), "{seed}");
    }
}
