//! The foreground load of the flags: generated, replayed, or of a calling program.

use super::args::{BackgroundTask, SimulateArgs, Switch, Where};
use super::foreground::{Foreground, Space, assemble, closed};
use super::trace;
use crate::problem::Problem;
use crate::tables::grouped;
use crate::values::{self, Load};
use drive::COMMAND_SECTORS_MAX;
use model::DriveModel;
use scheduler::Config;
use sim::{Background, Inside, Nothing};
use std::sync::Arc;
use units::{Bytes, Duration, Instant, Sectors};
use workload::postmark::{PostmarkBlocks, PostmarkBlocksConfig};
use workload::tpcc::{Tpcc, TpccConfig};
use workload::{
    Arrival, CalibrationError, Issuer, Measured, Mixed, Mixture, MixtureError, Oltp, OltpConfig, Pattern,
    Random, RandomConfig, Share, Source, Synthetic, SyntheticConfig, Utilisation,
};

/// Refuses flags that the workload does not use, before anything is read.
///
/// # Errors
/// The first such flag, with advice.
pub(crate) fn check_flags(args: &SimulateArgs) -> Result<(), Problem> {
    let load = &args.workload;
    let name = load.name();
    let random = matches!(load, Load::Random);
    let replay = matches!(load, Load::Replay(_));
    let plain = matches!(load, Load::Random | Load::Oltp);
    let only_replay = "omit the option, or give --workload replay:FILE";
    let only_random = "omit the option, or give --workload random";
    let own_times = match load {
        Load::Utilisation(_) => "omit the option: the utilisation says how many requests come",
        Load::Tpcc | Load::Postmark => "omit the option: the load has times of its own",
        Load::Mixture(_) => "omit the option: the load's own text has its arrivals behind the semicolon",
        _ => "give --scale to replay faster or slower",
    };
    let own_reads = match load {
        Load::Replay(_) => "omit the option: a trace says what is read and written",
        Load::Mixture(_) => "give reads=SHARE in each part of the load",
        _ => "omit the option: the transactions say what is read and written",
    };
    // The text of a mixture may leave the arrivals to the flags.
    let timed = match load {
        Load::Mixture(text) => parsed(text)?.arrival().is_some(),
        _ => true,
    };
    let tasks = plain || replay || !timed || matches!(load, Load::Tpcc);
    let fits = [
        ("--request-size", args.request_size.is_some(), random, only_random),
        ("--locality", args.locality.is_some(), random, only_random),
        ("--reads", args.reads.is_some(), plain || matches!(load, Load::Utilisation(_)), own_reads),
        ("--rate", args.rate.is_some(), plain || !timed, own_times),
        ("--mpl", args.mpl.is_some(), tasks, own_times),
        ("--outstanding", args.outstanding.is_some(), tasks, own_times),
        ("--think", args.think.is_some(), plain || replay || !timed, own_times),
        ("--scale", args.scale.is_some(), replay, "give --rate, or --workload replay:FILE"),
        ("--compress", args.compress.is_some(), replay, "give --rate, or --workload replay:FILE"),
        ("--wrap", args.wrap, replay, only_replay),
        ("--format", args.format.is_some(), replay, only_replay),
        ("--time-unit", args.time_unit.is_some(), replay, only_replay),
        ("--event", args.event.is_some(), replay, only_replay),
        ("--device", args.device.is_some(), replay, only_replay),
    ];
    for (flag, given, fits, mend) in fits {
        if given && !fits {
            return Err(Problem::usage(format!("{flag} does not go with --workload {name}")).help(mend));
        }
    }
    let idle = matches!(load, Load::Utilisation(share) if *share == Utilisation::IDLE);
    if idle && (args.background == BackgroundTask::None || args.idle_time != Some(Switch::On)) {
        return Err(Problem::usage("--workload utilisation:0 leaves nothing to simulate")
            .help("give --background scan --idle-time on as well, or at least utilisation:0.01"));
    }
    let closed = [
        ("--mpl", args.mpl.is_some()),
        ("--outstanding", args.outstanding.is_some()),
        ("--think", args.think.is_some()),
    ];
    if args.scale.is_some() && args.compress.is_some() {
        return Err(Problem::usage(
            "--scale does not go with --compress: both say how fast the trace is replayed",
        )
        .help("leave out --scale or --compress"));
    }
    let open = [
        ("--rate", args.rate.is_some()),
        ("--scale", args.scale.is_some()),
        ("--compress", args.compress.is_some()),
    ];
    for (open, _) in open.into_iter().filter(|(_, given)| *given) {
        if let Some((closed, _)) = closed.into_iter().find(|(_, given)| *given) {
            let why = "requests come either at times of their own or when others are done";
            return Err(Problem::usage(format!("{open} does not go with {closed}: {why}"))
                .help(format!("leave out {open} or {closed}")));
        }
    }
    Ok(())
}

/// Builds the requests and their times. `given` are the requests of a calling program.
///
/// # Errors
/// A size is not whole sectors or larger than the drive, or a trace cannot be read or does not fit.
pub(crate) fn build(
    args: &SimulateArgs,
    given: Option<Box<dyn Source>>,
    space: &Space<'_>,
    config: Config,
) -> Result<Foreground, Problem> {
    if let Some(source) = given {
        return of_caller(args, source);
    }
    let foreground = match &args.workload {
        Load::Utilisation(share) => utilisation(args, *share, space.drive, config),
        Load::Tpcc => tpcc(args, space),
        Load::Postmark => postmark(args, space),
        Load::Random => random(args, space),
        Load::Oltp => oltp(args, space),
        Load::Mixture(text) => return mixture(args, text, space),
        Load::Replay(path) => return trace::build(args, path, space),
    }?;
    Ok(Foreground { grain: grain(args, space.sector), ..foreground })
}

/// Returns the grain: generators align their requests to 4 KB, and random requests to their own size if that is
/// smaller.
fn grain(args: &SimulateArgs, sector: Bytes) -> Sectors {
    let size = args.request_size.map_or(ALIGNMENT, |size| size.min(ALIGNMENT));
    values::sectors(size, sector).unwrap_or(Sectors::new(1))
}

/// The alignment of generated requests.
const ALIGNMENT: Bytes = Bytes::new(4096);

fn random(args: &SimulateArgs, space: &Space<'_>) -> Result<Foreground, Problem> {
    let sector = space.sector;
    let mut config = RandomConfig::new(space.capacity, sector);
    if let Some(size) = args.request_size {
        config.size = request_size(size, sector)?;
        if args.place() == Where::Outside && config.size > COMMAND_SECTORS_MAX {
            return Err(Problem::usage(format!(
                "--request-size {size}: outside the drive a request is one command, of {COMMAND_SECTORS_MAX} sectors at most"
            ))
            .help(format!("give {} at most", COMMAND_SECTORS_MAX.bytes(sector))));
        }
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

/// Reads a load in the language of docs/WORKLOADS.md.
fn parsed(text: &str) -> Result<Mixture, Problem> {
    text.parse().map_err(|error| misread(text, &error))
}

/// Returns the mistake with its place in the text.
fn misread(text: &str, error: &MixtureError) -> Problem {
    Problem::usage(format!("--workload: {}", error.problem())).help(error.mend()).at(
        "--workload",
        text,
        error.span(),
        "here",
    )
}

fn mixture(args: &SimulateArgs, text: &str, space: &Space<'_>) -> Result<Foreground, Problem> {
    let load = parsed(text)?;
    let sector = space.sector;
    let source =
        Mixed::new(&load, space.capacity, sector, args.seed).map_err(|error| misread(text, &error))?;
    let largest = source.largest();
    if args.place() == Where::Outside && largest > COMMAND_SECTORS_MAX {
        return Err(Problem::usage(format!(
            "--workload has requests of {} bytes: outside the drive a request is one command, of {COMMAND_SECTORS_MAX} sectors at most",
            largest.bytes(sector)
        ))
        .help(format!("give sizes of {} at most", COMMAND_SECTORS_MAX.bytes(sector))));
    }
    let outstanding = args.outstanding.or(args.mpl).unwrap_or(1);
    let (arrival, times) = match (load.arrival(), args.rate) {
        (Some(arrival), _) => (arrival, String::new()),
        (None, Some(rate)) => (Arrival::Poisson { rate }, format!("; {rate} requests a second")),
        (None, None) => {
            let (arrival, times) = closed(outstanding, args.think.unwrap_or(Duration::ZERO), "outstanding");
            (arrival, format!("; {times}"))
        }
    };
    let grain = source.grain();
    let foreground = assemble(Box::new(source), arrival, args.seed, None, format!("{load}{times}"))?;
    Ok(Foreground { grain, ..foreground })
}

/// Returns the requests of a calling program, with arrival times as in [`random`].
fn of_caller(args: &SimulateArgs, source: Box<dyn Source>) -> Result<Foreground, Problem> {
    let outstanding = args.outstanding.or(args.mpl).unwrap_or(1);
    let (arrival, times) = match args.rate {
        Some(rate) => (Arrival::Poisson { rate }, format!("{rate} requests a second")),
        None => closed(outstanding, args.think.unwrap_or(Duration::ZERO), "outstanding"),
    };
    assemble(source, arrival, args.seed, None, format!("requests of the program's own, {times}"))
}

fn request_size(size: Bytes, sector: Bytes) -> Result<Sectors, Problem> {
    values::sectors(size, sector).ok_or_else(|| {
        Problem::usage(format!("--request-size {size}: the drive's sectors have {sector} bytes"))
            .help(format!("give a multiple of {sector}"))
    })
}

fn oltp(args: &SimulateArgs, space: &Space<'_>) -> Result<Foreground, Problem> {
    let mut config = OltpConfig::new(space.capacity, space.sector);
    config.reads = args.reads.unwrap_or(config.reads);
    let source = Oltp::new(config, args.seed).map_err(Problem::usage)?;
    let tasks = args.mpl.or(args.outstanding).unwrap_or(10);
    let (arrival, times) = match args.rate {
        Some(rate) => (Arrival::Poisson { rate }, format!("{rate} requests a second")),
        None => closed(tasks, args.think.unwrap_or(Duration::from_millis(30)), "tasks"),
    };
    assemble(Box::new(source), arrival, args.seed, None, format!("OLTP, {times}"))
}

/// The number of requests that measure the mean service time; the mean is then accurate to half a percent.
const CALIBRATION_REQUESTS: u64 = 20_000;

fn utilisation(
    args: &SimulateArgs,
    share: Utilisation,
    drive: &Arc<DriveModel>,
    config: Config,
) -> Result<Foreground, Problem> {
    let mut load = SyntheticConfig::new(drive.layout().capacity(), drive.sector_bytes());
    load.reads = args.reads.unwrap_or(load.reads);
    let source = Synthetic::new(load, args.seed).map_err(Problem::usage)?;
    let measure = |arrival| {
        let issuer =
            Issuer::new(source.clone(), arrival, Instant::ZERO, args.seed).map_err(Problem::usage)?;
        let mut run =
            Inside::new(Arc::clone(drive), config, issuer, Background::None).map_err(Problem::failed)?;
        run.advance(CALIBRATION_REQUESTS, &mut Nothing).map_err(Problem::failed)?;
        let head = run.head();
        Ok(Measured { requests: run.requests(), busy: head.seek + head.rotation + head.transfer })
    };
    let found = share.calibrate(Pattern::Poisson, measure).map_err(|error| match error {
        CalibrationError::Measure(problem) => problem,
        CalibrationError::Empty { requests, busy } => {
            Problem::failed(format!("{requests} requests took {busy}: no service time can be made of that"))
        }
        other => Problem::failed(other.to_string()),
    })?;
    let times = match found.arrival {
        Arrival::Poisson { rate } => format!("{rate:.1} requests a second of {} each", found.service),
        Arrival::Silent => "no requests".to_owned(),
        _ => "two outstanding".to_owned(),
    };
    let description = format!("synthetic at {share} utilisation, {times}");
    assemble(Box::new(source), found.arrival, args.seed, None, description)
}

fn tpcc(args: &SimulateArgs, space: &Space<'_>) -> Result<Foreground, Problem> {
    let mut config = TpccConfig::new(space.capacity, space.sector);
    config.active = args.mpl.or(args.outstanding).unwrap_or(config.active);
    // The paper's pool, enlarged if it cannot hold the pages of all active transactions.
    config.pool = config.pool.max(Bytes::new(4 * u64::from(config.active) * config.page.get()));
    let source = Tpcc::new(config, args.seed).map_err(Problem::usage)?;
    let description = format!(
        "TPC-C-like, {} warehouses, {} terminals, {} transactions at a time",
        config.warehouses,
        config.warehouses * config.terminals,
        config.active
    );
    assemble(Box::new(source), Arrival::Scripted, args.seed, None, description)
}

fn postmark(args: &SimulateArgs, space: &Space<'_>) -> Result<Foreground, Problem> {
    let config = PostmarkBlocksConfig::new(space.capacity, space.sector);
    let source = PostmarkBlocks::new(config, args.seed).map_err(Problem::usage)?;
    let description = format!(
        "Postmark-like, {} files in {} directories",
        grouped(config.postmark.files.into()),
        grouped(config.postmark.directories.into())
    );
    assemble(Box::new(source), Arrival::Scripted, args.seed, None, description)
}
