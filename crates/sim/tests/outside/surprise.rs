//! A drive that is not what the core was told: it notices, leaves the gaps alone, says so, and comes back.

use drive::{Behaviour, BlackBox, Flash, FlashConfig};
use freeblock_sim::{Background, Nothing, Outside, black_box};
use model::{DriveModel, Profile, builtin};
use scheduler::{Caution, Config, OutsideConfig, Overheads, Place};
use std::sync::Arc;
use units::{Duration, Instant, Sectors};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

fn atlas() -> (Profile, Arc<DriveModel>) {
    let profile = builtin::find("quantum-atlas-10k").unwrap();
    let model = Arc::new(DriveModel::from_profile(&profile).unwrap());
    (profile, model)
}

fn load(model: &DriveModel) -> Issuer<Oltp> {
    let source = Oltp::new(OltpConfig::new(model.layout().capacity(), model.sector_bytes()), 3).unwrap();
    Issuer::new(source, Arrival::oltp(10), Instant::ZERO, 3).unwrap()
}

fn guarded(overheads: Overheads) -> Config {
    Config { place: Place::Outside(OutsideConfig::beyond(overheads)), ..Config::default() }
}

const SCAN: Background = Background::Scan { block: Sectors::new(8) };

/// How much longer the foreground's responses are with the scan than without, in percent.
fn harm(run: impl Fn(Background) -> Outside<Oltp>) -> f64 {
    let response = |background| {
        let mut run = run(background);
        run.advance(6_000, &mut Nothing).unwrap();
        run.report().foreground.mean_response_ms
    };
    (response(SCAN) / response(Background::None) - 1.0) * 100.0
}

#[test]
fn a_drive_as_told_is_trusted() {
    let (profile, model) = atlas();
    let (drive, overheads) = black_box(&profile, Behaviour::noisy(), 1).unwrap();
    let mut run = Outside::new(drive, Arc::clone(&model), guarded(overheads), load(&model), SCAN).unwrap();
    assert_eq!(run.core_mut().caution(), Some(Caution::Unsynchronised));
    run.advance(4_000, &mut Nothing).unwrap();
    assert!(run.report().background.mb_per_s > 3.0);
    let harm = run.core_mut().detour_harm().unwrap();
    assert!(harm.share() < 0.02, "{harm:?}");
}

#[test]
fn arms_that_are_slower_than_told_are_not_trusted() {
    let (profile, model) = atlas();
    let behaviour = Behaviour { seek_ageing_ppm: 400_000, ..Behaviour::noisy() };
    let run = |background| {
        let (drive, overheads) = black_box(&profile, behaviour, 1).unwrap();
        Outside::new(drive, Arc::clone(&model), guarded(overheads), load(&model), background).unwrap()
    };
    let mut with = run(SCAN);
    with.advance(6_000, &mut Nothing).unwrap();
    assert!(with.core_mut().caution().is_some(), "{:?}", with.prediction_errors().map(|e| e.late()));
    let harm = harm(run);
    assert!(harm < 2.0, "{harm}% slower");
}

#[test]
fn a_device_without_a_head_gets_no_detours() {
    let (_, model) = atlas();
    let run = |background| {
        let capacity = model.layout().capacity();
        let config = FlashConfig { capacity, ..FlashConfig::default() };
        let device: Box<dyn BlackBox> = Box::new(Flash::new(config, 1));
        let overheads = Overheads { overlap: true, ..Overheads::default() };
        Outside::over(device, Arc::clone(&model), guarded(overheads), load(&model), background).unwrap()
    };
    let mut with = run(SCAN);
    with.advance(6_000, &mut Nothing).unwrap();
    assert!(with.core_mut().caution().is_some());
    let detours = with.planner_stats().detours;
    assert!(detours < 60, "{detours} detours for 6,000 requests");
}

#[test]
fn trust_comes_back_with_the_drive() {
    let (profile, model) = atlas();
    // A recalibration that takes the arm away for a second, every ten: within it nothing is foreseen.
    let behaviour = Behaviour {
        recalibration: Some(drive::Recalibration {
            every: Duration::from_secs(10),
            takes: Duration::from_secs(1),
        }),
        ..Behaviour::noisy()
    };
    let (drive, overheads) = black_box(&profile, behaviour, 1).unwrap();
    let mut run = Outside::new(drive, Arc::clone(&model), guarded(overheads), load(&model), SCAN).unwrap();
    let mut free = 0;
    for _ in 0..60 {
        run.advance(100, &mut Nothing).unwrap();
        free += u32::from(run.core_mut().caution().is_none());
    }
    assert!(free > 20, "{free} of 60 looks");
    assert!(run.report().background.mb_per_s > 2.0);
}
