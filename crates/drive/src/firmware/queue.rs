//! Several commands at a time: whose turn it is, and in which order.

use super::{Drive, Waiting};
use crate::behaviour::{Queue, QueueOrder};
use crate::cache::Found;
use units::{Duration, Instant, Op};

impl Drive {
    /// With a queue that holds something: when the arm turns to the next command.
    pub(super) fn next_turn(&self) -> Option<Instant> {
        match self.queue {
            Queue::Tagged { .. } if !self.waiting.is_empty() => Some(self.turn_at.max(self.now)),
            _ => None,
        }
    }

    /// Takes out the command whose turn it is.
    pub(super) fn choose(&mut self, now: Instant) -> Option<Waiting> {
        match self.queue {
            Queue::Serial if !self.finishing.is_empty() => None,
            Queue::Tagged { .. } if self.turn_at > now => None,
            Queue::Tagged { order: QueueOrder::Sptf, .. } => self.waiting.remove(self.soonest(now)),
            _ => self.waiting.pop_front(),
        }
    }

    /// The command that the head gets to first; of several, the one that came first.
    fn soonest(&self, now: Instant) -> usize {
        let times = self.waiting.iter().map(|waiting| self.positioning(now, waiting));
        times.enumerate().min_by_key(|&(_, time)| time).map_or(0, |(index, _)| index)
    }

    /// How long the head would take to the first sector of a command, by what the drive knows of itself: exact
    /// rotation, seeks of their mean time. With zero-latency access, when its last sector would be done, less the
    /// time that they take to pass. Nothing for a read from the buffer.
    pub(super) fn positioning(&self, now: Instant, waiting: &Waiting) -> Duration {
        let Waiting { came, command } = *waiting;
        let overhead = match command.op {
            Op::Read => {
                let reading = self.run.as_ref().map(|r| r.segment);
                if self.cache.enabled && self.segments.for_read(command.range, reading).1 == Found::All {
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

    /// With the next command waiting when the arm is done with one, there is no read-ahead between them, unless it
    /// was made sure of.
    pub(super) fn go_on_without_read_ahead(&mut self, now: Instant) {
        if now <= self.free && self.run.as_ref().is_some_and(|run| run.least <= run.next) {
            self.run = None;
        }
    }
}
