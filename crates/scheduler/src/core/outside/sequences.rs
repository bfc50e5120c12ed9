//! Consecutive reads: the drive's read-ahead, and the resulting contents of its buffer.
//!
//! A drive reads ahead behind a read while it has nothing else to do. Some drives read to the end of the track behind two
//! consecutive reads (FAST'02, section 4.3): the next request waits for that, and a consecutive read needs neither a move
//! nor a revolution. Completions show whether this drive does so. Reads from read-ahead give no information about moves, and
//! count neither for nor against the profile. Read-ahead can serve only a read near a recent one; any other early completion,
//! as on a device without a head, counts as not predicted.

use super::clock::{difference, nanos};
use super::forecast::{ReadsOn, Source, Standing};
use super::kept::{Expected, Reading};
use super::read_ahead::streamed;
use super::transfer::Transfer;
use super::{Command, ERROR_CHANCE_DIVISOR, ERROR_NOISE_DIVISOR, Order, Outside, Work};
use model::DriveModel;
use units::{Instant, Op};

/// The lead of completions that show read-ahead over those that show none, or the reverse, at which the core changes its
/// assumption.
const DECIDING_LEAD_COMPLETIONS: i8 = 4;
/// The largest lead that is remembered, so that the assumption can change again.
const LEAD_COMPLETIONS_MAX: i8 = 8;

/// The lead that makes read-ahead behind sequences suspect: detours then form no sequences, because each would cost the next
/// request a revolution.
const SUSPECT_LEAD_COMPLETIONS: i8 = 2;

/// The number of commands, some minutes' worth, without evidence about sequences after which sequences are tried again.
const COMMANDS_WITHOUT_SEQUENCE_MAX: u32 = 32_768;

/// The most revolutions that a miss costs: a move, and a wait.
const MISS_REVOLUTIONS_MAX: i64 = 2;

/// The source of a finished command's data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Followed {
    /// Whether the data came from the buffer: the completion then shows nothing about the platter, and the head has not moved.
    pub hit: bool,
    /// Whether the command was early, perhaps because read-ahead was farther than known: it then shows nothing about moves.
    pub on_the_way: bool,
}

/// The evidence about read-ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequences {
    /// The lead of the evidence for read-ahead, on an idle drive and behind consecutive reads; negative means against it.
    score: [i8; 2],
    on: ReadsOn,
    /// The number of commands since the last evidence about consecutive reads.
    since: u32,
}

impl Sequences {
    /// Records a finished command.
    fn done(&mut self) {
        self.since += 1;
        if self.since == COMMANDS_WITHOUT_SEQUENCE_MAX {
            self.since = 0;
            self.score[1] = self.score[1].min(SUSPECT_LEAD_COMPLETIONS - 1);
            self.on.sequence = false;
        }
    }

    /// Returns whether the drive may read ahead behind consecutive reads.
    pub fn is_suspect(&self) -> bool {
        self.on.sequence || self.score[1] >= SUSPECT_LEAD_COMPLETIONS
    }

    fn believe(&mut self, sequence: bool, reads_on: bool) {
        self.since = if sequence { 0 } else { self.since };
        let score = &mut self.score[usize::from(sequence)];
        *score = (*score + if reads_on { 1 } else { -1 }).clamp(-LEAD_COMPLETIONS_MAX, LEAD_COMPLETIONS_MAX);
        let on = if sequence { &mut self.on.sequence } else { &mut self.on.idle };
        *on = if *on { *score > -DECIDING_LEAD_COMPLETIONS } else { *score >= DECIDING_LEAD_COMPLETIONS };
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
        let [with, without] = [reading, plain].map(|from| self.follow(drive, &from, order).forecast.heard);
        let noise = self.clock.revolution() / ERROR_NOISE_DIVISOR;
        let off = |predicted| difference(heard, predicted).abs();
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
        let beyond =
            self.beyond_its_own(served, Transfer::new(op, order.command.foreground.unwrap_or(range)));
        let missed = self.again.done(drive, order, hit, beyond);
        self.kept.missed(missed);
        let sooner = difference(order.forecast.heard, self.clock.platter(served.done))
            > self.clock.revolution() / ERROR_NOISE_DIVISOR;
        self.kept.done(drive, order, hit);
        let reads_on = self.sequences.on.idle || self.kept.hit_often();
        let on_the_way = reads_on && near && !hit && sooner;
        Followed { hit, on_the_way }
    }

    /// Returns the time in ns by which a command took longer than one without moves and waits, up to
    /// [`MISS_REVOLUTIONS_MAX`]: the rest is a pause of the drive or a bad sector.
    fn beyond_its_own(&self, served: ServedTime, Transfer { op, range }: Transfer) -> i64 {
        let overheads = &self.config.overheads;
        let own = overheads.command(op) + overheads.bus_sector * range.len().get() + overheads.tail(op);
        let beyond = nanos(served.done.saturating_since(served.begun)) - nanos(own);
        beyond.min(self.clock.revolution() * MISS_REVOLUTIONS_MAX)
    }

    /// Returns whether a command was a cache hit, which is possible for a read that continues another, or that matches earlier
    /// data (`again`).
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
                let after = self.follow(drive, &self.base, order).after;
                self.base = after;
                self.base.bus = self.crossed(heard);
                return true;
            }
            // The data were not in the buffer, so the head has moved to the medium.
            self.base = Standing { behind: None, ..self.base.not_reading_on() };
            order.forecast = self.follow(drive, &self.base, order).forecast;
        }
        let sooner = difference(order.forecast.heard, heard);
        let hit = match order.work {
            Work::Idle => sooner >= noise,
            Work::Foreground { .. } | Work::Detour => {
                let then = self.then(drive, range);
                if then.is_none() && !again {
                    return false;
                }
                let later = self.beyond_its_own(served, Transfer::new(op, range));
                let hit =
                    later < chance && (sooner > chance || !self.known) || sooner > noise && later < noise;
                if let Some(then) = then.filter(|_| foreground == Some(range)) {
                    let expected = then.expected(drive, range);
                    self.note_consecutive(then, expected, hit, hit || sooner > noise, later);
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

    /// Records a read that continues `then`. It was a `hit`, or `sooner` than from the medium, or else took `later` ns longer
    /// than a hit.
    fn note_consecutive(&mut self, then: Reading, expected: Expected, hit: bool, sooner: bool, later: i64) {
        // After idle reads a miss shows nothing about hits without them, but a hit would be one without them too.
        if sooner || then.since.idle == self.kept.between.idle {
            self.kept.note(sooner);
        }
        self.kept.took(then.since, expected, if hit { 0 } else { later.max(0) });
    }

    /// Records whether a request whose time the drive chose was a hit.
    pub(super) fn passed_from_buffer(&mut self, drive: &DriveModel, served: ServedTime, order: &Order) {
        let Command { op, range, .. } = order.command;
        let later = self.beyond_its_own(served, Transfer::new(op, range));
        let then = self.then(drive, range).filter(|_| !op.is_write());
        let known = then.is_some() || self.again.may_hit(drive, op, range);
        let hit = known && later < self.clock.revolution() / ERROR_CHANCE_DIVISOR;
        if let Some(then) = then {
            self.note_consecutive(then, then.expected(drive, range), hit, hit, later);
        }
        let missed = self.again.done(drive, order, hit, later);
        self.kept.missed(missed);
        self.kept.done(drive, order, hit);
    }

    /// Returns whether read-ahead serves a read, so that there is no gap before the read.
    pub(super) fn is_streamed(&self, drive: &DriveModel, standing: &Standing, what: Transfer) -> bool {
        let overheads = &self.config.overheads;
        what.op == Op::Read
            && streamed(drive, overheads, standing, self.decided, self.held_back, what.range).is_some()
    }

    /// Applies new evidence about read-ahead to the forecasts.
    pub(super) fn believe_reading_on(&mut self) {
        self.base.reads_on = self.sequences.on;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assumption_follows_the_majority_of_reports() {
        let mut sequences = Sequences::default();
        let mut reported = |times: u32, reads_on: bool| {
            (0..times).for_each(|_| sequences.believe(true, reads_on));
            sequences.on
        };
        assert_eq!(reported(3, true), ReadsOn::default());
        assert_eq!(reported(1, true), ReadsOn { idle: false, sequence: true });
        assert_eq!(reported(7, false), ReadsOn { idle: false, sequence: true });
        assert_eq!(reported(1, false), ReadsOn::default());
    }

    #[test]
    fn a_kind_without_observations_is_tried_once_more() {
        let mut sequences = Sequences::default();
        (0..LEAD_COMPLETIONS_MAX).for_each(|_| sequences.believe(true, true));
        (0..COMMANDS_WITHOUT_SEQUENCE_MAX - 1).for_each(|_| sequences.done());
        assert!(sequences.on.sequence && sequences.is_suspect());
        sequences.done();
        assert!(!sequences.on.sequence && !sequences.is_suspect());
        sequences.believe(true, true);
        assert!(!sequences.on.sequence && sequences.is_suspect());
        // Occasional evidence of read-ahead keeps the assumption.
        for _ in 0..10 {
            (0..COMMANDS_WITHOUT_SEQUENCE_MAX - 1).for_each(|_| sequences.done());
            sequences.believe(true, true);
            assert!(sequences.is_suspect());
        }
        assert!(sequences.on.sequence);
    }
}
