//! A simulated disk drive that takes commands, as a host sees it.
//!
//! [`mechanics`] computes the times of arm and platter exactly, to the nanosecond. [`Drive`] adds firmware: a bus, command
//! overheads, a segmented buffer with read-ahead and write-back. With a [`Behaviour`] the drive differs from its profile:
//! arm, spindle and electronics vary, as on a real drive, which a scheduler outside the drive knows only as a
//! [`BlackBox`]. [`validate()`] replays a trace measured on a real drive and measures the error of the simulated one.

mod behaviour;
mod black_box;
mod cache;
mod dice;
mod error;
mod faults;
mod firmware;
mod flash;
pub mod mechanics;
mod medium;
mod named;
mod rules;
mod run;
mod shingled;
mod spindle;
mod timing;
mod validate;
mod waiting;
mod wobble;

pub use behaviour::{BadSectors, Behaviour, Queue, QueueOrder, Rarely, Recalibration, SpindleDrift};
pub use black_box::{BlackBox, Reply};
pub use error::{CommandError, DriveError};
pub use firmware::{Breakdown, COMMAND_SECTORS_MAX, Command, Completion, Drive, Served};
pub use flash::{Flash, FlashConfig};
pub use mechanics::{AccessTimes, Mechanics, Pass, Passage};
pub use medium::{Blank, Medium, MediumError, Zeroes};
pub use named::SwitchError;
pub use rules::Rules;
pub use shingled::{Shingled, ShingledConfig};
pub use spindle::{Platter, Spindle};
pub use validate::{
    AccuracyReport, CdfPoint, ClassReport, ValidateError, ValidateRecord, demerit_ms, validate, validate_with,
};
pub use waiting::{NotDone, Waiting, Why};
