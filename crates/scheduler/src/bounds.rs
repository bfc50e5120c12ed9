//! Upper bounds on the blocks that one detour can still read: for each track its wanted sectors, for each cylinder the
//! maximum of its tracks, for each group of cylinders the maximum of those. A bound is computed when it is first needed.
//!
//! Taking blocks lowers the true value, so an old bound stays valid. It is discarded where blocks were taken, to be tight
//! again, and where blocks were registered, to be valid again. The tables are zero until something is known, so that
//! untouched parts of a large drive's tables use no memory.

use alloc::vec;
use alloc::vec::Vec;
use model::Layout;
use units::{LbnRange, TrackIndex};

/// The look-ups of cylinders that cost as much as examining one track.
pub(crate) const LOOKUPS_PER_TRACK: u32 = 32;

/// The cost of computing the bound of a track, in look-ups.
pub(crate) const LOOKUPS_PER_BOUND: u32 = LOOKUPS_PER_TRACK / 4;

/// Cylinders in a group.
pub(crate) const GROUP_CYLINDERS: u32 = 16;

/// Ranges of up to this many track pieces are discarded track by track; for larger ones all bounds are.
const SINGLE_PIECES_MAX: usize = 64;

/// Cylinders from the first to the last.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CylinderRange {
    pub first: u32,
    pub last: u32,
}

/// Returns whether no cylinder of a group yields more than `best` to several shares together, as far as all bounds are
/// known.
pub(crate) fn barren<'a>(bounds: impl Iterator<Item = &'a Bounds>, group: u32, best: u32) -> bool {
    let mut sum = 0u64;
    for bound in bounds {
        match bound.peek_group(group) {
            Some(bound) => sum = sum.saturating_add(bound),
            None => return false,
        }
    }
    sum <= u64::from(best)
}

#[derive(Clone, Debug)]
pub(crate) struct Bounds {
    /// The bound of each track plus one, or zero while the bound is not known. The largest number stands for itself and all above.
    tracks: Vec<u16>,
    /// The bound of each cylinder's best track plus one, or zero while it is not known.
    cylinders: Vec<u32>,
    /// The bound of each group's best cylinder plus one, or zero while it is not known.
    groups: Vec<u32>,
}

impl Bounds {
    pub fn new(layout: &Layout) -> Self {
        let cylinders = layout.cylinders();
        Self {
            tracks: vec![0; layout.track_count() as usize],
            cylinders: vec![0; cylinders as usize],
            groups: vec![0; cylinders.div_ceil(GROUP_CYLINDERS) as usize],
        }
    }

    #[inline]
    pub fn track(&self, track: TrackIndex) -> Option<u64> {
        match self.tracks.get(track.get() as usize) {
            Some(0) | None => None,
            Some(&u16::MAX) => Some(u64::MAX),
            Some(&bound) => Some(u64::from(bound - 1)),
        }
    }

    pub fn set_track(&mut self, track: TrackIndex, bound: u64) {
        if let Some(slot) = self.tracks.get_mut(track.get() as usize) {
            *slot = bound.min(u64::from(u16::MAX - 1)) as u16 + 1;
        }
    }

    #[inline]
    pub fn get(&self, cylinder: u32) -> Option<u64> {
        match self.cylinders.get(cylinder as usize) {
            Some(0) => None,
            Some(&u32::MAX) => Some(u64::MAX),
            Some(&bound) => Some(u64::from(bound - 1)),
            None => Some(0),
        }
    }

    /// Returns whether a cylinder may yield more than `best`, or is unknown.
    #[inline]
    pub fn is_promising(&self, cylinder: u32, best: u32) -> bool {
        // Zero, which stands for unknown, wraps to the largest number there is.
        self.cylinders.get(cylinder as usize).is_some_and(|bound| bound.wrapping_sub(1) > best)
    }

    /// Returns whether no cylinder of a group yields more than `best`, as far as all bounds are known.
    #[inline]
    pub fn is_barren(&mut self, group: u32, best: u32) -> bool {
        match self.groups.get(group as usize) {
            Some(0) | None => self.group(group).is_some_and(|bound| bound <= u64::from(best)),
            Some(&bound) => bound - 1 <= best,
        }
    }

    pub fn set(&mut self, cylinder: u32, bound: u64) {
        if let Some(slot) = self.cylinders.get_mut(cylinder as usize) {
            *slot = bound.min(u64::from(u32::MAX - 1)) as u32 + 1;
        }
    }

    /// Returns the bound of a whole group, if it is known or can be computed from known bounds.
    fn peek_group(&self, group: u32) -> Option<u64> {
        match *self.groups.get(group as usize)? {
            0 => {
                let from = (group * GROUP_CYLINDERS) as usize;
                let to = (from + GROUP_CYLINDERS as usize).min(self.cylinders.len());
                let members = &self.cylinders[from..to];
                (!members.contains(&0)).then(|| u64::from(members.iter().copied().max().unwrap_or(1)) - 1)
            }
            u32::MAX => Some(u64::MAX),
            bound => Some(u64::from(bound - 1)),
        }
    }

    /// Returns the bound of a whole group, once all of its cylinders are known.
    fn group(&mut self, group: u32) -> Option<u64> {
        let slot = self.groups.get_mut(group as usize)?;
        if *slot == 0 {
            let from = (group * GROUP_CYLINDERS) as usize;
            let to = (from + GROUP_CYLINDERS as usize).min(self.cylinders.len());
            let members = &self.cylinders[from..to];
            if members.contains(&0) {
                return None;
            }
            *slot = members.iter().copied().max().unwrap_or(1);
        }
        Some(if *slot == u32::MAX { u64::MAX } else { u64::from(*slot - 1) })
    }

    pub fn forget(&mut self, track: TrackIndex, cylinder: u32) {
        if let Some(slot) = self.tracks.get_mut(track.get() as usize) {
            *slot = 0;
        }
        if let Some(slot) = self.cylinders.get_mut(cylinder as usize) {
            // The group's bound is stale only if this cylinder was the one that set it.
            let group = &mut self.groups[(cylinder / GROUP_CYLINDERS) as usize];
            if *group == *slot {
                *group = 0;
            }
            *slot = 0;
        }
    }

    /// Discards the bounds in `range`. Returns its cylinders, unless all bounds were discarded.
    pub fn forget_range(&mut self, layout: &Layout, range: LbnRange) -> Option<CylinderRange> {
        let few: Vec<TrackIndex> =
            layout.pieces(range).take(SINGLE_PIECES_MAX + 1).map(|p| p.track).collect();
        if few.len() > SINGLE_PIECES_MAX {
            // New tables rather than zeros written into the old ones: untouched memory costs nothing.
            *self = Self::new(layout);
            return None;
        }
        let mut span: Option<CylinderRange> = None;
        for track in few {
            let cylinder = layout.track(track).cylinder.get();
            self.forget(track, cylinder);
            // More is wanted now, so the group's old bound is invalid.
            if let Some(group) = self.groups.get_mut((cylinder / GROUP_CYLINDERS) as usize) {
                *group = 0;
            }
            let CylinderRange { first, last } =
                span.unwrap_or(CylinderRange { first: cylinder, last: cylinder });
            span = Some(CylinderRange { first: first.min(cylinder), last: last.max(cylinder) });
        }
        span
    }
}
