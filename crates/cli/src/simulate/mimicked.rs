//! SMTF's mimic in a simulation.

use super::args::{SimulateArgs, Switch};
use crate::files;
use crate::mimic::{Learning, load};
use crate::problem::Problem;
use mimic::{Learner, LearnerConfig, LearntError, SavedPart};
use model::DriveModel;
use scheduler::policy::PolicyName;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use units::Sectors;

/// The number of the learner's cells that are written to a file at a time.
const CELLS: usize = 1 << 14;

/// Refuses flags that have no effect.
///
/// # Errors
/// A flag of smtf's without `--policy smtf`, or idle time is to be probed but not used.
pub(super) fn check_flags(args: &SimulateArgs) -> Result<(), Problem> {
    let smtf = matches!(args.policy, PolicyName::Smtf(_));
    let files = [args.mimic.as_ref().map(|_| "--mimic"), args.learnt.as_ref().map(|_| "--learnt")];
    for flag in files.into_iter().chain([args.learning.given()]).flatten() {
        if !smtf {
            return Err(Problem::usage(format!("{flag} does not go with --policy {}", args.policy))
                .help("omit the option, or give --policy smtf"));
        }
    }
    if args.learning.mimic_probe_idle && args.idle_time != Some(Switch::On) {
        return Err(Problem::usage("--mimic-probe-idle needs idle time").help("give --idle-time on as well"));
    }
    Ok(())
}

/// Makes a learner if the policy uses one. The learner continues from the file of `--learnt`, or starts from the table of
/// `--mimic`.
///
/// # Errors
/// One of the files cannot be read, or the file of `--learnt` is of another drive. A table of another drive is accepted,
/// because SMTF notices that by the times that it measures.
pub(super) fn learner(
    args: &SimulateArgs,
    name: &str,
    drive: &DriveModel,
    grain: Sectors,
) -> Result<Option<Learner>, Problem> {
    if !matches!(args.policy, PolicyName::Smtf(_)) {
        return Ok(None);
    }
    let learning = Learning::from(args.learning);
    let config = LearnerConfig { seed: args.seed, ..learning.config(drive.layout().capacity(), grain) };
    // A damaged table is refused even if it is not needed.
    let table = args.mimic.as_deref().map(load).transpose()?.map(|saved| saved.table);
    if let Some(path) = &args.learnt {
        files::check_replaceable(path)?;
        if path.exists() {
            let refused = |error: LearntError| {
                // This mistake is in the flags, not in the file.
                if let LearntError::Config(error) = error {
                    return Problem::failed(error);
                }
                Problem::failed(format!("{}: {error}", path.display())).help(format!(
                    "remove {0}, or name a file that is not there, and smtf begins anew; nothing of {0} has changed",
                    path.display()
                ))
            };
            return Learner::read(config, name, &mut files::open(path)?).map(Some).map_err(refused);
        }
    }
    Learner::new(config, table).map(Some).map_err(Problem::failed)
}

/// Writes the learner's state to the file of `--learnt`.
///
/// # Errors
/// The file cannot be written; its old content is still there then.
pub(super) fn keep(args: &SimulateArgs, name: &str, learner: Option<&Learner>) -> Result<(), Problem> {
    match (&args.learnt, learner) {
        (Some(path), Some(learner)) => files::replace_with(path, |file| write(learner, name, file)),
        _ => Ok(()),
    }
}

/// Writes the state in parts, because a copy of the whole state would double the memory.
fn write(learner: &Learner, name: &str, file: &mut File) -> io::Result<()> {
    let mut saving = learner.begin_saving(name);
    loop {
        match saving.go_on(learner, CELLS) {
            SavedPart::Part(bytes) => file.write_all(&bytes)?,
            SavedPart::Last { bytes, beginning } => {
                file.write_all(&bytes)?;
                file.seek(SeekFrom::Start(0))?;
                return file.write_all(&beginning);
            }
            // The learner gets no times while it is saved, so it forgets nothing.
            SavedPart::Forgotten => {
                return Err(io::Error::other("the learner's state was dropped while it was saved"));
            }
        }
    }
}
