//! The calls of operators: start, pause, resume and cancel a task, and change its priority or deadline.

use super::live::PermitState;
use super::owner::Owner;
use super::{LIVE_TASKS_MAX, ManagerError, TaskChange, TaskManager};
use crate::file_system::Places;
use crate::task::spec::{self, SpecError, TaskSpec, What};
use crate::task::table::{Event, TaskState};
use scheduler::Sessions;
use tracing::warn;

impl TaskManager {
    /// Starts a task, which begins when its first journal entry is durable.
    ///
    /// # Errors
    /// A field is wrong, or another task or a client prevents the task.
    pub fn start(&mut self, spec: TaskSpec) -> Result<TaskChange, ManagerError> {
        self.sound()?;
        let what = spec.check(&self.config.disk)?;
        if self.config.disk.read_only && what.writes() {
            let mend = "the task writes to the disk, which is read_only; take read_only out of the configuration first";
            return Err(SpecError::new("kind", spec.kind.to_string(), mend).into());
        }
        let live = || self.table.iter().filter(|(_, entry)| !entry.state.is_over());
        if live().count() >= LIVE_TASKS_MAX {
            return Err(ManagerError::TooMany);
        }
        if what.needs_alone() == Some(false) && self.writers > 0 {
            return Err(ManagerError::Busy(format!(
                "{} clients have the disk open for writing; close them, or set `force`: their writes then fail",
                self.writers
            )));
        }
        for (id, entry) in live() {
            let Ok(other) = entry.spec.check(&self.config.disk) else { continue };
            if let (Some(_), Some(_)) = (what.checksums(), other.checksums()) {
                return Err(ManagerError::Busy(format!(
                    "scrub {id} with checksums is {}; wait for it, or cancel it",
                    entry.state
                )));
            }
            if let (Some(range), Some(there)) = (what.scrubs(), other.scrubs())
                && range.overlaps(there)
            {
                let (first, end) = (there.start(), there.end());
                return Err(ManagerError::Busy(format!(
                    "scrub {id} of LBNs {first} to {end} is {}; wait for it, or cancel it",
                    entry.state
                )));
            }
            if let (What::Snapshot { name, .. }, What::Snapshot { name: there, .. }) = (&what, &other)
                && name == there
            {
                return Err(ManagerError::Busy(format!(
                    "snapshot {id} has the name {name}; give another, or remove that one first"
                )));
            }
            if let (Some(to), Some(there)) = (what.target(), other.target())
                && to.components().eq(there.components())
            {
                return Err(ManagerError::Busy(format!(
                    "{} {id} to {} is {}; wait for it, cancel it, or name another file",
                    entry.spec.kind,
                    to.display(),
                    entry.state
                )));
            }
            let both = what.writes() && (other.writes() || other.is_snapshot());
            if both || (what.is_snapshot() && other.writes()) {
                let kind = entry.spec.kind;
                return Err(ManagerError::Busy(format!(
                    "{kind} {id} is {}, and a {} cannot go beside it; wait for it, or cancel it",
                    entry.state, spec.kind
                )));
            }
        }
        let memory = match &what {
            What::Verify(verify) => Some(verify.take_memory(&self.config.memory)?),
            _ => None,
        };
        if what.checksums().is_some_and(|checksums| checksums.anew) && self.table.sums().is_some() {
            // The old store still forgets the sums of written blocks until this entry is durable, before the task
            // begins.
            self.note(Event::Sums { store: None });
        }
        let (id, image) = (self.table.next_id(), self.roll());
        let seq = self.note(Event::Created { id, spec, at: self.unix_ms, image });
        self.creating.push_back(TaskChange { task: id, seq });
        self.memory.extend(memory.map(|memory| (id, memory)));
        if what.takes_all() {
            self.alone.insert(id);
        }
        self.forget_old();
        Ok(TaskChange { task: id, seq })
    }

    /// Logs the live tasks that name a file outside of `places`, after a change of the configuration. The tasks
    /// continue.
    pub fn warn_of_tasks_outside(&self, places: &Places) {
        for (id, entry) in self.table.iter().filter(|(_, entry)| !entry.state.is_over()) {
            if let Err(error) = entry.spec.check_places(places) {
                let (disk, kind) = (&self.config.disk.name, entry.spec.kind);
                warn!(disk, task = id, %kind, %error, "the task goes on outside of `targets`; cancel the task to end it");
            }
        }
    }

    /// Pauses a task. Returns the journal entry that makes the pause durable.
    ///
    /// # Errors
    /// The task is over or does not exist.
    pub fn pause(&mut self, sessions: &mut dyn Sessions, id: u64) -> Result<u64, ManagerError> {
        self.not_over(id)?;
        self.with(sessions, id, |live, cx| {
            live.paused = true;
            live.stand(cx);
        });
        self.settle(sessions, id);
        Ok(self.state(id, TaskState::Paused, None))
    }

    /// Resumes a task. Returns the journal entry that makes the new state durable.
    ///
    /// # Errors
    /// The task is over or does not exist.
    pub fn resume(&mut self, sessions: &mut dyn Sessions, id: u64) -> Result<u64, ManagerError> {
        self.not_over(id)?;
        let queued = self.state(id, TaskState::Queued, None);
        self.with(sessions, id, |live, cx| {
            live.paused = false;
            live.pace.forget();
            live.retry_at = live.retry_at.map(|_| cx.now);
            if !matches!(live.permit, PermitState::Waits) {
                live.go_on(cx);
            }
        });
        self.take_permit(sessions, id);
        self.settle(sessions, id);
        Ok(self.seq.max(queued))
    }

    /// Cancels a task. Returns the journal entry that makes the end durable.
    ///
    /// # Errors
    /// The task is over or does not exist, or blocks of the disk would be lost.
    pub fn cancel(&mut self, sessions: &mut dyn Sessions, id: u64) -> Result<u64, ManagerError> {
        self.not_over(id)?;
        if let Some(Err(why)) = self.live.get(&id).map(|live| live.job.may_cancel()) {
            return Err(ManagerError::Busy(why));
        }
        Ok(self.end(sessions, id, TaskState::Cancelled, None))
    }

    /// Changes a task's priority. Returns the journal entry that makes the change durable.
    ///
    /// # Errors
    /// The priority is out of bounds, or the task is over or does not exist.
    pub fn set_priority(
        &mut self,
        sessions: &mut dyn Sessions,
        id: u64,
        priority: u8,
    ) -> Result<u64, ManagerError> {
        let known = spec::check_priority(priority)?;
        self.not_over(id)?;
        let seq = self.note(Event::Priority { id, priority });
        for session in self.owners.sessions_of(Owner::Task(id)) {
            // An error means that the session was closed in the meantime.
            let _ = sessions.set_priority(session, known);
        }
        Ok(seq)
    }

    /// Changes or removes a task's deadline. Returns the journal entry that makes the change durable.
    ///
    /// # Errors
    /// The task is over or does not exist.
    pub fn set_deadline(&mut self, id: u64, deadline_unix_s: Option<u64>) -> Result<u64, ManagerError> {
        self.not_over(id)?;
        if let Some(live) = self.live.get_mut(&id) {
            live.late = false;
        }
        Ok(self.note(Event::Deadline { id, deadline_unix_s }))
    }
}
