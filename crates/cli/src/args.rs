//! The command line.

use crate::mimic::LearningArgs;
use crate::probe::DeviceName;
#[cfg(unix)]
use crate::tasks::args::{
    BackupArgs, Daemon, OneTask, PriorityArgs, ReorganizeArgs, ReplicaArgs, RestoreArgs, ScrubArgs,
};
use crate::values::{self, Load};
use clap::{Args, Parser, Subcommand, ValueEnum};
use drive::Behaviour;
use scheduler::policy::{AgeWeight, PolicyName};
use std::path::PathBuf;
use units::{Bytes, Duration};
use workload::Share;

/// The drive that the papers measured, and the default everywhere.
pub(crate) const DEFAULT_DRIVE: &str = "quantum-atlas-10k";

/// Freeblock scheduling: background disk work inside the rotational latency of a busy disk
#[derive(Debug, Parser)]
#[command(
    name = "freeblock",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  freeblock demo\n  freeblock drive list\n  freeblock simulate --workload oltp --background scan\n\nEvery command has --help with an example. Exit codes: 0 it worked, 1 it failed, 2 it was called wrongly."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Drives: what is known about them, import from DiskSim, validation against traces
    #[command(subcommand, after_help = "Example:\n  freeblock drive show quantum-atlas-10k")]
    Drive(DriveCommand),
    /// Simulate a foreground load on a drive, with or without a background scan in its free bandwidth
    #[command(
        after_help = "Example:\n  freeblock simulate --workload oltp --mpl 10 --background scan\n  freeblock simulate --policy sptf --outstanding 20 --json\n  freeblock simulate --workload replay:disk.trace --wrap\n  freeblock simulate --workload utilisation:50 --background scan --requests 100000\n  freeblock simulate --workload tpcc --policy sptf\n  freeblock simulate --where outside --profile found.toml --workload oltp --background scan --requests 20000\n  freeblock simulate --replay-live d0.recording\n\nThe same seed gives the same output, but for wall_s. Ctrl-C ends it at once; nothing has been written then."
    )]
    Simulate(Box<SimulateArgs>),
    /// The papers' experiments: their figures, the claims that ours are held against, a report
    #[command(
        subcommand,
        after_help = "Example:\n  freeblock lab list\n  freeblock lab check --quick\n  freeblock lab report\n\nNames of experiments may be cut short: osdi00 means all of that paper."
    )]
    Lab(LabCommand),
    /// Scan a simulated drive inside a foreground load's rotational latency, and show what that cost the load
    #[command(
        after_help = "Example:\n  freeblock demo\n\nTakes some seconds. The exit code is 1 if any completion time of the foreground differs."
    )]
    Demo(DemoArgs),
    /// Find out what a drive is like from the times of its reads alone, and write its profile
    #[command(
        after_help = "Example:\n  freeblock probe emulated:quantum-atlas-10k -o found.toml\n  freeblock probe emulated:mine.toml -o found.toml --resume found.state\n  freeblock probe emulated:seagate-cheetah-18lp,noise,seed=7 -o found.toml\n  freeblock probe emulated:quantum-atlas-10k,noise,drift=off,grown_defects=20 -o found.toml\n  freeblock probe /dev/sdb -o sdb.toml --resume sdb.state --allow-writes 1000000-1020000\n\nDEVICE is a disk's path, or emulated:NAME or emulated:FILE, a drive simulated from a built-in or written profile; the probe sees its commands\nand their times only. With `,noise` its times vary as those of a drive of 2001 did; `,NAME=VALUE` switches one behaviour (as often as you like, `=off` off), `,NAME` alone\nas the noise has it: seek_spread=20us, late_settles=20000:500us, missed_landings_ppm=2000, seek_ageing_ppm=50000, drift=5000:5s, recalibration=60s:50ms,\ngrown_defects=20, bad_sectors=20:8, command_percent=50, completion_overhead=50us, command_spread=20us, completion_spread=10us, bus_sector=6.4us, overlap_percent=85, buffer=off, read_ahead=off,\nwrite_back=off, eager_read_ahead=on, queue=sptf:64; docs/MODEL.md, section 8, says what each does. Without --allow-writes it reads only: then a disk may be mounted, but what\nothers do on it disturbs. A disk that is to be written must be nobody else's. Sectors that cannot be read are gone round and listed. After Ctrl-C the same command with --resume goes on. With -o,\nwhat was found with which confidence, and where the profile may be wrong, is printed; docs/PROBE.md says how it is measured."
    )]
    Probe(ProbeArgs),
    /// Show what the kernel says of a disk, and whether its gaps can be used; nothing is sent to the disk
    #[cfg(target_os = "linux")]
    #[command(
        after_help = "Example:\n  freeblock inspect /dev/sdb\n  freeblock inspect /dev/sdb --json\n\nThe sources are files below /sys. A row is `refused` where freeblock cannot schedule such a disk: shingled, flash, or with two actuators. Drive-managed shingling of a disk without TRIM, and heads out of service, cannot be read there and are reported as unknown."
    )]
    Inspect(InspectArgs),
    /// Export a drive that one does not have over NBD, in real time
    #[cfg(target_os = "linux")]
    #[command(
        after_help = "Example:\n  freeblock emulate quantum-atlas-10k --file atlas.img --socket /run/atlas.sock\n  nbdinfo 'nbd+unix:///?socket=/run/atlas.sock'\n\nReads and writes take as long as the drive would take; the bytes are in FILE, which holds no more than was written. Writes\nare acknowledged from the medium. It serves until Ctrl-C, answers what was asked, and says how late it was: what the emulation\nadds to the drive's times. A second Ctrl-C ends it at once."
    )]
    Emulate(EmulateArgs),
    /// Serve disks over NBD, and do maintenance in their gaps
    #[cfg(target_os = "linux")]
    #[command(
        after_help = "Example:\n  freeblock serve --config /etc/freeblock.toml\n  freeblock serve --disk d0=emulated:quantum-atlas-10k,file=atlas.img --listen unix:/run/d0.sock\n  freeblock serve --disk d0=/dev/sdb --profile sdb.toml --listen unix:/run/d0.sock\n\nWithout a profile requests go out in the order of what has been learnt of the drive (SMTF), and background work is done in\nidle time only; with one (`freeblock probe` writes it) by shortest positioning time, and background work goes into the gaps. It serves until Ctrl-C or\nSIGTERM, answers what was asked, flushes, and says what it has done. A second Ctrl-C ends it at once."
    )]
    Serve(Box<crate::serve::args::ServeArgs>),
    /// Have a daemon read every block of a disk once, and name the sectors that cannot be read
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  freeblock scrub --wait\n  freeblock scrub --disk d0 --priority 50 --deadline 6h\n\nThe exit code is 0 when it was started, with --wait when it is done. Ctrl-C while waiting leaves it running."
    )]
    Scrub(ScrubArgs),
    /// Have a daemon write an image of a disk as it is now, while clients write on
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  freeblock backup /backups/d0.image --wait\n  freeblock backup /backups/d0.tuesday --since /backups/d0.image\n\nWith --since all of the disk is read, and only what differs from the former images is written. The daemon writes the file. When that is full or away the task is paused, and tries again. Ctrl-C while waiting leaves it running."
    )]
    Backup(BackupArgs),
    /// Have a daemon copy a disk as it is now to a file or another disk, while clients write on
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  freeblock replica /dev/sdc --force --wait\n\nUntil it is done the target is neither what it was nor the copy. Ctrl-C while waiting leaves it running."
    )]
    Replica(ReplicaArgs),
    /// Have a daemon write images back to a disk
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  freeblock restore /backups/d0.image --wait\n\nAll images are verified before anything is written. Ctrl-C while waiting leaves it running."
    )]
    Restore(RestoreArgs),
    /// Have a daemon move blocks of a disk to other places, as a plan says
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  printf 'freeblock plan 1\\nmove 0 4096 1024\\nmove 4096 0 1024\\n' > swap.plan\n  freeblock reorganize swap.plan --wait\n\nWhoever makes the plan owns the layout: until it is done nobody gets at its places, and then their content is where the\nplan says. Everything else of the disk goes on. Ctrl-C while waiting leaves it running."
    )]
    Reorganize(ReorganizeArgs),
    /// How a daemon's disks and tasks stand
    #[cfg(unix)]
    #[command(after_help = "Example:\n  freeblock status\n  freeblock status --json")]
    Status(Daemon),
    /// A daemon's tasks
    #[cfg(unix)]
    #[command(after_help = "Example:\n  freeblock tasks\n  freeblock tasks --disk d0 --json")]
    Tasks(Daemon),
    /// Have a task stand still; what it has done is kept
    #[cfg(unix)]
    #[command(after_help = "Example:\n  freeblock pause 3")]
    Pause(OneTask),
    /// Have a paused task go on
    #[cfg(unix)]
    #[command(after_help = "Example:\n  freeblock resume 3")]
    Resume(OneTask),
    /// Give a task up
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  freeblock cancel 3\n\nAn image that is not finished stays where it is."
    )]
    Cancel(OneTask),
    /// Give a task another share of the gaps
    #[cfg(unix)]
    #[command(after_help = "Example:\n  freeblock priority 3 80")]
    Priority(PriorityArgs),
    /// Random histories of the scheduler on simulated drives, with every promise held after each step
    #[command(
        after_help = "Example:\n  freeblock torture --seed 7 --hours 2\n  freeblock torture --replay broken.history\n\nThe exit code is 1 when a promise is broken: the seed, the checker and the shortest history that breaks it are printed, and --replay takes it. The same seed gives the same histories. Ctrl-C ends it after the history under way and prints the command that goes on; -o FILE keeps the history as well. A second one ends it at once."
    )]
    Torture(TortureArgs),
    /// The Disk Mimic: a table of a drive's times by request type and distance, for --policy smtf
    #[command(
        subcommand,
        after_help = "Example:\n  freeblock mimic probe emulated:quantum-atlas-10k -o atlas.mimic\n  freeblock mimic show atlas.mimic\n  freeblock simulate --policy smtf --mimic atlas.mimic --outstanding 20"
    )]
    Mimic(crate::mimic::MimicCommand),
}

#[derive(Debug, Subcommand)]
pub(crate) enum DriveCommand {
    /// List the built-in drives
    #[command(after_help = "Example:\n  freeblock drive list --json")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what is known about a drive
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
    /// Turn a DiskSim 4.0 parameter file into a profile
    #[command(
        after_help = "Example:\n  freeblock drive import atlas10k.parv -o atlas10k.toml\n  freeblock drive import array.parv --disk FAST -o fast.toml\n\nNotes on standard error name each parameter that was ignored or interpreted. Nothing is written when the import fails, and no file that it reads is written over."
    )]
    Import {
        /// A .parv, .diskspecs or .model file; the files that it sources are read from beside it
        #[arg(value_name = "FILE.parv")]
        file: PathBuf,
        /// Write the profile there, not to standard output
        #[arg(short, long, value_name = "FILE.toml")]
        output: Option<PathBuf>,
        /// The disk to import where the file specifies several
        #[arg(long, value_name = "NAME")]
        disk: Option<String>,
        /// The profile's name, in place of the one in the file
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
        /// The directory to write to; made if it is not there
        #[arg(short, long, value_name = "DIR", default_value = LAB_DIRECTORY)]
        output: PathBuf,
        /// Keep results in the directory that this program made with the same size and seed
        #[arg(long)]
        resume: bool,
    },
    /// Run experiments, and hold their results against the papers' claims
    #[command(
        after_help = "Example:\n  freeblock lab check --quick\n  freeblock lab check osdi00-fig6a --json\n  freeblock lab check --quick --known docs/known.toml\n\nThe exit code is 1 when a claim does not hold; with --known, when it is not as the list says."
    )]
    Check {
        #[command(flatten)]
        lab: LabArgs,
        /// Take results that `run` has written to the directory, if this program made them with the same size and seed
        #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = LAB_DIRECTORY)]
        resume: Option<PathBuf>,
        /// A list of measures that are known not to hold: any other that does not is an error, and so is one of the list that
        /// does
        #[arg(long, value_name = "FILE")]
        known: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run experiments, and make one HTML page of their claims and figures
    #[command(
        after_help = "Example:\n  freeblock lab report --quick\n  freeblock lab run && freeblock lab report --resume -o figures.html\n  freeblock lab report --quick --ledger docs/results/claims.json --commit 1234567 --date 2026-01-31 --markdown docs/REPRODUCTION.md\n\nWithout --commit and --date a ledger is only read: then --markdown writes the document anew and nothing runs."
    )]
    Report {
        #[command(flatten)]
        lab: LabArgs,
        /// The page; its directory is made if it is not there
        #[arg(short, long, value_name = "FILE", default_value = "lab/report.html")]
        output: PathBuf,
        /// Take results that `run` has written to the directory, if this program made them with the same size and seed
        #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = LAB_DIRECTORY)]
        resume: Option<PathBuf>,
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

/// Where results are kept unless another place is named.
const LAB_DIRECTORY: &str = "lab";

#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    /// Experiments or claims, or the beginnings of their names [default: all]
    #[arg(value_name = "ID")]
    pub(crate) ids: Vec<String>,
    /// Smaller loads and fewer seeds: all experiments in some minutes, not hours
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only experiments whose numbers are the same on every machine: none that are timed
    #[arg(long)]
    pub(crate) exact: bool,
    /// The first seed
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "42", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Simulations at a time [default: as many as there are cores]; the results do not depend on it
    #[arg(long, value_name = "N", value_parser = values::jobs, allow_negative_numbers = true)]
    pub(crate) jobs: Option<usize>,
}

/// Where the scheduler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Where {
    /// In the drive's firmware, with exact knowledge
    Inside,
    /// In the host, outside the drive's firmware
    Outside,
}

/// What the background does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackgroundTask {
    /// Nothing
    None,
    /// Read every block of the drive once, in any order
    Scan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

#[derive(Debug, Args)]
pub(crate) struct SimulateArgs {
    /// A built-in drive's name, a profile (.toml) or a DiskSim file (.parv, .diskspecs, .model)
    #[arg(help_heading = "Drive", long, value_name = "NAME|FILE", default_value = DEFAULT_DRIVE)]
    pub(crate) drive: String,
    /// Where the scheduler runs
    #[arg(
        help_heading = "Drive",
        long = "where",
        value_name = "PLACE",
        value_enum,
        default_value = "inside"
    )]
    pub(crate) place: Where,
    /// Tell a scheduler outside nothing of the drive but its size: gaps are left alone, smtf learns from completions
    #[arg(help_heading = "Drive", long)]
    pub(crate) blind: bool,
    /// Tell a scheduler outside what this profile says, whatever the drive is: one that was probed, or a wrong one; believed as
    /// `freeblock serve` does, corrected by completions [default: all that --drive and --behaviour say of it]
    #[arg(help_heading = "Drive", long, value_name = "NAME|FILE")]
    pub(crate) profile: Option<String>,
    /// In what a drive with the scheduler outside differs from its profile: noise, none, and behaviours by name, such as
    /// noise,drift=off,bad_sectors=20:8 (`freeblock probe --help` names them all). `none` is the drive by its file: without a
    /// command queue, with the bus and the cache that the file has (the Atlas 10K's 99 us a sector, and write-back). The drive
    /// that the noise is of, without it: queue=sptf:64,bus_sector=6.4us,read_ahead=off,write_back=off [default: noise]
    #[arg(help_heading = "Drive", long, value_name = "LIST", value_parser = values::behaviour)]
    pub(crate) behaviour: Option<Behaviour>,
    /// The foreground's policy: fcfs, c-look, sstf, sptf, sptf-sw:N (N percent) or smtf (the Disk Mimic; smtf:set or
    /// smtf:priority, and then :sstf or :c-look, say what is done about unknown distances); with --blind sptf and sptf-sw:N
    /// know of no positions, and go by LBN distance, as sstf does
    #[arg(help_heading = "Foreground", long, value_parser = values::policy, default_value = "fcfs")]
    pub(crate) policy: PolicyName,
    /// A table that smtf starts from, as `mimic probe` writes it; without one it learns as it goes
    #[arg(help_heading = "Foreground", long, value_name = "TABLE")]
    pub(crate) mimic: Option<PathBuf>,
    /// What smtf has learnt: it goes on from there if the file exists, and what it has learnt by the end is put there; by
    /// Ctrl-C as well
    #[arg(help_heading = "Foreground", long, value_name = "FILE")]
    pub(crate) learnt: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Foreground")]
    pub(crate) learning: LearningArgs,
    /// The foreground: random, oltp, utilisation:PERCENT (FAST 2004's synthetic requests, as many as keep the drive busy for
    /// that share of the time), tpcc and postmark (loads like theirs, see docs/WORKLOADS.md) or replay:FILE (a trace in one
    /// of six formats)
    #[arg(help_heading = "Foreground", long, value_name = "LOAD", default_value = "random")]
    pub(crate) workload: Load,
    /// Tasks that each have a request at the drive or think [default: 10 with oltp]; with tpcc transactions at a time [10]; the same number as --outstanding,
    /// and the one that counts with oltp when both are given
    #[arg(help_heading = "Foreground", long, value_name = "N", value_parser = values::tasks, allow_negative_numbers = true)]
    pub(crate) mpl: Option<u32>,
    /// Requests at the drive at all times, less those whose task thinks [default: 1 with random; a replay keeps its own
    /// times]; the same number as --mpl, and the one that counts with random and a replay when both are given
    #[arg(help_heading = "Foreground", long, value_name = "N", value_parser = values::tasks, allow_negative_numbers = true)]
    pub(crate) outstanding: Option<u32>,
    /// Foreground requests to simulate [default: 10000; with a scan until it is done; a trace's all]
    #[arg(help_heading = "Foreground", long, value_name = "N", value_parser = values::requests, allow_negative_numbers = true)]
    pub(crate) requests: Option<u64>,
    /// What the background does
    #[arg(help_heading = "Background", long, value_enum, default_value = "none")]
    pub(crate) background: BackgroundTask,
    /// The background's block: bytes, or with k, M, G (4096, 4k, 64KiB) [default: 4096]
    #[arg(help_heading = "Background", long, value_name = "BYTES", value_parser = values::bytes, allow_negative_numbers = true)]
    pub(crate) block_size: Option<Bytes>,
    /// Outside the drive, FAST 2002's scheduler, with so much added to every move of a detour, whatever that costs the
    /// foreground [default: as `freeblock serve` has it: learned, the foreground slower by no more than 1%]
    #[arg(help_heading = "Background", long, value_name = "MS", value_parser = values::milliseconds, allow_negative_numbers = true)]
    pub(crate) conservatism: Option<Duration>,
    /// Outside the drive, by how many percent background work may at most slow the foreground down; detours and idle time together [default: 1]
    #[arg(help_heading = "Background", long, value_name = "PERCENT", value_parser = values::harm, allow_negative_numbers = true)]
    pub(crate) harm: Option<u32>,
    /// Outside the drive, whether what is left of a gap behind a detour is planned for as well [default: off; on with --bought-turns]
    #[arg(help_heading = "Background", long, value_name = "SWITCH", value_enum)]
    pub(crate) plan_rest: Option<Switch>,
    /// Outside the drive, whether what that bound leaves is spent: a request waits for one more turn of the platter where what a
    /// detour can fetch in it is worth it [default: off]
    #[arg(help_heading = "Background", long, value_name = "SWITCH", value_enum)]
    pub(crate) bought_turns: Option<Switch>,
    /// Seed of everything random
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "42", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Tell a fresh scheduler all that a daemon's was told, from a recording of `freeblock serve --record`, and compare every
    /// decision; the exit code is 1 if one differs. Nothing but --json goes with it
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["drive", "place", "blind", "profile", "behaviour", "policy", "mimic", "learnt", "mimic_memory", "mimic_minimum_samples", "mimic_probe_idle", "workload", "mpl", "outstanding", "requests", "background", "block_size", "conservatism", "harm", "plan_rest", "bought_turns", "seed", "request_size", "locality", "reads", "think", "rate", "scale", "compress", "wrap", "zero_latency", "age_weight", "budget", "idle_time"])]
    pub(crate) replay_live: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The size of every request, with random [default: 4096]
    #[arg(help_heading = "Foreground", long, value_name = "BYTES", value_parser = values::bytes, allow_negative_numbers = true)]
    pub(crate) request_size: Option<Bytes>,
    /// The share of requests near the last one, with random (OSDI 2000, figure 4) [default: 0]
    #[arg(help_heading = "Foreground", long, value_name = "SHARE", value_parser = values::share, allow_negative_numbers = true)]
    pub(crate) locality: Option<Share>,
    /// The share of reads, with random, oltp or utilisation: 0.7, 70% or 2/3 [default: 2/3]
    #[arg(help_heading = "Foreground", long, value_name = "SHARE", value_parser = values::share, allow_negative_numbers = true)]
    pub(crate) reads: Option<Share>,
    /// The pause between a completion and the same task's next request [default: oltp 30, random 0]
    #[arg(help_heading = "Foreground", long, value_name = "MS", value_parser = values::milliseconds, allow_negative_numbers = true)]
    pub(crate) think: Option<Duration>,
    /// Requests that arrive at random, so many a second, whatever the drive does; with random or oltp
    #[arg(help_heading = "Foreground", long, value_name = "PER_SECOND", value_parser = values::rate, allow_negative_numbers = true)]
    pub(crate) rate: Option<f64>,
    /// Multiplies a trace's arrival times: 0.5 replays twice as fast [default: 1]
    #[arg(help_heading = "Foreground", long, value_name = "FACTOR", value_parser = values::scale, allow_negative_numbers = true)]
    pub(crate) scale: Option<f64>,
    /// Replays a trace so many times faster. A request to sectors that an earlier one still waits for waits until that one is done, and
    /// everything behind it as well (ATC 2003, section 4)
    #[arg(help_heading = "Foreground", long, value_name = "FACTOR", value_parser = values::compression, allow_negative_numbers = true)]
    pub(crate) compress: Option<f64>,
    /// Let a trace's addresses past the drive's end wrap around, in place of refusing them
    #[arg(help_heading = "Foreground", long)]
    pub(crate) wrap: bool,
    /// Whether accesses may begin anywhere in a request; what --profile says of it is believed all the same [default: as the
    /// drive does]
    #[arg(help_heading = "Drive", long, value_name = "SWITCH", value_enum)]
    pub(crate) zero_latency: Option<Switch>,
    /// How much waiting counts: ms taken off a request's positioning time for each ms waited [default: 0]
    #[arg(help_heading = "Foreground", long, value_name = "FACTOR", value_parser = values::age_weight, allow_negative_numbers = true)]
    pub(crate) age_weight: Option<AgeWeight>,
    /// Tracks that the search for one gap's best use may examine [default: 75]
    #[arg(help_heading = "Background", long, value_name = "TRACKS", value_parser = values::tracks, allow_negative_numbers = true)]
    pub(crate) budget: Option<u32>,
    /// Whether idle time is used as well, as far as that costs the foreground no more than 1%; outside the drive that is one bound with detours' [default: off]
    #[arg(help_heading = "Background", long, value_name = "SWITCH", value_enum)]
    pub(crate) idle_time: Option<Switch>,
}

#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Seed of everything random
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "42", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// A built-in drive's name, a profile (.toml) or a DiskSim file (.parv, .diskspecs, .model)
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_DRIVE)]
    pub(crate) drive: String,
}

#[derive(Debug, Args)]
pub(crate) struct TortureArgs {
    /// Seed of everything random
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "42", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Virtual time [default: 1]
    #[arg(long, value_name = "H", value_parser = values::hours, conflicts_with = "steps", allow_negative_numbers = true)]
    pub(crate) hours: Option<Duration>,
    /// Steps, in place of virtual time
    #[arg(long, value_name = "N", value_parser = values::steps, allow_negative_numbers = true)]
    pub(crate) steps: Option<u64>,
    /// Carry out one history from a file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "hours", "steps", "skip"])]
    pub(crate) replay: Option<PathBuf>,
    /// Leave out the first histories of the seed: they have been done
    #[arg(long, value_name = "N", value_parser = values::skipped, conflicts_with = "replay", default_value = "0", allow_negative_numbers = true)]
    pub(crate) skip: u64,
    /// Write the shortest history that breaks a promise there as well; after Ctrl-C, the history that comes next
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArgs {
    /// The drive: a disk's path, or emulated:NAME or emulated:FILE, with `,noise`, `,BEHAVIOUR=VALUE` and `,seed=N` behind it
    #[arg(value_name = "DEVICE")]
    pub(crate) device: DeviceName,
    /// Write the profile there, not to standard output
    #[arg(short, long, value_name = "FILE.toml")]
    pub(crate) output: Option<PathBuf>,
    /// Go on from this file if it is there, and keep in it what has been measured
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// Time writes to these sectors as well, FIRST-LAST: what stands there is read first, and each write puts it back
    #[arg(long, value_name = "FIRST-LAST", value_parser = values::region)]
    pub(crate) allow_writes: Option<units::LbnRange>,
    /// The found profile's name
    #[arg(long, value_name = "NAME", value_parser = values::profile_name, default_value = "probed")]
    pub(crate) name: String,
    /// Seed of the probe's own dice: which sectors it reads
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "1", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Print the profile and the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Encryption of an export.
#[cfg(target_os = "linux")]
#[derive(Clone, Debug, Args)]
pub(crate) struct TlsArgs {
    /// Encrypt, with this certificate (PEM); clients who do not are refused
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_certificate: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Let in only clients with a certificate signed by one of these (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub(crate) tls_clients: Option<PathBuf>,
    /// Let in clients who do not encrypt, too
    #[arg(long, requires = "tls_certificate")]
    pub(crate) tls_optional: bool,
}

#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("place").required(true).multiple(true).args(["socket", "listen"]))]
pub(crate) struct EmulateArgs {
    /// A built-in drive's name, a profile (.toml) or a DiskSim file (.parv, .diskspecs, .model)
    #[arg(value_name = "NAME|FILE")]
    pub(crate) drive: String,
    /// The drive's bytes; made if it is not there
    #[arg(long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Listen on a Unix socket
    #[arg(long, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Listen on a TCP port; 0 takes any
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// Let other machines in, although nobody is asked who they are
    #[arg(long, requires = "listen")]
    pub(crate) allow_remote: bool,
    /// The export's name
    #[arg(long, value_name = "NAME", default_value = "")]
    pub(crate) name: String,
    /// Let nobody write
    #[arg(long)]
    pub(crate) read_only: bool,
    #[command(flatten)]
    pub(crate) tls: TlsArgs,
    /// Vary its times as those of a drive of 2001 did
    #[arg(long)]
    pub(crate) noise: bool,
    /// In what it differs from its profile: noise, none, and behaviours by name, such as noise,drift=off,bad_sectors=20:8
    /// (`freeblock probe --help` names them all); `none` is the drive by its file, without a command queue and with the bus
    /// that the file has [default: none]
    #[arg(long, value_name = "LIST", value_parser = values::behaviour, conflicts_with = "noise")]
    pub(crate) behaviour: Option<Behaviour>,
    /// Seed of that
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "1", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Print what it has done as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// A disk's path, or that of one of its partitions
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
