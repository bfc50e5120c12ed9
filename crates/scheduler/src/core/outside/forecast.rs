//! The forecast of a command: the work of the head and its times.

use super::clock::{difference, nanos};
use super::config::Overheads;
use super::record::{HeadPath, Observation};
use super::sequences::{Behind, ReadsOn, streamed};
use crate::core::under_way::Approach;
use model::{DriveModel, Piece, Position};
use units::{Duration, Instant, Lbn, LbnRange, Op, TrackIndex};

/// Sectors of a write that cross the bus before the medium side of a drive receives them: a page of 4 KiB (docs/MODEL.md).
pub(super) const BURST_SECTORS: u64 = 8;

/// The state of the drive when a command is done, in platter time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub position: Position,
    pub track: Option<TrackIndex>,
    /// The instant at which the arm is free.
    pub free: Instant,
    /// The instant at which the drive can start the next command.
    pub ready: Instant,
    /// The instant at which the last read's data have crossed the bus.
    pub bus: Instant,
    /// After a read: the position of the head if it reads ahead.
    pub behind: Option<Behind>,
    /// The assumed read-ahead of the drive.
    pub reads_on: ReadsOn,
    /// The LBN after the last cached write, which may still be in progress.
    pub reported: Option<Lbn>,
}

impl Standing {
    /// Returns the state at the start, for a drive without history.
    pub fn at_rest(position: Position, track: Option<TrackIndex>) -> Self {
        let zero = Instant::ZERO;
        Self {
            position,
            track,
            free: zero,
            ready: zero,
            bus: zero,
            behind: None,
            reads_on: ReadsOn::default(),
            reported: None,
        }
    }
}

/// The source of a command's sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The medium, after a move of the arm.
    Medium,
    /// The medium, under a head that reads ahead: each sector is available when it has passed.
    Passing,
    /// The buffer, where they are already; only the command itself takes time.
    Buffer,
}

/// The course of a command, in platter time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forecast {
    /// The drive starts the command.
    pub service: Instant,
    /// The first access could begin here if nothing had to move.
    pub able: Instant,
    /// The head is ready at the first sectors.
    pub arrive: Instant,
    /// The first sector begins to pass.
    pub start: Instant,
    /// The last sector has passed.
    pub end: Instant,
    /// The host receives the completion.
    pub heard: Instant,
    /// The same with the latest possible data on the bus.
    pub heard_at_latest: Instant,
    /// The number of cylinders to the first track.
    pub distance: u32,
    /// Whether the head had to move at all.
    pub moves: bool,
    /// Whether the head arrives within the first track's sectors, so that the passed ones follow after a revolution.
    pub in_two_parts: bool,
    /// The time from the arrival to the pass of the first sector, whether others are read before it or not.
    pub wait: Duration,
    /// The time of the tail, if the head arrives within the request.
    pub rear: Duration,
    /// The event that started the arm, if the arrival depends on the move alone.
    pub set_out: Option<SetOut>,
    /// The source of the sectors.
    pub source: Source,
}

/// The event that an arm had to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetOut {
    /// The end of the previous command, during which the drive has decoded this one.
    Queued,
    /// The command's own overhead.
    Alone,
}

impl Forecast {
    /// Returns a command that waits for nothing, at instant zero.
    #[cfg(test)]
    pub fn at_once(set_out: SetOut) -> Self {
        let at = Instant::ZERO;
        Self {
            service: at,
            able: at,
            arrive: at,
            start: at,
            end: at,
            heard: at,
            heard_at_latest: at,
            distance: 0,
            moves: true,
            in_two_parts: false,
            wait: Duration::ZERO,
            rear: Duration::ZERO,
            set_out: Some(set_out),
            source: Source::Medium,
        }
    }

    /// Returns the slack: the largest delay of the arrival without the loss of a revolution.
    pub fn slack(&self) -> Duration {
        self.start.saturating_since(self.arrive)
    }

    /// Returns the head's way to the command, and its slack.
    pub fn approach(&self) -> (HeadPath, Duration) {
        if self.moves {
            (HeadPath::Moved(self.distance), self.slack())
        } else {
            (HeadPath::Stayed, self.start.saturating_since(self.able))
        }
    }
}

/// The forecast of a foreground request without detours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plain {
    /// The platter time of its sending.
    pub sent: Instant,
    /// The end of its first command, and its completion at the host, as far as the commands before the detour are known.
    pub end: Instant,
    pub heard: Instant,
    /// The number of the detour's commands, the merged one included; 0 without a detour.
    pub detour: u32,
    /// Whether one of them failed: the drive's retries may take any time.
    pub failed: bool,
    /// The time of their data on the bus.
    pub bus: Duration,
    /// The lasting lead in ns over the request that would have been chosen in its place, less the mean lead over the
    /// forecast of similar requests in control gaps.
    pub gain: i64,
    /// The part of its own time that the detour was given on purpose.
    pub spent: Duration,
}

/// The delay of a foreground request by detours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Late {
    /// The delay of the head in ns, shared by all that wait for it; negative if the later choice was nearer.
    pub head: i64,
    /// The further delay of its completion, because its data waited for others on the bus.
    pub bus: Duration,
}

impl Plain {
    /// Forecasts the request from the current position of the head.
    pub fn foresee(
        &mut self,
        drive: &DriveModel,
        overheads: &Overheads,
        from: &Standing,
        held_back: HeldBack,
        what: (Op, LbnRange),
    ) {
        let (foreseen, _) = forecast(drive, overheads, from, (self.sent, held_back), what);
        (self.end, self.heard) = (foreseen.end, foreseen.heard);
    }

    /// Returns the request's delay, from the forecast with the detour and the completion. A late head loses at most one
    /// revolution for each command, plus the bus time of its data; longer delays have other causes. `merged`: the command's
    /// data include blocks that were merged with the request's. `usual`: the mean delay of requests without detours; it is
    /// negative where the platter's angle is known from completions that were late on the bus.
    pub fn late(
        &self,
        foreseen: &Forecast,
        seen: &Observation,
        (revolution, overlap): (Duration, bool),
        merged: bool,
    ) -> Late {
        let positive = |ns: i64| Duration::from_nanos(ns.max(0).unsigned_abs());
        let revolutions = seen.revolutions.saturating_mul(nanos(revolution));
        let beyond = if seen.explained { revolutions } else { seen.error };
        // Without a detour, an extra revolution is the drive's own; charge nothing.
        let beyond = if self.detour == 0 { beyond.min(0) } else { beyond };
        let most = nanos(revolution * u64::from(self.detour + 1) + self.bus);
        let head = difference(foreseen.end, self.end);
        let head_late = head.saturating_add(beyond);
        // A pause of the drive's own; at most one revolution of it is the detour's.
        let most_late = if self.failed {
            i64::MAX
        } else if head_late > most.saturating_mul(PAUSE_COSTS_MIN) {
            nanos(revolution)
        } else {
            most
        };
        let head_late = head_late.clamp(0, most_late);
        let waited = difference(foreseen.heard, self.heard).saturating_sub(head).clamp(0, most);
        // The rest is the wait of the merged data on the bus.
        let residue =
            if merged && seen.explained { seen.error.saturating_sub(revolutions).max(0) } else { 0 };
        let late = Late { head: head_late - self.gain, bus: positive(waited.saturating_add(residue)) };
        // A drive that starts no other command before the host has all data is late by both.
        if overlap { late } else { Late { head: late.head + nanos(late.bus), bus: Duration::ZERO } }
    }
}

/// A delay of more than this many times the possible cost of a detour is a pause of the drive.
pub(super) const PAUSE_COSTS_MIN: i64 = 4;

/// The delay of a read's data that 99% of the reads do not exceed, as a share of their time on the bus in 65536ths. A delay
/// above the bound costs the next command a revolution, but a bound that is too high costs only a part of a read.
///
/// The overlap of bus and medium varies, and does not affect the head (FAST'02, section 5.2); but the host sends nothing
/// before the completion, and the data of a write follow those of the read before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldBack(u32);

/// Reads of fewer sectors show nothing.
const READ_SECTORS_MIN: u64 = 16;

/// The step up; this many steps down undo it.
const STEP_65536THS: u32 = 65_536 / 32;
const STEPS_DOWN_PER_STEP_UP: u32 = 99;

impl HeldBack {
    /// Returns the bound for a read with this time on the bus.
    pub fn of(self, bus: Duration) -> Duration {
        bus * u64::from(self.0) / 65_536
    }

    /// Records the delay of a read's completion against its forecast.
    pub fn learn(&mut self, overheads: &Overheads, sectors: u64, late: Duration) {
        let bus = overheads.bus_sector * sectors;
        if sectors < READ_SECTORS_MIN || bus == Duration::ZERO {
            return;
        }
        let seen = (late.as_nanos().saturating_mul(65_536) / bus.as_nanos()).min(65_536) as u32;
        self.0 = if seen > self.0 {
            self.0 + STEP_65536THS
        } else {
            self.0.saturating_sub(STEP_65536THS / STEPS_DOWN_PER_STEP_UP)
        };
    }
}

/// Returns the forecast of a command for `range` that reaches the drive at `sent`, and the state of the drive after it.
pub(super) fn forecast(
    drive: &DriveModel,
    overheads: &Overheads,
    from: &Standing,
    (sent, held_back): (Instant, HeldBack),
    (op, range): (Op, LbnRange),
) -> (Forecast, Standing) {
    if op == Op::Read
        && let Some(foreseen) = streamed(drive, overheads, from, (sent, held_back), range)
    {
        return foreseen;
    }
    let service = from.ready.max(sent);
    let taken_in = if overheads.overlap { sent } else { service } + overheads.command(op);
    // Without a queue the head is free by then, except for cached writes.
    let set_out = from.free.max(taken_in);
    let waited_for = if set_out > taken_in { SetOut::Queued } else { SetOut::Alone };
    // In a queue its overhead runs beside the command before.
    let begun = if overheads.overlap { sent } else { service };
    let mut done: Option<Forecast> = None;
    let mut at = *from;
    at.free = set_out;
    // A zero-latency drive that would have to return to a track takes a longer request in order.
    let mut waiting = 0;
    // The pass of the sectors that cross the bus first.
    let mut front = None;
    // Sectors of the request up to the end of the current piece. A drive that has received all of them may write them in any order.
    let mut written = 0;
    // Its data follow the decoding of the command and the data of a read before it.
    let bus_from = (begun + overheads.command(op)).max(if overheads.overlap { from.bus } else { begun });
    // A drive that caches writes starts this one when the cached writes are on the medium.
    let writes_back = op.is_write() && overheads.write_back;
    let bus_from = if writes_back { bus_from.max(service).max(from.free) } else { bus_from };
    let whole = |piece: &Piece| u64::from(piece.len) == range.len().get();
    for piece in drive.layout().pieces(range) {
        let earliest = match (&done, op) {
            (None, Op::Read) => begun + overheads.shortest_access,
            _ => at.free,
        };
        let mut approach = Approach::arriving_after(drive, (at.position, at.free, earliest), op, &piece);
        let missed = approach.missed.take();
        let mut data_there = bus_from;
        if op.is_write() {
            let data = |sectors: u64| bus_from + overheads.bus_sector * sectors;
            written += u64::from(piece.len);
            // Such a drive receives the sectors one by one.
            let burst = if overheads.write_back { 1 } else { BURST_SECTORS };
            let all = data(written.next_multiple_of(burst).min(range.len().get()));
            approach.missed = missed.filter(|&missed| all <= approach.rear_start(drive, &piece, missed));
            let first = if overheads.write_back {
                // Each must have arrived when it begins to pass: a write that directly follows the one in progress is too
                // late for this revolution.
                let passes = drive.rpm().time_within(drive.layout().track(piece.track).arc(piece.sector, 1));
                let behind = |others: u64| data(others + 1).checked_sub(passes * others).unwrap_or_default();
                behind(0).max(behind(u64::from(piece.len.saturating_sub(1))))
            } else {
                data(range.len().get().min(BURST_SECTORS))
            };
            data_there = first;
            if approach.missed.is_none() && done.is_none() && first > approach.arrive {
                approach = Approach::arriving_after(drive, (at.position, at.free, first), op, &piece);
                approach.missed = None;
            }
        } else if whole(&piece) {
            // The tail waits for the front before it may cross the bus.
            approach.missed = missed;
            waiting = missed.map_or(0, |missed| piece.len - missed);
        }
        let able = taken_in.max(if op.is_write() { data_there } else { earliest });
        let (start, end) = (approach.start(drive), approach.end(drive, &piece));
        if !op.is_write() {
            let passes =
                |missed| drive.rpm().time_within(drive.layout().track(piece.track).arc(piece.sector, missed));
            front = approach.missed.and_then(|missed| end.checked_sub(passes(missed)));
        }
        let to = Position::from(approach.track);
        let first = done.get_or_insert(Forecast {
            service,
            able,
            arrive: approach.arrive,
            start: if approach.missed.is_some() { approach.arrive } else { start },
            end,
            heard: end,
            heard_at_latest: end,
            distance: at.position.cylinder.distance(to.cylinder),
            moves: at.position != to,
            in_two_parts: approach.missed.is_some(),
            wait: start.saturating_since(approach.arrive),
            rear: approach.rear(drive, &piece).unwrap_or_default(),
            set_out: (approach.arrive == set_out + drive.move_time(from.position, to, op))
                .then_some(waited_for),
            source: Source::Medium,
        });
        first.end = end;
        at = Standing { position: to, track: Some(piece.track), free: end, ready: end, ..*from };
    }
    let sectors = range.len().get();
    let mut done = done.unwrap_or(Forecast {
        service,
        able: set_out,
        arrive: set_out,
        start: set_out,
        end: set_out,
        heard: set_out,
        heard_at_latest: set_out,
        distance: 0,
        moves: false,
        in_two_parts: false,
        wait: Duration::ZERO,
        rear: Duration::ZERO,
        set_out: None,
        source: Source::Medium,
    });
    let bus = overheads.bus_sector * sectors;
    let tail = overheads.tail(op);
    (done.heard, at.bus) = if op.is_write() {
        let crossed = bus_from + bus;
        (if writes_back { crossed } else { done.end } + tail, crossed)
    } else {
        // The bus may be slower than the medium, or busy.
        let first = front.unwrap_or(done.start);
        let first = if overheads.overlap { first.max(from.bus) } else { first };
        let last = done.end + overheads.bus_sector * (u64::from(waiting) + 1);
        let crossed = last.max(first + bus);
        let latest = crossed + held_back.of(bus);
        let after = overheads.after_bus();
        done.heard_at_latest = latest + after;
        (crossed + after, latest)
    };
    done.heard_at_latest = done.heard_at_latest.max(done.heard);
    at.ready = if overheads.overlap { done.end } else { done.heard };
    at.behind = (op == Op::Read).then(|| {
        let sequence = from.behind.is_some_and(|behind| behind.follows(drive, range));
        Behind { lbn: range.end(), at: done.end, sequence }
    });
    at.reported = writes_back.then(|| range.end());
    (done, at.reading_on(drive))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::builtin;
    use units::Sectors;

    #[test]
    fn ninety_nine_of_a_hundred_reads_are_not_later_than_is_allowed_for() {
        let overheads = Overheads { bus_sector: Duration::from_micros(6), ..Overheads::default() };
        let bus = overheads.bus_sector * 100;
        let late = |percent: u64| bus * percent / 100;
        let mut held_back = HeldBack::default();
        let mut state = 1u64;
        let (mut n, mut later) = (0, 0);
        for i in 0..60_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Half of them in time, the rest late by up to half of their time on the bus.
            let seen = late(((state >> 33) % 100).saturating_sub(50));
            if i > 10_000 {
                n += 1;
                later += u32::from(seen > held_back.of(bus));
            }
            held_back.learn(&overheads, 100, seen);
        }
        assert!((5..15).contains(&(later * 1_000 / n)), "{later} of {n}");
        // A bus without delays is soon trusted.
        (0..4_000).for_each(|_| held_back.learn(&overheads, 100, Duration::ZERO));
        assert_eq!(held_back.of(bus), Duration::ZERO);
        // Short reads show nothing.
        held_back.learn(&overheads, 8, late(50));
        assert_eq!(held_back.of(bus), Duration::ZERO);
    }

    #[test]
    fn a_cached_write_that_continues_the_one_in_progress_is_a_revolution_late() {
        let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
        let revolution = crate::core::under_way::revolution(&drive);
        for overlap in [false, true] {
            let overheads = Overheads {
                command: [Duration::from_micros(300); 2],
                completion: [Duration::from_micros(10); 2],
                bus_sector: Duration::from_micros(6),
                shortest_access: Duration::ZERO,
                overlap,
                write_back: true,
                if_through: None,
            };
            let mut at = Standing::at_rest(Position::default(), None);
            let mut sent = Instant::ZERO;
            // The second is sent when the first is reported.
            let [first, second] = [100_000, 100_008].map(|start| {
                let range = LbnRange::new(Lbn::new(start), Sectors::new(8));
                let (seen, next) =
                    forecast(&drive, &overheads, &at, (sent, HeldBack::default()), (Op::Write, range));
                at = Standing { ready: if overlap { next.free } else { seen.heard }, ..next };
                sent = seen.heard;
                seen
            });
            assert!(first.end > first.heard + Duration::from_millis(1), "the head has still to come there");
            assert!(second.heard > first.end, "its data wait until the first is on the medium");
            assert!(second.end > first.end + revolution && second.end < first.end + revolution * 2);
        }
    }
}
