//! `suite short|long [--long-list FILE] [--results FILE] [FILTER]`: see the library.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use suite::{Finished, Long, Outcome, Results, Test, binaries, run, tests};

const USAGE: &str = "usage: suite short|long [--long-list FILE] [--results FILE] [FILTER] < MESSAGES

MESSAGES is what cargo test --workspace --no-run --message-format=json-render-diagnostics prints. Only tests run whose name
has FILTER in it. With --results the table in FILE is compared and, where nothing failed and nothing was filtered, written.";

/// As many tests are in the table of the slowest.
const SLOWEST: usize = 20;

struct Arguments {
    long: bool,
    long_list: PathBuf,
    results: Option<PathBuf>,
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
    let long_list = Path::new(env!("CARGO_MANIFEST_DIR")).join("long.txt");
    let mut arguments = Arguments { long, long_list, results: None, filter: String::new() };
    while let Some(argument) = given.next() {
        match argument.as_str() {
            "--results" | "--long-list" => {
                let file = given.next().ok_or(format!("{argument} needs a file\n{USAGE}"))?.into();
                match argument.as_str() {
                    "--results" => arguments.results = Some(file),
                    _ => arguments.long_list = file,
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
    let list = std::fs::read_to_string(&arguments.long_list)
        .map_err(|error| format!("{}: {error}", arguments.long_list.display()))?;
    let list = Long::list(&list).map_err(|error| text(&error))?;
    Long::exist(&list, all.iter().map(|test| test.name.as_str())).map_err(|error| text(&error))?;

    let before = before(arguments)?;
    let mut chosen: Vec<Test> = all
        .iter()
        .filter(|test| arguments.long || !test.ignored && !list.iter().any(|long| long.name == test.name))
        .filter(|test| test.name.contains(&arguments.filter))
        .cloned()
        .collect();
    if chosen.is_empty() {
        return Err(format!("no test has {:?} in its name; there are {} tests", arguments.filter, all.len()));
    }
    let count = chosen.len();
    println!("{count} tests of {}, in {} binaries", all.len(), binaries.len());
    // The longest first, so that none of them is begun when all others have ended.
    if let Some(before) = &before {
        let took = |test: &Test| before.tests.get(&test.name).map_or(Duration::ZERO, |(_, took)| *took);
        chosen.sort_by_key(|test| std::cmp::Reverse(took(test)));
    }
    let begun = Instant::now();
    let workers = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut done = 0;
    let each = |test: &Finished| {
        done += 1;
        if test.outcome == Outcome::Failed {
            println!("FAILED {}", test.name);
        } else if done % 100 == 0 {
            println!("{done} of {count} after {} s", begun.elapsed().as_secs());
        }
    };
    let silence = |under_way: &[&str]| println!("running for more than a minute: {}", under_way.join(", "));
    let finished =
        run(&binaries, &chosen, workers, arguments.long, each, silence).map_err(|error| text(&error))?;
    report(&finished);
    println!("{count} tests in {} s", begun.elapsed().as_secs());
    let failed = finished.len() < count || finished.iter().any(|test| test.outcome == Outcome::Failed);
    if let (Some(file), true) = (&arguments.results, arguments.filter.is_empty()) {
        let results = Results::of(heading(arguments.long), &finished);
        if let Some(before) = &before {
            println!("\nsince {}:", before.heading);
            results.since(before).iter().for_each(|change| println!("  {change}"));
        }
        if !failed {
            std::fs::write(file, results.table()).map_err(|error| format!("{}: {error}", file.display()))?;
            println!("written: {}", file.display());
        }
    }
    Ok(!failed)
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
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!(
        "{} tier, commit {}, {}, {processors} processors",
        if long { "long" } else { "short" },
        said("git", &["rev-parse", "--short", "HEAD"]),
        said("date", &["-u", "+%F"]),
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
