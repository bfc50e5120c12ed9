//! `freeblock lab`.

pub(crate) mod args;
mod check;
mod known;
mod list;
mod report;
mod results;
mod run;
mod show;

use self::args::LabCommand;
use crate::Outcome;
use crate::output::Console;
use crate::problem::Problem;

pub(crate) fn execute(command: LabCommand, console: &Console) -> Result<Outcome, Problem> {
    match command {
        LabCommand::List { json } => list::execute(json).map(Outcome::from),
        LabCommand::Run { lab, output, resume } => {
            run::execute(&lab, &output, resume, console).map(Outcome::from)
        }
        LabCommand::Check { lab, resume, known, json } => {
            check::execute(&lab, resume.as_deref(), known.as_deref(), json, console)
        }
        LabCommand::Report { lab, output, resume, validate, ledger } => {
            report::execute(&lab, &output, resume.as_deref(), &validate, &ledger, console).map(Outcome::from)
        }
    }
}
