//! The `freeblock` command: parsing and wiring. Drives, loads and scheduling are in the other crates.
//!
//! A command makes its whole output before any of it is printed, so a command that fails prints only its error. The exit code
//! is 0 for success, 1 for a failure, 2 for wrong usage, and 3 for an incomplete result: `freeblock probe` found only a part of
//! the drive, or Ctrl-C ended `freeblock simulate` early.

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
#[cfg(feature = "lab")]
mod lab;
pub mod library;
mod measured;
mod mimic;
mod output;
mod pages;
mod probe;
mod problem;
mod progress;
#[cfg(target_os = "linux")]
mod recipe;
#[cfg(target_os = "linux")]
mod repair;
#[cfg(target_os = "linux")]
mod serve;
mod simulate;
#[cfg(target_os = "linux")]
mod switches;
mod tables;
#[cfg(unix)]
mod tasks;
#[cfg(feature = "lab")]
mod torture;
mod traces;
mod values;

use args::{Cli, Command};
use clap::Parser;
use output::Console;
use problem::Problem;
use std::ffi::OsString;

/// The output of a command and its exit code.
#[derive(Debug)]
struct Outcome {
    /// The text for standard output.
    text: String,
    /// The exit code: 0; 1 for a command that worked and found a violation; or 3 for an incomplete result (see the crate's
    /// text).
    code: u8,
}

impl From<String> for Outcome {
    fn from(text: String) -> Self {
        Self { text, code: 0 }
    }
}

/// Checks whether a text is a configuration of `freeblock serve`; `name` stands for the file in errors. For tests with hostile
/// texts.
///
/// # Errors
/// The error of `serve`, with the place underlined.
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub fn check_config(text: &str, name: &str) -> Result<(), String> {
    let mut said = String::new();
    let checked = serve::check_config(text, name);
    let shown = |problem: &Problem| {
        // Writing to a string does not fail.
        let _ = miette::NarratableReportHandler::new().render_report(&mut said, problem);
    };
    checked.inspect_err(shown).map_err(|_| said)
}

/// Makes a core from the setup in a recording. For tests with hostile recordings.
///
/// # Errors
/// The error of `simulate --replay-live`.
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub fn core_of_recording(setup: &serde_json::Value) -> Result<scheduler::OutsideDrive, String> {
    recipe::Recipe::from_setup(setup)?.core()
}

/// Runs the command in the arguments (the program's name first) and prints its output. Returns the exit code.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let console = Console::new();
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and the version go to standard output, mistakes to standard error. A reader that is gone does not matter in
            // either case.
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
        #[cfg(feature = "lab")]
        Command::Lab(command) => lab::execute(command, console),
        Command::Demo(args) => demo::execute(&args, console),
        #[cfg(unix)]
        Command::Probe(args) if !args.control.is_empty() => {
            tasks::probe(&args.control, args.json).map(Into::into)
        }
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
        Command::Scrub(args) => tasks::scrub(&args, console),
        #[cfg(unix)]
        Command::Backup(args) => tasks::backup(&args, console).map(Outcome::from),
        #[cfg(unix)]
        Command::Replica(args) => tasks::replica(&args, console).map(Outcome::from),
        #[cfg(unix)]
        Command::Restore(args) => tasks::restore(&args, console).map(Outcome::from),
        #[cfg(unix)]
        Command::Reorganize(args) => tasks::reorganize(&args, console).map(Outcome::from),
        #[cfg(unix)]
        Command::Verify(args) => tasks::verify(&args, console),
        #[cfg(unix)]
        Command::Snapshot(args) => tasks::snapshot(&args, console).map(Outcome::from),
        #[cfg(unix)]
        Command::Snapshots(args) => tasks::snapshots(&args, console).map(Outcome::from),
        #[cfg(unix)]
        Command::Status(args) => tasks::status(&args),
        #[cfg(unix)]
        Command::Tasks(args) => tasks::tasks(&args, console),
        #[cfg(unix)]
        Command::Pause(args) => tasks::act(&args, "pause").map(Outcome::from),
        #[cfg(unix)]
        Command::Resume(args) => tasks::act(&args, "resume").map(Outcome::from),
        #[cfg(unix)]
        Command::Cancel(args) => tasks::act(&args, "cancel").map(Outcome::from),
        #[cfg(unix)]
        Command::Priority(args) => tasks::priority(&args).map(Outcome::from),
        #[cfg(feature = "lab")]
        Command::Torture(args) => torture::execute(&args, console),
        Command::Mimic(command) => mimic::execute(command, console).map(Outcome::from),
        Command::Completions(args) => Ok(pages::completions(&args).into()),
        Command::Man(args) => pages::man(&args).map(Outcome::from),
    }
}
