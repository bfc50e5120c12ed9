//! Upper bounds on the wanted sectors that one detour can reach: of each track, of each cylinder (the maximum of its tracks), and
//! of each group of cylinders (the maximum of its cylinders). A bound is computed when it is first needed.
//!
//! Taking blocks lowers the true value, so an old bound stays valid. A bound is discarded after blocks were taken there, so that
//! it becomes tight again, and after blocks were registered there, so that it becomes valid again. An unknown bound is zero in
//! the tables, so that untouched parts of a large drive's tables use no memory.

use alloc::vec;
use alloc::vec::Vec;
use model::Layout;
use units::{LbnRange, TrackIndex};

/// The number of look-ups of cylinders that cost as much as the examination of one track.
pub(crate) const LOOKUPS_PER_TRACK: u32 = 32;

/// The cost of computing the bound of a track, in look-ups.
pub(crate) const LOOKUPS_PER_BOUND: u32 = LOOKUPS_PER_TRACK / 4;

/// The number of cylinders in a group.
pub(crate) const GROUP_CYLINDERS: u32 = 16;

/// The bounds in a range of up to this many track pieces are discarded track by track; for a longer range all bounds are, which
/// costs less.
const SINGLE_PIECES_MAX: usize = 64;

/// The cylinders from `first` to `last`, both included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CylinderRange {
    pub first: u32,
    pub last: u32,
}

/// Returns whether no cylinder of a group yields more than `best` wanted sectors to several shares together; false if a bound is
/// unknown.
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
    /// The bound of each track plus one, or zero while it is unknown. The largest value stands for all larger bounds, too.
    tracks: Vec<u16>,
    /// The bound of each cylinder's best track plus one, or zero while it is unknown.
    cylinders: Vec<u32>,
    /// The bound of each group's best cylinder plus one, or zero while it is unknown.
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

    /// Returns whether a cylinder may yield more than `best` wanted sectors; true if its bound is unknown.
    #[inline]
    pub fn is_promising(&self, cylinder: u32, best: u32) -> bool {
        // Zero, which stands for an unknown bound, wraps to the largest number.
        self.cylinders.get(cylinder as usize).is_some_and(|bound| bound.wrapping_sub(1) > best)
    }

    /// Returns whether no cylinder of a group yields more than `best` wanted sectors; false if a bound is unknown.
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

    /// Returns the bound of a group, if it is known or can be computed from known bounds of cylinders.
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

    /// Returns the bound of a group and remembers it, if the bounds of all its cylinders are known.
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
            // The group's bound can become lower only if it is equal to this cylinder's.
            let group = &mut self.groups[(cylinder / GROUP_CYLINDERS) as usize];
            if *group == *slot {
                *group = 0;
            }
            *slot = 0;
        }
    }

    /// Discards the bounds in `range`. Returns the cylinders of the range; `None` if all bounds were discarded.
    pub fn forget_range(&mut self, layout: &Layout, range: LbnRange) -> Option<CylinderRange> {
        let few: Vec<TrackIndex> =
            layout.pieces(range).take(SINGLE_PIECES_MAX + 1).map(|p| p.track).collect();
        if few.len() > SINGLE_PIECES_MAX {
            // New tables use no memory until they are written to; zeroed old ones would.
            *self = Self::new(layout);
            return None;
        }
        let mut span: Option<CylinderRange> = None;
        for track in few {
            let cylinder = layout.track(track).cylinder.get();
            self.forget(track, cylinder);
            // More sectors are wanted now, so the group's old bound is invalid.
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
