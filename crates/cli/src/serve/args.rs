//! The flags of `freeblock serve`.

use super::names::{DeviceSpec, Place};
use crate::args::TlsArgs;
use crate::mimic::LearningArgs;
use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Clone, Debug, Args)]
pub(crate) struct ServeArgs {
    /// Everything from a file: see docs/freeblock.toml, in which each option is explained
    #[arg(long, value_name = "FILE", conflicts_with_all = ["disk", "listen", "profile", "policy", "mimic_memory", "mimic_minimum_samples", "mimic_probe_idle", "mimic_table", "allow_remote", "record", "record_limit", "ublk", "tls_certificate"], required_unless_present = "disk")]
    pub(crate) config: Option<PathBuf>,
    /// A disk: /dev/NAME, a file, or emulated:NAME-or-FILE,file=PATH for a drive that one does not have (`,noise`, `,seed=N` and behaviours by name, as `freeblock probe --help` has them, may follow)
    #[arg(long, value_name = "NAME=DEVICE", requires = "listen")]
    pub(crate) disk: Option<NamedDevice>,
    /// Where clients come in; may be given several times
    #[arg(long, value_name = "unix:PATH|tcp:ADDRESS:PORT")]
    pub(crate) listen: Vec<Place>,
    /// What is known of the drive: a built-in name or a profile; of an emulated one everything is, and `none` forgets that
    #[arg(long, value_name = "NAME|FILE|none")]
    pub(crate) profile: Option<String>,
    /// In which order requests are served: fcfs, c-look, sstf, sptf, sptf-sw:N, smtf; without a profile sptf and sptf-sw:N go by LBN distance, as sstf does [default: sptf with a profile, smtf without]
    #[arg(long, value_name = "POLICY")]
    pub(crate) policy: Option<String>,
    #[command(flatten)]
    pub(crate) learning: LearningArgs,
    /// What smtf starts from: a table of this drive that `freeblock mimic probe` has written
    #[arg(long, value_name = "FILE")]
    pub(crate) mimic_table: Option<PathBuf>,
    /// Let other machines in, although nobody is asked who they are
    #[arg(long)]
    pub(crate) allow_remote: bool,
    /// Record what the scheduler is told and what it decides, for `freeblock simulate --replay-live`
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// The recording ends at this size, whole, and the disk goes on
    #[arg(long, value_name = "BYTES", default_value = "1GiB", requires = "record", value_parser = crate::values::bytes)]
    pub(crate) record_limit: units::Bytes,
    /// Offer the disk as /dev/ublkbN as well, a block device of this machine's kernel (needs root, the driver ublk_drv, and a build with the feature ublk)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=i64::from(crate::serve::MOST_UBLK)))]
    pub(crate) ublk: Option<u32>,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// Where tasks keep what must outlive the daemon
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// The socket by which tasks are started and looked at
    #[arg(long, value_name = "PATH")]
    pub(crate) control: Option<PathBuf>,
    /// Print what has been done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A disk and what it is called.
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
        Ok(Self { name: name.to_owned(), device: device.parse()? })
    }
}
