//! What a scheduler outside the drive is told of it: everything, what a profile says, or its size.

use crate::args::{SimulateArgs, Switch, Where};
use crate::drive::resolve::{Resolved, resolve};
use crate::problem::Problem;
use model::DriveModel;
use scheduler::policy::PolicyName;
use scheduler::{OutsideConfig, Overheads};
use std::sync::Arc;

/// What `--profile` says of a drive, believed as far as a daemon believes its disk's.
pub(super) struct Told {
    model: DriveModel,
    overheads: Overheads,
}

impl Told {
    /// What the flag says; without it nothing.
    ///
    /// # Errors
    /// A profile where none is believed, one that cannot be read or does not say what commands cost, one of another size.
    pub(super) fn of(args: &SimulateArgs, drive: &DriveModel) -> Result<Option<Self>, Problem> {
        let Some(name) = &args.profile else { return Ok(None) };
        if args.place != Where::Outside {
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
        check_size(name, &found, &args.drive, drive)?;
        Ok(Some(Self { model: found.model, overheads }))
    }
}

/// As a daemon does, which serves no disk of another size than its profile's.
fn check_size(name: &str, found: &Resolved, drive: &str, truth: &DriveModel) -> Result<(), Problem> {
    let size = |model: &DriveModel| (model.layout().capacity().get(), model.sector_bytes().get());
    let ((has, sector), (told, told_sector)) = (size(truth), size(&found.model));
    if (has, sector) == (told, told_sector) {
        return Ok(());
    }
    Err(Problem::usage(format!(
        "--profile {name}: it is of {told} sectors of {told_sector} bytes, and the drive {drive} has {has} of {sector}"
    ))
    .help(format!(
        "give a profile of a drive of this size, such as `freeblock probe emulated:{drive}` finds, or another --drive"
    )))
}

/// What the scheduler believes of the drive, and how it is set up then. `overheads` are what its commands cost in truth.
///
/// # Errors
/// More sectors than any drive has.
pub(super) fn believed(
    args: &SimulateArgs,
    truth: Arc<DriveModel>,
    overheads: Overheads,
    told: Option<Told>,
) -> Result<(Arc<DriveModel>, OutsideConfig), Problem> {
    let served = |place: OutsideConfig| match args.pass_through {
        Some(Switch::On) => place.serving(),
        _ => place,
    };
    if args.blind {
        let unknown = DriveModel::unknown(truth.layout().capacity(), truth.sector_bytes());
        return Ok((Arc::new(unknown.map_err(Problem::failed)?), served(OutsideConfig::blind())));
    }
    let (known, overheads) = match told {
        None => (truth, overheads),
        Some(told) => (Arc::new(told.model), told.overheads),
    };
    let place = match args.conservatism {
        Some(margin) => OutsideConfig::paper(overheads, margin),
        None => served(OutsideConfig::beyond(overheads)),
    };
    Ok((known, place))
}

/// What a policy does that asks for positions where nobody knows any, as a sentence.
pub(crate) fn without_positions(policy: PolicyName) -> Option<String> {
    matches!(policy, PolicyName::Sptf | PolicyName::SptfSw(_)).then(|| {
        format!(
            "nothing is known of where sectors lie, so that {policy} goes by LBN distance, as sstf does; smtf learns the times"
        )
    })
}
