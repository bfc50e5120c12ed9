//! Consecutive reads: the drive's read-ahead, and the resulting contents of its buffer.
//!
//! A drive reads ahead behind a read while it has nothing else to do. Some drives read to the end of the track behind two
//! consecutive reads (FAST'02, section 4.3): the next request waits for that, and a consecutive read needs neither a move
//! nor a revolution. Completions show whether this drive does so. Such reads give no information about moves, and count
//! neither for nor against the profile. Only a read after a recent one can be served so; any other early completion, as on a
//! device without a head, was not predicted.

use super::clock::{difference, moved, nanos};
use super::forecast::{Forecast, HeldBack, Source, Standing};
use super::kept::is_near;
use super::{Command, ERROR_CHANCE_DIVISOR, ERROR_NOISE_DIVISOR, Order, Outside, Overheads, Work};
use crate::core::under_way::Approach;
use model::{DriveModel, Piece};
use units::{Duration, Instant, Lbn, LbnRange, Op, Sectors};

/// The lead of consistent completions that decides, and the maximum that is remembered.
const DECIDING_LEAD: i8 = 4;
const LEAD_MAX: i8 = 8;

/// The lead that makes read-ahead behind sequences suspect: detours then make no sequences, each of which would cost the
/// next request a revolution.
const SUSPECT_LEAD: i8 = 2;

/// The number of commands, some minutes' worth, without a sequence after which read-ahead is tried again.
const COMMANDS_WITHOUT_SEQUENCE_MAX: u32 = 32_768;

/// The assumed read-ahead of the drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ReadsOn {
    /// Behind any read, while the drive has nothing else to do.
    pub idle: bool,
    /// Behind a consecutive read, to the end of its track, even if requests wait.
    pub sequence: bool,
}

/// The position of a head that reads ahead, if the last command was a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Behind {
    /// The LBN after the requested ones.
    pub lbn: Lbn,
    /// Platter time at which the sectors before it have passed.
    pub at: Instant,
    /// Whether that read followed another on its track.
    pub sequence: bool,
}

impl Behind {
    /// Returns the sectors up to the end of the track.
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

    /// Returns whether a read of `range` continues it on its track.
    pub fn follows(&self, drive: &DriveModel, range: LbnRange) -> bool {
        let Some(last) = self.lbn.get().checked_sub(1).map(Lbn::new) else { return false };
        let track = |lbn| drive.layout().locate(lbn).map(|at| at.track);
        is_near(drive, self.lbn, range) && track(last) == track(range.start())
    }
}

/// The rest of a track behind a read.
struct Rest {
    behind: Behind,
    /// The first sector.
    sector: u32,
    /// The LBN after the last sector.
    end: Lbn,
}

impl Rest {
    /// Returns when all sectors before `lbn` have passed.
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
    /// Returns the state with read-ahead to the end of the track, if the drive reads ahead.
    pub fn reading_on(mut self, drive: &DriveModel) -> Self {
        let sequence = self.behind.filter(|behind| behind.sequence && self.reads_on.sequence);
        if let Some(rest) = sequence.and_then(|behind| behind.rest(drive)) {
            self.free = self.free.max(rest.passed(drive, rest.end));
            self.ready = self.ready.max(self.free);
        }
        self
    }

    /// Returns the state without read-ahead.
    pub fn not_reading_on(mut self) -> Self {
        if let Some(behind) = self.behind.filter(|behind| behind.sequence && self.reads_on.sequence) {
            let [ready, free] = [self.ready, self.free];
            self.free = behind.at;
            self.ready = if ready == free { behind.at } else { ready };
        }
        self
    }

    /// Returns the forecast shifted by `by` ns.
    pub fn shifted(mut self, by: i64) -> Self {
        self.free = moved(self.free, by);
        self.behind = self.behind.map(|behind| Behind { at: moved(behind.at, by), ..behind });
        self
    }
}

/// Returns the forecast of a read that read-ahead serves, now or from the buffer; `None` for any other.
pub(super) fn streamed(
    drive: &DriveModel,
    overheads: &Overheads,
    from: &Standing,
    (sent, held_back): (Instant, HeldBack),
    range: LbnRange,
) -> Option<(Forecast, Standing)> {
    let behind = from.behind?;
    let sure = behind.sequence && from.reads_on.sequence;
    // A request that arrived before the head was free has ended the read-ahead.
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
    // A read that is completely in the buffer does not make the drive read ahead.
    let goes_on = follows && (sure || landed > turned_to);
    at.behind = Some(Behind { lbn: range.end(), at: landed, sequence: goes_on });
    at.bus = latest;
    // The head may have been further already.
    at.free = if crosses { landed } else { from.free.max(landed) };
    at.ready = if overheads.overlap { at.free } else { seen.heard };
    Some((seen, at.reading_on(drive)))
}

/// Returns the approach of the next piece under a head that reads ahead.
fn in_order(drive: &DriveModel, from: &Standing, piece: &Piece) -> Approach {
    let mut approach =
        Approach::arriving_after(drive, (from.position, from.free, from.free), Op::Read, piece);
    approach.missed = None;
    approach
}

/// The source of a finished command's data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Followed {
    /// The buffer: the completion shows nothing about the platter, and the head has not moved.
    pub hit: bool,
    /// It was early, perhaps because read-ahead had gone further than known. It shows nothing about moves.
    pub on_the_way: bool,
}

/// The evidence about read-ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequences {
    /// The scores of read-ahead on an idle drive, and behind consecutive reads.
    score: [i8; 2],
    on: ReadsOn,
    /// Commands since the last evidence about consecutive reads.
    since: u32,
}

impl Sequences {
    /// Records a finished command.
    fn done(&mut self) {
        self.since += 1;
        if self.since == COMMANDS_WITHOUT_SEQUENCE_MAX {
            self.since = 0;
            self.score[1] = self.score[1].min(SUSPECT_LEAD - 1);
            self.on.sequence = false;
        }
    }

    /// Returns whether the drive may read ahead behind consecutive reads.
    pub fn is_suspect(&self) -> bool {
        self.on.sequence || self.score[1] >= SUSPECT_LEAD
    }

    fn believe(&mut self, sequence: bool, reads_on: bool) {
        self.since = if sequence { 0 } else { self.since };
        let score = &mut self.score[usize::from(sequence)];
        *score = (*score + if reads_on { 1 } else { -1 }).clamp(-LEAD_MAX, LEAD_MAX);
        let on = if sequence { &mut self.on.sequence } else { &mut self.on.idle };
        *on = if *on { *score > -DECIDING_LEAD } else { *score >= DECIDING_LEAD };
    }
}

/// The host's times at which the service of a command begins and its completion arrives.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServedTime {
    pub begun: Instant,
    pub done: Instant,
}

impl Outside {
    /// Records what a completion shows about read-ahead behind the command before.
    fn learn_reading_on(&mut self, drive: &DriveModel, now: Instant, order: &Order) {
        let Some(behind) = self.base.behind.filter(|_| self.known) else { return };
        let heard = self.clock.platter(now);
        // Read-ahead on an idle drive also occurs behind consecutive reads.
        let plain = ReadsOn { idle: behind.sequence && self.sequences.on.idle, sequence: false };
        let on = ReadsOn { idle: plain.idle || !behind.sequence, sequence: behind.sequence };
        let plain = Standing { reads_on: plain, ..self.base.not_reading_on() };
        let reading = Standing { reads_on: on, ..plain }.reading_on(drive);
        let [with, without] = [reading, plain].map(|from| self.follow(drive, &from, order).0.heard);
        let noise = self.clock.revolution() / ERROR_NOISE_DIVISOR;
        let off = |foreseen| difference(heard, foreseen).abs();
        if difference(with, without).abs() > 2 * noise && off(with).min(off(without)) < noise {
            self.sequences.believe(behind.sequence, off(with) < off(without));
        }
    }

    /// Records what a finished command shows about read-ahead, and returns whether read-ahead served it.
    pub(super) fn came_from_buffer(
        &mut self,
        drive: &DriveModel,
        served: ServedTime,
        order: &mut Order,
        is_next: bool,
    ) -> Followed {
        let Command { op, range, .. } = order.command;
        let near = !op.is_write() && self.is_near_any(drive, range);
        self.sequences.done();
        if is_next && self.config.reads_on {
            self.learn_reading_on(drive, served.done, order);
        }
        let again = order.command.foreground.is_some_and(|asked| self.again.may_hit(drive, op, asked));
        let hit = self.is_hit(drive, served, order, again);
        let beyond = self.beyond_its_own(served, (op, order.command.foreground.unwrap_or(range)));
        let missed = self.again.done(drive, order, hit, beyond);
        self.kept.missed(missed);
        let sooner = difference(order.forecast.heard, self.clock.platter(served.done))
            > self.clock.revolution() / ERROR_NOISE_DIVISOR;
        self.kept.done(drive, order, hit);
        let reads_on = self.sequences.on.idle || self.kept.hit_often();
        let on_the_way = reads_on && near && !hit && sooner;
        Followed { hit, on_the_way }
    }

    /// Returns the time in ns by which a command took longer than one without moves and waits.
    fn beyond_its_own(&self, served: ServedTime, (op, range): (Op, LbnRange)) -> i64 {
        let overheads = &self.config.overheads;
        let own = overheads.command(op) + overheads.bus_sector * range.len().get() + overheads.tail(op);
        nanos(served.done.saturating_since(served.begun)) - nanos(own)
    }

    /// Returns whether a command was a cache hit, which is possible for consecutive reads or if it was there `again`.
    fn is_hit(&mut self, drive: &DriveModel, served: ServedTime, order: &mut Order, again: bool) -> bool {
        let Command { op, range, foreground, .. } = order.command;
        if op.is_write() {
            return false;
        }
        let heard = self.clock.platter(served.done);
        let revolution = self.clock.revolution();
        let (noise, chance) = (revolution / ERROR_NOISE_DIVISOR, revolution / ERROR_CHANCE_DIVISOR);
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
            // It was not in the buffer, so the head has moved to the medium.
            self.base = Standing { behind: None, ..self.base.not_reading_on() };
            order.forecast = self.follow(drive, &self.base, order).0;
        }
        let sooner = difference(order.forecast.heard, heard);
        let hit = match order.work {
            Work::Idle => sooner >= noise,
            Work::Foreground { .. } | Work::Detour => {
                let then = self.then(drive, range);
                if then.is_none() && !again {
                    return false;
                }
                let later = self.beyond_its_own(served, (op, range));
                let hit =
                    later < chance && (sooner > chance || !self.known) || sooner > noise && later < noise;
                if let Some(then) = then.filter(|_| foreground == Some(range)) {
                    // Data that idle time has evicted were there without it.
                    if then.since.idle == self.kept.between.idle {
                        self.kept.note(hit || sooner > noise);
                    }
                    let expected = then.expected(drive, range);
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

    /// Returns whether read-ahead serves a read: then there is no gap before it.
    pub(super) fn is_streamed(&self, drive: &DriveModel, standing: &Standing, what: (Op, LbnRange)) -> bool {
        let sent = (self.decided, self.held_back);
        let overheads = &self.config.overheads;
        what.0 == Op::Read && streamed(drive, overheads, standing, sent, what.1).is_some()
    }

    /// Applies new evidence about read-ahead to the forecasts.
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

    /// Forecasts reads that are sent at once to a resting drive with this read-ahead.
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
        // A single read is no sequence.
        let (seen, reading) = foreseen(ALL, &[one]);
        assert_eq!(reading.free, seen[0].end);
    }

    #[test]
    fn a_consecutive_read_is_done_as_its_sectors_pass_and_others_wait() {
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
    fn the_assumption_follows_the_majority_of_reports() {
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
    fn a_kind_without_observations_is_tried_once_more() {
        let mut sequences = Sequences::default();
        (0..LEAD_MAX).for_each(|_| sequences.believe(true, true));
        (0..COMMANDS_WITHOUT_SEQUENCE_MAX - 1).for_each(|_| sequences.done());
        assert!(sequences.on.sequence && sequences.is_suspect());
        sequences.done();
        assert!(!sequences.on.sequence && !sequences.is_suspect());
        sequences.believe(true, true);
        assert!(!sequences.on.sequence && sequences.is_suspect());
        // Occasional evidence keeps the result.
        for _ in 0..10 {
            (0..COMMANDS_WITHOUT_SEQUENCE_MAX - 1).for_each(|_| sequences.done());
            sequences.believe(true, true);
            assert!(sequences.is_suspect());
        }
        assert!(sequences.on.sequence);
    }
}
