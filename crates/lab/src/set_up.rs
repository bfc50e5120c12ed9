//! Common set-up of experiments: drives, the papers' loads, the head's time as bars.

use crate::{Axis, Bar, Figure, Kind, LabError, Spread, spread};
use ::drive::{Behaviour, Drive, Rules};
use model::{DriveModel, builtin};
use scheduler::Config;
use sim::{Background, HeadTime, Inside, Nothing, Observer, Report};
use std::sync::Arc;
use units::Instant;
use workload::{Arrival, Issuer, Random, RandomConfig};

/// The drive of OSDI'00's measurements, unless the paper names another.
pub const ATLAS_10K: &str = "quantum-atlas-10k";

/// The second drive of FAST'02's measurements. The built-in profile of this name is synthetic.
pub const CHEETAH_18LP: &str = "seagate-cheetah-18lp";

/// Returns a built-in drive.
///
/// # Errors
/// No built-in drive has this name.
pub fn drive(name: &str) -> Result<Arc<DriveModel>, LabError> {
    let profile = builtin::find(name).map_err(|e| LabError::new(format!("drive {name}"), e))?;
    DriveModel::from_profile(&profile).map(Arc::new).map_err(|e| LabError::new(format!("drive {name}"), e))
}

/// Returns a built-in drive as a scheduler outside the drive saw it in 2001 (FAST'02, section 5.1): with the noise of
/// [`Behaviour::fast02`], drawn from `seed`.
///
/// # Errors
/// No built-in drive has this name, or its profile does not describe the electronics.
pub fn black_box(name: &str, seed: u64) -> Result<Drive, LabError> {
    let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new(format!("drive {name}"), e);
    let profile = builtin::find(name).map_err(|e| failed(e.into()))?;
    Drive::with_behaviour(&profile, Rules::HARDWARE, Behaviour::fast02(), seed).map_err(|e| failed(e.into()))
}

/// Runs 10,000 requests of a random load without background work, `outstanding` at a time (OSDI'00, section 3).
///
/// # Errors
/// The configuration is invalid.
pub fn random_run(
    drive: &Arc<DriveModel>,
    scheduler: Config,
    load: RandomConfig,
    outstanding: u32,
    seed: u64,
) -> Result<Report, LabError> {
    observed_random_run(drive, scheduler, load, outstanding, seed, &mut Nothing)
}

/// Runs the load of [`random_run`] with an observer of every completion.
///
/// # Errors
/// The configuration is invalid.
pub fn observed_random_run(
    drive: &Arc<DriveModel>,
    scheduler: Config,
    load: RandomConfig,
    outstanding: u32,
    seed: u64,
    observer: &mut impl Observer,
) -> Result<Report, LabError> {
    let failed = |e: Box<dyn std::error::Error + Send + Sync>| LabError::new("a random load", e);
    let source = Random::new(load, seed).map_err(|e| failed(e.into()))?;
    let foreground = Issuer::new(source, Arrival::outstanding(outstanding), Instant::ZERO, seed)
        .map_err(|e| failed(e.into()))?;
    let mut run = Inside::new(Arc::clone(drive), scheduler, foreground, Background::None)
        .map_err(|e| failed(e.into()))?;
    run.advance(10_000, observer).map_err(|e| failed(e.into()))?;
    Ok(run.report())
}

/// The parts of the head's time, in the order of [`head_bar`].
pub const HEAD_PARTS: [&str; 6] = ["seek", "rotation", "transfer", "free transfer", "extra seek", "idle"];

/// Returns the head's time as a bar, in percent.
pub fn head_bar(label: impl Into<String>, head: &HeadTime) -> Bar {
    let values = [head.seek, head.rotation, head.transfer, head.free_transfer, head.extra_seek, head.idle];
    Bar { label: label.into(), values: values.into_iter().map(|share| share * 100.0).collect() }
}

/// Returns the mean over runs of the head's time, as a bar in percent.
pub fn mean_head_bar(label: impl Into<String>, runs: &[Report]) -> Bar {
    let mut mean = vec![0.0; HEAD_PARTS.len()];
    for run in runs {
        for (sum, value) in mean.iter_mut().zip(head_bar("", &run.head_time).values) {
            *sum += value / runs.len() as f64;
        }
    }
    Bar { label: label.into(), values: mean }
}

/// Returns the share of the head's time that is rotational latency, in percent, over runs without background: OSDI'00's
/// potential free bandwidth (section 3).
pub fn latency(runs: &[Report]) -> Spread {
    spread(runs, |r| r.head_time.rotation * 100.0)
}

/// Returns a figure of bars that [`head_bar`] or [`mean_head_bar`] made.
pub fn head_figure(id: &str, title: &str, x: &str, bars: Vec<Bar>) -> Figure {
    Figure {
        id: id.into(),
        title: title.into(),
        x: Axis::new(x),
        y: Axis::between("share of the head's time (%)", 0.0, 100.0),
        kind: Kind::Stacked { parts: HEAD_PARTS.map(String::from).to_vec(), bars },
    }
}
