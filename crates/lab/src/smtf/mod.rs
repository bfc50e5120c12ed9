//! A host with a queue of requests at a disk, as in ATC'03: it sends one request at a time, and chooses which.
//!
//! A [`Disk`](disk::Disk) executes them, a [`Chooser`] chooses, [`SmtfHost`] is the loop. [`Survey`] is the Disk Mimic's
//! table with every distance of the disk in it; [`Week`] is the trace.

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

use mimic::CheckPoints;
use model::DriveModel;
use units::Sectors;

/// The paper's interpolation: a range must pass its Table 2 once, and is "only relatively short". The paper does not
/// give a length; ten tracks are assumed.
pub(crate) const LETTER: CheckPoints = CheckPoints::TABLE_2;

/// Returns the longest range that is interpolated by [`LETTER`].
pub(crate) fn longest_line(disk: &DriveModel) -> Sectors {
    Sectors::new(u64::from(disk.layout().densest_track()) * 10)
}

pub(crate) use chooser::{Chooser, FromOutside, Seen};
pub(crate) use disk::Bare;
pub(crate) use host::{SmtfHost, SmtfTally};
pub(crate) use loads::{COMPRESSION_FACTOR, REQUESTS_PER_DAY, Week};
pub(crate) use place::{Place, mean_ms, slower, unconfirmed};
pub(crate) use probed::probed;
pub(crate) use real::{FromProfile, Real};
pub(crate) use schedulers::{Bench, Scheduler};
pub(crate) use steps::{STEPS, Step};
pub(crate) use survey::{PROBE_BYTES, Probe, Survey, Surveyed};
