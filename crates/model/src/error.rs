//! What is wrong with a profile, where, and what to do about it.

use thiserror::Error;

/// A profile that does not describe a drive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}; {mend}")]
pub struct ProfileError {
    /// The field, by its path in the file: `layout.zone[3].sectors_per_track`.
    pub place: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to do.
    pub mend: String,
}

impl ProfileError {
    /// `place: problem; mend`.
    pub fn new(place: impl Into<String>, problem: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into(), mend: mend.into() }
    }
}
