//! `freeblock mimic probe`.

use super::args::{MimicProbeArgs, Types};
use super::{Went, carry_out, open};
use crate::files;
use crate::output::Console;
use crate::probe::DeviceName;
use crate::problem::Problem;
use crate::progress::Progress;
use crate::tables::{grouped, percent, span};
use crate::values;
use mimic::{Pair, ProbeError, ProbePlan, ProbeReport, Prober, Saved};
use serde::Serialize;
use std::fmt::Write;
use units::{Bytes, Lbn, LbnRange, Op, Sectors};

/// The number of requests between two updates of the progress.
const STRIDE_REQUESTS: u64 = 1_024;

pub(crate) fn execute(args: &MimicProbeArgs, console: &Console) -> Result<String, Problem> {
    let writes = args.allow_writes.filter(|_| args.types == Types::All);
    if args.types == Types::All && writes.is_none() && matches!(args.device, DeviceName::Raw { .. }) {
        return Err(Problem::usage("--types all writes, and nothing says which sectors of the disk").help(
            "name them with --allow-writes FIRST-LAST (what stands there is put back), or probe by reading",
        ));
    }
    let mut device = open(&args.device, writes, console)?;
    let (capacity, sector) = (device.capacity(), device.sector_bytes());
    // If only some sectors may be accessed, the distances are within them.
    let area = args.allow_writes.unwrap_or(LbnRange::new(Lbn::ZERO, capacity));
    if area.checked_end().is_none_or(|end| end.get() > capacity.get()) {
        return Err(Problem::usage(format!(
            "--allow-writes {}: the drive has {capacity} sectors",
            values::first_last(area)
        ))
        .help("name sectors that it has"));
    }
    let unit = whole_sectors("--unit", args.unit, sector)?;
    let reach = args.reach.map(|reach| whole_sectors("--reach", reach, sector)).transpose()?;
    let plan = ProbePlan {
        samples: args.samples,
        metric: args.summary,
        pairs: match args.types {
            Types::Read => vec![Pair::new(Op::Read, Op::Read)],
            Types::All => Pair::ALL.to_vec(),
        },
        check_points: args.check_points,
        reach,
        memory: args.memory,
        most_accesses: args.requests,
        seed: args.seed,
        ..ProbePlan::new(area.len(), unit)
    };
    let mut prober = Prober::new(plan).map_err(|error| match (error, args.allow_writes) {
        (ProbeError::Capacity { capacity, unit }, Some(area)) if area.len() == capacity => {
            Problem::usage(format!(
                "--allow-writes {}: only the named sectors, {capacity} in all, are probed; requests of {unit} have no distances there",
                values::first_last(area)
            ))
            .help(format!("name at least {} sectors", 4 * unit.get()))
        }
        (error, _) => Problem::usage(error),
    })?;
    files::check_replaceable(&args.output)?;
    let mut progress = Progress::new(console, "probing", args.requests);
    while let Some(access) = prober.next() {
        match carry_out(device.as_mut(), access.op, moved(access.range, area.start()))? {
            Went::Done(time) => prober.done(time),
            Went::Unreadable(lbn, time) => {
                let inside = Lbn::new(lbn.get().saturating_sub(area.start().get()));
                prober
                    .failed(inside, time)
                    .map_err(|error| Problem::failed(format!("LBN {lbn}: {error}")))?;
            }
        }
        let accesses = prober.report().accesses;
        if accesses.is_multiple_of(STRIDE_REQUESTS) {
            progress.at(accesses.min(args.requests));
        }
    }
    drop(progress);
    let (table, report) = prober.finish();
    let saved = Saved {
        drive: args.device.drive().to_owned(),
        capacity,
        sector,
        unit,
        samples: args.samples,
        accesses: report.accesses,
        time: report.time,
        table,
    };
    let bytes = saved.to_bytes();
    files::replace(&args.output, &bytes)?;
    if args.json {
        return crate::drive::json(&MimicProbeJson::new(args, &saved, &report, bytes.len()));
    }
    Ok(page(args, &saved, &report, bytes.len()))
}

/// Returns the range moved forward by this number of sectors.
fn moved(range: LbnRange, by: Lbn) -> LbnRange {
    LbnRange::new(Lbn::new(by.get() + range.start().get()), range.len())
}

fn whole_sectors(flag: &str, size: Bytes, sector: Bytes) -> Result<Sectors, Problem> {
    values::sectors(size, sector).ok_or_else(|| {
        Problem::usage(format!("{flag} {size}: the drive's sectors have {sector} bytes"))
            .help(format!("give a multiple of {sector}"))
    })
}

/// The JSON output for scripts; its names are stable.
#[derive(Serialize)]
struct MimicProbeJson {
    table: String,
    drive: String,
    requests: u64,
    drive_time_s: f64,
    distances: u64,
    probed: u64,
    kept: u64,
    interpolated: f64,
    unconfirmed: f64,
    unreadable: u64,
    memory_bytes: u64,
    file_bytes: usize,
    seed: u64,
}

impl MimicProbeJson {
    fn new(args: &MimicProbeArgs, saved: &Saved, report: &ProbeReport, file_bytes: usize) -> Self {
        Self {
            table: args.output.display().to_string(),
            drive: saved.drive.clone(),
            requests: report.accesses,
            drive_time_s: report.time.as_secs_f64(),
            distances: report.distances,
            probed: report.probed,
            kept: report.kept,
            interpolated: report.interpolated(),
            unconfirmed: unconfirmed(report),
            unreadable: report.unreadable,
            memory_bytes: saved.table.memory().get(),
            file_bytes,
            seed: args.seed,
        }
    }
}

fn unconfirmed(report: &ProbeReport) -> f64 {
    report.unconfirmed as f64 / report.distances.max(1) as f64
}

fn page(args: &MimicProbeArgs, saved: &Saved, report: &ProbeReport, file_bytes: usize) -> String {
    let mut text = format!("{}, probed into {}\n\n", saved.drive, args.output.display());
    let mut line = |what: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{what:15} {value}");
    };
    let time = span(report.time.as_secs_f64());
    line("requests", format!("{}, {time} of the drive's time", grouped(report.accesses)));
    line("distances", format!("{}, in steps of {} bytes", grouped(report.distances), args.unit));
    line("probed", format!("{}, {} samples each", grouped(report.probed), args.samples));
    line("interpolated", percent(report.interpolated()));
    line("of these", format!("{} unconfirmed: requests or memory ran out", percent(unconfirmed(report))));
    if report.unreadable > 0 {
        line(
            "unreadable",
            format!("{} requests met such sectors and have no times", grouped(report.unreadable)),
        );
    }
    let memory = saved.table.memory().get();
    line(
        "table",
        format!(
            "{} distances, {} bytes in memory, {} in the file",
            grouped(report.kept),
            grouped(memory),
            grouped(file_bytes as u64)
        ),
    );
    line("seed", args.seed.to_string());
    text
}
