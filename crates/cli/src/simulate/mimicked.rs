//! What SMTF asks in a simulation.

use crate::args::{SimulateArgs, Switch};
use crate::mimic::load;
use crate::problem::Problem;
use mimic::{Learner, LearnerConfig};
use model::DriveModel;
use scheduler::policy::PolicyName;
use units::Sectors;

/// Refuses a table that nothing asks.
///
/// # Errors
/// `--mimic` without `--policy smtf`.
pub(super) fn check_flags(args: &SimulateArgs) -> Result<(), Problem> {
    if args.mimic.is_some() && !matches!(args.policy, PolicyName::Smtf(_)) {
        return Err(Problem::usage(format!("--mimic does not go with --policy {}", args.policy))
            .help("leave it out, or give --policy smtf"));
    }
    Ok(())
}

/// A learner, if the policy asks one; it starts from the table that is named.
///
/// # Errors
/// A table that cannot be read. One of another drive is taken: SMTF is to notice.
pub(super) fn learner(
    args: &SimulateArgs,
    drive: &DriveModel,
    grain: Sectors,
) -> Result<Option<Learner>, Problem> {
    if !matches!(args.policy, PolicyName::Smtf(_)) {
        return Ok(None);
    }
    let table = args.mimic.as_deref().map(load).transpose()?.map(|saved| saved.table);
    let config = LearnerConfig {
        seed: args.seed,
        probe_idle: args.idle_time == Some(Switch::On),
        ..LearnerConfig::new(drive.layout().capacity(), grain)
    };
    Learner::new(config, table).map(Some).map_err(Problem::failed)
}
