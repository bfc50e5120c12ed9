//! The flags of commands that talk to a daemon.

use clap::Args;
use std::path::PathBuf;

/// The daemon, and the form of its answers.
#[derive(Debug, Args)]
pub(crate) struct DaemonArgs {
    /// The daemon's control socket
    #[arg(long, value_name = "PATH", default_value = client::USUAL_PATH)]
    pub(crate) control: PathBuf,
    /// The disk; optional if the daemon has only one. For scrub, status, tasks and snapshots also `all`
    #[arg(long, value_name = "NAME")]
    pub(crate) disk: Option<String>,
    /// Print the daemon's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How a task runs, and whether the command waits for it.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Terms {
    /// The share of the gaps relative to other tasks, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=100), allow_negative_numbers = true)]
    pub(crate) priority: u8,
    /// Warn if the task will not be done in this time: 90s, 30m, 6h, 2d
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    pub(crate) deadline: Option<u64>,
    /// Wait until the task has ended; Ctrl-C leaves it running
    #[arg(long)]
    pub(crate) wait: bool,
}

/// The options that every task of one disk has.
#[derive(Debug, Args)]
pub(crate) struct Start {
    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,
    #[command(flatten)]
    pub(crate) terms: Terms,
}

#[derive(Debug, Args)]
pub(crate) struct ScrubArgs {
    /// The first sector
    #[arg(long, value_name = "LBN")]
    pub(crate) first_lbn: Option<u64>,
    /// The number of sectors
    #[arg(long, value_name = "N")]
    pub(crate) sectors: Option<u64>,
    /// The number of sectors that one read takes
    #[arg(long, value_name = "N")]
    pub(crate) block_sectors: Option<u64>,
    /// Compare contents with the checksums in this file, or in a file of the disk's name in this directory; missing checksums
    /// are recorded
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) checksums: Option<PathBuf>,
    /// Record all checksums anew, replacing those that are no longer valid
    #[arg(long, requires = "checksums")]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) start: Start,
}

/// How the members of an array depend on each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Array {
    /// All have the same content
    Mirror,
    /// The exclusive or of all members is zero, in any layout
    Raid5,
    /// P and Q in md's left-symmetric layout
    Raid6,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The disks, in the order of the array
    #[arg(value_name = "DISK", required = true, num_args = 1..)]
    pub(crate) members: Vec<String>,
    /// How they depend on each other
    #[arg(long, value_enum, default_value_t = Array::Mirror)]
    pub(crate) array: Array,
    /// The chunk of RAID 6, such as 512k (`mdadm --detail` shows it); RAID 5 needs none
    #[arg(long, value_name = "SIZE", value_parser = crate::values::bytes, allow_negative_numbers = true)]
    pub(crate) chunk: Option<units::Bytes>,
    /// The sector at which the array's data begin on each disk (`mdadm --examine` shows it)
    #[arg(long, value_name = "LBN")]
    pub(crate) offset: Option<u64>,
    /// The first sector that is compared; the offset by default
    #[arg(long, value_name = "LBN")]
    pub(crate) first_lbn: Option<u64>,
    /// The number of sectors of each disk; up to the end of the smallest by default
    #[arg(long, value_name = "N")]
    pub(crate) sectors: Option<u64>,
    /// The number of sectors that one read takes
    #[arg(long, value_name = "N")]
    pub(crate) block_sectors: Option<u64>,
    /// The most memory for the sums of blocks that not all disks have read
    #[arg(long, value_name = "SIZE", value_parser = crate::values::memory, default_value = "1GiB", allow_negative_numbers = true)]
    pub(crate) memory: units::Bytes,
    #[command(flatten)]
    pub(crate) terms: Terms,
    /// The daemon's control socket
    #[arg(long, value_name = "PATH", default_value = client::USUAL_PATH)]
    pub(crate) control: PathBuf,
    /// Print the daemon's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// The image's file, which must not exist
    #[arg(value_name = "FILE")]
    pub(crate) to: PathBuf,
    /// Overwrite an existing file
    #[arg(long)]
    pub(crate) force: bool,
    /// Write only the difference from this former image; given several times, the full image first, then its differences in order
    #[arg(long, value_name = "FILE")]
    pub(crate) since: Vec<PathBuf>,
    /// The number of sectors that one read takes
    #[arg(long, value_name = "N")]
    pub(crate) block_sectors: Option<u64>,
    #[command(flatten)]
    pub(crate) start: Start,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotArgs {
    /// The disk; optional if the daemon has only one
    #[arg(value_name = "DISK")]
    pub(crate) of: Option<String>,
    /// The snapshot's name: letters, digits, '-', '_' and '.'
    #[arg(long, value_name = "NAME")]
    pub(crate) name: String,
    /// End the snapshot after this time: 90s, 30m, 6h, 2d
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    pub(crate) expire: Option<u64>,
    /// End the snapshot of this name now
    #[arg(long, conflicts_with_all = ["expire", "priority"])]
    pub(crate) remove: bool,
    /// The share of the gaps of its readers relative to tasks, 1 to 100
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..=100), allow_negative_numbers = true)]
    pub(crate) priority: u8,
    /// The daemon's control socket
    #[arg(long, value_name = "PATH", default_value = client::USUAL_PATH)]
    pub(crate) control: PathBuf,
    /// Print the daemon's answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SnapshotsArgs {
    /// List ended snapshots as well
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReplicaArgs {
    /// A file or a block device
    #[arg(value_name = "FILE|DEVICE")]
    pub(crate) to: PathBuf,
    /// The number of sectors that one read takes
    #[arg(long, value_name = "N")]
    pub(crate) block_sectors: Option<u64>,
    /// Overwrite the target if it exists
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) start: Start,
}

#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The images, the full one first
    #[arg(value_name = "FILE", required = true)]
    pub(crate) from: Vec<PathBuf>,
    /// Restore even if clients have the disk open for writing
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) start: Start,
}

#[derive(Debug, Args)]
pub(crate) struct ReorganizeArgs {
    /// The plan file: which blocks move where (docs/CONTROL.md)
    #[arg(value_name = "PLAN")]
    pub(crate) plan: PathBuf,
    #[command(flatten)]
    pub(crate) start: Start,
}

#[derive(Debug, Args)]
pub(crate) struct OneTask {
    /// The task's number
    #[arg(value_name = "TASK")]
    pub(crate) id: u64,
    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PriorityArgs {
    /// The task's number
    #[arg(value_name = "TASK")]
    pub(crate) id: u64,
    /// 1 to 100
    #[arg(value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100), allow_negative_numbers = true)]
    pub(crate) priority: u8,
    #[command(flatten)]
    pub(crate) daemon: DaemonArgs,
}

fn seconds(text: &str) -> Result<u64, String> {
    let bad = || "give a time as 90s, 30m, 6h or 2d".to_owned();
    let unit = text.chars().last().and_then(|c| match c {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3_600),
        'd' => Some(86_400),
        _ => None,
    });
    let unit: u64 = unit.ok_or_else(bad)?;
    let number: u64 = text.get(..text.len() - 1).and_then(|n| n.parse().ok()).ok_or_else(bad)?;
    number.checked_mul(unit).ok_or_else(bad)
}

/// Reads the lifetime of a snapshot in seconds, at least one.
fn lifetime(text: &str) -> Result<u64, String> {
    let time = seconds(text)?;
    (time > 0).then_some(time).ok_or_else(|| "give a time of at least 1s".to_owned())
}
