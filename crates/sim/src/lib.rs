//! Virtual time: hosts the scheduler core on a simulated drive, and measures what it does.
//!
//! [`Inside`] is the core in the drive's firmware: it knows the mechanics exactly and moves the head itself. Nothing
//! here sleeps or reads a clock; a run jumps from event to event, and the same set-up gives the same result.

mod inside;
mod report;

pub use inside::{Background, Inside, Nothing, Observer, SetupError};
pub use report::{BackgroundReport, ForegroundReport, HeadNanos, HeadTime, Report};
