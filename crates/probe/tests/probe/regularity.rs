//! Drives with some tracks that break their zone's rule. The probe measures a few tracks of a zone, assumes
//! that the others are regular, and samples them.

use crate::common::{self, Emulated, finding};
use drive::Behaviour;
use model::profile::{Profile, Revolutions, SectorsPerTrack};
use probe::{DeviceError, Options, Probe, ProbedProfile, Unsure};
use std::ops::{ControlFlow, Range};
use units::{LbnRange, Op};

const CYLINDERS: u32 = 600;

/// The sectors of a track of the drives below, the tracks of a cylinder, and the skews in sectors: from track
/// to track, and over the end of a cylinder.
const SECTORS: u32 = 136;
const HEADS: u32 = 5;
const SKEWS: (i64, i64) = (36, 84);

/// Returns a drive of one regular zone.
fn regular() -> Profile {
    let mut truth = model::builtin::find("mimic-less-capacity").unwrap();
    truth.cylinders = CYLINDERS;
    let zone = &mut truth.layout.zones[0];
    zone.last_cylinder = CYLINDERS - 1;
    assert_eq!(zone.sectors_per_track, SectorsPerTrack::Same(SECTORS));
    assert_eq!(u32::from(truth.heads), HEADS);
    let of = |sectors| Revolutions::of_sectors(sectors, SECTORS);
    assert_eq!((&zone.track_skew, &zone.cylinder_skew), (&of(SKEWS.0), &of(SKEWS.1)));
    truth
}

/// Returns the regular drive with another angle (`off`, in sectors) and density on some cylinders; all other
/// cylinders are at their angles.
fn broken(cylinders: Range<u32>, off: i64, sectors: u32) -> Profile {
    let mut truth = regular();
    let whole = truth.layout.zones.remove(0);
    let part = |cylinders: Range<u32>, off: i64, sectors: u32| {
        let mut zone = whole.clone();
        (zone.first_cylinder, zone.last_cylinder) = (cylinders.start, cylinders.end - 1);
        zone.sectors_per_track = SectorsPerTrack::Same(sectors);
        let a_cylinder = i64::from(HEADS - 1) * SKEWS.0 + SKEWS.1;
        let place = i64::from(cylinders.start) * a_cylinder + off;
        zone.offset = Revolutions::of_sectors(place.rem_euclid(i64::from(SECTORS)), SECTORS);
        zone
    };
    truth.layout.zones = vec![
        part(0..cylinders.start, 0, SECTORS),
        part(cylinders.clone(), off, sectors),
        part(cylinders.end..CYLINDERS, 0, SECTORS),
    ];
    truth
}

fn lbns(cylinders: &Range<u32>) -> Range<u64> {
    let first = |cylinder: u32| u64::from(cylinder * HEADS * SECTORS);
    first(cylinders.start)..first(cylinders.end)
}

fn probed(truth: &Profile, behaviour: Behaviour, seed: u64) -> (Emulated, ProbedProfile) {
    let mut device = Emulated::with(truth, behaviour, seed);
    let options = Options { seed, ..Options::default() };
    let found = Probe::new(options).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
    (device, found)
}

/// A drive that records whether a read of the check's length has met some of its LBNs.
struct Met {
    device: Emulated,
    some: Range<u64>,
    met: bool,
}

common::goes_through!(Met);

impl Met {
    fn before(&mut self, commands: &[(Op, LbnRange)]) -> Result<(), DeviceError> {
        let read = |range: &LbnRange| range.start().get()..range.end().get();
        self.met |= commands.iter().any(|(_, range)| {
            let (read, some) = (read(range), &self.some);
            range.len().get() == 8 && read.start < some.end && some.start < read.end
        });
        Ok(())
    }
}

fn measured(found: &ProbedProfile) -> u64 {
    finding(found, "tracks measured").value.parse().unwrap()
}

/// Returns the number of LBNs that a region and a range share.
fn common_to(region: &Unsure, others: &Range<u64>) -> u64 {
    region.end.get().min(others.end).saturating_sub(region.first.get().max(others.start))
}

#[test]
fn few_tracks_of_a_regular_zone_are_measured_and_no_region_is_unsure() {
    for behaviour in [Behaviour::default(), Behaviour::fast02()] {
        let truth = regular();
        let (device, found) = probed(&truth, behaviour, 1);
        assert_eq!(found.profile.layout.zones.len(), 1);
        assert!(found.report.unsure.is_empty(), "{:?}", found.report.unsure);
        // The bound is the tracks of two cylinders, and three for each halving of the rest: 45 of 3,000.
        let tracks = f64::from(CYLINDERS * HEADS);
        let most = f64::from(2 * HEADS) + 3.0 * tracks.log2();
        assert!(measured(&found) as f64 <= most, "{} tracks", measured(&found));
        common::holds(device, &truth, &found, 300.0);
    }
}

/// Returns the numbers of consecutive cylinders with one density. Two such cylinders may be two zones,
/// because no pattern recurs within two.
fn densities(profile: &Profile) -> Vec<(u32, SectorsPerTrack)> {
    let mut runs: Vec<(u32, SectorsPerTrack)> = Vec::new();
    for zone in &profile.layout.zones {
        let cylinders = zone.last_cylinder + 1 - zone.first_cylinder;
        match runs.last_mut().filter(|(_, sectors)| *sectors == zone.sectors_per_track) {
            Some((count, _)) => *count += cylinders,
            None => runs.push((cylinders, zone.sectors_per_track.clone())),
        }
    }
    runs
}

/// Another density moves all later LBNs, so every later reading shows it.
#[test]
fn tracks_of_another_density_are_modelled_with_few_more_measured() {
    // The bound is that of `promises.rs` for three zones; if times vary, each track is read about twice.
    let most = 3.0 * 3.0 * f64::from(CYLINDERS * HEADS).log2();
    for (behaviour, times) in [(Behaviour::default(), 1.0), (Behaviour::fast02(), 2.0)] {
        for cylinders in [300..301, 77..90, 597..599] {
            let truth = broken(cylinders.clone(), 0, 120);
            let (device, found) = probed(&truth, behaviour, 1);
            assert_eq!(densities(&found.profile), densities(&truth), "{cylinders:?}");
            assert!(found.report.unsure.is_empty(), "{:?}", found.report.unsure);
            assert!(measured(&found) as f64 <= times * most, "{cylinders:?}: {} tracks", measured(&found));
            common::holds(device, &truth, &found, 300.0);
        }
    }
}

/// All other tracks are at their angles, so only a read of a broken track finds one; then the report names
/// the broken tracks, however few there are.
#[test]
fn tracks_that_break_a_zones_rule_are_named_as_soon_as_a_read_meets_one() {
    let (mut met, mut exactly) = (0, 0);
    for behaviour in [Behaviour::default(), Behaviour::fast02()] {
        let (_, whole) = probed(&regular(), behaviour, 1);
        for seed in 1..=12 {
            let count = 1 + seed as u32 % 3;
            let first = 45 * seed as u32 + 5;
            let cylinders = first..first + count;
            let off = 5 + 11 * seed as i64;
            let (truth, some) = (broken(cylinders.clone(), off, SECTORS), lbns(&cylinders));
            let mut device = Met { device: Emulated::with(&truth, behaviour, seed), some, met: false };
            let options = Options { seed, ..Options::default() };
            let found = Probe::new(options).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap();
            let broken = device.some;
            let what = format!("{seed}: {cylinders:?} of {behaviour}, {:?}", found.report);
            // The map assumes that the broken tracks are regular, and measures no more than on a regular
            // drive, except for readings that meet them by chance.
            assert!(measured(&found) <= measured(&whole) + 60, "{what}");
            // If times vary, moves may be measured twice on one of the two drives and once on the other.
            let noisy = behaviour != Behaviour::default();
            assert!(noisy || found.report.commands <= whole.report.commands + 3_500, "{what}");
            let named = &found.report.unsure;
            assert!(named.iter().all(|region| common_to(region, &broken) > 0), "{what}");
            // If times vary, a read may end at another angle by chance. Repeated reads then do not, so
            // nothing is named.
            if found.report.check.elsewhere == 0.0 || !device.met {
                continue;
            }
            met += 1;
            assert!(!named.is_empty(), "{what}");
            let reported: u64 = named.iter().map(|region| common_to(region, &broken)).sum();
            assert_eq!(reported, broken.end - broken.start, "{what}");
            for region in named {
                assert!(region.why.contains("are at other angles than the map says"), "{what}");
                let sure = region.confidence;
                assert!(sure.reads >= 60 && sure.low < sure.high && sure.within_50us < 0.97, "{what}");
                assert!(found.profile.sources.contains(&region.to_string()), "{what}");
            }
            exactly += u32::from(named.len() == 1 && named[0].end.get() - named[0].first.get() == reported);
        }
    }
    // Of the 500 reads, one in 600, 300 or 200 meets a broken track. If broken tracks are more than a tenth
    // of a part of the drive, the whole part is named.
    assert!(met >= 12 && exactly >= 3, "{met} met, {exactly} named exactly");
}

/// At least one of 500 reads meets a fiftieth of the drive, except in one of 24,000 probes.
#[test]
fn a_fiftieth_of_a_zone_that_breaks_its_rule_is_always_named() {
    for seed in 1..=6 {
        let first = 90 * seed as u32;
        let cylinders = first..first + CYLINDERS / 50;
        let truth = broken(cylinders.clone(), 41, SECTORS);
        let (device, found) = probed(&truth, Behaviour::default(), seed);
        let reported: u64 =
            found.report.unsure.iter().map(|region| common_to(region, &lbns(&cylinders))).sum();
        let broken = lbns(&cylinders);
        // A reading ahead of the map may meet the broken tracks as well: then they are a zone of the profile.
        let modelled = found.profile.layout.zones.len() == 3;
        let of = broken.end - broken.start;
        assert!(modelled || 10 * reported >= 9 * of, "{seed}: {:?}", found.report.unsure);
        common::holds(device, &truth, &found, 300.0);
    }
}

/// One sector in a thousand is a moved one.
#[test]
fn single_sectors_that_moved_are_reported_when_a_read_meets_one() {
    let mut truth = regular();
    let all = u64::from(CYLINDERS * HEADS * SECTORS);
    let zone = &mut truth.layout.zones[0];
    zone.sparing.spares = 400;
    zone.defects = (0..400).map(|i| (1_000 * i + 123, all - 400 + i)).collect();
    let mut reported = 0;
    for seed in 1..=12 {
        let (_, found) = probed(&truth, Behaviour::default(), seed);
        let findings = found.report.findings.iter().filter(|f| f.what == "remapped LBNs");
        for lbn in findings.flat_map(|f| f.value.split(", ")) {
            let lbn: u64 = lbn.parse().unwrap();
            assert_eq!(lbn % 1_000, 123, "{seed}");
            reported += 1;
        }
    }
    assert!(reported >= 3, "{reported}");
}
