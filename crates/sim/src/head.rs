//! The head of a drive whose scheduler core is inside, and how the head spends its time.

use crate::report::HeadNanos;
use drive::{Mechanics, Passage};
use model::{DriveModel, Position};
use scheduler::{Access, Purpose};
use std::sync::Arc;
use units::{Arc as Rotation, Duration, FULL_REVOLUTION, Instant};

#[derive(Clone, Debug)]
pub(crate) struct Head {
    drive: Arc<DriveModel>,
    mechanics: Mechanics,
    /// How the head has spent its time, up to the end of the work under way.
    pub spent: HeadNanos,
    /// The part of `spent` for the work under way.
    pub last: HeadNanos,
    /// The time of the moves of the idle work under way.
    idle_move: Option<Duration>,
}

impl Head {
    /// Returns a head at rest at cylinder 0.
    pub fn new(drive: Arc<DriveModel>) -> Self {
        let mechanics = Mechanics::new(Arc::clone(&drive));
        Self { mechanics, drive, spent: HeadNanos::default(), last: HeadNanos::default(), idle_move: None }
    }

    pub fn position(&self) -> Position {
        self.mechanics.position()
    }

    /// Adds the time of finished idle work, as far as it was done.
    pub fn account_idle(&mut self, accesses: &[Access], took: Duration) {
        let Some(moved) = self.idle_move.take() else { return };
        self.spent.idle_seek += moved.min(took);
        for access in accesses {
            let Purpose::Idle { useful } = access.purpose else { continue };
            let sectors = self.drive.layout().track(access.track).sectors;
            let arc = Rotation::from_parts(
                u64::from(useful.min(access.sectors)) * FULL_REVOLUTION / u64::from(sectors),
            );
            self.spent.idle_transfer += self.drive.rpm().time_within(arc);
        }
    }

    /// Carries out the core's accesses and returns their end.
    pub fn execute(&mut self, now: Instant, accesses: &[Access]) -> Instant {
        let mut at = now;
        let before = self.spent;
        self.idle_move = None;
        let mut group_from = self.mechanics.position();
        let (mut group_moves, mut rotation) = (Duration::ZERO, Duration::ZERO);
        let mut detours = false;
        let drive = Arc::clone(&self.drive);
        let rpm = drive.rpm();
        for access in accesses {
            let track = drive.layout().track(access.track);
            let to = Position::from(track);
            let ready = self.mechanics.seek_to(at, to, access.op);
            let from = ready.max(access.not_before);
            let Passage { start, end } =
                self.mechanics.wait_and_transfer(from, track, access.sector, access.sectors);
            group_moves += ready.since(at);
            rotation += start.since(ready);
            match access.purpose {
                // Idle work is counted at its end, as far as it was done.
                Purpose::Idle { .. } => self.idle_move = self.idle_move.or(Some(ready.since(at))),
                Purpose::Background { useful } => {
                    detours = true;
                    let arc =
                        Rotation::from_parts(u64::from(useful) * FULL_REVOLUTION / u64::from(track.sectors));
                    let free = rpm.time_within(arc).min(end.since(start));
                    self.spent.free_transfer += free;
                    rotation += end.since(start) - free;
                }
                Purpose::Foreground => {
                    self.spent.transfer += end.since(start);
                    // Of the moves, the foreground's part is the direct one. If a detour before a write ends on the
                    // write's track, the head settles while it waits there; the move time that this saves must not
                    // count as latency.
                    let direct = drive.move_time(group_from, to, access.op);
                    // Without detours the core delays an access only under SCAN, whose arm goes to the end of the
                    // drive first.
                    let trip =
                        if detours { Duration::ZERO } else { access.not_before.saturating_since(ready) };
                    rotation = rotation.saturating_sub(trip);
                    self.spent.seek += direct + trip;
                    self.spent.extra_seek += group_moves.saturating_sub(direct);
                    let saved = direct.saturating_sub(group_moves);
                    let from_rotation = saved.min(rotation);
                    self.spent.rotation += rotation - from_rotation;
                    self.spent.free_transfer = self.spent.free_transfer.saturating_sub(saved - from_rotation);
                    group_from = to;
                    (group_moves, rotation) = (Duration::ZERO, Duration::ZERO);
                    detours = false;
                }
            }
            at = end;
        }
        self.last = self.spent.since(&before);
        at
    }
}
