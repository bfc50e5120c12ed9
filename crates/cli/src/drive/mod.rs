//! `freeblock drive`.

mod args;
mod import;
mod list;
pub(crate) mod resolve;
mod show;
pub(crate) mod validate;

use crate::output::Console;
use crate::problem::Problem;
pub(crate) use args::DriveCommand;

/// The drive that the papers measured; the default of every command.
pub(crate) const DEFAULT_DRIVE: &str = "quantum-atlas-10k";

pub(crate) fn execute(command: DriveCommand, console: &Console) -> Result<String, Problem> {
    match command {
        DriveCommand::List { json } => list::execute(json),
        DriveCommand::Show { drive, json, toml } => show::execute(&drive, json, toml),
        DriveCommand::Import { file, output, disk, name } => {
            import::execute(&file, output.as_deref(), disk.as_deref(), name.as_deref(), console)
        }
        DriveCommand::Validate { drive, trace, json } => validate::execute(&drive, &trace, json, console),
    }
}

/// Returns a value as JSON, indented and with a newline at the end, as all commands print it.
pub(crate) fn json(value: &impl serde::Serialize) -> Result<String, Problem> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Problem::failed(format!("cannot write the result as JSON: {error}")))?;
    Ok(text + "\n")
}
