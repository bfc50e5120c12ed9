//! The flags of `freeblock lab`.

use crate::values;
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// List the experiments and the claims that they check
    #[command(after_help = "Example:\n  freeblock lab list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run experiments; write their results as JSON and their figures as SVG
    #[command(
        after_help = "Example:\n  freeblock lab run osdi00-fig5 --quick\n  freeblock lab run -o figures --resume\n\nEach experiment's files are written when it is done. After Ctrl-C, --resume goes on with those that are missing."
    )]
    Run {
        #[command(flatten)]
        lab: LabArgs,
        /// The directory to write to; created if necessary
        #[arg(short, long, value_name = "DIR", default_value = LAB_DIRECTORY)]
        output: PathBuf,
        /// Keep results in the directory that this program wrote with the same size and seed
        #[arg(long)]
        resume: bool,
    },
    /// Run experiments, and hold their results against the papers' claims
    #[command(
        after_help = "Example:\n  freeblock lab check --quick\n  freeblock lab check osdi00-fig6a --json\n  freeblock lab check --quick --known docs/known.toml\n\nThe exit code is 1 if a claim does not hold; with --known, if the result differs from the list."
    )]
    Check {
        #[command(flatten)]
        lab: LabArgs,
        /// Reuse results in the directory that this program wrote with the same size and seed
        #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = LAB_DIRECTORY)]
        resume: Option<PathBuf>,
        /// A list of measures that are known not to hold; a failing measure that is not on the list is an error, and so is a
        /// measure of the list that holds
        #[arg(long, value_name = "FILE")]
        known: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run experiments, and make one HTML page of their claims and figures
    #[command(
        after_help = "Example:\n  freeblock lab report --quick\n  freeblock lab run && freeblock lab report --resume -o figures.html\n  freeblock lab report duel --quick --validate quantum-atlas-10k=atlas10k.trace\n  freeblock lab report --quick --ledger docs/results/claims.json --commit 1234567 --date 2026-01-31 --markdown docs/REPRODUCTION.md\n\nWithout --commit and --date a ledger is only read: then --markdown writes the document anew and nothing runs."
    )]
    Report {
        #[command(flatten)]
        lab: LabArgs,
        /// The page; its directory is created if necessary
        #[arg(short, long, value_name = "FILE", default_value = "lab/report.html")]
        output: PathBuf,
        /// Reuse results in the directory that this program wrote with the same size and seed
        #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = LAB_DIRECTORY)]
        resume: Option<PathBuf>,
        /// A drive and a trace with the times of a real one, DRIVE=TRACE, any number of times: the page has a table of how far each
        /// drive is from its trace, as `freeblock drive validate` finds it
        #[arg(long, value_name = "DRIVE=TRACE", value_parser = drive_trace)]
        validate: Vec<DriveTrace>,
        #[command(flatten)]
        ledger: LedgerArgs,
    },
}

/// The ledger of claims, and the document that is made of it.
#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    /// The ledger of claims (JSON), in which this run replaces the former one of each experiment and size
    #[arg(long, value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// The document to write from the ledger
    #[arg(long, value_name = "FILE", requires = "ledger")]
    pub markdown: Option<PathBuf>,
    /// The commit that this program was built from
    #[arg(long, value_name = "HASH", requires_all = ["ledger", "date"])]
    pub commit: Option<String>,
    /// The day of the run, as 2026-01-31
    #[arg(long, value_name = "DAY", requires_all = ["ledger", "commit"])]
    pub date: Option<String>,
}

/// The default directory for results.
const LAB_DIRECTORY: &str = "lab";

#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    /// Experiments or claims, or the beginnings of their names [default: all]
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Smaller loads and fewer seeds: all experiments in minutes instead of hours
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only experiments whose numbers are the same on every machine (none that measure time)
    #[arg(long)]
    pub(crate) exact: bool,
    /// The first seed
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "42", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Simulations that run at once [default: the number of cores]; results do not depend on it
    #[arg(long, value_name = "N", value_parser = values::jobs, allow_negative_numbers = true)]
    pub(crate) jobs: Option<usize>,
}

/// A drive and the trace that it is compared with.
#[derive(Clone, Debug)]
pub(crate) struct DriveTrace {
    pub(crate) drive: String,
    pub(crate) trace: PathBuf,
}

fn drive_trace(text: &str) -> Result<DriveTrace, String> {
    match text.rsplit_once('=') {
        Some((drive, trace)) if !drive.is_empty() && !trace.is_empty() => {
            Ok(DriveTrace { drive: drive.to_owned(), trace: PathBuf::from(trace) })
        }
        _ => Err("give a drive's name and a trace, as quantum-atlas-10k=atlas10k.trace".to_owned()),
    }
}
