//! What a search asks: whose blocks it looks at, and what a window, a track or a cylinder holds of them.

use super::Background;
use crate::bounds::{GROUP, barren};
use crate::lottery::Lottery;
use crate::task::Item;
use model::{Extent, Layout, TrackRef};
use units::{Lbn, Op, Sectors, TrackIndex};

/// Which sessions a search looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Focus {
    /// All that are not suspended.
    All,
    /// One, by its place.
    One(usize),
}

impl Background {
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
        each: impl FnMut(usize, u32, Item, u32),
    ) {
        self.items_within(track, (first, count), (op, self.most_partials_each), each);
    }

    /// The same, where each session has room for `most` half read blocks.
    pub(super) fn items_within(
        &self,
        track: &TrackRef<'_>,
        (first, count): (u32, u32),
        (op, most): (Op, usize),
        mut each: impl FnMut(usize, u32, Item, u32),
    ) {
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
