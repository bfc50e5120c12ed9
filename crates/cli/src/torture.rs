//! `freeblock torture`: random histories, and one again from a file.

use crate::Outcome;
use crate::args::TortureArgs;
use crate::files;
use crate::output::Console;
use crate::problem::Problem;
use crate::progress::Progress;
use crate::tables::grouped;
use std::fmt::Write;
use std::panic;
use torture::{Counts, Failure, Scenario, Torture, shrink};
use units::Duration;

/// Virtual time unless another is asked for.
const HOURS: u64 = 1;

/// Runs that the search for a shorter history may take: seconds.
const SHRINKING: u32 = 2_000;

pub(crate) fn execute(args: &TortureArgs, console: &Console) -> Result<Outcome, Problem> {
    // A panic of the scheduler is a finding like any other, and is told in its place.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let outcome = match &args.replay {
        Some(_) => replay(args),
        None => hunt(args, console),
    };
    panic::set_hook(hook);
    outcome
}

fn hunt(args: &TortureArgs, console: &Console) -> Result<Outcome, Problem> {
    let whole = match (args.steps, args.hours) {
        (Some(steps), _) => steps,
        (None, hours) => hours.unwrap_or(Duration::from_secs(HOURS * 3_600)).as_nanos(),
    };
    let done = |counts: Counts| if args.steps.is_some() { counts.steps } else { counts.time.as_nanos() };
    let mut progress = Progress::new(console, "torturing", whole);
    let mut torture = Torture::new(args.seed);
    while done(torture.counts()) < whole {
        progress.at(done(torture.counts()));
        if let Err(found) = torture.next_history() {
            let (shortest, failure) = shrink(&found.scenario, &found.failure, SHRINKING);
            drop(progress);
            let mut text = format!(
                "seed {}: history {} of it breaks a promise\n{}\n",
                args.seed, found.history, found.failure
            );
            told(&mut text, &torture.counts());
            let _ = writeln!(text, "the shortest history found that breaks it:");
            return broken(text, &shortest, &failure, args);
        }
    }
    drop(progress);
    let mut text =
        format!("seed {}: {} histories, every promise held\n", args.seed, grouped(torture.histories()));
    told(&mut text, &torture.counts());
    Ok(text.into())
}

fn replay(args: &TortureArgs) -> Result<Outcome, Problem> {
    let Some(path) = &args.replay else { return Ok(String::new().into()) };
    let bytes = files::read(path)?;
    let name = path.display().to_string();
    let text = String::from_utf8_lossy(&bytes);
    let scenario = Scenario::parse(&text).map_err(|error| {
        Problem::failed(format!("{name}:{}: {}", error.line, error.message)).help(
            "`freeblock torture` prints such a file when it finds something; docs/TORTURE.md has the steps",
        )
    })?;
    match torture::run(&scenario) {
        Ok(outcome) => {
            let mut text = format!("{name}: every promise held, actions {:016x}\n", outcome.hash);
            told(&mut text, &outcome.counts);
            Ok(text.into())
        }
        Err(failure) => {
            let (shortest, last) = shrink(&scenario, &failure, SHRINKING);
            let text = format!("{name}: {failure}\nthe shortest history found that breaks it:\n");
            broken(text, &shortest, &last, args)
        }
    }
}

/// Shows a history that breaks a promise.
fn broken(
    mut text: String,
    history: &Scenario,
    failure: &Failure,
    args: &TortureArgs,
) -> Result<Outcome, Problem> {
    let history = format!("# {failure}\n{history}");
    if let Some(path) = &args.output {
        files::replace(path, &history)?;
    }
    text.push_str(&history);
    Ok(Outcome { text, code: 1 })
}

fn told(text: &mut String, counts: &Counts) {
    let hours = counts.time.as_secs_f64() / 3_600.0;
    let _ = writeln!(
        text,
        "  {} steps, {hours:.2} hours of virtual time, {} power cuts, {} commands lost\n  \
         {} foreground requests, {} held against a drive without background; {} commands for promoted work\n  \
         {} background blocks, {} of them written, {} on bad sectors; {} idle visits, {} cut short\n  \
         {} scrubs of a whole drive",
        grouped(counts.steps),
        grouped(counts.power_cuts),
        grouped(counts.lost),
        grouped(counts.requests),
        grouped(counts.compared),
        grouped(counts.promoted),
        grouped(counts.blocks),
        grouped(counts.written),
        grouped(counts.bad),
        grouped(counts.idle),
        grouped(counts.cuts),
        grouped(counts.scrubs),
    );
}
