//! The knowledge of a served disk's mimic, kept over restarts.

use super::config::Config;
use super::disk_config::DiskConfig;
use super::open::ServedDisk;
use crate::problem::Problem;
use mimic::Learner;
use server::{Learnt, LearntSaver, Running, SAVE_EVERY};

/// Loads the times that a disk's mimic has learnt, from its part of the state directory, and returns the file for later
/// savings. `None` if the disk does not learn, there is no state directory, or the disk is recorded: a recording is replayed on
/// a fresh core, so it must begin with one, and that core's times must not replace the saved ones.
///
/// # Errors
/// The disk's part of the state directory cannot be made.
pub(super) fn go_on(
    disk: &DiskConfig,
    config: &Config,
    opened: &mut ServedDisk,
) -> Result<Option<Learnt>, Problem> {
    let learner = opened.core().mimic::<Learner>();
    let (Some(learner), Some(state), None) = (learner, &config.state, &disk.record) else { return Ok(None) };
    let state = state.join(&disk.name);
    server::files::own_directory(&state).map_err(|e| {
        Problem::failed(format!("{}: {e}", state.display()))
            .help("give a state directory that can be written")
    })?;
    let learnt = Learnt::new(&state, disk.device.drive());
    let learner = learnt.load(*learner.config(), learner.table().cloned()).map_err(Problem::failed)?;
    opened.set_mimic(Box::new(learner));
    Ok(Some(learnt))
}

/// Saves the learnt times at intervals from here on.
///
/// # Errors
/// The system gives no thread.
pub(super) fn keep(learnt: Learnt, running: &Running<ServedDisk>) -> Result<LearntSaver, Problem> {
    LearntSaver::start(learnt, running.mailbox(), SAVE_EVERY).map_err(|e| {
        Problem::failed(format!("no thread to save the learnt times of {}: {e}", running.name()))
    })
}
