//! The error for an invalid profile: the field, the problem, and the remedy.

use alloc::string::String;
use thiserror::Error;

/// A profile that does not describe a drive.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {problem}; {mend}")]
#[non_exhaustive]
pub struct ProfileError {
    /// The path of the field in the file, such as `layout.zone[3].sectors_per_track`.
    pub place: String,
    /// The invalid value, and the reason.
    pub problem: String,
    /// The remedy, as an instruction to the user.
    pub mend: String,
}

impl ProfileError {
    /// Creates the error `place: problem; mend`.
    pub fn new(place: impl Into<String>, problem: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { place: place.into(), problem: problem.into(), mend: mend.into() }
    }
}
