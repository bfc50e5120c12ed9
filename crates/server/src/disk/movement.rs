//! The parts of requests' time at the device, estimated from the profile.

use model::{DriveModel, Position};
use units::{Duration, LbnRange, Op};

/// The most tracks of a command that count.
const TRACKS_MAX: usize = 64;

/// The parts of the time of requests, of which the rest are waits for the platter and overheads of commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Movement {
    /// Moves of the head to the tracks of requests, as the profile has them.
    pub moves: Duration,
    /// Sectors of requests under the head.
    pub sectors: Duration,
    /// The whole time of requests that took less than the head needs: the drive's buffer has served them.
    pub buffered: Duration,
    /// The track of the head, as far as commands show it.
    at: Option<Position>,
}

impl Movement {
    /// Records a command; `took` is its time if it is a request's. A drive without a profile has no parts.
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
            // The head need not have moved.
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
        // A task's block moves the head and has no time of requests.
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
