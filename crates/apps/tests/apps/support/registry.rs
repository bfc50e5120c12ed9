//! The naive host's session calls: registrations as plain lists.

use freeblock_apps::sessions::{Parameter, SessionCall, Sessions};
use scheduler::SessionError;
use std::collections::{BTreeMap, BTreeSet};
use units::{Lbn, LbnRange, Op, Sectors, SessionId, TaskId};

#[derive(Clone, Copy, Debug)]
struct Session {
    suspended: bool,
    left: u64,
    /// Whether a foreground write of the same place completes a read.
    by_writes: bool,
}

/// A registered block.
#[derive(Clone, Debug)]
pub struct RegisteredBlock {
    pub session: SessionId,
    pub task: TaskId,
    pub range: LbnRange,
    pub op: Op,
    pub parameter: Parameter,
    pub promoted: bool,
    /// The bytes that the access under way has read or is writing; `None` if none is under way.
    pub under_way: Option<Vec<u8>>,
    /// The bad sector that the access met.
    pub bad: Option<Lbn>,
}

#[derive(Clone, Debug)]
pub struct Registry {
    capacity: Sectors,
    sessions: BTreeMap<SessionId, Session>,
    blocks: Vec<RegisteredBlock>,
    next: u64,
    pub most_sessions: usize,
    pub most_tasks: usize,
    /// Whether a block under way is delivered even if its range is withdrawn.
    pub lax: bool,
}

impl Registry {
    pub fn new(capacity: u64) -> Self {
        Self {
            capacity: Sectors::new(capacity),
            sessions: BTreeMap::new(),
            blocks: Vec::new(),
            next: 1,
            most_sessions: usize::MAX,
            most_tasks: usize::MAX,
            lax: false,
        }
    }

    /// Returns the number of pending blocks.
    pub fn pending(&self) -> usize {
        self.blocks.len()
    }

    /// Returns the number of open sessions.
    pub fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    pub fn is_suspended(&self, session: SessionId) -> bool {
        self.sessions[&session].suspended
    }

    pub fn blocks(&self) -> &[RegisteredBlock] {
        &self.blocks
    }

    pub fn block_mut(&mut self, at: usize) -> &mut RegisteredBlock {
        &mut self.blocks[at]
    }

    /// Returns the blocks whose access is under way.
    pub fn under_way(&self) -> Vec<usize> {
        (0..self.blocks.len()).filter(|&i| self.blocks[i].under_way.is_some()).collect()
    }

    /// Returns the blocks whose access may begin: promoted ones, or else those of sessions that are not suspended.
    pub fn ready(&self) -> Vec<usize> {
        let idle = |b: &RegisteredBlock| b.under_way.is_none();
        let any = |of: &dyn Fn(&RegisteredBlock) -> bool| -> Vec<usize> {
            (0..self.blocks.len()).filter(|&i| idle(&self.blocks[i]) && of(&self.blocks[i])).collect()
        };
        let promoted = any(&|b| b.promoted);
        if promoted.is_empty() { any(&|b| !self.sessions[&b.session].suspended) } else { promoted }
    }

    /// Returns a pending block that a write of `range` completes, if any.
    pub fn served_by_write(&self, range: LbnRange) -> Option<usize> {
        self.blocks.iter().position(|b| {
            (b.op == Op::Write || self.sessions[&b.session].by_writes)
                && b.range.start() >= range.start()
                && b.range.end() <= range.end()
        })
    }

    /// Removes a block; returns whether it was its session's last.
    pub fn take(&mut self, at: usize) -> (RegisteredBlock, bool) {
        let block = self.blocks.remove(at);
        let session = self.sessions.get_mut(&block.session).unwrap();
        session.left -= 1;
        (block, session.left == 0)
    }

    /// Clears everything; returns the blocks that were under way.
    pub fn power_cut(&mut self) -> Vec<RegisteredBlock> {
        self.sessions.clear();
        let mut blocks = std::mem::take(&mut self.blocks);
        blocks.retain(|b| b.under_way.is_some());
        blocks
    }

    fn add(
        &mut self,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
        op: Op,
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        let tasks: BTreeSet<TaskId> = self.blocks.iter().map(|b| b.task).collect();
        let owner = self.sessions.get_mut(&session).ok_or(SessionError::NoSession(session))?;
        if tasks.len() >= self.most_tasks {
            return Err(SessionError::TooManyTasks { most: self.most_tasks });
        }
        if range.is_empty() {
            return Err(SessionError::EmptyRange(range.start()));
        }
        if block.get() == 0 {
            return Err(SessionError::BlockSize(block));
        }
        if range.checked_end().is_none_or(|end| end.get() > self.capacity.get()) {
            return Err(SessionError::PastEnd { range, capacity: self.capacity });
        }
        let task = TaskId::new(self.next);
        self.next += 1;
        let mut at = range.start();
        while at < range.end() {
            let range = LbnRange::new(at, block.min(range.end().since(at)));
            let (promoted, under_way, bad) = (false, None, None);
            self.blocks.push(RegisteredBlock {
                session,
                task,
                range,
                op,
                parameter,
                promoted,
                under_way,
                bad,
            });
            owner.left += 1;
            at = range.end();
        }
        Ok(task)
    }

    fn withdraw(&mut self, of: impl Fn(&RegisteredBlock) -> bool, even_under_way: bool) -> u64 {
        let before = self.blocks.len();
        let (sessions, lax) = (&mut self.sessions, self.lax && !even_under_way);
        self.blocks.retain(|b| {
            let gone = of(b) && !(lax && b.under_way.is_some());
            if gone {
                sessions.get_mut(&b.session).unwrap().left -= 1;
            }
            !gone
        });
        (before - self.blocks.len()) as u64
    }

    fn known(&mut self, session: SessionId) -> Result<&mut Session, SessionError> {
        self.sessions.get_mut(&session).ok_or(SessionError::NoSession(session))
    }
}

impl Sessions for Registry {
    fn call(&mut self, call: SessionCall) -> Result<u64, SessionError> {
        match call {
            SessionCall::Open { .. } => {
                if self.sessions.len() >= self.most_sessions {
                    return Err(SessionError::TooManySessions { most: self.most_sessions });
                }
                let id = self.next;
                self.next += 1;
                let session = Session { suspended: false, left: 0, by_writes: true };
                self.sessions.insert(SessionId::new(id), session);
                return Ok(id);
            }
            SessionCall::SetPriority { session, .. }
            | SessionCall::ServeByWrites { session, op: Op::Write, .. } => drop(self.known(session)?),
            SessionCall::ServeByWrites { session, op: Op::Read, on } => self.known(session)?.by_writes = on,
            SessionCall::Register { session, op, range, block, parameter } => {
                return self.add(session, range, block, op, parameter).map(TaskId::get);
            }
            SessionCall::Abort { task } => {
                return match self.withdraw(|b| b.task == task, false) {
                    0 => Err(SessionError::NoTask(task)),
                    gone => Ok(gone),
                };
            }
            SessionCall::AbortRange { session, range } => {
                self.known(session)?;
                return Ok(self.withdraw(|b| b.session == session && b.range.overlaps(range), false));
            }
            SessionCall::Promote { session, range } => {
                self.known(session)?;
                let touched = |b: &&mut RegisteredBlock| b.session == session && b.range.overlaps(range);
                let promoted = self.blocks.iter_mut().filter(touched).filter(|block| !block.promoted);
                return Ok(promoted.map(|block| block.promoted = true).count() as u64);
            }
            SessionCall::Suspend { session } => self.known(session)?.suspended = true,
            SessionCall::Resume { session } => self.known(session)?.suspended = false,
            SessionCall::Close { session } => {
                self.known(session)?;
                let gone = self.withdraw(|b| b.session == session, true);
                self.sessions.remove(&session);
                return Ok(gone);
            }
        }
        Ok(0)
    }

    fn to_come(&self, session: SessionId) -> Result<u64, SessionError> {
        self.sessions.get(&session).map(|s| s.left).ok_or(SessionError::NoSession(session))
    }
}
