//! The command line.

use crate::demo::DemoArgs;
use crate::drive::DriveCommand;
#[cfg(target_os = "linux")]
use crate::emulate::EmulateArgs;
#[cfg(target_os = "linux")]
use crate::inspect::InspectArgs;
#[cfg(feature = "lab")]
use crate::lab::args::LabCommand;
use crate::probe::ProbeArgs;
use crate::simulate::args::SimulateArgs;
#[cfg(unix)]
use crate::tasks::args::{
    BackupArgs, DaemonArgs, OneTask, PriorityArgs, ReorganizeArgs, ReplicaArgs, RestoreArgs, ScrubArgs,
    SnapshotArgs, SnapshotsArgs, VerifyArgs,
};
#[cfg(feature = "lab")]
use crate::torture::args::TortureArgs;
use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Freeblock scheduling: background disk work inside the rotational latency of a busy disk
#[derive(Debug, Parser)]
#[command(
    name = "freeblock",
    version,
    arg_required_else_help = true,
    after_help = "Examples:\n  freeblock demo\n  freeblock drive list\n  freeblock simulate --workload oltp --background scan\n\nEvery command has --help with an example. Exit codes: 0 success, 1 failure, 2 wrong usage."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Drives: profiles, import from DiskSim, validation against traces
    #[command(subcommand, after_help = "Example:\n  freeblock drive show quantum-atlas-10k")]
    Drive(DriveCommand),
    /// Simulate a foreground load on a drive, with or without a background scan in its free bandwidth
    #[command(
        after_help = "Example:\n  freeblock simulate --workload oltp --mpl 10 --background scan\n  freeblock simulate --policy sptf --outstanding 20 --json\n  freeblock simulate --workload replay:disk.trace --wrap --log requests.csv\n  freeblock simulate --rate 60 --requests 20000 --warmup 1000 --seeds 10\n  freeblock simulate --workload utilisation:50 --background scan --requests 100000\n  freeblock simulate --workload tpcc --policy sptf\n  freeblock simulate --where outside --profile found.toml --workload oltp --background scan --requests 20000\n  freeblock simulate --drives 5 --array raid5:64k --rate 200 --background scan --requests 20000\n  freeblock simulate --replay-live d0.recording\n\nThe same seed gives the same output except wall_s. Ctrl-C ends the run with the results\nso far, which say so; the exit code is 3 then. A second Ctrl-C ends it at once."
    )]
    Simulate(Box<SimulateArgs>),
    /// The papers' experiments: figures, claims with their bands, a report
    #[cfg(feature = "lab")]
    #[command(
        subcommand,
        after_help = "Example:\n  freeblock lab list\n  freeblock lab check --quick\n  freeblock lab report\n\nThe beginning of a name selects every experiment that begins so: osdi00 is all of that paper."
    )]
    Lab(LabCommand),
    /// Scan a simulated drive inside a foreground load's rotational latency, and show what that cost the load
    #[command(
        after_help = "Example:\n  freeblock demo\n\nIt takes some seconds. The exit code is 1 if any completion time of the foreground differs."
    )]
    Demo(DemoArgs),
    /// Measure a drive by timed reads, and write its profile
    #[command(
        after_help = "Example:\n  freeblock probe emulated:quantum-atlas-10k -o found.toml\n  freeblock probe emulated:mine.toml -o found.toml --resume found.state\n  freeblock probe emulated:seagate-cheetah-18lp,fast02,seed=7 -o found.toml\n  freeblock probe emulated:quantum-atlas-10k,fast02,drift=off,grown_defects=20 -o found.toml\n  freeblock probe /dev/sdb -o sdb.toml --resume sdb.state --allow-writes 1000000-1020000\n  freeblock probe --control /run/freeblock/control.sock d0\n\nDEVICE is a disk's path, or emulated:NAME or emulated:FILE, a drive simulated from a built-in or written profile, of which the probe sees\nthe commands and their times only. With `,noise` its times vary as any drive's do, with `,fast02` as those of a drive of 2001, with `,modern` as those of a SATA drive; `,NAME=VALUE` sets one behaviour (any number of them; `=off` switches it off) and\n`,NAME` alone sets it as `fast02` has it: seek_spread=20us, late_settles=20000:500us, missed_landings_ppm=2000, seek_ageing_ppm=50000, drift=5000:5s, recalibration=60s:50ms,\ngrown_defects=20, bad_sectors=20:8, command_percent=50, completion_overhead=50us, command_spread=20us, completion_spread=10us, bus_sector=6.4us, overlap_percent=85, buffer=off, read_ahead=off,\nwrite_back=off, eager_read_ahead=on, prompt_read_ahead=on, rereads_ppm=6000, write_cache=128, queue=sptf:64; docs/MODEL.md, section 8, describes each. Without --allow-writes the probe only reads: the disk may be mounted, but\nother load on it disturbs the measurement. With --allow-writes the disk must not be in use. Sectors that cannot be read are avoided and listed. After Ctrl-C the same command with --resume continues. With -o\nthe findings, their confidence and the places where the profile may be wrong are printed; docs/PROBE.md describes the method.\n\nThe exit code is 3 when the profile is of a part of the drive: the report names what it is not sure of, and the same command with\n--resume measures anew, with other sectors and more time."
    )]
    Probe(ProbeArgs),
    /// Show what the kernel and the disk say of the disk, and whether its gaps can be used; nothing is written
    #[cfg(target_os = "linux")]
    #[command(
        after_help = "Example:\n  freeblock inspect /dev/sdb\n  freeblock inspect /dev/sdb --json\n\nThe sources are files below /sys, and the answers of a disk that rotates to commands that read (INQUIRY, IDENTIFY DEVICE, a log). A row is `refused` where freeblock cannot schedule such a disk: shingled, flash, or with two actuators. Drive-managed shingling of a disk without TRIM, the medium of a virtual disk, and heads out of service cannot be read there and are reported as unknown."
    )]
    Inspect(InspectArgs),
    /// Export a simulated drive over NBD, in real time
    #[cfg(target_os = "linux")]
    #[command(
        after_help = "Example:\n  freeblock emulate quantum-atlas-10k --file atlas.img --socket /run/atlas.sock\n  nbdinfo 'nbd+unix:///?socket=/run/atlas.sock'\n\nReads and writes take as long as on the drive; FILE holds the bytes that were written and no more. Writes are acknowledged\nfrom the medium. The export lasts until Ctrl-C; requests in progress are answered, and the delay that emulation added to the\ndrive's times is printed. A second Ctrl-C ends it at once."
    )]
    Emulate(EmulateArgs),
    /// Serve disks over NBD, with background tasks in their rotational latency
    #[cfg(target_os = "linux")]
    #[command(
        after_help = "Example:\n  freeblock serve --config /etc/freeblock.toml\n  freeblock serve --disk d0=emulated:quantum-atlas-10k,file=atlas.img --listen unix:/run/d0.sock\n  freeblock serve --disk d0=/dev/sdb --profile sdb.toml --listen unix:/run/d0.sock\n\nWithout a profile requests are ordered by positioning times learnt while serving (SMTF), and background work uses idle time\nonly. With a profile (`freeblock probe` writes one) requests are ordered by shortest positioning time, and background work\nuses the gaps too. With --state a disk that rotates is probed while it serves, within the bound on harm. The daemon serves\nuntil Ctrl-C or SIGTERM, answers the requests in progress, flushes, and prints a summary. A second Ctrl-C ends it at once."
    )]
    Serve(Box<crate::serve::args::ServeArgs>),
    /// Start a scrub: a daemon reads every block of a disk once and names the sectors that cannot be read
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  freeblock scrub --wait\n  freeblock scrub --disk d0 --priority 50 --deadline 6h\n\nThe exit code is 0 when the scrub has started, with --wait when it is done and has found no bad sector and no block that differs from its checksum, 1 when it has found one. Ctrl-C while waiting leaves it running."
    )]
    Scrub(ScrubArgs),
    /// Start a backup: a daemon writes an image of a disk at this instant while clients continue to write
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  freeblock backup /backups/d0.image --wait\n  freeblock backup /backups/d0.tuesday --since /backups/d0.image\n\nWith --since the whole disk is read, and only the blocks that differ from the former images are written. The daemon writes the file; while its file system is full or missing, the task is paused and tries again. Ctrl-C while waiting leaves the task running."
    )]
    Backup(BackupArgs),
    /// Start a replica: a daemon copies a disk at this instant to a file or another disk while clients continue to write
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  freeblock replica /dev/sdc --force --wait\n\nUntil the task is done the target holds a mixture of its old content and the copy. Ctrl-C while waiting leaves the task running."
    )]
    Replica(ReplicaArgs),
    /// Start a restore: a daemon writes images back to a disk
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  freeblock restore /backups/d0.image --wait\n\nAll images are verified before the first write. Ctrl-C while waiting leaves the task running."
    )]
    Restore(RestoreArgs),
    /// Start a reorganisation: a daemon moves blocks of a disk as a plan says
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  printf 'freeblock plan 1\\nmove 0 4096 1024\\nmove 4096 0 1024\\n' > swap.plan\n  freeblock reorganize swap.plan --wait\n\nThe plan's author owns the layout: until the task is done its ranges are closed to clients, and afterwards their content is where\nthe plan says. The rest of the disk stays in service. Ctrl-C while waiting leaves the task running."
    )]
    Reorganize(ReorganizeArgs),
    /// Show what is known of a daemon's state directory, and decide how tasks go on after damage
    #[cfg(target_os = "linux")]
    #[command(
        after_help = "Example:\n  freeblock repair --state /var/lib/freeblock\n  freeblock repair --state /var/lib/freeblock --disk data --give-up\n\nThe daemon must have ended. Without an option that decides something nothing is changed; the exit code is 1 when something is damaged. Damaged files are kept, as NAME.damaged. docs/SAFETY.md says what each decision means."
    )]
    Repair(crate::repair::RepairArgs),
    /// Keep a disk as it is now, for programs to read while clients write on
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  freeblock snapshot d0 --name nightly --expire 6h\n  nbdcopy \"nbd+unix:///d0@nightly?socket=/run/freeblock/d0.sock\" d0.img\n  freeblock snapshot d0 --name nightly --remove\n\nThe command returns when the snapshot can be read. Reads of it wait for time that other clients leave. Blocks are kept in the state directory before clients overwrite them, up to the bound `keep` of the configuration; a snapshot that passes it ends, and its readers get an error."
    )]
    Snapshot(SnapshotArgs),
    /// Start a comparison: a daemon reads the members of a mirror or of RAID and names the sectors that do not agree
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  freeblock verify d0 d1 --wait\n  freeblock verify d0 d1 d2 d3 --array raid6 --chunk 512k --offset 264192 --deadline 7d\n\nThe disks are those of one daemon. The comparison is a task of the first one. It reads only: what differs is named, not mended. Blocks that differ are read again before they are named, since writes may be under way. The exit code is 0 when the comparison has started, with --wait when all was read and agrees, 1 when sectors do not agree or could not be read. Blocks that were written at every reading are counted apart, and do not change it."
    )]
    Verify(VerifyArgs),
    /// List a daemon's snapshots
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  freeblock snapshots\n  freeblock snapshots --disk d0 --all\n\nWith --json ended snapshots are always listed."
    )]
    Snapshots(SnapshotsArgs),
    /// Show a daemon's disks and tasks
    #[cfg(unix)]
    #[command(after_help = "Example:\n  freeblock status\n  freeblock status --json")]
    Status(DaemonArgs),
    /// List a daemon's tasks
    #[cfg(unix)]
    #[command(after_help = "Example:\n  freeblock tasks\n  freeblock tasks --disk d0 --json")]
    Tasks(DaemonArgs),
    /// Pause a task; its progress is kept
    #[cfg(unix)]
    #[command(after_help = "Example:\n  freeblock pause 3")]
    Pause(OneTask),
    /// Resume a paused task
    #[cfg(unix)]
    #[command(after_help = "Example:\n  freeblock resume 3")]
    Resume(OneTask),
    /// Cancel a task
    #[cfg(unix)]
    #[command(
        after_help = "Example:\n  freeblock cancel 3\n\nAn image that is not finished stays where it is."
    )]
    Cancel(OneTask),
    /// Change a task's share of the gaps
    #[cfg(unix)]
    #[command(after_help = "Example:\n  freeblock priority 3 80")]
    Priority(PriorityArgs),
    /// Run random histories of the scheduler on simulated drives, checking every promise after each step
    #[cfg(feature = "lab")]
    #[command(
        after_help = "Example:\n  freeblock torture --seed 7 --hours 2\n  freeblock torture --replay broken.history\n\nThe exit code is 1 when a promise is broken: the seed, the checker and the shortest history that breaks it are printed, and --replay takes it. The same seed gives the same histories. Ctrl-C ends the run after the current history and prints the command that continues; -o FILE keeps the history as well. A second Ctrl-C ends it at once."
    )]
    Torture(TortureArgs),
    /// The Disk Mimic: a table of a drive's times by request type and distance, for --policy smtf
    #[command(
        subcommand,
        after_help = "Example:\n  freeblock mimic probe emulated:quantum-atlas-10k -o atlas.mimic\n  freeblock mimic show atlas.mimic\n  freeblock simulate --policy smtf --mimic atlas.mimic --outstanding 20"
    )]
    Mimic(crate::mimic::MimicCommand),
    /// Print the completion script for a shell
    #[command(
        after_help = "Example:\n  freeblock completions bash > ~/.local/share/bash-completion/completions/freeblock\n  freeblock completions zsh > ~/.zfunc/_freeblock\n  freeblock completions fish > ~/.config/fish/completions/freeblock.fish\n\nFor zsh the directory must be in `fpath`. The Debian package installs all three."
    )]
    Completions(CompletionsArgs),
    /// Write a man page for each command to a directory
    #[command(hide = true, after_help = "Example:\n  freeblock man /usr/local/share/man/man1")]
    Man(ManArgs),
}

#[derive(Clone, Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

/// A shell for which a test has tried the completions.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shell {
    Bash,
    Zsh,
    Fish,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct ManArgs {
    /// An existing directory; pages in it are replaced
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}
