//! The clients' view of their sessions and tasks. This naive model checks every record and every count of the core.

use crate::failure::{Broken, Check, hold};
use scheduler::{AnyCore, Core, Parameter, Priority, Record, SessionCall};
use std::collections::BTreeMap;
use units::{Instant, Lbn, LbnRange, Op, Sectors, SessionId, TaskId};

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Wanted,
    Delivered,
    Withdrawn,
}

/// A task from its client's view.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    /// The number by which steps name the task.
    pub number: u32,
    pub session: SessionId,
    pub op: Op,
    pub range: LbnRange,
    pub block: u64,
    pub parameter: Parameter,
    /// The time of registration.
    pub since: Instant,
    /// The number of the event at which the task was registered.
    pub registered: u64,
    /// Whether the session let writes complete its reads at any time since the registration.
    pub served: bool,
    blocks: Vec<Block>,
    /// The number of wanted blocks.
    pub wanted: u64,
    /// The origin of this task's first block: the ledger index of the task that a step registered, and the index of the
    /// block in that task. A restart registers the rest of a task as new tasks.
    origin: (usize, u64),
}

/// A session from its client's view.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    /// The number by which steps name the session.
    pub number: u32,
    pub priority: Priority,
    /// Whether writes complete the session's reads.
    pub serve: bool,
    /// The number of the event at which the session was suspended, if it is suspended.
    pub suspended: Option<u64>,
    pub wanted: u64,
}

/// The sessions and tasks of all clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    pub sessions: BTreeMap<SessionId, Session>,
    pub tasks: BTreeMap<TaskId, Task>,
    /// The tasks that have ended.
    pub ended: Vec<TaskId>,
    /// The sessions that have ended.
    pub closed: Vec<SessionId>,
    numbers: BTreeMap<u32, SessionId>,
    /// For each task that a step registered, the number of times that each block was delivered or withdrawn.
    ledger: Vec<Vec<u8>>,
}

impl Task {
    pub fn block_range(&self, block: u64) -> LbnRange {
        let offset = block * self.block;
        let len = self.block.min(self.range.len().get() - offset);
        LbnRange::new(self.range.start() + Sectors::new(offset), Sectors::new(len))
    }

    /// Returns the number of the block with exactly this range.
    fn block_at(&self, range: LbnRange) -> Option<u64> {
        let offset = range.start().get().checked_sub(self.range.start().get())?;
        let block = offset / self.block;
        (block < self.blocks.len() as u64 && self.block_range(block) == range).then_some(block)
    }

    /// Returns whether `range` lies within one wanted block.
    pub fn wants(&self, range: LbnRange) -> bool {
        let Some(offset) = range.start().get().checked_sub(self.range.start().get()) else { return false };
        let block = offset / self.block;
        self.blocks.get(block as usize) == Some(&Block::Wanted)
            && range.end() <= self.block_range(block).end()
    }

    fn is_wanted(&self, block: u64) -> bool {
        self.blocks[block as usize] == Block::Wanted
    }
}

impl Clients {
    pub fn session(&self, number: u32) -> Option<SessionId> {
        self.numbers.get(&number).copied()
    }

    /// Returns the tasks with a number. After a restart there may be several.
    pub fn tasks_of(&self, number: u32) -> Vec<TaskId> {
        self.tasks.iter().filter(|(_, t)| t.number == number).map(|(id, _)| *id).collect()
    }

    pub fn opened(&mut self, id: SessionId, session: Session) -> Result<(), Broken> {
        let known = self.sessions.contains_key(&id) || self.closed.contains(&id);
        hold(!known, Check::Once, || format!("{id} was used before"))?;
        self.numbers.insert(session.number, id);
        self.sessions.insert(id, session);
        Ok(())
    }

    /// Records a task that a step has registered.
    pub fn registered(
        &mut self,
        id: TaskId,
        task: NewTask,
        since: Instant,
        registered: u64,
    ) -> Result<(), Broken> {
        let blocks = task.range.len().get().div_ceil(task.block);
        self.ledger.push(vec![0; blocks as usize]);
        let origin = (self.ledger.len() - 1, 0);
        self.add(id, task, (since, registered), origin)
    }

    fn add(
        &mut self,
        id: TaskId,
        task: NewTask,
        (since, registered): (Instant, u64),
        origin: (usize, u64),
    ) -> Result<(), Broken> {
        let known = self.tasks.contains_key(&id) || self.ended.contains(&id);
        hold(!known, Check::Once, || format!("{id} was used before"))?;
        let NewTask { number, session, op, range, block, parameter } = task;
        let wanted = range.len().get().div_ceil(block);
        let blocks = vec![Block::Wanted; wanted as usize];
        let owner = self.sessions.get_mut(&session);
        let served = owner.as_ref().is_some_and(|s| s.serve);
        if let Some(owner) = owner {
            owner.wanted += wanted;
        }
        let task = Task {
            number,
            session,
            op,
            range,
            block,
            parameter,
            since,
            registered,
            served,
            blocks,
            wanted,
            origin,
        };
        self.tasks.insert(id, task);
        Ok(())
    }

    /// Checks the core's record of a block, and marks this block as delivered.
    pub fn delivered(&mut self, record: &Record) -> Result<(), Broken> {
        let once = |what: &str| (Check::Once, format!("{what}: {record:?}"));
        let Some(task) = self.tasks.get_mut(&record.task) else {
            return Err(once("a record of a task that has ended or never was"));
        };
        if task.session != record.session || task.op != record.op || task.parameter != record.parameter {
            return Err(once("a record differs from its task in session, operation or parameter"));
        }
        let block =
            task.block_at(record.range).ok_or_else(|| once("a record of a range that is no block"))?;
        match task.blocks[block as usize] {
            Block::Wanted => task.blocks[block as usize] = Block::Delivered,
            Block::Delivered => return Err(once("a block comes twice")),
            Block::Withdrawn => return Err(once("a block comes that was withdrawn")),
        }
        task.wanted -= 1;
        let place = &mut self.ledger[task.origin.0][(task.origin.1 + block) as usize];
        *place += 1;
        hold(*place == 1, Check::Once, || {
            format!("a block is delivered twice, once before a restart: {record:?}")
        })?;
        let over = task.wanted == 0;
        let Some(session) = self.sessions.get_mut(&record.session) else {
            return Err(once("a record of a session that was closed"));
        };
        session.wanted -= 1;
        let left = session.wanted;
        if over {
            self.tasks.remove(&record.task);
            self.ended.push(record.task);
        }
        hold(record.last == (left == 0), Check::Last, || {
            format!("{left} blocks of the session are to come after {record:?}")
        })
    }

    /// Records the abort of a task. Returns the number of its blocks that were still wanted.
    pub fn aborted(&mut self, id: TaskId) -> Option<u64> {
        let task = self.tasks.remove(&id)?;
        self.ended.push(id);
        for block in (0..task.blocks.len() as u64).filter(|b| task.is_wanted(*b)) {
            self.ledger[task.origin.0][(task.origin.1 + block) as usize] += 1;
        }
        if let Some(session) = self.sessions.get_mut(&task.session) {
            session.wanted -= task.wanted;
        }
        Some(task.wanted)
    }

    /// Records the withdrawal of a session's wanted blocks that overlap a range. Returns their number.
    pub fn withdrawn(&mut self, session: SessionId, range: LbnRange) -> u64 {
        let mut all = 0;
        let Self { tasks, ledger, ended, .. } = self;
        tasks.retain(|id, task| {
            if task.session != session {
                return true;
            }
            for block in touching(task, range) {
                task.blocks[block as usize] = Block::Withdrawn;
                task.wanted -= 1;
                all += 1;
                ledger[task.origin.0][(task.origin.1 + block) as usize] += 1;
            }
            if task.wanted == 0 {
                ended.push(*id);
            }
            task.wanted > 0
        });
        if let Some(session) = self.sessions.get_mut(&session) {
            session.wanted -= all;
        }
        all
    }

    /// Returns the number of wanted blocks of a session that overlap a range.
    pub fn touching(&self, session: SessionId, range: LbnRange) -> u64 {
        let of = self.tasks.values().filter(|t| t.session == session);
        of.map(|t| touching(t, range).len() as u64).sum()
    }

    /// Returns whether any task with this operation wants a block that contains the sector.
    pub fn wants(&self, op: Op, lbn: Lbn) -> bool {
        let sector = LbnRange::new(lbn, Sectors::new(1));
        self.tasks.values().any(|t| t.op == op && t.wants(sector))
    }

    /// Records the end of a session. Returns the number of its blocks that were still wanted.
    pub fn closed(&mut self, id: SessionId) -> u64 {
        let tasks: Vec<_> = self.tasks.iter().filter(|(_, t)| t.session == id).map(|(id, _)| *id).collect();
        let left = tasks.into_iter().filter_map(|task| self.aborted(task)).sum();
        self.sessions.remove(&id);
        self.numbers.retain(|_, known| *known != id);
        self.closed.push(id);
        left
    }

    /// Sets whether writes complete a session's reads from now on.
    pub fn serve(&mut self, id: SessionId, on: bool) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.serve = on;
        }
        for task in self.tasks.values_mut().filter(|t| t.session == id) {
            task.served |= on;
        }
    }

    /// Records that an event suspends a session, unless the session is suspended already. `None` resumes the session.
    pub fn suspended(&mut self, id: SessionId, by: Option<u64>) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.suspended = by.map(|event| session.suspended.unwrap_or(event));
        }
    }

    /// Returns the number of wanted blocks of all sessions that are not suspended.
    pub fn active_wanted(&self) -> u64 {
        self.sessions.values().filter(|s| s.suspended.is_none()).map(|s| s.wanted).sum()
    }

    /// Returns the number of sectors in the longest wanted block.
    pub fn longest_wanted(&self) -> u64 {
        let wanted = |task: &'_ Task| {
            let blocks = (0..task.blocks.len() as u64).filter(|block| task.is_wanted(*block));
            blocks.map(|block| task.block_range(block).len().get()).max()
        };
        self.tasks.values().filter_map(wanted).max().unwrap_or(0)
    }

    /// Compares the core's counts with those of this model. The counts by task are compared only if `drained`: no record waits
    /// to be polled.
    pub fn check_counts(&self, core: &Core, drained: bool) -> Result<(), Broken> {
        for (&id, session) in &self.sessions {
            let reported = core.undelivered(id);
            hold(reported == Some(session.wanted), Check::Count, || {
                format!("{id} has {} blocks to get, and the core says {reported:?}", session.wanted)
            })?;
            hold(core.priority(id) == Some(session.priority), Check::Count, || {
                format!("the priority of {id} has changed")
            })?;
        }
        if drained {
            for (&id, task) in &self.tasks {
                let reported = core.task_undelivered(id);
                hold(reported == task.wanted, Check::Count, || {
                    format!("{id} has {} blocks to get, and the core says {reported}", task.wanted)
                })?;
            }
        }
        Ok(())
    }

    /// Checks that every registered block was delivered once or withdrawn once.
    pub fn check_ledger(&self) -> Result<(), Broken> {
        for (task, blocks) in self.ledger.iter().enumerate() {
            if let Some(block) = blocks.iter().position(|times| *times != 1) {
                let times = blocks[block];
                return Err((
                    Check::Once,
                    format!("block {block} of the history's task {} came {times} times", task + 1),
                ));
            }
        }
        Ok(())
    }

    /// Opens the sessions again after a restart, and registers the blocks that are still wanted.
    pub fn restart(&mut self, core: &mut dyn AnyCore, now: Instant, sequence: u64) -> Result<(), Broken> {
        let old_sessions = std::mem::take(&mut self.sessions);
        let old_tasks = std::mem::take(&mut self.tasks);
        (self.ended, self.closed, self.numbers) = Default::default();
        let refused = |e| (Check::Refusal, format!("a restarted client was refused: {e}"));
        let mut now_called = BTreeMap::new();
        for (old, session) in old_sessions {
            let id = core.open(session.priority).map_err(refused)?;
            core.serve_reads_by_writes(id, session.serve).map_err(refused)?;
            if session.suspended.is_some() {
                core.suspend(id).map_err(refused)?;
            }
            self.opened(id, Session { wanted: 0, ..session })?;
            now_called.insert(old, id);
        }
        for old in old_tasks.into_values() {
            let Some(&session) = now_called.get(&old.session) else { continue };
            let all = old.blocks.len() as u64;
            let mut block = 0;
            while block < all {
                let begin = block;
                while block < all && old.is_wanted(block) {
                    block += 1;
                }
                if block > begin {
                    let (first, last) = (old.block_range(begin), old.block_range(block - 1));
                    let range = LbnRange::new(first.start(), last.end().since(first.start()));
                    let Task { number, op, parameter, .. } = old;
                    let block = Sectors::new(old.block);
                    let call = SessionCall::Register { session, op, range, block, parameter };
                    let id = core.call(call).map(TaskId::new).map_err(refused)?;
                    let task = NewTask { number, session, op, range, block: old.block, parameter };
                    self.add(id, task, (now, sequence), (old.origin.0, old.origin.1 + begin))?;
                }
                block += 1;
            }
        }
        Ok(())
    }
}

/// The parameters of a task that was registered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewTask {
    pub number: u32,
    pub session: SessionId,
    pub op: Op,
    pub range: LbnRange,
    pub block: u64,
    pub parameter: Parameter,
}

fn touching(task: &Task, range: LbnRange) -> Vec<u64> {
    let overlap = |a: LbnRange| a.overlaps(range);
    let first = range.start().max(task.range.start()).get() - task.range.start().get();
    (first / task.block..task.blocks.len() as u64)
        .take_while(|b| task.block_range(*b).start() < range.end())
        .filter(|&b| task.is_wanted(b) && overlap(task.block_range(b)))
        .collect()
}

/// Returns the range of `len` sectors from `start` on.
pub(crate) fn range(start: u64, len: u64) -> LbnRange {
    LbnRange::new(Lbn::new(start), Sectors::new(len))
}
