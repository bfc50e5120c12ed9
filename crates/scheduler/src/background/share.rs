//! One session's part of the background: its tasks, an index of their LBNs, and bounds on their wanted sectors by track.

use super::part::Pick;
use super::walk::Walks;
use crate::bounds::{Bounds, CylinderRange};
use crate::sessions::{Parameter, Priority};
use crate::task::{ExtentWindow, Item, NewTask, Task, Took, lbns_of};
use crate::task_index::TaskIndex;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use model::{Extent, Layout};
use units::{LbnRange, Op, SessionId, TaskId};

#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub id: SessionId,
    pub priority: Priority,
    pub suspended: bool,
    /// Whether a write completes the session's reads of the same sectors; false for a scrubber.
    pub writes_serve_reads: bool,
    /// Whether a background write completes the session's pending writes of the same sectors.
    pub writes_serve_writes: bool,
    /// The number of blocks whose records the client has not received.
    pub undelivered: u64,
    /// The number of half-read blocks.
    pub partials: usize,
    tasks: Vec<Option<Task>>,
    slots: BTreeMap<TaskId, u32>,
    free: Vec<u32>,
    /// The tasks that still want blocks.
    pub index: TaskIndex,
    /// The number of tasks in the index that read, and of those that write.
    kinds: [usize; 2],
    pub bounds: Bounds,
    /// How far idle work has come over the drive, in searches for blocks of this session alone.
    pub walks: Walks,
    scratch: Vec<u64>,
}

fn kind(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
    }
}

fn lbns(range: LbnRange) -> Range<u64> {
    range.start().get()..range.end().get()
}

/// An item that was taken, and its task.
#[derive(Debug)]
pub(super) struct TakenItem {
    pub task: TaskId,
    pub op: Op,
    pub took: Took,
}

/// A task's block, as its record shows it.
#[derive(Debug)]
pub(super) struct Block {
    pub range: LbnRange,
    pub op: Op,
    pub parameter: Parameter,
}

impl Share {
    pub fn new(layout: &Layout, id: SessionId, priority: Priority, by_writes: [bool; 2]) -> Self {
        let [writes_serve_reads, writes_serve_writes] = by_writes;
        Self {
            id,
            priority,
            suspended: false,
            writes_serve_reads,
            writes_serve_writes,
            undelivered: 0,
            partials: 0,
            tasks: Vec::new(),
            slots: BTreeMap::new(),
            free: Vec::new(),
            index: TaskIndex::new(),
            kinds: [0; 2],
            bounds: Bounds::new(layout),
            walks: Walks::new(layout.cylinders()),
            scratch: Vec::new(),
        }
    }

    /// Adapts to another model of the same drive.
    pub fn lay_out(&mut self, layout: &Layout) {
        self.bounds = Bounds::new(layout);
        self.walks = Walks::new(layout.cylinders());
    }

    /// Returns whether the session is not suspended and wants blocks.
    pub fn is_active(&self) -> bool {
        !self.suspended && !self.index.is_empty()
    }

    #[inline]
    pub fn has(&self, op: Op) -> bool {
        self.kinds[kind(op)] > 0
    }

    /// Adds a task. Returns the cylinders of its range; `None` if the range spans many tracks.
    pub fn add(&mut self, layout: &Layout, id: TaskId, new: NewTask) -> Option<CylinderRange> {
        let task = Task::new(id, new);
        self.undelivered += task.undelivered;
        let slot = match self.free.pop() {
            Some(slot) => {
                self.tasks[slot as usize] = Some(task);
                slot
            }
            None => {
                self.tasks.push(Some(task));
                (self.tasks.len() - 1) as u32
            }
        };
        self.slots.insert(id, slot);
        self.enter(slot);
        self.want(layout, new.range)
    }

    /// Records new wanted blocks in `range`. Returns the cylinders of the range; `None` if it spans many tracks.
    fn want(&mut self, layout: &Layout, range: LbnRange) -> Option<CylinderRange> {
        let cylinders = self.bounds.forget_range(layout, range);
        self.walks.wanted_anew(cylinders);
        cylinders
    }

    /// Puts a task into the index.
    fn enter(&mut self, slot: u32) {
        let Some(task) = &self.tasks[slot as usize] else { return };
        let Range { start, end } = lbns(task.range());
        self.kinds[kind(task.op)] += 1;
        self.index.insert(start, end, slot);
    }

    /// Removes a task from the index, if it is there.
    fn leave(&mut self, slot: u32) {
        let Some(task) = &self.tasks[slot as usize] else { return };
        let Range { start, end } = lbns(task.range());
        if self.index.remove(start, end, slot) {
            self.kinds[kind(task.op)] -= 1;
        }
    }

    /// Removes a task and returns the number of its undelivered blocks.
    pub fn abort(&mut self, id: TaskId) -> Option<u64> {
        let slot = *self.slots.get(&id)?;
        self.leave(slot);
        self.slots.remove(&id);
        let task = self.tasks[slot as usize].take()?;
        self.free.push(slot);
        self.partials -= task.partials();
        self.undelivered -= task.undelivered;
        Some(task.undelivered)
    }

    pub fn tasks(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().flatten()
    }

    pub fn task(&self, id: TaskId) -> Option<&Task> {
        self.slot(*self.slots.get(&id)?)
    }

    pub fn slot(&self, slot: u32) -> Option<&Task> {
        self.tasks.get(slot as usize)?.as_ref()
    }

    /// Returns an upper bound on the wanted sectors of each track of a cylinder.
    #[inline]
    pub fn cylinder_bound(&mut self, layout: &Layout, cylinder: u32) -> u64 {
        if let Some(bound) = self.bounds.get(cylinder) {
            return bound;
        }
        let mut most = 0;
        for track in layout.tracks_on(units::Cylinder::new(cylinder)) {
            let bound = self.bounds.track(track.index()).unwrap_or_else(|| {
                let mut sum = 0;
                for extent in track.extents() {
                    self.overlapping(extent, |_, task| sum += task.bound(extent));
                }
                self.bounds.set_track(track.index(), sum);
                sum
            });
            most = most.max(bound);
        }
        self.bounds.set(cylinder, most);
        most
    }

    /// Returns the number of sectors in a window that are wanted for `op`; `begin` tells whether a block may become half read.
    #[inline]
    pub fn score(&self, op: Op, window: ExtentWindow, begin: bool) -> u64 {
        let mut sum = 0;
        self.overlapping(window.extent, |_, task| {
            if task.op == op {
                sum += task.score(window, begin);
            }
        });
        sum
    }

    /// Calls `each` with the items of [`score`](Self::score), and the slot of each item's task.
    #[inline]
    pub fn items(&self, op: Op, window: ExtentWindow, begin: bool, mut each: impl FnMut(u32, Item)) {
        self.overlapping(window.extent, |slot, task| {
            if task.op == op {
                task.items(window, begin, |item| each(slot, item));
            }
        });
    }

    /// Takes an item of a task.
    pub fn take(&mut self, slot: u32, item: &Item) -> Option<TakenItem> {
        let task = self.tasks.get_mut(slot as usize)?.as_mut()?;
        let before = task.partials();
        let took = task.take(item);
        self.partials = self.partials + task.partials() - before;
        let taken = TakenItem { task: task.id, op: task.op, took };
        if task.is_exhausted() {
            self.leave(slot);
        }
        Some(taken)
    }

    /// Takes the item of a returned pick again.
    pub fn take_again(&mut self, pick: &Pick) -> Option<Took> {
        let slot = *self.slots.get(&pick.task)?;
        self.take(slot, &pick.item).map(|taken| taken.took)
    }

    /// Puts a pick's item back into the wanted set, because it was not transferred, and returns the cylinders of its block.
    pub fn untake(&mut self, layout: &Layout, pick: &Pick) -> Option<CylinderRange> {
        let slot = *self.slots.get(&pick.task)?;
        let task = self.tasks[slot as usize].as_mut()?;
        let before = task.partials();
        let was_exhausted = task.is_exhausted();
        task.untake(&pick.item, &pick.had);
        let range = task.block_range(pick.item.block);
        self.partials = self.partials + task.partials() - before;
        if was_exhausted {
            self.enter(slot);
        }
        self.want(layout, range)
    }

    /// Records that the block of a pick has failed and is not retried.
    pub fn give_up(&mut self, pick: &Pick) {
        let Some(&slot) = self.slots.get(&pick.task) else { return };
        let Some(task) = &mut self.tasks[slot as usize] else { return };
        let before = task.partials();
        task.give_up(pick.item.block);
        self.partials = self.partials + task.partials() - before;
        if task.is_exhausted() {
            self.leave(slot);
        }
    }

    /// Records that a block of a task is finished. Returns whether it was the task's last one, with which the task ends.
    pub fn finished(&mut self, id: TaskId) -> bool {
        let Some(&slot) = self.slots.get(&id) else { return false };
        let Some(task) = &mut self.tasks[slot as usize] else { return false };
        task.undelivered -= 1;
        let ended = task.undelivered == 0;
        if ended {
            self.end(slot);
        }
        ended
    }

    fn end(&mut self, slot: u32) {
        self.leave(slot);
        if let Some(task) = self.tasks[slot as usize].take() {
            self.slots.remove(&task.id);
            self.free.push(slot);
        }
    }

    /// Withdraws the wanted blocks that touch `range` and returns their number. Calls `each` with each task that ends by this.
    pub fn withdraw(&mut self, range: LbnRange, mut each: impl FnMut(TaskId)) -> u64 {
        let mut withdrawn = 0;
        for slot in self.over(range) {
            let Some(task) = &mut self.tasks[slot as usize] else { continue };
            let before = task.partials();
            let gone = task.give_up_all(range);
            self.partials = self.partials + task.partials() - before;
            task.undelivered -= gone;
            withdrawn += gone;
            if task.undelivered == 0 {
                each(task.id);
                self.end(slot);
            } else if task.is_exhausted() {
                self.leave(slot);
            }
        }
        withdrawn
    }

    /// Returns whether a block that touches `range` is wanted for `op`.
    pub fn wants(&self, op: Op, range: LbnRange) -> bool {
        let wants = |slot: &u32| self.slot(*slot).is_some_and(|t| t.op == op && t.run(0, range).is_some());
        self.over(range).iter().any(wants)
    }

    /// Calls `each` with the wanted blocks to be written that lie in `range`: the task's slot, the block's number and its
    /// LBNs.
    pub fn writes_in(&self, range: LbnRange, mut each: impl FnMut(u32, u64, LbnRange)) {
        for slot in self.over(range) {
            let Some(task) = self.slot(slot).filter(|t| t.op == Op::Write) else { continue };
            task.touching(range, |block| {
                let whole = task.block_range(block);
                if range.covers(whole) {
                    each(slot, block, whole);
                }
            });
        }
    }

    /// Returns the slots of tasks over `range`, in an arbitrary but reproducible order.
    pub fn over(&self, range: LbnRange) -> Vec<u32> {
        let Range { start: low, end: high } = lbns(range);
        let mut slots = Vec::new();
        self.index.overlapping(low, high, |slot| slots.push(slot));
        slots
    }

    /// Completes pending writes in `range`, which is about to be written. `sector` is the range's first sector on the track, for
    /// background work that may be cut. Calls `each` with the completed writes.
    pub fn overwritten(&mut self, range: LbnRange, sector: Option<u32>, mut each: impl FnMut(Pick)) {
        if !self.has(Op::Write) {
            return;
        }
        let session = self.id;
        for slot in self.over(range) {
            let Some(task) = self.tasks[slot as usize].as_mut().filter(|t| t.op == Op::Write) else {
                continue;
            };
            let mut blocks = core::mem::take(&mut self.scratch);
            task.touching(range, |block| blocks.push(block));
            for block in blocks.drain(..) {
                let Some((mut item, Took { completes, had })) = task.supersede(block, range) else {
                    continue;
                };
                if let Some(sector) = sector {
                    let from = task.block_range(block).start().get() + u64::from(item.offset);
                    item.sector = sector + (from - range.start().get()) as u32;
                }
                let (sure, task, command) = (sector.is_none(), task.id, 0);
                let by = Op::Write;
                let (op, promoted) = (Op::Write, false);
                each(Pick { session, task, op, by, item, completes, sure, had, promoted, command });
            }
            self.scratch = blocks;
            if task.is_exhausted() {
                self.leave(slot);
            }
        }
    }

    /// Completes one block of a task, if it is wanted and `range` covers a part of it.
    pub fn overtaken(&mut self, task: TaskId, block: u64, range: LbnRange) -> Option<Pick> {
        let slot = *self.slots.get(&task)?;
        let session = self.id;
        let it = self.tasks[slot as usize].as_mut().filter(|it| it.op == Op::Write && it.is_wanted(block))?;
        if !it.block_range(block).overlaps(range) {
            return None;
        }
        let (item, Took { completes, had }) = it.supersede(block, range)?;
        if it.is_exhausted() {
            self.leave(slot);
        }
        Some(Pick {
            session,
            task,
            op: Op::Write,
            by: Op::Write,
            item,
            completes,
            sure: true,
            had,
            promoted: false,
            command: 0,
        })
    }

    /// Returns the LBNs of a pick's block.
    pub fn block_range(&self, pick: &Pick) -> Option<LbnRange> {
        Some(self.task(pick.task)?.block_range(pick.item.block))
    }

    /// Returns the LBNs of a pick's item.
    pub fn item_range(&self, pick: &Pick) -> Option<LbnRange> {
        Some(self.task(pick.task)?.item_range(&pick.item))
    }

    /// Returns the block of a pick.
    pub fn describe(&self, pick: &Pick) -> Option<Block> {
        let task = self.task(pick.task)?;
        Some(Block { range: task.block_range(pick.item.block), op: task.op, parameter: task.parameter })
    }

    #[inline]
    fn overlapping(&self, extent: Extent, mut each: impl FnMut(u32, &Task)) {
        let Range { start: low, end: high } = lbns(lbns_of(extent));
        self.index.overlapping(low, high, |slot| {
            if let Some(task) = &self.tasks[slot as usize] {
                each(slot, task);
            }
        });
    }
}
