//! Reads that follow each other: what a drive reads on to behind them, and what it then has in its buffer.
//!
//! A drive reads on behind a read for as long as it has nothing else to do, and some do so to the end of the track behind a
//! read that follows another (FAST'02, section 4.3): who comes next waits for that, and who reads on has no move and no turn to
//! wait for. Whether this drive does, completions tell. Such reads say nothing of how well moves are known, and count
//! neither for the profile nor against it. Only who reads behind what was read lately can be served so: whoever else
//! comes early, as all do on a device without a head, was not foreseen.

use super::clock::{difference, moved, nanos};
use super::forecast::{Forecast, HeldBack, Source, Standing};
use super::{CHANCE, Command, NOISE, Order, Outside, Overheads, Work};
use crate::core::under_way::Approach;
use model::{DriveModel, Piece};
use std::collections::VecDeque;
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// Reads that are remembered: more than drives have segments in their buffers.
const READS: usize = 32;

/// So many completions more for one of both are believed, and no more than so many are remembered.
const ENOUGH: i8 = 4;
const MOST: i8 = 8;

/// What is known of reads behind others is of so many; half is forgotten then.
const MEMORY: u32 = 256;

/// Of fewer the mean says nothing.
const FEW: i64 = 16;

/// Idle time is left alone for so many reads behind others, and again after so many more.
const CONTROL: u32 = 64;
const AGAIN: u32 = 4_096;

/// Where fewer than one of so many reads come behind others, that is not worth it.
const OFTEN: u32 = 8;
const SHARE_OF: u32 = 64;

/// Where more than one in so many come from the buffer, each is left alone that may.
const SELDOM: u32 = 32;

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
    let mut at = Standing { free: rest.passed(drive, range.end().min(rest.end)), ..*from };
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
    let tail = overheads.tail(Op::Read).saturating_sub(overheads.bus_sector);
    let from_buffer = taken_in + bus > landed + overheads.bus_sector;
    let seen = Forecast {
        service: turned_to,
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

/// Whether `range` ends on another track than what ends at `end`.
fn crosses(drive: &DriveModel, end: Lbn, range: LbnRange) -> bool {
    let track = |end: Lbn| Some(drive.layout().locate(Lbn::new(end.get().checked_sub(1)?))?.track);
    track(end) != track(range.end())
}

/// Whether `range` begins less than a track behind `end`.
fn is_near(drive: &DriveModel, end: Lbn, range: LbnRange) -> bool {
    end <= range.start() && range.start().since(end).get() < track_len(drive, range.start())
}

/// The sectors of the track on which `lbn` is.
fn track_len(drive: &DriveModel, lbn: Lbn) -> u64 {
    let layout = drive.layout();
    layout.locate(lbn).map_or(0, |at| u64::from(layout.track(at.track).sectors))
}

impl Order {
    /// Whether it fetches what lies in a gap.
    fn detours(&self) -> bool {
        let merged = self.command.foreground.is_some_and(|asked| asked != self.command.range);
        matches!(self.work, Work::Detour) || merged
    }
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

/// Commands of detours, and reads of idle time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Between {
    detours: u64,
    idle: u64,
}

/// What a read is to be expected from the buffer for, if there was nothing but the foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// The one before it on its track came from there.
    There,
    /// The one before it has been on its track, and the drive reads on if nobody else comes soon.
    Soon,
    /// It is the first on its track.
    Elsewhere,
}

/// Reads that go on there.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// The LBN behind the last of them.
    end: Lbn,
    /// What there had been when the first of them on its track was done. What a read misses that another has taken the place of in the
    /// buffer is not all there again behind it, if somebody else comes soon.
    since: Between,
    /// Whether the last of them was in the buffer, or would have been.
    there: bool,
}

impl Reading {
    fn expected(&self, drive: &DriveModel, range: LbnRange) -> Expected {
        match (crosses(drive, self.end, range), self.there) {
            (true, _) => Expected::Elsewhere,
            (false, true) => Expected::There,
            (false, false) => Expected::Soon,
        }
    }
}

/// What reads take beyond their own time, in nanoseconds: the mean of so many.
#[derive(Clone, Copy, Debug, Default)]
struct Beyond {
    mean: i64,
    of: i64,
}

impl Beyond {
    fn note(&mut self, beyond: i64) {
        self.of = (self.of + 1).min(i64::from(MEMORY));
        self.mean += (beyond - self.mean) / self.of;
    }
}

/// The last reads, and what completions have said of reading on.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequences {
    reads: VecDeque<Reading>,
    /// Those of idle time.
    idle_reads: VecDeque<Reading>,
    /// The LBN behind the last command, if that was a read.
    last: Option<Lbn>,
    between: Between,
    /// Reads behind one of them where nothing was foreseen to be read on to, and those of them that came from the buffer.
    behind: u32,
    hits: u32,
    /// What those took before which there was nothing else, by what was to be expected.
    alone: [Beyond; 3],
    /// By how much the read that is done was late, since a detour was where the drive would have read on, or since what idle time has read
    /// has taken its place in the buffer.
    late: [i64; 2],
    /// By how much those that were done lately were sooner than the mean, and no later one has used up.
    sooner: i64,
    /// What idle time was told to have cost in the buffer, in nanoseconds, and the reads of idle time of which that is not known yet,
    /// in 65536ths.
    taken: i64,
    unknown: u64,
    /// Reads of the foreground behind others that idle time is still left alone for, to see what they take without it; and such reads
    /// since that was done last.
    control: u32,
    since_control: u32,
    /// The part of the foreground's last reads that come behind others, of 65536.
    share: u32,
    /// Of what the drive does when it has nothing else to do, and behind what follows.
    score: [i8; 2],
    on: ReadsOn,
}

impl Sequences {
    /// A command is done.
    fn done(&mut self, drive: &DriveModel, order: &Order, hit: bool) {
        let Command { op, range, .. } = order.command;
        self.last = (!op.is_write()).then_some(range.end());
        self.between.detours += u64::from(order.detours());
        let idle = matches!(order.work, Work::Idle | Work::Probe);
        if idle && !op.is_write() {
            self.between.idle += 1;
            self.unknown += 65_536;
        }
        let detour = matches!(order.work, Work::Detour);
        // What was read for a detour to the track of a request is no reason to expect that in the buffer.
        if op.is_write() || detour {
            return;
        }
        let reads = if idle { &mut self.idle_reads } else { &mut self.reads };
        let mut now = Reading { end: range.end(), since: self.between, there: hit };
        // Who goes on stands for no second one: of many who each go on none is forgotten for those who are asked more often.
        if let Some(at) = reads.iter().rposition(|reading| is_near(drive, reading.end, range))
            && let Some(before) = reads.remove(at)
            && !crosses(drive, before.end, range)
        {
            now.since = before.since;
            now.there |= before.there;
        }
        if reads.len() == READS {
            reads.pop_front();
        }
        reads.push_back(now);
    }

    /// By how many nanoseconds the read that is done was later than such reads are in the mean without detours, and without idle time.
    pub fn take_late(&mut self) -> [i64; 2] {
        std::mem::take(&mut self.late)
    }

    /// A read behind others took so much beyond its own time.
    fn took(&mut self, since: Between, expected: Expected, beyond: i64) {
        self.since_control = self.since_control.saturating_add(1);
        self.unknown -= self.unknown / READS as u64;
        let often = self.hit_often();
        let alone = &mut self.alone[expected as usize];
        if since == self.between {
            alone.note(beyond);
            if self.control > 0 {
                (self.control, self.since_control) = (self.control - 1, 0);
            }
        } else if often && alone.of >= FEW {
            // That one is sooner than the mean another has paid for, or will: what is told is never taken back.
            let all = beyond - alone.mean - self.sooner;
            self.sooner = (-all).max(0);
            let late = all.max(0);
            let [detours, idle] = [self.between.detours - since.detours, self.between.idle - since.idle];
            let idle = (late as f64 * idle as f64 / (detours + idle) as f64) as i64;
            self.late = [late - idle, idle];
            self.taken = self.taken.saturating_add(idle);
        }
        if self.control == 0 && (self.alone[0].of < FEW || self.since_control > AGAIN) {
            self.control = CONTROL;
        }
    }

    /// What reads of idle time will be told to have cost in the buffer yet, in nanoseconds, if they cost what those before them did. One
    /// that cost as much as a move is taken to have been before.
    pub fn at_risk(&self) -> i64 {
        if !self.hit_often() {
            return 0;
        }
        let each = (self.taken + self.alone[Expected::Elsewhere as usize].mean) as f64
            / (self.between.idle + 1) as f64;
        (each * self.unknown as f64 / 65_536.0) as i64
    }

    /// Whether idle time is left alone for now.
    pub fn is_control(&self) -> bool {
        self.control > 0 && self.share > 65_536 / OFTEN
    }

    fn note(&mut self, hit: bool) {
        if self.behind == MEMORY {
            (self.behind, self.hits) = (MEMORY / 2, self.hits / 2);
        }
        self.behind += 1;
        self.hits += u32::from(hit);
    }

    fn hit_often(&self) -> bool {
        self.hits * SELDOM > self.behind
    }

    fn believe(&mut self, sequence: bool, reads_on: bool) {
        let score = &mut self.score[usize::from(sequence)];
        *score = (*score + if reads_on { 1 } else { -1 }).clamp(-MOST, MOST);
        let on = if sequence { &mut self.on.sequence } else { &mut self.on.idle };
        *on = if *on { *score > -ENOUGH } else { *score >= ENOUGH };
    }
}

impl Outside {
    /// What there had been when the last read was done that one of `range` follows by less than a track. What was read
    /// for a detour to the track of a request is no reason to expect that in the buffer.
    fn then(&self, drive: &DriveModel, range: LbnRange) -> Option<Reading> {
        let decided = self.queue.iter().rev().chain(self.device.iter().rev());
        let decided =
            decided.filter(|order| !order.command.op.is_write() && !matches!(order.work, Work::Detour));
        let between = self.sequences.between;
        let decided =
            decided.map(|order| Reading { end: order.command.range.end(), since: between, there: false });
        let done = self.sequences.reads.iter().rev().chain(self.sequences.idle_reads.iter().rev()).copied();
        decided.chain(done).find(|reading| is_near(drive, reading.end, range))
    }

    /// Whether something was read lately less than a track behind or before `range`: what a drive has kept of a track lies on both sides.
    fn is_near_any(&self, drive: &DriveModel, range: LbnRange) -> bool {
        let reach = track_len(drive, range.start());
        let Sequences { reads, idle_reads, last, .. } = &self.sequences;
        let ends = reads.iter().chain(idle_reads).map(|reading| reading.end).chain(*last);
        ends.map(Lbn::get).any(|end| end.abs_diff(range.start().get()) < reach)
    }

    /// Whether the gap before `range` is left alone, since the drive may have it without one.
    pub(super) fn may_be_buffered(&self, drive: &DriveModel, op: Op, range: LbnRange) -> bool {
        let read = self.config.reads_on && !op.is_write();
        read && self.sequences.hit_often() && self.then(drive, range).is_some()
    }

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
        if in_turn && self.config.reads_on {
            self.learn_reading_on(drive, now, order);
        }
        let hit = self.is_hit(drive, (now, begun), order);
        let sooner = difference(order.forecast.heard, self.clock.platter(now)) > self.clock.turn() / NOISE;
        self.sequences.done(drive, order, hit);
        let reads_on = self.sequences.on.idle || self.sequences.hit_often();
        let on_the_way = reads_on && near && !hit && sooner;
        Followed { hit, on_the_way }
    }

    fn is_hit(&mut self, drive: &DriveModel, (now, begun): (Instant, Instant), order: &mut Order) -> bool {
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
                self.base.bus = heard;
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
                    self.sequences.share -= self.sequences.share / SHARE_OF;
                    self.sequences.share += if then.is_some() { 65_536 / SHARE_OF } else { 0 };
                }
                let Some(then) = then else { return false };
                // It waited for nothing that moves.
                let overheads = &self.config.overheads;
                let own = overheads.command(command.op) + overheads.bus_sector * command.range.len().get();
                let own = nanos(own + overheads.tail(command.op));
                let later = nanos(now.saturating_since(begun)) - own;
                let hit =
                    later < chance && (sooner > chance || !self.known) || sooner > noise && later < noise;
                if command.foreground == Some(command.range) {
                    // What idle time has taken from the buffer was there without it.
                    if then.since.idle == self.sequences.between.idle {
                        self.sequences.note(hit || sooner > noise);
                    }
                    let expected = then.expected(drive, command.range);
                    self.sequences.took(then.since, expected, if hit { 0 } else { later.max(0) });
                }
                hit
            }
            Work::Probe => false,
        };
        if hit {
            self.base.free = self.base.free.max(heard);
            self.base.ready = self.base.free;
            self.base.bus = heard;
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
        }
    }

    fn lbns(start: u64, len: u64) -> LbnRange {
        LbnRange::new(Lbn::new(start), Sectors::new(len))
    }

    /// What is foreseen of reads that are sent at once, by a drive that reads on to so much, from rest.
    fn foreseen(reads_on: ReadsOn, ranges: &[LbnRange]) -> (Vec<Forecast>, Standing) {
        let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k").unwrap()).unwrap();
        let position = Position::default();
        let zero = Instant::ZERO;
        let rest =
            Standing { position, track: None, free: zero, ready: zero, bus: zero, behind: None, reads_on };
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

    /// Half of them come from the buffer, and the others take 4 ms.
    fn half_from_the_buffer() -> Sequences {
        let mut sequences = Sequences::default();
        for n in 0..200 {
            let hit = n % 2 == 0;
            sequences.note(hit);
            sequences.took(Between::default(), Expected::There, if hit { 0 } else { 4_000_000 });
        }
        assert_eq!(sequences.take_late(), [0; 2]);
        sequences
    }

    #[test]
    fn what_detours_have_cost_reads_that_others_had_from_the_buffer_is_told_once() {
        for (between, of) in [(Between { detours: 1, idle: 0 }, 0), (Between { detours: 0, idle: 1 }, 1)] {
            let mut sequences = half_from_the_buffer();
            sequences.between = between;
            let mut late = |expected, beyond| {
                sequences.took(Between::default(), expected, beyond);
                sequences.take_late()
            };
            let more = late(Expected::There, 6_000_000);
            assert!((3_900_000..4_100_000).contains(&more[of]) && more[1 - of] == 0);
            // What comes from the buffer all the same is no gain, but makes up for who is later next.
            assert_eq!(late(Expected::There, 0), [0; 2]);
            assert!((1_900_000..2_100_000).contains(&late(Expected::There, 6_000_000)[of]));
            // Of the first on their tracks nothing is known yet.
            assert_eq!(late(Expected::Elsewhere, 6_000_000), [0; 2]);
            assert_eq!(sequences.take_late(), [0; 2]);
        }
    }

    #[test]
    fn what_both_have_cost_is_told_of_both() {
        let mut sequences = half_from_the_buffer();
        sequences.between = Between { detours: 1, idle: 3 };
        sequences.took(Between::default(), Expected::There, 6_000_000);
        let [detours, idle] = sequences.take_late();
        assert!((950_000..1_050_000).contains(&detours) && (idle - 3 * detours).abs() < 10);
    }

    #[test]
    fn what_idle_time_has_taken_is_owed_until_those_have_come_who_may_miss_it() {
        let mut sequences = half_from_the_buffer();
        sequences.took(Between::default(), Expected::Elsewhere, 4_000_000);
        assert_eq!(sequences.at_risk(), 0);
        for n in 1..=10 {
            sequences.between.idle += 1;
            sequences.unknown += 65_536;
            sequences.taken += 4_000_000;
            assert!((n * 3_900_000..n * 4_100_000).contains(&sequences.at_risk()));
        }
        (0..100).for_each(|_| sequences.took(sequences.between, Expected::There, 0));
        assert!(sequences.at_risk() < 2_000_000);
    }
}
