//! Live tasks, which are those that are not over: the job of each, and the update of the table of tasks from the job.

use super::TaskManager;
use super::bad::LoggedBadSectors;
use super::owner::Owner;
use super::pace::Pace;
use crate::jobs::job::{Context, Job, Stage};
use crate::jobs::{Begin, begin};
use crate::task::budget::Reservation;
use crate::task::spec::{self, Checksums, What};
use crate::task::table::TaskState;
use page::Rings;
use scheduler::{Harm, Sessions};
use tracing::warn;
use units::{Duration, Instant};

/// The time after which a blocked task tries again.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(10);

/// A task that is not over.
pub(super) struct Live {
    pub(super) job: Box<dyn Job>,
    pub(super) paused: bool,
    /// The permit to run, for kinds of tasks whose number is limited.
    pub(super) permit: PermitState,
    pub(super) pace: Pace,
    pub(super) retry_at: Option<Instant>,
    pub(super) save_at: Instant,
    pub(super) harm: Harm,
    pub(super) shared: bool,
    /// Bytes read or written in gaps of the foreground, and in idle time.
    pub(super) free_bytes: u64,
    pub(super) idle_bytes: u64,
    /// The sectors that are done in each part of the disk, for the status page.
    pub(super) rings: Rings,
    /// The reason, if any, why the task would be blocked if it were not paused on request.
    pub(super) stuck: Option<String>,
    /// The last logged reason why the task cannot go on, with the number of blocks done then. The task keeps trying,
    /// and a reason is logged once.
    pub(super) logged: Option<(String, u64)>,
    /// Whether the log says that the task misses its deadline.
    pub(super) late: bool,
    pub(super) named: LoggedBadSectors,
}

/// The state of a task's permit to run. A kind of task without a limit needs none.
#[derive(Debug)]
pub(super) enum PermitState {
    Nothing,
    /// The task has no permit, and is suspended until one is free.
    Waits,
    Has {
        /// The permit, which is given back when the task pauses, is blocked, or ends.
        _permit: Reservation,
    },
}

impl Live {
    /// Resumes the job. A job that was blocked tries again.
    pub(super) fn go_on(&mut self, cx: &mut Context<'_>) {
        self.job.pause(cx, false);
        if matches!(self.job.stage(), Stage::Waiting(_)) {
            self.retry_at = None;
            self.job.retry(cx);
        }
    }

    /// Pauses the job, and gives its permit back.
    pub(super) fn stand(&mut self, cx: &mut Context<'_>) {
        self.job.pause(cx, true);
        if matches!(self.permit, PermitState::Has { .. }) {
            self.permit = PermitState::Waits;
        }
    }

    /// Returns whether the job is not blocked, or is due to try again.
    fn may_try(&self, now: Instant) -> bool {
        self.retry_at.is_none_or(|at| at <= now)
    }
}

impl TaskManager {
    /// Lets a queued task run, if a permit is free.
    pub(super) fn take_permit(&mut self, sessions: &mut dyn Sessions, id: u64) {
        let now = self.now;
        let waits =
            |live: &Live| !live.paused && live.may_try(now) && matches!(live.permit, PermitState::Waits);
        if self.live.get(&id).is_some_and(waits)
            && let Some(permit) = self.config.permits.take()
        {
            self.with(sessions, id, |live, cx| {
                live.permit = PermitState::Has { _permit: permit };
                live.go_on(cx);
            });
            self.settle(sessions, id);
        }
    }

    /// Begins a task's job, or continues the job after a restart.
    pub(super) fn begin_one(&mut self, sessions: &mut dyn Sessions, id: u64) {
        let Some(entry) = self.table.get(id).filter(|e| !e.state.is_over()) else { return };
        let what = match entry.spec.check(&self.config.disk) {
            Ok(what) => what,
            Err(error) => {
                let why = format!("the task does not fit the disk any more: {error}");
                self.end(sessions, id, TaskState::Failed, Some(why));
                return;
            }
        };
        if what.takes_all() {
            self.alone.insert(id);
            if self.changing {
                // Wait for the clients' writes in flight: they could overwrite restored blocks.
                self.hushing.push(id);
                return;
            }
        }
        if let What::Verify(verify) = &what {
            let budget = &self.config.memory;
            self.memory.entry(id).or_insert_with(|| budget.take_again(verify.plan.memory));
        }
        let (image, checksums) = (entry.image, what.checksums().cloned());
        if let (Some(Checksums { store, anew }), What::Scrub { block, .. }) = (checksums, &what) {
            self.sums.watch(id, *block, self.config.disk.capacity);
            self.want_sums(id, store, *block, image, anew);
        }
        let Some(entry) = self.table.get(id) else { return };
        let (paused, shared) = (entry.state == TaskState::Paused && entry.reason.is_none(), false);
        let asked = Begin {
            what: &what,
            volume: self.volume,
            image: entry.image,
            figures: &entry.figures,
            saved: &entry.saved,
            room: &self.kept,
            background: &self.config.background,
        };
        let priority = spec::check_priority(entry.spec.priority).unwrap_or_default();
        let mut calls = self.owners.calls_of(Owner::Task(id), sessions);
        let disk = &self.config.disk;
        let mut cx = Context {
            id,
            sessions: &mut calls,
            file_requests: &mut self.file_requests,
            disk,
            writes: &mut self.sums,
            priority,
            now: self.now,
            ran: self.ran,
            unix_ms: self.unix_ms,
        };
        let mut job = begin(&mut cx, &asked);
        let permit = match what.needs_permit() {
            true if paused => PermitState::Waits,
            true => self
                .config
                .permits
                .take()
                .map_or(PermitState::Waits, |permit| PermitState::Has { _permit: permit }),
            false => PermitState::Nothing,
        };
        if paused || matches!(permit, PermitState::Waits) {
            job.pause(&mut cx, true);
        }
        let (harm, save_at) = (Harm::default(), self.now);
        let named =
            self.table.get(id).map(|entry| LoggedBadSectors::before(&entry.figures)).unwrap_or_default();
        let live = Live {
            job,
            paused,
            permit,
            pace: Pace::default(),
            retry_at: None,
            save_at,
            harm,
            shared,
            free_bytes: 0,
            idle_bytes: 0,
            rings: Rings::default(),
            stuck: None,
            logged: None,
            late: false,
            named,
        };
        self.live.insert(id, live);
        self.send_file_requests();
        self.settle(sessions, id);
    }

    /// Runs `call` with a task's job and the context of its calls, and passes on what the job returns. `None` if the
    /// task is over.
    pub(super) fn with<R>(
        &mut self,
        sessions: &mut dyn Sessions,
        id: u64,
        call: impl FnOnce(&mut Live, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let live = self.live.get_mut(&id)?;
        let priority = self.table.get(id).and_then(|e| scheduler::Priority::new(e.spec.priority));
        let mut calls = self.owners.calls_of(Owner::Task(id), sessions);
        let mut cx = Context {
            id,
            sessions: &mut calls,
            file_requests: &mut self.file_requests,
            disk: &self.config.disk,
            writes: &mut self.sums,
            priority: priority.unwrap_or_default(),
            now: self.now,
            ran: self.ran,
            unix_ms: self.unix_ms,
        };
        let result = call(live, &mut cx);
        self.answers.extend(live.job.answers());
        self.send_file_requests();
        Some(result)
    }

    /// Updates a task's entry in the table from the stage of its job.
    pub(super) fn settle(&mut self, sessions: &mut dyn Sessions, id: u64) {
        let now = self.now;
        let Some(live) = self.live.get_mut(&id) else { return };
        let (stage, paused) = (live.job.stage(), live.paused);
        let blocked = matches!(stage, Stage::Waiting(_));
        live.retry_at = live.retry_at.filter(|_| blocked).or(blocked.then_some(now + RETRY_AFTER));
        if blocked && matches!(live.permit, PermitState::Has { .. }) {
            // Free the permit, so that another task can run while this one is blocked.
            self.with(sessions, id, Live::stand);
        }
        let Some(live) = self.live.get(&id) else { return };
        match stage {
            Stage::Done => {
                self.save(id, true);
                self.end(sessions, id, TaskState::Done, None);
            }
            Stage::Failed(why) => {
                self.save(id, true);
                self.end(sessions, id, TaskState::Failed, Some(why));
            }
            stage if paused => {
                self.set_stuck(id, &stage);
                self.state(id, TaskState::Paused, None);
            }
            _ if matches!(live.permit, PermitState::Waits) && live.may_try(now) => {
                let most = self.config.permits.most();
                let why = format!(
                    "the task waits: at most {most} scrubs and comparisons run at a time (tasks_at_once)"
                );
                self.state(id, TaskState::Queued, Some(why));
            }
            Stage::Waiting(why) => drop(self.state(id, TaskState::Paused, Some(why))),
            Stage::Opening => drop(self.state(id, TaskState::Queued, None)),
            Stage::Running => drop(self.state(id, TaskState::Running, None)),
        }
    }

    /// Records why a task would be blocked if it were not paused on request, and logs the reason once. The reason in
    /// the journal stays empty, because a pause without a reason counts as requested after a restart.
    fn set_stuck(&mut self, id: u64, stage: &Stage) {
        let (Some(live), Some(entry)) = (self.live.get_mut(&id), self.table.get(id)) else { return };
        match stage {
            Stage::Waiting(why) => {
                if live.stuck.as_ref() != Some(why) {
                    let (disk, kind) = (&self.config.disk.name, entry.spec.kind);
                    warn!(disk, task = id, %kind, why, "paused, and cannot go on");
                }
                live.stuck = Some(why.clone());
            }
            // The job is trying again: keep the reason until the try has ended.
            Stage::Opening => {}
            _ => live.stuck = None,
        }
    }

    /// Adds the growth of the core's harm estimate to the figures of every task that runs.
    pub(super) fn charge(&mut self, harm: Harm) {
        let grown = harm.since(&self.harm);
        self.harm = harm;
        let table = &self.table;
        let runs = |id: &u64| table.get(*id).is_some_and(|e| e.state == TaskState::Running);
        let many = self.live.keys().filter(|id| runs(id)).count() > 1;
        for (_, live) in self.live.iter_mut().filter(|(id, _)| runs(id)) {
            live.harm.foreground += grown.foreground;
            live.harm.late += grown.late;
            live.harm.early += grown.early;
            live.shared |= many;
        }
    }
}
