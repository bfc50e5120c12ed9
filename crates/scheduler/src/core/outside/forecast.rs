//! What a command will make the head do, and when.

use super::clock::{difference, nanos};
use super::config::Overheads;
use super::record::{Observed, Way};
use super::sequences::{Behind, ReadsOn, streamed};
use crate::core::under_way::Approach;
use model::{DriveModel, Piece, Position};
use units::{Duration, Instant, Lbn, LbnRange, Op, TrackIndex};

/// Sectors of a write that cross the bus before the medium side of a drive learns of them: a page of 4 KiB
/// (docs/MODEL.md).
pub(super) const BURST: u64 = 8;

/// Where the head is when a command is done, in platter time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub position: Position,
    pub track: Option<TrackIndex>,
    /// When the arm is free.
    pub free: Instant,
    /// When the drive can turn to the next command.
    pub ready: Instant,
    /// When the last read's data have crossed the bus.
    pub bus: Instant,
    /// Behind a read: where the head is if it reads on.
    pub behind: Option<Behind>,
    /// What the drive is taken to read on to.
    pub reads_on: ReadsOn,
    /// The LBN behind what it has reported from its buffer last, and may be writing still.
    pub reported: Option<Lbn>,
    /// Whether the drive is taken to take in what follows that meanwhile.
    pub takes_in: bool,
}

impl Standing {
    /// At the beginning, of a drive of which nothing is known.
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
            takes_in: false,
        }
    }
}

/// Where a command's sectors come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The arm moves for them.
    Medium,
    /// They pass under a head that reads on, and are done when the last has passed.
    Passing,
    /// They have passed before; what they take is a command's time.
    Buffer,
}

/// The course of a command, in platter time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Forecast {
    /// The drive turns to it.
    pub service: Instant,
    /// It could have begun if nothing had to move.
    pub able: Instant,
    /// The head is ready at its first sectors.
    pub arrive: Instant,
    /// The first sector begins to pass.
    pub start: Instant,
    /// The last has passed.
    pub end: Instant,
    /// The host learns of it.
    pub heard: Instant,
    /// The same when its data cross the bus as late as they may.
    pub heard_at_latest: Instant,
    /// Cylinders to its first track.
    pub distance: u32,
    /// Whether the head had to move at all.
    pub moves: bool,
    /// Whether it comes among the first track's sectors, and what has passed is had a turn later.
    pub in_two_parts: bool,
    /// From then until its first sector passes, the others before it or not.
    pub wait: Duration,
    /// The time of the sectors that it begins with if it comes among them.
    pub rear: Duration,
    /// When the arm set out, if nothing but its move decides when the head is ready.
    pub set_out: Option<SetOut>,
    /// Where its sectors come from.
    pub source: Source,
}

/// What the arm's setting out had to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SetOut {
    /// The command before: this one was taken in beside it.
    Queued,
    /// Its own command's overhead.
    Alone,
}

impl Forecast {
    /// A command with nothing to wait for at instant zero.
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

    /// How much later the head could have come and still begun in this turn.
    pub fn slack(&self) -> Duration {
        self.start.saturating_since(self.arrive)
    }

    /// What the head had to do to be in time, and how much later it could have been.
    pub fn approach(&self) -> (Way, Duration) {
        if self.moves {
            (Way::Moved(self.distance), self.slack())
        } else {
            (Way::Stayed, self.start.saturating_since(self.able))
        }
    }
}

/// What a foreground request would have been without detours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plain {
    /// Platter time at which it would have been sent.
    pub sent: Instant,
    /// When its first command would have been done, and the host heard of it, as far as is known of those before the
    /// detour.
    pub end: Instant,
    pub heard: Instant,
    /// The detour's commands, with what is merged; none for a request without one.
    pub detour: u32,
    /// Whether one of them failed: the drive has tried for it for as long as it liked.
    pub failed: bool,
    /// The time of their data on the bus.
    pub bus: Duration,
    /// By how many nanoseconds it is done sooner than what would have been chosen in its place, as far as that lasts; less
    /// those by which requests like it come sooner than foreseen when they are left alone.
    pub gain: i64,
    /// What of its own time the detour was given on purpose.
    pub bought: Duration,
}

/// By how much a foreground request was later than without detours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Late {
    /// The head was, in nanoseconds: so is all that waits for it. Less than nothing where what was chosen later was nearer.
    pub head: i64,
    /// The host has heard of it so much later still, as its data came behind others on the bus.
    pub bus: Duration,
}

impl Plain {
    /// As foreseen from where the head is now.
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

    /// How much later it was, as was foreseen with the detour and as was seen then. A head that is late loses a turn
    /// with each command at most, and what its data take on the bus; what takes longer has other reasons. Of the data
    /// that a command brought, some were `merged` with the request's; requests without a detour are so many nanoseconds later than
    /// foreseen in the mean, which is less than nothing where the platter's angle is known from such that came late over the bus.
    pub fn late(
        &self,
        foreseen: &Forecast,
        seen: &Observed,
        (turn, overlap): (Duration, bool),
        (merged, usual): (bool, i64),
    ) -> Late {
        let positive = |ns: i64| Duration::from_nanos(ns.max(0).unsigned_abs());
        let turns = seen.turns.saturating_mul(nanos(turn));
        let beyond = if seen.explained { turns } else { seen.error };
        // What a request alone loses it would have lost anyway.
        let beyond = if self.detour == 0 { beyond.min(0) } else { beyond };
        let most = nanos(turn * u64::from(self.detour + 1) + self.bus);
        let head = difference(foreseen.end, self.end);
        let head_late = head.saturating_add(beyond);
        // A pause of the drive's own; at most a turn of it is the detour's doing.
        let most_late = if self.failed {
            i64::MAX
        } else if head_late > most.saturating_mul(PAUSE) {
            nanos(turn)
        } else {
            most
        };
        let head_late = head_late.clamp(0, most_late);
        let waited = difference(foreseen.heard, self.heard).saturating_sub(head).clamp(0, most);
        // Beyond that, what is merged waited for the bus, and the request with it.
        let residue = if merged && seen.explained {
            seen.error.saturating_sub(turns).saturating_sub(usual).max(0)
        } else {
            0
        };
        let late = Late { head: head_late - self.gain, bus: positive(waited.saturating_add(residue)) };
        // A drive that turns to nothing else before the host has all data is late by both.
        if overlap { late } else { Late { head: late.head + nanos(late.bus), bus: Duration::ZERO } }
    }
}

/// Later than so many times what a detour can cost: the drive has paused.
pub(super) const PAUSE: i64 = 4;

/// How late a read's data may be, as a part of their time on the bus, in 65536ths: ninety-nine of a hundred are not later. Whoever
/// is costs what comes behind it a turn, which is far more than a part of a read; with nine of ten, writes behind a read of their
/// track lost a turn in one of forty.
///
/// How bus and medium overlap varies, and does not matter to the head (FAST'02, section 5.2); but until the host has heard
/// it sends nothing, and a write's data come behind those of a read before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HeldBack(u32);

/// Fewer sectors tell nothing.
const TELLING: u64 = 16;

/// A step up; so many down make up for it.
const STEP: u32 = 65_536 / 32;
const EXCEEDED: u32 = 99;

impl HeldBack {
    /// Of a read's time on the bus.
    pub fn of(self, bus: Duration) -> Duration {
        bus * u64::from(self.0) / 65_536
    }

    /// The host has heard of a read so much later than was foreseen.
    pub fn learn(&mut self, overheads: &Overheads, sectors: u64, late: Duration) {
        let bus = overheads.bus_sector * sectors;
        if sectors < TELLING || bus == Duration::ZERO {
            return;
        }
        let seen = (late.as_nanos().saturating_mul(65_536) / bus.as_nanos()).min(65_536) as u32;
        self.0 = if seen > self.0 { self.0 + STEP } else { self.0.saturating_sub(STEP / EXCEEDED) };
    }
}

/// What the head does for `range` after `from`, if the drive has the command at `sent`; and where that leaves it.
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
    // Without a queue the head is free by then, but for what was reported and not written yet.
    let set_out = from.free.max(taken_in);
    let waited_for = if set_out > taken_in { SetOut::Queued } else { SetOut::Alone };
    // In a queue its overhead runs beside what came before.
    let begun = if overheads.overlap { sent } else { service };
    let mut done: Option<Forecast> = None;
    let mut at = *from;
    at.free = set_out;
    // A drive with zero-latency access that would have to come back to a track takes a longer request in order.
    let mut waiting = 0;
    // Since when the sectors pass that cross the bus first.
    let mut front = None;
    // Sectors up to the end of the piece: any order is possible when their data are there, however many follow.
    let mut written = 0;
    // Its data come when the command has been taken in and those of a read before it have gone.
    let bus_from = (begun + overheads.command(op)).max(if overheads.overlap { from.bus } else { begun });
    // A drive that writes back turns to it when what it has reported is written.
    let writes_back = op.is_write() && overheads.write_back;
    let waits = writes_back && !(from.takes_in && from.follows_reported(range));
    let bus_from = if waits { bus_from.max(service).max(from.free) } else { bus_from };
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
            // A drive that writes back sees them come one by one.
            let burst = if overheads.write_back { 1 } else { BURST };
            let all = data(written.next_multiple_of(burst).min(range.len().get()));
            approach.missed = missed.filter(|&missed| all <= approach.rear_start(drive, &piece, missed));
            let first = if overheads.write_back {
                // Each is there when it begins to pass: who follows on what is being written comes too late for that turn.
                let passes = drive.rpm().time_within(drive.layout().track(piece.track).arc(piece.sector, 1));
                let behind = |others: u64| data(others + 1).checked_sub(passes * others).unwrap_or_default();
                behind(0).max(behind(u64::from(piece.len.saturating_sub(1))))
            } else {
                data(range.len().get().min(BURST))
            };
            data_there = first;
            if approach.missed.is_none() && done.is_none() && first > approach.arrive {
                approach = Approach::arriving_after(drive, (at.position, at.free, first), op, &piece);
                approach.missed = None;
            }
        } else if whole(&piece) {
            // The rear part waits for the front before it may cross the bus.
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
        // The bus may be slower than the medium, or taken.
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
            // Half of them in time, the rest by up to half of their time on the bus.
            let seen = late(((state >> 33) % 100).saturating_sub(50));
            if i > 10_000 {
                n += 1;
                later += u32::from(seen > held_back.of(bus));
            }
            held_back.learn(&overheads, 100, seen);
        }
        assert!((5..15).contains(&(later * 1_000 / n)), "{later} of {n}");
        // A bus that is never late is soon believed.
        (0..4_000).for_each(|_| held_back.learn(&overheads, 100, Duration::ZERO));
        assert_eq!(held_back.of(bus), Duration::ZERO);
        // Short reads tell nothing.
        held_back.learn(&overheads, 8, late(50));
        assert_eq!(held_back.of(bus), Duration::ZERO);
    }
}
