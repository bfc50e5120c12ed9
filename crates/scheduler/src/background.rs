//! The wanted blocks of all sessions, and their way to the sessions.
//!
//! A [`Share`] has the wanted blocks of one session. The [`Focus`] of a search is one share (the lottery's winner) or all shares
//! that are not suspended. A chosen part of a block is a [`Pick`] until it has been transferred.

mod bad;
mod part;
mod picks;
mod promotable;
mod search;
mod share;
mod straight;
mod walk;
mod writes;

pub use bad::Bad;
pub use part::Part;
pub(crate) use part::{PromotedBlock, TaskBlock};
pub(crate) use promotable::Urgent;
pub(crate) use search::Focus;
pub(crate) use walk::{Front, Sought, Walk, WalkStart};

use crate::sessions::{BLOCK_SECTORS_MAX, Priority, SESSIONS_MAX, SessionError, TASKS_MAX, Wanted};
use crate::task::{Item, NewTask};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use model::Layout;
use part::Pick;
use share::Share;
use units::{LbnRange, Op, SessionId, TaskId};
use walk::Walks;

/// The host's buffers of background writes: before a block is written, the core asks whether its bytes are available.
pub trait Buffers {
    /// Returns whether the block's bytes are available. After `true` they must stay available until the write is done.
    fn ready(&mut self, wanted: &Wanted) -> bool;
}

/// Buffers that are always available.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ready;

impl Buffers for Ready {
    fn ready(&mut self, _: &Wanted) -> bool {
        true
    }
}

/// All sessions and tasks.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    /// The shares of all sessions, in ascending order of session ids.
    shares: Vec<Share>,
    /// The indices in `shares` of those that a search looks at.
    focus: Vec<usize>,
    owners: BTreeMap<TaskId, SessionId>,
    next_session: u64,
    next_task: u64,
    picks: Vec<Pick>,
    /// The command for which blocks are taken.
    command: u64,
    /// How far idle work has come over the drive, in searches for blocks of several sessions together.
    walks: Walks,
    most_partials: usize,
    /// The maximum of half-read blocks of each session: an equal part of `most_partials`, so that no session waits for space
    /// that other sessions, perhaps suspended, occupy.
    most_partials_each: usize,
    scratch: Vec<FoundItem>,
    refused: Vec<usize>,
    /// Promoted blocks that are wanted again because their access was cut, lost, or failed.
    urgent: Vec<PromotedBlock>,
}

/// An item of a task that passes under the head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundItem {
    /// The index of its session's share.
    share: usize,
    /// The slot of its task in the share.
    slot: u32,
    pub item: Item,
    /// The number of sectors from the beginning of the window to the item.
    pub passing: u32,
}

impl Background {
    pub fn new(layout: &Layout, most_partials: usize) -> Self {
        Self {
            shares: Vec::new(),
            focus: Vec::new(),
            owners: BTreeMap::new(),
            next_session: 1,
            next_task: 1,
            picks: Vec::new(),
            command: 0,
            walks: Walks::new(layout.cylinders()),
            most_partials,
            most_partials_each: most_partials.max(1),
            scratch: Vec::new(),
            refused: Vec::new(),
            urgent: Vec::new(),
        }
    }

    pub fn open(
        &mut self,
        layout: &Layout,
        priority: Priority,
        by_writes: [bool; 2],
    ) -> Result<SessionId, SessionError> {
        if self.shares.len() >= SESSIONS_MAX {
            return Err(SessionError::TooManySessions { most: SESSIONS_MAX });
        }
        let id = SessionId::new(self.next_session);
        self.next_session += 1;
        self.shares.push(Share::new(layout, id, priority, by_writes));
        self.share_room();
        self.focus_on(Focus::All);
        Ok(id)
    }

    /// Adapts to another model of the same drive. Picks of foreground requests that are sent again stay, because a pick names a
    /// part of a block and no place on the drive.
    pub fn lay_out(&mut self, layout: &Layout, most_partials: usize) {
        self.most_partials = most_partials;
        self.walks = Walks::new(layout.cylinders());
        self.shares.iter_mut().for_each(|share| share.lay_out(layout));
        self.share_room();
    }

    fn share_room(&mut self) {
        self.most_partials_each = (self.most_partials / self.shares.len().max(1)).max(1);
    }

    /// Returns the index of a session's share. Shares are in order of ids, because new ones are added at the end.
    fn place(&self, session: SessionId) -> Result<usize, SessionError> {
        self.shares.binary_search_by_key(&session, |s| s.id).map_err(|_| SessionError::NoSession(session))
    }

    fn share(&mut self, session: SessionId) -> Result<&mut Share, SessionError> {
        let at = self.place(session)?;
        Ok(&mut self.shares[at])
    }

    pub fn priority(&self, session: SessionId) -> Option<Priority> {
        self.place(session).ok().map(|at| self.shares[at].priority)
    }

    pub fn set_priority(&mut self, session: SessionId, priority: Priority) -> Result<(), SessionError> {
        self.share(session)?.priority = priority;
        Ok(())
    }

    pub fn register(
        &mut self,
        layout: &Layout,
        session: SessionId,
        new: NewTask,
    ) -> Result<TaskId, SessionError> {
        let at = self.place(session)?;
        check_range(layout, new.range)?;
        if !(1..=BLOCK_SECTORS_MAX).contains(&new.block.get()) {
            return Err(SessionError::BlockSize(new.block));
        }
        if self.owners.len() >= TASKS_MAX {
            return Err(SessionError::TooManyTasks { most: TASKS_MAX });
        }
        let id = TaskId::new(self.next_task);
        self.next_task += 1;
        self.owners.insert(id, session);
        let cylinders = self.shares[at].add(layout, id, new);
        self.walks.wanted_anew(cylinders);
        self.focus_on(Focus::All);
        Ok(id)
    }

    /// Aborts a task and returns the number of its undelivered blocks.
    pub fn abort(&mut self, task: TaskId) -> Result<u64, SessionError> {
        let session = *self.owners.get(&task).ok_or(SessionError::NoTask(task))?;
        self.picks.retain(|p| p.task != task);
        let share = self.share(session)?;
        let left = share.abort(task).ok_or(SessionError::NoTask(task))?;
        self.owners.remove(&task);
        self.focus_on(Focus::All);
        Ok(left)
    }

    /// Withdraws blocks of a session and returns their number, those under way included.
    pub fn abort_range(
        &mut self,
        layout: &Layout,
        session: SessionId,
        range: LbnRange,
    ) -> Result<u64, SessionError> {
        let at = self.place(session)?;
        check_range(layout, range)?;
        let Self { shares, picks, owners, .. } = self;
        let share = &mut shares[at];
        let mut withdrawn = 0;
        picks.retain(|pick| {
            let block = (pick.session == session).then(|| share.block_range(pick)).flatten();
            let gone = block.is_some_and(|block| block.overlaps(range));
            if gone && pick.completes {
                if share.finished(pick.task) {
                    owners.remove(&pick.task);
                }
                withdrawn += 1;
            }
            !gone
        });
        withdrawn += share.withdraw(range, |task| {
            owners.remove(&task);
        });
        share.undelivered -= withdrawn;
        self.focus_on(Focus::All);
        Ok(withdrawn)
    }

    /// Closes a session and returns the number of undelivered blocks of its tasks.
    pub fn close(&mut self, session: SessionId) -> Result<u64, SessionError> {
        let at = self.place(session)?;
        let share = self.shares.remove(at);
        self.share_room();
        self.picks.retain(|p| p.session != session);
        let mut left = 0;
        for task in share.tasks() {
            self.owners.remove(&task.id);
            left += task.undelivered;
        }
        self.focus_on(Focus::All);
        Ok(left)
    }

    /// Sets whether a write to the same sectors, foreground or background, completes a read of the session (if `op` is a read),
    /// or whether another background write to the same sectors completes a write of it (if `op` is a write).
    pub fn serve_by_writes(&mut self, session: SessionId, op: Op, on: bool) -> Result<(), SessionError> {
        let share = self.share(session)?;
        match op {
            Op::Read => share.writes_serve_reads = on,
            Op::Write => share.writes_serve_writes = on,
        }
        Ok(())
    }

    pub fn suspend(&mut self, session: SessionId, suspended: bool) -> Result<(), SessionError> {
        self.share(session)?.suspended = suspended;
        self.walks.begin();
        self.focus_on(Focus::All);
        Ok(())
    }

    pub fn is_suspended(&self, session: SessionId) -> bool {
        self.place(session).is_ok_and(|at| self.shares[at].suspended)
    }

    /// Returns whether a session wants to read, or to write, a part of `range`.
    pub fn wants(&self, session: SessionId, op: Op, range: LbnRange) -> bool {
        self.place(session).is_ok_and(|at| self.shares[at].wants(op, range))
    }

    /// Returns the number of blocks that a session has not yet received.
    pub fn undelivered(&self, session: SessionId) -> Option<u64> {
        self.place(session).ok().map(|at| self.shares[at].undelivered)
    }

    /// Returns the number of blocks that a task has not yet received.
    pub fn task_undelivered(&self, task: TaskId) -> Option<u64> {
        let at = self.place(*self.owners.get(&task)?).ok()?;
        self.shares[at].task(task).map(|t| t.undelivered)
    }

    pub fn memory_bytes(&self) -> usize {
        self.shares.iter().flat_map(Share::tasks).map(|t| t.memory_bytes()).sum()
    }
}

/// Checks a range of a session call.
fn check_range(layout: &Layout, range: LbnRange) -> Result<(), SessionError> {
    let capacity = layout.capacity();
    if range.is_empty() {
        return Err(SessionError::EmptyRange(range.start()));
    }
    if range.checked_end().is_none_or(|end| end.get() > capacity.get()) {
        return Err(SessionError::PastEnd { range, capacity });
    }
    Ok(())
}
