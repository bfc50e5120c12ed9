//! Pass-through: requests are sent to the drive on arrival, as many as it takes, and the drive chooses their order.
//!
//! A client is then served as by the disk without freeblock. The core passes requests through while no background block is
//! wanted, and while no gap can be used anyway. Commands whose order the drive chooses are not predicted: the completion of such
//! a command shows only the position of the head. A command that was alone at the drive is predicted like any other, and its
//! completion updates the clock and the error record.

use super::command::{Command, Order, Outcome, Passed, Work};
use super::forecast::{Late, Standing};
use super::sequences::ServedTime;
use super::transfer::Transfer;
use super::{Caution, Outside, guard};
use crate::core::under_way::{Job, revolution};
use crate::core::{Core, Purpose};
use crate::foreground::Pending;
use crate::planner::LastCommand;
use alloc::sync::Arc;
use alloc::vec::Vec;
use model::DriveModel;
use units::{Duration, Instant, Op};

/// The number of revolutions, besides a full stroke, that a drive may take until a write that it has reported is on the medium,
/// if no other command waits at the drive.
const DESTAGE_REVOLUTIONS_MAX: u64 = 3;

/// The maximum of waiting requests that are examined for one that overlaps no older request; the limit bounds the search.
const OVERTAKEN_REQUESTS_MAX: usize = 64;

/// The number of unpredicted commands that one predicted command outweighs. While one command in eight is
/// predicted, requests are passed through even if the drive is mistrusted.
const UNSEEN_PER_SEEN: u32 = 7;

/// The number of unpredicted commands, less [`UNSEEN_PER_SEEN`] for each predicted one, after which requests are no longer
/// passed through while the drive is mistrusted.
const UNSEEN_COMMANDS_MAX: u32 = 112;

/// The number of commands that are scheduled, and so predicted, at the start.
const SEEN_AT_START: u32 = 64;

/// The commands that the drive served in its own order since the core could last predict enough commands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unseen {
    commands: u32,
    /// Whether requests to a mistrusted drive are scheduled, so that they can be predicted.
    watches: bool,
}

impl Default for Unseen {
    fn default() -> Self {
        Self { commands: SEEN_AT_START * UNSEEN_PER_SEEN, watches: true }
    }
}

impl Unseen {
    fn note(&mut self, predicted: bool) {
        self.commands = match predicted {
            true => self.commands.saturating_sub(UNSEEN_PER_SEEN),
            false => self.commands.max((self.commands + 1).min(UNSEEN_COMMANDS_MAX)),
        };
        self.watches = self.commands >= UNSEEN_COMMANDS_MAX || self.watches && self.commands > 0;
    }
}

impl Outside {
    /// Returns whether no gap can be used, so that the drive may choose the order of requests.
    fn leaves_the_order_to_the_drive(&self) -> bool {
        match self.caution() {
            Some(Caution::Harm | Caution::Unknown) => true,
            Some(Caution::Mistrust) => !self.unseen.watches,
            Some(Caution::Unsynchronised | Caution::Buffered) | None => {
                self.config.reads_on && self.again.most_are_seen_to_hit()
            }
        }
    }

    /// Records when all writes that the drive has reported are on the medium, if no other command comes.
    fn reported_a_write(&mut self, drive: &DriveModel, now: Instant) {
        let farthest = drive.seek(drive.layout().cylinders().saturating_sub(1));
        let each = farthest + revolution(drive) * DESTAGE_REVOLUTIONS_MAX;
        self.destaged_at = self.destaged_at.max(now) + each;
    }
}

impl Core {
    /// Returns whether the next request is passed through to the drive.
    pub(super) fn passes_through(&self, outside: &Outside) -> bool {
        let depth = usize::from(outside.config.pass_through);
        // A request behind idle work is not passed through, because its delay is charged to that work.
        let idle = |order: &Order| matches!(order.work, Work::Idle | Work::Probe);
        let after_idle = self.displaced.is_some() || outside.device.iter().any(idle);
        let foreground = self.promoted == 0 && outside.retries.is_empty() && outside.queue.is_empty();
        depth > 0
            && foreground
            && !after_idle
            && (self.background.is_idle()
                || outside.is_through()
                || self.streams_are_enough(outside)
                || outside.leaves_the_order_to_the_drive())
    }

    /// Returns the oldest waiting request as a command, if the drive has room. A request that overlaps an older one waits until
    /// the older one is done, if either of them writes.
    pub(super) fn pass_next(&mut self, outside: &mut Outside, now: Instant) -> Option<Command> {
        (outside.choose_at, outside.room_at) = (None, None);
        self.pass_first(outside, now, |_| true)
    }

    /// Returns the oldest waiting write as a command if the drive caches writes. A cached write is reported at once and takes no
    /// time of the arm from the scheduled requests, so it need not wait with them.
    pub(super) fn pass_cached_write(&mut self, outside: &mut Outside, now: Instant) -> Option<Command> {
        if !outside.retries.is_empty() || !outside.reports(Op::Write) {
            return None;
        }
        self.pass_first(outside, now, |pending| pending.request.op.is_write() && pending.promoted.is_none())
    }

    /// Returns the oldest waiting request that `passes` accepts as a command, if the drive has room.
    fn pass_first(
        &mut self,
        outside: &mut Outside,
        now: Instant,
        passes: impl Fn(&Pending) -> bool,
    ) -> Option<Command> {
        if outside.device.len() >= usize::from(outside.config.pass_through) || !self.pool.iter().any(&passes)
        {
            return None;
        }
        self.pool.sort_unstable_by_key(|pending| pending.sequence);
        let free = |at: &usize| {
            let request = self.pool[*at].request;
            let behind =
                |op: Op, range| (op.is_write() || request.op.is_write()) && request.range.overlaps(range);
            let older = self.pool[..*at].iter().map(|older| (older.request.op, older.request.range));
            let decided = outside.device.iter().chain(&outside.queue);
            let there = decided.map(|order| (order.command.op, order.command.range));
            passes(&self.pool[*at]) && !older.chain(there).any(|(op, range)| behind(op, range))
        };
        let next = (0..self.pool.len().min(OVERTAKEN_REQUESTS_MAX)).find(free)?;
        let pending = self.pool.remove(next);
        let job = Job { pending, runs: Vec::new(), over: None };
        outside.decided = outside.clock.platter(now);
        let tag = outside.next_tag();
        self.background.take_for(tag);
        self.pass_over(&job);
        self.idle.not_before = Instant::ZERO;
        self.idle.visited(pending.position().cylinder);
        let alone = outside.device.is_empty() && outside.destaged_at <= now;
        outside.stream_sees_sent(now, pending.request.op);
        outside.device.iter_mut().for_each(Order::is_not_alone);
        Some(outside.pass(&self.drive, job, tag, now, alone))
    }

    /// Records the end of a command that was passed through beside others. The drive chose when to serve the command, so the
    /// completion shows only the head's position.
    pub(super) fn passed_done(
        &mut self,
        outside: &mut Outside,
        order: Order,
        begun: Instant,
        outcome: Outcome<'_>,
    ) {
        let now = self.now;
        let drive = Arc::clone(&self.drive);
        outside.believe_place(&drive, now, &order);
        let left = self.left_by_idle(outside);
        if let Work::Foreground { job, .. } = &order.work {
            let time = now.saturating_since(begun);
            outside.passed_from_buffer(&drive, ServedTime { begun, done: now }, &order);
            let late = self.lost_hits(outside, Late::default());
            let client = self.charge_clients(outside, now, job, time, late);
            let client_harm = guard::Lateness { client, head: late.head };
            outside.guard.account(time, now.saturating_since(job.pending.arrived), client_harm, left);
            (outside.heard_foreground, outside.heard_at) = (outside.clock.platter(now), now);
            outside.on_bus = Duration::ZERO;
        }
        self.share_bound(outside);
        self.audit(outside, &order, outcome);
        self.hand_out(outside, order, outcome);
    }

    /// Records that a command is done, whether it was passed through or scheduled.
    pub(super) fn note_served(&mut self, outside: &mut Outside, order: &Order, begun: Instant) {
        let bound = self.config.idle.map_or(0, |idle| outside.bound_of_streams(idle.harm_ppm));
        outside.stream_sees_done(&self.drive, self.now, order, bound);
        if let Work::Foreground { .. } = order.work {
            if order.passed.is_some() && self.config.idle.is_some() {
                self.idle.head.foreground += self.now.saturating_since(begun);
            }
            if !outside.reports(order.command.op) {
                outside.unseen.note(order.passed != Some(Passed::BesideOthers));
            }
            if order.command.op.is_write() && outside.config.overheads.write_back {
                outside.reported_a_write(&self.drive, self.now);
            }
        }
    }
}

impl Outside {
    /// Adds a request to the commands at the drive; `alone` tells that the drive has no other work.
    fn pass(&mut self, drive: &DriveModel, job: Job, tag: u64, now: Instant, alone: bool) -> Command {
        let (op, range) = (job.pending.request.op, job.pending.request.range);
        let (transfer, request) = (Transfer::new(op, range), job.request());
        let command = self.next_command(transfer, Purpose::Foreground, request, Some(range), 0);
        let neighbour = self.neighbour(drive, op, range);
        self.last = LastCommand { op, end: range.end() };
        let forecast = self.forecast_behind(drive, &self.base, transfer);
        let predicted = alone && self.predicts();
        self.device.push_back(Order {
            neighbour: neighbour.filter(|_| alone),
            sent: Some(now),
            predicted,
            passed: Some(if alone { Passed::Alone } else { Passed::BesideOthers }),
            ..Order::new(command.clone(), tag, Work::Foreground { job, plain: None }, forecast)
        });
        command
    }

    /// Sets the head's position after a command that was not predicted.
    fn believe_place(&mut self, drive: &DriveModel, now: Instant, order: &Order) {
        if self.reports(order.command.op) {
            // The head may go to the cached write's cylinder at any time from now on.
            self.base.behind = None;
            return;
        }
        let after = self.follow(drive, &self.base, order).after;
        let at = self.clock.platter(now);
        self.base = Standing { free: at, ready: at, bus: at, behind: None, reported: None, ..after };
        self.buffered = false;
    }
}

impl Order {
    /// Records that another command is at the drive beside this one.
    pub(super) fn is_not_alone(&mut self) {
        if let Some(passed) = &mut self.passed {
            *passed = Passed::BesideOthers;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_scheduled_only_while_too_few_are_predicted() {
        let mut unseen = Unseen::default();
        let noted =
            |unseen: &mut Unseen, predicted, count: u32| (0..count).for_each(|_| unseen.note(predicted));
        noted(&mut unseen, true, SEEN_AT_START - 1);
        assert!(unseen.watches, "the first requests are predicted");
        noted(&mut unseen, true, 1);
        assert!(!unseen.watches);
        noted(&mut unseen, false, UNSEEN_COMMANDS_MAX - 1);
        assert!(!unseen.watches);
        noted(&mut unseen, false, 1);
        assert!(unseen.watches);
        noted(&mut unseen, true, UNSEEN_COMMANDS_MAX / UNSEEN_PER_SEEN);
        assert!(!unseen.watches);
        // If one command in eight is alone at the drive, requests are passed through for ever.
        for n in 0..10_000 {
            unseen.note(n % 8 == 0);
            assert!(!unseen.watches);
        }
    }
}
