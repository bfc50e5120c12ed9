//! Reads the kernel's description of a disk from `/sys`, and the disk's own from its log, and decides whether gaps of
//! the disk can be used.
//!
//! The disk gets only commands that read (INQUIRY, IDENTIFY DEVICE, READ LOG EXT), and none if the kernel says that it
//! does not rotate. A property that is in neither description is reported as unknown.

use crate::sg::{Farm, Recording, Scsi, ScsiError, Sg, read_rate, vpd_rate};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use units::Rpm;

/// The name of the property that says whether a disk rotates.
pub const MEDIUM: &str = "medium";

/// The unit of sizes and addresses in `/sys`.
const KERNEL_BYTES: u64 = 512;

/// The most bytes that are read of a page of vital product data (VPD).
const PAGE_BYTES: u64 = 64;

/// The shingling that the kernel reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zoned {
    /// The kernel reports no zones: the disk is conventional, or shingled and managed by its drive.
    No,
    /// Random writes are slow.
    HostAware,
    /// Random writes are refused.
    HostManaged,
    /// The kernel does not say.
    #[default]
    Unknown,
}

impl Zoned {
    /// Returns the kernel's word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::No => "none",
            Self::HostAware => "host-aware",
            Self::HostManaged => "host-managed",
            Self::Unknown => "unknown",
        }
    }
}

/// A range of the disk in sectors of 512 bytes: the part that one actuator reaches, or a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActuatorRange {
    /// The first sector.
    pub start: u64,
    /// The number of sectors.
    pub sectors: u64,
}

impl ActuatorRange {
    fn holds(self, other: Self) -> bool {
        let end = |range: Self| range.start.saturating_add(range.sectors);
        self.start <= other.start && end(other) <= end(self)
    }
}

/// The disk's own description, from the log of Seagate's ATA disks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Log {
    /// The disk was not asked, because the kernel's description is enough.
    #[default]
    NotAsked,
    /// The disk has no such log.
    None,
    /// The log could not be read, for this reason.
    Failed(String),
    /// The description.
    Read(Farm),
}

impl Log {
    /// Returns the recording of the tracks, if the disk reports it.
    pub fn recording(&self) -> Option<Recording> {
        self.farm().recording
    }

    /// Returns whether heads are out of service, if the disk reports it.
    pub fn depopulated(&self) -> Option<bool> {
        self.farm().depopulated
    }

    fn farm(&self) -> Farm {
        if let Self::Read(farm) = self { *farm } else { Farm::default() }
    }

    /// Returns why the log says nothing about a property.
    fn silence(&self) -> String {
        match self {
            Self::NotAsked => "the disk was not asked".to_owned(),
            Self::None => "the disk has no log about it".to_owned(),
            Self::Failed(why) => format!("the disk's log cannot be read: {why}"),
            Self::Read(_) => "the disk's log does not say".to_owned(),
        }
    }
}

/// The description of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inspection {
    /// The kernel's name of the whole disk, such as `sda`.
    pub disk: String,
    /// The name of the partition, if the inspected path is one.
    pub partition: Option<String>,
    /// The sectors of the partition.
    pub partition_sectors: Option<ActuatorRange>,
    /// The kernel's identity of the disk (`wwid`), which stays the same when the disk's name changes.
    pub identity: Option<String>,
    /// Vendor and model.
    pub model: Option<String>,
    /// The capacity of the whole disk, in bytes.
    pub bytes: u64,
    /// The bytes of a sector as the host addresses it.
    pub logical_sector: Option<u32>,
    /// The bytes of a sector of the medium.
    pub physical_sector: Option<u32>,
    /// Whether the medium rotates. The kernel says so of every disk that does not deny it, even of virtual ones.
    pub rotational: Option<bool>,
    /// The rotational speed that the disk itself reports; `None` for old and for virtual disks.
    pub rate: Option<Rpm>,
    /// The shingling that the kernel reports.
    pub zoned: Zoned,
    /// Whether the disk accepts TRIM or UNMAP.
    pub discard: Option<bool>,
    /// Whether writes are acknowledged when they are in the drive's cache.
    pub write_cache: Option<bool>,
    /// The most commands that the kernel keeps at the drive.
    pub queue_depth: Option<u32>,
    /// The ranges of the actuators, if there are several; empty if there is one.
    pub actuators: Vec<ActuatorRange>,
    /// The disk's own description.
    pub log: Log,
}

/// Whether a property of a disk lets freeblock schedule it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The property lets freeblock schedule the disk.
    Fine,
    /// The property lets freeblock schedule the disk, with a cost or a doubt that a user should know.
    Note,
    /// The property prevents freeblock from scheduling the disk.
    Refused,
}

impl Verdict {
    /// Returns a word for tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Note => "note",
            Self::Refused => "refused",
        }
    }
}

/// One property of a disk, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The property's name.
    pub property: &'static str,
    /// The property's value.
    pub value: String,
    /// Whether the property lets the disk be scheduled.
    pub verdict: Verdict,
    /// The consequence, and what the user should do; empty if there is none.
    pub reason: String,
}

/// The reason why a disk could not be inspected.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// Nothing exists at the path.
    #[error("{}: {source}; name a block device such as /dev/sdb", path.display())]
    Path {
        /// The path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The path is no block device.
    #[error("{}: not a block device; name a block device such as /dev/sdb", path.display())]
    NotABlockDevice {
        /// The path.
        path: PathBuf,
    },
    /// `/sys` has no description of the disk.
    #[error("{}: {source}; mount sysfs on /sys", path.display())]
    NoDescription {
        /// The directory looked for.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

/// Inspects the disk at a path; for a partition, the disk that contains it.
///
/// # Errors
/// The path is no block device, or the system has no `/sys`.
pub fn inspect(path: &Path) -> Result<Inspection, InspectError> {
    let metadata =
        fs::metadata(path).map_err(|source| InspectError::Path { path: path.to_owned(), source })?;
    if !metadata.file_type().is_block_device() {
        return Err(InspectError::NotABlockDevice { path: path.to_owned() });
    }
    let device = metadata.rdev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let directory = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    inspect_with(&directory, |disk| Sg::open(&Path::new("/dev").join(disk)))
}

/// Inspects the disk whose description in `/sys` is `directory`. `open` opens the disk by the kernel's name, for
/// commands.
///
/// # Errors
/// The directory does not exist. A disk that cannot be opened or asked is no error: the inspection says why.
pub fn inspect_with<S: Scsi>(
    directory: &Path,
    open: impl FnOnce(&str) -> io::Result<S>,
) -> Result<Inspection, InspectError> {
    let mut found = inspect_directory(directory)?;
    if found.rotational != Some(false) {
        let asked = open(&found.disk).map_err(ScsiError::from).and_then(|mut disk| {
            found.rate = found.rate.or_else(|| read_rate(&mut disk));
            Farm::read(&mut disk)
        });
        found.log = match asked {
            Ok(Some(farm)) => Log::Read(farm),
            Ok(None) => Log::None,
            Err(error) if error.is_no_scsi_disk() => Log::None,
            Err(error) => Log::Failed(error.to_string()),
        };
    }
    Ok(found)
}

/// Inspects the disk whose description is `directory`, such as `/sys/class/block/sdb`, without sending the disk
/// commands.
///
/// # Errors
/// The directory does not exist.
pub fn inspect_directory(directory: &Path) -> Result<Inspection, InspectError> {
    let absent = |source| InspectError::NoDescription { path: directory.to_owned(), source };
    let directory = fs::canonicalize(directory).map_err(absent)?;
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is_partition = directory.join("partition").exists();
    let partition = is_partition.then(|| name(&directory));
    let sectors_of = |file| fs::read_to_string(directory.join(file)).ok()?.trim().parse::<u64>().ok();
    let partition_sectors = partition
        .as_ref()
        .and_then(|_| Some(ActuatorRange { start: sectors_of("start")?, sectors: sectors_of("size")? }));
    let disk = match directory.parent() {
        Some(parent) if is_partition => parent.to_owned(),
        _ => directory,
    };
    let text = |file: &str| {
        let text = fs::read_to_string(disk.join(file)).ok()?;
        Some(text.split_whitespace().collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty())
    };
    let number = |file: &str| text(file)?.parse::<u64>().ok();
    let small = |file: &str| number(file).and_then(|n| u32::try_from(n).ok());
    // Without a model, as for virtio, the vendor is a number of the bus.
    let model = text("device/model").map(|model| match text("device/vendor") {
        Some(vendor) => format!("{vendor} {model}"),
        None => model,
    });
    Ok(Inspection {
        partition,
        partition_sectors,
        identity: text("device/wwid").or_else(|| text("wwid")),
        log: Log::NotAsked,
        model,
        bytes: number("size").unwrap_or(0).saturating_mul(KERNEL_BYTES),
        logical_sector: small("queue/logical_block_size"),
        physical_sector: small("queue/physical_block_size"),
        rotational: number("queue/rotational").map(|n| n != 0),
        rate: vpd_rate(&page(&disk.join("device/vpd_pgb1"))),
        zoned: match text("queue/zoned").as_deref() {
            Some("none") => Zoned::No,
            Some("host-aware") => Zoned::HostAware,
            Some("host-managed") => Zoned::HostManaged,
            _ => Zoned::Unknown,
        },
        discard: number("queue/discard_max_hw_bytes")
            .or_else(|| number("queue/discard_max_bytes"))
            .map(|n| n > 0),
        write_cache: match text("queue/write_cache").as_deref() {
            Some("write back") => Some(true),
            Some("write through") => Some(false),
            _ => None,
        },
        queue_depth: small("device/queue_depth").or_else(|| small("queue/nr_requests")),
        actuators: actuators(&disk.join("queue/independent_access_ranges")),
        disk: name(&disk),
    })
}

/// Returns the first bytes of a VPD page that the kernel has stored; empty if the kernel has not stored it.
fn page(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(PAGE_BYTES).read_to_end(&mut bytes));
    if read.is_ok() { bytes } else { Vec::new() }
}

fn actuators(directory: &Path) -> Vec<ActuatorRange> {
    let number = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut ranges: Vec<ActuatorRange> = entries
        .filter_map(|entry| {
            let start = number(entry.path().join("sector"))?;
            Some(ActuatorRange { start, sectors: number(entry.path().join("nr_sectors"))? })
        })
        .collect();
    ranges.sort_by_key(|range| range.start);
    ranges
}

impl Inspection {
    /// Returns every property with its consequence, in a fixed order.
    pub fn findings(&self) -> Vec<Finding> {
        vec![
            self.rotation(),
            self.shingling(),
            self.arms(),
            self.sectors(),
            self.cache(),
            self.depth(),
            self.heads(),
        ]
    }

    /// Returns whether no finding prevents freeblock from scheduling the disk.
    pub fn can_be_served(&self) -> bool {
        self.refusals().next().is_none()
    }

    /// Returns the findings that prevent freeblock from scheduling the disk.
    pub fn refusals(&self) -> impl Iterator<Item = Finding> {
        self.findings().into_iter().filter(|finding| finding.verdict == Verdict::Refused)
    }

    fn rotation(&self) -> Finding {
        match (self.rotational, self.rate) {
            (Some(true), Some(_)) => finding(MEDIUM, "rotating", Verdict::Fine, ""),
            (Some(true), None) => finding(
                MEDIUM,
                "unknown",
                Verdict::Note,
                "the kernel takes it for rotating, and it reports no speed, as old disks and virtual ones do; a probe finds out",
            ),
            (Some(false), _) => finding(
                MEDIUM,
                "flash",
                Verdict::Refused,
                "no rotation leaves gaps; serve a hard disk, or let the kernel schedule this one",
            ),
            (None, _) => {
                let reason = "the kernel does not say whether it rotates; a probe finds out";
                finding(MEDIUM, "unknown", Verdict::Note, reason)
            }
        }
    }

    fn shingling(&self) -> Finding {
        let name = self.zoned.name();
        match (self.zoned, self.discard) {
            (Zoned::HostManaged, _) => {
                let reason = "the disk refuses random writes; serve a conventional disk";
                finding("shingling", name, Verdict::Refused, reason)
            }
            (Zoned::HostAware, _) => {
                let reason =
                    "random writes go through a cache that moves whole zones; serve a conventional disk";
                finding("shingling", name, Verdict::Refused, reason)
            }
            (_, Some(true)) if self.rotational == Some(true) && self.rate.is_some() => finding(
                "shingling",
                "drive-managed",
                Verdict::Refused,
                "a rotating disk that takes TRIM moves sectors by itself, so no profile holds; serve a conventional disk",
            ),
            (Zoned::No | Zoned::Unknown, _) if self.rotational == Some(false) => {
                finding("shingling", name, Verdict::Fine, "")
            }
            (Zoned::No | Zoned::Unknown, _) => match self.log.recording() {
                Some(Recording::Shingled) => finding(
                    "shingling",
                    "drive-managed",
                    Verdict::Refused,
                    "the disk's log says so; it moves sectors by itself, so no profile holds; serve a conventional disk",
                ),
                Some(Recording::Conventional) => finding("shingling", "none", Verdict::Fine, ""),
                None if self.rotational == Some(true) && self.discard == Some(true) => finding(
                    "shingling",
                    "unknown",
                    Verdict::Note,
                    "the disk takes TRIM, which means shingling on a disk that reports its speed; this disk reports none, and a virtual disk hides the drive; look at the drive behind it",
                ),
                None => {
                    let why = self.log.silence();
                    let reason = format!(
                        "{why}; a drive-managed shingled disk without TRIM looks the same; look up the model"
                    );
                    finding("shingling", "unknown", Verdict::Note, &reason)
                }
            },
        }
    }

    fn arms(&self) -> Finding {
        match self.actuators.len() {
            0 | 1 => finding("actuators", "1", Verdict::Fine, ""),
            n if self
                .actuators
                .iter()
                .any(|range| self.partition_sectors.is_some_and(|p| range.holds(p))) =>
            {
                finding(
                    "actuators",
                    &format!("1 of {n}"),
                    Verdict::Fine,
                    "the partition lies in the range of one",
                )
            }
            n => {
                let ranges: Vec<String> =
                    self.actuators.iter().map(|r| format!("{} + {}", r.start, r.sectors)).collect();
                let reason = format!(
                    "each range (sectors {}) has an arm of its own and one queue before them; no schedule of one arm holds; make a partition in each range, and serve those",
                    ranges.join(", ")
                );
                finding("actuators", &n.to_string(), Verdict::Refused, &reason)
            }
        }
    }

    fn heads(&self) -> Finding {
        let property = "heads out of service";
        match self.log.depopulated() {
            Some(false) => finding(property, "none", Verdict::Fine, ""),
            Some(true) => finding(
                property,
                "some",
                Verdict::Note,
                "the disk's layout is not that of its model; probe this disk, and take no other disk's profile",
            ),
            None => {
                let reason = format!("{}; a probe finds the layout as it is", self.log.silence());
                finding(property, "unknown", Verdict::Note, &reason)
            }
        }
    }

    fn sectors(&self) -> Finding {
        match (self.logical_sector, self.physical_sector) {
            (Some(logical), Some(physical)) if physical > logical => finding(
                "sectors",
                &format!("{logical} bytes on {physical}"),
                Verdict::Note,
                &format!(
                    "a write that is not whole sectors of {physical} bytes costs a revolution; give sessions blocks of a multiple"
                ),
            ),
            (Some(logical), _) => finding("sectors", &format!("{logical} bytes"), Verdict::Fine, ""),
            (None, _) => finding("sectors", "unknown", Verdict::Note, "the kernel does not say"),
        }
    }

    fn cache(&self) -> Finding {
        match self.write_cache {
            Some(true) => finding(
                "write cache",
                "on",
                Verdict::Note,
                "completions of writes do not show where the arm is; gaps after writes are less sure",
            ),
            Some(false) => finding("write cache", "off", Verdict::Fine, ""),
            None => finding("write cache", "unknown", Verdict::Note, "the kernel does not say"),
        }
    }

    fn depth(&self) -> Finding {
        match self.queue_depth {
            Some(depth) => finding("queue depth", &depth.to_string(), Verdict::Fine, ""),
            None => finding("queue depth", "unknown", Verdict::Note, "the kernel does not say"),
        }
    }
}

fn finding(property: &'static str, value: &str, verdict: Verdict, reason: &str) -> Finding {
    Finding { property, value: value.to_owned(), verdict, reason: reason.to_owned() }
}
