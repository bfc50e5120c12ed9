//! A host with a queue of requests at a disk, as in ATC'03. The host sends one request at a time and chooses which,
//! for instance the one with the shortest time in the Disk Mimic's table (SMTF, "shortest mimicked time first").
//!
//! A [`Disk`](disk::Disk) executes requests, a [`Chooser`] chooses them, [`SmtfHost`] is the loop. [`Survey`] is the
//! Disk Mimic's table with every distance of the disk; [`Week`] is the trace.

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

/// The paper's condition for interpolating times between two distances: check points by its Table 2, passed once. The
/// range of distances must also be "only relatively short"; the paper gives no length, and [`longest_line`] assumes
/// ten tracks.
pub(crate) const LETTER: CheckPoints = CheckPoints::TABLE_2;

/// Returns the longest range of distances that is interpolated by [`LETTER`].
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
