//! `freeblock torture`: random histories, and one again from a file.

use crate::Outcome;
use crate::args::TortureArgs;
use crate::files;
use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use crate::progress::Progress;
use crate::tables::grouped;
use std::fmt::Write;
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use torture::{Counts, Failure, Scenario, Torture, shrink_until};
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

/// Histories that are over, for who ends it at once.
static OVER: AtomicU64 = AtomicU64::new(0);

fn hunt(args: &TortureArgs, console: &Console) -> Result<Outcome, Problem> {
    let whole = match (args.steps, args.hours) {
        (Some(steps), _) => steps,
        (None, hours) => hours.unwrap_or(Duration::from_secs(HOURS * 3_600)).as_nanos(),
    };
    let done = |counts: Counts| if args.steps.is_some() { counts.steps } else { counts.time.as_nanos() };
    let mut progress = Progress::new(console, "torturing", whole);
    let mut torture = Torture::new(args.seed);
    torture.skip(args.skip);
    let seed = args.seed;
    interrupt::watch(move || {
        let over = OVER.load(Ordering::SeqCst);
        let number = over + 1;
        Console::new().note(&format!(
            "seed {seed}: ended in history {number}; go on with it: freeblock torture --seed {seed} --skip {over}"
        ));
    });
    while done(torture.counts()) < whole {
        progress.at(done(torture.counts()));
        OVER.store(torture.histories(), Ordering::SeqCst);
        if interrupt::came() {
            drop(progress);
            return ended(&torture, whole - done(torture.counts()), args);
        }
        if let Err(found) = torture.next_history() {
            let (shortest, failure) = shorter(&found.scenario, &found.failure);
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

/// Ctrl-C came: what was done, and the command that goes on.
fn ended(torture: &Torture, left: u64, args: &TortureArgs) -> Result<Outcome, Problem> {
    let seed = args.seed;
    let left = match args.steps {
        Some(_) => format!("--steps {left}"),
        None => format!("--hours {}", Duration::from_nanos(left).as_secs_f64() / 3_600.0),
    };
    let next = torture.histories();
    let mut text = format!("seed {seed}: ended before history {}, every promise held so far\n", next + 1);
    told(&mut text, &torture.counts());
    let _ = writeln!(text, "go on with: freeblock torture --seed {seed} --skip {next} {left}");
    if let Some(path) = &args.output {
        files::replace(path, format!("# history {} of seed {seed}\n{}", next + 1, torture.upcoming()))?;
    }
    Ok(Outcome { text, code: 1 })
}

/// The shortest history that is found until Ctrl-C.
fn shorter(scenario: &Scenario, failure: &Failure) -> (Scenario, Failure) {
    shrink_until(scenario, failure, SHRINKING, interrupt::came)
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
            interrupt::watch(|| {});
            let (shortest, last) = shorter(&scenario, &failure);
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
         {} scrubs of a whole drive, {} scans of a table; {} commands to black boxes, {} of them for detours",
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
        grouped(counts.mined),
        grouped(counts.commands),
        grouped(counts.detours),
    );
    let _ = writeln!(
        text,
        "  {} calls of a cache, {} flushes kept, {} snapshots, {} images restored and compared, {} reorganisations\n  \
         {} records fetched, {} times from a full buffer\n  \
         {} requests of a log, cleaned {} times, {} blocks of it in gaps",
        grouped(counts.calls),
        grouped(counts.flushes),
        grouped(counts.snapshots),
        grouped(counts.restores),
        grouped(counts.reorganisations),
        grouped(counts.fetched),
        grouped(counts.full),
        grouped(counts.logged),
        grouped(counts.cleaned),
        grouped(counts.copied),
    );
}
