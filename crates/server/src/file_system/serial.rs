//! The serial number of a disk: its name in /dev may belong to another disk after the next boot.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// Returns the world-wide name or the serial number of a disk; `None` for a regular file, and for a device that has
/// neither.
pub fn of_device(device: &Path) -> Option<String> {
    let metadata = fs::metadata(device).ok().filter(|m| m.file_type().is_block_device())?;
    of(metadata.rdev())
}

/// Returns the world-wide name or the serial number of the block device with this device number.
pub(super) fn of(number: u64) -> Option<String> {
    // The number is split as by the kernel's MAJOR and MINOR.
    let major = (number >> 8 & 0xfff) | (number >> 32 & !0xfff);
    let minor = (number & 0xff) | (number >> 12 & !0xff);
    number_at(Path::new(&format!("/sys/dev/block/{major}:{minor}")))
}

fn number_at(place: &Path) -> Option<String> {
    let read = |name: &str| {
        let text = fs::read_to_string(place.join(name)).ok()?;
        // Some drives pad the number with spaces. A file that is not text has no usable name.
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        (!line.is_empty()).then_some(line)
    };
    let whole = ["wwid", "device/wwid", "serial", "device/serial"].into_iter().find_map(read);
    // A partition is named by its disk's serial number (or world-wide name) and its own index.
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
    fn a_disk_and_its_partitions_have_serial_numbers() {
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
