//! Finds other users of a device or file in the kernel's files in /proc and /sys.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A present user of a device or file, whose data a write of this program would destroy.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum User {
    /// A file system on the device, or on a partition of it.
    Mount {
        /// The device or the partition.
        device: String,
        /// The mount point.
        at: PathBuf,
    },
    /// Swap space in the file, on the device, or on a partition of it.
    Swap {
        /// The device, the partition or the file.
        device: String,
    },
    /// A device of the device mapper, md or bcache that is built on the device or on a partition of it.
    Holder {
        /// The device or the partition.
        device: String,
        /// The device that is built on the device or the partition.
        holder: String,
    },
    /// A loop device that is attached to the file.
    Loop {
        /// The loop device.
        device: String,
    },
    /// An unknown user that has opened the device exclusively.
    Unknown,
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mount { device, at } => {
                write!(f, "{device} is mounted on {}; unmount it (umount {0})", at.display())
            }
            Self::Swap { device } => write!(f, "{device} is swap space; withdraw it (swapoff {device})"),
            Self::Holder { device, holder } => {
                write!(f, "{device} is a part of {holder}; stop that (dmsetup remove, mdadm --stop)")
            }
            Self::Loop { device } => {
                write!(f, "{device} is attached to the file; detach that device (losetup -d {device})")
            }
            Self::Unknown => {
                write!(f, "another program has opened the device for itself alone; end that program")
            }
        }
    }
}

/// The directory that contains /proc and /sys: the root, except in tests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct System<'a> {
    root: &'a Path,
}

impl System<'static> {
    /// Returns the system whose /proc and /sys are this machine's.
    pub fn here() -> Self {
        Self { root: Path::new("/") }
    }
}

impl<'a> System<'a> {
    #[cfg(test)]
    pub fn at(root: &'a Path) -> Self {
        Self { root }
    }

    /// Returns the user of the block device with these numbers. An unreadable file counts as no user, because the
    /// kernel has already refused a second exclusive opener.
    pub fn user_of_device(self, major: u32, minor: u32) -> Option<User> {
        let names = self.with_partitions(major, minor);
        self.mount(&names).or_else(|| self.swap(&names)).or_else(|| self.holder(&names))
    }

    /// Returns the user of a file.
    pub fn user_of_file(self, path: &Path) -> Option<User> {
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let swapped = self.swaps().into_iter().any(|swap| swap == path);
        if swapped {
            return Some(User::Swap { device: path.display().to_string() });
        }
        let attached = |name: &OsString| {
            let file = self.root.join("sys/block").join(name).join("loop/backing_file");
            fs::read(file).is_ok_and(|line| Path::new(OsStr::from_bytes(trimmed(&line))) == path)
        };
        let device = listed(&self.root.join("sys/block")).into_iter().find(attached)?;
        Some(User::Loop { device: node(&device) })
    }

    /// Returns an attribute of the queue of a device; of its disk, if the device is a partition.
    pub fn queue(self, major: u32, minor: u32, attribute: &str) -> Option<String> {
        let device = self.device(major, minor);
        let read = |queue: &str| fs::read_to_string(device.join(queue).join(attribute)).ok();
        // A partition's directory is in its disk's directory, which has the queue.
        Some(read("queue").or_else(|| read("../queue"))?.trim().to_owned())
    }

    fn device(self, major: u32, minor: u32) -> PathBuf {
        let link = self.root.join("sys/dev/block").join(format!("{major}:{minor}"));
        link.canonicalize().unwrap_or(link)
    }

    /// Returns the names, directories and device numbers of the device and its partitions.
    fn with_partitions(self, major: u32, minor: u32) -> Vec<Named> {
        let directory = self.device(major, minor);
        let name = directory.file_name().unwrap_or_default().to_owned();
        let partitions = listed(&directory).into_iter().filter_map(|name| {
            let directory = directory.join(&name);
            let number = fs::read_to_string(directory.join("dev")).ok()?;
            directory.join("partition").exists().then(|| Named {
                name,
                directory,
                number: number.trim().to_owned(),
            })
        });
        let partitions: Vec<Named> = partitions.collect();
        let whole = Named { name, directory, number: format!("{major}:{minor}") };
        std::iter::once(whole).chain(partitions).collect()
    }

    fn mount(self, names: &[Named]) -> Option<User> {
        let (device, at) = self.mounts(names).into_iter().next()?;
        Some(User::Mount { device, at })
    }

    /// Returns the mount points of a device and its partitions.
    #[cfg(feature = "ublk")]
    pub fn mounts_of_device(self, major: u32, minor: u32) -> Vec<PathBuf> {
        self.mounts(&self.with_partitions(major, minor)).into_iter().map(|(_, at)| at).collect()
    }

    /// Returns those of the devices that are mounted, with their mount points.
    fn mounts(self, names: &[Named]) -> Vec<(String, PathBuf)> {
        let table = fs::read(self.root.join("proc/self/mountinfo")).unwrap_or_default();
        let mounted = table.split(|byte| *byte == b'\n').filter_map(|line| {
            let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
            let (number, at) = (fields.get(2)?, fields.get(4)?);
            let dash = fields.iter().position(|field| *field == b"-")?;
            // A file system over several devices has a number of its own, and names one of the devices as its
            // source.
            let source = unescaped(fields.get(dash + 2)?);
            let found = names
                .iter()
                .find(|named| *number == named.number.as_bytes() || source == node(&named.name).as_bytes())?;
            Some((node(&found.name), PathBuf::from(OsString::from_vec(unescaped(at)))))
        });
        mounted.collect()
    }

    /// Returns the devices and files that are in use as swap.
    fn swaps(self) -> Vec<PathBuf> {
        let table = fs::read(self.root.join("proc/swaps")).unwrap_or_default();
        let lines = table.split(|byte| *byte == b'\n').skip(1);
        let first = |line: &[u8]| line.split(|byte| byte.is_ascii_whitespace()).next().map(unescaped);
        lines.filter_map(first).map(|path| PathBuf::from(OsString::from_vec(path))).collect()
    }

    fn swap(self, names: &[Named]) -> Option<User> {
        let swaps = self.swaps();
        let found = names.iter().find(|named| swaps.contains(&PathBuf::from(node(&named.name))))?;
        Some(User::Swap { device: node(&found.name) })
    }

    fn holder(self, names: &[Named]) -> Option<User> {
        names.iter().find_map(|named| {
            let holder = listed(&named.directory.join("holders")).into_iter().next()?;
            Some(User::Holder { device: node(&named.name), holder: node(&holder) })
        })
    }
}

/// A device or a partition.
#[derive(Debug)]
struct Named {
    name: OsString,
    directory: PathBuf,
    number: String,
}

/// Returns the device node's path as udev makes it, with a slash for each `!` in the kernel's name.
fn node(name: &OsStr) -> String {
    format!("/dev/{}", name.to_string_lossy().replace('!', "/"))
}

/// Returns the names in a directory, sorted; none if it cannot be read.
fn listed(directory: &Path) -> Vec<OsString> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    let mut names: Vec<OsString> = entries.filter_map(|entry| Some(entry.ok()?.file_name())).collect();
    names.sort();
    names
}

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

/// Decodes the kernel's escapes: a space, tab, line feed or backslash is written as a backslash and three octal
/// digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .filter(|digits| *first == b'\\' && digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        let value = octal.map(|digits| digits.iter().fold(0u32, |value, d| value * 8 + u32::from(d - b'0')));
        match value.and_then(|value| u8::try_from(value).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the files of a machine with a disk of two partitions, a disk used by md, and a loop device.
    fn machine(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("freeblock-in-use-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let put = |path: &str, content: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        for (disk, partition, number) in
            [("sda", "sda1", "8:1"), ("sda", "sda2", "8:2"), ("sdb", "sdb1", "8:17")]
        {
            put(&format!("sys/block/{disk}/{partition}/partition"), "1\n");
            put(&format!("sys/block/{disk}/{partition}/dev"), &format!("{number}\n"));
        }
        put("sys/block/sda/queue/logical_block_size", "4096\n");
        put("sys/block/sdb/sdb1/holders/md0", "");
        put("sys/block/loop3/loop/backing_file", "/data/image of a disk\n");
        put(
            "proc/swaps",
            "Filename Type Size Used Priority\n/dev/sdc partition 9 0 -2\n/data/swap\\040file file 9 0 -3\n",
        );
        put(
            "proc/self/mountinfo",
            "22 27 0:21 / /proc rw shared:1 - proc proc rw\n\
             30 27 8:2 / /mnt/my\\040data rw,relatime shared:2 - ext4 /dev/sda2 rw\n\
             31 27 0:44 /sub /mnt/pool rw - btrfs /dev/sdd rw\n",
        );
        fs::create_dir_all(root.join("sys/dev/block")).unwrap();
        for (number, device) in [
            ("8:0", "sda"),
            ("8:1", "sda/sda1"),
            ("8:2", "sda/sda2"),
            ("8:16", "sdb"),
            ("8:32", "sdc"),
            ("8:48", "sdd"),
        ] {
            fs::create_dir_all(root.join("sys/block").join(device)).unwrap();
            let link = root.join("sys/dev/block").join(number);
            std::os::unix::fs::symlink(root.join("sys/block").join(device), link).unwrap();
        }
        root
    }

    #[test]
    fn a_disk_is_in_use_if_a_partition_of_it_is() {
        let root = machine("disk");
        let system = System::at(&root);
        let mount = User::Mount { device: "/dev/sda2".into(), at: "/mnt/my data".into() };
        assert_eq!(
            mount.to_string(),
            "/dev/sda2 is mounted on /mnt/my data; unmount it (umount /mnt/my data)"
        );
        assert_eq!(system.user_of_device(8, 0), Some(mount.clone()));
        assert_eq!(system.user_of_device(8, 1), None, "the other partition");
        assert_eq!(system.user_of_device(8, 2), Some(mount));
        let holder = User::Holder { device: "/dev/sdb1".into(), holder: "/dev/md0".into() };
        assert_eq!(system.user_of_device(8, 16), Some(holder));
        assert_eq!(system.user_of_device(8, 32), Some(User::Swap { device: "/dev/sdc".into() }));
        let btrfs = User::Mount { device: "/dev/sdd".into(), at: "/mnt/pool".into() };
        assert_eq!(system.user_of_device(8, 48), Some(btrfs));
        assert_eq!(system.user_of_device(9, 9), None, "no such device");
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_file_is_used_by_swap_or_a_loop_device() {
        let root = machine("file");
        let system = System::at(&root);
        assert_eq!(
            system.user_of_file(Path::new("/data/image of a disk")),
            Some(User::Loop { device: "/dev/loop3".into() })
        );
        assert!(matches!(system.user_of_file(Path::new("/data/swap file")), Some(User::Swap { .. })));
        assert_eq!(system.user_of_file(Path::new("/data/other")), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_partition_has_its_disks_queue() {
        let root = machine("queue");
        let system = System::at(&root);
        assert_eq!(system.queue(8, 0, "logical_block_size").as_deref(), Some("4096"));
        assert_eq!(system.queue(8, 2, "logical_block_size").as_deref(), Some("4096"));
        assert_eq!(system.queue(8, 2, "rotational"), None);
        fs::remove_dir_all(root).unwrap();
    }
}
