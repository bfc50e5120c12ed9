//! The specification of a task.

mod files;
mod verify;

use apps::snapshot::VolumeId;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use thiserror::Error;
use units::{Bytes, Lbn, LbnRange, Sectors};
pub use verify::{ArrayKind, VerifySpec};

/// The most sectors in a block of a task, because a block is kept in memory whole: 16 MiB of 512-byte sectors.
pub const BLOCK_SECTORS_MAX: u64 = 1 << 15;

/// The most images of a restore: a full image and differences from it. A longer chain should begin with a new full
/// backup.
pub const IMAGES_MAX: usize = 1_000;

/// The facts about a disk that its tasks need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskFacts {
    /// The name under which the daemon exports the disk.
    pub name: String,
    /// The number of sectors.
    pub capacity: Sectors,
    /// Bytes in a sector.
    pub sector_bytes: Bytes,
    /// Files and devices that hold the disk's own data: no task may write to them.
    pub own: Vec<PathBuf>,
    /// Whether the disk cannot be written to.
    pub read_only: bool,
    /// The serial number, by which tasks and checksums recognise their disk; for a file or a device without a serial
    /// number the path, which begins with `/`.
    pub device: Option<String>,
}

impl DiskFacts {
    /// Returns the range of the whole disk.
    pub fn whole(&self) -> LbnRange {
        LbnRange::new(Lbn::ZERO, self.capacity)
    }
}

/// The kinds of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskKind {
    /// Reads every block once and names the sectors that cannot be read.
    Scrub,
    /// Writes an image file of the disk as it was when the task was started.
    Backup,
    /// Writes images back to the disk.
    Restore,
    /// Copies the disk as it was when the task was started to a file or another disk, each block to its own address.
    Replica,
    /// Moves blocks as a plan says.
    Reorganize,
    /// Lets clients read the disk as it was when the task was started, while the task lasts.
    Snapshot,
    /// Reads the members of an array and names the LBNs that do not agree.
    Verify,
}

impl TaskKind {
    /// All kinds of tasks.
    pub const ALL: [Self; 7] = [
        Self::Scrub,
        Self::Backup,
        Self::Restore,
        Self::Replica,
        Self::Reorganize,
        Self::Snapshot,
        Self::Verify,
    ];
}

impl std::fmt::Display for TaskKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Scrub => "scrub",
            Self::Backup => "backup",
            Self::Restore => "restore",
            Self::Replica => "replica",
            Self::Reorganize => "reorganize",
            Self::Snapshot => "snapshot",
            Self::Verify => "verify",
        })
    }
}

/// A task as a user asks for it. Fields that the kind of task does not need are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// The kind of task.
    pub kind: TaskKind,
    /// The task's share of the gaps relative to other tasks, 1 to 100; 20 by default.
    #[serde(default = "usual_priority")]
    pub priority: u8,
    /// When the task should be done, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_unix_s: Option<u64>,
    /// Scrub: the first sector; 0 by default. Verify: the first sector on each member; `offset_lbn` by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_lbn: Option<u64>,
    /// Scrub: the number of sectors; by default all up to the disk's end. Verify: the number of sectors of each member;
    /// by default up to the end of the smallest member, for RAID 6 in whole chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors: Option<u64>,
    /// Scrub, backup, replica, verify: the sectors in a block, the unit of a read; by default 16 KiB, or less so that
    /// blocks divide the array's chunk. Snapshot: the unit in which old content is kept. Reorganize: the unit of moves
    /// if the plan gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_sectors: Option<u64>,
    /// Backup: the image file. Replica: a file or block device. Without `force` an existing file has to be empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<PathBuf>,
    /// Restore: the full image, and then the differences in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<PathBuf>,
    /// Backup: former images of the disk, the full image first. The new image then holds only differences from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub since: Vec<PathBuf>,
    /// Reorganize: the plan (docs/CONTROL.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PathBuf>,
    /// Scrub: the file of checksums, or the directory for that file. The scrub compares blocks with their checksums and
    /// records the checksums that are missing (docs/SCRUB.md).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksums: Option<PathBuf>,
    /// Snapshot: the name, of at most 64 letters, digits, `-`, `_` and `.`, the first a letter or digit. Clients read
    /// the export `DISK@NAME`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Snapshot: when the snapshot ends by itself, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_unix_s: Option<u64>,
    /// Verify: the disks, in the order of the array. The first has to be the disk of the task.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Verify: the kind of array; a mirror by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array: Option<ArrayKind>,
    /// Verify: sectors in a chunk of RAID 6; RAID 5 needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_sectors: Option<u64>,
    /// Verify: the LBN at which the array's data begin on each member; 0 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset_lbn: Option<u64>,
    /// Verify: the most bytes for the sums of blocks that not all members have read; 1 GiB by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Restore: run although clients have the disk open for writing. Backup, replica: overwrite an existing file. Scrub
    /// with checksums: replace an unknown or distrusted store with a new one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

fn usual_priority() -> u8 {
    scheduler::Priority::default().get()
}

/// The default bytes in a block of a task, 16 KiB. A block has to fit into a gap whole, or the head has to visit the
/// track again. On an emulated Atlas 10K with 8 random requests waiting, a scrub in gaps reads 4.07 MB/s with blocks of
/// 4 KiB, 3.84 with 16 KiB and 0.58 with 64 KiB, which fit only 2,187 of 19,414 gaps; with one request waiting 4.29,
/// 4.18 and 1.21 (`cargo run --release -p freeblock-server --example block_size`). Smaller blocks cost more records and
/// longer maps for little gain.
const USUAL_BLOCK_BYTES: u64 = 16 * 1024;

impl TaskSpec {
    /// Returns the specification of a task of this kind, with defaults.
    pub fn new(kind: TaskKind) -> Self {
        Self {
            kind,
            priority: usual_priority(),
            deadline_unix_s: None,
            first_lbn: None,
            sectors: None,
            block_sectors: None,
            to: None,
            from: Vec::new(),
            since: Vec::new(),
            plan: None,
            checksums: None,
            name: None,
            expires_unix_s: None,
            members: Vec::new(),
            array: None,
            chunk_sectors: None,
            offset_lbn: None,
            memory_bytes: None,
            force: false,
        }
    }

    /// Checks the specification against this disk and returns the task.
    ///
    /// # Errors
    /// The first field that is wrong, with its permitted values.
    pub fn check(&self, disk: &DiskFacts) -> Result<What, SpecError> {
        use TaskKind::{Backup, Reorganize, Replica, Restore, Scrub, Snapshot, Verify};
        check_priority(self.priority)?;
        let kind = self.kind;
        let stray = |field, given: bool, kinds: &[TaskKind]| match given && !kinds.contains(&kind) {
            true => {
                Err(SpecError::new(field, format!("a {kind} does not take this field"), "omit the field"))
            }
            false => Ok(()),
        };
        stray("first_lbn", self.first_lbn.is_some(), &[Scrub, Verify])?;
        stray("sectors", self.sectors.is_some(), &[Scrub, Verify])?;
        stray(
            "block_sectors",
            self.block_sectors.is_some(),
            &[Scrub, Backup, Replica, Reorganize, Snapshot, Verify],
        )?;
        stray("to", self.to.is_some(), &[Backup, Replica])?;
        stray("from", !self.from.is_empty(), &[Restore])?;
        stray("since", !self.since.is_empty(), &[Backup])?;
        stray("plan", self.plan.is_some(), &[Reorganize])?;
        stray("checksums", self.checksums.is_some(), &[Scrub])?;
        stray("name", self.name.is_some(), &[Snapshot])?;
        stray("expires_unix_s", self.expires_unix_s.is_some(), &[Snapshot])?;
        stray("members", !self.members.is_empty(), &[Verify])?;
        stray("array", self.array.is_some(), &[Verify])?;
        stray("chunk_sectors", self.chunk_sectors.is_some(), &[Verify])?;
        stray("offset_lbn", self.offset_lbn.is_some(), &[Verify])?;
        stray("memory_bytes", self.memory_bytes.is_some(), &[Verify])?;
        stray("force", self.force, &[Restore, Backup, Replica, Scrub])?;
        Ok(match kind {
            Scrub => {
                let (range, block) = (self.range(disk)?, self.block(disk)?);
                What::Scrub { range, block, checksums: self.checksums(disk, range, block)? }
            }
            Backup => {
                let (to, block) = (path("to", self.to.as_ref())?, self.block(disk)?);
                What::Backup { to, block, since: paths("since", &self.since)?, force: self.force }
            }
            Replica => {
                let (to, block) = (path("to", self.to.as_ref())?, self.block(disk)?);
                What::Replica { to, block, force: self.force }
            }
            Reorganize => {
                What::Reorganize { plan: path("plan", self.plan.as_ref())?, block: self.block(disk)? }
            }
            Snapshot => {
                let name = snapshot_name(self.name.as_deref())?;
                What::Snapshot { name, block: self.block(disk)?, expires_unix_s: self.expires_unix_s }
            }
            Verify => What::Verify(self.verify(disk)?),
            Restore => {
                let given = self.from.first();
                let some =
                    given.ok_or_else(|| SpecError::new("from", "nothing is given".into(), "name the images"));
                some?;
                What::Restore { from: paths("from", &self.from)?, force: self.force }
            }
        })
    }

    fn range(&self, disk: &DiskFacts) -> Result<LbnRange, SpecError> {
        let all = disk.capacity.get();
        let first = self.first_lbn.unwrap_or(0);
        let Some(rest) = all.checked_sub(first).filter(|rest| *rest > 0) else {
            let mend = "give an LBN of the disk";
            return Err(SpecError::new("first_lbn", format!("{first} on a disk of {all} sectors"), mend));
        };
        let sectors = self.sectors.unwrap_or(rest);
        if sectors == 0 || sectors > rest {
            let found = format!("{sectors} from LBN {first} on");
            return Err(SpecError::new("sectors", found, format!("give 1 to {rest}")));
        }
        Ok(LbnRange::new(Lbn::new(first), Sectors::new(sectors)))
    }

    /// Checks that a scrub with checksums covers whole blocks, counted from the disk's first sector, as its store does.
    fn checksums(
        &self,
        disk: &DiskFacts,
        range: LbnRange,
        block: Sectors,
    ) -> Result<Option<Checksums>, SpecError> {
        let Some(given) = &self.checksums else {
            return match self.force {
                true => {
                    let found = "a scrub without checksums does not take this field".into();
                    Err(SpecError::new("force", found, "omit the field, or name the checksums"))
                }
                false => Ok(None),
            };
        };
        let whole = |at: u64| at.is_multiple_of(block.get());
        let (first, end) = (range.start().get(), range.end().get());
        let mend = format!("give a multiple of {}, the sectors in a block", block.get());
        if !whole(first) {
            return Err(SpecError::new("first_lbn", format!("{first} with checksums"), mend));
        }
        if !whole(end) && end != disk.capacity.get() {
            let mend = format!("{mend}, or all up to the end");
            return Err(SpecError::new("sectors", format!("{} with checksums", end - first), mend));
        }
        Ok(Some(Checksums { store: path("checksums", Some(given))?, anew: self.force }))
    }

    fn block(&self, disk: &DiskFacts) -> Result<Sectors, SpecError> {
        let usual = (USUAL_BLOCK_BYTES / disk.sector_bytes.get().max(1)).clamp(1, disk.capacity.get().max(1));
        let block = self.block_sectors.unwrap_or(usual);
        if !(1..=BLOCK_SECTORS_MAX).contains(&block) {
            return Err(SpecError::new("block_sectors", block.to_string(), "give 1 to 32768"));
        }
        Ok(Sectors::new(block))
    }
}

/// Checks a priority.
///
/// # Errors
/// The priority is outside 1 to 100.
pub fn check_priority(priority: u8) -> Result<scheduler::Priority, SpecError> {
    let known = scheduler::Priority::new(priority);
    known.ok_or_else(|| SpecError::new("priority", priority.to_string(), "give 1 to 100"))
}

/// The most bytes in the name of a snapshot, so that the name fits wherever it is a part of another name.
const SNAPSHOT_NAME_BYTES_MAX: usize = 64;

/// Checks the name of a snapshot, which becomes a part of an export's name, of paths and of command lines.
fn snapshot_name(given: Option<&str>) -> Result<String, SpecError> {
    let mend = "give at most 64 letters, digits, '-', '_' and '.', the first a letter or digit";
    let Some(name) = given else { return Err(SpecError::new("name", "nothing is given".into(), mend)) };
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let first = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    match first && name.chars().all(plain) && name.len() <= SNAPSHOT_NAME_BYTES_MAX {
        true => Ok(name.to_owned()),
        false => {
            let shown: String = name.chars().take(SNAPSHOT_NAME_BYTES_MAX + 1).collect();
            Err(SpecError::new("name", format!("{shown:?}"), mend))
        }
    }
}

/// The most bytes of a path, and of one name within a path, on Linux (limits.h).
const PATH_BYTES_MAX: usize = 4_095;
const NAME_BYTES_MAX: usize = 255;

/// Checks that a path is absolute, because the daemon's working directory is not the user's, and that it can exist.
fn path(field: &'static str, given: Option<&PathBuf>) -> Result<PathBuf, SpecError> {
    let Some(path) = given else {
        return Err(SpecError::new(field, "nothing is given".into(), "name a file"));
    };
    if !path.is_absolute() {
        return Err(SpecError::new(field, path.display().to_string(), "give a path that begins with /"));
    }
    let bytes = path.as_os_str().as_encoded_bytes();
    let is_long = bytes.len() > PATH_BYTES_MAX
        || bytes.split(|byte| *byte == b'/').any(|name| name.len() > NAME_BYTES_MAX);
    if is_long || bytes.contains(&0) {
        let shown: String = path.display().to_string().chars().take(80).collect();
        let mend = "give a path of at most 4095 bytes, its names of at most 255, without NUL bytes";
        return Err(SpecError::new(field, format!("{shown:?}"), mend));
    }
    Ok(path.clone())
}

/// Checks the number and the paths of a chain of images.
fn paths(field: &'static str, given: &[PathBuf]) -> Result<Vec<PathBuf>, SpecError> {
    if given.len() > IMAGES_MAX {
        let found = format!("{} images", given.len());
        return Err(SpecError::new(field, found, "give at most 1000, or make a new full backup"));
    }
    given.iter().map(|p| path(field, Some(p))).collect()
}

/// The checksum store of a scrub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksums {
    /// The store's file, or the directory of that file.
    pub store: PathBuf,
    /// Whether a new store replaces a distrusted or unknown one.
    pub anew: bool,
}

/// A checked specification, with the defaults of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Reads every block of a range.
    Scrub {
        /// The LBNs to read.
        range: LbnRange,
        /// Sectors in a block, the unit of a read.
        block: Sectors,
        /// The store to compare with, for a scrub with checksums.
        checksums: Option<Checksums>,
    },
    /// Writes an image.
    Backup {
        /// The image file.
        to: PathBuf,
        /// Sectors in a block, the unit of a read.
        block: Sectors,
        /// Former images, in order: the new image holds only differences from them.
        since: Vec<PathBuf>,
        /// Whether an existing file is overwritten.
        force: bool,
    },
    /// Copies to a file or disk.
    Replica {
        /// The file or disk.
        to: PathBuf,
        /// Sectors in a block, the unit of a read.
        block: Sectors,
        /// Whether existing content is overwritten.
        force: bool,
    },
    /// Moves blocks as a plan says.
    Reorganize {
        /// The plan's file.
        plan: PathBuf,
        /// Sectors in a block, if the plan gives none.
        block: Sectors,
    },
    /// Lets clients read the disk as it was when the task was started.
    Snapshot {
        /// The name of the snapshot.
        name: String,
        /// Sectors in a block, the unit in which old content is kept.
        block: Sectors,
        /// When the snapshot ends by itself, in seconds since 1970.
        expires_unix_s: Option<u64>,
    },
    /// Compares the disks of an array.
    Verify(VerifySpec),
    /// Writes images to the disk.
    Restore {
        /// The image files, in order.
        from: Vec<PathBuf>,
        /// Whether the restore runs although clients have the disk open for writing.
        force: bool,
    },
}

impl What {
    /// Returns `Some` if the task may not begin while clients have the disk open for writing: `Some(true)` if the user
    /// has waived that (`force`).
    pub(crate) fn needs_alone(&self) -> Option<bool> {
        match self {
            Self::Restore { force, .. } => Some(*force),
            _ => None,
        }
    }

    /// Returns the checksum store of a scrub with checksums.
    pub(crate) fn checksums(&self) -> Option<&Checksums> {
        match self {
            Self::Scrub { checksums, .. } => checksums.as_ref(),
            _ => None,
        }
    }

    /// Returns whether the task changes the disk's content.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Restore { .. } | Self::Reorganize { .. })
    }

    /// Returns whether all other writes to the disk are refused while the task is not over.
    pub(crate) fn takes_all(&self) -> bool {
        matches!(self, Self::Restore { .. })
    }

    /// Returns the file or disk to which the task copies this disk.
    pub(crate) fn target(&self) -> Option<&Path> {
        match self {
            Self::Backup { to, .. } | Self::Replica { to, .. } => Some(to),
            _ => None,
        }
    }

    /// Returns the LBNs of a scrub.
    pub(crate) fn scrubs(&self) -> Option<LbnRange> {
        match self {
            Self::Scrub { range, .. } => Some(*range),
            _ => None,
        }
    }

    /// Returns whether the number of tasks of this kind that run at a time is limited.
    pub(crate) fn needs_permit(&self) -> bool {
        matches!(self, Self::Scrub { .. } | Self::Verify(_))
    }

    /// Returns whether the result of the task is the disk's content at one instant.
    pub(crate) fn is_snapshot(&self) -> bool {
        matches!(self, Self::Backup { .. } | Self::Replica { .. } | Self::Snapshot { .. })
    }
}

/// A wrong field of a specification.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{field}: {found}; {mend}")]
pub struct SpecError {
    /// The name of the field.
    pub field: &'static str,
    /// The value found.
    pub found: String,
    /// The advice to the user.
    pub mend: String,
}

impl SpecError {
    pub(crate) fn new(field: &'static str, found: String, mend: impl Into<String>) -> Self {
        Self { field, found, mend: mend.into() }
    }
}

/// Returns the permanent name of a new disk, for its images.
pub(crate) fn volume(random: u128) -> VolumeId {
    VolumeId(random)
}

/// The changes of a task that a `PATCH` request makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The task's new share of the gaps relative to other tasks, 1 to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// The task's new deadline, in seconds since 1970; `null` removes the deadline.
    #[serde(default, deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub deadline_unix_s: Option<Option<u64>>,
}

impl Change {
    /// Returns whether the request changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Deserialises a field so that `null` differs from a missing field.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Option<u64>>, D::Error> {
    Option::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn disk() -> DiskFacts {
        DiskFacts {
            name: "d".into(),
            capacity: Sectors::new(1000),
            sector_bytes: Bytes::new(512),
            own: Vec::new(),
            read_only: false,
            device: None,
        }
    }

    fn refused(json: &str) -> String {
        let spec: TaskSpec = serde_json::from_str(json).unwrap();
        spec.check(&disk()).unwrap_err().to_string()
    }

    #[test]
    fn a_scrub_is_of_the_whole_disk_in_blocks_of_16_kib() {
        let what = TaskSpec::new(TaskKind::Scrub).check(&disk()).unwrap();
        assert_eq!(what, What::Scrub { range: disk().whole(), block: Sectors::new(32), checksums: None });
    }

    #[test]
    fn a_snapshot_has_a_name_of_plain_letters() {
        let named = |name: &str| TaskSpec { name: Some(name.into()), ..TaskSpec::new(TaskKind::Snapshot) };
        for name in ["nightly", "2026-11-27_01.00", "a", &"x".repeat(64)] {
            let what = named(name).check(&disk()).unwrap();
            assert!(what.is_snapshot() && !what.writes(), "{name}");
        }
        for name in ["", ".", "..", "-x", "_x", "a@b", "a b", "a\n", "ä", "a/b", &"x".repeat(65)] {
            assert_eq!(named(name).check(&disk()).unwrap_err().field, "name", "{name:?}");
        }
    }

    #[test]
    fn every_mistake_names_its_field_and_the_mend() {
        let mistakes = [
            (r#"{"kind":"scrub","priority":0}"#, "priority: 0; give 1 to 100"),
            (
                r#"{"kind":"scrub","first_lbn":1000}"#,
                "first_lbn: 1000 on a disk of 1000 sectors; give an LBN of the disk",
            ),
            (r#"{"kind":"scrub","first_lbn":990,"sectors":11}"#, "sectors: 11 from LBN 990 on; give 1 to 10"),
            (r#"{"kind":"scrub","block_sectors":0}"#, "block_sectors: 0; give 1 to 32768"),
            (r#"{"kind":"scrub","to":"/a"}"#, "to: a scrub does not take this field; omit the field"),
            (
                r#"{"kind":"snapshot"}"#,
                "name: nothing is given; give at most 64 letters, digits, '-', '_' and '.', the first a letter or digit",
            ),
            (
                r#"{"kind":"snapshot","name":"a/b"}"#,
                "name: \"a/b\"; give at most 64 letters, digits, '-', '_' and '.', the first a letter or digit",
            ),
            (r#"{"kind":"scrub","name":"a"}"#, "name: a scrub does not take this field; omit the field"),
            (
                r#"{"kind":"verify"}"#,
                "members: nothing is given; name the disks in the order of the array, that of this task first",
            ),
            (
                r#"{"kind":"verify","members":["e","d"]}"#,
                "members: \"e\" is first; name the disks in the order of the array, that of this task first",
            ),
            (
                r#"{"kind":"verify","members":["d","e","d"]}"#,
                "members: \"d\" is given twice; name each disk once",
            ),
            (r#"{"kind":"verify","members":["d"]}"#, "members: 1; give 2 to 255"),
            (
                r#"{"kind":"verify","members":["d","e"],"chunk_sectors":8}"#,
                "chunk_sectors: a mirror does not take this field; omit the field, or give the array's kind",
            ),
            (
                r#"{"kind":"verify","members":["d","e","f","g"],"array":"raid6"}"#,
                "chunk_sectors: nothing is given; give the chunk of the array (`mdadm --detail` shows it)",
            ),
            (
                r#"{"kind":"verify","members":["d","e","f","g"],"array":"raid6","chunk_sectors":8,"block_sectors":3}"#,
                "block_sectors: 3 in chunks of 8; give a number that divides the chunk",
            ),
            (
                r#"{"kind":"verify","members":["d","e"],"offset_lbn":1000}"#,
                "first_lbn: 1000 on a disk of 1000 sectors; give an LBN of the disk",
            ),
            (
                r#"{"kind":"scrub","members":["d","e"]}"#,
                "members: a scrub does not take this field; omit the field",
            ),
            (r#"{"kind":"backup"}"#, "to: nothing is given; name a file"),
            (r#"{"kind":"backup","to":"a"}"#, "to: a; give a path that begins with /"),
            (
                r#"{"kind":"backup","to":"/a\u0000b"}"#,
                "to: \"/a\\0b\"; give a path of at most 4095 bytes, its names of at most 255, without NUL bytes",
            ),
            (r#"{"kind":"restore"}"#, "from: nothing is given; name the images"),
            (r#"{"kind":"restore","from":["x"]}"#, "from: x; give a path that begins with /"),
            (
                r#"{"kind":"reorganize","plan":"/a","force":true}"#,
                "force: a reorganize does not take this field; omit the field",
            ),
        ];
        for (json, said) in mistakes {
            assert_eq!(refused(json), said);
        }
        for (name, times) in [("/".to_owned() + &"n".repeat(256), 1), ("/n".into(), 2_048)] {
            let json = format!(r#"{{"kind":"backup","to":"{}"}}"#, name.repeat(times));
            assert!(refused(&json).contains("at most 4095 bytes"));
        }
        let strange =
            serde_json::from_str::<TaskSpec>(r#"{"kind":"scrub","prio":1}"#).unwrap_err().to_string();
        assert!(strange.starts_with("unknown field `prio`"), "{strange}");
    }
}
