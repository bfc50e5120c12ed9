//! The flags of `freeblock serve`.

use super::disk_config::UBLK_NUMBER_MAX;
use super::names::{DeviceSpec, Place};
use super::web::WebArgs;
use crate::emulate::TlsArgs;
use crate::mimic::LearningArgs;
use crate::tasks::ALL as ALL_DISKS;
use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// The configuration file; docs/freeblock.toml explains each option
    #[arg(long, value_name = "FILE", conflicts_with_all = ["disk", "listen", "profile", "policy", "mimic_memory", "mimic_minimum_samples", "mimic_probe_idle", "mimic_table", "allow_remote", "record", "record_limit", "ublk", "background", "background_write", "background_floor", "background_memory", "background_ublk", "tls_certificate"], required_unless_present = "disk")]
    pub(crate) config: Option<PathBuf>,
    /// A disk: /dev/NAME, a file, or emulated:NAME-or-FILE,file=PATH for a simulated drive (optionally with `,noise`, `,seed=N` and behaviours by name, see `freeblock probe --help`)
    #[arg(long, value_name = "NAME=DEVICE", requires = "listen")]
    pub(crate) disk: Option<NamedDevice>,
    /// The address for clients; may be given several times
    #[arg(long, value_name = "unix:PATH|tcp:ADDRESS:PORT")]
    pub(crate) listen: Vec<Place>,
    /// The drive's profile: a built-in name or a file; an emulated drive has its own, and `none` serves it without
    #[arg(long, value_name = "NAME|FILE|none")]
    pub(crate) profile: Option<String>,
    /// The foreground policy: fcfs, c-look, look, vscan:R, sstf, sptf, asptf:W, sptf-sw:N, smtf; without a profile sptf, asptf:W and sptf-sw:N use LBN distance, as sstf does [default: sptf with a profile, smtf without]
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<String>,
    #[command(flatten)]
    pub(crate) learning: LearningArgs,
    /// The table that smtf starts from, written by `freeblock mimic probe` for this drive
    #[arg(long, value_name = "FILE")]
    pub(crate) mimic_table: Option<PathBuf>,
    /// Listen on an address that other machines reach, without authentication
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Record the scheduler's inputs and decisions, for `freeblock simulate --replay-live`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// The size at which the recording ends; the disk stays in service
    #[arg(long, value_name = "BYTES", default_value = "1GiB", requires = "record", value_parser = crate::values::bytes)]
    pub(crate) record_limit: units::Bytes,
    /// Offer the disk as /dev/ublkbN too, a block device of this machine's kernel (needs root, the driver ublk_drv, and a build with the feature ublk)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(UBLK_NUMBER_MAX)))]
    pub(crate) ublk: Option<u32>,
    /// Keep the daemon's memory, for a disk that this machine mounts itself (needs the capability CAP_SYS_RESOURCE); always with --ublk
    #[arg(long)]
    pub(crate) lock_memory: bool,
    /// The name of a second export of the disk, for reading: requests there wait for time that other clients leave
    #[arg(long, value_name = "NAME", value_parser = super::background::export_name)]
    pub(crate) background: Option<String>,
    /// Let clients write there, too: writes wait as reads do
    #[arg(long, requires = "background")]
    pub(crate) background_write: bool,
    /// The least service there: a rate (2MB/s) or the most seconds for which a request waits (30s); beyond it requests take time from other clients
    #[arg(long, value_name = "RATE|SECONDS", requires = "background", value_parser = super::background::floor)]
    pub(crate) background_floor: Option<server::Floor>,
    /// The most memory for blocks there that are read ahead of readers
    #[arg(long, value_name = "BYTES", default_value = "256MiB", requires = "background", value_parser = super::background::memory)]
    pub(crate) background_memory: units::Bytes,
    /// Offer the background export as /dev/ublkbN too, as --ublk does for the disk
    #[arg(long, value_name = "N", requires = "background", value_parser = clap::value_parser!(u32).range(0..=i64::from(UBLK_NUMBER_MAX)))]
    pub(crate) background_ublk: Option<u32>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// The directory for the state that tasks keep over restarts
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// The control socket
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) web: WebArgs,
    /// Print the summary as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A disk and its name.
#[derive(Clone, Debug)]
pub(crate) struct NamedDevice {
    pub(crate) name: String,
    pub(crate) device: DeviceSpec,
}

impl FromStr for NamedDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, device) = text
            .split_once('=')
            .filter(|(name, _)| !name.is_empty() && !name.contains(['/', ':']))
            .ok_or("give NAME=DEVICE, as in d0=/dev/sdb")?;
        if name == ALL_DISKS {
            return Err(format!("`{ALL_DISKS}` stands for all disks in commands; give another name"));
        }
        Ok(Self { name: name.to_owned(), device: device.parse()? })
    }
}
