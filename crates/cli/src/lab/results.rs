//! Results of experiments: new ones, and kept ones, which an earlier run has written to files.

use super::args::LabArgs;
use crate::files;
use crate::output::Console;
use crate::problem::Problem;
use crate::progress::Progress;
use lab::select::select;
use lab::store::{Saved, Stamp};
use lab::{Experiment, Lab, Size};
use std::fs;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The result of an experiment, new or kept.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) experiment: &'static Experiment,
    pub(crate) saved: Saved,
    /// Whether the result is a kept one.
    pub(crate) kept: bool,
}

/// Returns the experiments that were asked for.
///
/// # Errors
/// A name fits no experiment (exit code 2).
pub(crate) fn chosen(args: &LabArgs) -> Result<Vec<&'static Experiment>, Problem> {
    let mut chosen = select(lab::experiments(), &args.ids).map_err(Problem::usage)?;
    if args.exact {
        chosen.retain(|experiment| !experiment.timed);
    }
    if chosen.is_empty() {
        return Err(Problem::usage("--exact leaves none of these experiments: all of them are timed")
            .help("leave out --exact, or name others: `freeblock lab list` shows which are timed"));
    }
    Ok(chosen)
}

/// The part of an experiment that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Claims, figures and notes.
    All,
    /// The claims; figures and notes may be incomplete.
    Claims,
}

/// Returns the findings of the experiments, in their order. Experiments with a result in the directory `kept` do not run. Each
/// finding is passed to `found` as soon as it exists.
///
/// # Errors
/// An experiment fails, or `found` does.
pub(crate) fn obtain(
    args: &LabArgs,
    experiments: &[&'static Experiment],
    wanted: Wanted,
    kept: Option<&Path>,
    console: &Console,
    mut found: impl FnMut(&Finding) -> Result<(), Problem>,
) -> Result<Vec<Finding>, Problem> {
    let stamp = stamp(args)?;
    let bar = Bar(Mutex::new(Progress::of_steps(console)));
    let mut lab = Lab::new(stamp.size, args.seed);
    if let Some(jobs) = args.jobs {
        lab = lab.with_jobs(jobs);
    }
    if wanted == Wanted::Claims {
        lab = lab.for_claims_only();
    }
    let lab = lab.with_progress(&bar);
    let mut findings = Vec::with_capacity(experiments.len());
    for (index, experiment) in experiments.iter().enumerate() {
        if console.is_stopped() {
            return Err(Problem::failed(format!(
                "interrupted after {index} of {} experiments",
                experiments.len()
            )));
        }
        bar.with(|p| p.step(&format!("{} ({} of {})", experiment.id, index + 1, experiments.len())));
        let before = kept.and_then(|directory| read(directory, experiment, &stamp, console));
        let finding = match before {
            Some(saved) => Finding { experiment, saved, kept: true },
            None => {
                let outcome = experiment.conduct(&lab).map_err(Problem::failed)?;
                let command = command(experiment, args);
                let saved =
                    Saved { experiment: experiment.id.into(), stamp: stamp.clone(), command, outcome };
                Finding { experiment, saved, kept: false }
            }
        };
        found(&finding)?;
        findings.push(finding);
    }
    Ok(findings)
}

/// Returns the stamp that identifies results of this program with this size and seed.
fn stamp(args: &LabArgs) -> Result<Stamp, Problem> {
    let unknown = |error| Problem::failed(format!("cannot find this program's own file: {error}"));
    let program = files::read(&std::env::current_exe().map_err(unknown)?)?;
    Ok(Stamp {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program: format!("{:08x}", crc32fast::hash(&program)),
        size: if args.quick { Size::Quick } else { Size::Full },
        seed: args.seed,
    })
}

/// Returns the kept result of an experiment, if its stamp shows that running the experiment would give an equal one.
fn read(directory: &Path, experiment: &Experiment, stamp: &Stamp, console: &Console) -> Option<Saved> {
    let path = directory.join(Saved::file_name(experiment.id));
    if !fs::exists(&path).unwrap_or(false) {
        return None;
    }
    let again = |error: &dyn std::fmt::Display| {
        console.note(&format!("note: {}: {error}; {} runs again", path.display(), experiment.id));
        None
    };
    let text = match files::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(problem) => return again(&problem),
    };
    match Saved::from_json(&text) {
        Ok(saved) if saved.is_of(experiment, stamp) => Some(saved),
        Ok(_) => None,
        Err(error) => again(&error),
    }
}

/// Returns the command that makes an experiment's files.
fn command(experiment: &Experiment, args: &LabArgs) -> String {
    let quick = if args.quick { " --quick" } else { "" };
    format!("freeblock lab run {}{quick} --seed {}", experiment.id, args.seed)
}

/// Creates a directory with its parents.
///
/// # Errors
/// The system's error.
pub(crate) fn make_directory(path: &Path) -> Result<(), Problem> {
    fs::create_dir_all(path).map_err(|error| {
        Problem::failed(format!("cannot make the directory {}: {error}", path.display()))
            .help("name another place with -o")
    })
}

/// The progress bar, shared by several threads.
struct Bar(Mutex<Progress>);

impl Bar {
    fn with(&self, tell: impl FnOnce(&mut Progress)) {
        tell(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl lab::Progress for Bar {
    fn part(&self, done: usize, all: usize) {
        self.with(|progress| progress.parts(done as u64, all as u64));
    }
}
