//! Reads that follow each other: what a drive reads on to behind them, and what it then has in its buffer.
//!
//! A drive reads on behind a read for as long as it has nothing else to do, and some do so to the end of the track behind a
//! read that follows another (FAST'02, section 4.3): who comes next waits for that, and who reads on has no move and no turn to
//! wait for. Whether this drive does, completions tell. Such reads say nothing of how well moves are known, and count
//! neither for the profile nor against it. Only who reads behind what was read lately can be served so: whoever else
//! comes early, as all do on a device without a head, was not foreseen.

use super::clock::{difference, moved, nanos};
use super::forecast::{Forecast, HeldBack, Source, Standing};
use super::kept::is_near;
use super::{CHANCE, Command, NOISE, Order, Outside, Overheads, Work};
use crate::core::under_way::Approach;
use model::{DriveModel, Piece};
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// So many completions more for one of both are believed, and no more than so many are remembered.
const ENOUGH: i8 = 4;
const MOST: i8 = 8;

/// Behind what follows so many more make it suspect: detours make no sequences, each of which would cost whoever comes next a turn.
const SUSPECT: i8 = 2;

/// After so many commands, some minutes' worth, without a sequence of anybody's it is tried again.
const LASTING: u32 = 32_768;

/// What a drive is taken to read on to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadsOn {
    /// Behind any read, as long as it has nothing else to do.
    pub idle: bool,
    /// Behind a read that follows another, to the end of its track, whoever waits.
    pub sequence: bool,
}

/// The last command was a read: where the head is if it reads on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    /// The LBN behind what was asked for.
    pub lbn: Lbn,
    /// Platter time at which the sectors before it have passed.
    pub at: Instant,
    /// Whether that followed a read before it on its track.
    pub sequence: bool,
}

impl Behind {
    /// The sectors that pass next, up to the end of the track.
    fn rest(&self, drive: &DriveModel) -> Option<Rest> {
        let layout = drive.layout();
        let last = Lbn::new(self.lbn.get().checked_sub(1)?);
        let at = layout.locate(last)?;
        let sectors = layout.track(at.track).sectors;
        let rest = LbnRange::new(last, Sectors::new(u64::from(sectors - at.sector)));
        let on_it = layout.pieces(rest).take_while(|piece| piece.track == at.track);
        let end = on_it.map(|piece| piece.lbn + Sectors::new(u64::from(piece.len))).last()?;
        Some(Rest { behind: *self, sector: at.sector + 1, end })
    }

    /// Whether a read of `range` follows it on its track.
    pub fn follows(&self, drive: &DriveModel, range: LbnRange) -> bool {
        let Some(last) = self.lbn.get().checked_sub(1).map(Lbn::new) else { return false };
        let track = |lbn| drive.layout().locate(lbn).map(|at| at.track);
        is_near(drive, self.lbn, range) && track(last) == track(range.start())
    }
}

/// What is left of a track behind a read.
struct Rest {
    behind: Behind,
    /// The sector that passes first.
    sector: u32,
    /// The LBN behind the last.
    end: Lbn,
}

impl Rest {
    /// When all before `lbn` have passed.
    fn passed(&self, drive: &DriveModel, lbn: Lbn) -> Instant {
        let layout = drive.layout();
        let last = Lbn::new(lbn.get().saturating_sub(1));
        let Some(at) = layout.locate(last).filter(|at| at.sector >= self.sector) else {
            return self.behind.at;
        };
        let arc = layout.track(at.track).arc(self.sector, at.sector + 1 - self.sector);
        self.behind.at + drive.rpm().time_within(arc)
    }
}

impl Standing {
    /// The head reads on to the end of its track, if the drive does so.
    pub fn reading_on(mut self, drive: &DriveModel) -> Self {
        let sequence = self.behind.filter(|behind| behind.sequence && self.reads_on.sequence);
        if let Some(rest) = sequence.and_then(|behind| behind.rest(drive)) {
            self.free = self.free.max(rest.passed(drive, rest.end));
            self.ready = self.ready.max(self.free);
        }
        self
    }

    /// The same if nothing was read on to.
    pub fn not_reading_on(mut self) -> Self {
        if let Some(behind) = self.behind.filter(|behind| behind.sequence && self.reads_on.sequence) {
            let [ready, free] = [self.ready, self.free];
            self.free = behind.at;
            self.ready = if ready == free { behind.at } else { ready };
        }
        self
    }

    /// All of it is so much later.
    pub fn shifted(mut self, by: i64) -> Self {
        self.free = moved(self.free, by);
        self.behind = self.behind.map(|behind| Behind { at: moved(behind.at, by), ..behind });
        self
    }
}

/// The course of a read that comes where the drive reads on, or has been; `None` for any other.
pub(super) fn streamed(
    drive: &DriveModel,
    overheads: &Overheads,
    from: &Standing,
    (sent, held_back): (Instant, HeldBack),
    range: LbnRange,
) -> Option<(Forecast, Standing)> {
    let behind = from.behind?;
    let sure = behind.sequence && from.reads_on.sequence;
    // Who has come when the head was free has ended that.
    let idle = from.reads_on.idle && sent > behind.at;
    if !(sure || idle) || !is_near(drive, behind.lbn, range) {
        return None;
    }
    let rest = behind.rest(drive)?;
    let follows = range.start() < rest.end;
    if range.start() > rest.end || !follows && !sure {
        return None;
    }
    let turned_to = sent.max(behind.at);
    if !sure && range.start() > behind.lbn && rest.passed(drive, range.start()) > turned_to {
        return None;
    }
    let crosses = range.end() > rest.end;
    let mut at = Standing { free: rest.passed(drive, range.end().min(rest.end)), reported: None, ..*from };
    if crosses {
        let left = range.start().max(rest.end);
        for piece in drive.layout().pieces(LbnRange::new(left, range.end().since(left))) {
            let approach = in_order(drive, &at, &piece);
            at.free = approach.end(drive, &piece);
            at.position = approach.track.into();
            at.track = Some(piece.track);
        }
    }
    let landed = at.free;
    let begun = if overheads.overlap { sent } else { from.ready.max(sent) };
    let taken_in = begun + overheads.command(Op::Read);
    let taken_in = if overheads.overlap { taken_in.max(from.bus) } else { taken_in };
    let bus = overheads.bus_sector * range.len().get();
    let crossed = (taken_in + bus).max(landed + overheads.bus_sector);
    let latest = crossed + held_back.of(bus);
    let tail = overheads.after_bus();
    let from_buffer = taken_in + bus > landed + overheads.bus_sector;
    let seen = Forecast {
        service: turned_to,
        able: taken_in,
        arrive: turned_to,
        start: landed,
        end: landed,
        heard: crossed + tail,
        heard_at_latest: latest + tail,
        distance: 0,
        moves: crosses,
        in_two_parts: false,
        wait: Duration::ZERO,
        rear: Duration::ZERO,
        set_out: None,
        source: if from_buffer { Source::Buffer } else { Source::Passing },
    };
    // What is all there by then does not make the drive read on.
    let goes_on = follows && (sure || landed > turned_to);
    at.behind = Some(Behind { lbn: range.end(), at: landed, sequence: goes_on });
    at.bus = latest;
    // The head may have been further already.
    at.free = if crosses { landed } else { from.free.max(landed) };
    at.ready = if overheads.overlap { at.free } else { seen.heard };
    Some((seen, at.reading_on(drive)))
}

/// The next piece under a head that reads on.
fn in_order(drive: &DriveModel, from: &Standing, piece: &Piece) -> Approach {
    let mut approach =
        Approach::arriving_after(drive, (from.position, from.free, from.free), Op::Read, piece);
    approach.missed = None;
    approach
}

/// What is known of a command that is done.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Followed {
    /// It came from the buffer: it says nothing of where the platter is, or how well it is known. The head is where it was.
    pub hit: bool,
    /// It came sooner than foreseen, and the head may have gone on behind the read before it, further than is known. How long moves are
    /// it does not say.
    pub on_the_way: bool,
}

/// What completions have said of reading on.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequences {
    /// Of what the drive does when it has nothing else to do, and behind what follows.
    score: [i8; 2],
    on: ReadsOn,
    /// Commands since the last that said something of what follows.
    since: u32,
}

impl Sequences {
    /// One more command is done.
    fn done(&mut self) {
        self.since += 1;
        if self.since == LASTING {
            self.since = 0;
            self.score[1] = self.score[1].min(SUSPECT - 1);
            self.on.sequence = false;
        }
    }

    /// Whether the drive may read on behind what follows.
    pub fn is_suspect(&self) -> bool {
        self.on.sequence || self.score[1] >= SUSPECT
    }

    fn believe(&mut self, sequence: bool, reads_on: bool) {
        self.since = if sequence { 0 } else { self.since };
        let score = &mut self.score[usize::from(sequence)];
        *score = (*score + if reads_on { 1 } else { -1 }).clamp(-MOST, MOST);
        let on = if sequence { &mut self.on.sequence } else { &mut self.on.idle };
        *on = if *on { *score > -ENOUGH } else { *score >= ENOUGH };
    }
}

impl Outside {
    /// What a completion says of whether the drive reads on behind what was done last.
    fn learn_reading_on(&mut self, drive: &DriveModel, now: Instant, order: &Order) {
        let Some(behind) = self.base.behind.filter(|_| self.known) else { return };
        let heard = self.clock.platter(now);
        // What it does when it has nothing else to do it does behind what follows as well.
        let plain = ReadsOn { idle: behind.sequence && self.sequences.on.idle, sequence: false };
        let on = ReadsOn { idle: plain.idle || !behind.sequence, sequence: behind.sequence };
        let plain = Standing { reads_on: plain, ..self.base.not_reading_on() };
        let reading = Standing { reads_on: on, ..plain }.reading_on(drive);
        let [with, without] = [reading, plain].map(|from| self.follow(drive, &from, order).0.heard);
        let noise = self.clock.turn() / NOISE;
        let off = |foreseen| difference(heard, foreseen).abs();
        if difference(with, without).abs() > 2 * noise && off(with).min(off(without)) < noise {
            self.sequences.believe(behind.sequence, off(with) < off(without));
        }
    }

    /// A command is done: what that says of reading on, and whether the drive had done so.
    pub(super) fn came_from_buffer(
        &mut self,
        drive: &DriveModel,
        (now, begun): (Instant, Instant),
        order: &mut Order,
        in_turn: bool,
    ) -> Followed {
        let Command { op, range, .. } = order.command;
        let near = !op.is_write() && self.is_near_any(drive, range);
        self.sequences.done();
        if in_turn && self.config.reads_on {
            self.learn_reading_on(drive, now, order);
        }
        let again = order.command.foreground.is_some_and(|asked| self.again.may_hit(drive, op, asked));
        let hit = self.is_hit(drive, (now, begun), order, again);
        let beyond = self.beyond_its_own((now, begun), (op, order.command.foreground.unwrap_or(range)));
        let missed = self.again.done(drive, order, hit, beyond);
        self.kept.missed(missed);
        let sooner = difference(order.forecast.heard, self.clock.platter(now)) > self.clock.turn() / NOISE;
        self.kept.done(drive, order, hit);
        let reads_on = self.sequences.on.idle || self.kept.hit_often();
        let on_the_way = reads_on && near && !hit && sooner;
        Followed { hit, on_the_way }
    }

    /// By how many nanoseconds a command has taken longer than one that waits for nothing which moves.
    fn beyond_its_own(&self, (now, begun): (Instant, Instant), (op, range): (Op, LbnRange)) -> i64 {
        let overheads = &self.config.overheads;
        let own = overheads.command(op) + overheads.bus_sector * range.len().get() + overheads.tail(op);
        nanos(now.saturating_since(begun)) - nanos(own)
    }

    /// Whether a command came from the buffer; it may if it has been there `again`.
    fn is_hit(
        &mut self,
        drive: &DriveModel,
        (now, begun): (Instant, Instant),
        order: &mut Order,
        again: bool,
    ) -> bool {
        let command = order.command;
        if command.op.is_write() {
            return false;
        }
        let heard = self.clock.platter(now);
        let turn = self.clock.turn();
        let (noise, chance) = (turn / NOISE, turn / CHANCE);
        if order.forecast.source != Source::Medium {
            if difference(heard, order.forecast.heard).abs() <= noise {
                if order.forecast.source == Source::Passing && self.known {
                    return false;
                }
                let (_, after) = self.follow(drive, &self.base, order);
                self.base = after;
                self.base.bus = self.crossed(heard);
                return true;
            }
            // It was not there: it has been to the medium.
            self.base = Standing { behind: None, ..self.base.not_reading_on() };
            order.forecast = self.follow(drive, &self.base, order).0;
        }
        let sooner = difference(order.forecast.heard, heard);
        let hit = match order.work {
            Work::Idle => sooner >= noise,
            Work::Foreground { .. } | Work::Detour => {
                let then = self.then(drive, command.range);
                if command.foreground.is_some() {
                    self.kept.came(then.is_some());
                }
                if then.is_none() && !again {
                    return false;
                }
                let later = self.beyond_its_own((now, begun), (command.op, command.range));
                let hit =
                    later < chance && (sooner > chance || !self.known) || sooner > noise && later < noise;
                if let Some(then) = then.filter(|_| command.foreground == Some(command.range)) {
                    // What idle time has taken from the buffer was there without it.
                    if then.since.idle == self.kept.between.idle {
                        self.kept.note(hit || sooner > noise);
                    }
                    let expected = then.expected(drive, command.range);
                    self.kept.took(then.since, expected, if hit { 0 } else { later.max(0) });
                }
                hit
            }
            Work::Stream | Work::Probe => false,
        };
        if hit {
            self.base.free = self.base.free.max(heard);
            self.base.ready = self.base.free;
            self.base.bus = self.crossed(heard);
            self.base.behind = None;
        }
        hit
    }

    /// Whether a read comes where the drive reads on: what lies before it is no gap.
    pub(super) fn is_streamed(&self, drive: &DriveModel, standing: &Standing, what: (Op, LbnRange)) -> bool {
        let sent = (self.decided, self.held_back);
        let overheads = &self.config.overheads;
        what.0 == Op::Read && streamed(drive, overheads, standing, sent, what.1).is_some()
    }

    /// What the drive is taken to read on to from now on.
    pub(super) fn believe_reading_on(&mut self) {
        self.base.reads_on = self.sequences.on;
    }
}

#[cfg(test)]
mod tests {
    use super::super::forecast::forecast;
    use super::*;
    use model::{Position, builtin};

    fn overheads() -> Overheads {
        Overheads {
            command: [Duration::from_micros(300); 2],
            completion: [Duration::from_micros(10); 2],
            bus_sector: Duration::from_micros(6),
            shortest_access: Duration::ZERO,
            overlap: true,
            write_back: false,
            if_through: None,
        }
    }

    fn lbns(start: u64, len: u64) -> LbnRange {
        LbnRange::new(Lbn::new(start), Sectors::new(len))
    }

    /// What is foreseen of reads that are sent at once, by a drive that reads on to so much, from rest.
    fn foreseen(reads_on: ReadsOn, ranges: &[LbnRange]) -> (Vec<Forecast>, Standing) {
        let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
        let rest = Standing { reads_on, ..Standing::at_rest(Position::default(), None) };
        let mut at = rest;
        let each = |range: &LbnRange| {
            let sent = (Instant::ZERO, HeldBack::default());
            let (seen, next) = forecast(&drive, &overheads(), &at, sent, (Op::Read, *range));
            at = next;
            seen
        };
        let all = ranges.iter().map(each).collect();
        (all, at)
    }

    const ALL: ReadsOn = ReadsOn { idle: true, sequence: true };

    #[test]
    fn behind_a_sequence_the_head_is_free_at_the_end_of_the_track() {
        let [one, two] = [lbns(0, 8), lbns(8, 8)];
        let (seen, reading) = foreseen(ALL, &[one, two]);
        let (_, plain) = foreseen(ReadsOn::default(), &[one, two]);
        assert_eq!(plain.free, seen[1].end);
        // The first track has 334 sectors.
        let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
        let track = drive.layout().track(drive.layout().locate(Lbn::ZERO).unwrap().track);
        let rest = drive.rpm().time_within(track.arc(16, track.sectors - 16));
        assert_eq!(reading.free, seen[1].end + rest);
        assert_eq!(reading.not_reading_on().free, plain.free);
        // One read alone is no sequence.
        let (seen, reading) = foreseen(ALL, &[one]);
        assert_eq!(reading.free, seen[0].end);
    }

    #[test]
    fn who_reads_on_is_done_as_the_sectors_pass_and_anybody_else_waits() {
        let (seen, _) = foreseen(ALL, &[lbns(0, 8), lbns(8, 8), lbns(16, 8), lbns(324, 20)]);
        assert_eq!(seen[1].source, Source::Medium);
        assert!(seen[2..].iter().all(|seen| seen.source == Source::Passing), "{seen:?}");
        assert!(!seen[2].moves && seen[3].moves, "only the last goes on to the next track");
        let (plain, _) = foreseen(ReadsOn::default(), &[lbns(0, 8), lbns(8, 8), lbns(16, 8)]);
        assert!(
            difference(seen[2].end, plain[2].end).abs() < 10,
            "it has been behind the other all the time"
        );
        let elsewhere = lbns(9_000_000, 8);
        let (seen, _) = foreseen(ALL, &[lbns(0, 8), lbns(8, 8), elsewhere]);
        let (plain, _) = foreseen(ReadsOn::default(), &[lbns(0, 8), lbns(8, 8), elsewhere]);
        assert!(seen[2].arrive > plain[2].arrive + Duration::from_millis(5));
        assert_eq!(seen[2].source, Source::Medium);
    }

    #[test]
    fn what_is_believed_follows_what_most_say() {
        let mut sequences = Sequences::default();
        let mut told = |times: u32, reads_on: bool| {
            (0..times).for_each(|_| sequences.believe(true, reads_on));
            sequences.on
        };
        assert_eq!(told(3, true), ReadsOn::default());
        assert_eq!(told(1, true), ReadsOn { idle: false, sequence: true });
        assert_eq!(told(7, false), ReadsOn { idle: false, sequence: true });
        assert_eq!(told(1, false), ReadsOn::default());
    }

    #[test]
    fn what_nothing_is_seen_of_is_tried_again_once() {
        let mut sequences = Sequences::default();
        (0..MOST).for_each(|_| sequences.believe(true, true));
        (0..LASTING - 1).for_each(|_| sequences.done());
        assert!(sequences.on.sequence && sequences.is_suspect());
        sequences.done();
        assert!(!sequences.on.sequence && !sequences.is_suspect());
        sequences.believe(true, true);
        assert!(!sequences.on.sequence && sequences.is_suspect());
        // What is seen now and then lasts.
        for _ in 0..10 {
            (0..LASTING - 1).for_each(|_| sequences.done());
            sequences.believe(true, true);
            assert!(sequences.is_suspect());
        }
        assert!(sequences.on.sequence);
    }
}
