//! An estimate from the profile of how requests spend their time at the device: seeks, transfers, and the drive's
//! buffer.

use model::{DriveModel, Position};
use units::{Duration, LbnRange, Op};

/// The most tracks of one command that are added up, which bounds the work for a long command.
const TRACKS_MAX: usize = 64;

/// Parts of the total time of requests at the device. The rest is rotational latency and command overheads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Movement {
    /// The time of the head's moves to the tracks of requests, by the profile.
    pub moves: Duration,
    /// The time in which the sectors of requests pass under the head.
    pub sectors: Duration,
    /// The whole time of requests that took less than the moves and sectors need: the drive's buffer served them.
    pub buffered: Duration,
    /// The track at which the last command left the head; `None` before the first.
    at: Option<Position>,
}

impl Movement {
    /// Records a command. `took` is the command's time if the command is for a request. Nothing is recorded for a drive
    /// without a profile.
    pub fn note(&mut self, drive: &DriveModel, op: Op, range: LbnRange, took: Option<Duration>) {
        if !drive.is_known() {
            return;
        }
        let (mut moves, mut sectors, mut at) = (Duration::ZERO, Duration::ZERO, self.at);
        for piece in drive.layout().pieces(range).take(TRACKS_MAX) {
            let track = drive.layout().track(piece.track);
            let here = Position::from(track);
            moves += at.map_or(Duration::ZERO, |from| drive.move_time(from, here, op));
            sectors += drive.rpm().time_to_pass(track.arc(piece.sector, piece.len));
            at = Some(here);
        }
        match took {
            // The drive's buffer served the request, so the head may not have moved.
            Some(took) if took < moves + sectors => {
                self.buffered += took;
                return;
            }
            Some(_) => {
                self.moves += moves;
                self.sectors += sectors;
            }
            None => {}
        }
        self.at = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Lbn, Sectors};

    fn range(lbn: u64, sectors: u64) -> LbnRange {
        LbnRange::new(Lbn::new(lbn), Sectors::new(sectors))
    }

    #[test]
    fn the_time_of_a_request_is_its_move_and_its_sectors_and_the_rest() {
        let profile = model::builtin::find("quantum-atlas-10k").unwrap();
        let drive = DriveModel::from_profile(&profile).unwrap();
        let layout = drive.layout();
        let place = |lbn| Position::from(layout.track(layout.locate(Lbn::new(lbn)).unwrap().track));
        let far = layout.capacity().get() / 2;
        let mut time = Movement::default();
        // The first command shows where the head is.
        time.note(&drive, Op::Read, range(0, 8), Some(Duration::from_millis(8)));
        assert_eq!(time.moves, Duration::ZERO);
        let first = time.sectors;
        assert!(first > Duration::ZERO && first < drive.rpm().revolution() / 10);
        time.note(&drive, Op::Read, range(far, 8), Some(Duration::from_millis(20)));
        let there = drive.move_time(place(0), place(far), Op::Read);
        assert!(there > Duration::from_millis(2) && time.moves == there);
        // The command for a task's block moves the head and adds no time.
        let before = time;
        time.note(&drive, Op::Read, range(0, 8), None);
        assert_eq!((time.moves, time.sectors, time.buffered), (before.moves, before.sectors, Duration::ZERO));
        time.note(&drive, Op::Read, range(8, 8), Some(Duration::from_millis(5)));
        assert_eq!(time.moves, there, "the task's block has brought the head here");
        // A request that took less than its move came from the buffer, and the head is where it was.
        let before = time;
        time.note(&drive, Op::Read, range(far, 8), Some(Duration::from_micros(300)));
        assert_eq!(time, Movement { buffered: Duration::from_micros(300), ..before });
    }

    #[test]
    fn a_drive_without_a_profile_has_no_parts() {
        let drive = DriveModel::unknown(Sectors::new(1 << 20), units::Bytes::new(512)).unwrap();
        let mut time = Movement::default();
        time.note(&drive, Op::Read, range(0, 8), Some(Duration::from_millis(8)));
        time.note(&drive, Op::Read, range(1 << 19, 8), Some(Duration::from_millis(8)));
        assert_eq!(time, Movement::default());
    }
}
