//! The core outside the drive.

use drive::Drive;
use freeblock_sim::{Background, Inside, Nothing, Outside, for_two_commands};
use model::{DriveModel, Profile, builtin};
use scheduler::policy::PolicyName;
use scheduler::{Config, OutsideConfig, Overheads, Place};
use std::sync::Arc;
use units::{Duration, Instant, Sectors};
use workload::{Arrival, Issuer, Oltp, OltpConfig};

fn oltp(model: &DriveModel, tasks: u32, seed: u64) -> Issuer<Oltp> {
    let load =
        Oltp::new(OltpConfig::new(model.layout().capacity(), model.sector_bytes()), seed).unwrap();
    Issuer::new(load, Arrival::oltp(tasks), Instant::ZERO, seed).unwrap()
}

#[test]
fn look() {
    let profile = for_two_commands(builtin::find("seagate-cheetah-18lp").unwrap());
    let model = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let overheads = Overheads::of(profile.firmware.as_ref().unwrap(), false);
    println!("{overheads:?}");
    for policy in [PolicyName::Fcfs, PolicyName::Sptf] {
        for us in [0, 300] {
            for scan in [false, true] {
                let background =
                    if scan { Background::Scan { block: Sectors::new(8) } } else { Background::None };
                let place = Place::Outside(OutsideConfig::paper(overheads, Duration::from_micros(us)));
                let config = Config { policy, place, ..Config::default() };
                let mut run = Outside::new(
                    Drive::new(&profile).unwrap(),
                    Arc::clone(&model),
                    config,
                    oltp(&model, 10, 1),
                    background,
                )
                .unwrap();
                run.advance(3_000, &mut Nothing).unwrap();
                let errors = run.prediction_errors().unwrap();
                println!(
                    "{policy} {us} {scan}: {:?}\n  n {} within 50us {:.4} late {} early {} unexplained {}",
                    run.report(),
                    errors.count(),
                    errors.within(Duration::from_micros(50)),
                    errors.late(),
                    errors.early(),
                    errors.unexplained()
                );
                println!("{:?}", errors.distribution().collect::<Vec<_>>());
            }
        }
        let mut run = Inside::new(
            Arc::clone(&model),
            Config { policy, ..Config::default() },
            oltp(&model, 10, 1),
            Background::Scan { block: Sectors::new(8) },
        )
        .unwrap();
        run.advance(3_000, &mut Nothing).unwrap();
        println!("inside {policy}: {:?}", run.report());
    }
    let _: Option<Profile> = None;
}
