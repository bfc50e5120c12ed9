//! Drives with unreadable sectors, remapped sectors, and pauses: the probe avoids and reports them.

use crate::common::{self, Emulated};
use drive::{BadSectors, Behaviour, Recalibration};
use model::Profile;
use probe::{
    DeviceError, Journal, Options, Probe, ProbeError, ProbedDevice, ProbedProfile, Timed, Unreadable,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use units::{Bytes, Duration, Instant, Lbn, LbnRange, Op, Sectors};

fn truth() -> Profile {
    model::builtin::find("mimic-less-capacity").unwrap()
}

fn run(device: &mut Emulated) -> Result<ProbedProfile, ProbeError> {
    Probe::new(Options::default()).run(device, &mut |_| ControlFlow::Continue(()))
}

/// Adds this many random unreadable sectors, on which a drive gives up after several retries.
fn bad(count: u32, base: Behaviour) -> Behaviour {
    Behaviour { bad_sectors: Some(BadSectors { count, retries: 8 }), ..base }
}

fn reported(found: &ProbedProfile) -> BTreeSet<u64> {
    let lbns = |run: &Unreadable| run.first.get()..run.end.get();
    found.report.unreadable.iter().flat_map(lbns).collect()
}

#[test]
fn unreadable_sectors_are_avoided_and_reported() {
    for behaviour in [Behaviour::default(), Behaviour::fast02()] {
        let mut device = Emulated::with(&truth(), bad(8_000, behaviour), 1);
        let unreadable: BTreeSet<u64> = device.unreadable().map(Lbn::get).collect();
        let found = run(&mut device).unwrap();
        let reported = reported(&found);
        assert!(!reported.is_empty() && reported.is_subset(&unreadable), "{reported:?}");
        assert!(found.report.unsure.is_empty(), "{:?}", found.report.unsure);
        assert_eq!(found.profile.heads, truth().heads);
        assert_eq!(found.profile.layout.zones.len(), 1);
        common::holds(device, &truth(), &found, 300.0);
    }
}

/// The damaged sectors are some that every probe reads (the first ones, the first track's end) and some tracks
/// elsewhere.
#[test]
fn a_scratch_and_a_bad_first_sector_are_avoided() {
    let truth = truth();
    let n = match truth.layout.zones[0].sectors_per_track {
        model::profile::SectorsPerTrack::Same(n) => u64::from(n),
        _ => panic!("one density"),
    };
    for scratch in [0..1, 1..9, n - 1..n, n..n + 1, n - 2..n + 2, 40 * n + 7..43 * n, 1_000_000..1_000_300] {
        let mut device = Emulated::new(&truth);
        device.damage(LbnRange::new(Lbn::new(scratch.start), Sectors::new(scratch.end - scratch.start)));
        let found = run(&mut device).unwrap();
        assert!(reported(&found).iter().all(|lbn| scratch.contains(lbn)), "{scratch:?}");
        common::holds(device, &truth, &found, 300.0);
        assert_eq!(found.profile.heads, truth.heads, "{scratch:?}");
    }
}

/// The zone's prediction for an unreadable sector is compared with a readable sector nearby. When a reading some
/// hundred sectors away counted as the unreadable sector's, a scratch of two tracks became zones of a track each, and a
/// scratch of 3,000 sectors at the drive's end ended the probe.
#[test]
fn a_scratch_of_many_tracks_is_no_other_zone() {
    let truth = truth();
    let end = Emulated::new(&truth).capacity().get();
    for behaviour in [Behaviour::default(), Behaviour::fast02()] {
        let scratches = [
            681..980,
            5_447..5_848,
            5_440..8_440,
            2_000_000..2_005_000,
            end - 70..end,
            end - 300..end,
            end - 3_000..end,
            end - 4_000..end - 1,
        ];
        for scratch in testing::some(4, scratches) {
            let mut device = Emulated::with(&truth, behaviour, 1);
            let len = Sectors::new(scratch.end - scratch.start);
            device.damage(LbnRange::new(Lbn::new(scratch.start), len));
            let found = run(&mut device).unwrap_or_else(|error| panic!("{scratch:?}: {error}"));
            assert!(reported(&found).iter().all(|lbn| scratch.contains(lbn)), "{scratch:?}");
            // A scratch that begins with the first sector of a cylinder may hide that this cylinder is like the others.
            let zones = found.profile.layout.zones.len();
            assert!(zones == 1 || scratch.start == 681 && zones == 2, "{scratch:?}: {zones} zones");
            assert!(found.report.unsure.is_empty(), "{scratch:?}: {:?}", found.report.unsure);
            assert_eq!(found.profile.heads, truth.heads, "{scratch:?}");
            common::holds(device, &truth, &found, 300.0);
        }
    }
}

/// If the first readable sectors are thousands of sectors away, no angle of the first ones can be inferred: the probe
/// invents no map.
#[test]
fn a_drive_whose_first_tracks_are_lost_is_not_guessed_at() {
    for scratch in [0..3_000, 1..3_000, 680..4_680] {
        let mut device = Emulated::new(&truth());
        let len = Sectors::new(scratch.end - scratch.start);
        device.damage(LbnRange::new(Lbn::new(scratch.start), len));
        let report = run(&mut device).unwrap().report;
        let why = &report.given_up.first().unwrap().why;
        assert!(why.contains("no two sectors next to each other"), "{scratch:?}: {why}");
        assert!(report.findings.iter().all(|finding| finding.what != "zones"), "{scratch:?}: {report:?}");
        let named: u64 = report.unsure.iter().map(|u| u.end.get() - u.first.get()).sum();
        assert_eq!(named, device.capacity().get(), "{scratch:?}: {:?}", report.unsure);
    }
}

/// A drive without its first track is mapped if times are exact; if they vary, the report may call it uncertain.
#[test]
fn a_drive_whose_first_track_is_lost_is_mapped_or_reported_as_uncertain() {
    for behaviour in [Behaviour::default(), Behaviour::fast02()] {
        for len in [70, 140] {
            let mut device = Emulated::with(&truth(), behaviour, 1);
            device.damage(LbnRange::new(Lbn::ZERO, Sectors::new(len)));
            let found = run(&mut device).unwrap();
            let exact = behaviour == Behaviour::default();
            assert!(!exact || found.report.unsure.is_empty(), "{len}: {:?}", found.report.unsure);
            common::is_right_or_unsure(&truth(), &found);
            common::holds(device, &truth(), &found, 300.0);
        }
    }
}

#[test]
fn moved_sectors_and_pauses_are_no_failures() {
    let pauses = Recalibration { every: Duration::from_secs(5), takes: Duration::from_millis(50) };
    let behaviour = Behaviour { grown_defects: 200, recalibration: Some(pauses), ..Behaviour::default() };
    let mut device = Emulated::with(&truth(), behaviour, 1);
    let found = run(&mut device).unwrap();
    assert!(found.report.unreadable.is_empty());
    assert_eq!(found.profile.heads, truth().heads);
    common::holds(device, &truth(), &found, 300.0);
}

/// A drive on which every read fails.
struct Dead(Emulated);

impl ProbedDevice for Dead {
    fn capacity(&self) -> Sectors {
        self.0.capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.0.sector_bytes()
    }

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        // The drive retries for as long as a read takes.
        self.0.execute(at, op, range)?;
        let (reason, mend) = ("no sector can be read".to_owned(), "look at its cable".to_owned());
        Err(DeviceError { op, range, unreadable: Some(range.start()), reason, mend })
    }
}

/// The probe does not even find the revolution time of such a drive.
#[test]
fn a_drive_that_reads_nothing_is_given_up_with_place_and_mend() {
    let mut device = Dead(Emulated::with(&truth(), Behaviour::default(), 1));
    let error =
        Probe::new(Options::default()).run(&mut device, &mut |_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, ProbeError::Unreadable { .. }), "{error}");
    let said = error.to_string();
    for word in ["reads in a row failed, the last at LBN ", "save what is on the drive"] {
        assert!(said.contains(word), "no {word:?} in {said}");
    }
}

#[test]
fn a_drive_that_has_lost_much_has_a_profile_that_names_all_of_it_as_unsure() {
    let device = &mut Emulated::with(&truth(), bad(1_000_000, Behaviour::default()), 1);
    let found = run(device).unwrap();
    let all = LbnRange::new(Lbn::ZERO, device.capacity());
    let unsure: u64 = found.report.unsure.iter().map(|part| part.end.get() - part.first.get()).sum();
    assert_eq!(unsure, all.len().get(), "{:?}", found.report.unsure);
    assert!(!found.report.unreadable.is_empty());
}

#[test]
fn a_probe_of_a_drive_with_bad_sectors_goes_on_from_any_command() {
    let device = || Emulated::with(&truth(), bad(8_000, Behaviour::default()), 1);
    let whole = run(&mut device()).unwrap();
    for cut in testing::some(3, [700, 1_300, 2_900, 5_000, 6_500]) {
        let mut probe = Probe::new(Options::default());
        let mut seen = 0;
        let end = probe.run(&mut device(), &mut |at| {
            seen = at.journal.commands();
            if seen >= cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(matches!(end, Err(ProbeError::Interrupted)), "{end:?}");
        let journal = Journal::from_bytes(&probe.journal().to_bytes(), "state").unwrap();
        let mut rest = device();
        let found = Probe::resume(Options::default(), journal)
            .unwrap()
            .run(&mut rest, &mut |_| ControlFlow::Continue(()))
            .unwrap();
        assert_eq!(found.profile.layout, whole.profile.layout, "{seen}");
        common::holds(rest, &truth(), &found, 300.0);
    }
}
