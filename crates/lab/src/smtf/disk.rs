//! What a host sends its requests to.

use drive::Mechanics;
use model::{DriveModel, Position};
use std::sync::Arc;
use units::{Instant, LbnRange, Op};

/// A disk that does one request after another.
pub(crate) trait Disk {
    /// The truth about it, for greedy-optimal and for those who write down where the head is.
    fn model(&self) -> &DriveModel;

    /// Where the arm is.
    fn position(&self) -> Position;

    /// Sends a request to the disk, idle since before `at`; when it is done.
    fn serve(&mut self, at: Instant, op: Op, range: LbnRange) -> Instant;
}

/// An arm and a platter, and nothing else: no electronics, no buffer, no time that a command costs.
#[derive(Clone, Debug)]
pub(crate) struct Bare {
    mechanics: Mechanics,
}

impl Bare {
    /// A disk at rest.
    pub(crate) fn new(model: Arc<DriveModel>) -> Self {
        Self { mechanics: Mechanics::new(model) }
    }

    /// A disk whose arm is there.
    pub(crate) fn at(model: Arc<DriveModel>, arm: Position) -> Self {
        let mut disk = Self::new(model);
        disk.mechanics.place(arm);
        disk
    }
}

impl Disk for Bare {
    fn model(&self) -> &DriveModel {
        self.mechanics.model()
    }

    fn position(&self) -> Position {
        self.mechanics.position()
    }

    fn serve(&mut self, at: Instant, op: Op, range: LbnRange) -> Instant {
        let model = self.mechanics.shared_model();
        let zero_latency = model.zero_latency(op);
        let mut now = at;
        for piece in model.layout().pieces(range) {
            let access = if zero_latency {
                self.mechanics.access_in_any_order(now, op, piece.track, piece.sector, piece.len)
            } else {
                self.mechanics.access(now, op, piece.track, piece.sector, piece.len)
            };
            now = access.end;
        }
        now
    }
}
