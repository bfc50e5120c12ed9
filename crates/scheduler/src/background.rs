//! What all sessions still want, and how it is handed to them: the wanted set over all tasks.

use crate::bounds::Bounds;
use crate::task::{Item, Task};
use crate::task_index::TaskIndex;
use model::{DriveModel, Extent, Layout, TrackRef};
use std::collections::BTreeMap;
use thiserror::Error;
use units::{Lbn, LbnRange, Sectors, SessionId, TaskId, TrackIndex};

/// A session's share of the gaps against others': 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(u8);

impl Priority {
    /// `None` outside 1 to 100.
    pub const fn new(priority: u8) -> Option<Self> {
        if priority >= 1 && priority <= 100 { Some(Self(priority)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    /// 20, FAST'04's default.
    fn default() -> Self {
        Self(20)
    }
}

/// Why a session call was refused. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SessionError {
    /// The session was closed, or never opened.
    #[error("{0} is not open; use the id that open returned")]
    NoSession(SessionId),
    /// The task has ended, was aborted, or never was.
    #[error("{0} is not active; it was delivered whole, aborted, or never registered")]
    NoTask(TaskId),
    /// A task over nothing.
    #[error("an empty range at LBN {0}; register at least one sector")]
    EmptyRange(Lbn),
    /// Blocks of no sectors, or too many for any buffer.
    #[error("a block size of {0} sectors; give 1 to {most}", most = MOST_BLOCK_SECTORS)]
    BlockSize(Sectors),
    /// A task past the end of the drive.
    #[error("LBNs {range} leave the drive; it ends at LBN {capacity}")]
    PastEnd {
        /// What was asked.
        range: LbnRange,
        /// Sectors of the drive.
        capacity: Sectors,
    },
    /// The session has as many tasks as it may.
    #[error("{most} tasks are active; wait for some to end, or register larger ranges")]
    TooManyTasks {
        /// The most there may be.
        most: usize,
    },
}

/// The most sectors in a block: 1 GiB of 512-byte sectors.
pub const MOST_BLOCK_SECTORS: u64 = 1 << 21;

/// The most tasks of all sessions together.
pub const MOST_TASKS: usize = 1 << 20;

/// A block that has come: exactly one for every wanted block that is not aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Whose.
    pub session: SessionId,
    /// Of which task.
    pub task: TaskId,
    /// The block.
    pub range: LbnRange,
    /// Whether the session has nothing left to come.
    pub last: bool,
}

/// A part of a block that the head is on its way to.
#[derive(Clone, Copy, Debug)]
struct Pick {
    task: TaskId,
    slot: u32,
    block: u64,
    /// Whether the block is complete with it.
    completes: bool,
}

#[derive(Clone, Debug)]
struct Session {
    priority: Priority,
    undelivered: u64,
}

/// All sessions and tasks.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    sessions: BTreeMap<SessionId, Session>,
    tasks: Vec<Option<Task>>,
    slots: BTreeMap<TaskId, u32>,
    free: Vec<u32>,
    /// Tasks with something to choose.
    index: TaskIndex,
    bounds: Bounds,
    next_session: u64,
    next_task: u64,
    picks: Vec<Pick>,
    most_partials: usize,
    partials: usize,
    scratch: Vec<(u32, Item)>,
}

impl Background {
    pub fn new(layout: &Layout, most_partials: usize) -> Self {
        Self {
            sessions: BTreeMap::new(),
            tasks: Vec::new(),
            slots: BTreeMap::new(),
            free: Vec::new(),
            index: TaskIndex::new(),
            bounds: Bounds::new(layout),
            next_session: 1,
            next_task: 1,
            picks: Vec::new(),
            most_partials,
            partials: 0,
            scratch: Vec::new(),
        }
    }

    pub fn open(&mut self, priority: Priority) -> SessionId {
        let id = SessionId::new(self.next_session);
        self.next_session += 1;
        self.sessions.insert(id, Session { priority, undelivered: 0 });
        id
    }

    pub fn priority(&self, session: SessionId) -> Option<Priority> {
        self.sessions.get(&session).map(|s| s.priority)
    }

    pub fn read(
        &mut self,
        layout: &Layout,
        session: SessionId,
        range: LbnRange,
        block: Sectors,
    ) -> Result<TaskId, SessionError> {
        let owner = self.sessions.get_mut(&session).ok_or(SessionError::NoSession(session))?;
        if range.is_empty() {
            return Err(SessionError::EmptyRange(range.start()));
        }
        if !(1..=MOST_BLOCK_SECTORS).contains(&block.get()) {
            return Err(SessionError::BlockSize(block));
        }
        let capacity = layout.capacity();
        if range.checked_end().is_none_or(|end| end.get() > capacity.get()) {
            return Err(SessionError::PastEnd { range, capacity });
        }
        if self.slots.len() >= MOST_TASKS {
            return Err(SessionError::TooManyTasks { most: MOST_TASKS });
        }
        let id = TaskId::new(self.next_task);
        self.next_task += 1;
        let task = Task::new(id, session, range, block);
        owner.undelivered += task.undelivered;
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
        self.index.insert(range.start().get(), range.end().get(), slot);
        self.bounds.forget_range(layout, range);
        Ok(id)
    }

    /// How many blocks the task did not get.
    pub fn abort(&mut self, task: TaskId) -> Result<u64, SessionError> {
        let slot = self.slots.remove(&task).ok_or(SessionError::NoTask(task))?;
        let Some(old) = self.tasks[slot as usize].take() else { return Err(SessionError::NoTask(task)) };
        self.index.remove(old.range().start().get(), old.range().end().get(), slot);
        self.free.push(slot);
        self.partials -= old.partials();
        if let Some(session) = self.sessions.get_mut(&old.session) {
            session.undelivered -= old.undelivered;
        }
        Ok(old.undelivered)
    }

    /// How many blocks its tasks did not get.
    pub fn close(&mut self, session: SessionId) -> Result<u64, SessionError> {
        self.sessions.remove(&session).ok_or(SessionError::NoSession(session))?;
        let of_session: Vec<TaskId> =
            self.tasks.iter().flatten().filter(|t| t.session == session).map(|t| t.id).collect();
        of_session.into_iter().try_fold(0, |sum, task| Ok(sum + self.abort(task)?))
    }

    /// Blocks that a session has still to get.
    pub fn undelivered(&self, session: SessionId) -> Option<u64> {
        self.sessions.get(&session).map(|s| s.undelivered)
    }

    /// Blocks that a task has still to get.
    pub fn task_undelivered(&self, task: TaskId) -> Option<u64> {
        let slot = *self.slots.get(&task)?;
        self.tasks.get(slot as usize)?.as_ref().map(|t| t.undelivered)
    }

    /// Whether there is nothing to choose.
    pub fn is_idle(&self) -> bool {
        self.index.is_empty()
    }

    /// No sector is wanted by more tasks than this.
    pub fn depth(&self) -> u64 {
        self.index.depth()
    }

    pub fn memory_bytes(&self) -> usize {
        self.tasks.iter().flatten().map(Task::memory_bytes).sum::<usize>()
    }

    /// Sectors that any one track of a cylinder could yield at most.
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
                    self.overlapping(extent, |task| sum += task.bound(extent));
                }
                self.bounds.set_track(track.index(), sum);
                sum
            });
            most = most.max(bound);
        }
        self.bounds.set(cylinder, most);
        most
    }

    /// Sectors that a track could yield at most, if that is known.
    #[inline]
    pub fn track_bound(&self, track: TrackIndex) -> Option<u64> {
        self.bounds.track(track)
    }

    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    pub fn bounds_mut(&mut self) -> &mut Bounds {
        &mut self.bounds
    }

    /// Wanted sectors among `count` that pass from `first` on.
    #[inline]
    pub fn score(&self, track: &TrackRef<'_>, first: u32, count: u32) -> u64 {
        let begin = self.partials < self.most_partials;
        let sectors = track.track().sectors;
        let mut sum = 0;
        for extent in track.extents() {
            in_window(extent, sectors, first, count, |from, to| {
                self.overlapping(extent, |task| sum += task.score(extent, from, to, sectors, begin));
            });
        }
        sum
    }

    /// Calls `each` with what is wanted among `count` sectors that pass from `first` on: the task's slot, the item,
    /// and its place in the order of passing.
    pub fn items(
        &self,
        track: &TrackRef<'_>,
        (first, count): (u32, u32),
        mut each: impl FnMut(u32, Item, u32),
    ) {
        let begin = self.partials < self.most_partials;
        let sectors = track.track().sectors;
        for extent in track.extents() {
            in_window(extent, sectors, first, count, |from, to| {
                self.overlapping_slots(extent, |slot, task| {
                    task.items(extent, from, to, sectors, begin, |item| {
                        let passing =
                            if item.sector >= first { item.sector } else { item.sector + sectors } - first;
                        each(slot, item, passing);
                    });
                });
            });
        }
    }

    /// Takes what is wanted among `count` sectors that pass from `first` on: the first and the end of them in the
    /// order of passing, and how many sectors are wanted.
    pub fn take(
        &mut self,
        drive: &DriveModel,
        track: TrackIndex,
        window: (u32, u32),
    ) -> Option<(u32, u32, u32)> {
        let track = drive.layout().track_ref(track);
        let mut taken = std::mem::take(&mut self.scratch);
        taken.clear();
        let (mut begin, mut end, mut useful) = (u32::MAX, 0, 0);
        self.items(&track, window, |slot, item, passing| {
            begin = begin.min(passing);
            end = end.max(passing + item.sectors);
            useful += item.sectors;
            taken.push((slot, item));
        });
        for (slot, item) in taken.drain(..) {
            let Some(task) = &mut self.tasks[slot as usize] else { continue };
            let before = task.partials();
            let completes = task.take(&item);
            self.partials = self.partials + task.partials() - before;
            self.picks.push(Pick { task: task.id, slot, block: item.block, completes });
            if task.is_exhausted() {
                self.index.remove(task.range().start().get(), task.range().end().get(), slot);
            }
        }
        self.scratch = taken;
        self.bounds.forget(track.index(), track.track().cylinder.get());
        (useful > 0).then_some((begin, end, useful))
    }

    /// A record of the session is handed to its client, or withdrawn. Whether it was the last that the session has to
    /// get.
    pub fn handed_over(&mut self, session: SessionId) -> bool {
        self.sessions.get_mut(&session).is_some_and(|s| {
            s.undelivered -= 1;
            s.undelivered == 0
        })
    }

    /// Gives out what the accesses under way have read, for the outbox. Blocks whose task has been aborted meanwhile are dropped.
    pub fn deliver(&mut self, mut each: impl FnMut(Record)) {
        let mut picks = std::mem::take(&mut self.picks);
        for pick in picks.drain(..).filter(|p| p.completes) {
            let Some(task) = self.tasks[pick.slot as usize].as_mut().filter(|t| t.id == pick.task) else {
                continue;
            };
            let range = task.block_range(pick.block);
            let session = task.session;
            task.undelivered -= 1;
            if task.undelivered == 0 {
                self.tasks[pick.slot as usize] = None;
                self.slots.remove(&pick.task);
                self.free.push(pick.slot);
            }
            each(Record { session, task: pick.task, range, last: false });
        }
        self.picks = picks;
    }

    #[inline]
    fn overlapping(&self, extent: Extent, mut each: impl FnMut(&Task)) {
        self.overlapping_slots(extent, |_, task| each(task));
    }

    #[inline]
    fn overlapping_slots(&self, extent: Extent, mut each: impl FnMut(u32, &Task)) {
        let (low, high) = (extent.lbn.get(), extent.lbn.get() + u64::from(extent.len));
        self.index.overlapping(low, high, |slot| {
            if let Some(task) = &self.tasks[slot as usize] {
                each(slot, task);
            }
        });
    }
}

/// The LBNs of an extent among `count` sectors from `first` on, which may run past the track's end to its start.
#[inline]
fn in_window(extent: Extent, sectors: u32, first: u32, count: u32, mut each: impl FnMut(Lbn, Lbn)) {
    let mut run = |from: u32, to: u32| {
        let (from, to) = (from.max(extent.sector), to.min(extent.sector + extent.len));
        if from < to {
            let lbn = |sector: u32| extent.lbn + Sectors::new(u64::from(sector - extent.sector));
            each(lbn(from), lbn(to));
        }
    };
    let end = first + count;
    run(first, end.min(sectors));
    if end > sectors {
        run(0, end - sectors);
    }
}
