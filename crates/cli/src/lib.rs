//! The `freeblock` command: parsing and wiring. What it knows about drives, loads and scheduling is in the other
//! crates.
//!
//! A command makes its whole output before any of it is printed, so one that fails prints nothing but its error.
//! The exit code is 0 when it worked, 1 when it failed, 2 when it was called wrongly; 3 when `freeblock probe` found a part of the
//! drive only.

mod args;
mod bars;
mod caution;
mod demo;
mod differs;
mod drive;
#[cfg(target_os = "linux")]
mod emulate;
mod files;
#[cfg(target_os = "linux")]
mod inspect;
mod interrupt;
mod lab;
mod mimic;
mod output;
mod probe;
mod problem;
mod progress;
#[cfg(target_os = "linux")]
mod repair;
#[cfg(target_os = "linux")]
mod serve;
mod simulate;
mod tables;
#[cfg(unix)]
mod tasks;
mod torture;
mod values;

use args::{Cli, Command};
use clap::Parser;
use output::Console;
use problem::Problem;
use std::ffi::OsString;

/// What a command has to say, and with which exit code.
#[derive(Debug)]
struct Outcome {
    /// For standard output.
    text: String,
    /// 0, 1 for a command that worked and found what must not be, or 3 for a probe that found a part of the drive only.
    code: u8,
}

impl From<String> for Outcome {
    fn from(text: String) -> Self {
        Self { text, code: 0 }
    }
}

/// Whether a text is a configuration of `freeblock serve`; `name` is what errors call it. For tests with hostile texts.
///
/// # Errors
/// What `serve` would say, with the place underlined.
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub fn check_config(text: &str, name: &str) -> Result<(), String> {
    let mut said = String::new();
    let checked = serve::check_config(text, name);
    let shown = |problem: &Problem| {
        // A string takes whatever is written to it.
        let _ = miette::NarratableReportHandler::new().render_report(&mut said, problem);
    };
    checked.inspect_err(shown).map_err(|_| said)
}

/// A core, of what a recording says that its disk's was made of. For tests with hostile recordings.
///
/// # Errors
/// What `simulate --replay-live` would say.
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub fn core_of_recording(setup: &serde_json::Value) -> Result<scheduler::Core, String> {
    serve::recipe::Recipe::from_setup(setup)?.core()
}

/// Runs the command that the arguments (the program's name first) ask for, and prints what it says. Returns the
/// exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let console = Console::new();
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and the version go to standard output, mistakes to standard error; a reader that has gone away
            // does not matter to either.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    match execute(cli, &console) {
        Ok(outcome) => match console.print(&outcome.text) {
            Ok(()) => outcome.code,
            Err(error) => {
                console.report(&Problem::failed(format!("cannot write to standard output: {error}")));
                1
            }
        },
        Err(problem) => {
            console.report(&problem);
            problem.exit_code()
        }
    }
}

fn execute(cli: Cli, console: &Console) -> Result<Outcome, Problem> {
    match cli.command {
        Command::Drive(command) => drive::execute(command, console).map(Outcome::from),
        Command::Simulate(args) => simulate::execute(&args, console),
        Command::Lab(command) => lab::execute(command, console),
        Command::Demo(args) => demo::execute(&args, console),
        Command::Probe(args) => probe::execute(&args, console),
        #[cfg(target_os = "linux")]
        Command::Inspect(args) => inspect::execute(&args).map(Outcome::from),
        #[cfg(target_os = "linux")]
        Command::Emulate(args) => emulate::execute(&args, console).map(Outcome::from),
        #[cfg(target_os = "linux")]
        Command::Serve(args) => serve::execute(&args, console).map(Outcome::from),
        #[cfg(target_os = "linux")]
        Command::Repair(args) => repair::execute(&args),
        #[cfg(unix)]
        Command::Scrub(args) => tasks::scrub(&args, console).map(Outcome::from),
        #[cfg(unix)]
        Command::Backup(args) => tasks::backup(&args, console).map(Outcome::from),
        #[cfg(unix)]
        Command::Replica(args) => tasks::replica(&args, console).map(Outcome::from),
        #[cfg(unix)]
        Command::Restore(args) => tasks::restore(&args, console).map(Outcome::from),
        #[cfg(unix)]
        Command::Reorganize(args) => tasks::reorganize(&args, console).map(Outcome::from),
        #[cfg(unix)]
        Command::Status(args) => tasks::status(&args).map(Outcome::from),
        #[cfg(unix)]
        Command::Tasks(args) => tasks::tasks(&args).map(Outcome::from),
        #[cfg(unix)]
        Command::Pause(args) => tasks::act(&args, "pause").map(Outcome::from),
        #[cfg(unix)]
        Command::Resume(args) => tasks::act(&args, "resume").map(Outcome::from),
        #[cfg(unix)]
        Command::Cancel(args) => tasks::act(&args, "cancel").map(Outcome::from),
        #[cfg(unix)]
        Command::Priority(args) => tasks::priority(&args).map(Outcome::from),
        Command::Torture(args) => torture::execute(&args, console),
        Command::Mimic(command) => mimic::execute(command, console).map(Outcome::from),
    }
}
