//! The host: a queue, one request at the disk, and a chooser.

use super::chooser::{Chooser, Seen};
use super::disk::Disk;
use crate::LabError;
use scheduler::{Last, Observed, Pending, Request};
use units::{Duration, Instant, Op, RequestId};
use workload::{ClosedTask, Issuer, Source};

/// The time without requests after which the disk counts as idle.
const IDLE_AFTER: Duration = Duration::from_millis(20);

/// One disk, one load, one chooser.
pub(crate) struct SmtfHost<D, S, C> {
    pub(crate) disk: D,
    load: Issuer<S>,
    pub(crate) chooser: C,
    queue: Vec<Pending>,
    /// The tasks that issued the requests of `queue`, in the same order.
    tasks: Vec<ClosedTask>,
    next: u64,
    now: Instant,
    last: Option<Last>,
    /// The instant since which the disk is idle.
    idle: Instant,
    /// The instant from which the chooser may use idle time.
    idle_from: Instant,
}

/// The counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SmtfTally {
    /// Completed requests.
    pub(crate) requests: u64,
    /// The time that requests spent at the disk, one at a time: the paper's measure (section 4). Idle time is
    /// excluded.
    pub(crate) busy: Duration,
    /// The sum of the times from arrival to completion.
    pub(crate) response: Duration,
    /// The number of requests to choose from, summed over all choices.
    pub(crate) queued: u64,
    /// The largest number of requests to choose from.
    pub(crate) queued_max: usize,
    /// Choices between two or more requests.
    pub(crate) choices: u64,
}

impl SmtfTally {
    /// Returns the mean number of requests to choose from.
    pub(crate) fn mean_queue(&self) -> f64 {
        self.queued as f64 / self.requests as f64
    }
}

impl<D: Disk, S: Source, C: Chooser> SmtfHost<D, S, C> {
    /// Makes a host at instant zero.
    pub(crate) fn new(disk: D, load: Issuer<S>, chooser: C) -> Self {
        let (queue, tasks) = Default::default();
        Self {
            disk,
            load,
            chooser,
            queue,
            tasks,
            next: 0,
            now: Instant::ZERO,
            last: None,
            idle: Instant::ZERO,
            idle_from: Instant::ZERO,
        }
    }

    /// Runs for this number of requests, or to the load's end.
    ///
    /// # Errors
    /// The load requests sectors that the disk does not have.
    pub(crate) fn advance(&mut self, requests: u64) -> Result<SmtfTally, LabError> {
        let mut tally = SmtfTally::default();
        while tally.requests < requests {
            self.take(self.now)?;
            if self.queue.is_empty() {
                let Some(due) = self.load.due() else { break };
                self.idle_until(due)?;
                self.now = self.now.max(due);
                continue;
            }
            self.serve_one(&mut tally)?;
        }
        Ok(tally)
    }

    /// Executes the chooser's reads in idle time. A request that arrives meanwhile waits.
    fn idle_until(&mut self, due: Instant) -> Result<(), LabError> {
        loop {
            let at = self.now.max(self.idle_from);
            let Some(last) = self.last.filter(|_| at < due) else { break };
            let Some(range) = self.chooser.wanted(last) else { break };
            self.now = at;
            let request = Request { id: RequestId::new(u64::MAX), op: Op::Read, range };
            let done = self.disk.serve(at, request.op, range)?;
            self.done(request, done);
        }
        Ok(())
    }

    /// Records that `request`, begun now, is done.
    fn done(&mut self, request: Request, done: Instant) {
        if let Some(last) = self.last {
            let pause = self.now.since(self.idle);
            self.chooser.served(&Observed { last, request, pause, time: done.since(self.now) });
        }
        self.last = Some(Last::of(&request));
        self.idle = done;
        self.now = done;
    }

    fn serve_one(&mut self, tally: &mut SmtfTally) -> Result<(), LabError> {
        tally.queued += self.queue.len() as u64;
        tally.queued_max = tally.queued_max.max(self.queue.len());
        tally.choices += u64::from(self.queue.len() > 1);
        let (arm, at, last) = (self.disk.position(), self.now, self.last);
        let seen = Seen { queue: &self.queue, at, pause: at.since(self.idle), last, arm };
        let chosen = self.chooser.choose(seen);
        let pending = self.queue.swap_remove(chosen);
        let task = self.tasks.swap_remove(chosen);
        let Request { op, range, .. } = pending.request;
        let done = self.disk.serve(at, op, range)?;
        // Requests that arrive before the completion join the queue before a request that the completion makes its
        // task issue.
        while let Some(due) = self.load.due().filter(|due| *due < done) {
            self.take(due)?;
        }
        let took = done.since(at);
        tally.requests += 1;
        tally.busy += took;
        tally.response += done.since(pending.arrived);
        self.done(pending.request, done);
        self.idle_from = done + IDLE_AFTER;
        self.load.complete(task, done);
        Ok(())
    }

    /// Puts requests that have arrived by `now` into the queue.
    fn take(&mut self, now: Instant) -> Result<(), LabError> {
        while let Some(issued) = self.load.issue(now) {
            let id = RequestId::new(self.next);
            let request = Request { id, op: issued.request.op, range: issued.request.range };
            let layout = self.disk.model().layout();
            let piece = layout.pieces(request.range).next().ok_or_else(|| {
                LabError::new(
                    format!("request {id}"),
                    format!("{} lies past the disk's end", issued.request.range),
                )
            })?;
            let track = layout.track(piece.track);
            let arrived = issued.at;
            self.queue.push(Pending {
                request,
                arrived,
                sequence: self.next,
                piece,
                track,
                promoted: None,
                follows: false,
            });
            self.tasks.push(issued.task);
            self.next += 1;
        }
        Ok(())
    }
}
