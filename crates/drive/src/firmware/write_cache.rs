//! The write cache: holds many writes, each of which is acknowledged at once and goes to the medium when the arm has no
//! more urgent work.

use super::{Breakdown, Command, Completion, Drive, QueuedCommand, Served, Service};
use crate::behaviour::{Queue, QueueOrder};
use units::{CacheOps, Duration, Instant, LbnRange, Op, RequestId, Sectors};

/// The most sectors of contiguous writes that are joined and go to the medium together.
const JOINED_SECTORS_MAX: Sectors = Sectors::new(2_048);

/// The number of the oldest held writes from which a drive with [`QueueOrder::Own`] chooses the next one. Fitted to the
/// flushes of a SATA drive (docs/MODEL.md, section 8).
const OWN_CHOICE_WRITES: usize = 16;

/// A write that has been acknowledged and is not on the medium.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub(super) came: Instant,
    pub(super) range: LbnRange,
}

/// The writes in the write cache. Always empty in a drive without one.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteCache {
    /// The most writes; 0 for a drive without a write cache.
    room: usize,
    held: Vec<Held>,
    /// The write that the arm is writing to the medium.
    leaving: Option<Held>,
    /// The time at which the data of the last write has crossed the bus.
    crossed: Instant,
}

impl WriteCache {
    pub(super) fn new(room: u32) -> Self {
        Self { room: room as usize, ..Self::default() }
    }

    /// Returns whether the drive has a write cache.
    pub(super) fn is_there(&self) -> bool {
        self.room > 0
    }

    fn len(&self) -> usize {
        self.held.len() + usize::from(self.leaving.is_some())
    }

    /// Drops the writes whose sectors are all in `range`, because a newer write or a discard makes their data obsolete.
    pub(super) fn drop_inside(&mut self, range: LbnRange) {
        self.held.retain(|held| !range.covers(held.range));
    }

    fn is_full(&self) -> bool {
        self.len() >= self.room
    }
}

impl Drive {
    /// Returns the number of writes in the write cache, which have been acknowledged and are not on the medium. Zero for a
    /// drive without a write cache.
    pub fn unwritten(&self) -> usize {
        self.write_cache.len()
    }

    /// Returns whether the write cache has writes for the medium, or the arm is writing one.
    pub(super) fn has_held_writes(&self) -> bool {
        self.write_cache.len() > 0
    }

    /// Returns whether a command waits for the arm. With a write cache, a write that is not forced waits only for room.
    pub(super) fn wants_arm(&self, waiting: &QueuedCommand) -> bool {
        let write = waiting.command.op == Op::Write && !waiting.cache.forced;
        !(waiting.cache.discard || write && self.write_cache.is_there())
    }

    /// Returns whether a command is a write that may go to the write cache.
    fn is_for_the_cache(waiting: &QueuedCommand) -> bool {
        let CacheOps { forced, discard, .. } = waiting.cache;
        waiting.command.op == Op::Write && !forced && !discard
    }

    /// Removes the write that the arm has been writing, if it has reached the medium.
    pub(super) fn held_write_arrived(&mut self, now: Instant) {
        if self.arm_free <= now {
            self.write_cache.leaving = None;
        }
    }

    /// Takes the oldest waiting write into the write cache and acknowledges it, if there is room or if it joins a held write.
    pub(super) fn take_write(&mut self, now: Instant) -> Option<Completion> {
        if !self.write_cache.is_there() {
            return None;
        }
        let first = self.before_barrier().position(Self::is_for_the_cache)?;
        let range = self.waiting.get(first)?.command.range;
        let joins = |held: &Held| {
            let long = held.range.len() + range.len();
            held.range == range || held.range.end() == range.start() && long <= JOINED_SECTORS_MAX
        };
        let joined = self.write_cache.held.iter().position(joins);
        if joined.is_none() && self.write_cache.is_full() {
            return None;
        }
        let QueuedCommand { came, command, .. } = self.waiting.remove(first)?;
        self.before_the_medium(&command);
        let overhead = self.write_hit_overhead(range);
        // With command queueing, reads occupy the bus so briefly that a write does not have to wait for them.
        let data = (came + overhead).max(now).max(self.write_cache.crossed);
        let crossed = data + self.timing.write_sector * range.len().get();
        self.write_cache.crossed = crossed;
        match joined.and_then(|at| self.write_cache.held.get_mut(at)) {
            Some(held) if held.range == range => {}
            Some(held) => held.range = LbnRange::new(held.range.start(), held.range.len() + range.len()),
            None => self.write_cache.held.push(Held { came, range }),
        }
        self.hold_in_a_segment(range);
        (self.last_op, self.last_end) = (Op::Write, Some(range.end()));
        let at = crossed + self.timing.write_completion + self.chance.completion();
        let breakdown = Breakdown::without_the_arm(Served::Buffered, [came, now, self.free]);
        Some(Completion { id: command.id, at, breakdown, failed: None })
    }

    /// Starts the arm on a held write if no command waits for the arm, or if a write waits for room and the held one comes
    /// before every waiting command in the drive's order. Returns whether the arm has started.
    pub(super) fn write_held(&mut self, now: Instant) -> bool {
        if self.chooses_at() > now {
            return false;
        }
        let Some(at) = self.next_held(now) else { return false };
        let held = self.write_cache.held.remove(at);
        self.write_cache.leaving = Some(held);
        self.go_on_without_read_ahead(now);
        self.look_at_run(now);
        let service = Service { range: held.range, now, since: held.came };
        let set_out = self.arm_ready(service, Duration::ZERO).max(self.free);
        let medium = self.write_medium(set_out, held.range, |_| set_out);
        self.arm_free = medium.end.max(now);
        true
    }

    /// Returns whether the arm must serve a held write before every waiting command.
    pub(super) fn held_write_comes_first(&self, now: Instant) -> bool {
        self.next_held(now).is_some()
    }

    /// Returns the index of the held write that the arm must serve next, if it must serve one before every waiting command.
    fn next_held(&self, now: Instant) -> Option<usize> {
        let of = |held: &Held| {
            let id = RequestId::new(0);
            let command = Command { id, op: Op::Write, range: held.range };
            QueuedCommand { came: held.came, command, cache: CacheOps::default() }
        };
        let order = |waiting: &QueuedCommand| self.order(now, waiting);
        let window = match self.queue {
            Queue::Tagged { order: QueueOrder::Own, .. } => OWN_CHOICE_WRITES,
            Queue::Tagged { .. } | Queue::Serial => usize::MAX,
        };
        let held = self.write_cache.held.iter().map(of).enumerate().take(window);
        let (at, best) = held.map(|(at, held)| (at, order(&held))).min_by_key(|(_, cost)| *cost)?;
        let pressed = self.write_cache.is_full() && self.before_barrier().any(Self::is_for_the_cache);
        let urgent = || self.before_barrier().filter(|waiting| self.wants_arm(waiting));
        let comes = match urgent().map(order).min() {
            None => true,
            Some(command) => pressed && best < command,
        };
        comes.then_some(at)
    }
}
