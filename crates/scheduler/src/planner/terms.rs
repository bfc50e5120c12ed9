//! What commands allow a detour, and what they cost it: all that the search knows of the drive's interface.

use crate::core::Neighbour;
use model::{DriveModel, TrackRef};
use units::{Duration, FULL_TURN, Instant, Lbn, Op, TrackIndex};

/// What commands allow and cost.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// By how much a move over so many cylinders is widened in a detour.
    pub margin: &'a dyn Fn(u32) -> Duration,
    /// No move over a cylinder or more is widened by less.
    pub least_margin: Duration,
    /// From the gap's beginning until the arm sets out for a first command, to read or to write.
    pub before: [Duration; 2],
    /// No first command gets to its sectors before this.
    pub ready: [Instant; 2],
    /// The same between a detour that reads or writes and the foreground's command.
    pub between: [Duration; 2],
    /// Tracks that no command of a detour may be on, beside source and destination.
    pub not_on: &'a [TrackIndex],
    /// When the arm can set out at the soonest for the second command of those that are decided on now, to read or to write:
    /// the host sends it when there is room.
    pub second: [Instant; 2],
    /// What the last command before the gap does, and the LBN behind it.
    pub last: (Op, Lbn),
    /// Beyond that, from a command's end to another that does something else.
    pub change: Duration,
    /// Whether the source track may be used.
    pub source_track: bool,
    /// Which commands may be neighbours on a track.
    pub allows: &'a dyn Fn(Neighbour) -> bool,
    /// The sectors that a move over so many cylinders is expected to cost by being late, where it has no more to spare than its
    /// margin; `None` where that is not weighed.
    pub price: Option<&'a dyn Fn(u32) -> u64>,
    /// The foreground's first LBN and the sector that it is on; nothing can be merged with a request that is to be in
    /// order with others.
    pub merge: Option<(Lbn, u32)>,
}

impl Terms<'_> {
    pub(super) fn before(&self, op: Op) -> Duration {
        self.before[usize::from(op.is_write())]
    }

    pub(super) fn between(&self, op: Op) -> Duration {
        self.between[usize::from(op.is_write())]
    }

    pub(super) fn ready(&self, op: Op) -> Instant {
        self.ready[usize::from(op.is_write())]
    }

    pub(super) fn second(&self, op: Op) -> Instant {
        self.second[usize::from(op.is_write())]
    }

    /// From the end of a command until another can begin on the same track, if it does something else: what is written
    /// comes over the bus when what was read has gone.
    pub(super) fn turnaround(&self, first: Op, second: Op) -> Duration {
        if first == second { self.between(first) } else { self.between(first) + self.change }
    }

    /// Sectors that pass on a track from the end of one command on it to the begin of the next: none in a queue, if they may
    /// touch.
    pub(super) fn skipped(&self, drive: &DriveModel, track: &TrackRef<'_>, neighbour: Neighbour) -> u32 {
        let lost = self.before(neighbour.first).max(self.between(neighbour.first));
        if lost == Duration::ZERO && (self.allows)(Neighbour { touching: true, ..neighbour }) {
            return 0;
        }
        let sectors = track.track().sectors;
        (drive.rpm().arc_in(lost).parts() * u64::from(sectors) / FULL_TURN + 1) as u32
    }

    /// What any detour that is a command of its own costs at least, beside bare seeks.
    pub fn least(&self) -> Duration {
        let fewest = |d: [Duration; 2]| d[0].min(d[1]);
        fewest(self.before) + fewest(self.between) + self.least_margin * 2
    }
}
