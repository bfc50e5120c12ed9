//! `suite short|long [--lists DIRECTORY] [--results FILE] [--times FILE] [FILTER]`: see the library.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use suite::{Binary, Finished, Listed, Outcome, Ran, Results, Test, binaries, order, run, tests};

const USAGE: &str = "usage: suite short|long [--lists DIRECTORY] [--results FILE] [--times FILE] [FILTER] < MESSAGES

MESSAGES is what cargo test --workspace --no-run --message-format=json-render-diagnostics prints. Only tests run whose name
has FILTER in it. FILE of --results is a table with the last result of each test, its commit and day; a row is written when a test
ends, so that the next run goes on: without FILTER only tests run that have no row of this commit. FILE of --times keeps how long
each test took, and the longest begin first.";

/// The number of tests in the table of the slowest.
const SLOWEST_TESTS: usize = 20;

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
    let (count, ran) = (chosen.len(), ran());
    println!("{count} tests of {}, in {} binaries", all.len(), binaries.len());

    let (before, times) = (before(arguments)?, times(arguments));
    let took = |kept: &Results, test: &Test| kept.tests.get(&test.name).map(|kept| kept.took);
    let known = [&times, &before];
    let mut chosen = order(chosen, |test| known.into_iter().flatten().find_map(|kept| took(kept, test)));
    // The tests with the oldest results begin, so that runs that are stopped reach all tests in the end.
    let day = |test: &Test| before.as_ref()?.tests.get(&test.name).map(|kept| kept.ran.day.clone());
    chosen.sort_by_key(day);
    if let (Some(before), true) = (&before, arguments.filter.is_empty()) {
        chosen.retain(|test| !before.has(&test.name, &ran));
        if chosen.len() < count {
            println!("{} have a row of commit {}, and do not run again", count - chosen.len(), ran.commit);
        }
    }
    let alone = list(arguments, "alone.txt", &all)?;
    let is_alone = |test: &Test| alone.iter().any(|listed| listed.name == test.name);
    let (alone, others): (Vec<Test>, Vec<Test>) = chosen.into_iter().partition(is_alone);
    let mut tables = Tables::new(arguments, &all, ran, [before.clone(), times]);
    let running = [alone.as_slice(), &others];
    let finished = under_way(&binaries, running, arguments.long, |test| tables.put(test));
    let finished = finished.map_err(|error| text(&error))?;
    tables.write()?;
    let missing = finished.len() < alone.len() + others.len();
    let failed = missing || finished.iter().any(|test| test.outcome == Outcome::Failed);
    if arguments.results.is_none() {
        return Ok(!failed);
    }
    let Tables { ran, results: kept, .. } = tables;
    if let Some(before) = &before {
        println!("\nsince the last results of each test:");
        kept.since(before).iter().for_each(|change| println!("  {change}"));
    }
    let [passed, skipped, failures] = kept.counts();
    println!(
        "the table has {passed} tests that passed, {skipped} that were skipped and {failures} that failed"
    );
    let failed_at_this_commit =
        kept.tests.iter().any(|(name, row)| row.outcome == Outcome::Failed && kept.has(name, &ran));
    // A failure in an earlier run of this commit, which was stopped, is a failure of the tier.
    let failed_before = arguments.filter.is_empty() && failed_at_this_commit;
    Ok(!failed && !failed_before)
}

/// The tables of results and of times.
struct Tables {
    ran: Ran,
    results: Results,
    times: Results,
    files: [Option<PathBuf>; 2],
    error: Option<String>,
}

impl Tables {
    /// Begins with the results of `before`, without those of tests that are gone.
    fn new(arguments: &Arguments, all: &[Test], ran: Ran, before: [Option<Results>; 2]) -> Self {
        let tier = if arguments.long { "long" } else { "short" };
        let heading = format!("{tier} tier, {} processors", processors());
        let [results, times] = before.map(|before| {
            let mut tests = before.map(|before| before.tests).unwrap_or_default();
            tests.retain(|name, _| all.iter().any(|test| test.name == *name));
            Results { heading: heading.clone(), tests }
        });
        let files = [arguments.results.clone(), arguments.times.clone()];
        Self { ran, results, times, files, error: None }
    }

    /// Adds a row, and writes the table of results, so that a run that is stopped loses no result.
    fn put(&mut self, test: &Finished) {
        self.results.put(test, &self.ran);
        self.times.put(test, &self.ran);
        self.error = self.error.take().or(write(self.files[0].as_deref(), &self.results).err());
    }

    fn write(&mut self) -> Result<(), String> {
        self.error.take().map_or(Ok(()), Err)?;
        write(self.files[0].as_deref(), &self.results)?;
        write(self.files[1].as_deref(), &self.times)
    }
}

/// Writes a table to a new file, which then replaces the old one in one step.
fn write(file: Option<&Path>, table: &Results) -> Result<(), String> {
    let Some(file) = file else { return Ok(()) };
    let wrong = |error: std::io::Error| format!("{}: {error}", file.display());
    let new = file.with_extension("new");
    std::fs::write(&new, table.table()).map_err(wrong)?;
    std::fs::rename(&new, file).map_err(wrong)
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

/// Returns the tests of the tier whose names contain the filter.
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

/// Runs the tests of `alone` one after another, then the others, two at once for each processor; prints the progress,
/// and reports.
fn under_way(
    binaries: &[Binary],
    [alone, others]: [&[Test]; 2],
    long: bool,
    mut keep: impl FnMut(&Finished),
) -> std::io::Result<Vec<Finished>> {
    let (begun, count) = (Instant::now(), alone.len() + others.len());
    let mut done = 0;
    let mut each = |test: &Finished| {
        done += 1;
        keep(test);
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

/// Returns the commit and the day. Changed tables in docs/results do not count as changes of the tree, because a run
/// writes them.
fn ran() -> Ran {
    let said = |program: &str, arguments: &[&str]| {
        let output =
            Command::new(program).args(arguments).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let changed = said(
        "git",
        &["status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)docs/results"],
    );
    let dirty = if changed.is_some_and(|changed| changed.is_empty()) { "" } else { "-dirty" };
    let commit = said("git", &["rev-parse", "--short", "HEAD"]);
    Ran {
        commit: commit.unwrap_or_else(|| "unknown".into()) + dirty,
        day: said("date", &["-u", "+%F"]).unwrap_or_else(|| "unknown".into()),
    }
}

fn report(finished: &[Finished]) {
    let mut by_time: Vec<&Finished> = finished.iter().collect();
    by_time.sort_by(|a, b| b.processor.cmp(&a.processor).then_with(|| a.name.cmp(&b.name)));
    println!("\nthe slowest tests, in seconds of processor time:");
    for test in by_time.iter().take(SLOWEST_TESTS) {
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
