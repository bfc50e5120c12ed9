//! The effect on clients of a drive that contradicts the core's profile: response times with open arrivals, compared
//! with the same run without background work, in gaps alone and with idle time. [`surprise`](super::surprise) and
//! [`fallback`](super::fallback) check the time at the drive instead.

use super::fallback::{EndlessScan, Exchanged};
use super::responses::{Pair, Pairs};
use super::surprise::{atlas, profile};
use super::troubled::Delayed;
use drive::{
    Behaviour, BlackBox, Flash, FlashConfig, Queue, QueueOrder, Recalibration, Shingled, ShingledConfig,
    SpindleDrift,
};
use freeblock_sim::{Background, Nothing, Outside, black_box};
use model::{DriveModel, Profile};
use scheduler::policy::PolicyName;
use scheduler::{Caution, Config, IdleTime, OutsideConfig, Overheads};
use std::rc::Rc;
use std::sync::Arc;
use units::{Duration, Instant};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

/// The number of requests in a run, and in a part of it, after which the core's state is sampled.
const REQUESTS: u64 = 6_000;
const PART_REQUESTS: u64 = 100;

/// Open arrivals that leave the drive idle most of the time (the first two), half of the time, and a third of the
/// time.
const SELDOM: Arrival = Arrival::Poisson { rate: 5.0 };
const RATE: Arrival = Arrival::Poisson { rate: 25.0 };
const NOW_AND_THEN: Arrival = Arrival::Poisson { rate: 40.0 };
const OFTEN: Arrival = Arrival::Poisson { rate: 70.0 };

type DeviceMaker = Box<dyn Fn(u64) -> Box<dyn BlackBox>>;

/// A drive, the core's profile of it, and the arrivals.
struct SurprisedCase {
    name: &'static str,
    device: DeviceMaker,
    known: Arc<DriveModel>,
    outside: OutsideConfig,
    arrival: Arrival,
}

fn overheads(profile: &Profile) -> Overheads {
    black_box(profile, Behaviour::fast02(), 1).unwrap().1
}

fn drive(profile: Profile, behaviour: Behaviour) -> DeviceMaker {
    Box::new(move |seed| Box::new(black_box(&profile, behaviour, seed).unwrap().0))
}

fn flash(known: &Arc<DriveModel>) -> DeviceMaker {
    let config = FlashConfig { capacity: known.layout().capacity(), ..FlashConfig::default() };
    Box::new(move |seed| Box::new(Flash::new(config, seed)))
}

fn shingled(profile: Profile, known: &Arc<DriveModel>) -> DeviceMaker {
    let config = ShingledConfig::of(known.layout().capacity(), known.sector_bytes());
    Box::new(move |seed| {
        let (drive, _) = black_box(&profile, Behaviour::fast02(), seed).unwrap();
        Box::new(Shingled::new(drive, config).unwrap())
    })
}

fn queue(order: QueueOrder) -> Behaviour {
    Behaviour { queue: Queue::Tagged { order, depth: 64 }, ..Behaviour::fast02() }
}

impl SurprisedCase {
    /// Returns a case with the profile of the Atlas 10K.
    fn atlas(name: &'static str, arrival: Arrival, device: DeviceMaker) -> Self {
        let (profile, known) = atlas();
        Self { name, device, known, outside: OutsideConfig::beyond(overheads(&profile)), arrival }
    }

    fn pairs(&self, idle: bool, policy: PolicyName, (requests, seeds): (u64, u64)) -> Pairs {
        Pairs::of(1..1 + seeds, |seed| {
            let run = |with_scan: bool| {
                let device = (self.device)(seed);
                let capacity = self.known.layout().capacity().min(device.capacity());
                let load = Oltp::new(OltpConfig::new(capacity, self.known.sector_bytes()), seed).unwrap();
                let load = Issuer::new(load, self.arrival, Instant::ZERO, seed).unwrap();
                let outside = self.outside;
                let idle = idle.then(IdleTime::default);
                let config = Config::default()
                    .with_outside(outside)
                    .with_idle(idle)
                    .with_policy(policy)
                    .with_seed(seed);
                let mut run =
                    Outside::over(device, Arc::clone(&self.known), config, load, Background::None).unwrap();
                if !with_scan {
                    run.advance(requests, &mut Nothing).unwrap();
                    return (run, 0.0);
                }
                let mut scan = EndlessScan::of(&mut run, capacity);
                let mut trusted = 0;
                for _ in 0..requests / PART_REQUESTS {
                    run.advance(PART_REQUESTS, &mut scan).unwrap();
                    trusted += u64::from(matches!(run.core().caution(), None | Some(Caution::Harm)));
                }
                (run, trusted as f64 / (requests / PART_REQUESTS) as f64)
            };
            let (plain, (scan, trusted)) = (run(false).0, run(true));
            Pair { trusted, ..Pair::of(&plain, &scan) }
        })
    }
}

/// Returns devices that differ from the profile all the time.
fn surprises() -> Vec<SurprisedCase> {
    let (_, known) = atlas();
    let noisy = Behaviour::fast02();
    let there = |behaviour| drive(atlas().0, behaviour);
    let recalibration = Recalibration { every: Duration::from_secs(5), takes: Duration::from_secs(1) };
    let drift = SpindleDrift { most_ppm: 20_000, step: Duration::from_millis(200) };
    let second = |s| Instant::ZERO + Duration::from_secs(s);
    let held_back = move |seed| -> Box<dyn BlackBox> {
        let (drive, _) = black_box(&atlas().0, noisy, seed).unwrap();
        Box::new(Delayed::for_a_while(Box::new(drive), second(20)..second(60), Duration::from_millis(8)))
    };
    let reorders = SurprisedCase::atlas("a queue that reorders", OFTEN, there(queue(QueueOrder::Sptf)));
    let six = reorders.outside.with_at_drive(6);
    vec![
        SurprisedCase::atlas("as in the profile", NOW_AND_THEN, there(noisy)),
        SurprisedCase::atlas(
            "slower arms",
            NOW_AND_THEN,
            there(Behaviour { seek_ageing_ppm: 400_000, ..noisy }),
        ),
        SurprisedCase {
            known: profile("seagate-cheetah-18lp").1,
            ..SurprisedCase::atlas("another's profile", NOW_AND_THEN, there(noisy))
        },
        SurprisedCase::atlas("flash", NOW_AND_THEN, flash(&known)),
        SurprisedCase { outside: six, ..reorders },
        SurprisedCase::atlas(
            "recalibrations",
            NOW_AND_THEN,
            there(Behaviour { recalibration: Some(recalibration), ..noisy }),
        ),
        SurprisedCase::atlas(
            "a drifting spindle",
            NOW_AND_THEN,
            there(Behaviour { drift: Some(drift), ..noisy }),
        ),
        SurprisedCase::atlas("answers held back", NOW_AND_THEN, Box::new(held_back)),
    ]
}

/// Returns devices with trouble during the first half of the requests. False means that idle time under SPTF is
/// checked in a test of its own.
fn troubles() -> Vec<(bool, Rc<SurprisedCase>)> {
    let (truth, known) = atlas();
    let noisy = Behaviour::fast02();
    let there = |behaviour| drive(atlas().0, behaviour);
    let slow = || there(Behaviour { seek_ageing_ppm: 400_000, ..noisy });
    let until_half = |case: SurprisedCase, healthy: DeviceMaker| {
        let Arrival::Poisson { rate } = case.arrival else { unreachable!() };
        let at = Instant::from_nanos((REQUESTS as f64 / 2.0 / rate * 1e9) as u64);
        let trouble = case.device;
        let device: DeviceMaker =
            Box::new(move |seed| Box::new(Exchanged::new([trouble(seed), healthy(seed)], at)));
        SurprisedCase { device, ..case }
    };
    let atlas_after =
        |name, rate, trouble| until_half(SurprisedCase::atlas(name, rate, trouble), there(noisy));
    let (cheetah, known_cheetah) = profile("seagate-cheetah-18lp");
    let cheetah_told = SurprisedCase {
        known: known_cheetah,
        outside: OutsideConfig::beyond(overheads(&cheetah)),
        ..SurprisedCase::atlas("another's profile, then its own", RATE, there(noisy))
    };
    let uncorrected = SurprisedCase::atlas("slower arms, not corrected", RATE, slow());
    let by_profile = uncorrected.outside.with_correct_moves(false);
    let reorders =
        SurprisedCase::atlas("a queue that reorders, then none", OFTEN, there(queue(QueueOrder::Sptf)));
    let six = reorders.outside.with_at_drive(6);
    let troubles = [
        (true, atlas_after("shingled, then not", SELDOM, shingled(truth, &known))),
        (true, until_half(SurprisedCase { outside: six, ..reorders }, there(queue(QueueOrder::Fcfs)))),
        (true, atlas_after("flash, then a disk", RATE, flash(&known))),
        (true, until_half(cheetah_told, drive(cheetah, noisy))),
        (true, until_half(SurprisedCase { outside: by_profile, ..uncorrected }, there(noisy))),
        (false, atlas_after("slower arms, then as in the profile", RATE, slow())),
    ];
    troubles.map(|(kept, case)| (kept, Rc::new(case))).into()
}

/// Idle time or gaps alone, and the policy.
const HOW: [(bool, PolicyName); 3] =
    [(true, PolicyName::Fcfs), (false, PolicyName::Fcfs), (true, PolicyName::Sptf)];

/// Checks the bound in gaps alone, or with idle time.
fn assert_bounded(case: &SurprisedCase, (idle, policy): (bool, PolicyName)) {
    let used = if idle { "idle time" } else { "gaps alone" };
    case.pairs(idle, policy, (REQUESTS, testing::sized(4, 32)))
        .assert_bounded_of(REQUESTS, &format!("{}, {used}, {policy:?}", case.name));
}

#[test]
fn on_any_device_responses_are_longer_by_no_more_than_the_bound() {
    for case in testing::some(2, surprises()) {
        testing::some(1, HOW).into_iter().for_each(|how| assert_bounded(&case, how));
    }
}

#[test]
fn after_trouble_responses_are_longer_by_no_more_than_the_bound() {
    // The part of the bound that idle time uses while gaps are unused must not be available to detours afterwards.
    let cases = troubles().into_iter().flat_map(|(is_kept_by_sptf, case)| {
        let how = HOW.into_iter().filter(move |(_, policy)| is_kept_by_sptf || *policy == PolicyName::Fcfs);
        testing::some(1, how).into_iter().map(move |how| (Rc::clone(&case), how))
    });
    for (case, how) in testing::some(1, cases) {
        assert_bounded(&case, how);
    }
}

#[test]
fn after_a_change_of_the_drive_responses_under_sptf_are_longer_by_no_more_than_the_bound() {
    for (_, case) in troubles().into_iter().filter(|(is_kept_by_sptf, _)| !is_kept_by_sptf) {
        assert_bounded(&case, (true, PolicyName::Sptf));
    }
}

#[test]
fn shingled_tracks_are_not_trusted_under_any_load() {
    let (profile, known) = atlas();
    let open = [5.0, 15.0, 30.0].map(|rate| (Arrival::Poisson { rate }, REQUESTS));
    // After some thousand requests the cache of the shingled drive is full, and the next requests wait until whole
    // bands are written.
    let closed = [1, 10].map(|tasks| (Arrival::outstanding(tasks), 2 * REQUESTS));
    for (arrival, requests) in testing::some(1, open.into_iter().chain(closed)) {
        let case = SurprisedCase::atlas("shingled", arrival, shingled(profile.clone(), &known));
        for idle in [false, true] {
            let pairs = case.pairs(idle, PolicyName::Fcfs, (requests, testing::sized(4, 8)));
            let what = format!("{arrival:?}, idle time {idle}");
            pairs.assert_bounded_of(requests, &what);
            assert!(pairs.trusted() < 0.1, "{what}: {pairs}");
        }
    }
}
