//! The options of `freeblock simulate`.

use super::log::{LogFile, log_file};
use crate::drive::DEFAULT_DRIVE;
use crate::mimic::LearningArgs;
use crate::values::{self, Drives, Load, ReadAs, TraceDevices, Warmup};
use clap::{Args, ValueEnum};
use drive::Behaviour;
use scheduler::policy::{AgeWeight, PolicyName};
use sim::ArrayLayout;
use std::path::PathBuf;
use units::{Bytes, Duration};
use workload::Share;
use workload::trace::{Event, TimeUnit};

/// Where the scheduler runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Where {
    /// In the drive's firmware, with exact knowledge
    Inside,
    /// In the host, outside the drive's firmware
    Outside,
    /// Nowhere: requests go to the drive at once, and its own queue, buffer and bus serve them
    Device,
}

/// The kind of background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackgroundTask {
    /// No background work
    None,
    /// Read every block of the drive once, in any order
    Scan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct SimulateArgs {
    /// A built-in drive's name, a profile (.toml) or a DiskSim file (.parv, .diskspecs, .model)
    #[arg(help_heading = "Drive", long, value_name = "NAME|FILE", default_value = DEFAULT_DRIVE)]
    pub(crate) drive: String,
    /// Several drives under one load: their number, each as --drive says, or a file with the name of one in each line
    /// (docs/ARRAYS.md)
    #[arg(help_heading = "Drive", long, value_name = "N|FILE", allow_negative_numbers = true)]
    pub(crate) drives: Option<Drives>,
    /// How --drives share their addresses: concatenation, stripe:BYTES, mirror, mirror:alternate or raid5:BYTES
    /// [default: concatenation]
    #[arg(help_heading = "Drive", long, value_name = "LAYOUT", requires = "drives")]
    pub(crate) array: Option<ArrayLayout>,
    /// Give each of --drives the whole load with a seed of its own, from --seed on, and sum up the results
    #[arg(help_heading = "Drive", long, requires = "drives", conflicts_with = "array")]
    pub(crate) independent: bool,
    /// Where the scheduler runs [default: device for a replay, inside for any other load]
    #[arg(help_heading = "Drive", long = "where", value_name = "PLACE", value_enum)]
    pub(crate) place: Option<Where>,
    /// Outside the drive: the scheduler knows the drive's size only; no gap is used, and smtf learns from completions
    #[arg(help_heading = "Drive", long)]
    pub(crate) blind: bool,
    /// Outside the drive: the profile that the scheduler believes, right or wrong, corrected by completions as in
    /// `freeblock serve` [default: the drive's own]
    #[arg(help_heading = "Drive", long, value_name = "NAME|FILE")]
    pub(crate) profile: Option<String>,
    /// The differences between the drive and its profile, if the scheduler is not inside: a preset (modern,
    /// noise, fast02, none) and behaviours by name, such as modern,drift=off,bad_sectors=20:8
    /// (`freeblock probe --help` names them all). `noise` is the imprecision of any drive with the bus and
    /// the buffer that its file has, `fast02` that with a bus and a firmware of 2001, `modern` that with a
    /// SATA bus and command queueing (NCQ); `none` is the drive by its file, without a command queue. FAST
    /// 2002's drive without noise: queue=sptf:64,bus_sector=6.4us,read_ahead=off,write_back=off [default:
    /// modern for a drive of 320 GB or more, otherwise none with --where device and fast02 with --where
    /// outside]
    #[arg(help_heading = "Drive", long, value_name = "LIST", value_parser = values::behaviour)]
    pub(crate) behaviour: Option<Behaviour>,
    /// The foreground's policy: fcfs, c-look, look, scan (to the drive's end), vscan:R (from the nearest address, R = 0, to look,
    /// R = 1), sstf, sptf, asptf:W (SPTF less W ms for each second waited), sptf-sw:N (N percent) or smtf (the Disk Mimic; smtf:set or
    /// smtf:priority, each with :sstf or :c-look for unknown distances); with --blind sptf, asptf:W and sptf-sw:N know no positions
    /// and use LBN distance, as sstf does
    #[arg(help_heading = "Foreground", long, value_parser = values::policy, default_value = "fcfs")]
    pub(crate) policy: PolicyName,
    /// The table that smtf starts from, written by `mimic probe` [default: empty; smtf learns while it runs]
    #[arg(help_heading = "Foreground", long, value_name = "TABLE")]
    pub(crate) mimic: Option<PathBuf>,
    /// The file in which smtf keeps its learnt table: read at the start if it exists, written at the end and on Ctrl-C
    #[arg(help_heading = "Foreground", long, value_name = "FILE")]
    pub(crate) learnt: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Foreground")]
    pub(crate) learning: LearningArgs,
    /// The foreground: random, oltp, utilisation:PERCENT (FAST 2004's synthetic requests at a rate that keeps the drive busy
    /// for that share of the time), tpcc, postmark (docs/WORKLOADS.md), replay:FILE (a trace, plain
    /// or compressed with gzip or zstd; replay:- reads standard input), or parts mixed by weight with their arrivals, as
    /// '3*zipf:0.9,size=4k/64k,range=0%-50% + sequential:4,run=256,size=64k,reads=90%; poisson:150' (docs/WORKLOADS.md)
    #[arg(help_heading = "Foreground", long, value_name = "LOAD", default_value = "random")]
    pub(crate) workload: Load,
    /// Tasks that each have a request at the drive or think [default: 10 with oltp]; with tpcc, concurrent transactions [10].
    /// The same number as --outstanding; with oltp this one counts if both are given
    #[arg(help_heading = "Foreground", long, value_name = "N", value_parser = values::tasks, allow_negative_numbers = true)]
    pub(crate) mpl: Option<u32>,
    /// Requests at the drive at all times, less those whose task thinks [default: 1 with random; a replay keeps its own
    /// times]. The same number as --mpl; with random and a replay this one counts if both are given
    #[arg(help_heading = "Foreground", long, value_name = "N", value_parser = values::tasks, allow_negative_numbers = true)]
    pub(crate) outstanding: Option<u32>,
    /// Foreground requests to simulate [default: 10000; with a scan, until the scan is done; with a trace, all of it]
    #[arg(help_heading = "Foreground", long, value_name = "N", value_parser = values::requests, allow_negative_numbers = true)]
    pub(crate) requests: Option<u64>,
    /// The background work
    #[arg(help_heading = "Background", long, value_enum, default_value = "none")]
    pub(crate) background: BackgroundTask,
    /// The size of a background block, in bytes or with k, M, G (4096, 4k, 64KiB) [default: 4096]
    #[arg(help_heading = "Background", long, value_name = "BYTES", value_parser = values::bytes, allow_negative_numbers = true)]
    pub(crate) block_size: Option<Bytes>,
    /// Outside the drive: FAST 2002's scheduler with this time added to every move of a detour and no bound on harm [default:
    /// the scheduler of `freeblock serve`, which keeps the bound of --harm]
    #[arg(help_heading = "Background", long, value_name = "MS", value_parser = values::milliseconds, allow_negative_numbers = true)]
    pub(crate) conservatism: Option<Duration>,
    /// Outside the drive: the bound on the foreground's added response time, in percent, for detours and idle time together
    /// [default: 1]
    #[arg(help_heading = "Background", long, value_name = "PERCENT", value_parser = values::harm, allow_negative_numbers = true)]
    pub(crate) harm: Option<u32>,
    /// Outside the drive: whether requests go straight to the drive, in its own order, while nothing is wanted or no gap can be used,
    /// and idle time is used in streams [default: on, as in `freeblock serve`; off with --conservatism]
    #[arg(help_heading = "Background", long, value_name = "SWITCH", value_enum)]
    pub(crate) pass_through: Option<Switch>,
    /// Outside the drive: whether the cost of background work is measured, as in `freeblock serve`, by windows of time without it
    /// [default: off]
    #[arg(help_heading = "Background", long, value_name = "SWITCH", value_enum)]
    pub(crate) audit: Option<Switch>,
    /// Outside the drive: whether the rest of a gap behind a detour is planned as another gap [default: off; on with
    /// `--extra-revolutions`]
    #[arg(help_heading = "Background", long, value_name = "SWITCH", value_enum)]
    pub(crate) plan_rest: Option<Switch>,
    /// Outside the drive: whether unspent harm is spent: a request waits one more revolution if the detour that fits into it is
    /// worth it [default: off]
    #[arg(help_heading = "Background", long, value_name = "SWITCH", value_enum)]
    pub(crate) extra_revolutions: Option<Switch>,
    /// Seed of everything random
    #[arg(long, value_name = "N", value_parser = values::seed, default_value = "42", allow_negative_numbers = true)]
    pub(crate) seed: u64,
    /// Simulate with N seeds, from --seed on, and give means with 95% confidence intervals (Student's t)
    #[arg(help_heading = "Results", long, value_name = "N", value_parser = values::seeds, allow_negative_numbers = true)]
    pub(crate) seeds: Option<u64>,
    /// Leave the beginning out of all results: a number of requests, or a time such as 60s. --requests counts these requests
    /// too
    #[arg(help_heading = "Results", long, value_name = "N|SECONDSs", value_parser = values::warmup, allow_negative_numbers = true)]
    pub(crate) warmup: Option<Warmup>,
    /// Give the results of every interval of this length too
    #[arg(help_heading = "Results", long, value_name = "SECONDS", value_parser = values::interval, allow_negative_numbers = true)]
    pub(crate) every: Option<Duration>,
    /// Write a row for each request to this file, FILE.csv or FILE.parquet, with its times in ns (docs/SIMULATE.md)
    #[arg(help_heading = "Results", long, value_name = "FILE", value_parser = log_file)]
    pub(crate) log: Option<LogFile>,
    /// Give a fresh scheduler the inputs of a daemon's, from a recording of `freeblock serve --record`, and compare every
    /// decision; the exit code is 1 if one differs. Only --json may be combined with it
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["drive", "drives", "array", "independent", "place", "blind", "profile", "behaviour", "policy", "mimic", "learnt", "mimic_memory", "mimic_minimum_samples", "mimic_probe_idle", "workload", "mpl", "outstanding", "requests", "background", "block_size", "conservatism", "harm", "pass_through", "audit", "plan_rest", "extra_revolutions", "seed", "seeds", "warmup", "every", "log", "request_size", "locality", "reads", "think", "rate", "scale", "compress", "format", "time_unit", "event", "device", "wrap", "zero_latency", "age_weight", "budget", "idle_time"])]
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
    /// Open arrivals: requests per second (Poisson), independent of the drive; with random or oltp
    #[arg(help_heading = "Foreground", long, value_name = "PER_SECOND", value_parser = values::rate, allow_negative_numbers = true)]
    pub(crate) rate: Option<f64>,
    /// Multiplies a trace's arrival times: 0.5 replays twice as fast [default: 1]
    #[arg(help_heading = "Foreground", long, value_name = "FACTOR", value_parser = values::scale, allow_negative_numbers = true)]
    pub(crate) scale: Option<f64>,
    /// Replays a trace faster by this factor. A request that overlaps an outstanding one waits for it, and every later request
    /// waits too (ATC 2003, section 4)
    #[arg(help_heading = "Foreground", long, value_name = "FACTOR", value_parser = values::compression, allow_negative_numbers = true)]
    pub(crate) compress: Option<f64>,
    /// The format of the trace [default: found out from its beginning]: disksim, disksim-validate, mqsim, hp-srt, spc, msr,
    /// systor17, alibaba, tencent, cloudphysics, vscsi, oracle-general, fiu, biosnoop, blkparse, blktrace, fio, or
    /// csv:time=5,unit=us,op=2,offset=3,size=4,device=1 with columns by number or name (docs/WORKLOADS.md)
    #[arg(help_heading = "Foreground", long, value_name = "FORMAT")]
    pub(crate) format: Option<ReadAs>,
    /// The unit of the trace's arrival times: s, ms, us, 100ns or ns [default: the format's own]
    #[arg(help_heading = "Foreground", long, value_name = "UNIT", value_parser = values::time_unit)]
    pub(crate) time_unit: Option<TimeUnit>,
    /// The event of a block trace that is an arrival: Q (queued, before the kernel's scheduler) or D (sent to the driver)
    /// [default: Q]
    #[arg(help_heading = "Foreground", long, value_name = "EVENT", value_parser = values::event)]
    pub(crate) event: Option<Event>,
    /// The device of the trace to replay, by its number, or `all`, one behind the other, or `each`, every one on a drive of its own
    /// of --drives [default: the one with the most requests]
    #[arg(help_heading = "Foreground", long, value_name = "N|all|each")]
    pub(crate) device: Option<TraceDevices>,
    /// Wrap a trace's addresses past the drive's end around instead of refusing them. Every address keeps one place, and its
    /// alignment
    #[arg(help_heading = "Foreground", long)]
    pub(crate) wrap: bool,
    /// Whether the drive may begin a transfer anywhere in a request; --profile is believed independently of it [default: as the
    /// drive does]
    #[arg(help_heading = "Drive", long, value_name = "SWITCH", value_enum)]
    pub(crate) zero_latency: Option<Switch>,
    /// The weight of waiting: ms subtracted from a request's positioning time for each ms waited [default: 0]
    #[arg(help_heading = "Foreground", long, value_name = "FACTOR", value_parser = values::age_weight, allow_negative_numbers = true)]
    pub(crate) age_weight: Option<AgeWeight>,
    /// The number of tracks that the search for one gap's best detour may examine [default: 75]
    #[arg(help_heading = "Background", long, value_name = "TRACKS", value_parser = values::tracks, allow_negative_numbers = true)]
    pub(crate) budget: Option<u32>,
    /// Whether idle time is used too, within a harm of 1%; outside the drive detours and idle time share one bound [default: off]
    #[arg(help_heading = "Background", long, value_name = "SWITCH", value_enum)]
    pub(crate) idle_time: Option<Switch>,
}

impl SimulateArgs {
    /// Returns where the scheduler runs.
    pub(crate) fn place(&self) -> Where {
        let replay = matches!(self.workload, Load::Replay(_));
        self.place.unwrap_or(if replay { Where::Device } else { Where::Inside })
    }
}
