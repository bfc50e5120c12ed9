//! The knowledge that a scheduler outside the drive has of the drive: everything, a profile, or its size.

use super::args::{SimulateArgs, Switch, Where};
use crate::drive::resolve::{Resolved, resolve};
use crate::problem::Problem;
use model::DriveModel;
use scheduler::{OutsideConfig, Overheads};
use std::sync::Arc;

/// The profile of `--profile`, believed to the same extent as by a daemon.
pub(super) struct GivenProfile {
    model: Arc<DriveModel>,
    overheads: Overheads,
}

impl GivenProfile {
    /// Reads `--profile`; `None` without this flag.
    ///
    /// # Errors
    /// The scheduler uses no profile, or the profile cannot be read, has no costs of commands, or is of another size.
    pub(super) fn of(args: &SimulateArgs, of: &str, drive: &DriveModel) -> Result<Option<Self>, Problem> {
        let Some(name) = &args.profile else { return Ok(None) };
        if args.place() != Where::Outside {
            return Err(Problem::usage("--profile does not go with a scheduler in the drive").help(
                "give --where outside as well: in the drive everything is known, and --drive says what it is",
            ));
        }
        if args.blind {
            return Err(Problem::usage("--profile does not go with --blind")
                .help("leave one of them out: with --blind nothing is known of the drive but its size"));
        }
        if name == "none" {
            return Err(Problem::usage(
                "--profile none: a simulated drive of which nothing is known is --blind",
            )
            .help("give --blind in its place"));
        }
        let found = resolve(name).map_err(|problem| problem.of("--profile"))?;
        let overheads = found.overheads(&format!("--profile {name}: it"))?;
        check_size(name, &found, of, drive)?;
        Ok(Some(Self { model: Arc::new(found.model), overheads }))
    }
}

/// Checks that the profile has the drive's size: a daemon serves a disk only with a profile of the disk's size.
fn check_size(name: &str, found: &Resolved, drive: &str, truth: &DriveModel) -> Result<(), Problem> {
    let size = |model: &DriveModel| (model.layout().capacity().get(), model.sector_bytes().get());
    let ((has, sector), (sectors, sector_bytes)) = (size(truth), size(&found.model));
    if (has, sector) == (sectors, sector_bytes) {
        return Ok(());
    }
    Err(Problem::usage(format!(
        "--profile {name}: the profile is of {sectors} sectors of {sector_bytes} bytes, and the drive {drive} has {has} of {sector}"
    ))
    .help(format!(
        "give a profile of a drive of this size, such as `freeblock probe emulated:{drive}` finds, or another --drive"
    )))
}

/// Returns the scheduler's model of the drive, and its configuration. `overheads` are the true costs of commands.
///
/// # Errors
/// The drive has more sectors than a profile can describe.
pub(super) fn believed(
    args: &SimulateArgs,
    truth: Arc<DriveModel>,
    overheads: Overheads,
    given: Option<&GivenProfile>,
) -> Result<(Arc<DriveModel>, OutsideConfig), Problem> {
    let served = |place: OutsideConfig| match args.pass_through {
        Some(Switch::Off) => place,
        Some(Switch::On) | None => place.serving(),
    };
    if args.blind {
        let unknown = DriveModel::unknown(truth.layout().capacity(), truth.sector_bytes());
        return Ok((Arc::new(unknown.map_err(Problem::failed)?), served(OutsideConfig::blind())));
    }
    let (known, overheads) = match given {
        None => (truth, overheads),
        Some(given) => (Arc::clone(&given.model), given.overheads),
    };
    let place = match args.conservatism {
        Some(margin) => OutsideConfig::paper(overheads, margin),
        None => served(OutsideConfig::beyond(overheads)),
    };
    Ok((known, place))
}
