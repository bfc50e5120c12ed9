//! Characterisation of a black-box drive: from timed reads to a profile.
//!
//! A [`Probe`] is given a [`Device`]: a handle that carries out commands and says when they began and ended. From the
//! instants at which single sectors end it knows where on the platter they stand; where that stops following from the
//! sector before, a track ends; how long the arm needs is told by which sectors are still caught. docs/PROBE.md
//! describes the measurements in their order, with the papers that they come from.
//!
//! The probe reads no clock and starts no thread: time is what the device says. Its whole state is the [`Journal`] of
//! its commands; a probe that was interrupted is fed its journal and goes on.

mod buffer;
mod check;
mod device;
mod draw;
mod error;
mod fit;
mod geometry;
mod journal;
mod layout;
mod mapping;
mod meter;
mod moves;
mod predict;
mod probe;
mod report;
mod seeks;
mod spin;
mod turns;
mod zero;
mod zone;

pub use device::{Device, DeviceError, Timed};
pub use error::ProbeError;
pub use journal::{Journal, StateError};
pub use meter::{Hook, Progress};
pub use predict::Predictor;
pub use probe::{Options, Outcome, Probe};
pub use report::{Check, Finding, Report, Unsure};
