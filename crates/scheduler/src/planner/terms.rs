//! The rules and the costs of commands for a detour: the search's knowledge of the drive's interface.

use model::{DriveModel, TrackRef};
use units::{Duration, FULL_REVOLUTION, Instant, Lbn, Op, TrackIndex};

/// Two consecutive commands on one track, as the drive sees them. A drive may take them for the beginning of a sequence and
/// read ahead before it starts any other command (FAST'02, section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The operation of the first.
    pub first: Op,
    /// The operation of the second.
    pub second: Op,
    /// Whether the second has lower LBNs than the first.
    pub backward: bool,
    /// Whether the second begins with the sector that passes next after the first's last.
    pub touching: bool,
}

impl Neighbour {
    /// The number of kinds.
    pub(crate) const KINDS: usize = 16;

    /// Returns whether a drive may take the two for a sequence and read ahead.
    pub(crate) fn is_sequence(self) -> bool {
        !self.first.is_write() && !self.second.is_write() && !self.backward
    }

    pub(crate) fn kind(self) -> usize {
        usize::from(self.first.is_write()) * 8
            + usize::from(self.second.is_write()) * 4
            + usize::from(self.backward) * 2
            + usize::from(self.touching)
    }
}

/// The last command that was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastCommand {
    pub op: Op,
    /// The LBN after it.
    pub end: Lbn,
}

/// The first sector of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstSector {
    pub lbn: Lbn,
    /// Its place on the track.
    pub sector: u32,
}

/// The rules and the costs of commands.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// The margin of a detour's move over a number of cylinders.
    pub margin: &'a dyn Fn(u32) -> Duration,
    /// The least margin of a move over a cylinder or more.
    pub least_margin: Duration,
    /// The time from the gap's beginning until the arm starts for a first command, to read or to write.
    pub before: [Duration; 2],
    /// The earliest arrival of a first command at its sectors.
    pub ready: [Instant; 2],
    /// The same time between a detour that reads or writes and the foreground's command.
    pub between: [Duration; 2],
    /// Forbidden tracks of a detour's commands, besides source and destination.
    pub not_on: &'a [TrackIndex],
    /// The earliest start of the arm for the second command that is chosen now, to read or to write: the host sends it when
    /// there is room.
    pub second: [Instant; 2],
    /// The last command before the gap.
    pub last: LastCommand,
    /// The additional time from a command's end to another with a different operation.
    pub change: Duration,
    /// Whether the source track may be used.
    pub source_track: bool,
    /// Which commands may be neighbours on a track.
    pub allows: &'a dyn Fn(Neighbour) -> bool,
    /// The foreground's first sector; a request that must keep its order with others is not merged.
    pub merge: Option<FirstSector>,
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

    /// Returns the time from the end of a command until another with a different operation can begin on the same track: the
    /// data of a write cross the bus after those of a read.
    pub(super) fn turnaround(&self, first: Op, second: Op) -> Duration {
        if first == second { self.between(first) } else { self.between(first) + self.change }
    }

    /// Returns the number of sectors that pass on a track between two commands on it: none in a queue, if they may touch.
    pub(super) fn skipped(&self, drive: &DriveModel, track: &TrackRef<'_>, neighbour: Neighbour) -> u32 {
        let lost = self.before(neighbour.first).max(self.between(neighbour.first));
        if lost == Duration::ZERO && (self.allows)(Neighbour { touching: true, ..neighbour }) {
            return 0;
        }
        let sectors = track.track().sectors;
        (drive.rpm().arc_in(lost).parts() * u64::from(sectors) / FULL_REVOLUTION + 1) as u32
    }

    /// Returns the least cost of a detour with a command of its own, besides bare seeks.
    pub fn least(&self) -> Duration {
        let fewest = |d: [Duration; 2]| d[0].min(d[1]);
        fewest(self.before) + fewest(self.between) + self.least_margin * 2
    }
}
