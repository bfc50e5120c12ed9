//! The `freeblock` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(freeblock_cli::run(std::env::args_os()))
}
