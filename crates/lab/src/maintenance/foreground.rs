//! The translation of a request of the load into requests to the core, which follow each other or come at once.

use super::hosted_apps::HostedAppId;
use apps::reorganizer::Access;
use apps::snapshot::{Provider, Volume, WriteId};
use lab_apps::cache::CallId;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use units::{Instant, Lbn, LbnRange, Sectors};
use workload::ClosedTask;

/// The way in which requests to a part of the drive are served.
#[derive(Clone)]
pub(crate) enum Way {
    /// Requests go through the maps of a volume with snapshots.
    Snapshots(Rc<RefCell<Volume>>),
    /// Requests go through the map of a reorganiser.
    Reorganized(HostedAppId),
    /// Requests go through a cache.
    Cached(HostedAppId),
    /// Each request goes to the places that were [noted](super::MaintenanceHost::note_places) for it in an earlier
    /// run.
    Noted(Noted),
}

/// The LBNs that hold each request's blocks, in order of the requests' arrival.
pub(crate) type Noted = Rc<RefCell<VecDeque<Vec<LbnRange>>>>;

/// A part of the drive.
#[derive(Clone)]
pub(crate) struct Region {
    pub range: LbnRange,
    pub way: Way,
}

/// A request of the load in progress.
pub(super) struct Job {
    pub task: ClosedTask,
    pub range: LbnRange,
    pub arrived: Instant,
    /// The number of requests at the core that the job waits for.
    pub left: u32,
    pub kind: AccessKind,
}

pub(super) enum AccessKind {
    /// A request that is done when its requests to the core are done.
    Plain,
    /// A write to a volume with snapshots, which is done step by step.
    Steps(Rc<RefCell<Volume>>, WriteId),
    /// A write that waits for the end of another write to its block.
    Waiting(Rc<RefCell<Volume>>),
    /// An access that is returned to the reorganiser when its requests are done.
    Access(HostedAppId, Access),
    /// A call that the cache answers.
    Call(HostedAppId, CallId),
}

/// Returns the runs of sectors that now hold this range of a volume.
pub(super) fn places(volume: &Volume, range: LbnRange) -> Vec<LbnRange> {
    let shape = volume.shape();
    let size = shape.block.get();
    let mut at = range.start();
    let mut runs = Runs::default();
    while at < range.end() {
        let offset = at.since(shape.first).get();
        let home = shape.first.get() + offset / size * size;
        let stop = Lbn::new(home + size).min(range.end());
        if let Some(slot) = volume.current(offset / size) {
            runs.push(Lbn::new(slot.start().get() + offset % size), stop.since(at));
        }
        at = stop;
    }
    runs.0
}

/// Ranges, with adjacent ones joined.
#[derive(Default)]
pub(super) struct Runs(pub Vec<LbnRange>);

impl Runs {
    pub fn push(&mut self, start: Lbn, len: Sectors) {
        match self.0.last_mut() {
            Some(last) if last.end() == start => {
                *last = LbnRange::new(last.start(), Sectors::new(last.len().get() + len.get()));
            }
            _ => self.0.push(LbnRange::new(start, len)),
        }
    }
}
