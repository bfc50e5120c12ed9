//! A disk's table, probed and interpolated off-line.

use super::disk::Disk;
use crate::LabError;
use mimic::{ProbePlan, ProbeReport, Prober, Table};
use units::Instant;

/// Executes a plan of probes on a disk that is otherwise idle (ATC'03, section 5.3).
///
/// # Errors
/// The plan cannot be executed.
pub(crate) fn probed(disk: &mut impl Disk, plan: ProbePlan) -> Result<(Table, ProbeReport), LabError> {
    let mut prober = Prober::new(plan).map_err(|e| LabError::new("the plan of probing", e))?;
    let mut now = Instant::ZERO;
    while let Some(access) = prober.next() {
        let done = disk.serve(now, access.op, access.range)?;
        prober.done(done.since(now));
        now = done;
    }
    Ok(prober.finish())
}
