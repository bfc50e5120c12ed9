//! A drive that does not do what its profile says.

use crate::log::Log;
use crate::{PROFILE, core, nameless, range};
use device::{Ask, Device, Emulated};
use model::Profile;
use server::{Disk, DiskStatus};
use units::Instant;
use workload::random::Stream;

/// What a minute and a half of reads makes of a disk with this profile, which is taken for one of 6,000 rpm, and the log.
fn served(profile: &str) -> (DiskStatus, Log) {
    let (model, config) = core("sptf", 3);
    let profile = Profile::from_toml(profile, "drive.toml").unwrap();
    let drive = Emulated::new(&profile, Default::default(), 3, nameless()).unwrap();
    let log = Log::default();
    let status = tracing::subscriber::with_default(log.clone(), || {
        let mut disk = Disk::new(drive, model, config).unwrap();
        let (mut dice, mut now) = (Stream::new(3, "reads"), Instant::ZERO);
        let places = std::num::NonZero::new(3_000).unwrap();
        for id in 0..10_000 {
            disk.ask(now, id, range(dice.below(places), 8), Ask::Read);
            while disk.poll(now).is_none() {
                now = disk.next_event().unwrap();
                disk.advance(now);
            }
        }
        disk.status()
    });
    (status, log)
}

#[test]
fn a_drive_that_is_not_its_profiles_is_named_in_the_log_once() {
    let (status, log) = served(PROFILE);
    assert!(!status.mistrusted && status.caution.is_none(), "{status:?}");
    assert!(!log.has(&["WARN"]));
    let other =
        PROFILE.replace("rpm = 6000", "rpm = 7919").replace("[10, 2.0], [19, 3.0]", "[10, 6.3], [19, 9.1]");
    let (status, log) = served(&other);
    assert!(status.mistrusted && status.caution.is_some(), "{status:?}");
    let said = ["WARN", "does not do what its profile says", "caution=", "foreseen="];
    assert_eq!(log.numbers(&said, "none").len(), 1);
}
