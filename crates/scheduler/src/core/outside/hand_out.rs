//! Where what a command has done goes: blocks are delivered, requests completed or failed, and what was not done is wanted again.

use super::Outside;
use super::command::{CommandId, Order, Outcome, Work};
use crate::core::under_way::Job;
use crate::core::{Action, Core};
use units::{Instant, Lbn, LbnRange, TaskId};

impl Core {
    /// What a command has done goes to whom it was for.
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
        self.background.fail_of(tag, bad, |record| outbox.push_back(Action::Deliver(record)));
        let lost = outcome == Outcome::Lost;
        if lost || stopped.is_some() {
            let none = matches!(outcome, Outcome::NoData(_));
            // Other commands of the same tag may be done: what they wrote is not to be written again, over newer data.
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
                    // What was merged with it has kept the drive from coming to it.
                    retry = Some(job);
                } else if !last {
                    return;
                } else if job.pending.promoted.is_none() {
                    let (id, range) = (job.pending.request.id, job.pending.request.range);
                    // Only promoted writes take several commands.
                    let first = bad.iter().copied().filter(|lbn| range.contains(*lbn)).min();
                    let first = first.or(lost.then_some(range.start()));
                    self.outbox.push_back(match first {
                        Some(bad) => Action::Failed { id, bad },
                        None => Action::Completed(id),
                    });
                }
            }
            Work::Detour | Work::Idle | Work::Stream if !last => return,
            Work::Detour | Work::Idle | Work::Stream | Work::Probe => {}
        }
        let outbox = &mut self.outbox;
        self.background.deliver_of(tag, |record| outbox.push_back(Action::Deliver(record)));
        if let Some(job) = retry {
            // A command that failed early has given back what it would have passed over.
            outside.retries.push_back((outside.next_tag, job));
            outside.next_tag += 1;
        }
    }

    /// What command `id` gave back had been taken when later writes of the same place were sent, so that they had nothing of
    /// it to overtake: they are on their way, and it must not come after them.
    fn overtake_again(&mut self, outside: &Outside, id: CommandId, blocks: &[(TaskId, u64)]) {
        let on_their_way = outside.device.iter().chain(&outside.queue);
        for order in on_their_way.filter(|o| o.command.id > id && o.command.op.is_write()) {
            let written = (order.command.range, order.asked_by_the_foreground());
            self.background.overtaken(order.tag, written, blocks);
        }
    }

    /// All that is at the drive came to nothing: foreground requests are sent again, and the rest is wanted again. What
    /// commands had done that the host had reported before stays done: to write it again could overwrite newer data.
    pub(in crate::core) fn lost_outside(&mut self, now: Instant) {
        let Some(mut outside) = self.outside.take() else { return };
        self.now = now;
        self.watch.lost_sight();
        let orders: Vec<Order> = outside.device.drain(..).chain(outside.queue.drain(..)).collect();
        // The last first: what was taken of a block in pieces goes back in the reverse order.
        for order in orders.iter().rev() {
            let all = !matches!(order.work, Work::Foreground { .. });
            let range = order.command.range;
            self.background.give_back(self.drive.layout(), order.tag, all, |item| item.overlaps(range));
        }
        let mut jobs: Vec<(u64, Job)> = Vec::new();
        for Order { tag, command, work, .. } in orders {
            let Work::Foreground { mut job, .. } = work else {
                let outbox = &mut self.outbox;
                self.background.deliver_of(tag, |record| outbox.push_back(Action::Deliver(record)));
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
        self.outside = Some(outside);
    }
}
