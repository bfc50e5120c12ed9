//! The command queue: which command is served next, and when.

use super::{Drive, QueuedCommand};
use crate::behaviour::{Queue, QueueOrder};
use crate::cache::Found;
use units::{Duration, Instant, LbnRange, Op};

/// The number of nanoseconds of waiting that offset one nanosecond of a longer seek in [`QueueOrder::Own`]. Fitted to a SATA
/// drive (docs/MODEL.md, section 8).
const OWN_AGE_DIVISOR: i128 = 20;

/// The time from a command's last sector to the choice of the next command in [`QueueOrder::Own`]; assumed.
const OWN_CHOICE_TIME: Duration = Duration::from_micros(100);

impl Drive {
    /// Returns the time at which the next command or held write is chosen; `None` if none waits, or if only a completion can
    /// let the next one begin.
    pub(super) fn next_service(&self) -> Option<Instant> {
        let candidates = self.before_barrier().next().is_some();
        match self.queue {
            Queue::Tagged { .. } if candidates || self.has_held_writes() => {
                Some(self.chooses_at().max(self.now))
            }
            _ => self.barrier_falls().map(|at| at.max(self.now)),
        }
    }

    /// Removes and returns the command to be served next, if it can begin now.
    pub(super) fn choose(&mut self, now: Instant) -> Option<QueuedCommand> {
        match self.queue {
            _ if self.barrier_falls().is_some_and(|at| at <= now) => self.waiting.pop_front(),
            Queue::Serial if !self.finishing.is_empty() || self.before_barrier().next().is_none() => None,
            Queue::Tagged { .. } if self.chooses_at() > now => None,
            Queue::Tagged { .. } => self.choose_for_the_arm(now),
            Queue::Serial => self.waiting.pop_front(),
        }
    }

    /// Returns the time at which the next command is chosen. With [`QueueOrder::Own`] the drive first reports the completion
    /// of the last command, and considers commands that arrive in response. If a waiting command continues where the last
    /// one ended, the drive chooses without this pause.
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

    /// Returns the rank of a command in the queue's order; the lowest is served first.
    pub(super) fn order(&self, now: Instant, waiting: &QueuedCommand) -> i128 {
        match self.queue {
            Queue::Tagged { order: QueueOrder::Sptf, .. } => self.positioning(now, waiting).as_nanos().into(),
            Queue::Tagged { order: QueueOrder::Own, .. } => self.seek_less_age(now, waiting),
            Queue::Tagged { order: QueueOrder::Fcfs, .. } | Queue::Serial => waiting.came.as_nanos().into(),
        }
    }

    /// Returns the rank in [`QueueOrder::Own`]: the time of the move in ns, less a share of the waiting time; the lowest
    /// rank of all for a buffer hit.
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

    /// Returns whether all sectors of a read are in the buffer.
    fn is_buffered(&self, range: LbnRange) -> bool {
        let reading = self.run.as_ref().map(|r| r.segment);
        self.cache.enabled && self.segments.for_read(range, reading).1 == Found::All
    }

    /// Returns the time from `now` until the head reaches the first sector of a command, as the drive computes it: with
    /// exact rotation and mean seek times. With zero-latency access, the time until the end of the transfer, less the
    /// transfer time. Zero for a read from the buffer.
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

    /// Cancels read-ahead if the next command begins as soon as the arm has finished the last one, unless a minimum of
    /// read-ahead is outstanding.
    pub(super) fn go_on_without_read_ahead(&mut self, now: Instant) {
        if now <= self.free && self.run.as_ref().is_some_and(|run| run.least <= run.next) {
            self.run = None;
        }
    }
}
