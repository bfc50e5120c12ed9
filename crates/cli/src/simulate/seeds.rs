//! `--seeds`: the same simulation with several seeds.

use super::args::{BackgroundTask, SimulateArgs};
use super::confidence::{CONFIDENCE, Estimate, half_widths, means};
use super::{Given, Simulated, code, simulate_once};
use crate::Outcome;
use crate::output::Console;
use crate::problem::Problem;
use crate::tables::table;
use serde_json::{Value, json};
use std::fmt::Write;

/// Simulates with `count` seeds, from `--seed` on.
///
/// # Errors
/// As one simulation, or the last seed is past the largest number.
pub(super) fn execute(
    args: &SimulateArgs,
    count: u64,
    names: &[String],
    console: &Console,
) -> Result<Outcome, Problem> {
    let first = args.seed;
    let last = first.checked_add(count - 1).ok_or_else(|| {
        Problem::usage(format!("--seed {first} with --seeds {count} is past the largest seed"))
            .help("give a smaller --seed")
    })?;
    let mut runs = Vec::new();
    let mut title = String::new();
    let mut interrupted = false;
    for seed in first..=last {
        let one = SimulateArgs { seed, ..args.clone() };
        let Simulated { result, notes, .. } = simulate_once(&one, names, 0, Given::default(), None, console)?;
        if result.interrupted {
            interrupted = true;
            break;
        }
        if runs.is_empty() {
            notes.iter().for_each(|note| console.note(&format!("note: {note}")));
        }
        runs.push(serde_json::to_value(result.json()).map_err(Problem::failed)?);
        title = result.title;
    }
    if interrupted {
        if runs.len() < 2 {
            return Err(Problem::failed(
                "interrupted before two seeds were simulated: there is no interval yet",
            ));
        }
        console.note(&format!(
            "note: interrupted: the results are of the first {} of {count} seeds",
            runs.len()
        ));
    }
    let same = runs.windows(2).all(|pair| pair[0]["foreground"] == pair[1]["foreground"]);
    if same {
        console.note("note: every seed gave the same result: nothing random is in this load and this drive");
    }
    let text = if args.json {
        crate::drive::json(&document(&runs, first))?
    } else {
        page(&title, &runs, first, args)
    };
    Ok(Outcome { text, code: code(interrupted) })
}

/// Returns the means in the JSON form of one run, with half the widths of their confidence intervals under `seeds`.
fn document(runs: &[Value], first: u64) -> Value {
    let all: Vec<&Value> = runs.iter().collect();
    let mut document = means(&all);
    let part = |of: &[&Value], name: &str| half_widths(&of.iter().map(|one| &one[name]).collect::<Vec<_>>());
    let parts = |of: &[&Value]| {
        json!({
            "foreground": part(of, "foreground"),
            "head_time": part(of, "head_time"),
            "background": part(of, "background"),
        })
    };
    let mut half_width = parts(&all);
    if let (Some(drives), Some(widths)) = (runs[0]["drives"].as_array(), half_width.as_object_mut()) {
        let of_drive = |n: usize| parts(&runs.iter().map(|run| &run["drives"][n]).collect::<Vec<_>>());
        widths.insert("drives".to_owned(), (0..drives.len()).map(of_drive).collect());
    }
    if let Some(fields) = document.as_object_mut() {
        fields.insert("seed".to_owned(), first.into());
        let each: Vec<Value> =
            runs.iter().map(|run| json!({"seed": run["seed"], "foreground": run["foreground"]})).collect();
        fields.insert(
            "seeds".to_owned(),
            json!({
                "count": runs.len(),
                "confidence": CONFIDENCE,
                "half_width": half_width,
                "runs": each,
            }),
        );
    }
    document
}

/// The rows of the page: a name with its unit, the path in the JSON, and the factor from the JSON's unit.
const ROWS: [(&str, &str, f64); 21] = [
    ("response time, mean ms", "/foreground/mean_response_ms", 1.0),
    ("standard deviation, ms", "/foreground/sd_ms", 1.0),
    ("50%, ms", "/foreground/p50_ms", 1.0),
    ("90%, ms", "/foreground/p90_ms", 1.0),
    ("95%, ms", "/foreground/p95_ms", 1.0),
    ("99%, ms", "/foreground/p99_response_ms", 1.0),
    ("99.9%, ms", "/foreground/p999_ms", 1.0),
    ("longest, ms", "/foreground/max_ms", 1.0),
    ("reads, mean ms", "/foreground/reads/mean_ms", 1.0),
    ("writes, mean ms", "/foreground/writes/mean_ms", 1.0),
    ("access time, mean ms", "/foreground/mean_access_ms", 1.0),
    ("requests", "/foreground/requests", 1.0),
    ("requests a second", "/foreground/iops", 1.0),
    ("MB/s", "/foreground/mb_per_s", 1.0),
    ("queue length", "/foreground/queue_length", 1.0),
    ("busy, %", "/foreground/utilisation", 100.0),
    ("seek, % of the head's time", "/head_time/seek", 100.0),
    ("rotation, %", "/head_time/rotation", 100.0),
    ("transfer, %", "/head_time/transfer", 100.0),
    ("free bandwidth, MB/s", "/background/mb_per_s", 1.0),
    ("potential used, %", "/background/potential_used", 100.0),
];

fn page(title: &str, runs: &[Value], first: u64, args: &SimulateArgs) -> String {
    let last = first + runs.len() as u64 - 1;
    let mut text = format!("{title}\n\n");
    let percent = CONFIDENCE * 100.0;
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{} runs, seeds {first} to {last}; intervals hold the mean with {percent}%\n",
        runs.len()
    );
    let scan = args.background == BackgroundTask::Scan;
    let shown = ROWS.iter().filter(|(_, path, _)| scan || !path.starts_with("/background"));
    let rows = shown.filter_map(|(what, path, factor)| {
        let Estimate { mean, half_width, least, most } = Estimate::at(runs, path)?;
        let number = |value: f64| format!("{:.3}", value * factor);
        Some(vec![
            (*what).to_owned(),
            number(mean),
            format!("+- {}", number(half_width)),
            number(least),
            number(most),
        ])
    });
    text.push_str(&table(&["", "mean", "95% interval", "least", "most"], &[0], rows));
    if let Some(drives) = runs.first().and_then(|run| run["drives"].as_array()) {
        text.push_str("\nDrives\n");
        let shown = DRIVE_COLUMNS.len() - if scan { 0 } else { 1 };
        let columns = DRIVE_COLUMNS.iter().take(shown);
        let header: Vec<&str> = ["drive", "name"]
            .into_iter()
            .chain(columns.clone().flat_map(|of| [of.0, "95% interval"]))
            .collect();
        let rows = drives.iter().enumerate().map(|(n, drive)| {
            let mut row = vec![n.to_string(), drive["drive"].as_str().unwrap_or_default().to_owned()];
            for (_, path, factor) in columns.clone() {
                let estimate = Estimate::at(runs, &format!("/drives/{n}{path}"));
                let (mean, half) = estimate.map_or((0.0, 0.0), |found| (found.mean, found.half_width));
                row.extend([format!("{:.3}", mean * factor), format!("+- {:.3}", half * factor)]);
            }
            row
        });
        text.push_str(&table(&header, &[1], rows));
    }
    text
}

/// The columns for each drive of an array, in the form of [`ROWS`]; the last one is shown with a scan only.
const DRIVE_COLUMNS: [(&str, &str, f64); 5] = [
    ("mean ms", "/foreground/mean_response_ms", 1.0),
    ("99% ms", "/foreground/p99_response_ms", 1.0),
    ("a second", "/foreground/iops", 1.0),
    ("busy %", "/foreground/utilisation", 100.0),
    ("free MB/s", "/background/mb_per_s", 1.0),
];
