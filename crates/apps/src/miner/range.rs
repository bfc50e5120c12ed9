//! Numbers that must lie between two others.

use thiserror::Error;

/// A number outside its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{field} = {value}; give {least} to {most}")]
pub struct OutOfRange {
    /// Which number.
    pub field: &'static str,
    /// What it was.
    pub value: u64,
    /// The least it may be.
    pub least: u64,
    /// The most.
    pub most: u64,
}

impl OutOfRange {
    /// Whether the number lies in its range, ends included.
    pub(super) fn check(field: &'static str, value: u64, least: u64, most: u64) -> Result<(), Self> {
        match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(Self { field, value, least, most }),
        }
    }
}
