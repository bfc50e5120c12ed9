//! `suite short|long [--lists DIRECTORY] [--results FILE] [--times FILE] [FILTER]`: see the library.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use suite::{Binary, Finished, Listed, Outcome, Results, Test, binaries, order, run, tests};

const USAGE: &str = "usage: suite short|long [--lists DIRECTORY] [--results FILE] [--times FILE] [FILTER] < MESSAGES

MESSAGES is what cargo test --workspace --no-run --message-format=json-render-diagnostics prints. Only tests run whose name
has FILTER in it. With --results the table in FILE is compared and, where nothing failed and nothing was filtered, written. FILE
of --times keeps how long each test took, and the longest begin first.";

/// The number of tests in the table of the slowest.
const SLOWEST: usize = 20;

struct Arguments {
    long: bool,
    lists: PathBuf,
    results: Option<PathBuf>,
    times: Option<PathBuf>,
    filter: String,
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let long = match given.next().as_deref() {
        Some("short") => false,
        Some("long") => true,
        other => {
            return Err(format!("the tier is {}; give short or long\n{USAGE}", other.unwrap_or("missing")));
        }
    };
    let lists = env!("CARGO_MANIFEST_DIR").into();
    let mut arguments = Arguments { long, lists, results: None, times: None, filter: String::new() };
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--results" | "--times" | "--lists" => {
                let file = given.next().ok_or(format!("{argument} needs a file\n{USAGE}"))?.into();
                match argument.as_str() {
                    "--results" => arguments.results = Some(file),
                    "--times" => arguments.times = Some(file),
                    _ => arguments.lists = file,
                }
            }
            _ if argument.starts_with('-') => return Err(format!("unknown option {argument}\n{USAGE}")),
            _ => arguments.filter = argument,
        }
    }
    Ok(arguments)
}

fn main() -> ExitCode {
    match arguments(std::env::args().skip(1)).and_then(|arguments| suite(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("suite: {message}");
            ExitCode::from(2)
        }
    }
}

/// Runs a tier, and returns whether nothing failed.
fn suite(arguments: &Arguments) -> Result<bool, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let mut messages = String::new();
    std::io::stdin().read_to_string(&mut messages).map_err(|error| text(&error))?;
    let binaries = binaries(&messages).map_err(|error| text(&error))?;
    let all = tests(&binaries).map_err(|error| text(&error))?;
    let chosen = chosen(arguments, &all)?;
    let count = chosen.len();
    println!("{count} tests of {}, in {} binaries", all.len(), binaries.len());

    let before = before(arguments)?;
    let times = times(arguments);
    let took = |kept: &Results, test: &Test| kept.tests.get(&test.name).map(|kept| kept.took);
    let known = [&times, &before];
    let chosen = order(chosen, |test| known.into_iter().flatten().find_map(|kept| took(kept, test)));
    let alone = list(arguments, "alone.txt", &all)?;
    let is_alone = |test: &Test| alone.iter().any(|listed| listed.name == test.name);
    let (alone, others): (Vec<Test>, Vec<Test>) = chosen.into_iter().partition(is_alone);
    let finished = under_way(&binaries, [&alone, &others], arguments.long).map_err(|error| text(&error))?;
    let failed = finished.len() < count || finished.iter().any(|test| test.outcome == Outcome::Failed);

    let now = Results::of(heading(arguments.long), &finished);
    if let Some(file) = &arguments.times {
        write(file, &times.into_iter().fold(now.clone(), Results::over))?;
    }
    if let (Some(file), true) = (&arguments.results, arguments.filter.is_empty()) {
        if let Some(before) = &before {
            println!("\nsince {}:", before.heading);
            now.since(before).iter().for_each(|change| println!("  {change}"));
        }
        if !failed {
            write(file, &now)?;
            println!("written: {}", file.display());
        }
    }
    Ok(!failed)
}

/// Reads a list: `long.txt`, `waits.txt` or `alone.txt`.
fn list(arguments: &Arguments, name: &str, all: &[Test]) -> Result<Vec<Listed>, String> {
    let file = arguments.lists.join(name);
    let wrong = |error: &dyn std::error::Error| format!("{}: {error}", file.display());
    let list = std::fs::read_to_string(&file).map_err(|error| wrong(&error))?;
    let list = Listed::list(&list).map_err(|error| wrong(&error))?;
    Listed::exist(&list, all.iter().map(|test| test.name.as_str())).map_err(|error| wrong(&error))?;
    Ok(list)
}

/// Returns the tests of the tier that the filter lets through.
fn chosen(arguments: &Arguments, all: &[Test]) -> Result<Vec<Test>, String> {
    let (long, waits) = (list(arguments, "long.txt", all)?, list(arguments, "waits.txt", all)?);
    let is_in = |list: &[Listed], test: &Test| list.iter().any(|listed| listed.name == test.name);
    let chosen: Vec<Test> = all
        .iter()
        .filter(|test| arguments.long || !test.ignored && !is_in(&long, test))
        .filter(|test| test.name.contains(&arguments.filter))
        .map(|test| Test { waits: is_in(&waits, test), ..test.clone() })
        .collect();
    if chosen.is_empty() {
        return Err(format!("no test has {:?} in its name; there are {} tests", arguments.filter, all.len()));
    }
    Ok(chosen)
}

/// Runs the first tests one after another, then the others, two at once for each processor; shows how far they are, and reports.
fn under_way(
    binaries: &[Binary],
    [alone, others]: [&[Test]; 2],
    long: bool,
) -> std::io::Result<Vec<Finished>> {
    let (begun, count) = (Instant::now(), alone.len() + others.len());
    let mut done = 0;
    let mut each = |test: &Finished| {
        done += 1;
        if test.outcome == Outcome::Failed {
            println!("FAILED {}", test.name);
        } else if done % 100 == 0 {
            println!("{done} of {count} after {} s", begun.elapsed().as_secs());
        }
    };
    let silence = |under_way: &[&str]| println!("running for more than a minute: {}", under_way.join(", "));
    let mut finished = run(binaries, alone, 1, long, &mut each, silence)?;
    finished.extend(run(binaries, others, 2 * processors(), long, &mut each, silence)?);
    report(&finished);
    let (wall, processor) = (begun.elapsed(), finished.iter().map(|test| test.processor).sum::<Duration>());
    let share = 100.0 * processor.as_secs_f64() / (wall.as_secs_f64() * processors() as f64);
    println!("{count} tests in {} s, with {share:.0}% of the processors' time", wall.as_secs());
    Ok(finished)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn write(file: &Path, results: &Results) -> Result<(), String> {
    std::fs::write(file, results.table()).map_err(|error| format!("{}: {error}", file.display()))
}

/// Returns the times of earlier runs, or `None` if there are none or a runner of another version has written them.
fn times(arguments: &Arguments) -> Option<Results> {
    let text = std::fs::read_to_string(arguments.times.as_ref()?).ok()?;
    Results::read(&text).ok()
}

/// Returns the table that the last run has left, or `None` if there was none.
fn before(arguments: &Arguments) -> Result<Option<Results>, String> {
    let Some(file) = &arguments.results else { return Ok(None) };
    match std::fs::read_to_string(file) {
        Ok(text) => Results::read(&text).map(Some).map_err(|error| format!("{}, {error}", file.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(format!("{}: {error}", file.display())),
    }
}

fn heading(long: bool) -> String {
    let said = |program: &str, arguments: &[&str]| {
        let output =
            Command::new(program).args(arguments).output().ok().filter(|output| output.status.success());
        output.map_or("unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    format!(
        "{} tier, commit {}, {}, {} processors",
        if long { "long" } else { "short" },
        said("git", &["rev-parse", "--short", "HEAD"]),
        said("date", &["-u", "+%F"]),
        processors(),
    )
}

fn report(finished: &[Finished]) {
    let mut by_time: Vec<&Finished> = finished.iter().collect();
    by_time.sort_by(|a, b| b.processor.cmp(&a.processor).then_with(|| a.name.cmp(&b.name)));
    println!("\nthe slowest tests, in seconds of processor time:");
    for test in by_time.iter().take(SLOWEST) {
        println!("{:8.1}  {}", test.processor.as_secs_f64(), test.name);
    }
    let total: Duration = finished.iter().map(|test| test.processor).sum();
    println!("{:8.1}  all", total.as_secs_f64());
    let mut binaries: std::collections::BTreeMap<&str, (usize, Duration)> = std::collections::BTreeMap::new();
    for test in finished {
        let binary = test.name.split("::").next().unwrap_or_default();
        let sum = binaries.entry(binary).or_default();
        *sum = (sum.0 + 1, sum.1 + test.processor);
    }
    println!("\nseconds of processor time by binary, of those with one or more:");
    for (binary, (count, took)) in binaries.iter().filter(|(_, (_, took))| *took >= Duration::from_secs(1)) {
        println!("{:8.1}  {binary} ({count} tests)", took.as_secs_f64());
    }
    let skipped: Vec<&Finished> = finished.iter().filter(|test| test.outcome == Outcome::Skipped).collect();
    if !skipped.is_empty() {
        println!("\n{} tests were skipped, whole or in part:", skipped.len());
        for test in skipped {
            println!("  skipped: {}", test.skips.join("; "));
        }
    }
    let failed: Vec<&Finished> = finished.iter().filter(|test| test.outcome == Outcome::Failed).collect();
    for test in &failed {
        println!("\n---- {} ----\n{}", test.name, test.output.trim_end());
    }
    let passed = finished.len() - failed.len();
    println!("\n{passed} passed, {} failed", failed.len());
    failed.iter().for_each(|test| println!("  failed: {}", test.name));
}
