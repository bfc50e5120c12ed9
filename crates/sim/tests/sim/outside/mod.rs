//! The core outside the drive.

mod again;
mod appended;
mod blind;
mod bursts;
mod clients;
mod corrected;
mod crews;
mod fallback;
mod grid;
mod ideas;
mod margins;
mod paced;
mod promises;
mod readings;
mod responses;
mod returning;
mod rig;
mod sequences;
mod sparse;
mod surprise;
mod surprised;
mod surprises;
mod troubled;
mod unknown_write_back;
mod unreadable;
mod unseen;
mod utilisation;

use drive::Behaviour;
use freeblock_sim::{Background, Nothing, Outside, SetupError, black_box};
use model::{DriveModel, builtin};
use scheduler::{Config, IdleTime, OutsideConfig};
use std::sync::Arc;
use units::{Duration, Instant};
use workload::{Arrival, Closed, Issuer, Oltp, OltpConfig, Think};

#[test]
fn idle_time_that_cannot_be_used_is_refused_by_field() {
    let profile = builtin::find("mimic-base").unwrap();
    let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let (drive, overheads) = black_box(&profile, Behaviour::default(), 1).unwrap();
    let config = Config::outside(OutsideConfig::paper(overheads, Duration::ZERO))
        .with_idle(Some(IdleTime::default().with_threshold(Duration::ZERO)));
    let load = Oltp::new(OltpConfig::new(known.layout().capacity(), known.sector_bytes()), 1).unwrap();
    let foreground = Issuer::new(load, Arrival::oltp(1), Instant::ZERO, 1).unwrap();
    let refused = Outside::new(drive, known, config, foreground, Background::None).err().unwrap();
    assert!(matches!(refused, SetupError::Config(_)), "{refused}");
    assert!(refused.to_string().starts_with("idle.threshold"), "{refused}");
}

/// Eight tasks do not think, so that a request always waits and the drive serves one after another. The access times then follow
/// each other without a gap and without overlap.
#[test]
fn access_times_of_a_drive_that_is_always_busy_add_up_to_the_time_of_the_run() {
    let profile = builtin::find("mimic-base").unwrap();
    let known = Arc::new(DriveModel::from_profile(&profile).unwrap());
    let (drive, overheads) = black_box(&profile, Behaviour::default(), 1).unwrap();
    let config = Config::outside(OutsideConfig::paper(overheads, Duration::ZERO));
    let load = Oltp::new(OltpConfig::new(known.layout().capacity(), known.sector_bytes()), 1).unwrap();
    let arrival = Arrival::Closed(Closed { tasks: 8, think: Think::None });
    let foreground = Issuer::new(load, arrival, Instant::ZERO, 1).unwrap();
    let mut run = Outside::new(drive, known, config, foreground, Background::None).unwrap();
    run.advance(500, &mut Nothing).unwrap();
    let report = run.report();
    let busy = report.foreground.mean_access_ms * report.foreground.requests as f64;
    let simulated = report.simulated.as_millis_f64();
    assert!((busy / simulated - 1.0).abs() < 1e-9, "{busy} ms of {simulated} ms");
    assert!(report.foreground.mean_response_ms > 4.0 * report.foreground.mean_access_ms);
}
