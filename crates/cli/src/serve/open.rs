//! Opens a disk as configured: its device, its profile or size, and the core.

use super::disk_config::DiskConfig;
use super::found::{self, characterised};
use super::names::DeviceSpec;
use crate::differs::{Differs, in_force};
use crate::drive::resolve::{Resolved, resolve};
use crate::problem::Problem;
use crate::recipe::{Knowledge, Made, Recipe, hex};
use device::{Device, Emulated, Finding, Inspection, Options, Raw};
use drive::Behaviour;
use mimic::Learner;
use model::DriveModel;
use server::manager::TaskManager;
use server::{Disk, FrameError, FrameLines, Recorder, ThreadedFile};
use std::fs::File;
use std::path::Path;

/// A device whose kind is chosen at run time.
pub(crate) type AnyDevice = Box<dyn Device + Send>;

/// A disk as the daemon serves it.
pub(crate) type ServedDisk = Disk<AnyDevice, TaskManager>;

/// Opens the device, and puts a core over it.
///
/// # Errors
/// The device cannot be opened, or the profile is invalid or of another device.
pub(crate) fn open(
    config: &DiskConfig,
    state: Option<&Path>,
    partial_blocks: usize,
) -> Result<(ServedDisk, Recipe), Problem> {
    let (device, drive) = device(config)?;
    let drive = match drive {
        Knowledge::Size { sectors, sector_bytes } => {
            found::profile(config, state, (sectors, sector_bytes)).unwrap_or(drive)
        }
        drive => drive,
    };
    let recipe = Recipe {
        version: env!("CARGO_PKG_VERSION").into(),
        disk: config.name.clone(),
        policy: config.policy.unwrap_or_else(|| drive.policy()).to_string(),
        drive,
        harm_ppm: config.harm_ppm,
        conservatism_ns: config.conservatism.map(units::Duration::as_nanos),
        extra_revolutions: config.extra_revolutions,
        audit: config.audit,
        idle_after_ns: config.idle_after.map(units::Duration::as_nanos),
        partial_blocks,
        learning: config.learning,
        learnt: None,
    };
    let wrong = |error: String| Problem::failed(format!("{}: {error}", config.name));
    let Made { model, config: core, mut mimic } =
        recipe.make().map_err(|e| config.places.underline("mimic_memory", wrong(e)))?;
    if let Some(path) = &config.mimic_table {
        let table = from_table(path, config, &model, mimic.as_deref());
        mimic = Some(Box::new(table.map_err(|problem| config.places.underline("mimic_table", problem))?));
    }
    let option = if config.profile.is_some() { "profile" } else { "device" };
    let mut disk = Disk::new(device, model, core)
        .map_err(|error| config.places.underline(option, wrong(error.to_string())))?;
    disk.set_timeout(config.timeout);
    if let Some(mimic) = mimic {
        disk.set_mimic(mimic);
    }
    Ok((disk, recipe))
}

/// Records the inputs of the disk's core, which was made from `recipe`, from here on.
///
/// # Errors
/// The recording cannot be created.
pub(crate) fn record(path: &Path, limit: u64, recipe: Recipe, disk: &mut ServedDisk) -> Result<(), Problem> {
    let learnt = disk.core().mimic().map(|learner: &Learner| hex(&learner.save(&recipe.disk)));
    let recipe = Recipe { learnt, ..recipe };
    let recorder = recording(path, &recipe)?;
    // The disk continues with a mimic made from the recording, so that a replay begins with exactly this state.
    let made = recipe.make().map_err(|error| Problem::failed(format!("{}: {error}", recipe.disk)))?;
    if let Some(mimic) = made.mimic {
        disk.set_mimic(mimic);
    }
    disk.record(recorder.limited(limit));
    Ok(())
}

/// Makes a learner that starts from a table instead of an empty one.
///
/// # Errors
/// The table cannot be read, is damaged or of another drive, or the policy uses no table.
fn from_table(
    path: &Path,
    config: &DiskConfig,
    model: &DriveModel,
    learner: Option<&Learner>,
) -> Result<Learner, Problem> {
    let Some(learner) = learner else {
        let why = format!("{}: only smtf uses a table, and the disk has another policy", config.name);
        return Err(Problem::failed(why).help("say policy smtf, or leave the table out"));
    };
    let saved = crate::mimic::load(path)?;
    crate::mimic::check_capacity(&saved, path, model.layout().capacity())?;
    if saved.sector != model.sector_bytes() {
        let (table, drive) = (saved.sector, model.sector_bytes());
        let why = format!("{}: the table is of sectors of {table}, the drive has {drive}", path.display());
        return Err(Problem::failed(why).help("probe this drive, or name its own table"));
    }
    Learner::new(*learner.config(), Some(saved.table))
        .map_err(|e| Problem::failed(format!("{}: {e}", path.display())))
}

/// Refuses a disk that cannot be scheduled: a shingled one, and one with several actuators. Flash is served, with a warning
/// that it has no gaps. A file is not inspected, and is never refused.
fn refuse(path: &Path) -> Result<(), Problem> {
    match device::inspect(path) {
        Ok(disk) => refuse_inspected(path, &disk),
        Err(_) => Ok(()),
    }
}

fn refuse_inspected(path: &Path, disk: &Inspection) -> Result<(), Problem> {
    for finding in disk.refusals() {
        let Finding { property, value, reason, .. } = finding;
        if property == device::MEDIUM {
            tracing::warn!(path = %path.display(), "{value}: no rotation leaves gaps, so tasks have idle time only");
            continue;
        }
        return Err(Problem::failed(format!("{}: {property} {value}: {reason}", path.display()))
            .help("`freeblock inspect` shows what the kernel and the disk report"));
    }
    Ok(())
}

/// Opens the device. Returns it with its profile or size.
fn device(config: &DiskConfig) -> Result<(AnyDevice, Knowledge), Problem> {
    let profile = match config.profile.as_deref() {
        None | Some("none") => None,
        Some(name) => Some(resolve(name).map_err(|problem| config.places.underline("profile", problem))?),
    };
    let wrong = |problem| config.places.underline("device", problem);
    let characterised = |found| {
        characterised(found, &config.name).map_err(|problem| config.places.underline("profile", problem))
    };
    let forget = config.profile.as_deref() == Some("none");
    match &config.device {
        DeviceSpec::Raw(path) => {
            refuse(path).map_err(wrong)?;
            let options = Options { read_only: config.read_only, buffered: config.buffered };
            let device = Raw::open(path, options).map_err(|e| wrong(Problem::failed(e)))?;
            let known = match profile {
                Some(found) => characterised(found)?,
                None => unknown(&device),
            };
            Ok((Box::new(device) as AnyDevice, known))
        }
        DeviceSpec::Emulated { drive, file, differs } => {
            let Differs { behaviour, seed } = &**differs;
            let own = resolve(drive).map_err(wrong)?;
            let behaviour = served_as(behaviour);
            let device = Emulated::new(&own.profile, behaviour, *seed, alone(file).map_err(wrong)?)
                .map_err(|e| wrong(Problem::failed(format!("{}: {e}", file.display()))))?;
            let known = match profile {
                Some(found) => characterised(found)?,
                None if forget => unknown(&device),
                None => emulated(own, behaviour, *seed)?,
            };
            Ok((Box::new(device) as AnyDevice, known))
        }
    }
}

/// Returns the behaviour of an emulated disk. Unless `behaviour` sets the write cache, writes are acknowledged from the medium.
fn served_as(behaviour: &Behaviour) -> Behaviour {
    Behaviour { write_back: Some(behaviour.write_back.unwrap_or(false)), ..*behaviour }
}

/// Returns a line about an emulated disk: its behaviour, queue, buffer and bus. `None` for a real disk.
///
/// # Errors
/// There is no such drive.
pub(crate) fn preset(config: &DiskConfig) -> Result<Option<String>, Problem> {
    let DeviceSpec::Emulated { drive, differs, .. } = &config.device else { return Ok(None) };
    let own = resolve(drive).map_err(|problem| config.places.underline("device", problem))?;
    Ok(Some(format!("{drive}, emulated, {}", in_force(&own.profile, served_as(&differs.behaviour)))))
}

/// Creates a recording. An existing one is renamed and kept beside it.
fn recording(path: &Path, recipe: &Recipe) -> Result<Recorder, Problem> {
    let failed = |error: std::io::Error| {
        Problem::failed(format!("the recording {}: {error}", path.display()))
            .help("give a file in a directory that can be written")
    };
    match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(there) => match FrameLines::new(there) {
            Err(FrameError::NoRecording) => {
                return Err(Problem::failed(format!(
                    "{} is there already, and no recording",
                    path.display()
                ))
                .help("give another name, or remove it"));
            }
            _ => {
                let mut last = path.as_os_str().to_owned();
                last.push(".last");
                std::fs::rename(path, last).map_err(failed)?;
            }
        },
    }
    let setup = serde_json::to_value(recipe).map_err(Problem::failed)?;
    Recorder::new(ThreadedFile::create(path).map_err(failed)?, &setup).map_err(failed)
}

/// Opens a file that no other daemon uses, and locks it.
fn alone(path: &Path) -> Result<File, Problem> {
    let opened = server::files::private().read(true).write(true).create(true).truncate(false).open(path);
    let file = opened.map_err(|e| Problem::failed(format!("{}: {e}", path.display())))?;
    // Two drives over one file would corrupt each other's data.
    file.try_lock().map_err(|e| {
        Problem::failed(format!("{}: the file cannot be opened for exclusive use: {e}", path.display()))
            .help("give each emulated drive a file of its own")
    })?;
    Ok(file)
}

/// Returns the profile of an emulated drive, with the costs of commands that the emulation has.
fn emulated(own: Resolved, behaviour: Behaviour, seed: u64) -> Result<Knowledge, Problem> {
    let (_, overheads) = sim::black_box(&own.profile, behaviour, seed).map_err(Problem::failed)?;
    Ok(Knowledge::Profile { toml: own.text, costs: overheads.into() })
}

fn unknown(device: &dyn Device) -> Knowledge {
    let sector_bytes = device.sector_bytes().get();
    Knowledge::Size { sectors: device.size().get() / sector_bytes.max(1), sector_bytes }
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::{ActuatorRange, Farm, Log, Recording, Zoned};

    #[test]
    fn a_disk_that_no_schedule_fits_is_refused_and_flash_is_served() {
        let plain = || Inspection { rotational: Some(true), ..Inspection::default() };
        let range = |start| ActuatorRange { start, sectors: 1_000 };
        let farm = Farm { recording: Some(Recording::Shingled), depopulated: None };
        let path = Path::new("/dev/sdb");
        for disk in [
            Inspection { zoned: Zoned::HostAware, ..plain() },
            Inspection { zoned: Zoned::HostManaged, ..plain() },
            Inspection { discard: Some(true), rate: units::Rpm::new(5_400), ..plain() },
            Inspection { log: Log::Read(farm), ..plain() },
            Inspection { actuators: vec![range(0), range(1_000)], ..plain() },
        ] {
            assert!(refuse_inspected(path, &disk).is_err(), "{disk:?}");
        }
        let flash = Inspection { rotational: Some(false), discard: Some(true), ..plain() };
        let hidden = Inspection { discard: Some(true), ..plain() };
        for disk in [plain(), Inspection::default(), flash, hidden] {
            assert!(refuse_inspected(path, &disk).is_ok(), "{disk:?}");
        }
        assert!(refuse(Path::new("/dev/null")).is_ok());
    }
}
