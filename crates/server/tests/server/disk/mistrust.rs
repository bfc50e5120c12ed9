//! A drive that contradicts its profile.

use super::{PROFILE, core, nameless, range};
use crate::support::log::OperatorLog;
use device::{Abilities, Answer, Ask, Device, Emulated};
use model::Profile;
use server::{Disk, DiskStatus};
use units::{Bytes, Duration, Instant, LbnRange};
use workload::random::Stream;

fn drive(profile: &str) -> Emulated {
    let profile = Profile::from_toml(profile, "drive.toml").unwrap();
    Emulated::new(&profile, Default::default(), 3, nameless()).unwrap()
}

/// Returns the profile of the tests' drive with another speed.
fn at_rpm(rpm: u32) -> String {
    PROFILE.replace("rpm = 6000", &format!("rpm = {rpm}"))
}

/// Makes `reads` random reads, one at a time.
fn read(disk: &mut Disk<impl Device>, now: &mut Instant, dice: &mut Stream, reads: u64) -> DiskStatus {
    let places = std::num::NonZero::new(3_000).unwrap();
    for id in 0..reads {
        disk.ask(*now, id, range(dice.below(places), 8), Ask::Read);
        while disk.poll(*now).is_none() {
            *now = disk.next_event().unwrap();
            disk.advance(*now);
        }
    }
    disk.status()
}

/// Serves a minute and a half of reads from a 6,000 rpm drive with this profile; returns the status and the log.
fn served(profile: &str) -> (DiskStatus, OperatorLog) {
    let (model, config) = core("sptf", 3);
    let log = OperatorLog::default();
    let status = tracing::subscriber::with_default(log.clone(), || {
        let mut disk = Disk::new(drive(profile), model, config).unwrap();
        read(&mut disk, &mut Instant::ZERO.clone(), &mut Stream::new(3, "reads"), 10_000)
    });
    (status, log)
}

const MISTRUSTED: [&str; 4] = ["WARN", "does not do what its profile says", "caution=", "predicted="];
const TRUSTED: [&str; 2] = ["INFO", "does what its profile says again"];

#[test]
fn a_drive_that_is_not_its_profiles_is_named_in_the_log_once() {
    let (status, log) = served(PROFILE);
    assert!(!status.mistrusted && status.caution.is_none(), "{status:?}");
    assert!(!log.has(&["WARN"]));
    let slower = at_rpm(7_919).replace("[10, 2.0], [19, 3.0]", "[10, 6.3], [19, 9.1]");
    // The second profile is of a drive an eighth faster: between two reads its prediction is wrong by at most an
    // eighth of a revolution.
    for other in [slower, at_rpm(6_713)] {
        let (status, log) = served(&other);
        assert!(status.mistrusted && status.caution.is_some(), "{status:?}");
        assert_eq!(log.numbers(&MISTRUSTED, "none").len(), 1);
    }
}

/// One drive until the instant `at`, when it must be idle, and another drive from then on.
#[derive(Debug)]
struct Exchanged {
    drives: [Emulated; 2],
    at: Instant,
    asked: usize,
}

impl Device for Exchanged {
    fn sector_bytes(&self) -> Bytes {
        self.drives[0].sector_bytes()
    }

    fn size(&self) -> Bytes {
        self.drives[0].size()
    }

    fn abilities(&self) -> Abilities {
        self.drives[0].abilities()
    }

    fn ask(&mut self, now: Instant, id: u64, range: LbnRange, ask: Ask) {
        self.asked = usize::from(now >= self.at);
        self.drives[self.asked].advance(now);
        self.drives[self.asked].ask(now, id, range, ask);
    }

    fn next_event(&self) -> Option<Instant> {
        self.drives.iter().filter_map(Device::next_event).min()
    }

    fn advance(&mut self, now: Instant) {
        self.drives.iter_mut().for_each(|drive| drive.advance(now));
    }

    fn poll(&mut self, now: Instant) -> Option<Answer> {
        self.drives.iter_mut().find_map(|drive| drive.poll(now))
    }
}

#[test]
fn the_status_and_the_log_report_when_the_drive_follows_its_profile_again() {
    let (model, config) = core("sptf", 3);
    let log = OperatorLog::default();
    tracing::subscriber::with_default(log.clone(), || {
        let at = Instant::ZERO + Duration::from_secs(60);
        let device = Exchanged { drives: [drive(&at_rpm(6_713)), drive(PROFILE)], at, asked: 0 };
        let mut disk = Disk::new(device, model, config).unwrap();
        let (mut now, mut dice) = (Instant::ZERO, Stream::new(3, "reads"));
        while now < at {
            read(&mut disk, &mut now, &mut dice, 1);
        }
        let trouble = disk.status();
        assert!(trouble.mistrusted && trouble.caution == Some("mistrust"), "{trouble:?}");
        assert!(log.has(&MISTRUSTED) && !log.has(&TRUSTED));
        let after = read(&mut disk, &mut now, &mut dice, 8_000);
        assert!(!after.mistrusted && after.caution.is_none(), "{after:?}");
        assert!(log.has(&TRUSTED));
    });
}
