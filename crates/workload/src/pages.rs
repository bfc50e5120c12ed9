//! A pool of pages in memory with LRU replacement.

use std::collections::{BTreeMap, BTreeSet};

/// A page that has left the pool to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) page: u64,
    /// Whether the page must be written, because the drive has older contents.
    pub(crate) dirty: bool,
}

/// The rule for the page that leaves the pool to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evict {
    /// The least recently used page.
    Any,
    /// The least recently used clean page. Dirty pages that the search passes count as just used, so that the next
    /// search does not meet them again.
    Clean,
}

/// The value for "no frame".
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Frame {
    page: u64,
    dirty: bool,
    /// The number of transfers that hold the page in the pool.
    pins: u32,
    newer: u32,
    older: u32,
}

/// The counts of pages in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageCounts {
    /// The number of pages in the pool.
    pub held: usize,
    /// The number of pages that are newer than on the drive.
    pub changed: usize,
}

/// Pages by their number: a table, and a list in the order of their last use.
#[derive(Clone, Debug)]
pub(crate) struct PagePool {
    capacity: usize,
    frames: Vec<Frame>,
    free: Vec<u32>,
    index: BTreeMap<u64, u32>,
    dirty: BTreeSet<u64>,
    newest: u32,
    oldest: u32,
}

impl PagePool {
    /// Creates a pool for `capacity` pages. The pool exceeds this only while no page may leave: all are pinned, or
    /// dirty with [`Evict::Clean`].
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            frames: Vec::new(),
            free: Vec::new(),
            index: BTreeMap::new(),
            dirty: BTreeSet::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    /// Returns the counts of pages in the pool.
    pub(crate) fn counts(&self) -> PageCounts {
        PageCounts { held: self.index.len(), changed: self.dirty.len() }
    }

    pub(crate) fn contains(&self, page: u64) -> bool {
        self.index.contains_key(&page)
    }

    pub(crate) fn is_dirty(&self, page: u64) -> bool {
        self.dirty.contains(&page)
    }

    /// Returns the numbers of the pages that are newer than on the drive, ascending.
    pub(crate) const fn dirty(&self) -> &BTreeSet<u64> {
        &self.dirty
    }

    /// Records a use of a page, and a change of it if `change`; returns whether the page was in the pool.
    pub(crate) fn touch(&mut self, page: u64, change: bool) -> bool {
        let Some(&at) = self.index.get(&page) else { return false };
        self.unlink(at);
        self.link_newest(at);
        if change {
            self.set_dirty(page, true);
        }
        true
    }

    /// Adds a page that is not in the pool; returns the page that had to leave.
    pub(crate) fn insert(&mut self, page: u64, dirty: bool, evict: Evict) -> Option<Victim> {
        if self.touch(page, dirty) {
            return None;
        }
        let victim = if self.index.len() >= self.capacity { self.victim(evict) } else { None };
        let victim = victim.map(|page| Victim { page, dirty: self.remove(page) });
        let frame = Frame { page, dirty: false, pins: 0, newer: NONE, older: NONE };
        let at = match self.free.pop() {
            Some(at) => {
                self.frames[at as usize] = frame;
                at
            }
            None => {
                self.frames.push(frame);
                (self.frames.len() - 1) as u32
            }
        };
        self.index.insert(page, at);
        self.link_newest(at);
        if dirty {
            self.set_dirty(page, true);
        }
        victim
    }

    /// Removes a page; returns whether it was dirty.
    pub(crate) fn remove(&mut self, page: u64) -> bool {
        let Some(at) = self.index.remove(&page) else { return false };
        self.unlink(at);
        self.free.push(at);
        self.dirty.remove(&page)
    }

    /// Holds a page in the pool until [`unpin`](Self::unpin).
    pub(crate) fn pin(&mut self, page: u64) {
        if let Some(&at) = self.index.get(&page) {
            self.frames[at as usize].pins += 1;
        }
    }

    pub(crate) fn unpin(&mut self, page: u64) {
        if let Some(&at) = self.index.get(&page) {
            let pins = &mut self.frames[at as usize].pins;
            *pins = pins.saturating_sub(1);
        }
    }

    /// Records that the drive has, or is about to have, the page's present contents.
    pub(crate) fn set_clean(&mut self, page: u64) {
        self.set_dirty(page, false);
    }

    fn set_dirty(&mut self, page: u64, dirty: bool) {
        let Some(&at) = self.index.get(&page) else { return };
        self.frames[at as usize].dirty = dirty;
        if dirty {
            self.dirty.insert(page);
        } else {
            self.dirty.remove(&page);
        }
    }

    fn victim(&mut self, evict: Evict) -> Option<u64> {
        let mut at = self.oldest;
        // A dirty page that the search passes moves to the other end of the list, so one round is enough.
        for _ in 0..self.index.len() {
            let frame = *self.frames.get(at as usize)?;
            if frame.pins == 0 && (evict == Evict::Any || !frame.dirty) {
                return Some(frame.page);
            }
            if frame.pins == 0 {
                self.unlink(at);
                self.link_newest(at);
            }
            at = frame.newer;
        }
        None
    }

    fn unlink(&mut self, at: u32) {
        let Frame { newer, older, .. } = self.frames[at as usize];
        match self.frames.get_mut(newer as usize) {
            Some(frame) => frame.older = older,
            None => self.newest = older,
        }
        match self.frames.get_mut(older as usize) {
            Some(frame) => frame.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let before = self.newest;
        match self.frames.get_mut(before as usize) {
            Some(frame) => frame.newer = at,
            None => self.oldest = at,
        }
        let frame = &mut self.frames[at as usize];
        (frame.newer, frame.older) = (NONE, before);
        self.newest = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The naive pool: pages in the order of their last use, the least recently used first.
    #[derive(Default)]
    struct Plain(Vec<(u64, bool, u32)>);

    impl Plain {
        fn touch(&mut self, page: u64, change: bool) -> bool {
            let Some(place) = self.0.iter().position(|p| p.0 == page) else { return false };
            let mut found = self.0.remove(place);
            found.1 |= change;
            self.0.push(found);
            true
        }

        fn insert(&mut self, page: u64, dirty: bool, evict: Evict, capacity: usize) -> Option<Victim> {
            if self.touch(page, dirty) {
                return None;
            }
            let mut victim = None;
            if self.0.len() >= capacity {
                let fits = |p: &(u64, bool, u32)| p.2 == 0 && (evict == Evict::Any || !p.1);
                let place = self.0.iter().position(fits);
                let passed = place.unwrap_or(self.0.len());
                victim = place.map(|place| self.0[place]);
                self.0.retain(|p| victim.is_none_or(|v| v.0 != p.0));
                // Dirty pages that were skipped move to the back, in their order.
                let moved: Vec<_> = self.0[..passed].iter().copied().filter(|p| p.2 == 0).collect();
                self.0.retain(|p| !moved.contains(p));
                self.0.extend(moved);
            }
            self.0.push((page, dirty, 0));
            victim.map(|(page, dirty, _)| Victim { page, dirty })
        }
    }

    proptest! {
        #[test]
        fn a_pool_does_what_a_list_would(
            capacity in 1usize..8,
            steps in prop::collection::vec((0u64..12, 0u8..8, any::<bool>()), 0..200),
        ) {
            let mut pool = PagePool::new(capacity);
            let mut plain = Plain::default();
            for (page, what, flag) in steps {
                let evict = if flag { Evict::Any } else { Evict::Clean };
                let at = plain.0.iter().position(|p| p.0 == page);
                match what {
                    0..=3 => {
                        let ours = pool.insert(page, what == 3, evict);
                        prop_assert_eq!(ours, plain.insert(page, what == 3, evict, capacity));
                    }
                    4 => prop_assert_eq!(pool.touch(page, flag), plain.touch(page, flag)),
                    5 => {
                        let dirty = at.is_some_and(|at| plain.0.remove(at).1);
                        prop_assert_eq!(pool.remove(page), dirty);
                    }
                    6 => {
                        pool.set_clean(page);
                        if let Some(at) = at { plain.0[at].1 = false; }
                    }
                    _ => {
                        if flag { pool.pin(page) } else { pool.unpin(page) }
                        if let Some(at) = at {
                            let pins = &mut plain.0[at].2;
                            *pins = if flag { *pins + 1 } else { pins.saturating_sub(1) };
                        }
                    }
                }
                prop_assert_eq!(pool.counts().held, plain.0.len());
                let mut dirty: Vec<u64> = plain.0.iter().filter(|p| p.1).map(|p| p.0).collect();
                dirty.sort_unstable();
                prop_assert_eq!(pool.dirty().iter().copied().collect::<Vec<_>>(), dirty);
                prop_assert!((0..12).all(|p| pool.contains(p) == plain.0.iter().any(|q| q.0 == p)));
            }
        }
    }
}
