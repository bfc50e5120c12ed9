//! `--drives`: several drives under one load as an array, or each with the load and a seed of its own.

use super::args::SimulateArgs;
use super::{Given, Simulated, simulate_once};
use crate::drive::DEFAULT_DRIVE;
use crate::files;
use crate::output::Console;
use crate::problem::Problem;
use crate::simulate::log::Log;
use crate::simulate::show::{self, Left, Several};
use crate::values::{self, Drives, Load, TraceDevices};
use scheduler::policy::PolicyName;
use sim::{ArrayError, ArrayLayout, DRIVES_MAX, ForegroundReport, Report, ResponseReport, Statistics};
use std::path::Path;
use std::time::Instant;
use units::Duration;

/// Bounds the lines of a file that names drives.
const DRIVE_LINES_MAX: usize = values::DRIVES_MAX as usize;

/// Refuses flags that do not go with several drives.
///
/// # Errors
/// The first such flag, with advice.
pub(super) fn check_flags(args: &SimulateArgs, given: &Given<'_>) -> Result<(), Problem> {
    let each = args.device == Some(TraceDevices::Each);
    let Some(drives) = &args.drives else {
        return if each {
            Err(Problem::usage(
                "--device each needs --drives: each device of the trace is replayed on a drive of its own",
            )
            .help("give --drives N with the number of devices, or --device all for one drive"))
        } else {
            Ok(())
        };
    };
    let of_one = args.drive != DEFAULT_DRIVE;
    let layout = args.array.is_some_and(|layout| layout != ArrayLayout::Concatenation);
    let smtf = matches!(args.policy, PolicyName::Smtf(_));
    let calibrated = matches!(args.workload, Load::Utilisation(_));
    let standard_input = matches!(&args.workload, Load::Replay(path) if path.as_os_str() == "-");
    let own = given.requests.is_some() || given.policy.is_some();
    let is_file = matches!(drives, Drives::File(_));
    let (array, fleet) = (!args.independent, args.independent);
    let fits = [
        ("--drive", of_one && is_file, "--drives FILE", "omit the option: the file names the drives"),
        ("--device each", each && fleet, "--independent", "leave out --independent: a device has one drive"),
        (
            "--device each",
            each && layout,
            "an --array of shared addresses",
            "leave out --array, or give --device all",
        ),
        (
            "--policy smtf",
            smtf && array,
            "an array",
            "give another policy, or --independent: smtf learns one drive",
        ),
        (
            "--learnt",
            args.learnt.is_some(),
            "--drives",
            "omit the option: the file holds the learnt times of one drive",
        ),
        (
            "--workload utilisation",
            calibrated && array,
            "an array",
            "give --rate, or --independent: the rate is found for one drive",
        ),
        ("a policy of the program's own", given.policy.is_some(), "--drives", "simulate one drive at a time"),
        ("parts of the program's own", own && fleet, "--independent", "simulate one drive at a time"),
        (
            "--seeds",
            args.seeds.is_some() && fleet,
            "--independent",
            "give more --drives: each has a seed of its own",
        ),
        (
            "--every",
            args.every.is_some() && fleet,
            "--independent",
            "omit the option, or give --seed with one drive at a time",
        ),
        (
            "a trace from standard input",
            standard_input && fleet,
            "--independent",
            "write the trace to a file first: each drive reads it",
        ),
    ];
    match fits.into_iter().find(|(_, found, ..)| *found) {
        Some((flag, _, other, mend)) => {
            Err(Problem::usage(format!("{flag} does not go with {other}")).help(mend))
        }
        None => Ok(()),
    }
}

/// Returns the names of the drives, as `--drive` takes them.
///
/// # Errors
/// A file cannot be read or names too few or too many drives, or an array cannot have this many.
pub(super) fn names(args: &SimulateArgs) -> Result<Vec<String>, Problem> {
    let names = match &args.drives {
        None => return Ok(vec![args.drive.clone()]),
        Some(Drives::Count(count)) => vec![args.drive.clone(); *count as usize],
        Some(Drives::File(path)) => named(path)?,
    };
    if !args.independent && names.len() > DRIVES_MAX {
        return Err(Problem::usage(format!(
            "--drives: an array has {DRIVES_MAX} drives at most, and not {}",
            names.len()
        ))
        .help("give fewer drives, or --independent for drives that share nothing"));
    }
    Ok(names)
}

/// Reads a file with a drive in each line; empty lines and those that begin with # are comments.
fn named(path: &Path) -> Result<Vec<String>, Problem> {
    let advice = "give a number of drives, or a file with the name of a drive (as for --drive) in each line";
    let bytes = files::read(path).map_err(|problem| problem.of("--drives").help(advice))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Problem::failed(format!("--drives: {} is no text in UTF-8", path.display())).help(advice)
    })?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let names: Vec<String> = lines.take(DRIVE_LINES_MAX + 1).map(str::to_owned).collect();
    match names.len() {
        0 => Err(Problem::failed(format!("--drives: {} names no drive", path.display())).help(advice)),
        found if found > DRIVE_LINES_MAX => Err(Problem::failed(format!(
            "--drives: {} names more than {DRIVE_LINES_MAX} drives",
            path.display()
        ))
        .help("split the file")),
        _ => Ok(names),
    }
}

/// Explains why the drives make no array.
pub(super) fn no_array(error: &ArrayError) -> Problem {
    let mend = match error {
        ArrayError::Drives { .. } => "give another number for --drives, or another --array",
        ArrayError::SectorSize { .. } => "name drives whose sectors have one size, or give --independent",
        ArrayError::Unit { .. } => "give a unit of whole sectors, such as 64k",
    };
    let flag = if matches!(error, ArrayError::Unit { .. }) { "--array" } else { "--drives" };
    Problem::usage(format!("{flag}: {error}")).help(mend)
}

/// Simulates each drive with the whole load and a seed of its own.
///
/// # Errors
/// As one simulation, or the last seed is past the largest number.
pub(super) fn fleet(args: &SimulateArgs, names: &[String], console: &Console) -> Result<Simulated, Problem> {
    let started = Instant::now();
    let count = names.len() as u64;
    if args.seed.checked_add(count).is_none() {
        return Err(Problem::usage(format!(
            "--seed {} with {count} drives is past the largest seed",
            args.seed
        ))
        .help("give a smaller --seed"));
    }
    let mut log = args.log.as_ref().map(Log::create).transpose()?;
    let mut together: Option<Simulated> = None;
    let mut drives = Vec::new();
    let mut interrupted = false;
    let mut warmup: Option<Left> = None;
    for (name, number) in names.iter().zip(0u32..) {
        let seed = args.seed + u64::from(number);
        let one = SimulateArgs { seed, drive: name.clone(), ..args.clone() };
        let name = std::slice::from_ref(name);
        let done = simulate_once(&one, name, number, Given::default(), log.as_mut(), console)?;
        let report = done.result.report.clone();
        drives.push(show::OfDrive {
            name: name.concat(),
            title: done.result.drive_title.clone(),
            seed: Some(seed),
            report,
            outside: done.result.outside.clone(),
        });
        if let Some(of_one) = done.result.warmup {
            let all = warmup.get_or_insert(Left { requests: 0, time: Duration::ZERO });
            all.requests += of_one.requests;
            all.time = all.time.max(of_one.time);
        }
        interrupted = done.result.interrupted;
        match &mut together {
            None => together = Some(done),
            Some(all) => {
                all.statistics.add_requests(&done.statistics);
                all.result.cache += done.result.cache;
            }
        }
        if interrupted {
            break;
        }
    }
    log.map_or(Ok(()), Log::finish)?;
    let Some(mut all) = together else { return Err(Problem::failed("there is no drive")) };
    let result = &mut all.result;
    result.report = sum(&all.statistics, &drives);
    result.title = several_title(&drives, "independent", &result.of_drive_title);
    if drives.len() > 1 && drives.windows(2).all(|pair| pair[0].report == pair[1].report) {
        all.notes.push(
            "every drive gave the same result: nothing random is in this load and these drives".to_owned(),
        );
    }
    result.several = Some(Several { layout: "independent".to_owned(), drives });
    (result.outside, result.mimic, result.warmup) = (None, None, warmup);
    (result.interrupted, result.wall) = (interrupted, started.elapsed());
    Ok(all)
}

/// Returns the title of several drives: the number of drives of each kind, their load and their scheduler.
pub(super) fn several_title(drives: &[show::OfDrive], layout: &str, rest: &str) -> String {
    /// The largest number of kinds of drives that a title names.
    const KINDS: usize = 3;
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for drive in drives {
        match kinds.iter_mut().find(|(title, _)| *title == drive.title) {
            Some((_, count)) => *count += 1,
            None => kinds.push((&drive.title, 1)),
        }
    }
    let mut named: Vec<String> =
        kinds.iter().take(KINDS).map(|(title, count)| format!("{count} x {title}")).collect();
    if kinds.len() > KINDS {
        named.push(format!("{} other kinds", kinds.len() - KINDS));
    }
    format!("{} ({layout}), {rest}", named.join(" + "))
}

/// Returns the results of drives that share nothing: rates and queues are sums, times are of all requests, and shares of time are
/// means.
fn sum(requests: &Statistics, drives: &[show::OfDrive]) -> Report {
    let reports = || drives.iter().map(|drive| &drive.report);
    let total =
        |of: fn(&ForegroundReport) -> f64| reports().map(|report| of(&report.foreground)).sum::<f64>();
    let all = requests.report(requests.from() + Duration::from_secs(1));
    let kind = |all: ResponseReport, of: fn(&ForegroundReport) -> &ResponseReport| ResponseReport {
        iops: reports().map(|report| of(&report.foreground).iops).sum(),
        mb_per_s: reports().map(|report| of(&report.foreground).mb_per_s).sum(),
        ..all
    };
    Report {
        foreground: ForegroundReport {
            iops: total(|of| of.iops),
            mb_per_s: total(|of| of.mb_per_s),
            queue_length: total(|of| of.queue_length),
            queue_length_max: reports().map(|report| report.foreground.queue_length_max).sum(),
            utilisation: total(|of| of.utilisation) / drives.len().max(1) as f64,
            reads: kind(all.reads, |of| &of.reads),
            writes: kind(all.writes, |of| &of.writes),
            ..all
        },
        head_time: reports().map(|report| report.head_time).collect(),
        background: reports().map(|report| report.background).collect(),
        simulated: reports().map(|report| report.simulated).max().unwrap_or_default(),
    }
}
