//! Picks: chosen parts of blocks. A pick is taken from the wanted set, transferred, and finally delivered, failed, or returned to
//! the wanted set.

use super::part::{Part, Pick, PromotedBlock, TaskBlock};
use super::search::Focus;
use super::share::{Block, Share, TakenItem};
use super::{Background, Bad};
use crate::sessions::Record;
use crate::task::{Item, Task, Took};
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use model::{DriveModel, Layout, TrackRef, Window};
use units::{Lbn, LbnRange, Op, SessionId, TaskId, TrackIndex};

/// The part of a window that was taken: its begin and end in the order of passing, and the number of wanted sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub begin: u32,
    pub end: u32,
    pub useful: u32,
}

impl Background {
    /// Takes the blocks among the sectors of a window that any session wants to read; `sure` if no cut can undo the reading.
    pub fn take_reads(
        &mut self,
        drive: &DriveModel,
        track: TrackIndex,
        window: Window,
        sure: bool,
    ) -> Option<Taken> {
        self.focus_on(Focus::All);
        let track = drive.layout().track_ref(track);
        let mut found = core::mem::take(&mut self.scratch);
        found.clear();
        let mut taken = Taken { begin: u32::MAX, end: 0, useful: 0 };
        // The foreground request reads whole blocks, so they need no space for half-read ones.
        let most = if sure { usize::MAX } else { self.most_partials_each };
        self.items_within(&track, window, Op::Read, most, |one| {
            taken.begin = taken.begin.min(one.passing);
            taken.end = taken.end.max(one.passing + one.item.sectors);
            taken.useful += one.item.sectors;
            found.push(one);
        });
        for one in found.drain(..) {
            self.pick(one.share, one.slot, one.item, Op::Read, sure);
        }
        self.scratch = found;
        self.forget_bounds(&track);
        (taken.useful > 0).then_some(taken)
    }

    /// Completes the wanted reads inside a window that is written.
    pub(super) fn serve_reads(&mut self, track: &TrackRef<'_>, window: Window, sure: bool) {
        if !self.has(Op::Read) {
            return;
        }
        let mut found = core::mem::take(&mut self.scratch);
        self.items(track, window, Op::Read, |one| found.push(one));
        for one in found.drain(..) {
            if self.shares[one.share].writes_serve_reads {
                self.pick(one.share, one.slot, one.item, Op::Write, sure);
            }
        }
        self.scratch = found;
    }

    pub(super) fn pick(&mut self, at: usize, slot: u32, item: Item, by: Op, sure: bool) {
        let share = &mut self.shares[at];
        if let Some(TakenItem { task, op, took: Took { completes, had } }) = share.take(slot, &item) {
            let (session, command) = (share.id, self.command);
            let promoted = false;
            self.picks.push(Pick { session, task, op, by, item, completes, sure, had, promoted, command });
        }
    }

    pub(super) fn forget_bounds(&mut self, track: &TrackRef<'_>) {
        for at in &self.focus {
            self.shares[*at].bounds.forget(track.index(), track.track().cylinder.get());
        }
        self.focus_on(Focus::All);
    }

    /// Records that the head leaves after `done` sectors of the window that begins at sector `first` on a track of `sectors`
    /// sectors: picks of later sectors are wanted again.
    pub fn cut(&mut self, layout: &Layout, sectors: u32, first: u32, done: u32) {
        let mut picks = core::mem::take(&mut self.picks);
        let is_done =
            |p: &Pick| p.sure || (p.item.sector + sectors - first) % sectors + p.item.sectors <= done;
        let mut undone: Vec<TaskBlock> = picks.iter().filter(|p| !is_done(p)).map(Pick::task_block).collect();
        undone.sort_unstable();
        let is_undone = |p: &Pick| !p.sure && undone.binary_search(&p.task_block()).is_ok();
        // In reverse: the piece of a block that was taken last is returned first.
        for pick in picks.iter().rev().filter(|p| is_undone(p)) {
            self.untake(layout, pick);
        }
        for pick in picks.drain(..) {
            if !is_undone(&pick) {
                self.picks.push(pick);
            } else if is_done(&pick) && pick.op.is_write() {
                // The head has passed this part, but not all of the block. If written, the part stays written; if read, it is not
                // kept, because it would need space.
                self.take_again(pick);
            }
        }
        self.focus_on(Focus::All);
    }

    fn take_again(&mut self, pick: Pick) {
        let Ok(share) = self.share(pick.session) else { return };
        if let Some(Took { completes, had }) = share.take_again(&pick) {
            self.picks.push(Pick { completes, had, ..pick });
        }
    }

    /// Records that the accesses under way are lost. Every pick is wanted again, except those that the foreground request
    /// covers, because that request is repeated.
    pub fn lost(&mut self, layout: &Layout) {
        let mut picks = core::mem::take(&mut self.picks);
        // In reverse: the piece of a block that was taken last is returned first.
        for pick in picks.iter().rev().filter(|p| !p.sure) {
            self.untake(layout, pick);
        }
        picks.retain(|p| p.sure);
        self.picks = picks;
        self.focus_on(Focus::All);
    }

    fn untake(&mut self, layout: &Layout, pick: &Pick) {
        if let Ok(share) = self.share(pick.session) {
            let block = share.block_range(pick).filter(|_| pick.promoted);
            let cylinders = share.untake(layout, pick);
            self.walks.wanted_anew(cylinders);
            self.urgent.extend(block.map(|range| PromotedBlock { session: pick.session, range }));
        }
    }

    /// Records a promotion of the blocks that touch `range`: a pick among them stays promoted if it is wanted again.
    pub fn promote_under_way(&mut self, session: SessionId, range: LbnRange) {
        let Self { shares, picks, .. } = self;
        for pick in picks.iter_mut().filter(|pick| pick.session == session) {
            let Ok(at) = shares.binary_search_by_key(&pick.session, |s| s.id) else { continue };
            pick.promoted |= shares[at].block_range(pick).is_some_and(|block| block.overlaps(range));
        }
    }

    /// Returns the promoted blocks that became wanted again since the last call because their access was cut, lost, or
    /// failed.
    pub fn take_urgent(&mut self) -> Vec<PromotedBlock> {
        let mut urgent = core::mem::take(&mut self.urgent);
        urgent.dedup();
        urgent
    }

    /// Notes that a record of the session was handed to its client or withdrawn. Returns whether that was the session's last
    /// record.
    pub fn handed_over(&mut self, session: SessionId) -> bool {
        self.share(session).is_ok_and(|s| {
            s.undelivered -= 1;
            s.undelivered == 0
        })
    }

    /// Calls `each` with the records of the accesses under way, which are done; blocks with a bad sector fail.
    pub fn deliver<'a>(&mut self, bad: impl Into<Bad<'a>>, mut each: impl FnMut(Record)) {
        self.fail_of(self.command, bad, &mut each);
        self.deliver_of(self.command, each);
    }

    /// Fails the blocks of a command that contain a bad sector, and calls `each` with their records.
    pub fn fail_of<'a>(&mut self, command: u64, bad: impl Into<Bad<'a>>, mut each: impl FnMut(Record)) {
        let bad = bad.into();
        if bad.is_empty() {
            return;
        }
        let Self { shares, owners, picks, .. } = self;
        // For each block, a pick and the first bad sector that the command met.
        let mut failed: BTreeMap<TaskBlock, (usize, Lbn)> = BTreeMap::new();
        for (place, pick) in picks.iter().enumerate().filter(|(_, p)| p.command == command) {
            let Ok(at) = shares.binary_search_by_key(&pick.session, |s| s.id) else { continue };
            let Some(range) = shares[at].item_range(pick) else { continue };
            let Some(lbn) = bad.first(pick.by, range) else { continue };
            let entry = failed.entry(pick.task_block()).or_insert((place, lbn));
            entry.1 = entry.1.min(lbn);
        }
        for &(place, lbn) in failed.values() {
            let pick = &picks[place];
            let Ok(at) = shares.binary_search_by_key(&pick.session, |s| s.id) else { continue };
            shares[at].give_up(pick);
            record(&mut shares[at], owners, pick, Some(lbn), &mut each);
        }
        picks.retain(|p| !failed.contains_key(&p.task_block()));
    }

    /// Calls `each` with the records of a command that is done.
    pub fn deliver_of(&mut self, command: u64, mut each: impl FnMut(Record)) {
        let mut picks = core::mem::take(&mut self.picks);
        let mut others = Vec::new();
        if picks.iter().any(|p| p.command != command) {
            (picks, others) = picks.into_iter().partition(|p| p.command == command);
        }
        let Self { shares, owners, .. } = self;
        for pick in picks.drain(..).filter(|p| p.completes) {
            // Another part of the block may still be under way with another command: the block is complete with that.
            let same = |p: &&mut Pick| p.task_block() == pick.task_block();
            if let Some(other) = others.iter_mut().rev().find(same) {
                other.completes = true;
                continue;
            }
            if let Ok(at) = shares.binary_search_by_key(&pick.session, |s| s.id) {
                record(&mut shares[at], owners, &pick, None, &mut each);
            }
        }
        self.picks = if others.is_empty() { picks } else { others };
    }

    /// Sets the command that transfers the following picks.
    pub fn take_for(&mut self, command: u64) {
        self.command = command;
    }

    /// Returns the LBNs that a command transfers.
    pub fn fetched_by(&self, command: u64) -> Vec<LbnRange> {
        let range = |p: &Pick| {
            let at = self.shares.binary_search_by_key(&p.session, |s| s.id).ok()?;
            self.shares[at].item_range(p)
        };
        self.picks.iter().filter(|p| p.command == command).filter_map(range).collect()
    }

    /// Returns the parts of blocks that a command transfers.
    pub fn parts_of(&self, command: u64) -> impl Iterator<Item = Part> {
        // Consecutive picks are mostly of one task.
        let mut last: Option<&Task> = None;
        self.picks.iter().filter(move |p| p.command == command).filter_map(move |pick| {
            if last.is_none_or(|last| last.id != pick.task) {
                last = self.shares[self.place(pick.session).ok()?].task(pick.task);
            }
            let (block, part) = (last?.block_range(pick.item.block), last?.item_range(&pick.item));
            Some(Part { session: pick.session, task: pick.task, op: pick.op, block, part })
        })
    }

    /// Returns a command's picks to the wanted set, if `which` selects their LBNs. Without `sure`, writes that the foreground
    /// request covers are not returned: the request is repeated, and their older data must not be written after it. The repeated
    /// request takes the reads that it covers again when it is sent, if their sessions are not suspended then. Whole blocks are
    /// returned: all other picks of these blocks are dropped, except for writes by other commands. Returns the blocks.
    pub fn give_back(
        &mut self,
        layout: &Layout,
        command: u64,
        sure: bool,
        which: impl Fn(LbnRange) -> bool,
    ) -> Vec<TaskBlock> {
        let which = |shares: &[Share], p: &Pick| {
            let at = shares.binary_search_by_key(&p.session, |s| s.id);
            at.ok().and_then(|at| shares[at].item_range(p)).is_some_and(&which)
        };
        let mut picks = core::mem::take(&mut self.picks);
        let mut undone: Vec<TaskBlock> = Vec::new();
        let mut fates = vec![Fate::Stays; picks.len()];
        for (pick, fate) in picks.iter().zip(&mut fates) {
            let block = pick.task_block();
            let stays = pick.sure && pick.op.is_write() && !sure;
            if pick.command == command && !stays && which(&self.shares, pick) {
                *fate = Fate::GoesBack;
            } else if undone.contains(&block) {
                // A later pick of the same block depends on the one that is given back.
                *fate = Fate::Rests;
            }
            if *fate != Fate::Stays {
                undone.push(block);
            }
        }
        // In reverse, so that each block is restored to its state before its first pick.
        for (pick, _) in picks.iter().zip(&fates).rev().filter(|(_, fate)| **fate != Fate::Stays) {
            self.untake(layout, pick);
        }
        for (pick, fate) in picks.drain(..).zip(fates) {
            match fate {
                Fate::Stays => self.picks.push(pick),
                // This pick is newer data that another command writes over the block: they count as written.
                Fate::Rests if pick.op.is_write() => self.take_again(pick),
                Fate::Rests | Fate::GoesBack => {}
            }
        }
        self.focus_on(Focus::All);
        undone
    }
}

/// The fate of a pick when a command's picks are given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    GoesBack,
    /// The pick depends on an earlier pick of the same block that is given back.
    Rests,
}

/// Calls `each` with the record of a finished block.
fn record(
    share: &mut Share,
    owners: &mut BTreeMap<TaskId, SessionId>,
    pick: &Pick,
    bad: Option<Lbn>,
    each: &mut impl FnMut(Record),
) {
    let Some(Block { range, op, parameter }) = share.describe(pick) else { return };
    if share.finished(pick.task) {
        owners.remove(&pick.task);
    }
    each(Record { session: share.id, task: pick.task, range, op, parameter, bad, last: false });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::Priority;
    use crate::task::NewTask;
    use model::Profile;
    use units::{LbnRange, Sectors};

    /// A foreground request reads both parts of a block while the half of another block occupies all the space.
    #[test]
    fn blocks_that_the_foreground_passes_over_need_no_space_for_halves() {
        let toml = include_str!("../../../model/tests/data/tiny.toml");
        let drive = DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml").unwrap()).unwrap();
        let layout = drive.layout();
        let mut background = Background::new(layout, 1);
        let session = background.open(layout, Priority::default(), [true; 2]).unwrap();
        let (first, third) = (TrackIndex::new(0), TrackIndex::new(2));
        let across = |track: TrackIndex| {
            let sectors = layout.track(track).sectors;
            let last = layout.track_ref(track).extents().last().unwrap();
            assert_eq!(last.sector + last.len, sectors, "no spares at the end of this track");
            LbnRange::new(last.lbn + Sectors::new(u64::from(last.len) - 4), Sectors::new(8))
        };
        for track in [first, third] {
            background.register(layout, session, NewTask::of(Op::Read, across(track), 8)).unwrap();
        }
        let end = |track: TrackIndex| Window { first: layout.track(track).sectors - 4, count: 4 };
        assert!(background.take_reads(&drive, first, end(first), false).is_some());
        assert!(background.take_reads(&drive, third, end(third), false).is_none(), "the room is taken");
        for piece in layout.pieces(across(third)) {
            assert!(background.take_reads(&drive, piece.track, piece.window(), true).is_some());
        }
        let mut delivered = Vec::new();
        background.deliver(&[], |record| delivered.push(record.range));
        assert_eq!(delivered, [across(third)]);
    }

    /// The last sector of a short block was to be written as a part of a long block, but the head left after the short block's
    /// first sector.
    #[test]
    fn the_end_that_was_written_does_not_stand_for_the_end_that_was_cut() {
        let toml = include_str!("../../../model/tests/data/tiny.toml");
        let drive = DriveModel::from_profile(&Profile::from_toml(toml, "tiny.toml").unwrap()).unwrap();
        let layout = drive.layout();
        let mut background = Background::new(layout, 1);
        let session = background.open(layout, Priority::default(), [true; 2]).unwrap();
        let range = |start, len| LbnRange::new(Lbn::new(start), Sectors::new(len));
        let write = |background: &mut Background, range: LbnRange| {
            let new = NewTask::of(Op::Write, range, range.len().get());
            background.register(layout, session, new).unwrap()
        };
        let long = write(&mut background, range(7, 4));
        background.overwritten(layout, range(7, 1), false);
        background.deliver(&[], |record| panic!("{record:?}"));
        let short = write(&mut background, range(7, 2));
        let at = layout.locate(Lbn::new(7)).unwrap();
        let (track, sectors) = (at.track, layout.track(at.track).sectors);
        let take = |background: &mut Background| {
            let mut runs = Vec::new();
            let window = Window { first: at.sector, count: sectors };
            background
                .take_writes(&drive, track, window, &mut crate::Ready, |passing, n| runs.push((passing, n)));
            runs
        };
        assert_eq!(take(&mut background), [(0, 1), (1, 3)]);
        background.cut(layout, sectors, at.sector, 1);
        background.deliver(&[], |record| panic!("{record:?}"));
        // The rest of the long block covers the rest of the short one.
        assert_eq!(take(&mut background), [(1, 3)]);
        let mut done = Vec::new();
        background.deliver(&[], |record| done.push(record.task));
        done.sort_unstable();
        assert_eq!(done, [long, short]);
    }
}
