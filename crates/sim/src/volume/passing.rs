//! The sectors that pass under the head, and their times.

use drive::Mechanics;
use model::{DriveModel, Position};
use scheduler::Access;
use std::sync::Arc;
use units::{Instant, Lbn, LbnRange, Sectors};

/// Calls `each` with the LBNs among the first `done` sectors of an access, in the order of passing. Sectors without
/// an LBN, spares and slips, hold nothing.
pub(super) fn lbns(drive: &DriveModel, access: &Access, done: u32, mut each: impl FnMut(LbnRange)) {
    let on_track = drive.layout().track(access.track).sectors;
    let end = access.sector + done.min(access.sectors);
    for (from, to) in [(access.sector, end.min(on_track)), (0, end.saturating_sub(on_track))] {
        if from >= to {
            continue;
        }
        for extent in drive.layout().extents(access.track) {
            let (from, to) = (from.max(extent.sector), to.min(extent.sector + extent.len));
            if from < to {
                let start = extent.lbn + Sectors::new(u64::from(from - extent.sector));
                each(LbnRange::new(start, Sectors::new(u64::from(to - from))));
            }
        }
    }
}

/// Returns the number of sectors of each access that have passed at `now`, for a head that began at `from` at `began`.
pub(super) fn done_by(
    drive: &Arc<DriveModel>,
    from: Position,
    began: Instant,
    accesses: &[Access],
    now: Instant,
) -> Vec<u32> {
    let mut mechanics = Mechanics::new(Arc::clone(drive));
    mechanics.place(from);
    let mut at = began;
    accesses
        .iter()
        .map(|access| {
            let track = drive.layout().track(access.track);
            let ready = mechanics.seek_to(at, track.into(), access.op).max(access.not_before);
            let pass = mechanics.pass(ready, track, access.sector, access.sectors);
            at = pass.end(drive);
            if now <= ready { 0 } else { pass.done_by(drive, now) }
        })
        .collect()
}

/// Returns the bytes of `part` among those of `whole`.
pub(super) fn slice(bytes: &[u8], whole: LbnRange, part: LbnRange, sector: usize) -> Option<&[u8]> {
    let inside = whole.covers(part);
    let offset = |lbn: Lbn| lbn.get().checked_sub(whole.start().get()).map(|n| n as usize * sector);
    if !inside {
        return None;
    }
    bytes.get(offset(part.start())?..offset(part.end())?)
}
