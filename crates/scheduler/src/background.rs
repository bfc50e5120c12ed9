//! What all sessions still want, and how it is handed to them.
//!
//! A [`Share`] is one session's part of it. A search looks at one share, the lottery's winner, or at all that are not
//! suspended: the [`Focus`].

mod share;

pub(crate) use share::Share;

use crate::bounds::{GROUP, barren};
use crate::lottery::Lottery;
use crate::sessions::{
    MOST_BLOCK_SECTORS, MOST_SESSIONS, MOST_TASKS, Parameter, Priority, Record, SessionError, Wanted,
};
use crate::task::{Item, Took, overlap};
use model::{DriveModel, Extent, Layout, TrackRef};
use std::collections::BTreeMap;
use units::{Lbn, LbnRange, Op, Sectors, SessionId, TaskId, TrackIndex};

/// Asked before a block is written: its client may say "not now".
pub trait Buffers {
    /// Whether the block's bytes can be had; whoever says yes holds them until the write is done.
    fn ready(&mut self, wanted: &Wanted) -> bool;
}

/// Every buffer is at hand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ready;

impl Buffers for Ready {
    fn ready(&mut self, _: &Wanted) -> bool {
        true
    }
}

/// A part of a block that the head is on its way to.
#[derive(Clone, Debug)]
pub(crate) struct Pick {
    session: SessionId,
    task: TaskId,
    item: Item,
    /// Whether the block is complete with it.
    completes: bool,
    /// Whether it is done when the head's detours are cut short: what the foreground does is always done.
    sure: bool,
    /// What had been there of the block.
    had: Vec<(u32, u32)>,
}

/// Which sessions a search looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Focus {
    /// All that are not suspended.
    All,
    /// One, by its place.
    One(usize),
}

/// What was taken of a window: where it begins and ends in the order of passing, and the sectors that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub begin: u32,
    pub end: u32,
    pub useful: u32,
}

/// All sessions and tasks.
#[derive(Clone, Debug)]
pub(crate) struct Background {
    /// By session id.
    shares: Vec<Share>,
    /// The places of the shares in focus.
    focus: Vec<usize>,
    owners: BTreeMap<TaskId, SessionId>,
    next_session: u64,
    next_task: u64,
    picks: Vec<Pick>,
    /// [`Share::passed_over`], where several are looked at together.
    passed_over: u32,
    most_partials: usize,
    /// Blocks that each session may have half read: a part of the room for all, so that none waits for what others,
    /// who may be suspended, keep there.
    most_partials_each: usize,
    scratch: Vec<(usize, u32, Item, u32)>,
}

impl Background {
    pub fn new(most_partials: usize) -> Self {
        Self {
            shares: Vec::new(),
            focus: Vec::new(),
            owners: BTreeMap::new(),
            next_session: 1,
            next_task: 1,
            picks: Vec::new(),
            passed_over: 0,
            most_partials,
            most_partials_each: most_partials.max(1),
            scratch: Vec::new(),
        }
    }

    pub fn open(
        &mut self,
        layout: &Layout,
        priority: Priority,
        writes_serve_reads: bool,
    ) -> Result<SessionId, SessionError> {
        if self.shares.len() >= MOST_SESSIONS {
            return Err(SessionError::TooManySessions { most: MOST_SESSIONS });
        }
        let id = SessionId::new(self.next_session);
        self.next_session += 1;
        self.shares.push(Share::new(layout, id, priority, writes_serve_reads));
        self.share_room();
        self.look(Focus::All);
        Ok(id)
    }

    fn share_room(&mut self) {
        self.most_partials_each = (self.most_partials / self.shares.len().max(1)).max(1);
    }

    /// Places ascend with ids: sessions are only ever added at the end.
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

    pub fn register(
        &mut self,
        layout: &Layout,
        session: SessionId,
        op: Op,
        (range, block): (LbnRange, Sectors),
        parameter: Parameter,
    ) -> Result<TaskId, SessionError> {
        let at = self.place(session)?;
        check_range(layout, range)?;
        if !(1..=MOST_BLOCK_SECTORS).contains(&block.get()) {
            return Err(SessionError::BlockSize(block));
        }
        if self.owners.len() >= MOST_TASKS {
            return Err(SessionError::TooManyTasks { most: MOST_TASKS });
        }
        let id = TaskId::new(self.next_task);
        self.next_task += 1;
        self.owners.insert(id, session);
        self.shares[at].add(layout, id, op, (range, block), parameter);
        self.look(Focus::All);
        Ok(id)
    }

    /// How many blocks the task did not get.
    pub fn abort(&mut self, task: TaskId) -> Result<u64, SessionError> {
        let session = *self.owners.get(&task).ok_or(SessionError::NoTask(task))?;
        self.picks.retain(|p| p.task != task);
        let share = self.share(session)?;
        let left = share.abort(task).ok_or(SessionError::NoTask(task))?;
        self.owners.remove(&task);
        self.look(Focus::All);
        Ok(left)
    }

    /// How many blocks of the session were withdrawn, those under way included.
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
            let gone = block.is_some_and(|block| overlap(block, range));
            if gone && pick.completes {
                share.finished(pick.task);
                withdrawn += 1;
            }
            !gone
        });
        withdrawn += share.withdraw(range);
        share.undelivered -= withdrawn;
        share.reap(|task| {
            owners.remove(&task);
        });
        self.look(Focus::All);
        Ok(withdrawn)
    }

    /// How many blocks its tasks did not get.
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
        self.look(Focus::All);
        Ok(left)
    }

    /// Whether writes are to serve the session's reads.
    pub fn serve_reads_by_writes(&mut self, session: SessionId, on: bool) -> Result<(), SessionError> {
        self.share(session)?.writes_serve_reads = on;
        Ok(())
    }

    pub fn suspend(&mut self, session: SessionId, suspended: bool) -> Result<(), SessionError> {
        self.share(session)?.suspended = suspended;
        self.look(Focus::All);
        Ok(())
    }

    /// Wanted blocks of a session that touch `range`, as `(op, blocks' range)`, and how many they are.
    pub fn wanted_in(
        &self,
        layout: &Layout,
        session: SessionId,
        range: LbnRange,
        each: impl FnMut(Op, LbnRange),
    ) -> Result<u64, SessionError> {
        let at = self.place(session)?;
        check_range(layout, range)?;
        Ok(self.shares[at].wanted_in(range, each))
    }

    /// Whether anybody who is not suspended wants a part of `range` of this kind.
    pub fn wants(&self, op: Op, range: LbnRange) -> bool {
        self.shares.iter().any(|s| s.is_active() && s.wants(op, range))
    }

    /// Blocks that a session has still to get.
    pub fn undelivered(&self, session: SessionId) -> Option<u64> {
        self.place(session).ok().map(|at| self.shares[at].undelivered)
    }

    /// Blocks that a task has still to get.
    pub fn task_undelivered(&self, task: TaskId) -> Option<u64> {
        let at = self.place(*self.owners.get(&task)?).ok()?;
        self.shares[at].task(task).map(|t| t.undelivered)
    }

    pub fn memory_bytes(&self) -> usize {
        self.shares.iter().flat_map(Share::tasks).map(|t| t.memory_bytes()).sum()
    }

    /// Chooses what the methods below look at.
    pub fn look(&mut self, focus: Focus) {
        self.focus.clear();
        match focus {
            Focus::All => {
                let active = self.shares.iter().enumerate().filter(|(_, s)| s.is_active());
                self.focus.extend(active.map(|(at, _)| at));
            }
            Focus::One(at) => self.focus.push(at),
        }
    }

    /// What the methods below look at, to come back to it.
    pub fn focus(&self) -> Vec<usize> {
        self.focus.clone()
    }

    /// Looks at the same as before, [`focus`](Self::focus).
    pub fn look_at(&mut self, focus: &[usize]) {
        self.focus.clear();
        self.focus.extend_from_slice(focus);
    }

    /// Cylinders that gave nothing of what is in focus when idle time last looked.
    pub fn passed_over(&mut self) -> &mut u32 {
        match self.focus.as_slice() {
            &[at] => &mut self.shares[at].passed_over,
            _ => &mut self.passed_over,
        }
    }

    /// Shares in focus.
    pub fn in_focus(&self) -> usize {
        self.focus.len()
    }

    /// Draws a session among those in focus, by their tickets.
    pub fn draw(&self, lottery: &mut Lottery) -> Option<Focus> {
        let tickets = self.focus.iter().map(|&at| u64::from(self.shares[at].priority.get()));
        lottery.draw(tickets).and_then(|winner| self.focus.get(winner)).map(|&at| Focus::One(at))
    }

    /// Whether there is nothing to choose.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.focus.is_empty()
    }

    /// Whether somebody wants to read or to write, as asked.
    #[inline]
    pub fn has(&self, op: Op) -> bool {
        self.focus.iter().any(|&at| self.shares[at].has(op))
    }

    /// No sector is wanted by more tasks than this.
    pub fn depth(&self) -> u64 {
        self.focus.iter().map(|&at| self.shares[at].index.depth()).sum()
    }

    /// Sectors that any one track of a cylinder could yield at most.
    #[inline]
    pub fn cylinder_bound(&mut self, layout: &Layout, cylinder: u32) -> u64 {
        let Self { shares, focus, .. } = self;
        focus.iter().fold(0, |sum, &at| sum.saturating_add(shares[at].cylinder_bound(layout, cylinder)))
    }

    /// The same, if it is known.
    #[inline]
    pub fn known_cylinder_bound(&self, cylinder: u32) -> Option<u64> {
        if let &[at] = self.focus.as_slice() {
            return self.shares[at].bounds.get(cylinder);
        }
        self.focus
            .iter()
            .try_fold(0u64, |sum, &at| Some(sum.saturating_add(self.shares[at].bounds.get(cylinder)?)))
    }

    /// Sectors that a track could yield at most, if that is known.
    #[inline]
    pub fn track_bound(&self, track: TrackIndex) -> Option<u64> {
        if let &[at] = self.focus.as_slice() {
            return self.shares[at].bounds.track(track);
        }
        self.focus
            .iter()
            .try_fold(0u64, |sum, &at| Some(sum.saturating_add(self.shares[at].bounds.track(track)?)))
    }

    /// Whether no cylinder of a group yields more than `best`, as far as all of them are known.
    #[inline]
    pub fn is_barren(&mut self, group: u32, best: u32) -> bool {
        match self.focus.as_slice() {
            &[at] => self.shares[at].bounds.is_barren(group, best),
            many => barren(many.iter().map(|&at| &self.shares[at].bounds), group, best),
        }
    }

    /// Whether a cylinder may yield more than `best`, or is not known.
    #[inline]
    pub fn is_promising(&self, cylinder: u32, best: u32) -> bool {
        match self.focus.as_slice() {
            &[at] => self.shares[at].bounds.is_promising(cylinder, best),
            _ => self.known_cylinder_bound(cylinder).is_none_or(|bound| bound > u64::from(best)),
        }
    }

    /// The next cylinder, from `from` on inward or outward, of which something is wanted.
    pub fn next_wanted(&mut self, layout: &Layout, from: u32, outward: bool) -> Option<u32> {
        let last = layout.cylinders().checked_sub(1)?;
        let mut next = Some(from).filter(|c| *c <= last);
        while let Some(c) = next {
            let barren = self.is_barren(c / GROUP, 0);
            if !barren && self.cylinder_bound(layout, c) > 0 {
                return Some(c);
            }
            let group = c / GROUP * GROUP;
            next = match (outward, barren) {
                (true, true) => group.checked_sub(1),
                (true, false) => c.checked_sub(1),
                (false, true) => Some(group + GROUP),
                (false, false) => Some(c + 1),
            }
            .filter(|c| *c <= last);
        }
        None
    }

    /// Wanted sectors among `count` that pass from `first` on.
    #[inline]
    pub fn score(&self, track: &TrackRef<'_>, (first, count): (u32, u32), op: Op) -> u64 {
        let most = self.most_partials_each;
        let sectors = track.track().sectors;
        let mut sum = 0;
        for extent in track.extents() {
            in_window(extent, sectors, first, count, |from, to| {
                for &at in &self.focus {
                    let share = &self.shares[at];
                    sum += share.score(op, extent, (from, to), sectors, share.partials < most);
                }
            });
        }
        sum
    }

    /// Calls `each` with what is wanted among `count` sectors that pass from `first` on: the share's place, the task's
    /// slot, the item, and its place in the order of passing.
    pub fn items(
        &self,
        track: &TrackRef<'_>,
        (first, count): (u32, u32),
        op: Op,
        mut each: impl FnMut(usize, u32, Item, u32),
    ) {
        let most = self.most_partials_each;
        let sectors = track.track().sectors;
        for extent in track.extents() {
            in_window(extent, sectors, first, count, |from, to| {
                for &at in &self.focus {
                    let share = &self.shares[at];
                    share.items(op, extent, (from, to), sectors, share.partials < most, |slot, item| {
                        let passing =
                            if item.sector >= first { item.sector } else { item.sector + sectors } - first;
                        each(at, slot, item, passing);
                    });
                }
            });
        }
    }

    /// Takes what all sessions want to read among the sectors of a window; `sure` if no cut can undo it.
    pub fn take_reads(
        &mut self,
        drive: &DriveModel,
        track: TrackIndex,
        window: (u32, u32),
        sure: bool,
    ) -> Option<Taken> {
        self.look(Focus::All);
        let track = drive.layout().track_ref(track);
        let mut found = std::mem::take(&mut self.scratch);
        found.clear();
        let mut taken = Taken { begin: u32::MAX, end: 0, useful: 0 };
        self.items(&track, window, Op::Read, |at, slot, item, passing| {
            taken.begin = taken.begin.min(passing);
            taken.end = taken.end.max(passing + item.sectors);
            taken.useful += item.sectors;
            found.push((at, slot, item, passing));
        });
        for (at, slot, item, _) in found.drain(..) {
            self.pick(at, slot, item, sure);
        }
        self.scratch = found;
        self.forget_bounds(&track);
        (taken.useful > 0).then_some(taken)
    }

    /// Takes what all sessions want to write among the sectors of a window, as far as its buffers are at hand, and what
    /// reads of it are done with that. Calls `each` with the runs to be written, in the order of passing:
    /// `(passing, sectors)`.
    pub fn take_writes(
        &mut self,
        drive: &DriveModel,
        track: TrackIndex,
        window: (u32, u32),
        buffers: &mut dyn Buffers,
        mut each: impl FnMut(u32, u32),
    ) {
        self.look(Focus::All);
        let track = drive.layout().track_ref(track);
        let mut found = std::mem::take(&mut self.scratch);
        found.clear();
        self.items(&track, window, Op::Write, |at, slot, item, passing| {
            found.push((at, slot, item, passing))
        });
        // Of those that begin together the longest first: what lies inside it is written with it.
        found.sort_unstable_by_key(|&(at, slot, item, passing)| (passing, u32::MAX - item.sectors, at, slot));
        let (mut done, mut written) = ((0, 0), Vec::new());
        for (at, slot, item, passing) in found.drain(..) {
            let end = passing + item.sectors;
            if passing >= done.0 && end <= done.1 {
                // A concurrent write to the same place: one is enough.
                self.pick(at, slot, item, false);
                continue;
            }
            if passing < done.1 {
                continue;
            }
            let share = &self.shares[at];
            let Some(task) = share.slot(slot) else { continue };
            let block = task.block_range(item.block).start();
            let (mut all, mut runs) = (true, Vec::new());
            task.missing(&item, |offset, sectors| {
                let range = LbnRange::new(block + Sectors::new(offset.into()), Sectors::new(sectors.into()));
                let wanted = Wanted { session: share.id, task: task.id, range, parameter: task.parameter };
                all = all && buffers.ready(&wanted);
                runs.push((passing + (offset - item.offset), sectors));
            });
            if all {
                self.pick(at, slot, item, false);
                // Of a block that had been overwritten in part only the rest is written: nothing else is done with it, but
                // nothing else may begin before its end.
                done = match runs[..] {
                    [(passing, sectors)] if sectors == item.sectors => (passing, end),
                    _ => (end, end),
                };
                written.append(&mut runs);
            }
        }
        self.scratch = found;
        let on_track = track.track().sectors;
        for (passing, sectors) in written {
            each(passing, sectors);
            self.serve_reads(&track, ((window.0 + passing) % on_track, sectors), false);
        }
        self.forget_bounds(&track);
    }

    /// What lies in what is written need not be read.
    fn serve_reads(&mut self, track: &TrackRef<'_>, window: (u32, u32), sure: bool) {
        if !self.has(Op::Read) {
            return;
        }
        let mut found = std::mem::take(&mut self.scratch);
        self.items(track, window, Op::Read, |at, slot, item, passing| found.push((at, slot, item, passing)));
        for (at, slot, item, _) in found.drain(..) {
            if self.shares[at].writes_serve_reads {
                self.pick(at, slot, item, sure);
            }
        }
        self.scratch = found;
    }

    /// A foreground write to `range` is on its way: pending writes of what it covers are done with it.
    pub fn overwritten(&mut self, layout: &Layout, range: LbnRange) {
        let mut any = false;
        for at in 0..self.shares.len() {
            let share = &mut self.shares[at];
            any |= share.has(Op::Write) || share.has(Op::Read);
            share.overwritten(range, |pick| self.picks.push(pick));
        }
        self.look(Focus::All);
        if !any {
            return;
        }
        for piece in layout.pieces(range) {
            let track = layout.track_ref(piece.track);
            self.serve_reads(&track, (piece.sector, piece.len), true);
            self.forget_bounds(&track);
        }
    }

    /// Takes writes that were promoted, blocks that make up `range`, as far as their buffers are at hand; calls `each`
    /// with what is to be written.
    pub fn take_promoted(
        &mut self,
        range: LbnRange,
        buffers: &mut dyn Buffers,
        mut each: impl FnMut(LbnRange),
    ) {
        let mut blocks = Vec::new();
        for (at, share) in self.shares.iter().enumerate().filter(|(_, share)| share.is_active()) {
            share.writes_in(range, |slot, block, whole| blocks.push((whole, at, slot, block)));
        }
        // Of those that begin together the longest first, as in `take_writes`.
        blocks.sort_unstable_by_key(|&(whole, at, slot, block)| {
            (whole.start(), u64::MAX - whole.len().get(), at, slot, block)
        });
        let mut done = LbnRange::new(range.start(), Sectors::ZERO);
        for (whole, at, slot, block) in blocks {
            let item = Item { block, offset: 0, sectors: whole.len().get() as u32, sector: 0, whole: true };
            if whole.start() >= done.start() && whole.end() <= done.end() {
                self.pick(at, slot, item, true);
                continue;
            }
            if whole.start() < done.end() {
                continue;
            }
            let share = &self.shares[at];
            let Some(task) = share.slot(slot) else { continue };
            let (mut all, mut runs) = (true, Vec::new());
            task.missing(&item, |offset, sectors| {
                let start = whole.start() + Sectors::new(offset.into());
                let range = LbnRange::new(start, Sectors::new(sectors.into()));
                let wanted = Wanted { session: share.id, task: task.id, range, parameter: task.parameter };
                all = all && buffers.ready(&wanted);
                runs.push(range);
            });
            if all {
                self.pick(at, slot, item, true);
                done = if runs[..] == [whole] { whole } else { LbnRange::new(whole.end(), Sectors::ZERO) };
                runs.into_iter().for_each(&mut each);
            }
        }
    }

    fn pick(&mut self, at: usize, slot: u32, item: Item, sure: bool) {
        let share = &mut self.shares[at];
        if let Some((task, Took { completes, had })) = share.take(slot, &item) {
            self.picks.push(Pick { session: share.id, task, item, completes, sure, had });
        }
    }

    fn forget_bounds(&mut self, track: &TrackRef<'_>) {
        for at in &self.focus {
            self.shares[*at].bounds.forget(track.index(), track.track().cylinder.get());
        }
        self.look(Focus::All);
    }

    /// The head turns back after `done` sectors of the window that begins at `first` on a track of `sectors`: what was
    /// taken beyond is wanted again.
    pub fn cut(&mut self, layout: &Layout, sectors: u32, first: u32, done: u32) {
        let mut picks = std::mem::take(&mut self.picks);
        // A block is done as far as it was to be, or not at all.
        let mut undone: Vec<(TaskId, u64)> = picks
            .iter()
            .filter(|p| !p.sure && (p.item.sector + sectors - first) % sectors + p.item.sectors > done)
            .map(|p| (p.task, p.item.block))
            .collect();
        undone.sort_unstable();
        let is_undone = |p: &Pick| !p.sure && undone.binary_search(&(p.task, p.item.block)).is_ok();
        // The last first: what was taken of a block in pieces goes back in the reverse order.
        for pick in picks.iter().rev().filter(|p| is_undone(p)) {
            self.untake(layout, pick);
        }
        picks.retain(|p| !is_undone(p));
        self.picks = picks;
        self.look(Focus::All);
    }

    /// What was under way is lost: all that no retry of a foreground request does is wanted again.
    pub fn lost(&mut self, layout: &Layout) {
        let mut picks = std::mem::take(&mut self.picks);
        // The last first: what was taken of a block in pieces goes back in the reverse order.
        for pick in picks.iter().rev().filter(|p| !p.sure) {
            self.untake(layout, pick);
        }
        picks.retain(|p| p.sure);
        self.picks = picks;
        self.look(Focus::All);
    }

    fn untake(&mut self, layout: &Layout, pick: &Pick) {
        if let Ok(share) = self.share(pick.session) {
            share.untake(layout, pick);
        }
    }

    /// A record of the session is handed to its client, or withdrawn. Whether it was the last that the session has to
    /// get.
    pub fn handed_over(&mut self, session: SessionId) -> bool {
        self.share(session).is_ok_and(|s| {
            s.undelivered -= 1;
            s.undelivered == 0
        })
    }

    /// Gives out what the accesses under way have done, for the outbox; blocks with a sector among `bad`, which is
    /// ascending, as failed.
    pub fn deliver(&mut self, bad: &[Lbn], mut each: impl FnMut(Record)) {
        let mut picks = std::mem::take(&mut self.picks);
        let Self { shares, owners, .. } = self;
        let mut record = |share: &mut Share, pick: &Pick, bad: Option<Lbn>| {
            let Some((range, op, parameter)) = share.describe(pick) else { return };
            if share.finished(pick.task) {
                owners.remove(&pick.task);
            }
            each(Record { session: share.id, task: pick.task, range, op, parameter, bad, last: false });
        };
        if !bad.is_empty() {
            // By block, the first bad sector of it that the accesses met.
            let mut failed: BTreeMap<(TaskId, u64), (usize, Lbn)> = BTreeMap::new();
            for (place, pick) in picks.iter().enumerate() {
                let Ok(at) = shares.binary_search_by_key(&pick.session, |s| s.id) else { continue };
                let Some(range) = shares[at].item_range(pick) else { continue };
                let first = bad.partition_point(|lbn| *lbn < range.start());
                let Some(lbn) = bad.get(first).copied().filter(|lbn| *lbn < range.end()) else { continue };
                let entry = failed.entry((pick.task, pick.item.block)).or_insert((place, lbn));
                entry.1 = entry.1.min(lbn);
            }
            for &(place, lbn) in failed.values() {
                let pick = &picks[place];
                let Ok(at) = shares.binary_search_by_key(&pick.session, |s| s.id) else { continue };
                shares[at].give_up(pick);
                record(&mut shares[at], pick, Some(lbn));
            }
            picks.retain(|p| !failed.contains_key(&(p.task, p.item.block)));
        }
        for pick in picks.drain(..).filter(|p| p.completes) {
            if let Ok(at) = shares.binary_search_by_key(&pick.session, |s| s.id) {
                record(&mut shares[at], &pick, None);
            }
        }
        self.picks = picks;
    }
}

/// A range that a session call may name.
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
