//! A drive simulated from outside.
//!
//! [`mechanics`] is the truth: an arm and a platter, exact to the nanosecond. [`Drive`] puts firmware on top: a bus,
//! command overheads, a segmented buffer with read-ahead and write-back. [`validate()`] replays a trace measured on a
//! real drive and says how far off the simulated one is.

mod cache;
mod error;
mod firmware;
pub mod mechanics;
mod medium;
mod rules;
mod run;
mod timing;
mod validate;

pub use error::{CommandError, DriveError};
pub use firmware::{Breakdown, Command, Completion, Drive, MOST_SECTORS, Served};
pub use mechanics::{Access, Mechanics, Pass};
pub use medium::{Blank, Medium, MediumError, Zeroes};
pub use rules::Rules;
pub use validate::{ClassReport, Report, ValidateError, ValidateRecord, demerit_ms, validate, validate_with};
