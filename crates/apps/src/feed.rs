//! The blocks still to be registered, and the tasks that have not ended, of an application that reads many blocks.

use crate::sessions::{Parameter, Record, Sessions};
use crate::set::run;
use scheduler::{BlockSet, SessionError};
use std::collections::BTreeMap;
use units::{Lbn, LbnRange, Sectors, SessionId, TaskId};

/// The most tasks of a feed at a time. A fragmented remainder of a 20 TB drive has millions of runs; the planner needs
/// a few hundred of them to choose from.
const TASKS_MAX: usize = 1024;

#[derive(Clone, Debug)]
struct Run {
    first: u64,
    range: LbnRange,
    left: u64,
    mark: u64,
}

/// Registers runs of consecutive blocks, a bounded number of tasks at a time, and finds the block of a record.
#[derive(Clone, Debug)]
pub(crate) struct Feed {
    session: SessionId,
    block: Sectors,
    todo: BlockSet,
    tasks: BTreeMap<TaskId, Run>,
}

impl Feed {
    pub fn new(session: SessionId, block: Sectors, todo: BlockSet) -> Self {
        Self { session, block, todo, tasks: BTreeMap::new() }
    }

    /// Puts a block back among those to be registered.
    pub fn again(&mut self, block: u64) {
        self.todo.insert(block);
    }

    /// Registers runs up to the limit of tasks. `place` returns a block's address and the number of blocks that
    /// follow on from it contiguously; a block for which it returns `None` is dropped. [`arrived`](Self::arrived)
    /// returns `mark` with each block registered by this call.
    pub fn fill(
        &mut self,
        sessions: &mut dyn Sessions,
        mark: u64,
        mut place: impl FnMut(u64) -> Option<(LbnRange, u64)>,
    ) -> Result<(), SessionError> {
        while self.tasks.len() < TASKS_MAX {
            let Some(first) = self.todo.next(0) else { return Ok(()) };
            let Some((range, blocks)) = place(first) else {
                self.todo.remove(first);
                continue;
            };
            let blocks = run(&self.todo, first, first.saturating_add(blocks).min(self.todo.blocks())).max(1);
            let len = range.len().get().min(blocks.saturating_mul(self.block.get()));
            let range = LbnRange::new(range.start(), Sectors::new(len));
            let task = sessions.read(self.session, range, self.block, Parameter(first))?;
            self.todo.remove_range(first, first + blocks);
            self.tasks.insert(task, Run { first, range, left: blocks, mark });
        }
        Ok(())
    }

    /// Returns the number of tasks that have not ended.
    pub fn out(&self) -> usize {
        self.tasks.len()
    }

    /// Returns the block of a completion record and the `mark` of its registration; `None` if no run of this feed has
    /// it.
    pub fn arrived(&mut self, done: &Record) -> Option<(u64, u64)> {
        let run = self.tasks.get_mut(&done.task)?;
        if !run.range.contains(done.range.start()) {
            return None;
        }
        let block = run.first + done.range.start().since(run.range.start()).get() / self.block.get();
        let mark = run.mark;
        run.left = run.left.saturating_sub(1);
        if run.left == 0 {
            self.tasks.remove(&done.task);
        }
        Some((block, mark))
    }
}

/// A block that could not be read whole, and is read sector by sector.
#[derive(Clone, Debug)]
pub(crate) struct Sifted {
    pub block: u64,
    pub range: LbnRange,
    /// The bytes of the whole block, with zeros for bad sectors.
    pub bytes: Vec<u8>,
    /// The bad sectors; ascending once the records of all sectors have come.
    pub bad: Vec<Lbn>,
    left: u64,
}

/// Blocks that are read again one sector at a time, a bounded number of them at a time.
#[derive(Clone, Debug)]
pub(crate) struct Sieve {
    waiting: BlockSet,
    tasks: BTreeMap<TaskId, Sifted>,
}

impl Sieve {
    /// The most blocks read by sectors at a time: their bytes are in memory, which a failing drive must not fill.
    const SIFTED_BLOCKS_MAX: usize = 16;

    /// Creates an empty sieve for blocks below `blocks`.
    pub fn new(blocks: u64) -> Self {
        Self { waiting: BlockSet::empty(blocks), tasks: BTreeMap::new() }
    }

    pub fn add(&mut self, block: u64) {
        self.waiting.insert(block);
    }

    /// Returns the number of tasks that have not ended.
    pub fn out(&self) -> usize {
        self.tasks.len()
    }

    /// Registers the sectors of blocks, up to the limit of blocks at a time. `place` returns a block's address; a
    /// block without one is dropped.
    pub fn fill(
        &mut self,
        sessions: &mut dyn Sessions,
        session: SessionId,
        sector_bytes: usize,
        mut place: impl FnMut(u64) -> Option<LbnRange>,
    ) -> Result<(), SessionError> {
        while self.tasks.len() < Self::SIFTED_BLOCKS_MAX {
            let Some(block) = self.waiting.next(0) else { return Ok(()) };
            if let Some(range) = place(block) {
                let task = sessions.read(session, range, Sectors::new(1), Parameter(block))?;
                let left = range.len().get();
                let bytes = vec![0; (left as usize).saturating_mul(sector_bytes)];
                self.tasks.insert(task, Sifted { block, range, bytes, bad: Vec::new(), left });
            }
            self.waiting.remove(block);
        }
        Ok(())
    }

    /// Takes the completion record of a sector. Returns the block if this was its last sector; `Err(())` if no block
    /// of this sieve is waiting for it.
    pub fn arrived(&mut self, done: &Record, bytes: &[u8]) -> Result<Option<Sifted>, ()> {
        let sifted = self.tasks.get_mut(&done.task).ok_or(())?;
        let sector = sifted.bytes.len() / (sifted.range.len().get().max(1) as usize);
        let at = done.range.start().since(sifted.range.start()).get() as usize * sector;
        match (done.bad, sifted.bytes.get_mut(at..at + sector)) {
            (None, Some(into)) if bytes.len() == sector => into.copy_from_slice(bytes),
            _ => sifted.bad.push(done.range.start()),
        }
        sifted.left = sifted.left.saturating_sub(1);
        if sifted.left > 0 {
            return Ok(None);
        }
        let mut sifted = self.tasks.remove(&done.task).ok_or(())?;
        sifted.bad.sort_unstable();
        Ok(Some(sifted))
    }
}
