//! The queries of a search: the sessions in focus, and their blocks in a window, on a track, or on a cylinder.

use super::walk::{Sought, Stretch, Walk, WalkStart};
use super::{Background, FoundItem};
use crate::bounds::{GROUP_CYLINDERS, LOOKUPS_PER_BOUND, barren};
use crate::lottery::Lottery;
use crate::task::ExtentWindow;
use alloc::vec::Vec;
use model::{Layout, TrackRef, Window};
use units::{Lbn, LbnRange, Op, Sectors, SessionId, TaskId, TrackIndex};

/// The sessions that a search looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Focus {
    /// All sessions that are not suspended and want blocks.
    All,
    /// One session, by the index of its share.
    One(usize),
}

impl Background {
    /// Chooses the sessions that the methods below look at.
    pub fn focus_on(&mut self, focus: Focus) {
        self.focus.clear();
        match focus {
            Focus::All => {
                let active = self.shares.iter().enumerate().filter(|(_, s)| s.is_active());
                self.focus.extend(active.map(|(at, _)| at));
            }
            Focus::One(at) => self.focus.push(at),
        }
    }

    /// Returns the current choice of sessions, for [`restore_focus`](Self::restore_focus).
    pub fn focus(&self) -> Vec<usize> {
        self.focus.clone()
    }

    /// Restores a choice that [`focus`](Self::focus) returned.
    pub fn restore_focus(&mut self, focus: &[usize]) {
        self.focus.clear();
        self.focus.extend_from_slice(focus);
    }

    /// Returns how far idle work of the sessions in focus has come over the drive from the given start.
    pub fn walk(&mut self, way: WalkStart) -> &mut Walk {
        let walks = match self.focus.as_slice() {
            &[at] => &mut self.shares[at].walks,
            _ => &mut self.walks,
        };
        match way {
            WalkStart::Edges => &mut walks.edges,
            WalkStart::Around(middle) => {
                walks.around.recentre(middle);
                &mut walks.around
            }
        }
    }

    /// Returns the number of shares in focus.
    pub fn in_focus(&self) -> usize {
        self.focus.len()
    }

    /// Draws a session among those in focus, by their tickets.
    pub fn draw(&self, lottery: &mut Lottery) -> Option<Focus> {
        let tickets = self.focus.iter().map(|&at| u64::from(self.shares[at].priority.get()));
        lottery.draw(tickets).and_then(|winner| self.focus.get(winner)).map(|&at| Focus::One(at))
    }

    /// Returns the first LBN that the oldest reading task of the sessions in focus still wants.
    pub fn oldest_wanted(&self) -> Option<Lbn> {
        let reads = |(task, session): (&TaskId, &SessionId)| {
            let at = self.place(*session).ok().filter(|at| self.focus.contains(at))?;
            self.shares[at].task(*task).filter(|task| !task.op.is_write())?.first_wanted()
        };
        self.owners.iter().find_map(reads)
    }

    /// Returns whether no session in focus wants blocks.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.focus.is_empty()
    }

    /// Returns whether a session in focus wants to read, or to write.
    #[inline]
    pub fn has(&self, op: Op) -> bool {
        self.focus.iter().any(|&at| self.shares[at].has(op))
    }

    /// Returns an upper bound on the number of tasks that want any one sector.
    pub fn depth(&self) -> u64 {
        self.focus.iter().map(|&at| self.shares[at].index.depth()).sum()
    }

    /// Returns an upper bound on the wanted sectors of each track of a cylinder.
    #[inline]
    pub fn cylinder_bound(&mut self, layout: &Layout, cylinder: u32) -> u64 {
        let Self { shares, focus, .. } = self;
        focus.iter().fold(0, |sum, &at| sum.saturating_add(shares[at].cylinder_bound(layout, cylinder)))
    }

    /// Returns the bound of [`cylinder_bound`](Self::cylinder_bound) if it is already known.
    #[inline]
    pub fn known_cylinder_bound(&self, cylinder: u32) -> Option<u64> {
        if let &[at] = self.focus.as_slice() {
            return self.shares[at].bounds.get(cylinder);
        }
        self.focus
            .iter()
            .try_fold(0u64, |sum, &at| Some(sum.saturating_add(self.shares[at].bounds.get(cylinder)?)))
    }

    /// Returns an upper bound on the wanted sectors of a track, if it is known.
    #[inline]
    pub fn track_bound(&self, track: TrackIndex) -> Option<u64> {
        if let &[at] = self.focus.as_slice() {
            return self.shares[at].bounds.track(track);
        }
        self.focus
            .iter()
            .try_fold(0u64, |sum, &at| Some(sum.saturating_add(self.shares[at].bounds.track(track)?)))
    }

    /// Returns whether no cylinder of a group yields more than `best` wanted sectors; false if a bound of the group is
    /// unknown.
    #[inline]
    pub fn is_barren(&mut self, group: u32, best: u32) -> bool {
        match self.focus.as_slice() {
            &[at] => self.shares[at].bounds.is_barren(group, best),
            many => barren(many.iter().map(|&at| &self.shares[at].bounds), group, best),
        }
    }

    /// Returns whether a cylinder may yield more than `best` wanted sectors; true if its bound is unknown.
    #[inline]
    pub fn is_promising(&self, cylinder: u32, best: u32) -> bool {
        match self.focus.as_slice() {
            &[at] => self.shares[at].bounds.is_promising(cylinder, best),
            _ => self.known_cylinder_bound(cylinder).is_none_or(|bound| bound > u64::from(best)),
        }
    }

    /// Returns the next cylinder of a stretch with wanted blocks, within a budget of look-ups. The first cylinder is
    /// examined even without budget, so that the search makes progress.
    pub fn next_wanted(&mut self, layout: &Layout, stretch: Stretch, left: &mut u32) -> Sought {
        let Stretch { from, last, down } = stretch;
        let mut next = from;
        loop {
            *left = left.saturating_sub(1);
            let barren = self.is_barren(next / GROUP_CYLINDERS, 0);
            if !barren {
                if self.known_cylinder_bound(next).is_none() {
                    *left = left.saturating_sub(u32::from(layout.heads()) * LOOKUPS_PER_BOUND);
                }
                if self.cylinder_bound(layout, next) > 0 {
                    return Sought::Found(next);
                }
            }
            let group = next / GROUP_CYLINDERS * GROUP_CYLINDERS;
            let after = match (down, barren) {
                (true, true) => group.checked_sub(1),
                (true, false) => next.checked_sub(1),
                (false, true) => Some(group + GROUP_CYLINDERS),
                (false, false) => Some(next + 1),
            };
            match after.filter(|c| if down { *c >= last } else { *c <= last }) {
                Some(c) if *left == 0 => return Sought::Spent(c),
                Some(c) => next = c,
                None => return Sought::Nothing,
            }
        }
    }

    /// Returns the number of wanted sectors in a window.
    #[inline]
    pub fn score(&self, track: &TrackRef<'_>, window: Window, op: Op) -> u64 {
        let most = self.most_partials_each;
        let mut sum = 0;
        in_window(track, window, |part| {
            for &at in &self.focus {
                let share = &self.shares[at];
                sum += share.score(op, part, share.partials < most);
            }
        });
        sum
    }

    /// Calls `each` with the wanted items in a window.
    pub fn items(&self, track: &TrackRef<'_>, window: Window, op: Op, each: impl FnMut(FoundItem)) {
        self.items_within(track, window, op, self.most_partials_each, each);
    }

    /// Returns the wanted item in a window that passes first.
    pub fn first_item(&self, track: &TrackRef<'_>, window: Window, op: Op) -> Option<FoundItem> {
        let mut first: Option<FoundItem> = None;
        self.items(track, window, op, |one| {
            if first.is_none_or(|first| one.passing < first.passing) {
                first = Some(one);
            }
        });
        first
    }

    /// Calls `each` like [`items`](Self::items), with space for `most` half-read blocks per session.
    pub(super) fn items_within(
        &self,
        track: &TrackRef<'_>,
        window: Window,
        op: Op,
        most: usize,
        mut each: impl FnMut(FoundItem),
    ) {
        let (first, sectors) = (window.first, track.track().sectors);
        in_window(track, window, |part| {
            for &at in &self.focus {
                let share = &self.shares[at];
                share.items(op, part, share.partials < most, |slot, item| {
                    let passing =
                        if item.sector >= first { item.sector } else { item.sector + sectors } - first;
                    each(FoundItem { share: at, slot, item, passing });
                });
            }
        });
    }
}

/// Calls `each` with the part of every extent that lies in a window.
#[inline]
fn in_window(track: &TrackRef<'_>, window: Window, mut each: impl FnMut(ExtentWindow)) {
    let track_sectors = track.track().sectors;
    let end = window.first + window.count;
    for extent in track.extents() {
        let mut run = |from: u32, to: u32| {
            let (from, to) = (from.max(extent.sector), to.min(extent.sector + extent.len));
            if from < to {
                let start = extent.lbn + Sectors::new(u64::from(from - extent.sector));
                let range = LbnRange::new(start, Sectors::new(u64::from(to - from)));
                each(ExtentWindow { extent, range, track_sectors });
            }
        };
        run(window.first, end.min(track_sectors));
        if end > track_sectors {
            run(0, end - track_sectors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::walk::Front;
    use super::*;
    use crate::sessions::Priority;
    use crate::task::NewTask;
    use model::{DriveModel, builtin};

    /// Searches until a cylinder is found or all were examined. Returns the number of budgets used, and the result.
    fn search(background: &mut Background, layout: &Layout, budget: u32) -> (u32, Option<u32>) {
        for searches in 1.. {
            let mut walk = *background.walk(WalkStart::Edges);
            let mut left = budget;
            let ahead = walk.ahead(Front::Low).expect("there is always something ahead here");
            let sought = background.next_wanted(layout, ahead, &mut left);
            walk.reached(Front::Low, sought);
            *background.walk(WalkStart::Edges) = walk;
            match sought {
                Sought::Found(cylinder) => return (searches, Some(cylinder)),
                Sought::Nothing => return (searches, None),
                Sought::Spent(_) => {}
            }
        }
        unreachable!("all cylinders have been looked at")
    }

    fn want(background: &mut Background, layout: &Layout, session: SessionId, start: u64) -> u32 {
        let range = LbnRange::new(Lbn::new(start), Sectors::new(8));
        background.register(layout, session, NewTask::of(Op::Read, range, 8)).unwrap();
        let track = layout.pieces(range).next().unwrap().track;
        layout.track(track).cylinder.get()
    }

    /// Checks that a pass over the drive examines each cylinder once, and that later searches examine none again.
    #[test]
    fn a_search_goes_on_where_its_budget_ended() {
        let drive = DriveModel::from_profile(&builtin::find("nearline-20tb").unwrap()).unwrap();
        let layout = drive.layout();
        let mut background = Background::new(layout, 8);
        let session = background.open(layout, Priority::default(), [true; 2]).unwrap();
        let middle = want(&mut background, layout, session, layout.capacity().get() / 2);
        let looks = middle * (1 + u32::from(layout.heads()) * LOOKUPS_PER_BOUND);
        let budget = 2_400;
        let (searches, found) = search(&mut background, layout, budget);
        assert_eq!(found, Some(middle));
        assert!(searches > 2 && searches <= looks / (budget - LOOKUPS_PER_BOUND * 64) + 2, "{searches}");
        assert_eq!(search(&mut background, layout, budget), (1, Some(middle)), "nothing is looked at again");
        // A new block on a cylinder that was already passed is found without a second pass.
        let first = want(&mut background, layout, session, layout.capacity().get() / 100);
        assert!(first < middle);
        assert_eq!(search(&mut background, layout, budget), (1, Some(first)));
    }
}
