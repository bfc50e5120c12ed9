//! `freeblock mimic`.

mod args;
mod check;
mod plot;
mod probe;
mod show;
mod store;

pub(crate) use args::MimicCommand;
pub(crate) use store::load;

use crate::output::Console;
use crate::problem::Problem;

pub(crate) fn execute(command: MimicCommand, console: &Console) -> Result<String, Problem> {
    match command {
        MimicCommand::Probe(args) => probe::execute(&args, console),
        MimicCommand::Show(args) => show::execute(&args),
        MimicCommand::Check(args) => check::execute(&args, console),
    }
}
