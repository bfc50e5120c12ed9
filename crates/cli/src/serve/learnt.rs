//! What a served disk's mimic has learnt, over restarts.

use super::config::{Config, DeviceSpec, DiskConfig};
use super::open::AnyDevice;
use crate::problem::Problem;
use mimic::Learner;
use server::{Disk, Learnt, LearntKeeper, Running, SAVE_EVERY};
use std::any::Any;

/// Lets a disk that learns go on from what its part of the state directory holds. `None` where it does not learn, or there is
/// no state directory.
///
/// # Errors
/// Its part of the state directory cannot be made.
pub(super) fn go_on(
    disk: &DiskConfig,
    config: &Config,
    opened: &mut Disk<AnyDevice>,
) -> Result<Option<Learnt>, Problem> {
    let learner = opened.core().mimic().and_then(|mimic| (mimic as &dyn Any).downcast_ref::<Learner>());
    let (Some(learner), Some(state)) = (learner, &config.state) else { return Ok(None) };
    let state = state.join(&disk.name);
    std::fs::create_dir_all(&state).map_err(|e| {
        Problem::failed(format!("{}: {e}", state.display()))
            .help("give a state directory that can be written")
    })?;
    let drive = match &disk.device {
        DeviceSpec::Raw(path) => path.display().to_string(),
        DeviceSpec::Emulated { drive, .. } => format!("emulated:{drive}"),
    };
    let learnt = Learnt::new(&state, drive);
    let learner = learnt.load(*learner.config()).map_err(Problem::failed)?;
    opened.set_mimic(Box::new(learner));
    Ok(Some(learnt))
}

/// Saves it now and then from here on.
///
/// # Errors
/// The system gives no thread.
pub(super) fn keep(learnt: Learnt, running: &Running<Disk<AnyDevice>>) -> Result<LearntKeeper, Problem> {
    LearntKeeper::start(learnt, running.mailbox(), SAVE_EVERY)
        .map_err(|e| Problem::failed(format!("no thread to save what is learnt of {}: {e}", running.name())))
}
