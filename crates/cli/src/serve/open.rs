//! A disk as it is configured: its device, what is known of it, and the core.

use super::config::{DeviceSpec, DiskConfig};
use crate::drive::resolve::{Resolved, resolve};
use crate::problem::Problem;
use device::{Device, Emulated, Options, Raw};
use drive::{Behaviour, Queue};
use mimic::{Learner, LearnerConfig};
use model::{DriveModel, Profile};
use scheduler::policy::PolicyName;
use scheduler::{Config, IdleTime, OutsideConfig, Overheads, Place};
use server::Disk;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use units::Sectors;

/// Any device, chosen at run time.
pub(crate) type AnyDevice = Box<dyn Device + Send>;

/// Sectors to a step of what a mimic learns: 64 KiB of 512-byte sectors.
const GRAIN: u64 = 128;

/// What a core needs to know of its drive.
struct Known {
    model: DriveModel,
    outside: OutsideConfig,
    /// Of a drive that nobody has characterised nothing is known, and its mimic learns.
    blind: bool,
}

/// Opens the device, and puts a core over it.
///
/// # Errors
/// A device that cannot be had, a profile that is none or of another device.
pub(crate) fn open(
    config: &DiskConfig,
    partial_blocks: usize,
) -> Result<(Disk<AnyDevice>, Arc<DriveModel>, Config), Problem> {
    let profile = match config.profile.as_deref() {
        None | Some("none") => None,
        Some(name) => Some(resolve(name)?),
    };
    let forget = config.profile.as_deref() == Some("none");
    let (device, known) = match &config.device {
        DeviceSpec::Raw(path) => {
            let options = Options { read_only: config.read_only, buffered: config.buffered };
            let device = Raw::open(path, options).map_err(Problem::failed)?;
            let known = match profile {
                Some(found) => characterised(found, &config.name)?,
                None => unknown(&device)?,
            };
            (Box::new(device) as AnyDevice, known)
        }
        DeviceSpec::Emulated { drive, file, noise, seed } => {
            let own = resolve(drive)?;
            let behaviour = Behaviour {
                write_back: Some(false),
                ..if *noise { Behaviour::noisy() } else { Behaviour::default() }
            };
            let device = Emulated::new(&own.profile, behaviour, *seed, alone(file)?)
                .map_err(|e| Problem::failed(format!("{}: {e}", file.display())))?;
            let known = match profile {
                Some(found) => characterised(found, &config.name)?,
                None if forget => unknown(&device)?,
                None => emulated(own, behaviour, *seed)?,
            };
            (Box::new(device) as AnyDevice, known)
        }
    };
    let standard = if known.blind {
        PolicyName::Smtf(Default::default())
    } else {
        "sptf".parse().map_err(Problem::failed)?
    };
    let policy = config.policy.unwrap_or(standard);
    let idle = config.idle_after.map(|threshold| IdleTime {
        threshold,
        harm_ppm: config.harm_ppm,
        ..IdleTime::default()
    });
    let outside = OutsideConfig { harm_ppm: Some(config.harm_ppm), ..known.outside };
    let core = Config {
        policy,
        idle,
        place: Place::Outside(outside),
        most_partials: partial_blocks,
        ..Config::default()
    };
    let model = Arc::new(known.model);
    let mut disk = Disk::new(device, Arc::clone(&model), core)
        .map_err(|error| Problem::failed(format!("{}: {error}", config.name)))?;
    if matches!(policy, PolicyName::Smtf(_)) {
        let learns = LearnerConfig::new(model.layout().capacity(), Sectors::new(GRAIN));
        let learner = Learner::new(learns, None).map_err(Problem::failed)?;
        disk.set_mimic(Box::new(learner));
    }
    Ok((disk, model, core))
}

/// A file that no other daemon has.
fn alone(path: &Path) -> Result<File, Problem> {
    let opened = File::options().read(true).write(true).create(true).truncate(false).open(path);
    let file = opened.map_err(|e| Problem::failed(format!("{}: {e}", path.display())))?;
    // Two over one file would each believe their own.
    file.try_lock().map_err(|e| {
        Problem::failed(format!("{}: it cannot be had alone: {e}", path.display()))
            .help("give each emulated drive a file of its own")
    })?;
    Ok(file)
}

/// A drive of which there is a profile; it may take several commands, and overlaps them.
fn characterised(found: Resolved, name: &str) -> Result<Known, Problem> {
    let Profile { firmware, .. } = &found.profile;
    let firmware = firmware.as_ref().ok_or_else(|| {
        Problem::failed(format!("{name}: its profile does not say what commands cost"))
            .help("give a profile with a [firmware] table, as `freeblock probe` writes it")
    })?;
    let overheads = Overheads::of(firmware, &found.model, true);
    Ok(Known { outside: OutsideConfig::beyond(overheads), model: found.model, blind: false })
}

/// An emulated drive, of which all is known.
fn emulated(own: Resolved, behaviour: Behaviour, seed: u64) -> Result<Known, Problem> {
    let (_, overheads) = sim::black_box(&own.profile, behaviour, seed).map_err(Problem::failed)?;
    debug_assert_eq!(overheads.overlap, behaviour.queue != Queue::Serial);
    Ok(Known { outside: OutsideConfig::beyond(overheads), model: own.model, blind: false })
}

fn unknown(device: &dyn Device) -> Result<Known, Problem> {
    let sector = device.sector_bytes();
    let sectors = Sectors::new(device.size().get() / sector.get().max(1));
    let model = DriveModel::unknown(sectors, sector).map_err(Problem::failed)?;
    Ok(Known { model, outside: OutsideConfig::blind(), blind: true })
}
