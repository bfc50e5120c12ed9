//! A drive that contradicts the core's profile: the core notices and reports the contradiction, stops using gaps, and
//! recovers. Each run is compared with the same run without background work.

use super::troubled::Delayed;
use drive::{
    Behaviour, BlackBox, Flash, FlashConfig, Queue, QueueOrder, Recalibration, Shingled, ShingledConfig,
    SpindleDrift,
};
use freeblock_sim::{Background, Nothing, Outside, black_box};
use model::{DriveModel, Profile, builtin};
use scheduler::{Caution, Config, OutsideConfig, Overheads};
use std::sync::Arc;
use units::{Duration, Instant, Sectors};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

pub fn profile(name: &str) -> (Profile, Arc<DriveModel>) {
    let profile = builtin::find(name).unwrap();
    let model = Arc::new(DriveModel::from_profile(&profile).unwrap());
    (profile, model)
}

pub fn atlas() -> (Profile, Arc<DriveModel>) {
    profile("quantum-atlas-10k")
}

const SCAN: Background = Background::Scan { block: Sectors::new(8) };

/// The number of requests in a run, and in a part of it, after which the core's state is sampled.
const REQUESTS: u64 = 12_000;
const PART_REQUESTS: u64 = 100;

/// A run with a scan, compared with the same run without.
struct SurpriseTwins {
    /// The increase of a foreground request's time at the drive by the scan, in percent.
    slower: f64,
    /// The core's caution after each part.
    cautions: Vec<Option<Caution>>,
    detours: u64,
    scan: Outside<Oltp>,
}

impl SurpriseTwins {
    /// Runs on the devices that `device` returns, with a core that gets `known` and the overheads in `config`.
    fn run(device: impl Fn() -> Box<dyn BlackBox>, known: &Arc<DriveModel>, config: OutsideConfig) -> Self {
        let begin = |background| {
            let device = device();
            // The common capacity, so that every request is valid.
            let capacity = known.layout().capacity().min(device.capacity());
            let source = Oltp::new(OltpConfig::new(capacity, known.sector_bytes()), 3).unwrap();
            let load = Issuer::new(source, Arrival::oltp(10), Instant::ZERO, 3).unwrap();
            let config = Config::outside(config);
            Outside::over(device, Arc::clone(known), config, load, background).unwrap()
        };
        let mut plain = begin(Background::None);
        plain.advance(REQUESTS, &mut Nothing).unwrap();
        let mut scan = begin(SCAN);
        let mut cautions = Vec::new();
        for _ in 0..REQUESTS / PART_REQUESTS {
            scan.advance(PART_REQUESTS, &mut Nothing).unwrap();
            cautions.push(scan.core().caution());
        }
        // The access time, which excludes the waits for other requests: those grow with the load.
        let access = |run: &Outside<Oltp>| run.report().foreground.mean_access_ms;
        let slower = (access(&scan) / access(&plain) - 1.0) * 100.0;
        Self { slower, cautions, detours: scan.planner_stats().detours, scan }
    }

    /// Runs on devices of this behaviour, with a core that gets the true profile.
    fn of(behaviour: Behaviour) -> Self {
        Self::seeded(behaviour, 1)
    }

    fn seeded(behaviour: Behaviour, seed: u64) -> Self {
        let (profile, model) = atlas();
        let (_, overheads) = black_box(&profile, behaviour, seed).unwrap();
        let device = || Box::new(black_box(&profile, behaviour, seed).unwrap().0) as Box<dyn BlackBox>;
        Self::run(device, &model, OutsideConfig::beyond(overheads))
    }

    fn assert_unharmed(&self) {
        assert!(self.slower < 1.0, "{:.2}% slower; {} detours", self.slower, self.detours);
    }

    /// Returns the share of the time in which the core did not use gaps.
    fn cautious(&self) -> f64 {
        self.cautions.iter().flatten().count() as f64 / self.cautions.len() as f64
    }

    fn mb_per_s(&self) -> f64 {
        self.scan.report().background.mb_per_s
    }
}

#[test]
fn a_drive_that_matches_its_profile_is_trusted() {
    // The scan's yield at the harm bound differs by a tenth between seeds of the noise.
    let all: Vec<SurpriseTwins> =
        (1..testing::sized(5, 9)).map(|seed| SurpriseTwins::seeded(Behaviour::fast02(), seed)).collect();
    for twins in &all {
        twins.assert_unharmed();
        // Trust takes some hundred commands.
        let later = &twins.cautions[10..];
        assert!(!later.contains(&Some(Caution::Mistrust)), "{later:?}");
        let harm = twins.scan.core().detour_harm();
        assert!(harm.share() < 0.012, "{harm:?}");
    }
    let mb_per_s = all.iter().map(SurpriseTwins::mb_per_s).sum::<f64>() / all.len() as f64;
    assert!(mb_per_s > 5.0, "{mb_per_s}");
}

#[test]
fn no_gap_is_used_before_the_core_knows_the_drive() {
    let (profile, model) = atlas();
    let (_, overheads) = black_box(&profile, Behaviour::fast02(), 1).unwrap();
    let core = scheduler::OutsideDrive::new(model, Config::outside(OutsideConfig::beyond(overheads)));
    assert_eq!(core.caution(), Some(Caution::Unsynchronised));
}

#[test]
fn arms_slower_than_the_profile_are_not_trusted() {
    let twins = SurpriseTwins::of(Behaviour { seek_ageing_ppm: 400_000, ..Behaviour::fast02() });
    twins.assert_unharmed();
    assert!(twins.cautious() > 0.9, "{}", twins.cautious());
}

#[test]
fn another_drives_profile_is_not_trusted() {
    let (_, wrong) = profile("seagate-cheetah-18lp");
    let (profile, _) = atlas();
    let (_, overheads) = black_box(&profile, Behaviour::fast02(), 1).unwrap();
    let device = || Box::new(black_box(&profile, Behaviour::fast02(), 1).unwrap().0) as Box<dyn BlackBox>;
    let twins = SurpriseTwins::run(device, &wrong, OutsideConfig::beyond(overheads));
    twins.assert_unharmed();
    assert!(twins.cautious() > 0.9, "{}", twins.cautious());
}

#[test]
fn a_device_without_a_head_gets_no_detours() {
    let (_, model) = atlas();
    let device = || {
        let config = FlashConfig { capacity: model.layout().capacity(), ..FlashConfig::default() };
        Box::new(Flash::new(config, 1)) as Box<dyn BlackBox>
    };
    let overheads = Overheads::default().with_overlap(true);
    let twins = SurpriseTwins::run(device, &model, OutsideConfig::beyond(overheads));
    twins.assert_unharmed();
    assert!(twins.detours < REQUESTS / 100, "{} detours", twins.detours);
    assert!(twins.cautious() > 0.9, "{}", twins.cautious());
}

#[test]
fn a_shingled_drive_is_not_harmed() {
    let (profile, model) = atlas();
    let (_, overheads) = black_box(&profile, Behaviour::fast02(), 1).unwrap();
    let device = || {
        let (drive, _) = black_box(&profile, Behaviour::fast02(), 1).unwrap();
        let config = ShingledConfig::of(model.layout().capacity(), model.sector_bytes());
        Box::new(Shingled::new(drive, config).unwrap()) as Box<dyn BlackBox>
    };
    let twins = SurpriseTwins::run(device, &model, OutsideConfig::beyond(overheads));
    twins.assert_unharmed();
    assert!(twins.cautious() > 0.9, "{}", twins.cautious());
}

#[test]
fn a_queue_that_cannot_be_kept_in_order_is_not_trusted() {
    let (profile, model) = atlas();
    let queue = Queue::Tagged { order: QueueOrder::Sptf, depth: 64 };
    let behaviour = Behaviour { queue, ..Behaviour::fast02() };
    let (_, overheads) = black_box(&profile, behaviour, 1).unwrap();
    let device = || Box::new(black_box(&profile, behaviour, 1).unwrap().0) as Box<dyn BlackBox>;
    // With more than two commands the drive can reorder them.
    let config = OutsideConfig::beyond(overheads).with_at_drive(6);
    let twins = SurpriseTwins::run(device, &model, config);
    twins.assert_unharmed();
    assert!(twins.cautious() > 0.9, "{}", twins.cautious());
}

#[test]
fn a_drive_that_recalibrates_for_a_second_is_trusted_again_at_once() {
    let recalibration = Recalibration { every: Duration::from_secs(5), takes: Duration::from_secs(1) };
    let behaviour = Behaviour { recalibration: Some(recalibration), ..Behaviour::fast02() };
    let twins = SurpriseTwins::of(behaviour);
    twins.assert_unharmed();
    let mistrusted = twins.cautions.iter().filter(|c| **c == Some(Caution::Mistrust)).count();
    assert!(mistrusted < twins.cautions.len() / 20, "{:?}", twins.cautions);
    // The share of time at the harm bound differs by half between seeds of the noise.
    let all: Vec<SurpriseTwins> =
        (2..5).map(|seed| SurpriseTwins::seeded(behaviour, seed)).chain([twins]).collect();
    let cautious = all.iter().map(SurpriseTwins::cautious).sum::<f64>() / all.len() as f64;
    assert!(cautious < 0.3, "{cautious}");
    assert!(all.iter().all(|twins| twins.mb_per_s() > 4.0));
}

#[test]
fn a_spindle_that_drifts_fast_is_followed() {
    let drift = SpindleDrift { most_ppm: 20_000, step: Duration::from_millis(200) };
    let twins = SurpriseTwins::of(Behaviour { drift: Some(drift), ..Behaviour::fast02() });
    twins.assert_unharmed();
    assert!(twins.mb_per_s() > 4.0, "{}", twins.mb_per_s());
}

#[test]
fn when_trouble_ends_the_gaps_are_used_again() {
    let (profile, model) = atlas();
    let second = |s| Instant::ZERO + Duration::from_secs(s);
    let quiet = |part: &[Option<Caution>]| part.iter().filter(|c| c.is_none()).count();
    let (mut before, mut after, mut parts) = (0, 0, 0);
    // In so few requests the share of time at the harm bound differs by half between seeds of the noise.
    for seed in 1..5 {
        let (_, overheads) = black_box(&profile, Behaviour::fast02(), seed).unwrap();
        let device = || {
            let (drive, _) = black_box(&profile, Behaviour::fast02(), seed).unwrap();
            // A component between host and drive delays completions.
            let held = Duration::from_millis(8);
            Box::new(Delayed::for_a_while(Box::new(drive), second(20)..second(45), held)) as Box<dyn BlackBox>
        };
        let twins = SurpriseTwins::run(device, &model, OutsideConfig::beyond(overheads));
        twins.assert_unharmed();
        let third = twins.cautions.len() / 6;
        let (first, rest) = twins.cautions.split_at(third);
        let mistrusted =
            rest.iter().filter(|c| matches!(c, Some(Caution::Mistrust | Caution::Unsynchronised)));
        assert!(mistrusted.count() > third, "{rest:?}");
        before += quiet(first);
        after += quiet(&rest[rest.len() - third..]);
        parts += third;
    }
    assert!(before > parts / 2, "{before} of {parts}");
    assert!(after > parts / 2, "{after} of {parts}");
}
