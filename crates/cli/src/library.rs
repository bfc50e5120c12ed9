//! The command as a library, for the Python module: the same options go through the same code, so that the same seed gives the
//! same numbers.
//!
//! Nothing is printed, and no signal is handled. Arguments are those of the command line without the program's name.

use crate::args::{Cli, Command};
use crate::interrupt;
use crate::output::Console;
use crate::problem::Problem;
use crate::simulate::{self, Given};
pub use crate::simulate::{Parts, Watch};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use miette::Diagnostic;
use std::ffi::OsString;

/// The output of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The text that the command prints on standard output.
    pub text: String,
    /// The exit code of a command that worked: 0, or 1 or 3 as the command's help says.
    pub code: u8,
    /// The lines that the command prints on standard error.
    pub notes: Vec<String>,
}

/// The reason why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whether the arguments are wrong, so that the command did not begin.
    pub usage: bool,
    /// The failure and its place.
    pub message: String,
    /// The advice on how to mend the failure; `None` if there is none to give.
    pub help: Option<String>,
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let help = Diagnostic::help(&problem).map(|help| help.to_string());
        Self { usage: problem.exit_code() == 2, message: problem.to_string(), help }
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        let text = error.render().to_string();
        // Behind the message are a usage line and a hint at `--help`, which a program has no use for.
        let end = ["\n\nUsage:", "\n\nFor more information"].iter().filter_map(|mark| text.find(mark)).min();
        let message = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
        Self { usage: true, message: message.trim_start_matches("error: ").trim_end().to_owned(), help: None }
    }
}

/// An option of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOption {
    /// The option's name without its dashes.
    pub name: String,
    /// The option's help text.
    pub help: String,
    /// Whether the option takes a value.
    pub takes_value: bool,
    /// The values that the option may have; empty if they cannot be listed.
    pub values: Vec<String>,
}

/// Runs a command. Once `stop` returns true, a command that can end early does so: `simulate` with the results so far.
///
/// # Errors
/// Wrong arguments, or a command that failed.
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    stop: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<Answer, Failure> {
    let cli = parse(args)?;
    answer(stop, |console| crate::execute(cli, console))
}

/// Runs `simulate` with parts from the calling program.
///
/// # Errors
/// Wrong arguments, options that do not go with the parts, or a simulation that failed.
pub fn simulate(
    args: impl IntoIterator<Item = OsString>,
    parts: Parts<'_>,
    stop: impl Fn() -> bool + Send + Sync + 'static,
) -> Result<Answer, Failure> {
    match parse(args)?.command {
        Command::Simulate(args) => {
            let given = Given::from(parts);
            answer(stop, |console| simulate::with_parts(&args, given, console))
        }
        _ => Err(Problem::usage("the arguments are not those of simulate").into()),
    }
}

/// Returns the profile of a drive by a built-in name or a file, as `--drive` finds it.
///
/// # Errors
/// The name is neither of a built-in drive nor of a file, or the file describes no drive.
pub fn profile(name: &str) -> Result<model::Profile, Failure> {
    Ok(crate::drive::resolve::resolve(name)?.profile)
}

/// Sets whether running commands that can end early do so at their next opportunity.
pub fn interrupt(on: bool) {
    interrupt::set(on);
}

/// Returns the options of a command, by its names as in `["drive", "show"]`; empty if there is no such command.
pub fn options(names: &[&str]) -> Vec<CommandOption> {
    let mut command = Cli::command();
    for name in names {
        match command.find_subcommand(name) {
            Some(found) => command = found.clone(),
            None => return Vec::new(),
        }
    }
    let options = command.get_arguments().filter(|arg| !arg.is_hide_set());
    options
        .filter_map(|arg| {
            let name = arg.get_long()?.to_owned();
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let takes_value = arg.get_action().takes_values();
            let values = arg.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
            Some(CommandOption { name, help, takes_value, values })
        })
        .collect()
}

fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Cli, Failure> {
    interrupt::leave_to_caller();
    let name = std::iter::once(OsString::from("freeblock"));
    Cli::try_parse_from(name.chain(args)).map_err(|error| match error.kind() {
        // Help and version are texts for a terminal; a program calls `options` instead.
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            Problem::usage("--help and --version print nothing here").help("leave them out").into()
        }
        _ => error.into(),
    })
}

fn answer(
    stop: impl Fn() -> bool + Send + Sync + 'static,
    execute: impl FnOnce(&Console) -> Result<crate::Outcome, Problem>,
) -> Result<Answer, Failure> {
    let console = Console::of_caller(stop);
    let crate::Outcome { text, code } = execute(&console)?;
    Ok(Answer { text, code, notes: console.into_notes() })
}
