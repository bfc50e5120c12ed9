//! The foreground that the flags ask for.

use crate::args::SimulateArgs;
use crate::drive::validate::{read, remark};
use crate::problem::Problem;
use crate::tables::grouped;
use crate::values::{self, Load};
use model::DriveModel;
use std::path::Path;
use units::{Bytes, Duration, Instant, Sectors};
use workload::trace::TraceRecord;
use workload::{
    Arrival, Closed, ConfigError, Fit, Issuer, Oltp, OltpConfig, Random, RandomConfig, Replay, Share, Source,
    Think,
};

/// Requests of a run that nothing else ends.
pub(crate) const DEFAULT_REQUESTS: u64 = 10_000;

/// Simulated time that a trace may take, 100 years in nanoseconds.
const LONGEST_NS: u128 = 100 * 365 * 86_400 * 1_000_000_000;

/// Requests and their times.
pub(crate) struct Foreground {
    pub(crate) issuer: Issuer<Box<dyn Source>>,
    /// How many there are, if they end.
    pub(crate) requests: Option<u64>,
    /// In a few words.
    pub(crate) description: String,
    /// What was not taken as it stands in the trace.
    pub(crate) remark: Option<String>,
}

/// Refuses flags that the workload has no use for, before anything is read.
///
/// # Errors
/// The first such flag, and what to do.
pub(crate) fn check_flags(args: &SimulateArgs) -> Result<(), Problem> {
    let (name, replay) = match args.workload {
        Load::Random => ("random", false),
        Load::Oltp => ("oltp", false),
        Load::Replay(_) => ("replay", true),
    };
    let random = args.workload == Load::Random;
    let fits = [
        ("--request-size", args.request_size.is_some(), random, "leave it out, or give --workload random"),
        ("--locality", args.locality.is_some(), random, "leave it out, or give --workload random"),
        ("--reads", args.reads.is_some(), !replay, "leave it out: a trace says what is read and written"),
        ("--rate", args.rate.is_some(), !replay, "give --scale to replay faster or slower"),
        ("--scale", args.scale.is_some(), replay, "give --rate, or --workload replay:FILE"),
        ("--wrap", args.wrap, replay, "leave it out, or give --workload replay:FILE"),
    ];
    for (flag, given, fits, mend) in fits {
        if given && !fits {
            return Err(Problem::usage(format!("{flag} does not go with --workload {name}")).help(mend));
        }
    }
    let closed = [
        ("--mpl", args.mpl.is_some()),
        ("--outstanding", args.outstanding.is_some()),
        ("--think", args.think.is_some()),
    ];
    let open = [("--rate", args.rate.is_some()), ("--scale", args.scale.is_some())];
    for (open, _) in open.into_iter().filter(|(_, given)| *given) {
        if let Some((closed, _)) = closed.into_iter().find(|(_, given)| *given) {
            let why = "requests come either at times of their own or when others are done";
            return Err(Problem::usage(format!("{open} does not go with {closed}: {why}"))
                .help(format!("leave out {open} or {closed}")));
        }
    }
    Ok(())
}

/// The requests and their times.
///
/// # Errors
/// A size that is not whole sectors or larger than the drive; a trace that cannot be read or does not fit.
pub(crate) fn build(args: &SimulateArgs, drive: &DriveModel) -> Result<Foreground, Problem> {
    match &args.workload {
        Load::Random => random(args, drive),
        Load::Oltp => oltp(args, drive),
        Load::Replay(path) => replay(args, path, drive),
    }
}

fn random(args: &SimulateArgs, drive: &DriveModel) -> Result<Foreground, Problem> {
    let sector = drive.sector_bytes();
    let mut config = RandomConfig::new(drive.layout().capacity(), sector);
    if let Some(size) = args.request_size {
        config.size = request_size(size, sector)?;
        config.align = config.align.min(config.size);
    }
    config.reads = args.reads.unwrap_or(config.reads);
    config.local = args.locality.unwrap_or(Share::NONE);
    let source = Random::new(config, args.seed).map_err(Problem::usage)?;
    let outstanding = args.outstanding.or(args.mpl).unwrap_or(1);
    let (arrival, times) = match args.rate {
        Some(rate) => (Arrival::Poisson { rate }, format!("{rate} requests a second")),
        None => closed(outstanding, args.think.unwrap_or(Duration::ZERO), "outstanding"),
    };
    let description = format!("random {} bytes, {times}", config.size.bytes(sector));
    assemble(Box::new(source), arrival, args.seed, None, description)
}

fn request_size(size: Bytes, sector: Bytes) -> Result<Sectors, Problem> {
    values::sectors(size, sector).ok_or_else(|| {
        Problem::usage(format!("--request-size {size}: the drive's sectors have {sector} bytes"))
            .help(format!("give a multiple of {sector}"))
    })
}

fn oltp(args: &SimulateArgs, drive: &DriveModel) -> Result<Foreground, Problem> {
    let mut config = OltpConfig::new(drive.layout().capacity(), drive.sector_bytes());
    config.reads = args.reads.unwrap_or(config.reads);
    let source = Oltp::new(config, args.seed).map_err(Problem::usage)?;
    let tasks = args.mpl.or(args.outstanding).unwrap_or(10);
    let (arrival, times) = match args.rate {
        Some(rate) => (Arrival::Poisson { rate }, format!("{rate} requests a second")),
        None => closed(tasks, args.think.unwrap_or(Duration::from_millis(30)), "tasks"),
    };
    assemble(Box::new(source), arrival, args.seed, None, format!("OLTP, {times}"))
}

fn closed(tasks: u32, think: Duration, word: &str) -> (Arrival, String) {
    if think == Duration::ZERO {
        return (Arrival::outstanding(tasks), format!("{tasks} {word}"));
    }
    let arrival = Arrival::Closed(Closed { tasks, think: Think::Constant(think) });
    (arrival, format!("{tasks} {word}, think time {think}"))
}

fn replay(args: &SimulateArgs, path: &Path, drive: &DriveModel) -> Result<Foreground, Problem> {
    let failed = |error: ConfigError| Problem::failed(format!("{}: {error}", path.display()));
    let mut trace = read(path)?;
    let (devices, all) = (trace.devices().len(), trace.records.len());
    let device = trace.busiest_device().unwrap_or(0);
    trace.retain_device(device);
    trace.convert_to(drive.sector_bytes()).map_err(failed)?;
    let (arrival, times) = replay_times(args, &trace.records, path)?;
    let fit = if args.wrap { Fit::Wrap } else { Fit::Refuse };
    let source = Replay::new(trace.records, drive.layout().capacity(), fit).map_err(|error| match error {
        ConfigError::RecordPastEnd { record, range, capacity } => Problem::failed(format!(
            "{}: record {record}{} ({range}) ends past the drive's {capacity} sectors",
            path.display(),
            if devices > 1 { format!(" of device {device}") } else { String::new() },
        ))
        .help(if range.len() > capacity {
            "choose a larger drive: the record alone is larger than this one"
        } else {
            "choose a larger drive, or give --wrap to let addresses wrap around"
        }),
        other => failed(other),
    })?;
    let remark = remark(&trace.notes);
    let requests = source.len() as u64;
    let mut description = format!("{} as {}, {times}", path.display(), trace.format);
    if devices > 1 {
        description += &format!(
            ", device {device} with {} of the {} requests to {devices} devices",
            grouped(requests),
            grouped(all as u64)
        );
    }
    let foreground = assemble(Box::new(source), arrival, args.seed, Some(requests), description)?;
    Ok(Foreground { remark, ..foreground })
}

fn replay_times(
    args: &SimulateArgs,
    records: &[TraceRecord],
    path: &Path,
) -> Result<(Arrival, String), Problem> {
    let timed = records.iter().all(|record| record.arrival.is_some());
    let thinking = records.iter().all(|record| record.think.is_some());
    let outstanding = args.outstanding.or(args.mpl);
    if outstanding.is_some() || args.think.is_some() {
        return Ok(closed(outstanding.unwrap_or(1), args.think.unwrap_or(Duration::ZERO), "outstanding"));
    }
    let too_long = |mend: &str| {
        Problem::failed(format!("{}: the trace goes on for more than a hundred years", path.display()))
            .help(mend)
    };
    if timed {
        let scale = args.scale.unwrap_or(1.0);
        let arrivals = || records.iter().filter_map(|record| record.arrival);
        let length =
            arrivals().max().zip(arrivals().min()).map_or(Duration::ZERO, |(last, first)| last.since(first));
        if length.as_nanos() as f64 * scale > LONGEST_NS as f64 {
            return Err(too_long("give --scale to shorten it"));
        }
        let times = if scale == 1.0 {
            "recorded arrivals".to_owned()
        } else {
            format!("recorded arrivals times {scale}")
        };
        return Ok((Arrival::Recorded { scale }, times));
    }
    if args.scale.is_some() {
        return Err(Problem::usage(format!("--scale needs arrival times, and {} has none", path.display()))
            .help("leave out --scale"));
    }
    if thinking {
        let pauses: u128 =
            records.iter().filter_map(|record| record.think).map(|t| u128::from(t.as_nanos())).sum();
        if pauses > LONGEST_NS {
            return Err(too_long("give --think to replace its pauses"));
        }
        let closed = Closed { tasks: 1, think: Think::Recorded };
        return Ok((Arrival::Closed(closed), "one at a time with recorded pauses".to_owned()));
    }
    Ok((Arrival::outstanding(1), "one at a time".to_owned()))
}

fn assemble(
    source: Box<dyn Source>,
    arrival: Arrival,
    seed: u64,
    requests: Option<u64>,
    description: String,
) -> Result<Foreground, Problem> {
    let issuer = Issuer::new(source, arrival, Instant::ZERO, seed).map_err(Problem::usage)?;
    Ok(Foreground { issuer, requests, description, remark: None })
}
