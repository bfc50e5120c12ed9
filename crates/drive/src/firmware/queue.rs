//! Several commands at a time: the time and the order of their service.

use super::{Drive, QueuedCommand};
use crate::behaviour::{Queue, QueueOrder};
use crate::cache::Found;
use units::{Duration, Instant, LbnRange, Op};

/// The nanoseconds of waiting that offset one nanosecond of a longer seek in a drive's own order, fitted to a SATA
/// drive (docs/MODEL.md, section 8).
const OWN_AGE_DIVISOR: i128 = 20;

/// The time from a command's last sector to the choice of the next one in a drive's own order; assumed.
const OWN_CHOICE_TIME: Duration = Duration::from_micros(100);

impl Drive {
    /// Returns the time at which the arm starts on the next command, for a queue with commands.
    pub(super) fn next_service(&self) -> Option<Instant> {
        let candidates = self.before_barrier().next().is_some();
        match self.queue {
            Queue::Tagged { .. } if candidates || self.has_held_writes() => {
                Some(self.chooses_at().max(self.now))
            }
            _ => self.barrier_falls().map(|at| at.max(self.now)),
        }
    }

    /// Takes out the command to be served next.
    pub(super) fn choose(&mut self, now: Instant) -> Option<QueuedCommand> {
        match self.queue {
            _ if self.barrier_falls().is_some_and(|at| at <= now) => self.waiting.pop_front(),
            Queue::Serial if !self.finishing.is_empty() || self.before_barrier().next().is_none() => None,
            Queue::Tagged { .. } if self.chooses_at() > now => None,
            Queue::Tagged { .. } => self.choose_for_the_arm(now),
            Queue::Serial => self.waiting.pop_front(),
        }
    }

    /// Returns the time at which the next command is chosen. A drive with its own order first reports the last command,
    /// and considers commands that arrive in response, unless one continues where the last one ended: that one streams.
    pub(super) fn chooses_at(&self) -> Instant {
        let Queue::Tagged { order: QueueOrder::Own, .. } = self.queue else { return self.arm_free };
        let last = self.last_end;
        let streams = self.before_barrier().any(|waiting| Some(waiting.command.range.start()) == last);
        if streams { self.arm_free } else { self.arm_free + OWN_CHOICE_TIME }
    }

    /// Takes out the first command in the queue's order; among equals, the oldest.
    fn choose_for_the_arm(&mut self, now: Instant) -> Option<QueuedCommand> {
        let waiting = self.before_barrier().enumerate().filter(|(_, waiting)| self.wants_arm(waiting));
        let first = waiting.min_by_key(|(_, waiting)| self.order(now, waiting));
        let index = first.map(|(index, _)| index)?;
        if self.held_write_comes_first(now) {
            return None;
        }
        self.waiting.remove(index)
    }

    /// Returns the position of a command in the queue's order: the least goes first.
    pub(super) fn order(&self, now: Instant, waiting: &QueuedCommand) -> i128 {
        match self.queue {
            Queue::Tagged { order: QueueOrder::Sptf, .. } => self.positioning(now, waiting).as_nanos().into(),
            Queue::Tagged { order: QueueOrder::Own, .. } => self.seek_less_age(now, waiting),
            Queue::Tagged { order: QueueOrder::Fcfs, .. } | Queue::Serial => waiting.came.as_nanos().into(),
        }
    }

    /// Returns the seek in nanoseconds, less a share of the waiting time.
    fn seek_less_age(&self, now: Instant, waiting: &QueuedCommand) -> i128 {
        let QueuedCommand { came, command, .. } = *waiting;
        if command.op == Op::Read && self.is_buffered(command.range) {
            return i128::MIN;
        }
        let model = self.mechanics.model();
        let Some(piece) = model.layout().pieces(command.range).next() else { return i128::MAX };
        let to = model.layout().track(piece.track).into();
        let seek = model.move_time(self.mechanics.position(), to, command.op).as_nanos();
        i128::from(seek) - i128::from(now.since(came).as_nanos()) / OWN_AGE_DIVISOR
    }

    /// Returns whether a read needs the buffer only.
    fn is_buffered(&self, range: LbnRange) -> bool {
        let reading = self.run.as_ref().map(|r| r.segment);
        self.cache.enabled && self.segments.for_read(range, reading).1 == Found::All
    }

    /// Returns the time that the head would take to the first sector of a command, by the drive's own knowledge: exact
    /// rotation, mean seek times. With zero-latency access, the completion of its last sector, less the transfer time.
    /// Zero for a read from the buffer.
    pub(super) fn positioning(&self, now: Instant, waiting: &QueuedCommand) -> Duration {
        let QueuedCommand { came, command, .. } = *waiting;
        let overhead = match command.op {
            Op::Read => {
                if self.is_buffered(command.range) {
                    return Duration::ZERO;
                }
                self.timing.read_miss.after(self.last_op)
            }
            Op::Write => self.timing.write_miss.after(self.last_op),
        };
        let model = self.mechanics.model();
        let Some(piece) = model.layout().pieces(command.range).next() else { return Duration::MAX };
        let track = model.layout().track(piece.track);
        let set_out = now.max(came + overhead);
        let mut arrival = set_out + model.move_time(self.mechanics.position(), track.into(), command.op);
        if self.rules.shortest_access && command.op == Op::Read {
            arrival = arrival.max(came + self.shortest_seek);
        }
        let pass = self.mechanics.pass(arrival, track, piece.sector, piece.len);
        let spindle = self.mechanics.spindle();
        let start = pass.start(spindle);
        let around = self
            .zero_latency(command.op)
            .then(|| self.mechanics.pass_in_any_order(arrival, track, piece.sector, piece.len))
            .flatten();
        let start = match around {
            None => start,
            Some(around) => {
                let transfer = pass.end(spindle).since(start);
                start.min(around.end(spindle).checked_sub(transfer).unwrap_or(start))
            }
        };
        start.saturating_since(now)
    }

    /// If the next command is waiting when the arm has finished one, there is no read-ahead between them, except a
    /// guaranteed minimum.
    pub(super) fn go_on_without_read_ahead(&mut self, now: Instant) {
        if now <= self.free && self.run.as_ref().is_some_and(|run| run.least <= run.next) {
            self.run = None;
        }
    }
}
