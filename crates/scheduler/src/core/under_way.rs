//! The work of the head.

use crate::foreground::Pending;
use crate::time_window::TimeWindow;
use alloc::vec::Vec;
use model::{DriveModel, Piece, Position, Track, Window};
use units::{Arc as Rotation, Duration, FULL_REVOLUTION, Instant, LbnRange, Op, RequestId, TrackIndex};

/// The work that the host carries out.
#[derive(Clone, Debug)]
pub(super) struct UnderWay {
    pub until: Instant,
    pub work: JobWork,
}

#[derive(Clone, Debug)]
pub(super) enum JobWork {
    /// A foreground request, with the detours in its gaps.
    Foreground(Job),
    /// Background work in idle time.
    Idle(Visit),
    /// A read for the mimic in idle time.
    Probe(Job),
}

/// A foreground request and its accesses.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub pending: Pending,
    /// The parts of a promoted write that are still to be written.
    pub runs: Vec<LbnRange>,
    /// The position that the arm passes on its way to the first sector; `None` if the arm goes directly.
    pub over: Option<Position>,
}

impl Job {
    /// Returns whether the request is a promoted write, of which only the parts in `runs` are written.
    pub fn is_promoted_write(&self) -> bool {
        self.pending.promoted.is_some() && self.pending.request.op == Op::Write
    }

    /// Returns the request of the foreground, if it was not promoted.
    pub fn request(&self) -> Option<RequestId> {
        self.pending.promoted.is_none().then_some(self.pending.request.id)
    }

    pub fn ranges(&self) -> &[LbnRange] {
        let request = &self.pending.request;
        if self.is_promoted_write() { &self.runs } else { core::slice::from_ref(&request.range) }
    }

    /// Returns when a head that starts from `from` at `at` has done the request without detours.
    pub fn plain_end(&self, drive: &DriveModel, from: Position, at: Instant) -> Instant {
        end_over(drive, self.over, Departure { from, at }, self.pending.request.op, self.ranges())
    }
}

/// Idle work on one track.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub track: TrackIndex,
    /// The arrival of the head.
    pub ready: Instant,
    /// The time of each access.
    pub times: Vec<TimeWindow>,
}

/// The position that the head leaves, and the instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub from: Position,
    pub at: Instant,
}

/// The pass of a request's piece under the arriving head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Approach {
    pub track: Track,
    /// The instant at which the head is ready on the track.
    pub arrive: Instant,
    /// The rotation from the arrival to the start of the piece's first sector.
    pub wait: Rotation,
    /// The rotation of the whole piece.
    pub span: Rotation,
    /// The number of the piece's sectors that have passed at the arrival, if the drive may begin in the middle: zero-latency
    /// access.
    pub missed: Option<u32>,
}

impl Approach {
    /// Returns the approach of a head that goes to the piece over the position `over`, or directly for `None`. The head arrives
    /// no earlier than by the direct move, even if the seek curve has a dent that makes the direct move longer.
    pub fn over(drive: &DriveModel, over: Option<Position>, head: Departure, op: Op, piece: &Piece) -> Self {
        let earliest = over.map_or(head.at, |over| {
            let track = drive.layout().track(piece.track).into();
            head.at + drive.move_time(head.from, over, Op::Read) + drive.move_time(over, track, op)
        });
        Self::arriving_after(drive, head, earliest, op, piece)
    }

    /// Returns the approach of a head that transfers nothing before `earliest`, even if it arrives earlier.
    pub fn arriving_after(
        drive: &DriveModel,
        Departure { from, at }: Departure,
        earliest: Instant,
        op: Op,
        piece: &Piece,
    ) -> Self {
        let (track, rpm) = (drive.layout().track(piece.track), drive.rpm());
        let arrive = (at + drive.move_time(from, track.into(), op)).max(earliest);
        let wait = rpm.earliest_angle(arrive).until(track.sector_angle(piece.sector));
        let span = track.arc(piece.sector, piece.len);
        let passed = Rotation::from_parts(FULL_REVOLUTION) - wait;
        // The sectors of the piece that have passed at the arrival, the one under the head included.
        let missed = (drive.zero_latency(op) && passed < span).then(|| {
            let from = track.boundary(piece.sector) + passed;
            (from.parts() * u64::from(track.sectors)).div_ceil(FULL_REVOLUTION) as u32 - piece.sector
        });
        Self { track, arrive, wait, span, missed: missed.filter(|missed| *missed < piece.len) }
    }

    /// Returns when the tail of `piece`, its sectors after the first `missed`, begins to pass.
    pub fn rear_start(&self, drive: &DriveModel, piece: &Piece, missed: u32) -> Instant {
        let rpm = drive.rpm();
        let wait = rpm.earliest_angle(self.arrive).until(self.track.sector_angle(piece.sector + missed));
        self.arrive + rpm.time_within(wait)
    }

    /// Returns the duration of the pass of the piece's tail; `None` if the drive does not begin in the piece's middle.
    pub fn rear(&self, drive: &DriveModel, piece: &Piece) -> Option<Duration> {
        let missed = self.missed?;
        Some(drive.rpm().time_within(self.track.arc(piece.sector + missed, piece.len - missed)))
    }

    /// Returns when the piece's tail, which passes first, is done.
    pub fn rear_end(&self, drive: &DriveModel) -> Instant {
        let passed = Rotation::from_parts(FULL_REVOLUTION) - self.wait;
        self.arrive + drive.rpm().time_within(self.span - passed)
    }

    /// Returns when the piece's first sector passes.
    pub fn start(&self, drive: &DriveModel) -> Instant {
        self.arrive + drive.rpm().time_within(self.wait)
    }

    /// Returns when the whole piece is done.
    pub fn end(&self, drive: &DriveModel, piece: &Piece) -> Instant {
        let last = self.missed.map_or(self.span, |missed| self.track.arc(piece.sector, missed));
        self.arrive + drive.rpm().time_within(self.wait + last)
    }
}

/// Returns when a head that starts from `from` at `at` has done all ranges without detours.
pub(super) fn plain_end(
    drive: &DriveModel,
    from: Position,
    at: Instant,
    op: Op,
    ranges: &[LbnRange],
) -> Instant {
    end_over(drive, None, Departure { from, at }, op, ranges)
}

/// Returns when a head that goes to the first range over the position `over`, or directly for `None`, has done all ranges.
fn end_over(
    drive: &DriveModel,
    mut over: Option<Position>,
    mut head: Departure,
    op: Op,
    ranges: &[LbnRange],
) -> Instant {
    for piece in ranges.iter().flat_map(|range| drive.layout().pieces(*range)) {
        let approach = Approach::over(drive, over.take(), head, op, &piece);
        head = Departure { from: approach.track.into(), at: approach.end(drive, &piece) };
    }
    head.at
}

/// Returns when the sectors of a window begin and end to pass, for a head on their track from `from` on.
pub(super) fn pass(
    drive: &DriveModel,
    track: &Track,
    from: Instant,
    Window { first, count }: Window,
) -> TimeWindow {
    let rpm = drive.rpm();
    let wait = rpm.earliest_angle(from).until(track.sector_angle(first));
    let after = |arc| from + rpm.time_within(arc);
    TimeWindow { begin: after(wait), end: after(wait + track.arc(first, count)) }
}

/// Returns the time of a revolution, rounded up.
pub(super) fn revolution(drive: &DriveModel) -> Duration {
    drive.rpm().time_within(Rotation::REVOLUTION)
}
