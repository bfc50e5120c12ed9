use super::{Counted, HostedApp, MaintenanceHost, Way};
use apps::backup::image::Header;
use apps::backup::{Backup, BackupState, ImageWriter};
use apps::reorganizer::{Options, RelocationPlan, Reorganizer, Volatile};
use apps::snapshot::{Cow, Geometry, Provider, Volume, VolumeId};
use lab_apps::cache::{Cache, Config as CacheConfig};
use model::DriveModel;
use model::random_profile::{Size, random_profile};
use scheduler::policy::PolicyName;
use scheduler::{Config, Priority};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use units::{Duration, Instant, Lbn, LbnRange, Sectors};
use workload::{Arrival, Closed, Issuer, Random, RandomConfig, Share, Source, Think};

const BLOCK: Sectors = Sectors::new(4);

fn drive() -> Arc<DriveModel> {
    let drives = (1..).map(|seed| DriveModel::from_profile(&random_profile(seed, Size::Tiny)).unwrap());
    Arc::new({ drives }.find(|drive| drive.layout().capacity().get() > 2_000).unwrap())
}

fn half() -> Share {
    Share::new(1, 2).unwrap()
}

fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}

/// Returns a host with three clients that access the first `area` sectors; the share `reads` of their requests are
/// reads.
fn host(drive: &Arc<DriveModel>, area: u64, reads: Share) -> MaintenanceHost {
    let config = RandomConfig {
        size: Sectors::new(3),
        align: Sectors::new(1),
        reads,
        ..RandomConfig::new(Sectors::new(area), drive.sector_bytes())
    };
    let source: Box<dyn Source> = Box::new(Random::new(config, 7).unwrap());
    let think = Think::Exponential(Duration::from_millis(3));
    let arrival = Arrival::Closed(Closed { tasks: 3, think });
    let issuer = Issuer::new(source, arrival, Instant::ZERO, 7).unwrap();
    MaintenanceHost::new(drive, None, Config::default().with_policy(PolicyName::Sptf), issuer).unwrap()
}

fn after(host: &mut MaintenanceHost, requests: u64) -> u128 {
    host.run_until(|host| host.responses().requests >= requests).unwrap();
    u128::from(host.responses().total.as_nanos())
}

fn volume(drive: &DriveModel, blocks: u64, slots: u64, cow: Cow) -> Rc<RefCell<Volume>> {
    assert!(slots * BLOCK.get() <= drive.layout().capacity().get());
    let geometry = Geometry { volume: VolumeId(1), first: Lbn::ZERO, block: BLOCK, blocks, slots };
    Rc::new(RefCell::new(Volume::new(geometry, cow).unwrap()))
}

#[test]
fn a_part_of_the_drive_without_an_application_is_served_directly() {
    let drive = drive();
    let capacity = drive.layout().capacity().get();
    let (mut first, mut second) = (host(&drive, capacity, half()), host(&drive, capacity, half()));
    let total = after(&mut first, 300);
    assert_eq!(total, after(&mut second, 300), "the same load at the same instants");
    assert!(total > 0);
}

#[test]
fn a_backup_reads_each_block_once_and_the_foreground_does_not_notice() {
    let drive = drive();
    let run = |with: bool| {
        let volume = volume(&drive, 300, 400, Cow::Application);
        let mut host = host(&drive, 1_200, Share::ALL);
        host.serve(range(0, 1_200), Way::Snapshots(Rc::clone(&volume)));
        let (snapshot, _) = volume.borrow_mut().take().unwrap();
        let sector = drive.sector_bytes().get() as usize;
        let shape = volume.shape();
        let header =
            Header { image: 1, shape, snapshot, base: None, sector_bytes: sector as u32, chunks: 300 };
        let output = ImageWriter::new(header, Counted::default());
        if with {
            let backup = host
                .start(|sessions, _| {
                    let of = (snapshot, None);
                    Backup::start(Rc::clone(&volume), output, of, sector, sessions, Priority::default())
                        .map(|backup| HostedApp::Backup(Box::new(backup)))
                })
                .unwrap();
            let finished = |host: &MaintenanceHost| matches!(host.hosted_app(backup), Some(HostedApp::Backup(b)) if *b.state() == BackupState::Finished);
            host.run_until(finished).unwrap();
            assert_eq!(host.tally(backup).bytes, 1_200 * drive.sector_bytes().get());
            assert!(host.tally(backup).with_foreground > 0, "some of it came with what the foreground read");
            assert!(host.accessed().gaps > 0);
        }
        after(&mut host, 20_000)
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn writes_of_a_volume_go_step_by_step_and_those_of_one_block_one_after_the_other() {
    let drive = drive();
    for cow in [Cow::Application, Cow::Snapshot] {
        // Few blocks, so that clients collide in them.
        let volume = volume(&drive, 3, 6, cow);
        let mut host = host(&drive, 12, Share::NONE);
        host.serve(range(0, 12), Way::Snapshots(Rc::clone(&volume)));
        let taken = volume.borrow_mut().take();
        assert!(taken.is_ok());
        after(&mut host, 200);
        assert_eq!(host.responses().refused, 0, "there is room for three copies");
        assert_eq!(volume.borrow().space().kept, 3, "each block was kept once");
    }
}

#[test]
fn a_write_without_room_for_its_copy_is_refused_and_counted() {
    let drive = drive();
    let volume = volume(&drive, 30, 31, Cow::Application);
    let mut host = host(&drive, 120, Share::NONE);
    host.serve(range(0, 120), Way::Snapshots(Rc::clone(&volume)));
    let taken = volume.borrow_mut().take();
    assert!(taken.is_ok());
    after(&mut host, 100);
    assert!(host.responses().refused > 0);
    assert_eq!(volume.borrow().space().free, 0);
}

#[test]
fn a_reorganisation_comes_to_its_end_under_a_load_that_it_moves_about() {
    let drive = drive();
    let capacity = drive.layout().capacity();
    let region = range(0, 400);
    let mut state = 1_u64;
    let mut below = |n: std::num::NonZeroU64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % n.get()
    };
    let plan = RelocationPlan::random(region, BLOCK, capacity, 40, &mut below).unwrap();
    let mut host = host(&drive, 400, half());
    let sector = drive.sector_bytes();
    let hosted_app = host
        .start(|sessions, _| {
            Reorganizer::start(&plan, Options::default(), sector, Volatile, sessions)
                .map(|reorganizer| HostedApp::Reorganizer(Box::new(reorganizer)))
        })
        .unwrap();
    host.serve(region, Way::Reorganized(hosted_app));
    let progress = |host: &MaintenanceHost| match host.hosted_app(hosted_app) {
        Some(HostedApp::Reorganizer(reorganizer)) => reorganizer.progress(),
        _ => unreachable!("it is the application that was started"),
    };
    host.run_until(|host| progress(host).is_finished()).unwrap();
    assert_eq!(progress(&host).done, 40);
    assert!(host.responses().shifted > 0, "requests to places that are free go to the next that is not");
}

#[test]
fn a_cache_answers_its_part_and_cleans_it_for_free() {
    let drive = drive();
    let mut host = host(&drive, 800, half());
    // The cache has half of the load's area; requests to the other half go to the drive and have gaps.
    let config = CacheConfig::new(range(0, 400), BLOCK, units::Bytes::ZERO, 60);
    let hosted_app = host
        .start(|sessions, now| {
            Cache::new(config, sessions, now).map(|cache| HostedApp::Cache(Box::new(cache)))
        })
        .unwrap();
    host.serve(range(0, 400), Way::Cached(hosted_app));
    after(&mut host, 3_000);
    let Some(HostedApp::Cache(cache)) = host.hosted_app(hosted_app) else {
        unreachable!("it is the application that was started")
    };
    assert!(cache.tally().free > 0);
    assert!(host.tally(hosted_app).bytes > 0);
}

#[test]
fn a_run_that_cannot_go_on_says_so() {
    let drive = drive();
    let source: Box<dyn Source> =
        Box::new(Random::new(RandomConfig::new(Sectors::new(800), drive.sector_bytes()), 1).unwrap());
    let issuer = Issuer::new(source, Arrival::Silent, Instant::ZERO, 1).unwrap();
    let mut host = MaintenanceHost::new(&drive, None, Config::default(), issuer).unwrap();
    assert!(host.run_until(|_| false).is_err());
}
