//! Profile errors: the problem, its place, and the mend.

use alloc::string::String;
use thiserror::Error;

/// A profile that does not describe a drive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}; {mend}")]
#[non_exhaustive]
pub struct ProfileError {
    /// The field, by its path in the file: `layout.zone[3].sectors_per_track`.
    pub place: String,
    /// The problem.
    pub problem: String,
    /// The action to take.
    pub mend: String,
}

impl ProfileError {
    /// Creates the error `place: problem; mend`.
    pub fn new(place: impl Into<String>, problem: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into(), mend: mend.into() }
    }
}
