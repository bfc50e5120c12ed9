//! The disk of a host.

use crate::LabError;
use drive::Mechanics;
use model::{DriveModel, Position};
use std::sync::Arc;
use units::{Instant, LbnRange, Op};

/// A disk that executes one request after another.
pub(crate) trait Disk {
    /// Returns the true model, for greedy-optimal and for recorders of the head's position.
    fn model(&self) -> &DriveModel;

    /// Returns the position of the arm.
    fn position(&self) -> Position;

    /// Sends a request at `at` to the disk, which must be idle; returns the time of completion.
    ///
    /// # Errors
    /// The disk refuses the request, or never answers.
    fn serve(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Instant, LabError>;
}

/// An arm and a platter, and nothing else: no electronics, no buffer, no time that a command costs.
#[derive(Clone, Debug)]
pub(crate) struct Bare {
    mechanics: Mechanics,
}

impl Bare {
    /// Makes a disk at rest.
    pub(crate) fn new(model: Arc<DriveModel>) -> Self {
        Self { mechanics: Mechanics::new(model) }
    }

    /// Makes a disk with its arm at this position.
    pub(crate) fn at(model: Arc<DriveModel>, arm: Position) -> Self {
        let mut disk = Self::new(model);
        disk.mechanics.place(arm);
        disk
    }

    /// Serves a request; none is refused.
    pub(crate) fn go(&mut self, at: Instant, op: Op, range: LbnRange) -> Instant {
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

impl Disk for Bare {
    fn model(&self) -> &DriveModel {
        self.mechanics.model()
    }

    fn position(&self) -> Position {
        self.mechanics.position()
    }

    fn serve(&mut self, at: Instant, op: Op, range: LbnRange) -> Result<Instant, LabError> {
        Ok(self.go(at, op, range))
    }
}
