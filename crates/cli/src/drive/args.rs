//! The command line of `freeblock drive`.

use clap::Subcommand;
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum DriveCommand {
    /// List the built-in drives
    #[command(after_help = "Example:\n  freeblock drive list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a drive's parameters and their sources
    #[command(
        after_help = "Example:\n  freeblock drive show quantum-atlas-10k\n  freeblock drive show quantum-atlas-10k --toml > mine.toml"
    )]
    Show {
        /// A built-in drive's name, a profile (.toml) or a DiskSim file (.parv, .diskspecs, .model)
        #[arg(value_name = "NAME|FILE")]
        drive: String,
        /// Print JSON
        #[arg(long, conflicts_with = "toml")]
        json: bool,
        /// Print the profile's text
        #[arg(long)]
        toml: bool,
    },
    /// Convert a DiskSim 4.0 parameter file to a profile
    #[command(
        after_help = "Example:\n  freeblock drive import atlas10k.parv -o atlas10k.toml\n  freeblock drive import array.parv --disk FAST -o fast.toml\n\nNotes on standard error name each parameter that was ignored or interpreted. If the import fails, nothing is written; a file that is read is never overwritten."
    )]
    Import {
        /// A .parv, .diskspecs or .model file; files that it sources are read from the same directory
        #[arg(value_name = "FILE.parv")]
        file: PathBuf,
        /// Write the profile to this file instead of standard output
        #[arg(short, long, value_name = "FILE.toml")]
        output: Option<PathBuf>,
        /// The disk to import where the file specifies several
        #[arg(long, value_name = "NAME")]
        disk: Option<String>,
        /// The profile's name [default: the name in the file]
        #[arg(long)]
        name: Option<String>,
    },
    /// Replay a trace measured on a real drive, and compare the times
    #[command(
        after_help = "Example:\n  freeblock drive validate quantum-atlas-10k --trace atlas10k.trace\n\nThe trace is one of DiskSim's \"validate\" traces: lines of `R|W action LBN blocks service_us think_us`."
    )]
    Validate {
        /// A built-in drive's name, a profile (.toml) or a DiskSim file (.parv, .diskspecs, .model)
        #[arg(value_name = "NAME|FILE")]
        drive: String,
        /// The trace
        #[arg(long, value_name = "FILE")]
        trace: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}
