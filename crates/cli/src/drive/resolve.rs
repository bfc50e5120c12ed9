//! Finds a drive by the name that a user gives: a built-in name, a profile file or a DiskSim file.

use crate::files;
use crate::problem::Problem;
use model::builtin::{self, BuiltinError};
use model::{DriveModel, Profile, ProfileError, ReadError, disksim};
use scheduler::Overheads;
use std::ops::Range;
use std::path::Path;
use toml::de::DeTable;

/// A drive that was found and checked.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// The profile as TOML: the text of its file, or the text that would be written for an imported one.
    pub(crate) text: String,
    /// The parsed profile.
    pub(crate) profile: Profile,
    /// The drive model made from the profile.
    pub(crate) model: DriveModel,
}

impl Resolved {
    /// Returns the costs of commands at a drive of which only this profile is known. They assume that the drive takes several
    /// commands and overlaps them. `who` names the profile in an error.
    ///
    /// # Errors
    /// The profile has no costs.
    pub(crate) fn overheads(&self, who: &str) -> Result<Overheads, Problem> {
        let firmware = self.profile.firmware.as_ref().ok_or_else(|| {
            Problem::failed(format!("{who} does not give the overhead of commands"))
                .help("give a profile with a [firmware] table, as `freeblock probe` writes it")
        })?;
        Ok(Overheads::of(firmware, &self.model, true))
    }
}

/// Returns the drive called `name`. A built-in drive takes precedence over a file of the same name; `./NAME` is always a file.
///
/// # Errors
/// The name is neither of a built-in drive nor of a file (exit code 2), or the file cannot be read or describes no drive (exit
/// code 1).
pub(crate) fn resolve(name: &str) -> Result<Resolved, Problem> {
    let path = Path::new(name);
    match builtin::find(name) {
        Ok(profile) => {
            let text = builtin::text(name).unwrap_or_default().to_owned();
            ready(name, text, profile)
        }
        Err(_) if looks_like_a_file(path) => match extension(path).as_str() {
            "parv" | "diskspecs" | "model" => imported(path),
            _ => written(path),
        },
        Err(BuiltinError::Unknown(unknown)) => {
            Err(Problem::usage(unknown).help("give a built-in drive's name, or a file (.toml, .parv)"))
        }
        Err(error) => Err(Problem::failed(error)),
    }
}

fn extension(path: &Path) -> String {
    path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase()
}

fn looks_like_a_file(path: &Path) -> bool {
    let known = ["toml", "parv", "diskspecs", "model"].contains(&extension(path).as_str());
    known || path.components().count() > 1 || path.is_absolute() || path.exists()
}

/// Returns the advice for a file that cannot be read.
fn instead() -> String {
    format!(
        "give the file of a profile (.toml, or DiskSim's .parv, .diskspecs or .model), or a built-in drive's name: {}",
        builtin::names().join(", ")
    )
}

fn imported(path: &Path) -> Result<Resolved, Problem> {
    files::open(path).map_err(|problem| problem.help(instead()))?;
    let imported = disksim::import(path).map_err(Problem::failed)?;
    ready(&path.display().to_string(), imported.profile.to_toml(), imported.profile)
}

fn written(path: &Path) -> Result<Resolved, Problem> {
    let name = path.display().to_string();
    let text = String::from_utf8(files::read(path).map_err(|problem| problem.help(instead()))?).map_err(
        |error| {
            let at = error.utf8_error().valid_up_to();
            Problem::failed(format!("{name}: byte {at} is no text in UTF-8"))
                .help("give a profile in TOML, or a DiskSim file (.parv, .diskspecs, .model)")
        },
    )?;
    match Profile::from_toml(&text, &name) {
        Ok(profile) => ready(&name, text, profile),
        Err(ReadError::Toml { line, column, message, span, .. }) => {
            Err(Problem::failed(format!("{name}:{line}:{column}: {message}"))
                .help("`freeblock drive show NAME --toml` prints a profile that works")
                .at(&name, &text, span, "here"))
        }
        Err(error) => Err(Problem::failed(error)),
    }
}

/// Returns the drive of a profile.
///
/// # Errors
/// The profile does not describe a possible drive.
pub(crate) fn ready(name: &str, text: String, profile: Profile) -> Result<Resolved, Problem> {
    match DriveModel::from_profile(&profile) {
        Ok(model) => Ok(Resolved { text, profile, model }),
        Err(ProfileError { place, problem, mend, .. }) => {
            let failed = Problem::failed(format!("{name}: {place}: {problem}")).help(mend);
            Err(match place_in(&text, &place) {
                Some(span) => failed.at(name, &text, span, &problem),
                None => failed,
            })
        }
    }
}

/// Returns the position of the field called `place` (`layout.zone[3].first_cylinder`) in a TOML text, or of its
/// innermost table that exists.
fn place_in(text: &str, place: &str) -> Option<Range<usize>> {
    let root = DeTable::parse(text).ok()?;
    let mut table = Some(root.get_ref());
    let mut found = None;
    for step in place.split('.') {
        let (key, indices) = step.split_once('[').unwrap_or((step, ""));
        let Some(mut value) = table.and_then(|table| table.get(key)) else { break };
        for index in indices.split('[').filter_map(|index| index.trim_end_matches(']').parse::<usize>().ok())
        {
            let Some(item) = value.get_ref().as_array().and_then(|array| array.get(index)) else { break };
            value = item;
        }
        found = Some(value.span());
        table = value.get_ref().as_table();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_path() {
        let text = "rpm = 1\n[layout]\n[[layout.zone]]\nlast = 5\n[[layout.zone]]\nlast = [7, [8, 9]]\n";
        let at = |place: &str| place_in(text, place).and_then(|span| text.get(span));
        assert_eq!(at("rpm"), Some("1"));
        assert_eq!(at("layout.zone[0].last"), Some("5"));
        assert_eq!(at("layout.zone[1].last[1][0]"), Some("8"));
        assert_eq!(at("layout.zone[1].missing"), Some("[[layout.zone]]"));
        assert_eq!(at("nowhere.else"), None);
        assert_eq!(at(""), None);
    }
}
