//! The reasons that the status gives for the wait of background requests.

use super::*;
use drive::Behaviour;
use model::{DriveModel, builtin};
use scheduler::{AuditConfig, IdleTime, OutsideConfig, Overheads};

/// Returns a disk whose idle time begins only after a long pause, as in a daemon.
fn serving(audit: Option<AuditConfig>) -> Disk<Emulated> {
    let profile = Profile::from_toml(super::super::PROFILE, "small.toml").unwrap();
    let (model, config) = core("sptf", 1);
    let drive = Emulated::new(&profile, Default::default(), 1, nameless()).unwrap();
    let outside = config.outside.serving().with_audit(audit);
    let mut disk = Disk::new(drive, model, config.with_outside(outside)).unwrap();
    disk.take_background_requests(BackgroundTerms::default());
    disk
}

fn wait(disk: &Disk<Emulated>) -> Option<WaitStatus> {
    disk.status().background_requests.unwrap().wait
}

/// Makes this number of foreground requests at scattered places, one each 100 ms; returns the end
/// of the last interval.
fn busy(disk: &mut Disk<Emulated>, requests: u64) -> Instant {
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    for id in 0..requests {
        disk.ask(at(100 * id), id, range(id * 977 % 3_400, 8), Ask::Read);
        run(disk, at(100 * id + 99));
    }
    at(100 * requests - 1)
}

#[test]
fn the_status_says_for_how_long_a_read_waits_without_requests_and_it_is_answered_then() {
    for requests in [1, 3, 30, 300] {
        let mut disk = serving(None);
        let asked = busy(&mut disk, requests);
        disk.ask_in_background(asked, read(1_000, 1, range(1_700, 64)));
        run(&mut disk, asked + Duration::from_millis(500));
        let now = asked + Duration::from_millis(500);
        let Some(WaitStatus { reason, silence_s: Some(silence), to_go_s: Some(to_go) }) = wait(&disk) else {
            panic!("{requests}: {:?}", wait(&disk))
        };
        assert!(["silence", "harm"].contains(&reason), "{reason}");
        let begun = Instant::ZERO + Duration::from_millis(100 * (requests - 1));
        let reported = now + Duration::from_millis_f64(to_go * 1e3).unwrap();
        // The pause begins when the last request arrives, or when it ends.
        let end = begun + Duration::from_millis_f64(silence * 1e3).unwrap();
        assert!(
            end.as_nanos().abs_diff(reported.as_nanos()) < 100_000_000,
            "{requests}: {silence} s, {to_go} s"
        );
        let early = reported.checked_sub(Duration::from_millis(1)).unwrap();
        assert_eq!(run(&mut disk, early), [], "{requests} requests: before the time that the status says");
        let answers = run(&mut disk, reported + Duration::from_millis(200));
        assert_eq!(ids(&answers), [1_000], "{requests} requests: {reason}, {to_go} s to go");
        assert_eq!(wait(&disk), None);
    }
}

/// A large drive has 400,000 cylinders, and at first the core does not know which of them have
/// wanted blocks.
#[test]
fn a_read_of_a_quiet_large_drive_waits_for_no_search_of_all_its_cylinders() {
    let profile = builtin::find("nearline-20tb").unwrap();
    let model = DriveModel::from_profile(&profile).unwrap();
    let behaviour = Behaviour::modern();
    let overheads = Overheads::of(&behaviour.firmware(profile.firmware.as_ref().unwrap()), &model, true);
    let place = OutsideConfig::beyond(overheads).serving();
    let config = Config::outside(place).with_idle(Some(IdleTime::default()));
    let (all, drive) =
        (model.layout().capacity().get(), Emulated::new(&profile, behaviour, 1, nameless()).unwrap());
    let mut disk: Disk<Emulated> = Disk::new(drive, model.into(), config).unwrap();
    disk.take_background_requests(BackgroundTerms::default());
    let mut now = second(1);
    for id in 0..8 {
        disk.ask_in_background(now, read(id, 1, range(all / 9 * (id + 1), 64)));
        let answers = run(&mut disk, now + Duration::from_secs(1));
        assert_eq!(ids(&answers), [id], "within a second");
        now += Duration::from_secs(1);
    }
}

#[test]
fn a_read_beside_requests_waits_for_these_and_one_in_a_window_without_background_work_for_its_end() {
    let mut disk = serving(Some(AuditConfig::new(1)));
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    disk.ask_in_background(at(0), read(1, 1, range(1_700, 64)));
    disk.declare(at(0), 1, range(0, CAPACITY));
    let mut reasons = std::collections::BTreeSet::new();
    for id in 2..4_000 {
        disk.ask(at(20 * id), id, range(id * 977 % 3_400, 8), Ask::Read);
        // New requests keep the background waiting.
        if id % 100 == 0 {
            disk.declare(at(20 * id), 1, range(0, CAPACITY));
            disk.ask_in_background(at(20 * id), read(10_000 + id, 1, range(id % 3_000, 300)));
        }
        let status = wait(&disk);
        reasons.extend(status.map(|wait| wait.reason));
        if let Some(WaitStatus { reason: "measurement", to_go_s, .. }) = status {
            assert!(to_go_s.is_some_and(|s| s <= 30.0), "{to_go_s:?}");
        }
        run(&mut disk, at(20 * id + 19));
    }
    assert!(reasons.contains("requests") && reasons.contains("measurement"), "{reasons:?}");
}

#[test]
fn without_idle_time_a_read_waits_for_gaps_and_at_a_fence_for_its_task() {
    let mut disk = without_time(Some(Floor::Within(Duration::from_secs(30))));
    disk.ask_in_background(Instant::ZERO, read(1, 1, range(0, 64)));
    run(&mut disk, second(10));
    let status = disk.status().background_requests.unwrap();
    assert_eq!((status.wait.unwrap().reason, status.floor_to_go_s), ("gaps_only", Some(20.0)));
    let mut disk = without_time_beside(None);
    disk.host(Fenced(Arc::new(AtomicU8::new(1))));
    disk.ask_in_background(Instant::ZERO, read(1, 1, range(90, 64)));
    assert_eq!(disk.status().background_requests.unwrap().wait.unwrap().reason, "fence");
}
