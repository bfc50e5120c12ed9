//! The drives that come with freeblock: profiles compiled in.
//!
//! Four carry the parameters that the DiskSim project extracted from real drives; the others are synthetic and say
//! in their `sources` what is published and what is assumed. The texts are in `crates/model/profiles`.

use crate::profile::Profile;
use crate::profile_file::ReadError;
use thiserror::Error;

/// Names, in the order in which they are listed, and the texts.
const PROFILES: [(&str, &str); 15] = [
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
    ("nearline-4tb", include_str!("../profiles/nearline-4tb.toml")),
    ("nearline-20tb", include_str!("../profiles/nearline-20tb.toml")),
];

/// The same names, for [`names`].
const NAMES: [&str; PROFILES.len()] = {
    let mut names = [""; PROFILES.len()];
    let mut i = 0;
    while i < PROFILES.len() {
        names[i] = PROFILES[i].0;
        i += 1;
    }
    names
};

/// No drive of this name comes with freeblock.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no built-in drive is called `{name}`; {}", advice(.nearest))]
pub struct UnknownDrive {
    /// The name asked for.
    pub name: String,
    /// Names that resemble it, the nearest first; may be empty.
    pub nearest: Vec<&'static str>,
}

fn advice(nearest: &[&str]) -> String {
    if nearest.is_empty() {
        return format!("there are: {}", NAMES.join(", "));
    }
    format!("did you mean {}? `freeblock drive list` shows all", nearest.join(" or "))
}

/// Why a built-in drive was not to be had.
#[derive(Debug, Error)]
pub enum BuiltinError {
    /// There is none of this name.
    #[error(transparent)]
    Unknown(#[from] UnknownDrive),
    /// Its text does not parse; a test sees to it that this never happens.
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

/// The names of all built-in drives, real ones first.
pub fn names() -> &'static [&'static str] {
    &NAMES
}

/// The profile file of a built-in drive as it was written, with its comments; `None` if there is no such drive.
///
/// ```
/// let text = freeblock_model::builtin::text("quantum-atlas-10k").unwrap();
/// assert!(text.contains("rpm = 10025"));
/// ```
pub fn text(name: &str) -> Option<&'static str> {
    PROFILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The built-in drive of exactly this name, if there is one.
pub fn get(name: &str) -> Option<Result<Profile, ReadError>> {
    text(name).map(|text| Profile::from_toml(text, name))
}

/// The built-in drive of this name.
///
/// # Errors
/// [`UnknownDrive`] with the names that come nearest.
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
        None => Err(UnknownDrive { name: shortened(name), nearest: nearest(name) }.into()),
    }
}

/// Long enough for any name, short enough for a message.
const LONGEST_NAME: usize = 60;

fn shortened(name: &str) -> String {
    name.chars().take(LONGEST_NAME).flat_map(char::escape_debug).collect()
}

/// Up to three names within a few typing errors, or that contain what was typed.
fn nearest(name: &str) -> Vec<&'static str> {
    let plain = |text: &str| -> Vec<char> {
        text.chars()
            .filter(|c| c.is_alphanumeric())
            .take(LONGEST_NAME)
            .map(|c| c.to_ascii_lowercase())
            .collect()
    };
    let typed = plain(name);
    let mut candidates: Vec<(usize, &'static str)> = NAMES
        .iter()
        .filter_map(|&known| {
            let letters = plain(known);
            let contained = typed.len() >= 3 && letters.windows(typed.len()).any(|w| w == typed);
            let distance = if contained { 1 } else { edits(&typed, &letters) };
            (distance <= letters.len() / 3).then_some((distance, known))
        })
        .collect();
    candidates.sort();
    candidates.into_iter().take(3).map(|(_, known)| known).collect()
}

/// Letters to insert, drop or replace between the two (Levenshtein).
fn edits(a: &[char], b: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        let mut left = i + 1;
        for (y, above) in b.iter().zip(row.iter_mut().skip(1)) {
            let best = (diagonal + usize::from(x != y)).min(left + 1).min(*above + 1);
            diagonal = *above;
            *above = best;
            left = best;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_count_insertions_deletions_and_replacements() {
        let edits = |a: &str, b: &str| edits(&a.chars().collect::<Vec<_>>(), &b.chars().collect::<Vec<_>>());
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", ""), 3);
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("cheetah", "cheetah"), 0);
    }
}
