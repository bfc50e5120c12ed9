//! The arm between commands: read-ahead in progress, and the time to stop it.

use super::{Drive, Service};
use crate::run::Doing;
use units::{Duration, Instant, Lbn, Op, Sectors};

impl Drive {
    /// Advances read-ahead and its segment to `now`.
    pub(super) fn look_at_run(&mut self, now: Instant) {
        let Some(run) = &mut self.run else { return };
        let ended = run.advance(&mut self.mechanics, now);
        let (segment, next, around) = (run.segment, run.next, run.around);
        self.grow(segment, next);
        if let Some(end) = ended {
            if let Some((first, _)) = around {
                // The whole track has been read, so the sectors before the request are in the buffer as well.
                let size = self.segments.size.get();
                let s = self.segments.get_mut(segment);
                let room = Lbn::new(s.end.get().saturating_sub(size));
                s.start = s.start.min(first.max(room));
            }
            self.free = end;
            self.run = None;
        }
    }

    /// Ends read-ahead for a recalibration that is due by `now`, on a drive that also ends it at once for a command.
    pub(super) fn recalibrate(&mut self, now: Instant) {
        let next = self.recalibration.as_ref().filter(|_| self.prompt_read_ahead && self.run.is_some());
        let Some(at) = next.map(|next| next.due().max(self.free)).filter(|at| *at <= now) else { return };
        self.look_at_run(at);
        self.stop_run(at);
    }

    /// Stops read-ahead for a new command, and returns the time at which the arm is free.
    fn stop_run(&mut self, now: Instant) -> Instant {
        let Some(mut run) = self.run.take() else { return self.free.max(now) };
        let mut at = now;
        if run.least > run.next {
            // The drive finishes the minimum of read-ahead first.
            let least = run.least;
            run.land(&mut self.mechanics, least, |_| {});
            at = at.max(run.landed_at(self.mechanics.spindle()));
        } else {
            let (doing, until) = run.doing(self.mechanics.spindle(), now);
            let waits = match doing {
                _ if self.prompt_read_ahead => false,
                Doing::Moving => true,
                Doing::Waiting => !self.rules.overlapped_stop && !self.cache.stop_in_sector,
                Doing::Reading => !self.cache.stop_in_sector,
            };
            if waits {
                at = until.max(now);
                if doing == Doing::Reading {
                    run.land(&mut self.mechanics, run.next + Sectors::new(1), |_| {});
                }
            }
        }
        self.grow(run.segment, run.next);
        self.free = at;
        at
    }

    /// Adds the sectors before `end` to a segment.
    pub(super) fn grow(&mut self, segment: usize, end: Lbn) {
        let size = self.segments.size;
        self.segments.get_mut(segment).grow(end, size);
    }

    /// Returns the time at which the acknowledged write in progress is on the medium; zero if there is none.
    pub(super) fn flush_end(&self) -> Instant {
        self.flush.map_or(Instant::ZERO, |f| f.end)
    }

    /// Returns whether accesses for `op` have zero latency on this drive: they begin with the first of their sectors that
    /// passes.
    pub(super) fn zero_latency(&self, op: Op) -> bool {
        let in_order = op == Op::Read && self.holds_bus_read && self.rules.held_bus_in_order;
        self.rules.zero_latency && !in_order && self.model().zero_latency(op)
    }

    /// Returns the time at which the arm can start for a command: after its overhead, the end of read-ahead, and
    /// recalibrations that are due.
    pub(super) fn arm_ready(&mut self, service: Service, overhead: Duration) -> Instant {
        let worked = self.free;
        let stopped = self.stop_run(service.now);
        // If read-ahead ends at once for a command, it also ended for a recalibration, which was therefore on time.
        let free = if self.prompt_read_ahead { worked } else { self.free };
        let ready = if self.rules.overlapped_stop {
            stopped.max(service.after(overhead))
        } else {
            service.after(overhead) + stopped.since(service.now)
        };
        match &mut self.recalibration {
            None => ready,
            Some(recalibration) => recalibration.set_out(free, ready),
        }
    }
}
