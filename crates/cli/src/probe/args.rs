//! The command line of `freeblock probe`.

use super::DeviceName;
use crate::values;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// The drive: a disk's path, or emulated:NAME or emulated:FILE, with `,PRESET`, `,BEHAVIOUR=VALUE` and `,seed=N` behind it
    #[arg(value_name = "DEVICE", required_unless_present = "control")]
    pub(crate) device: Option<DeviceName>,
    /// Have the daemon at this control socket probe its disk DISK while it serves, and say how far that is
    #[cfg(unix)]
    #[arg(long, num_args = 2, value_names = ["SOCKET", "DISK"], conflicts_with_all = ["device", "output", "resume", "allow_writes"])]
    pub(crate) control: Vec<String>,
    /// Write the profile to this file instead of standard output
    #[arg(short, long, value_name = "FILE.toml")]
    pub(crate) output: Option<PathBuf>,
    /// Continue from this file if it exists, and keep the measurements in it
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// Time writes to these sectors too, FIRST-LAST; their content is read first, and each write puts it back
    #[arg(long, value_name = "FIRST-LAST", value_parser = values::region)]
    pub(crate) allow_writes: Option<units::LbnRange>,
    /// The name of the profile
    #[arg(long, value_name = "NAME", value_parser = values::profile_name, default_value = "probed")]
    pub(crate) name: String,
    /// Seed of the probe's choice of sectors
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "1", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Print the profile and the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
