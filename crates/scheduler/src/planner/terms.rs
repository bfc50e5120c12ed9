//! The rules and the costs of commands, for a search outside the drive.

use model::{DriveModel, TrackRef};
use units::{Duration, FULL_REVOLUTION, Instant, Lbn, Op, TrackIndex};

/// The relation of two consecutive commands on one track. A drive may take the two for the beginning of a sequence and read ahead
/// before it starts any other command (FAST'02, section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// The operation of the first command.
    pub first: Op,
    /// The operation of the second command.
    pub second: Op,
    /// Whether the second command has lower LBNs than the first.
    pub backward: bool,
    /// Whether the second command begins with the sector that passes directly after the last one of the first command.
    pub touching: bool,
}

impl Neighbour {
    /// The number of kinds of neighbours.
    pub(crate) const KINDS: usize = 16;

    /// Returns whether a drive may take the two commands for a sequence and read ahead.
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
    /// The LBN after the command's last one.
    pub end: Lbn,
}

/// The first sector of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstSector {
    pub lbn: Lbn,
    /// The sector's number on the track.
    pub sector: u32,
}

/// The rules and the costs of commands.
#[derive(Clone, Copy)]
pub(crate) struct Terms<'a> {
    /// The margin of a detour's move over a number of cylinders.
    pub margin: &'a dyn Fn(u32) -> Duration,
    /// The least margin of any move.
    pub least_margin: Duration,
    /// The time from the gap's beginning until the arm starts for the first command, to read or to write.
    pub before: [Duration; 2],
    /// The earliest arrival of the first command at its sectors, to read or to write.
    pub ready: [Instant; 2],
    /// The time from the end of a detour's read, or write, until the arm starts for the foreground's command.
    pub between: [Duration; 2],
    /// The tracks, besides source and destination, on which a detour may have no command.
    pub not_on: &'a [TrackIndex],
    /// The earliest start of the arm for the second of the commands that are chosen now, to read or to write: the host sends
    /// that command only when the drive has room for it.
    pub second: [Instant; 2],
    /// The last command before the gap.
    pub last: LastCommand,
    /// The additional time between two commands with different operations.
    pub change: Duration,
    /// Whether the source track may be used.
    pub source_track: bool,
    /// Whether two commands may have this relation on a track.
    pub allows: &'a dyn Fn(Neighbour) -> bool,
    /// The foreground's first sector, if blocks may be merged with its command.
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

    /// Returns the time from the end of a command until another can begin on the same track. If their operations differ, the
    /// data of the write cross the bus after those of the read.
    pub(super) fn turnaround(&self, first: Op, second: Op) -> Duration {
        if first == second { self.between(first) } else { self.between(first) + self.change }
    }

    /// Returns the number of sectors that must pass between two commands on a track; zero if the drive queues commands and the
    /// two may touch.
    pub(super) fn skipped(&self, drive: &DriveModel, track: &TrackRef<'_>, neighbour: Neighbour) -> u32 {
        let lost = self.before(neighbour.first).max(self.between(neighbour.first));
        if lost == Duration::ZERO && (self.allows)(Neighbour { touching: true, ..neighbour }) {
            return 0;
        }
        let sectors = track.track().sectors;
        (drive.rpm().arc_in(lost).parts() * u64::from(sectors) / FULL_REVOLUTION + 1) as u32
    }

    /// Returns the least cost of a detour with a separate command, besides the bare seeks.
    pub fn least(&self) -> Duration {
        let fewest = |d: [Duration; 2]| d[0].min(d[1]);
        fewest(self.before) + fewest(self.between) + self.least_margin * 2
    }
}
