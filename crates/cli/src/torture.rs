//! `freeblock torture`: random histories, and the replay of one from a file.

pub(crate) mod args;

use self::args::{SeedOrRandom, TortureArgs};
use crate::Outcome;
use crate::files;
use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use crate::progress::Progress;
use crate::tables::grouped;
use std::fmt::Write;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::panic;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;
use std::time::Instant;
use torture::{Counts, Failure, Scenario, Torture, shrink_until};
use units::Duration;

/// The default virtual time in hours.
const HOURS: u64 = 1;

/// Bounds the runs in the search for a shorter history, so that it takes only seconds.
const SHRINK_RUNS_MAX: u32 = 2_000;

pub(crate) fn execute(args: &TortureArgs, console: &Console) -> Result<Outcome, Problem> {
    // A panic of the scheduler is reported as a broken promise, not by the default hook.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let outcome = match &args.replay {
        Some(_) => replay(args),
        None => hunt(args, console),
    };
    panic::set_hook(hook);
    outcome
}

/// The number of finished histories, which a second Ctrl-C reports.
static OVER: AtomicU64 = AtomicU64::new(0);

/// The length of the whole run: in steps, in virtual time or in real time.
enum Whole {
    Steps(u64),
    Virtual(Duration),
    Clock(Duration, Instant),
}

impl Whole {
    fn of(args: &TortureArgs) -> Self {
        match (args.steps, args.minutes, args.hours) {
            (Some(steps), ..) => Self::Steps(steps),
            (None, Some(minutes), _) => Self::Clock(minutes, Instant::now()),
            (None, None, hours) => Self::Virtual(hours.unwrap_or(Duration::from_secs(HOURS * 3_600))),
        }
    }

    fn all(&self) -> u64 {
        match self {
            Self::Steps(steps) => *steps,
            Self::Virtual(time) | Self::Clock(time, _) => time.as_nanos(),
        }
    }

    fn done(&self, counts: &Counts) -> u64 {
        match self {
            Self::Steps(_) => counts.steps,
            Self::Virtual(_) => counts.time.as_nanos(),
            Self::Clock(_, begun) => u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX),
        }
    }

    /// Returns the option by which another command does the rest of the run.
    fn rest(&self, counts: &Counts) -> String {
        let left = self.all().saturating_sub(self.done(counts));
        let seconds = Duration::from_nanos(left).as_secs_f64();
        match self {
            Self::Steps(_) => format!("--steps {left}"),
            Self::Virtual(_) => format!("--hours {}", seconds / 3_600.0),
            Self::Clock(..) => format!("--minutes {:.2}", (seconds / 60.0).max(0.01)),
        }
    }
}

fn hunt(args: &TortureArgs, console: &Console) -> Result<Outcome, Problem> {
    let whole = Whole::of(args);
    let mut progress = Progress::new(console, "torturing", whole.all());
    let seed = match args.seed {
        SeedOrRandom::Seed(seed) => seed,
        SeedOrRandom::Random => RandomState::new().build_hasher().finish(),
    };
    let mut torture = Torture::new(seed);
    // The options that choose the histories.
    let mut chosen = format!("--seed {seed}");
    if let Some(host) = args.host.0 {
        torture = torture.on(host);
        let _ = write!(chosen, " --host {host}");
    }
    torture.skip(args.skip);
    let again = chosen.clone();
    interrupt::watch(move || {
        let over = OVER.load(Ordering::SeqCst);
        let number = over + 1;
        Console::new().note(&format!(
            "seed {seed}: ended in history {number}; continue with: freeblock torture {again} --skip {over}"
        ));
    });
    let jobs = args.jobs.or_else(|| available_parallelism().ok().map(usize::from)).unwrap_or(1);
    let ended = torture.go_on(jobs, |torture| {
        let done = whole.done(&torture.counts());
        progress.at(done);
        OVER.store(torture.histories(), Ordering::SeqCst);
        done < whole.all() && !interrupt::came()
    });
    if let Err(found) = ended {
        let (shortest, failure) = shorter(&found.scenario, &found.failure);
        drop(progress);
        let mut text =
            format!("seed {seed}: history {} breaks a promise\n{}\n", found.history, found.failure);
        write_counts(&mut text, &torture.counts());
        let _ = writeln!(text, "the shortest history found that breaks it:");
        return broken(text, &shortest, &failure, args);
    }
    drop(progress);
    if interrupt::came() && whole.done(&torture.counts()) < whole.all() {
        let _ = write!(chosen, " --skip {} {}", torture.histories(), whole.rest(&torture.counts()));
        return interrupted(&torture, seed, &chosen, args);
    }
    let mut text = format!("seed {seed}: {} histories, every promise held\n", grouped(torture.histories()));
    write_counts(&mut text, &torture.counts());
    Ok(text.into())
}

/// Reports after Ctrl-C how far the run came, and the options to continue it.
fn interrupted(torture: &Torture, seed: u64, rest: &str, args: &TortureArgs) -> Result<Outcome, Problem> {
    let next = torture.histories();
    let mut text = format!("seed {seed}: ended before history {}, every promise held so far\n", next + 1);
    write_counts(&mut text, &torture.counts());
    let _ = writeln!(text, "go on with: freeblock torture {rest}");
    if let Some(path) = &args.output {
        files::replace(path, format!("# history {} of seed {seed}\n{}", next + 1, torture.upcoming()))?;
    }
    Ok(Outcome { text, code: 1 })
}

/// Returns the shortest failing history that is found in `SHRINK_RUNS_MAX` runs or before Ctrl-C.
fn shorter(scenario: &Scenario, failure: &Failure) -> (Scenario, Failure) {
    shrink_until(scenario, failure, SHRINK_RUNS_MAX, interrupt::came)
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
            write_counts(&mut text, &outcome.counts);
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

/// Reports a history that breaks a promise.
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

fn write_counts(text: &mut String, counts: &Counts) {
    let hours = counts.time.as_secs_f64() / 3_600.0;
    let _ = writeln!(
        text,
        "  {} steps, {hours:.2} hours of virtual time, {} power cuts, {} commands lost\n  \
         {} foreground requests, {} held against a drive without background; {} commands for promoted work\n  \
         {} background blocks, {} of them written, {} on bad sectors; {} idle visits, {} cut short\n  \
         {} scrubs of a whole drive, {} scans of a table; {} commands to black boxes, {} of them for detours, {} for the host; {} models adopted",
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
        grouped(counts.readings),
        grouped(counts.adopted),
    );
    let _ = writeln!(
        text,
        "  {} calls of a cache, {} flushes kept, {} snapshots, {} images restored and compared, {} reorganisations\n  \
         {} records fetched, {} times from a full buffer\n  \
         {} requests of a log, cleaned {} times, {} blocks of it in gaps\n  \
         {} reads at background exports, {} of snapshots, {} kills of the daemon",
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
        grouped(counts.background_reads),
        grouped(counts.snapshot_reads),
        grouped(counts.kills),
    );
}
