//! The results of a command: blocks are delivered, requests completed or failed, and the rest is wanted again.

use super::Outside;
use super::command::{CommandId, Order, Outcome, Work};
use crate::background::TaskBlock;
use crate::core::Core;
use crate::core::output::Event;
use crate::core::under_way::Job;
use crate::planner::LastCommand;
use alloc::vec;
use alloc::vec::Vec;
use units::{Instant, Lbn, LbnRange};

impl Core {
    /// Passes the results of a command to its request and its blocks.
    pub(super) fn hand_out(&mut self, outside: &mut Outside, order: Order, outcome: Outcome<'_>) {
        let Order { command, tag, work, .. } = order;
        let last = !outside.device.iter().chain(&outside.queue).any(|order| order.tag == tag);
        let single;
        let (bad, stopped): (&[Lbn], Option<Lbn>) = match outcome {
            Outcome::Done | Outcome::Lost => (&[], None),
            Outcome::Bad(bad) => (bad, None),
            Outcome::StoppedAt(lbn) | Outcome::NoData(lbn) => {
                single = [lbn];
                (&single, Some(lbn))
            }
        };
        let outbox = &mut self.outbox;
        self.background.fail_of(tag, bad, |record| outbox.push_back(Event::Deliver(record)));
        let lost = outcome == Outcome::Lost;
        if lost || stopped.is_some() {
            let none = matches!(outcome, Outcome::NoData(_));
            // Other commands with this tag may be done, and their writes must not be repeated over newer data.
            let undone = |item: LbnRange| {
                command.range.overlaps(item)
                    && stopped.is_none_or(|stopped| item.start() > stopped || none && item.end() <= stopped)
            };
            let again = self.background.give_back(self.drive.layout(), tag, true, undone);
            self.overtake_again(outside, command.id, &again);
        }
        if !lost {
            outside.remember(&command, bad);
        }
        let mut retry = None;
        match work {
            Work::Foreground { job, .. } => {
                self.idle.since = self.now;
                let asked = command.foreground.unwrap_or(command.range);
                if stopped.is_some_and(|at| at < asked.start()) {
                    // The drive stopped at a bad sector of the merged blocks, before the request.
                    retry = Some(job);
                } else if !last {
                    return;
                } else if job.pending.promoted.is_none() {
                    let (id, range) = (job.pending.request.id, job.pending.request.range);
                    // This command was the whole request, because only promoted writes take several.
                    let first = bad.iter().copied().filter(|lbn| range.contains(*lbn)).min();
                    let first = first.or(lost.then_some(range.start()));
                    self.outbox.push_back(match first {
                        Some(bad) => Event::Failed { id, bad },
                        None => Event::Completed(id),
                    });
                }
            }
            Work::Detour | Work::Idle | Work::Stream if !last => return,
            Work::Detour | Work::Idle | Work::Stream | Work::Probe => {}
        }
        let outbox = &mut self.outbox;
        self.background.deliver_of(tag, |record| outbox.push_back(Event::Deliver(record)));
        if let Some(job) = retry {
            // A command that failed early has returned its blocks behind the bad sector to the wanted set.
            outside.retries.push_back((outside.next_tag, job));
            outside.next_tag += 1;
        }
    }

    /// Gives back the commands of idle work that are not at the drive yet, if a foreground request has come.
    pub(super) fn leave_visit(&mut self, outside: &mut Outside) {
        let waits = !self.pool.is_empty() || outside.foreground_commands().next().is_some();
        let Some(Order { tag, work: Work::Idle, .. }) = outside.queue.front().filter(|_| waits) else {
            return;
        };
        let tag = *tag;
        // In reverse: the piece of a block that was taken last is returned first.
        while let Some(Order { command, .. }) = outside.queue.pop_back() {
            let rest = |item: LbnRange| item.overlaps(command.range);
            self.background.give_back(self.drive.layout(), tag, true, rest);
        }
        if let Some(sent) = outside.device.back() {
            outside.last = LastCommand { op: sent.command.op, end: sent.command.range.end() };
        }
        if !outside.device.iter().any(|order| order.tag == tag) {
            let outbox = &mut self.outbox;
            self.background.deliver_of(tag, |record| outbox.push_back(Event::Deliver(record)));
        }
    }

    /// Completes the blocks that command `id` returned and that a later write covers, if that write was chosen while command `id`
    /// held the blocks: the later write is under way, and the older data must not be written after it.
    fn overtake_again(&mut self, outside: &Outside, id: CommandId, blocks: &[TaskBlock]) {
        let on_their_way = outside.device.iter().chain(&outside.queue);
        for order in on_their_way.filter(|o| o.command.id > id && o.command.op.is_write()) {
            let own = order.asked_by_the_foreground();
            self.background.overtaken(order.tag, order.command.range, own, blocks);
        }
    }

    /// Records that all commands at the drive are lost: foreground requests are sent again, and blocks are wanted again. The
    /// results of commands that the host has already reported stay, because a repeated write could overwrite newer data.
    pub(super) fn all_lost(&mut self, outside: &mut Outside, now: Instant) {
        self.now = now;
        self.watch.lost_sight();
        drop(outside.readings.take());
        let orders: Vec<Order> = outside.device.drain(..).chain(outside.queue.drain(..)).collect();
        // In reverse: the piece of a block that was taken last is returned first.
        for order in orders.iter().rev() {
            let all = !matches!(order.work, Work::Foreground { .. });
            let range = order.command.range;
            self.background.give_back(self.drive.layout(), order.tag, all, |item| item.overlaps(range));
        }
        let mut jobs: Vec<(u64, Job)> = Vec::new();
        for Order { tag, command, work, .. } in orders {
            let Work::Foreground { mut job, .. } = work else {
                let outbox = &mut self.outbox;
                self.background.deliver_of(tag, |record| outbox.push_back(Event::Deliver(record)));
                continue;
            };
            let asked = command.foreground.unwrap_or(command.range);
            match jobs.iter_mut().find(|(before, _)| *before == tag) {
                // Only a promoted write takes several commands.
                Some((_, job)) => job.runs.push(asked),
                None => {
                    if job.is_promoted_write() {
                        job.runs = vec![asked];
                    }
                    jobs.push((tag, job));
                }
            }
        }
        outside.retries.extend(jobs);
        outside.lost_sight(now);
    }
}
