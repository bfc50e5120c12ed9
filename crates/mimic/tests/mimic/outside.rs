//! SMTF outside a drive: with a profile and without one, on a disk with noise and on a device that is no disk.

use drive::{Behaviour, BlackBox, Flash, FlashConfig};
use mimic::{Learner, LearnerConfig, LearnerStats};
use model::{DriveModel, Profile, builtin};
use scheduler::policy::{PolicyName, SmtfRule};
use scheduler::{Caution, Config, IdleTime, Mimic, OutsideConfig};
use sim::{Background, Nothing, Outside, black_box};
use std::any::Any;
use std::sync::Arc;
use units::{Bytes, Instant, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig, Source};

/// The size of a request: 4 KB.
const BLOCK: Sectors = Sectors::new(8);

/// The area of a local load: 64 MB.
const PLACE: Sectors = Sectors::new(1 << 17);

const SMTF: PolicyName =
    PolicyName::Smtf(SmtfRule::new(scheduler::policy::Unknown::Set, scheduler::policy::Base::Sstf));

fn atlas() -> Profile {
    builtin::find("quantum-atlas-10k").expect("a built-in drive")
}

fn load(within: Sectors, arrival: Arrival) -> Issuer<Box<dyn Source>> {
    let load = RandomConfig::new(within, Bytes::new(512));
    let source = Box::new(Random::new(load, 11).expect("a load")) as Box<dyn Source>;
    Issuer::new(source, arrival, Instant::ZERO, 11).expect("a load")
}

fn learner(capacity: Sectors) -> Learner {
    Learner::new(LearnerConfig::new(capacity, BLOCK), None).expect("a configuration that holds")
}

/// Returns the drive model and the configuration of a core that knows only the drive's size, or `known` if that
/// is given.
fn core(known: Option<DriveModel>, capacity: Sectors, policy: PolicyName) -> (Arc<DriveModel>, Config) {
    let known = known.unwrap_or_else(|| {
        DriveModel::unknown(capacity, Bytes::new(512)).expect("no more sectors than drives have")
    });
    let outside = OutsideConfig::blind();
    (Arc::new(known), Config::default().with_policy(policy).with_outside(outside))
}

/// Continues a learner on a drive with noise and without a profile: `requests` requests in the first `bytes`
/// bytes, of which `waiting` wait at a time.
fn go_on(drive: &str, learner: Learner, (bytes, waiting): (u64, u32), requests: u64) -> Learner {
    let profile = builtin::find(drive).expect("a built-in drive");
    let (drive, _) = black_box(&profile, Behaviour::fast02(), 5).expect("a profile with firmware");
    let model = drive.model();
    let (capacity, sector) = (model.layout().capacity(), model.sector_bytes());
    let known = DriveModel::unknown(capacity, sector).expect("a drive's size");
    let (known, config) = core(Some(known), capacity, SMTF);
    let area = Sectors::new(bytes / sector.get()).min(capacity);
    let source =
        Box::new(Random::new(RandomConfig::new(area, sector), 11).expect("a load")) as Box<dyn Source>;
    let issuer = Issuer::new(source, Arrival::outstanding(waiting), Instant::ZERO, 11).expect("a load");
    let mut run = Outside::new(drive, known, config, issuer, Background::None).expect("a configuration");
    run.core_mut().set_mimic(Some(Box::new(learner)));
    run.advance(requests, &mut Nothing).expect("requests on the drive");
    taken(&mut run)
}

fn taken(run: &mut Outside<Box<dyn Source>>) -> Learner {
    let mimic: Box<dyn Any> = run.core_mut().set_mimic(None).expect("the learner that was given");
    *mimic.downcast::<Learner>().expect("a learner")
}

fn stats(run: &mut Outside<Box<dyn Source>>) -> LearnerStats {
    taken(run).stats()
}

/// Returns the mean access time, ms, over the second half of the requests, of which twenty wait, for a core
/// without a profile.
fn access(policy: PolicyName, requests: u64) -> f64 {
    let (drive, _) = black_box(&atlas(), Behaviour::fast02(), 5).expect("a profile with firmware");
    let capacity = drive.model().layout().capacity();
    let (known, config) = core(None, capacity, policy);
    let issuer = load(PLACE, Arrival::outstanding(20));
    let mut run = Outside::new(drive, known, config, issuer, Background::None).expect("a configuration");
    run.core_mut().set_mimic(Some(Box::new(learner(capacity))));
    run.advance(requests / 2, &mut Nothing).expect("requests on the drive");
    let half = run.now();
    run.advance(requests / 2, &mut Nothing).expect("requests on the drive");
    assert_eq!(run.core().caution(), Some(Caution::Unknown));
    let access = run.now().since(half).as_millis_f64() * 2.0 / requests as f64;
    let learnt = stats(&mut run);
    assert!(learnt.observed > requests * 9 / 10, "{learnt:?}");
    assert_eq!(learnt.changes, 0);
    access
}

#[test]
fn without_a_profile_times_learnt_from_completions_beat_distance() {
    let requests = testing::sized(40_000, 60_000);
    let [smtf, sstf, c_look, fcfs] =
        [SMTF, PolicyName::Sstf, PolicyName::CLook, PolicyName::Fcfs].map(|policy| access(policy, requests));
    assert!(smtf < 0.92 * sstf && smtf < 0.92 * c_look && sstf < fcfs, "{smtf} {sstf} {c_look} {fcfs}");
}

#[test]
fn without_a_profile_sptf_is_sstf() {
    assert_eq!(access(PolicyName::Sptf, 2_000), access(PolicyName::Sstf, 2_000));
}

#[test]
fn with_a_profile_gaps_are_used_beside_the_mimic() {
    let (drive, overheads) = black_box(&atlas(), Behaviour::fast02(), 5).expect("a profile with firmware");
    let known = Arc::new(drive.model().clone());
    let capacity = known.layout().capacity();
    let outside = OutsideConfig::beyond(overheads);
    let config = Config::default().with_policy(SMTF).with_outside(outside);
    let issuer = load(capacity, Arrival::outstanding(8));
    let scan = Background::Scan { block: BLOCK };
    let mut run = Outside::new(drive, known, config, issuer, scan).expect("a configuration");
    run.core_mut().set_mimic(Some(Box::new(learner(capacity))));
    run.advance(4_000, &mut Nothing).expect("requests on the drive");
    assert!(run.report().background.mb_per_s > 1.0, "{:?}", run.report().background);
    // Requests that were merged with others are not learnt from.
    let learnt = stats(&mut run);
    assert!((1_000..4_000).contains(&learnt.observed), "{learnt:?}");
}

#[test]
fn a_device_that_is_no_disk_is_served_all_the_same() {
    let capacity = Sectors::new(1 << 21);
    let flash: Box<dyn BlackBox> =
        Box::new(Flash::new(FlashConfig { capacity, ..FlashConfig::default() }, 1));
    let (known, config) = core(None, capacity, SMTF);
    let config = config.with_idle(Some(IdleTime::default()));
    let issuer = load(capacity, Arrival::oltp(4));
    let scan = Background::Scan { block: BLOCK };
    let mut run = Outside::over(flash, known, config, issuer, scan).expect("a configuration");
    run.core_mut().set_mimic(Some(Box::new(learner(capacity))));
    let mut more = true;
    while more && run.requests() < 200_000 {
        more = run.advance_scan(2_000, &mut Nothing).expect("requests on the device");
    }
    assert!(run.is_scanned(), "{:?} after {} requests", run.scan_progress(), run.requests());
    assert_eq!((run.core().caution(), run.planner_stats().detours), (Some(Caution::Unknown), 0));
    assert!(run.harm().share() < 0.02, "{:?}", run.harm());
}

#[test]
fn a_learner_learns_in_idle_time_without_a_profile() {
    let (drive, _) = black_box(&atlas(), Behaviour::fast02(), 5).expect("a profile with firmware");
    let capacity = drive.model().layout().capacity();
    let (known, config) = core(None, capacity, SMTF);
    let config = config.with_idle(Some(IdleTime::default().with_harm_ppm(100_000)));
    let issuer = load(PLACE, Arrival::oltp(1));
    let mut run = Outside::new(drive, known, config, issuer, Background::None).expect("a configuration");
    let probing = LearnerConfig { probe_idle: true, ..LearnerConfig::new(capacity, BLOCK) };
    let learner = Learner::new(probing, None).expect("a configuration that holds");
    assert!(learner.uses_idle_time());
    run.core_mut().set_mimic(Some(Box::new(learner)));
    // A probe delays the request behind it by the probe's remaining time, and by a longer move from there. The
    // budget is a tenth of the time without probes, which is an eleventh of the total. A tenth of the budget is
    // held in reserve if writes are unknown.
    run.advance(5_000, &mut Nothing).expect("requests on the drive");
    let (harm, learnt) = (run.harm().share(), stats(&mut run));
    assert!(learnt.known > 1_000 && harm < 0.1, "{learnt:?}, {harm}");
}

/// The size of the largest drive of these tests, in sectors.
const DRIVE_SECTORS_MAX: Sectors = Sectors::new(1 << 33);

#[test]
fn another_drive_of_the_same_speed_is_noticed_through_the_noise() {
    for (old, new) in [
        ("quantum-atlas-10k", "seagate-cheetah-9lp"),
        ("seagate-cheetah-9lp", "quantum-atlas-10k"),
        ("seagate-cheetah-18lp", "seagate-cheetah-9lp"),
        ("quantum-atlas-10k", "nearline-4tb"),
    ] {
        let place = (100_000_000, 20);
        let learnt = go_on(old, learner(DRIVE_SECTORS_MAX), place, 20_000);
        assert_eq!(learnt.stats().changes, 0, "{old}");
        let noticed = go_on(new, learnt, place, 4_000);
        assert_eq!(noticed.stats().changes, 1, "{old}, then {new}");
        let relearnt = go_on(new, noticed, place, 10_000);
        assert_eq!(relearnt.stats().changes, 1, "once is enough: {old}, then {new}");
    }
}

#[test]
fn another_load_is_not_taken_for_another_drive() {
    for drive in testing::some(1, ["quantum-atlas-10k", "nearline-4tb"]) {
        let mut learner = learner(DRIVE_SECTORS_MAX);
        for (bytes, waiting) in [(100_000_000, 20), (9_000_000_000, 4), (10_000_000, 64), (1_000_000_000, 2)]
        {
            learner = go_on(drive, learner, (bytes, waiting), 20_000);
            assert_eq!(learner.stats().changes, 0, "{drive}, {bytes} bytes, {waiting} waiting");
        }
    }
}
