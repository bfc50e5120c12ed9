//! Runs of tracks, and which of a long pattern are on a cylinder.

use alloc::vec;
use alloc::vec::Vec;
use units::Arc;

/// Patterns with fewer runs are searched linearly: two a head on a drive of 20 heads.
const RUNS_MIN: usize = 64;

/// The number of cylinders that share a list.
const GROUP_CYLINDERS: u32 = 16;

/// Consecutive tracks on one surface.
#[derive(Clone, Debug)]
pub(super) struct TrackRun {
    pub head: u16,
    /// The cylinder of the first track, relative to the repetition, without the shift.
    pub cylinder: u32,
    /// The number of cylinders by which the surface is shifted inward.
    pub shift: u32,
    pub outward: bool,
    /// The first track, relative to the repetition.
    pub first_track: u32,
    pub tracks: u32,
    /// The first place, relative to the repetition.
    pub first_place: u64,
    pub sectors: u32,
    /// The angle of sector 0 of the first track, relative to the repetition.
    pub angle: Arc,
    /// The skew from each track to the next.
    pub skew: Arc,
}

impl TrackRun {
    /// Returns the index of the run's track on `cylinder` (relative to the repetition).
    #[inline]
    pub(super) fn track_on(&self, cylinder: u32) -> Option<u32> {
        let along = if self.outward {
            self.cylinder.checked_sub(cylinder)?
        } else {
            cylinder.checked_sub(self.cylinder)?
        };
        (along < self.tracks).then_some(along)
    }

    /// Returns the first and the last cylinder, relative to the repetition.
    pub(super) fn span(&self) -> (u32, u32) {
        let (low, high) = if self.outward {
            (self.cylinder + 1 - self.tracks, self.cylinder)
        } else {
            (self.cylinder, self.cylinder + self.tracks - 1)
        };
        (low + self.shift, high + self.shift)
    }
}

/// For every [`GROUP_CYLINDERS`] cylinders of a repetition the runs that touch them, in LBN order.
#[derive(Clone, Debug)]
pub(super) struct RunIndex {
    /// The start of each group's list; one more entry at the end.
    starts: Vec<u32>,
    lists: Vec<u32>,
}

impl RunIndex {
    /// Returns `None` if a linear search is as fast, or if runs leave their repetition's cylinders.
    pub(super) fn new(runs: &[TrackRun], cylinders: u32) -> Option<Self> {
        if runs.len() < RUNS_MIN || runs.iter().any(|run| run.shift > 0) {
            return None;
        }
        let groups = cylinders.div_ceil(GROUP_CYLINDERS) as usize;
        let mut lists = vec![Vec::new(); groups];
        for (i, run) in runs.iter().enumerate() {
            let (low, high) = run.span();
            for list in lists
                .iter_mut()
                .take((high / GROUP_CYLINDERS) as usize + 1)
                .skip((low / GROUP_CYLINDERS) as usize)
            {
                list.push(i as u32);
            }
        }
        let mut starts = Vec::with_capacity(groups + 1);
        let mut next = 0;
        for list in &lists {
            starts.push(next);
            next += list.len() as u32;
        }
        starts.push(next);
        Some(Self { starts, lists: lists.concat() })
    }

    /// Returns the indices of the runs that may be on a cylinder of a repetition.
    #[inline]
    pub(super) fn near(&self, cylinder: u32) -> &[u32] {
        let group = (cylinder / GROUP_CYLINDERS) as usize;
        match self.starts.get(group..) {
            Some(&[from, to, ..]) => self.lists.get(from as usize..to as usize).unwrap_or_default(),
            _ => &[],
        }
    }
}
