//! Readings of the host itself beside requests, as a probe needs them, compared with the disk alone.

use super::responses::{Pair, Pairs, alone_ms};
use drive::Behaviour;
use freeblock_sim::{Background, Nothing, Outside, ScanProgress, black_box};
use model::{DriveModel, Profile, builtin};
use scheduler::policy::PolicyName;
use scheduler::{AuditConfig, Caution, Config, IdleTime, OutsideConfig};
use std::sync::Arc;
use units::{Duration, Instant, Sectors};
use workload::{Arrival, Issuer, Random, RandomConfig, Share};

/// Runs random requests on a drive of which the core knows only the size, with as many readings as it permits. Also
/// returns the number of readings per request.
fn read_beside(
    drive: &str,
    behaviour: Behaviour,
    (rate, reads): (f64, Share),
    background: Background,
    (requests, seed): (u64, u64),
) -> (Pair, f64) {
    let profile = builtin::find(drive).unwrap();
    let all = DriveModel::from_profile(&profile).unwrap();
    let size = (all.layout().capacity(), all.sector_bytes());
    let load = || {
        let drawn = RandomConfig { reads, ..RandomConfig::new(size.0, size.1) };
        let drawn = Random::new(drawn, seed).unwrap();
        Issuer::new(drawn, Arrival::Poisson { rate }, Instant::ZERO, seed).unwrap()
    };
    let drive = || black_box(&profile, behaviour, seed).unwrap().0;
    let alone_ms = alone_ms(drive(), load(), requests);
    let known = Arc::new(DriveModel::unknown(size.0, size.1).unwrap());
    let blind =
        OutsideConfig::blind().serving().with_harm_ppm(Some(10_000)).with_audit(Some(AuditConfig::new(seed)));
    let config = Config::outside(blind)
        .with_idle(Some(IdleTime::default()))
        .with_policy(PolicyName::Fcfs)
        .with_seed(seed);
    let mut run = Outside::new(drive(), known, config, load(), background).unwrap();
    run.read_at_random(seed);
    run.advance(requests, &mut Nothing).unwrap();
    (Pair::against(alone_ms, &run), run.readings() as f64 / requests as f64)
}

#[test]
fn readings_delay_requests_by_at_most_the_bound_and_are_many() {
    let back = Behaviour { write_back: Some(true), ..Behaviour::fast02() };
    let through = Behaviour { write_back: Some(false), ..Behaviour::fast02() };
    let third = Share::TWO_THIRDS;
    let seeds = testing::sized(5, 10);
    for (drive, behaviour, load, least) in testing::some(
        1,
        [
            ("seagate-cheetah-9lp", through, (60.0, third), 0.01),
            ("seagate-cheetah-9lp", through, (20.0, third), 0.04),
            ("seagate-cheetah-9lp", back, (20.0, third), 0.04),
            ("quantum-atlas-10k", through, (5.0, third), 0.2),
            ("nearline-4tb", through, (20.0, third), 0.02),
        ],
    ) {
        let mut readings = 0.0;
        let pairs = Pairs::of(42..42 + seeds, |seed| {
            let (pair, read) = read_beside(drive, behaviour, load, Background::None, (30_000, seed));
            readings += read / seeds as f64;
            pair
        });
        let what = format!("{drive}, {} requests/s, {readings:.3} readings a request", load.0);
        pairs.assert_bounded(&what);
        assert!(readings > least, "{what}");
    }
}

/// Checks the bound on readings and a scan together, with five requests a second.
fn assert_one_bound(drive: &str, behaviour: Behaviour, requests: u64) {
    let scan = Background::Scan { block: Sectors::new(16) };
    let load = (5.0, Share::TWO_THIRDS);
    let pairs = Pairs::of(42..52, |seed| read_beside(drive, behaviour, load, scan, (requests, seed)).0);
    pairs.assert_bounded(&format!("{drive}, a scan and readings"));
}

#[test]
fn readings_and_tasks_share_one_bound() {
    assert_one_bound("quantum-atlas-10k", Behaviour::fast02(), 120_000);
}

#[test]
fn readings_and_tasks_share_one_bound_on_a_drive_of_today() {
    assert_one_bound("nearline-20tb", Behaviour::modern(), 20_000);
}

#[test]
fn readings_on_an_idle_disk_do_not_delay_a_scan_and_continue_after_it() {
    let toml = include_str!("../../../../drive/tests/data/small.toml");
    let profile = Profile::from_toml(toml, "small.toml").unwrap();
    let all = DriveModel::from_profile(&profile).unwrap();
    let size = (all.layout().capacity(), all.sector_bytes());
    let scanned = |readings: bool| {
        let (drive, _) = black_box(&profile, Behaviour::fast02(), 1).unwrap();
        let known = Arc::new(DriveModel::unknown(size.0, size.1).unwrap());
        let outside = OutsideConfig::blind().serving();
        let config = Config::outside(outside).with_idle(Some(IdleTime::default()));
        let drawn = Random::new(RandomConfig::new(size.0, size.1), 1).unwrap();
        // The first request arrives after the end of this test.
        let load = Issuer::new(drawn, Arrival::Poisson { rate: 1e-6 }, Instant::ZERO, 1).unwrap();
        let mut run =
            Outside::new(drive, known, config, load, Background::Scan { block: Sectors::new(8) }).unwrap();
        if readings {
            run.read_at_random(1);
        }
        let mut ends = Instant::ZERO;
        while !run.is_scanned() && ends < Instant::ZERO + Duration::from_secs(600) {
            ends += Duration::from_millis(100);
            run.advance_to(ends, &mut Nothing).unwrap();
        }
        assert!(run.is_scanned(), "{:?} after {ends:?}", run.scan_progress());
        let before = run.readings();
        run.advance_to(ends + Duration::from_secs(10), &mut Nothing).unwrap();
        (ends, run.readings() - before)
    };
    let ((alone, none), (beside, many)) = (scanned(false), scanned(true));
    assert!(beside <= alone + Duration::from_millis(200), "{alone:?} alone, {beside:?} beside readings");
    assert!(none == 0 && many > 300, "{many} readings in ten seconds behind the scan");
}

/// A core that knows only the size of the drive serves requests and a scan, and learns the drive's profile half way.
#[test]
fn a_core_that_adopts_a_profile_goes_on_with_its_requests_and_blocks_and_uses_gaps() {
    let toml = include_str!("../../../../drive/tests/data/small.toml");
    let profile = Profile::from_toml(toml, "small.toml").unwrap();
    let all = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let size = (all.layout().capacity(), all.sector_bytes());
    for (seed, tasks) in [(1, 1), (2, 4), (3, 16)] {
        let (drive, overheads) = black_box(&profile, Behaviour::fast02(), seed).unwrap();
        let known = Arc::new(DriveModel::unknown(size.0, size.1).unwrap());
        let blind = OutsideConfig::blind().serving();
        let of = |outside| Config::outside(outside).with_idle(Some(IdleTime::default())).with_seed(seed);
        let drawn = Random::new(RandomConfig::new(size.0, size.1), seed).unwrap();
        let load = Issuer::new(drawn, Arrival::outstanding(tasks), Instant::ZERO, seed).unwrap();
        let scan = Background::Scan { block: Sectors::new(8) };
        let mut run = Outside::new(drive, known, of(blind), load, scan).unwrap();
        run.advance(1_000 + seed, &mut Nothing).unwrap();
        assert_eq!((run.planner_stats().detours, run.core().drive().is_known()), (0, false));
        let ScanProgress { delivered: before, blocks } = run.scan_progress().unwrap();
        // The core's model of the drive changes while commands are at the drive and requests wait.
        let reported = of(OutsideConfig::beyond(overheads).serving()).with_policy(PolicyName::Sptf);
        run.core_mut().adopt(Arc::clone(&all), reported).unwrap();
        while !run.is_scanned() && run.requests() < 100_000 {
            run.advance_scan(100, &mut Nothing).unwrap();
        }
        assert!(run.core().drive().is_known());
        assert_ne!(run.core().caution(), Some(Caution::Unknown));
        assert!(run.planner_stats().detours > 0, "{} detours", run.planner_stats().detours);
        // Each block was delivered once: with more deliveries than blocks the scan would end early, with fewer it
        // would not end.
        assert_eq!(
            run.scan_progress(),
            Some(ScanProgress { delivered: blocks, blocks }),
            "{before} before the change"
        );
    }
}

#[test]
fn a_model_of_another_drive_is_refused_and_nothing_changes() {
    let model = |name: &str| Arc::new(DriveModel::from_profile(&builtin::find(name).unwrap()).unwrap());
    let blind = Config::outside(OutsideConfig::blind());
    let mut core = scheduler::OutsideDrive::new(model("mimic-base"), blind);
    let error = core.adopt(model("mimic-less-capacity"), blind).unwrap_err();
    assert!(error.to_string().contains("give a model of this drive"), "{error}");
}
