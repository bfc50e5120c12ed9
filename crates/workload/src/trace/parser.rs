//! The parsers that a reader calls: one for formats of lines, one for binary formats.

use super::input::Input;
use super::text::Fields;
use super::{Notes, TraceError, TraceRecord};
use std::fmt;

/// The parser of a trace format that has a record in each line.
pub(super) trait LineParser: fmt::Debug {
    /// Returns whether the first line is a heading, which is skipped.
    fn heading(&mut self, _first: &Fields<'_>) -> Result<bool, TraceError> {
        Ok(false)
    }

    /// Returns the request of a line; `None` if the line has none.
    fn line(&mut self, fields: Fields<'_>, notes: &mut Notes) -> Result<Option<TraceRecord>, TraceError>;
}

/// The parser of a binary trace format.
pub(super) trait RecordParser: fmt::Debug {
    /// Returns the next record of the file.
    fn record(&mut self, input: &mut Input<'_>, notes: &mut Notes) -> Result<Next, TraceError>;
}

/// The next record of a binary file.
pub(super) enum Next {
    Record(TraceRecord),
    /// A record that is no request.
    Skipped,
    End,
}
