//! What is wrong with a generator's or an issuer's settings.

use units::Sectors;

/// A setting that makes no workload. Every message names the field and the mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A field has a value outside what it may hold.
    #[error("{field} is {found}; {mend}")]
    Field {
        /// The field's name.
        field: &'static str,
        /// What it holds.
        found: String,
        /// What it may hold.
        mend: &'static str,
    },
    /// The largest request does not fit on the drive.
    #[error(
        "capacity is {capacity} sectors, but a request may need {needed}; use a larger drive or smaller requests"
    )]
    CapacityTooSmall {
        /// The drive's sectors.
        capacity: Sectors,
        /// The sectors of the largest request.
        needed: Sectors,
    },
    /// A timing was asked for that the source has not recorded.
    #[error("{field} asks for recorded {what}, but the source has none; {mend}")]
    NotRecorded {
        /// The field's name.
        field: &'static str,
        /// What is missing.
        what: &'static str,
        /// What to use instead.
        mend: &'static str,
    },
    /// A trace's record lies past the end of the drive.
    #[error(
        "record {record} ({range}) ends past the drive's {capacity} sectors; \
         choose a larger drive, or let addresses wrap (Fit::Wrap)"
    )]
    RecordPastEnd {
        /// The record's place in the trace, counted from 1.
        record: u64,
        /// Its LBNs.
        range: units::LbnRange,
        /// The drive's sectors.
        capacity: Sectors,
    },
}

impl ConfigError {
    pub(crate) fn field(field: &'static str, found: impl ToString, mend: &'static str) -> Self {
        Self::Field { field, found: found.to_string(), mend }
    }
}
