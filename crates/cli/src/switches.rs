//! Switches off a disk's look-ahead and read cache while the disk is probed, and on again however the command ends.

use crate::output::Console;
use device::{Quiet, Sg, SwitchJournal, put_back, switch_off};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The directory with a record of each disk whose look-ahead or read cache is switched off. Only root may enter it: the records
/// must be trustworthy, and the commands that switch need root anyway.
const RECORDS: &str = "/var/lib/freeblock-switches";

/// The disk whose switches this process has switched off; static, so that a signal handler finds it.
static OFF: Mutex<Option<Quiet>> = Mutex::new(None);

/// The notes for the user that were made while the terminal showed progress.
static NOTES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Switches off the look-ahead and the read cache of the disk at a path, if the disk can. Returns whether any was switched off.
pub(crate) fn off(path: &Path) -> bool {
    let (off, note) = tried(path);
    NOTES.lock().unwrap_or_else(PoisonError::into_inner).extend(note);
    off
}

/// Returns the notes since the last call.
pub(crate) fn notes() -> Vec<String> {
    std::mem::take(&mut NOTES.lock().unwrap_or_else(PoisonError::into_inner))
}

fn tried(path: &Path) -> (bool, Option<String>) {
    let failed = |why: String| (false, Some(format!("{}: probed with its buffer on: {why}", path.display())));
    let disk = match device::inspect(path) {
        Ok(disk) => disk,
        // A file has no switches.
        Err(device::InspectError::NotABlockDevice { .. }) => return (false, None),
        Err(error) => return failed(error.to_string()),
    };
    // Without an identity no later start could find the disk again.
    let Some(identity) = disk.identity else { return failed("the kernel has no identity of it".to_owned()) };
    let opened = match Sg::open(&Path::new("/dev").join(disk.disk)) {
        Ok(opened) => opened,
        Err(error) => return failed(error.to_string()),
    };
    let journal = SwitchJournal::new(RECORDS.as_ref());
    let mut place = OFF.lock().unwrap_or_else(PoisonError::into_inner);
    if place.is_some() {
        return failed("the process probes another disk".to_owned());
    }
    match switch_off(Box::new(opened), Box::new(journal), &identity) {
        Ok(quiet) => {
            let note = quiet.refused().map(|error| format!("{}: stays on: {error}", path.display()));
            *place = Some(quiet);
            (true, note)
        }
        Err(error) => failed(error.to_string()),
    }
}

/// Restores the switches that [`off`] has changed. Returns a note if that fails.
pub(crate) fn back() -> Option<String> {
    let quiet = OFF.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    let error = quiet.end().err()?;
    Some(format!(
        "the disk's look-ahead and read cache could not be switched on again: {error}; the next `freeblock probe` tries again"
    ))
}

/// Calls [`back`] at the end of its scope, even after a panic.
pub(crate) struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = back();
    }
}

/// Restores the switches that killed processes have left off. A process that may not read the records does nothing.
pub(crate) fn put_back_left(console: &Console) {
    let journal = SwitchJournal::new(RECORDS.as_ref());
    for held in journal.left().unwrap_or_default() {
        let held = match held {
            Ok(held) => held,
            Err(error) => {
                console.note(&format!("warning: {error}"));
                continue;
            }
        };
        let identity = held.record.disk.clone();
        let Some(path) = path_of(Path::new("/sys/block"), &identity) else {
            console.note(&format!(
                "warning: a probe was killed while look-ahead or read cache of the disk {identity} were off, and the disk is \
                 not attached; they are put back by the next start with it"
            ));
            continue;
        };
        let result = Sg::open(&path).map_err(|error| error.to_string()).and_then(|mut disk| {
            put_back(&mut disk, &held.record).map_err(|error| error.to_string())?;
            journal.settle(held).map_err(|error| error.to_string())
        });
        console.note(&match result {
            Ok(()) => format!(
                "{}: look-ahead and read cache are as they were before a probe that was killed",
                path.display()
            ),
            Err(error) => format!(
                "warning: {}: look-ahead or read cache are off since a probe was killed, and cannot be put back: {error}",
                path.display()
            ),
        });
    }
}

/// Returns the path of the disk with an identity. The kernel may have renamed the disk since the record was written.
fn path_of(disks: &Path, identity: &str) -> Option<PathBuf> {
    let is_it = |entry: &fs::DirEntry| {
        let found = device::inspect_directory(&entry.path());
        found.is_ok_and(|disk| disk.identity.as_deref() == Some(identity))
    };
    let entry = fs::read_dir(disks).ok()?.filter_map(Result::ok).find(is_it)?;
    Some(Path::new("/dev").join(entry.file_name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_found_by_its_identity_under_another_name() {
        let sys = std::env::temp_dir().join(format!("freeblock-identity-{}", std::process::id()));
        for (disk, identity) in [("sda", "naa.1"), ("sdb", "t10.ATA     ST2000DM006       Z4Z0  ")] {
            fs::create_dir_all(sys.join(disk).join("device")).unwrap();
            fs::write(sys.join(disk).join("device/wwid"), format!("{identity}\n")).unwrap();
        }
        let inspected = device::inspect_directory(&sys.join("sdb")).unwrap();
        assert_eq!(path_of(&sys, &inspected.identity.unwrap()), Some("/dev/sdb".into()));
        assert_eq!(path_of(&sys, "naa.2"), None);
        fs::remove_dir_all(sys).unwrap();
    }

    #[test]
    fn a_file_has_no_switches_and_nothing_is_said() {
        assert_eq!(tried(Path::new("/dev/null")), (false, None));
        assert_eq!(back(), None);
    }
}
