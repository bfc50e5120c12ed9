//! Which disk a state directory is of: what /dev calls it may be another one after the next boot.

use crate::problem::Problem;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Notes which disk this is in its part of the state directory.
///
/// # Errors
/// It is another one than the last time, or the directory cannot be written.
pub(super) fn keep(state: &Path, device: &Path) -> Result<(), Problem> {
    match own_number(Path::new("/sys"), device) {
        Some(number) => compare(state, device, &number),
        // A file, or a device that has no number of its own: whoever names it knows which it is.
        None => Ok(()),
    }
}

fn compare(state: &Path, device: &Path, number: &str) -> Result<(), Problem> {
    let (note, failed) = (state.join("device"), |e| Problem::failed(format!("{}: {e}", state.display())));
    match fs::read_to_string(&note) {
        Ok(before) if before.trim_end() == number => Ok(()),
        Ok(before) => Err(Problem::failed(format!(
            "{} is the disk {number}, and the tasks in {} are of {}",
            device.display(),
            state.display(),
            before.trim_end()
        ))
        .help("name the disk by /dev/disk/by-id/..., or give this one another name; if that disk is gone for good, remove the file `device` there")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            fs::create_dir_all(state).map_err(failed)?;
            fs::write(note, format!("{number}\n")).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// What the disk itself says who it is: its world-wide name or its serial number.
fn own_number(sys: &Path, device: &Path) -> Option<String> {
    let metadata = fs::metadata(device).ok().filter(|m| m.file_type().is_block_device())?;
    let number = metadata.rdev();
    // As the kernel's MAJOR and MINOR take a number apart.
    let major = (number >> 8 & 0xfff) | (number >> 32 & !0xfff);
    let minor = (number & 0xff) | (number >> 12 & !0xff);
    number_at(&sys.join(format!("dev/block/{major}:{minor}")))
}

fn number_at(place: &Path) -> Option<String> {
    let read = |name: &str| {
        let text = fs::read_to_string(place.join(name)).ok()?;
        // Padded by some drives; what is no text is no name.
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (!line.is_empty()).then_some(line)
    };
    let whole = ["wwid", "device/wwid", "serial", "device/serial"].into_iter().find_map(read);
    // A part of a disk has the disk's, and its own number on it.
    let part = || {
        let disk = number_at(fs::canonicalize(place).ok()?.parent()?)?;
        Some(format!("{disk} part {}", read("partition")?))
    };
    whole.or_else(|| fs::exists(place.join("partition")).ok().filter(|there| *there).and_then(|_| part()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_disk_under_the_same_name_is_refused() {
        let dir = std::env::temp_dir().join(format!("freeblock-identity-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        let (state, device) = (dir.join("state"), Path::new("/dev/sdb"));
        compare(&state, device, "naa.5000c500a1b2c3d4").unwrap();
        compare(&state, device, "naa.5000c500a1b2c3d4").unwrap();
        compare(&state, Path::new("/dev/sdc"), "naa.5000c500a1b2c3d4").unwrap();
        let error = compare(&state, device, "naa.5000c500ffffffff").unwrap_err();
        assert!(format!("{error:?}").contains("naa.5000c500a1b2c3d4"), "{error:?}");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_disk_says_who_it_is_and_so_does_a_part_of_it() {
        let dir = std::env::temp_dir().join(format!("freeblock-number-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("sdb/device")).unwrap();
        fs::create_dir_all(dir.join("sdb/sdb2")).unwrap();
        assert_eq!(number_at(&dir.join("sdb")), None);
        fs::write(dir.join("sdb/device/wwid"), "t10.ATA     SOME DISK    1234 \n").unwrap();
        fs::write(dir.join("sdb/sdb2/partition"), "2\n").unwrap();
        assert_eq!(number_at(&dir.join("sdb")).unwrap(), "t10.ATA SOME DISK 1234");
        assert_eq!(number_at(&dir.join("sdb/sdb2")).unwrap(), "t10.ATA SOME DISK 1234 part 2");
        fs::remove_dir_all(dir).unwrap();
    }
}
