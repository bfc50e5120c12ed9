//! The files of a disk's probe in the state directory: its measurements, and the profile that was found.

use super::disk_config::DiskConfig;
use crate::drive::resolve::{Resolved, ready};
use crate::problem::Problem;
use crate::recipe::Knowledge;
use model::Profile;
use std::io::Read;
use std::path::Path;
use tracing::{info, warn};

/// The names of the measurements and of the found profile in a disk's part of the state directory.
pub(super) const MEASURED: &str = "probe";
pub(super) const FOUND: &str = "profile.toml";

/// Bounds the bytes read from a file of measurements or of a found profile: a probe writes some megabytes.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The beginning of the first line of a found profile's file. A checksum of the other lines and the drive's name follow.
const HEAD: &str = "# found by the daemon, ";

/// Returns the content of a found profile's file.
pub(super) fn sealed(drive: &str, toml: &str) -> String {
    format!("{HEAD}{:08x} {drive}\n{toml}", crc32fast::hash(toml.as_bytes()))
}

/// Returns the profile in a file, if the file is undamaged and of this drive.
fn unsealed<'a>(drive: &str, text: &'a str) -> Option<&'a str> {
    let (head, toml) = text.split_once('\n')?;
    let (sum, of) = head.strip_prefix(HEAD)?.split_once(' ')?;
    (of == drive && sum == format!("{:08x}", crc32fast::hash(toml.as_bytes()))).then_some(toml)
}

/// Reads a file of the state directory. A pipe or device of that name is an error, and is not waited for.
pub(super) fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = server::files::open_regular(std::fs::File::options().read(true), path)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > FILE_BYTES_MAX {
        true => Err(std::io::Error::other("the file is larger than a probe writes it")),
        false => Ok(bytes),
    }
}

/// Returns the profile that an earlier probe of this disk has found. A file that cannot be read, is damaged, or is of a disk of
/// another name or size is logged and not used.
pub(super) fn profile(config: &DiskConfig, state: Option<&Path>, size: (u64, u64)) -> Option<Knowledge> {
    let path = state?.join(&config.name).join(FOUND);
    if !path.exists() {
        return None;
    }
    let text = read(&path).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
    let used = unsealed(&config.device.drive(), &text)
        .and_then(|toml| Profile::from_toml(toml, FOUND).ok().map(|profile| (toml.to_owned(), profile)))
        .and_then(|(toml, profile)| ready(FOUND, toml, profile).ok())
        .filter(|found| (found.model.layout().capacity().get(), found.model.sector_bytes().get()) == size)
        .and_then(|found| characterised(found, &config.name).ok());
    let path = path.display();
    match &used {
        Some(_) => info!(disk = config.name, %path, "goes on with the profile that was found"),
        None => {
            warn!(disk = config.name, %path, "a profile that cannot be read, is damaged, or is of another disk; it is not used")
        }
    }
    used
}

/// Returns the knowledge about a drive with a profile: the profile's text and the costs of commands.
pub(super) fn characterised(found: Resolved, name: &str) -> Result<Knowledge, Problem> {
    let overheads = found.overheads(&format!("{name}: its profile"))?;
    Ok(Knowledge::Profile { toml: found.text, costs: overheads.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_goes_on_with_the_profile_that_was_found_for_a_disk_of_this_size() {
        let state = std::env::temp_dir().join(format!("freeblock-found-{}", std::process::id()));
        std::fs::create_dir_all(state.join("d0")).unwrap();
        let text = "[[disk]]\nname = \"d0\"\ndevice = \"/dev/sdb\"\nlisten = [\"unix:/s\"]\n";
        let config = crate::serve::config::Config::from_toml(text, "f.toml").unwrap();
        let disk = &config.disks[0];
        let toml = model::builtin::text("mimic-base").unwrap();
        let profile = model::builtin::find("mimic-base").unwrap();
        let drive = model::DriveModel::from_profile(&profile).unwrap();
        let size = (drive.layout().capacity().get(), drive.sector_bytes().get());
        let of = |drive: &str, size| {
            std::fs::write(state.join("d0").join(FOUND), sealed(drive, toml)).unwrap();
            super::profile(disk, Some(&state), size).is_some()
        };
        assert!(of("/dev/sdb", size));
        assert!(!of("/dev/sdb", (size.0 - 1, size.1)), "another size");
        assert!(!of("/dev/sdc", size), "another disk");
        assert!(super::profile(disk, None, size).is_none());
        // A pipe in place of the profile's file does not hold up the daemon's start.
        let path = state.join("d0").join(FOUND);
        std::fs::remove_file(&path).unwrap();
        let made =
            std::process::Command::new("mkfifo").args([&path, &state.join("d0").join(MEASURED)]).status();
        assert!(made.unwrap().success());
        assert!(super::profile(disk, Some(&state), size).is_none());
        assert!(read(&state.join("d0").join(MEASURED)).is_err());
        std::fs::remove_dir_all(&state).unwrap();
    }

    #[test]
    fn a_found_profile_is_used_only_whole_and_for_its_drive() {
        let text = sealed("/dev/sdb", "rpm = 7200\n");
        assert_eq!(unsealed("/dev/sdb", &text), Some("rpm = 7200\n"));
        assert_eq!(unsealed("/dev/sdc", &text), None);
        assert_eq!(unsealed("/dev/sdb", &text.replace("7200", "7201")), None);
        assert_eq!(unsealed("/dev/sdb", &text[..text.len() - 1]), None);
        assert_eq!(unsealed("/dev/sdb", "rpm = 7200\n"), None);
        assert!(text.starts_with("# "), "a comment in TOML");
    }
}
