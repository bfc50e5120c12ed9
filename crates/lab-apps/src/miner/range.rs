//! Numbers that must lie between a least and a greatest value.

use thiserror::Error;

/// A number that is out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{field} = {value}; give {least} to {most}")]
pub struct OutOfRange {
    /// The field.
    pub field: &'static str,
    /// The value of the field.
    pub value: u64,
    /// The least valid value.
    pub least: u64,
    /// The greatest valid value.
    pub most: u64,
}

impl OutOfRange {
    /// Checks that the number lies in its range, ends included.
    pub(super) fn check(field: &'static str, value: u64, least: u64, most: u64) -> Result<(), Self> {
        match (least..=most).contains(&value) {
            true => Ok(()),
            false => Err(Self { field, value, least, most }),
        }
    }
}
