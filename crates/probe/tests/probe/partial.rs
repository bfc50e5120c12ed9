//! Drives that cannot be measured, or not as a whole: the probe still returns a profile, the report names the parts
//! that are missing, and a resumed probe measures anew.

use crate::common::{self, Emulated};
use drive::{BadSectors, Behaviour};
use model::{DriveModel, Profile};
use probe::{DeviceError, Journal, Options, Probe, ProbedDevice, ProbedProfile, Timed};
use std::ops::ControlFlow;
use units::{Bytes, Duration, Instant, LbnRange, Op, Sectors};

fn truth() -> Profile {
    model::builtin::find("mimic-less-capacity").unwrap()
}

/// A drive whose completions are randomly delayed, each by up to a revolution, after the first `calm` commands.
struct Restless {
    device: Emulated,
    calm: u64,
    late: u64,
    dice: u64,
}

impl Restless {
    fn after(calm: u64) -> Self {
        Self { device: Emulated::new(&truth()), calm, late: 0, dice: 1 }
    }

    /// Returns the total delay of this drive's clock against that of the inner drive, and adds to it after the first
    /// commands.
    fn later(&mut self) -> Duration {
        match self.calm.checked_sub(1) {
            Some(calm) => self.calm = calm,
            None => {
                self.dice = self.dice.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
                self.late += ((self.dice >> 40) * 6_000_000) >> 24;
            }
        }
        Duration::from_nanos(self.late)
    }

    fn early(&self, at: Instant) -> Instant {
        Instant::from_nanos(at.as_nanos().saturating_sub(self.late))
    }
}

impl ProbedDevice for Restless {
    fn capacity(&self) -> Sectors {
        self.device.capacity()
    }

    fn sector_bytes(&self) -> Bytes {
        self.device.sector_bytes()
    }

    fn now(&self) -> Instant {
        self.device.now() + Duration::from_nanos(self.late)
    }

    fn execute(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Timed, DeviceError> {
        let before = Duration::from_nanos(self.late);
        let timed = self.device.execute(self.early(at), op, range)?;
        let later = self.later();
        Ok(Timed { submitted: timed.submitted + before, completed: timed.completed + later })
    }
}

fn probed(probe: &mut Probe, device: &mut dyn ProbedDevice) -> ProbedProfile {
    probe.run(device, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn is_named_whole(found: &ProbedProfile) -> bool {
    let capacity = DriveModel::from_profile(&truth()).unwrap().layout().capacity().get();
    let named: u64 = found.report.unsure.iter().map(|u| u.end.get() - u.first.get()).sum();
    named == capacity
}

#[test]
fn a_drive_with_random_times_has_a_profile_and_is_named_whole() {
    for calm in [600, 1_500, 4_000] {
        let found = probed(&mut Probe::new(Options::default()), &mut Restless::after(calm));
        assert!(found.report.is_partial(), "{calm}: {:?}", found.report);
        assert!(is_named_whole(&found), "{calm}: {:?}", found.report.unsure);
        let capacity = DriveModel::from_profile(&found.profile).unwrap().layout().capacity();
        assert!(capacity >= Restless::after(0).capacity(), "{calm}");
        assert!(found.profile.rpm.abs_diff(10_000) < 250, "{calm}: {}", found.profile.rpm);
    }
}

#[test]
fn a_probe_that_goes_on_from_a_part_measures_anew_and_finds_the_whole() {
    let mut probe = Probe::new(Options::default());
    assert!(probed(&mut probe, &mut Restless::after(600)).report.is_partial());
    let journal = Journal::from_bytes(&probe.journal().to_bytes(), "state").unwrap();
    let mut again = Probe::resume(Options::default(), journal).unwrap();
    assert_eq!(again.journal().attempts(), 1);
    let mut device = Emulated::new(&truth());
    let found = probed(&mut again, &mut device);
    assert!(!found.report.is_partial(), "{:?}", found.report);
    common::holds(device, &truth(), &found, 300.0);
    // The second result covers the whole drive, so a probe resumed from its state sends no commands.
    let journal = Journal::from_bytes(&again.journal().to_bytes(), "state").unwrap();
    let mut same = Probe::resume(Options::default(), journal).unwrap();
    assert_eq!(probed(&mut same, &mut Restless::after(0)), found);
    assert_eq!(same.journal().attempts(), 1);
}

#[test]
fn a_drive_that_has_lost_too_much_is_read_no_further_and_has_a_profile() {
    let bad_sectors = Some(BadSectors { count: 200_000, retries: 8 });
    let mut device = Emulated::with(&truth(), Behaviour { bad_sectors, ..Behaviour::default() }, 1);
    let mut probe = Probe::new(Options::default());
    let found = probed(&mut probe, &mut device);
    assert!(found.report.is_partial() && is_named_whole(&found), "{:?}", found.report);
    let lost: u64 = found.report.unreadable.iter().map(|run| run.end.get() - run.first.get()).sum();
    assert!(lost <= 513, "{lost}");
    let why = &found.report.given_up.first().unwrap().why;
    for word in ["cannot be read, the last at LBN ", "save what is on the drive"] {
        assert!(why.contains(word), "no {word:?} in {why}");
    }
}
