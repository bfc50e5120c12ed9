//! The core in the drive.

use super::output::Event;
use super::under_way::{Job, JobWork, UnderWay};
use super::{
    Access, Config, Core, HeadEnd, HeadWork, Input, Output, Refused, SubmitError, Whose, wraps_engine,
};
use crate::background::{Bad, Buffers};
use crate::foreground::{Pending, Request};
use crate::idle::IdleTimeError;
use alloc::sync::Arc;
use core::convert::Infallible;
use model::DriveModel;
use units::Instant;

/// The scheduler in the drive: it knows the drive exactly and moves its head (OSDI'00).
///
/// One door in: [`input`](Self::input), or its short forms [`submit`](Self::submit) for the foreground, the session calls
/// ([`Sessions`](crate::Sessions)) for the background, and [`completed`](Self::completed) when an `Execute` is done. One door out:
/// after any input, and at [`wake_at`](Self::wake_at), [`poll`](Self::poll) until it returns `None`. At most one
/// [`HeadWork::Execute`] is under way. The core reads no clock, and its lottery is seeded: the same inputs give the same outputs.
///
/// ```
/// use freeblock_scheduler::model::{DriveModel, builtin};
/// use freeblock_scheduler::units::{Instant, Lbn, LbnRange, Op, RequestId, Sectors};
/// use freeblock_scheduler::{Output, Config, HeadWork, InDrive, Parameter, Priority, Request, Sessions};
/// use std::sync::Arc;
/// let drive = DriveModel::from_profile(&builtin::find("quantum-atlas-10k")?)?;
/// let scanned = LbnRange::new(Lbn::ZERO, Sectors::new(4_900));
/// let mut core = InDrive::new(Arc::new(drive), Config::default());
/// let session = core.open(Priority::default())?;
/// core.read(session, scanned, Sectors::new(8), Parameter::default())?;
///
/// let (mut now, mut delivered, mut id) = (Instant::ZERO, 0, 0);
/// while core.undelivered(session) != Some(0) {
///     id += 1;
///     let range = LbnRange::new(Lbn::new(id * 1_237 % 4_900), Sectors::new(8));
///     core.submit(now, Request { id: RequestId::new(id), op: Op::Read, range })?;
///     while let Some(output) = core.poll(now) {
///         match output {
///             Output::Do(HeadWork::Execute) => {
///                 // Here a host moves the head; this one believes the core's own prediction.
///                 now = core.busy_until().unwrap();
///                 core.completed(now);
///             }
///             Output::Deliver(_) => delivered += 1,
///             _ => {}
///         }
///     }
/// }
/// assert_eq!(delivered, scanned.len().get().div_ceil(8));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct InDrive {
    core: Core,
    busy: Option<UnderWay>,
    /// Whether the work under way was cut since the last poll.
    is_cut: bool,
    /// The lost job, which is repeated before any other work.
    retry: Option<Job>,
}

wraps_engine!(InDrive, HeadWork, HeadEnd, Infallible);

impl InDrive {
    /// Returns a new core, like [`new`](Self::new), for a configuration that may be invalid.
    ///
    /// # Errors
    /// The invalid field and its valid values ([`IdleTime::check`](crate::IdleTime::check)).
    pub fn try_new(drive: Arc<DriveModel>, config: Config) -> Result<Self, IdleTimeError> {
        Ok(Self { core: Core::try_new(drive, config, true)?, busy: None, is_cut: false, retry: None })
    }

    /// Returns a core for a drive whose head stands at cylinder 0 under head 0.
    ///
    /// # Panics
    /// If the settings of idle time are invalid; [`try_new`](Self::try_new) returns the reason.
    pub fn new(drive: Arc<DriveModel>, config: Config) -> Self {
        Self::try_new(drive, config).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Reports that the outstanding [`HeadWork::Execute`] is done, at `now`.
    pub fn completed(&mut self, now: Instant) {
        self.completed_with(now, &[]);
    }

    /// Reports the same as [`completed`](Self::completed), with sectors that the medium could not serve. If the host knows
    /// which operation failed, it passes a [`Bad`]; if it passes a list, both reads and writes of those sectors fail.
    pub fn completed_with<'a>(&mut self, now: Instant, bad: impl Into<Bad<'a>>) {
        self.ended(now, HeadEnd::Done(bad.into()));
    }

    /// Reports that the outstanding [`HeadWork::Execute`] was [lost](HeadEnd::Lost).
    pub fn lost(&mut self, now: Instant) {
        self.ended(now, HeadEnd::Lost);
    }

    /// Reports the end of the outstanding [`HeadWork::Execute`].
    pub fn ended(&mut self, now: Instant, end: HeadEnd<'_>) {
        let Some(UnderWay { work, .. }) = self.busy.take() else {
            debug_assert!(false, "{end:?} without an Execute under way");
            return;
        };
        let core = &mut self.core;
        core.now = now;
        let HeadEnd::Done(bad) = end else {
            core.watch.lost_sight();
            core.background.lost(core.drive.layout());
            if let JobWork::Foreground(job) = work {
                self.retry = Some(job);
            }
            return;
        };
        if let JobWork::Foreground(job) = &work
            && job.pending.promoted.is_none()
        {
            core.idle.since = now;
            let request = job.pending.request;
            let Request { id, op, range } = request;
            let failed = bad.first(op, range);
            core.watch.done(now, &request, failed.is_none());
            core.outbox.push_back(match failed {
                Some(bad) => Event::Failed { id, bad },
                None => Event::Completed(id),
            });
        } else if let JobWork::Probe(job) = work {
            core.watch.done(now, &job.pending.request, bad.is_empty());
        } else {
            core.watch.lost_sight();
        }
        let outbox = &mut core.outbox;
        core.background.deliver(bad, |record| outbox.push_back(Event::Deliver(record)));
    }

    /// Polls like [`poll`](Self::poll); `buffers` is asked before a background block is written.
    pub fn poll_with(&mut self, now: Instant, buffers: &mut dyn Buffers) -> Option<Output<HeadWork>> {
        if core::mem::take(&mut self.is_cut) {
            self.core.now = now;
            return Some(Output::Do(HeadWork::Cut));
        }
        if let Some(event) = self.core.next_event(now) {
            return Some(event.map(|none| match none {}));
        }
        self.core.promote_again();
        if self.busy.is_none() {
            self.busy = self.dispatch(now, buffers);
            return self.busy.is_some().then_some(Output::Do(HeadWork::Execute));
        }
        None
    }

    fn host(&mut self, call: Infallible) -> Result<u64, Refused> {
        match call {}
    }

    /// Adds a request that was checked.
    fn admit(&mut self, now: Instant, pending: Pending) {
        self.core.accept(now, pending);
        self.cut(now);
    }

    /// Returns the next work of the head, if there is any.
    fn dispatch(&mut self, now: Instant, buffers: &mut dyn Buffers) -> Option<UnderWay> {
        let core = &mut self.core;
        core.accesses.clear();
        core.watch.begin(now);
        if let Some(job) = self.retry.take() {
            // The arm has already passed the end of the drive, or is at the request.
            let job = Job { over: None, ..job };
            // The wanted blocks that the request covers are still taken; a repeated request has no detours.
            let until = core.lay_out(now, &job, None);
            return Some(UnderWay { until, work: JobWork::Foreground(job) });
        }
        if let Some(job) = core.choose(now, buffers) {
            let until = core.foreground(now, &job, buffers);
            return Some(UnderWay { until, work: JobWork::Foreground(job) });
        }
        let Some(visit) = core.idle_visit(now, buffers) else { return core.probe(now) };
        let until = visit.times.last().map_or(visit.ready, |time| time.end);
        Some(UnderWay { until, work: JobWork::Idle(visit) })
    }

    /// Returns the instant of the next poll if no event occurs before: then the core may have work in idle time.
    pub fn wake_at(&self) -> Option<Instant> {
        if self.busy.is_some() { None } else { self.core.idle_at() }
    }

    /// Returns the accesses of the last [`HeadWork::Execute`], in order.
    pub fn accesses(&self) -> &[Access] {
        &self.core.accesses
    }

    /// Returns the purpose of the work under way, `None` without work.
    pub fn whose(&self) -> Option<Whose> {
        Some(match &self.busy.as_ref()?.work {
            JobWork::Idle(_) | JobWork::Probe(_) => Whose::Idle,
            JobWork::Foreground(job) => match job.pending.promoted {
                Some(session) => Whose::Promoted(session),
                None => Whose::Request(job.pending.request.id),
            },
        })
    }

    /// Returns the predicted end of the work under way.
    pub fn busy_until(&self) -> Option<Instant> {
        self.busy.as_ref().map(|b| b.until)
    }

    /// Returns the number of waiting foreground requests, promoted ones included, without the one under way.
    pub fn pending(&self) -> usize {
        self.core.pool.len() + usize::from(self.retry.is_some())
    }

    /// Cuts the work in idle time as early as possible, because the foreground is back.
    fn cut(&mut self, now: Instant) {
        let Some(UnderWay { until, work: JobWork::Idle(visit) }) = &mut self.busy else { return };
        if now >= *until {
            return;
        }
        let core = &mut self.core;
        let layout = core.drive.layout();
        let track = layout.track(visit.track);
        let Some(first) = core.accesses.first().copied() else { return };
        let done = if now < visit.ready {
            // A moving arm arrives before it can turn back.
            core.accesses.clear();
            *until = visit.ready;
            0
        } else if first.op.is_write() {
            // A block whose writing has begun is finished, because half of it is worth nothing.
            let begun = visit.times.iter().take_while(|time| time.begin < now).count();
            core.accesses.truncate(begun);
            *until = visit.times.get(begun.wrapping_sub(1)).map_or(now, |time| time.end).max(now);
            let last = core.accesses.last();
            last.map_or(0, |a| (a.sector + track.sectors - first.sector) % track.sectors + a.sectors)
        } else {
            let begin = visit.times[0].begin;
            let passed = if now > begin { track.passing(core.drive.rpm(), begin, now).count } else { 0 };
            let done = passed.min(first.sectors);
            match core.accesses.first_mut() {
                Some(access) if done > 0 => access.sectors = done,
                _ => core.accesses.clear(),
            }
            *until = now;
            done
        };
        core.background.cut(layout, track.sectors, first.sector, done);
        self.is_cut = true;
    }
}
