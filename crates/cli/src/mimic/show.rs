//! `freeblock mimic show`.

use super::args::ShowArgs;
#[cfg(feature = "lab")]
use super::figure::figure;
use super::{load, plot};
#[cfg(feature = "lab")]
use crate::files;
use crate::problem::Problem;
use crate::tables::{capacity, grouped, span};
use mimic::{Distance, Pair, Saved};
use serde::Serialize;
use std::fmt::Write;

pub(crate) fn execute(args: &ShowArgs) -> Result<String, Problem> {
    let saved = load(&args.table)?;
    let first = probed(&saved).next();
    let first =
        first.ok_or_else(|| Problem::failed(format!("{}: the table is empty", args.table.display())))?;
    let pair = args.pair.map_or(first, Pair::from);
    if let Some(other) = saved.table.answered_by(pair).filter(|other| *other != pair) {
        return Err(Problem::failed(format!(
            "{}: {pair} was not probed: {other} answers for it",
            args.table.display()
        ))
        .help("leave out --pair, or probe with --types all"));
    }
    let ends = saved.table.knots(pair).fold(None, |ends: Option<(i64, i64)>, knot| {
        let distance = knot.distance.sectors();
        Some((ends.map_or(distance, |(first, _)| first), distance))
    });
    let (first, last) = ends.unwrap_or((0, 0));
    let range = (args.from.unwrap_or(first), args.to.unwrap_or(last));
    if range.0 >= range.1 {
        return Err(Problem::usage(format!("--from {} --to {}: no distance lies between", range.0, range.1))
            .help("give --from below --to"));
    }
    #[cfg(feature = "lab")]
    if let Some(path) = &args.svg {
        let svg = lab::plot::svg(&figure(&saved, pair, range)).map_err(Problem::failed)?;
        files::replace(path, svg.unwrap_or_default())?;
    }
    if args.json {
        return crate::drive::json(&MimicShowJson::new(&saved));
    }
    Ok(page(&saved, pair, range))
}

/// Returns the pairs of request types that were probed; the table predicts every other pair by one of
/// these.
fn probed(saved: &Saved) -> impl Iterator<Item = Pair> + '_ {
    Pair::ALL.into_iter().filter(|pair| saved.table.answered_by(*pair) == Some(*pair))
}

/// The JSON output for scripts; its names are stable.
#[derive(Serialize)]
struct MimicShowJson {
    drive: String,
    capacity_sectors: u64,
    sector_bytes: u64,
    unit_sectors: u64,
    summary: String,
    samples: u32,
    requests: u64,
    drive_time_s: f64,
    memory_bytes: u64,
    pairs: Vec<PairJson>,
}

#[derive(Serialize)]
struct PairJson {
    pair: String,
    /// The pair by whose times the table predicts this pair, if any.
    answered_by: Option<String>,
    distances: usize,
    sequential_ms: Option<f64>,
}

impl MimicShowJson {
    fn new(saved: &Saved) -> Self {
        let table = &saved.table;
        let pair = |pair: Pair| PairJson {
            pair: pair.to_string(),
            answered_by: table.answered_by(pair).map(|pair| pair.to_string()),
            distances: table.knots(pair).count(),
            sequential_ms: table
                .time(pair, Distance::new(1), plot::MEDIAN_SEED)
                .map(|time| time.as_millis_f64()),
        };
        Self {
            drive: saved.drive.clone(),
            capacity_sectors: saved.capacity.get(),
            sector_bytes: saved.sector.get(),
            unit_sectors: saved.unit.get(),
            summary: table.metric().to_string(),
            samples: saved.samples,
            requests: saved.accesses,
            drive_time_s: saved.time.as_secs_f64(),
            memory_bytes: table.memory().get(),
            pairs: Pair::ALL.map(pair).into(),
        }
    }
}

fn page(saved: &Saved, pair: Pair, range: (i64, i64)) -> String {
    let table = &saved.table;
    let bytes = saved.capacity.get().saturating_mul(saved.sector.get());
    let mut text = format!("{}, {}\n\n", saved.drive, capacity(bytes));
    let mut line = |what: &str, value: String| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{what:15} {value}");
    };
    let time = span(saved.time.as_secs_f64());
    line("probed by", format!("{} requests, {time} of the drive's time", grouped(saved.accesses)));
    line("a time is", format!("the {} of {} samples", table.metric(), saved.samples));
    line("steps", format!("{} sectors", saved.unit));
    for pair in probed(saved) {
        line(&pair.to_string(), format!("{} distances", grouped(table.knots(pair).count() as u64)));
    }
    line("memory", format!("{} bytes", grouped(table.memory().get())));
    let _ = write!(text, "\nTime by distance, {pair}\n{}", plot::text(saved, pair, range));
    text
}
