//! The built-in drives: profiles compiled in.
//!
//! Four profiles have the parameters that the DiskSim project extracted from real drives. The others are synthetic; their
//! `sources` separate published numbers from assumed ones. The files are in `crates/model/profiles`.

use crate::names;
use crate::profile::Profile;
use crate::profile_file::ReadError;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use thiserror::Error;

/// The name and the text of each built-in profile, in the order in which users see them.
const PROFILES: [(&str, &str); 16] = [
    ("quantum-atlas-10k", include_str!("../profiles/quantum-atlas-10k.toml")),
    ("seagate-cheetah-4lp", include_str!("../profiles/seagate-cheetah-4lp.toml")),
    ("seagate-cheetah-9lp", include_str!("../profiles/seagate-cheetah-9lp.toml")),
    ("seagate-cheetah-18lp", include_str!("../profiles/seagate-cheetah-18lp.toml")),
    ("ibm-ultrastar-9es", include_str!("../profiles/ibm-ultrastar-9es.toml")),
    ("mimic-base", include_str!("../profiles/mimic-base.toml")),
    ("mimic-fast-seek", include_str!("../profiles/mimic-fast-seek.toml")),
    ("mimic-slow-seek", include_str!("../profiles/mimic-slow-seek.toml")),
    ("mimic-fast-rotate", include_str!("../profiles/mimic-fast-rotate.toml")),
    ("mimic-slow-rotate", include_str!("../profiles/mimic-slow-rotate.toml")),
    ("mimic-fast-seek-rotate", include_str!("../profiles/mimic-fast-seek-rotate.toml")),
    ("mimic-more-capacity", include_str!("../profiles/mimic-more-capacity.toml")),
    ("mimic-less-capacity", include_str!("../profiles/mimic-less-capacity.toml")),
    ("desktop-2tb", include_str!("../profiles/desktop-2tb.toml")),
    ("nearline-4tb", include_str!("../profiles/nearline-4tb.toml")),
    ("nearline-20tb", include_str!("../profiles/nearline-20tb.toml")),
];

/// The names of [`PROFILES`], in the same order.
const NAMES: [&str; PROFILES.len()] = {
    let mut names = [""; PROFILES.len()];
    let mut i = 0;
    while i < PROFILES.len() {
        names[i] = PROFILES[i].0;
        i += 1;
    }
    names
};

/// The error for a name that no built-in drive has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no built-in drive is called `{name}`; {}", advice(.nearest))]
#[non_exhaustive]
pub struct UnknownDrive {
    /// The requested name.
    pub name: String,
    /// The built-in names that resemble the requested one, the nearest first; may be empty.
    pub nearest: Vec<&'static str>,
}

fn advice(nearest: &[&str]) -> String {
    if nearest.is_empty() {
        return format!("there are: {}", NAMES.join(", "));
    }
    format!("did you mean {}? `freeblock drive list` shows all", nearest.join(" or "))
}

/// The reason for which a built-in drive is not available.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BuiltinError {
    /// No built-in drive has the requested name.
    #[error(transparent)]
    Unknown(#[from] UnknownDrive),
    /// The text of the profile does not parse; a test ensures that this never happens.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

/// Returns the names of all built-in drives: the drives of the freeblock papers first.
pub fn names() -> &'static [&'static str] {
    &NAMES
}

/// Returns the text of a built-in drive's profile file, with its comments; `None` if no drive has this name.
///
/// ```
/// let text = freeblock_model::builtin::text("quantum-atlas-10k").unwrap();
/// assert!(text.contains("rpm = 10025"));
/// ```
pub fn text(name: &str) -> Option<&'static str> {
    PROFILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// Returns the built-in drive of exactly this name; `None` if no drive has it.
pub fn get(name: &str) -> Option<Result<Profile, ReadError>> {
    text(name).map(|text| Profile::from_toml(text, name))
}

/// Returns the built-in drive of this name.
///
/// # Errors
/// [`BuiltinError::Unknown`] with the nearest names.
///
/// ```
/// use freeblock_model::builtin;
/// assert_eq!(builtin::find("mimic-base")?.heads, 10);
/// let error = builtin::find("atlas10k").unwrap_err();
/// assert!(error.to_string().contains("did you mean quantum-atlas-10k"));
/// # Ok::<(), builtin::BuiltinError>(())
/// ```
pub fn find(name: &str) -> Result<Profile, BuiltinError> {
    match get(name) {
        Some(profile) => Ok(profile?),
        None => {
            Err(UnknownDrive { name: names::shortened(name), nearest: names::nearest(name, NAMES) }.into())
        }
    }
}
