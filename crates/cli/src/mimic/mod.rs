//! `freeblock mimic`.

mod args;
mod check;
mod learning;
mod plot;
mod probe;
mod show;
mod store;

pub(crate) use args::MimicCommand;
pub(crate) use learning::{Learning, LearningArgs, minimum_samples};
pub(crate) use store::{check_capacity, load};

use crate::output::Console;
use crate::probe::DeviceName;
use crate::problem::Problem;
use ::probe::Device;
use units::{Duration, LbnRange, Op};

pub(crate) fn execute(command: MimicCommand, console: &Console) -> Result<String, Problem> {
    match command {
        MimicCommand::Probe(args) => probe::execute(&args, console),
        MimicCommand::Show(args) => show::execute(&args),
        MimicCommand::Check(args) => check::execute(&args, console),
    }
}

/// Opens a drive for reads, and writes to some sectors; where somebody else uses it, that is noted.
///
/// # Errors
/// As [`DeviceName::open_for`].
fn open(
    device: &DeviceName,
    writes: Option<LbnRange>,
    console: &Console,
) -> Result<Box<dyn Device>, Problem> {
    let (device, warning) = device.open_for(writes)?;
    if let Some(warning) = warning {
        console.note(&warning);
    }
    Ok(device)
}

/// Carries out one request at once; how long it took.
///
/// # Errors
/// What the device says.
fn carry_out(device: &mut dyn Device, op: Op, range: LbnRange) -> Result<Duration, Problem> {
    let timed = device.execute(device.now(), op, range).map_err(Problem::failed)?;
    Ok(timed.completed.since(timed.submitted))
}
