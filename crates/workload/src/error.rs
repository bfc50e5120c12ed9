//! Errors in the settings of generators and issuers.

use units::Sectors;

/// An invalid setting of a workload. Every message names the field and says how to correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A field has a value outside of its range.
    #[error("{field} is {found}; {mend}")]
    Field {
        /// The field's name.
        field: &'static str,
        /// The value of the field.
        found: String,
        /// The valid values.
        mend: &'static str,
    },
    /// The largest request does not fit on the drive.
    #[error(
        "capacity is {capacity} sectors, but a request may need {needed}; use a larger drive or smaller requests"
    )]
    CapacityTooSmall {
        /// The number of sectors of the drive.
        capacity: Sectors,
        /// The sectors of the largest request.
        needed: Sectors,
    },
    /// The field asks for times that the source does not have.
    #[error("{field} asks for recorded {what}, but the source has none; {mend}")]
    NotRecorded {
        /// The field's name.
        field: &'static str,
        /// The missing times.
        what: &'static str,
        /// The setting to use instead.
        mend: &'static str,
    },
    /// A record of a trace lies past the end of the drive.
    #[error(
        "record {record} ({range}) ends past the drive's {capacity} sectors; \
         choose a larger drive, or let addresses wrap (Fit::Wrap)"
    )]
    RecordPastEnd {
        /// The number of the record in the trace, counted from 1.
        record: u64,
        /// The LBNs of the record.
        range: units::LbnRange,
        /// The number of sectors of the drive.
        capacity: Sectors,
    },
}

impl ConfigError {
    pub(crate) fn field(field: &'static str, found: impl ToString, mend: &'static str) -> Self {
        Self::Field { field, found: found.to_string(), mend }
    }
}
