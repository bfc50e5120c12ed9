//! A host with a queue of requests at a disk, as ATC'03 has it: it sends one request at a time, and chooses which.
//!
//! [`Disk`] is what it sends them to, [`Chooser`] how it chooses, [`Host`] the loop. [`Survey`] the Disk Mimic's table
//! with every distance of the disk in it; [`Week`] the trace.

mod chooser;
mod disk;
mod host;
mod loads;
mod place;
mod probed;
mod real;
mod schedulers;
mod steps;
mod survey;

pub(crate) use chooser::{Chooser, FromOutside, Seen};
pub(crate) use disk::Bare;
pub(crate) use host::{Host, Tally};
pub(crate) use loads::Week;
pub(crate) use place::{Place, mean_ms, slower, unconfirmed};
pub(crate) use probed::probed;
pub(crate) use real::{FromProfile, Real};
pub(crate) use schedulers::{Bench, Scheduler};
pub(crate) use steps::{STEPS, Step};
pub(crate) use survey::{PROBE_BYTES, Probe, Survey, Surveyed};
