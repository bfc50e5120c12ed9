//! `freeblock mimic`.

mod args;
mod check;
#[cfg(feature = "lab")]
mod figure;
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
use ::probe::ProbedDevice;
use units::{Duration, Lbn, LbnRange, Op};

pub(crate) fn execute(command: MimicCommand, console: &Console) -> Result<String, Problem> {
    match command {
        MimicCommand::Probe(args) => probe::execute(&args, console),
        MimicCommand::Show(args) => show::execute(&args),
        MimicCommand::Check(args) => check::execute(&args, console),
    }
}

/// Opens a drive for reads, and for writes to some sectors; prints a note if it is in use elsewhere.
///
/// # Errors
/// As [`DeviceName::open_for`].
fn open(
    device: &DeviceName,
    writes: Option<LbnRange>,
    console: &Console,
) -> Result<Box<dyn ProbedDevice>, Problem> {
    let (device, warning) = device.open_for(writes)?;
    if let Some(warning) = warning {
        console.note(&warning);
    }
    Ok(device)
}

/// The result of a request.
#[derive(Clone, Copy, Debug)]
enum Went {
    /// The request was done in this time.
    Done(Duration),
    /// This sector cannot be read; the drive reported that after this time.
    Unreadable(Lbn, Duration),
}

/// Executes one request at once.
///
/// # Errors
/// The device's error, except for a sector that cannot be read.
fn carry_out(device: &mut dyn ProbedDevice, op: Op, range: LbnRange) -> Result<Went, Problem> {
    let at = device.now();
    match device.execute(at, op, range) {
        Ok(timed) => Ok(Went::Done(timed.completed.since(timed.submitted))),
        Err(error) => match error.unreadable {
            Some(lbn) => Ok(Went::Unreadable(lbn, device.now().saturating_since(at))),
            None => Err(Problem::failed(error)),
        },
    }
}
